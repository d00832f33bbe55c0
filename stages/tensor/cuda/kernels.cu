// Kernels of training on a GPU. `stages/tensor/cuda.rs` launches them and checks the sizes.
//
// Tensors are f32, contiguous, lanes first: lanes × nodes × columns. A lane is one data split of a batch,
// with weights of its own.
//
// Every output is summed by one thread, or in a tree of fixed shape, in an order that follows from the data alone. There are
// no atomics, so the same inputs give the same bytes. `blockIdx.y` is the lane; within a lane
// threads walk in steps of the whole grid, so any number of blocks is right.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Threads of a block where they sum together; a power of two.
#define TEAM 256

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

// out = max(x, 0) ⊙ mask
extern "C" __global__ void rectify(const float *x, MASKS, u64 size, float *out) {
    u64 lane = blockIdx.y, first = lane * size;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    EACH(i, size) {
        float value = x[first + i];
        // A comparison and not fmaxf, which would turn NaN into 0 and hide it.
        out[first + i] = value <= 0.0f ? 0.0f : value * mask.at(i);
    }
}

// dx = g where the result was positive, times the scale of the survivors
extern "C" __global__ void rectify_backward(const float *out, const float *g, float scale, u64 size, float *dx) {
    u64 first = blockIdx.y * size;
    EACH(i, size) dx[first + i] = out[first + i] > 0.0f ? g[first + i] * scale : 0.0f;
}

// ---- Products ----

// out[l, i, :] = a Σ_j S_ij z[l, j, :] + b y[l, i, :], with S by rows
extern "C" __global__ void spmm(const u32 *starts, const u32 *indices, const float *values, const float *z, const float *y,
                                float a, float b, u64 rows, u64 inner, u32 columns, float *out) {
    u64 size = rows * columns, first = blockIdx.y * size;
    z += blockIdx.y * inner * columns;
    EACH(at, size) {
        u64 i = at / columns, c = at % columns;
        float sum = 0.0f;
        for (u32 e = starts[i]; e < starts[i + 1]; e++) sum += values[e] * z[(u64)indices[e] * columns + c];
        sum *= a;
        out[first + at] = b == 0.0f ? sum : sum + b * y[first + at];
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

// The same with X dense, rows × features; a mask position is i · features + f
extern "C" __global__ void dense_features(const float *x, const float *weights, const float *bias, MASKS, u64 rows,
                                          u64 features, u32 columns, float *out) {
    u64 lane = blockIdx.y, size = rows * columns;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    weights += lane * features * columns;
    EACH(at, size) {
        u64 i = at / columns, c = at % columns;
        float sum = bias ? bias[lane * columns + c] : 0.0f;
        for (u64 f = 0; f < features; f++) {
            u64 place = i * features + f;
            sum += x[place] * mask.at(place) * weights[f * columns + c];
        }
        out[lane * size + at] = sum;
    }
}

extern "C" __global__ void dense_features_backward(const float *x, const float *g, MASKS, u64 rows, u64 features, u32 columns,
                                                   float *dw) {
    u64 lane = blockIdx.y, size = features * columns;
    Mask mask = mask_of(lane, keys, epoch, threshold, scale);
    g += lane * rows * columns;
    EACH(at, size) {
        u64 f = at / columns, c = at % columns;
        float sum = 0.0f;
        for (u64 i = 0; i < rows; i++) {
            u64 place = i * features + f;
            sum += x[place] * mask.at(place) * g[i * columns + c];
        }
        dw[lane * size + at] = sum;
    }
}

// ---- The optimiser ----

// Adam with coupled decay (`stages/optim/adam.rs` has the formula): step = lr/(1−β₁^t), unbias = 1−β₂^t
extern "C" __global__ void adam(float *w, float *m, float *v, const float *g, float decay, float beta1, float beta2,
                                float epsilon, float step, float unbias, u64 size) {
    EACH(i, size) {
        float slope = g[i] + decay * w[i];
        m[i] = beta1 * m[i] + (1.0f - beta1) * slope;
        v[i] = beta2 * v[i] + (1.0f - beta2) * slope * slope;
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
    u32 me = threadIdx.x;
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
    losses[me] = loss;
    rights[me] = right;
    for (u32 half = TEAM / 2; half > 0; half /= 2) {
        __syncthreads();
        if (me < half) {
            losses[me] += losses[me + half];
            rights[me] += rights[me + half];
        }
    }
    if (me == 0) {
        u64 block = blockIdx.y * (u64)gridDim.x + blockIdx.x;
        partial[2 * block] = losses[0];
        partial[2 * block + 1] = rights[0];
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
