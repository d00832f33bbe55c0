// Kernels of training on a GPU. The files beside this one check the sizes and launch them (`launch.rs`).
//
// Tensors are f32, contiguous, lanes first: lanes × nodes × columns. A lane is one data split of a batch,
// with weights of its own.
//
// Every output is summed by one thread, or in a tree of fixed shape, in an order that follows from the data alone. There are
// no atomics, so the same inputs give the same bytes. `blockIdx.y` is the lane; within a lane
// threads walk in steps of the whole grid, so any number of blocks is right. What a kernel writes stands last among its
// arguments.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Threads of a block; a power of two. The emulation has fewer.
#ifndef TEAM
#define TEAM 256
#endif

// Walks over 0 … count − 1, shared by all threads with the same blockIdx.y.
#define EACH(i, count) \
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (count); i += (u64)gridDim.x * blockDim.x)

// ---- Dropout masks ----
//
// A mask is never stored. Whether the entry at a position survives follows from the key of the lane, the epoch and the
// position: forward and backward passes ask again and get the same answer. The numbers are those of SplitMix64, whose
// state starts at a mix of key and epoch; an entry is dropped if the upper half of its number is below the threshold.

struct Mask {
    u64 state;
    u32 threshold;
    float scale;

    __device__ float at(u64 position) const;
};

__device__ u64 mixed(u64 x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

// What the entry at a position is multiplied by: 0, or 1/(1−p).
__device__ float Mask::at(u64 position) const {
    if (threshold == 0) return 1.0f;
    u32 number = (u32)(mixed(state + (position + 1) * 0x9e3779b97f4a7c15ULL) >> 32);
    return number < threshold ? 0.0f : scale;
}

// The mask of a lane; without a threshold there are no keys.
__device__ Mask mask_of(u64 lane, const u64 *keys, u64 epoch, u32 threshold, float scale) {
    if (threshold == 0) return Mask{0, 0, 1.0f};
    return Mask{mixed(keys[lane] ^ mixed(epoch + 1)), threshold, scale};
}

#define MASKS const u64 *keys, u64 epoch, u32 threshold, float scale

// out = x ⊙ mask
extern "C" __global__ void dropout(const float *x, MASKS, u64 size, float *out) {
    u64 lane = blockIdx.y, first = lane * size;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    EACH(i, size) out[first + i] = x[first + i] * mask.at(i);
}

// out = max(x + b, 0) ⊙ mask, with b by columns if there is one
extern "C" __global__ void rectify(const float *x, const float *bias, MASKS, u64 size, u32 columns, float *out) {
    u64 lane = blockIdx.y, first = lane * size;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    EACH(i, size) {
        float value = bias ? x[first + i] + bias[lane * columns + i % columns] : x[first + i];
        // A comparison and not fmaxf, which would turn NaN into 0 and hide it.
        out[first + i] = value <= 0.0f ? 0.0f : value * mask.at(i);
    }
}

// dx = g where the result was positive, times the scale of the survivors
extern "C" __global__ void rectify_backward(const float *out, const float *g, float scale, u64 size, float *dx) {
    u64 first = blockIdx.y * size;
    EACH(i, size) dx[first + i] = out[first + i] > 0.0f ? g[first + i] * scale : 0.0f;
}

// out = ELU(x + b): x + b above 0, e^(x + b) − 1 elsewhere, with b by columns
extern "C" __global__ void elu(const float *x, const float *bias, u64 size, u32 columns, float *out) {
    u64 lane = blockIdx.y, first = lane * size;
    EACH(i, size) {
        float value = x[first + i] + bias[lane * columns + i % columns];
        out[first + i] = value > 0.0f ? value : expm1f(value);
    }
}

extern "C" __global__ void elu_backward(const float *x, const float *bias, const float *g, u64 size, u32 columns, float *dx) {
    u64 lane = blockIdx.y, first = lane * size;
    EACH(i, size) {
        float value = x[first + i] + bias[lane * columns + i % columns];
        dx[first + i] = value > 0.0f ? g[first + i] : g[first + i] * expf(value);
    }
}

// kept = now for those lanes from the first on whose bit is set, the lowest for the first
extern "C" __global__ void keep(const float *now, u64 marked, u32 first, u64 size, float *kept) {
    if ((marked >> blockIdx.y & 1) == 0) return;
    u64 begin = (first + blockIdx.y) * size;
    EACH(i, size) kept[begin + i] = now[begin + i];
}

// ---- Sums ----

// out = x + b, with b by columns
extern "C" __global__ void plus_bias(const float *x, const float *bias, u64 size, u32 columns, float *out) {
    u64 lane = blockIdx.y, first = lane * size;
    EACH(i, size) out[first + i] = x[first + i] + bias[lane * columns + i % columns];
}

// out = a x + b y
extern "C" __global__ void combine(const float *x, const float *y, float a, float b, u64 size, float *out) {
    EACH(i, size) out[i] = a * x[i] + b * y[i];
}

// out[l, p, :] = Σ over rows p·per … (p + 1)·per − 1 of x[l, row, :]
extern "C" __global__ void column_sums(const float *x, u64 rows, u32 columns, u64 per, float *out) {
    u64 pieces = (rows + per - 1) / per, size = pieces * columns;
    x += blockIdx.y * rows * columns;
    EACH(at, size) {
        u64 piece = at / columns, c = at % columns;
        u64 end = (piece + 1) * per < rows ? (piece + 1) * per : rows;
        double sum = 0.0;
        for (u64 row = piece * per; row < end; row++) sum += x[row * columns + c];
        out[blockIdx.y * size + at] = (float)sum;
    }
}

// Sums what the threads of a block hold; the first gets the sum. `shared` has TEAM places.
__device__ double sum_of_team(double own, double *shared) {
    u32 me = threadIdx.x;
    shared[me] = own;
    for (u32 half = TEAM / 2; half > 0; half /= 2) {
        __syncthreads();
        if (me < half) shared[me] += shared[me + half];
    }
    return shared[0];
}

// partial[l, at, block] = the block's share of ⟨x_l, y_l⟩; `partial` is lanes × terms × blocks
extern "C" __global__ void dot_partials(const float *x, const float *y, u64 size, u32 at, u32 terms, double *partial) {
    __shared__ double shared[TEAM];
    u64 first = blockIdx.y * size;
    double own = 0.0;
    EACH(i, size) own += (double)x[first + i] * y[first + i];
    double sum = sum_of_team(own, shared);
    if (threadIdx.x == 0) partial[((u64)blockIdx.y * terms + at) * gridDim.x + blockIdx.x] = sum;
}

// out[row] = Σ partial[row, :], one thread a row
extern "C" __global__ void fold(const double *partial, u32 blocks, u32 rows, float *out) {
    EACH(row, rows) {
        double sum = 0.0;
        for (u64 block = 0; block < blocks; block++) sum += partial[row * blocks + block];
        out[row] = (float)sum;
    }
}

// ---- Lanes side by side ----

// out[r, l, :] = main[l, r, :] for the first `lanes`, other[l − lanes, r, :] for as many behind them, if there is another
extern "C" __global__ void side_by_side(const float *main, const float *other, u32 lanes, u64 rows, u32 columns, float *out) {
    u64 all = other ? 2 * (u64)lanes : lanes, size = rows * all * columns;
    EACH(at, size) {
        u64 c = at % columns, l = at / columns % all, r = at / columns / all;
        out[at] = l < lanes ? main[(l * rows + r) * columns + c] : other[((l - lanes) * rows + r) * columns + c];
    }
}

// out[l, r, :] = x[r, first + l, :], where x has `all` lanes side by side
extern "C" __global__ void apart(const float *x, u32 first, u32 all, u64 rows, u32 columns, float *out) {
    u64 lane = blockIdx.y, size = rows * columns;
    EACH(at, size) {
        u64 r = at / columns, c = at % columns;
        out[lane * size + at] = x[(r * all + first + lane) * columns + c];
    }
}

// out[p, l, :] = h[l mod lanes, p] y[p, l, :], where y has `all` lanes side by side
extern "C" __global__ void scaled_pairs(const float *y, const float *h, u64 pairs, u32 lanes, u32 all, u32 columns, float *out) {
    u64 size = pairs * all * columns;
    EACH(at, size) {
        u64 l = at / columns % all, p = at / columns / all;
        out[at] = y[at] * h[l % lanes * pairs + p];
    }
}

// out[l, p] = ⟨t[p, l, :], y[p, l, :]⟩, where t has `lanes` lanes side by side and y has `all`
extern "C" __global__ void pair_dots(const float *t, const float *y, u64 pairs, u32 lanes, u32 all, u32 columns, float *out) {
    u64 l = blockIdx.y;
    EACH(p, pairs) {
        float sum = 0.0f;
        for (u32 c = 0; c < columns; c++) sum += t[(p * lanes + l) * columns + c] * y[(p * all + l) * columns + c];
        out[l * pairs + p] = sum;
    }
}

// ---- Products ----

// out[l, i, :] = Σ_j S_ij z[l, j, :], with S by rows
extern "C" __global__ void spmm(const u32 *starts, const u32 *indices, const float *values, const float *z, u64 rows, u64 inner,
                                u32 columns, float *out) {
    u64 size = rows * columns;
    z += blockIdx.y * inner * columns;
    EACH(at, size) {
        u64 i = at / columns, c = at % columns;
        float sum = 0.0f;
        for (u32 e = starts[i]; e < starts[i + 1]; e++) sum += values[e] * z[(u64)indices[e] * columns + c];
        out[blockIdx.y * size + at] = sum;
    }
}

// out[l, :] = c[l, at] z[l, :], where there are `terms` coefficients a lane
extern "C" __global__ void scaled_term(const float *z, const float *c, u32 at, u32 terms, u64 size, float *out) {
    u64 first = blockIdx.y * size;
    EACH(i, size) out[first + i] = c[blockIdx.y * terms + at] * z[first + i];
}

// hop = a S z + b y, for square S by rows; total += c[l, at] hop
extern "C" __global__ void hop(const u32 *starts, const u32 *indices, const float *values, const float *z, const float *y,
                               float a, float b, const float *c, u32 at, u32 terms, u64 rows, u32 columns, float *total,
                               float *hop) {
    u64 size = rows * columns, first = blockIdx.y * size;
    float factor = c[blockIdx.y * terms + at];
    EACH(i, size) {
        u64 row = i / columns, column = i % columns;
        float sum = 0.0f;
        for (u32 e = starts[row]; e < starts[row + 1]; e++) {
            sum += values[e] * z[first + (u64)indices[e] * columns + column];
        }
        sum *= a;
        if (b != 0.0f) sum += b * y[first + i];
        hop[first + i] = sum;
        total[first + i] += factor * sum;
    }
}

// out[l, i, :] = bias[l, :] + Σ_f m(l, i, f) x_if W[l, f, :], with X by rows; a mask position is the place of the entry
extern "C" __global__ void sparse_features(const u32 *starts, const u32 *indices, const float *values, const float *weights,
                                           const float *bias, MASKS, u64 rows, u64 features, u32 columns, float *out) {
    u64 lane = blockIdx.y, size = rows * columns;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    weights += lane * features * columns;
    EACH(at, size) {
        u64 i = at / columns, c = at % columns;
        float sum = bias ? bias[lane * columns + c] : 0.0f;
        for (u32 e = starts[i]; e < starts[i + 1]; e++) {
            float x = values[e] * mask.at(e);
            if (x != 0.0f) sum += x * weights[(u64)indices[e] * columns + c];
        }
        out[lane * size + at] = sum;
    }
}

// dW[l, f, :] = Σ_i m(l, i, f) x_if g[l, i, :], with X by columns; `places` says where an entry stands by rows
extern "C" __global__ void sparse_features_backward(const u32 *starts, const u32 *indices, const float *values,
                                                    const u32 *places, const float *g, MASKS, u64 rows, u64 features,
                                                    u32 columns, float *dw) {
    u64 lane = blockIdx.y, size = features * columns;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    g += lane * rows * columns;
    EACH(at, size) {
        u64 f = at / columns, c = at % columns;
        float sum = 0.0f;
        for (u32 e = starts[f]; e < starts[f + 1]; e++) {
            float x = values[e] * mask.at(places[e]);
            if (x != 0.0f) sum += x * g[(u64)indices[e] * columns + c];
        }
        dw[lane * size + at] = sum;
    }
}

// ---- Weights of entries ----
//
// Of a matrix whose pattern is symmetric, by rows: `rows` has the row of every entry, `mirrors` the place of the entry across.

// out[l, e] = tanh(a_i + b_j + c_l) S_ij m(e) for the entry e at (i, j); scores[l, i] = (a_i, b_i)
extern "C" __global__ void gates(const u32 *rows, const u32 *indices, const float *values, const float *scores,
                                 const float *shift, MASKS, u64 entries, u64 nodes, float *out) {
    u64 lane = blockIdx.y;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    scores += 2 * lane * nodes;
    EACH(e, entries) {
        float gate = tanhf(scores[2 * rows[e]] + scores[2 * indices[e] + 1] + shift[lane]);
        out[lane * entries + e] = gate * values[e] * mask.at(e);
    }
}

// out[l, i, :] = a y[l, i, :] + Σ_e w[l, e] x[l, j, :] over the entries of row i, or w where the mirrors are if there are any
extern "C" __global__ void weighted_rows(const u32 *starts, const u32 *indices, const u32 *mirrors, const float *weights,
                                         const float *x, const float *y, float a, u64 entries, u64 nodes, u32 columns,
                                         float *out) {
    u64 size = nodes * columns, first = blockIdx.y * size;
    weights += blockIdx.y * entries;
    EACH(at, size) {
        u64 i = at / columns, c = at % columns;
        float sum = 0.0f;
        for (u32 e = starts[i]; e < starts[i + 1]; e++) {
            sum += weights[mirrors ? mirrors[e] : e] * x[first + (u64)indices[e] * columns + c];
        }
        out[first + at] = y ? sum + a * y[first + at] : sum;
    }
}

// out[l, e] = the gradient of a_i + b_j + c through the entry e: (1 − tanh²) S_ij m(e) ⟨g_i, x_j⟩
extern "C" __global__ void gate_slopes(const u32 *rows, const u32 *indices, const float *values, const float *scores,
                                       const float *shift, const float *x, const float *g, MASKS, u64 entries, u64 nodes,
                                       u32 columns, float *out) {
    u64 lane = blockIdx.y, first = lane * nodes * columns;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    scores += 2 * lane * nodes;
    EACH(e, entries) {
        float gate = tanhf(scores[2 * rows[e]] + scores[2 * indices[e] + 1] + shift[lane]);
        const float *of_row = g + first + (u64)rows[e] * columns, *of_column = x + first + (u64)indices[e] * columns;
        float sum = 0.0f;
        for (u32 c = 0; c < columns; c++) sum += of_row[c] * of_column[c];
        out[lane * entries + e] = (1.0f - gate * gate) * values[e] * mask.at(e) * sum;
    }
}

// out[l, i, h, :] = (Σ s[l, e, h], Σ s[l, mirror of e, h]) over the entries e of row i
extern "C" __global__ void entry_sums(const u32 *starts, const u32 *mirrors, const float *slopes, u64 entries, u64 nodes,
                                      u32 heads, float *out) {
    u64 size = nodes * heads;
    slopes += blockIdx.y * entries * heads;
    EACH(at, size) {
        u64 i = at / heads, h = at % heads;
        double own = 0.0, other = 0.0;
        for (u32 e = starts[i]; e < starts[i + 1]; e++) {
            own += slopes[(u64)e * heads + h];
            other += slopes[(u64)mirrors[e] * heads + h];
        }
        out[2 * (blockIdx.y * size + at)] = (float)own;
        out[2 * (blockIdx.y * size + at) + 1] = (float)other;
    }
}

// ---- Attention ----
//
// q[l, i, f, h], one feature of all heads after the other. `ends` are two numbers of every node and head, l and r, of mixed scores
// (l_i + r_j) σ(⟨q_i, q_j⟩); without them scores are c ⟨q_i, q_j⟩. Both go through LeakyReLU. The mask of an entry and head has the
// place that it has on the CPU: groups of 16 heads, `side` places for an entry.

__device__ u64 place_of(u64 entry, u32 head, u64 entries, u32 side) {
    return head / 16 * entries * side + entry * side + head % 16;
}

// ends[l, i, h, :] = (⟨a_h, q_ih⟩, ⟨a'_h, q_ih⟩); vectors: lanes × (2 · features) × heads
extern "C" __global__ void attention_ends(const float *q, const float *vectors, u64 nodes, u32 features, u32 heads, float *ends) {
    u64 lane = blockIdx.y, size = nodes * heads;
    vectors += lane * 2 * features * heads;
    q += lane * size * features;
    EACH(at, size) {
        u64 i = at / heads, h = at % heads;
        float own = 0.0f, other = 0.0f;
        for (u64 f = 0; f < features; f++) {
            float x = q[(i * features + f) * heads + h];
            own += vectors[f * heads + h] * x;
            other += vectors[(features + f) * heads + h] * x;
        }
        ends[2 * (lane * size + at)] = own;
        ends[2 * (lane * size + at) + 1] = other;
    }
}

// out[l, e, h] = ⟨x_ih, y_jh⟩ m(e, h) · factor, where x has the values of all heads, or one for all of them (`shared`)
extern "C" __global__ void attention_dots(const u32 *rows, const u32 *indices, const float *x, const float *y, float factor,
                                          u32 shared, MASKS, u32 side, u64 entries, u64 nodes, u32 features, u32 heads,
                                          float *out) {
    u64 lane = blockIdx.y, size = entries * heads, width = (u64)features * heads;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    x += lane * nodes * (shared ? features : width);
    y += lane * nodes * width;
    EACH(at, size) {
        u64 e = at / heads;
        u32 h = at % heads;
        const float *of_row = shared ? x + (u64)rows[e] * features : x + rows[e] * width + h;
        const float *of_column = y + indices[e] * width + h;
        u32 step = shared ? 1 : heads;
        float sum = 0.0f;
        for (u64 f = 0; f < features; f++) sum += of_row[f * step] * of_column[f * heads];
        out[lane * size + at] = sum * factor * mask.at(place_of(e, h, entries, side));
    }
}

__device__ float leaky(float x) {
    return x > 0.0f ? x : 0.2f * x;
}

__device__ float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

// The score of an entry before LeakyReLU, from ⟨q_i, q_j⟩.
__device__ float score_of(const float *ends, u64 i, u64 j, u32 h, u32 heads, float c, float inner) {
    if (!ends) return c * inner;
    return (ends[2 * (i * heads + h)] + ends[2 * (j * heads + h) + 1]) * sigmoid(inner);
}

// weights[l, e, h] = softmax over the entries of row i of LeakyReLU(score); inner[l, e, h] = ⟨q_i, q_j⟩
extern "C" __global__ void attention_weights(const u32 *starts, const u32 *indices, const float *inner, const float *ends,
                                             float c, u64 entries, u64 nodes, u32 heads, float *weights) {
    u64 lane = blockIdx.y, size = nodes * heads;
    inner += lane * entries * heads;
    weights += lane * entries * heads;
    if (ends) ends += 2 * lane * size;
    EACH(at, size) {
        u64 i = at / heads;
        u32 h = at % heads;
        float most = 0.0f, sum = 0.0f;
        for (u64 e = starts[i]; e < starts[i + 1]; e++) {
            float score = leaky(score_of(ends, i, indices[e], h, heads, c, inner[e * heads + h]));
            weights[e * heads + h] = score;
            most = e == starts[i] || score > most ? score : most;
        }
        for (u64 e = starts[i]; e < starts[i + 1]; e++) {
            float power = expf(weights[e * heads + h] - most);
            weights[e * heads + h] = power;
            sum += power;
        }
        for (u64 e = starts[i]; e < starts[i + 1]; e++) weights[e * heads + h] /= sum;
    }
}

// out[l, i, f, h] = Σ_e m(e, h) w[l, e, h] q[l, j, f, h], or its mean over the heads, out[l, i, f], if they are `merged`
extern "C" __global__ void attention_sums(const u32 *starts, const u32 *indices, const float *weights, const float *q, MASKS,
                                          u32 side, u32 merged, u64 entries, u64 nodes, u32 features, u32 heads, float *out) {
    u64 lane = blockIdx.y, width = merged ? features : (u64)features * heads, size = nodes * width;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    weights += lane * entries * heads;
    q += lane * nodes * features * heads;
    EACH(at, size) {
        u64 i = at / width, f = merged ? at % width : at % width / heads;
        u32 first = merged ? 0 : at % heads, end = merged ? heads : first + 1;
        float sum = 0.0f;
        for (u32 h = first; h < end; h++) {
            for (u64 e = starts[i]; e < starts[i + 1]; e++) {
                float weight = weights[e * heads + h] * mask.at(place_of(e, h, entries, side));
                sum += weight * q[((u64)indices[e] * features + f) * heads + h];
            }
        }
        out[lane * size + at] = merged ? sum / (float)heads : sum;
    }
}

// From the gradients of the weights those of ⟨q_i, q_j⟩, and with ends those of l_i + r_j (`of_ends`; 0 without).
extern "C" __global__ void attention_slopes(const u32 *starts, const u32 *indices, const float *inner, const float *weights,
                                            const float *of_weights, const float *ends, float c, u64 entries, u64 nodes,
                                            u32 heads, float *of_inner, float *of_ends) {
    u64 lane = blockIdx.y, size = nodes * heads, first = lane * entries * heads;
    inner += first, weights += first, of_weights += first, of_inner += first, of_ends += first;
    if (ends) ends += 2 * lane * size;
    EACH(at, size) {
        u64 i = at / heads;
        u32 h = at % heads;
        float mean = 0.0f;
        for (u64 e = starts[i]; e < starts[i + 1]; e++) mean += weights[e * heads + h] * of_weights[e * heads + h];
        for (u64 e = starts[i]; e < starts[i + 1]; e++) {
            u64 place = e * heads + h;
            float score = score_of(ends, i, indices[e], h, heads, c, inner[place]);
            float slope = weights[place] * (of_weights[place] - mean) * (score > 0.0f ? 1.0f : 0.2f);
            of_inner[place] = ends ? slope * score * (1.0f - sigmoid(inner[place])) : slope * c;
            of_ends[place] = ends ? slope * sigmoid(inner[place]) : 0.0f;
        }
    }
}

// dq[l, i, f, h] = Σ_e (s[e] + s[mirror]) q_j + m(mirror) w[mirror] g_j, and through the ends a_h dl_i + a'_h dr_i
extern "C" __global__ void attention_backward(const u32 *starts, const u32 *indices, const u32 *mirrors, const float *slopes,
                                              const float *weights, const float *q, const float *g, const float *vectors,
                                              const float *of_ends, u32 merged, MASKS, u32 side, u64 entries, u64 nodes,
                                              u32 features, u32 heads, float *dq) {
    u64 lane = blockIdx.y, width = (u64)features * heads, size = nodes * width, of_g = merged ? features : width;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    slopes += lane * entries * heads, weights += lane * entries * heads;
    q += lane * size, g += lane * nodes * of_g;
    EACH(at, size) {
        u64 i = at / width, f = at % width / heads;
        u32 h = at % heads;
        float sum = 0.0f;
        for (u64 e = starts[i]; e < starts[i + 1]; e++) {
            u64 j = indices[e], across = mirrors[e];
            float slope = slopes[e * heads + h] + slopes[across * heads + h];
            float weight = weights[across * heads + h] * mask.at(place_of(across, h, entries, side));
            float gradient = merged ? g[j * of_g + f] / (float)heads : g[j * of_g + f * heads + h];
            sum += slope * q[(j * features + f) * heads + h] + weight * gradient;
        }
        if (vectors) {
            const float *both = vectors + lane * 2 * width, *end = of_ends + 2 * (lane * nodes + i) * heads + 2 * h;
            sum += both[f * heads + h] * end[0] + both[(features + f) * heads + h] * end[1];
        }
        dq[lane * size + at] = sum;
    }
}

// out[l, i, :] = (dl_ih q_ifh, dr_ih q_ifh), 2 · features · heads of them: what the gradient of the vectors sums over the nodes
extern "C" __global__ void attention_vectors(const float *q, const float *of_ends, u64 nodes, u32 features, u32 heads, float *out) {
    u64 width = (u64)features * heads, size = nodes * 2 * width;
    q += blockIdx.y * nodes * width;
    of_ends += 2 * blockIdx.y * nodes * heads;
    EACH(at, size) {
        u64 i = at / (2 * width), c = at % (2 * width), h = c % heads;
        out[blockIdx.y * size + at] = of_ends[2 * (i * heads + h) + c / width] * q[i * width + c % width];
    }
}

// ---- Pairs ----

// For pair p of a lane the loss of z = c ⟨q_i, q_j⟩ as the logit of an edge, and its slope σ(z) − y. counts[l]: edges, which come
// first, and all pairs; what is behind them is 0. pairs: lanes × most × 2.
extern "C" __global__ void pair_losses(const float *q, const u32 *pairs, const u32 *counts, float c, u64 most, u64 nodes,
                                       u32 columns, float *losses, float *slopes) {
    u64 lane = blockIdx.y;
    q += lane * nodes * columns;
    EACH(p, most) {
        u64 at = lane * most + p;
        losses[at] = slopes[at] = 0.0f;
        if (p >= counts[2 * lane + 1]) continue;
        const float *x = q + (u64)pairs[2 * at] * columns, *y = q + (u64)pairs[2 * at + 1] * columns;
        float z = 0.0f;
        for (u32 k = 0; k < columns; k++) z += x[k] * y[k];
        z *= c;
        bool edge = p < counts[2 * lane];
        float towards = edge ? -z : z;
        losses[at] = (towards > 0.0f ? towards : 0.0f) + log1pf(expf(-fabsf(towards)));
        slopes[at] = edge ? -sigmoid(-z) : sigmoid(z);
    }
}

// dq[l, i, :] = factors[l] Σ s[l, place] q[l, other, :] over the pairs that node i is an end of. starts: lanes × (nodes + 1);
// others and places: lanes × ends.
extern "C" __global__ void pair_backward(const u32 *starts, const u32 *others, const u32 *places, const float *slopes,
                                         const float *q, const float *factors, u64 ends, u64 most, u64 nodes, u32 columns,
                                         float *dq) {
    u64 lane = blockIdx.y, size = nodes * columns;
    starts += lane * (nodes + 1), others += lane * ends, places += lane * ends;
    slopes += lane * most, q += lane * size;
    EACH(at, size) {
        u64 i = at / columns, c = at % columns;
        float sum = 0.0f;
        for (u32 e = starts[i]; e < starts[i + 1]; e++) sum += slopes[places[e]] * q[(u64)others[e] * columns + c];
        dq[lane * size + at] = factors[lane] * sum;
    }
}

// ---- The optimiser ----

// Adam with coupled decay (`stages/optim/adam.rs` has the formula): step = lr/(1−β₁^t), unbias = 1−β₂^t
// and rest = 1−β, which single precision would make of β with an error of 10⁻⁵
extern "C" __global__ void adam(const float *g, float decay, float beta1, float rest1, float beta2, float rest2, float epsilon,
                                float step, float unbias, u64 size, float *w, float *m, float *v) {
    EACH(i, size) {
        float slope = g[i] + decay * w[i];
        m[i] = beta1 * m[i] + rest1 * slope;
        v[i] = beta2 * v[i] + rest2 * slope * slope;
        w[i] -= step * m[i] / (sqrtf(v[i] / unbias) + epsilon);
    }
}

// ---- Loss and accuracy ----

__device__ float largest(const float *logits, u32 classes) {
    float most = logits[0];
    for (u32 k = 1; k < classes; k++) most = logits[k] > most ? logits[k] : most;
    return most;
}

__device__ float sum_of_exponentials(const float *logits, u32 classes, float most) {
    float sum = 0.0f;
    for (u32 k = 0; k < classes; k++) sum += expf(logits[k] - most);
    return sum;
}

// For each block the sum of the cross-entropy and the number of right predictions over its share of the nodes in the part.
// Of classes with equal logits the first is predicted. `partial`: lanes × blocks × 2. Launched with TEAM threads.
extern "C" __global__ void score_partials(const float *logits, const u32 *labels, const u8 *inside, u64 nodes, u32 classes,
                                          double *partial) {
    __shared__ double losses[TEAM];
    __shared__ double rights[TEAM];
    double loss = 0.0, right = 0.0;
    EACH(i, nodes) {
        u64 at = blockIdx.y * nodes + i;
        if (!inside[at]) continue;
        const float *of_node = logits + at * classes;
        float most = largest(of_node, classes);
        u32 predicted = 0;
        while (predicted + 1 < classes && !(of_node[predicted] == most)) predicted++;
        loss += (double)(logf(sum_of_exponentials(of_node, classes, most)) - (of_node[labels[i]] - most));
        right += predicted == labels[i] ? 1.0 : 0.0;
    }
    loss = sum_of_team(loss, losses);
    right = sum_of_team(right, rights);
    if (threadIdx.x == 0) {
        u64 block = blockIdx.y * (u64)gridDim.x + blockIdx.x;
        partial[2 * block] = loss;
        partial[2 * block + 1] = right;
    }
}

// out[l, 0] = weights[l] Σ loss (no weights: 1), out[l, 1] = Σ right if `outputs` is 2. One thread a lane.
extern "C" __global__ void score_fold(const double *partial, const float *weights, u32 blocks, u32 lanes, u32 outputs,
                                      float *out) {
    EACH(lane, lanes) {
        double loss = 0.0, right = 0.0;
        for (u64 block = lane * blocks; block < (lane + 1) * blocks; block++) {
            loss += partial[2 * block];
            right += partial[2 * block + 1];
        }
        out[lane * outputs] = (float)(weights ? weights[lane] * loss : loss);
        if (outputs > 1) out[lane * outputs + 1] = (float)right;
    }
}

// dz[l, i, :] = weights[l] (softmax(z[l, i, :]) − one-hot(label_i)) for nodes in the part, else 0
extern "C" __global__ void cross_entropy_backward(const float *logits, const u32 *labels, const u8 *inside,
                                                  const float *weights, u64 nodes, u32 classes, float *dz) {
    u64 lane = blockIdx.y;
    float factor = weights[lane];
    EACH(i, nodes) {
        u64 at = lane * nodes + i;
        const float *of_node = logits + at * classes;
        float *out = dz + at * classes;
        if (!inside[at]) {
            for (u32 k = 0; k < classes; k++) out[k] = 0.0f;
            continue;
        }
        float most = largest(of_node, classes);
        float share = factor / sum_of_exponentials(of_node, classes, most);
        for (u32 k = 0; k < classes; k++) {
            out[k] = share * expf(of_node[k] - most) - (k == labels[i] ? factor : 0.0f);
        }
    }
}
