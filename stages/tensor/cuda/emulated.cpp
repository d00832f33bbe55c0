// Runs the kernels of `kernels.cu` on the CPU, a thread at a time, and compares them with plain loops: the arithmetic is
// tested where there is no GPU. What only a GPU can show (speed, drivers) is not. `.ci/check-cuda-types` builds and runs it.

#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

struct Place {
    unsigned x, y;
};
static thread_local Place threadIdx;
static Place blockIdx, blockDim, gridDim;
static std::barrier<> *team;

#define __device__
#define __global__
#define __shared__ static
#define __syncthreads() team->arrive_and_wait()
#include "kernels.cu"

using Floats = std::vector<float>;

// Blocks one after the other; the threads of a block too, unless they sum `together`.
static void launch(unsigned blocks, unsigned lanes, unsigned threads, bool together, const std::function<void()> &kernel) {
    gridDim = {blocks, lanes};
    blockDim = {threads, 1};
    for (unsigned y = 0; y < lanes; y++) {
        for (unsigned x = 0; x < blocks; x++) {
            blockIdx = {x, y};
            std::barrier<> all(threads);
            team = &all;
            std::vector<std::thread> running;
            for (unsigned t = 0; t < threads; t++) {
                auto one = [&kernel, t] { threadIdx = {t, 0}, kernel(); };
                together ? running.emplace_back(one), void() : one();
            }
            for (auto &thread : running) thread.join();
        }
    }
}

static int failures = 0;

static void close(const char *what, const Floats &ours, const std::vector<double> &expected) {
    double worst = ours.size() == expected.size() ? 0.0 : INFINITY;
    for (size_t i = 0; i < ours.size() && i < expected.size(); i++) {
        worst = std::fmax(worst, std::abs(ours[i] - expected[i]) / (1.0 + std::abs(expected[i])));
        if (std::isnan(ours[i])) worst = INFINITY;
    }
    bool fine = worst < 2e-6;
    failures += !fine;
    std::printf("%s %s (%.1e)\n", fine ? "ok  " : "FAIL", what, worst);
}

static void holds(const char *what, bool fine) {
    failures += !fine;
    std::printf("%s %s\n", fine ? "ok  " : "FAIL", what);
}

static std::mt19937 generator(7);

static Floats normal(size_t size) {
    std::normal_distribution<float> draw;
    Floats values(size);
    for (auto &value : values) value = draw(generator);
    return values;
}

// Dimensions that share no factor with each other, the grid or a block.
const u32 LANES = 5, NODES = 37, FEATURES = 23, COLUMNS = 3;
const u64 EPOCH = 11;
const float SCALE = 1.0f / 0.75f;
const u32 QUARTER = 1u << 30;
static const std::vector<u64> keys = {3, 1ull << 63, 0, 5, 4};
#define QUARTER_DROPPED keys.data(), EPOCH, QUARTER, SCALE
#define NOTHING_DROPPED nullptr, EPOCH, 0, 1.0f

static double kept(u64 lane, u64 position) {
    return mask_of(lane, QUARTER_DROPPED).at(position);
}

// A sparse matrix by rows and by columns.
struct Matrix {
    std::vector<u32> starts{0}, indices, turned_starts{0}, turned_indices, places;
    Floats values, turned_values;

    Matrix(u32 rows, u32 columns) {
        for (u32 i = 0; i < rows; i++) {
            for (u32 j = 0; j < columns; j++) {
                // The first row is empty.
                if (i > 0 && generator() % 4 == 0) indices.push_back(j), values.push_back(normal(1)[0]);
            }
            starts.push_back(indices.size());
        }
        for (u32 j = 0; j < columns; j++) {
            for (u32 i = 0; i < rows; i++) {
                for (u32 e = starts[i]; e < starts[i + 1]; e++) {
                    if (indices[e] != j) continue;
                    turned_indices.push_back(i), turned_values.push_back(values[e]), places.push_back(e);
                }
            }
            turned_starts.push_back(turned_indices.size());
        }
    }
};

static void masks() {
    u32 entries = 200000;
    Mask mask = mask_of(0, QUARTER_DROPPED), next = mask_of(0, keys.data(), EPOCH + 1, QUARTER, SCALE);
    Mask other = mask_of(1, QUARTER_DROPPED);
    double dropped = 0, both_epochs = 0, both_lanes = 0, neighbours = 0;
    for (u64 i = 0; i < entries; i++) {
        bool gone = mask.at(i) == 0.0f;
        dropped += gone;
        both_epochs += gone && next.at(i) == 0.0f;
        both_lanes += gone && other.at(i) == 0.0f;
        neighbours += gone && mask.at(i + 1) == 0.0f;
    }
    // Four standard deviations.
    auto near = [&](double count, double p) { return std::abs(count / entries - p) < 4 * std::sqrt(p * (1 - p) / entries); };
    holds("a quarter is dropped", near(dropped, 0.25));
    holds("epochs are independent", near(both_epochs, 0.0625));
    holds("lanes are independent", near(both_lanes, 0.0625));
    holds("neighbours are independent", near(neighbours, 0.0625));
}

static void dropouts() {
    u64 size = NODES * COLUMNS;
    Floats x = normal(LANES * size), g = normal(LANES * size), out(x.size()), positive(x.size()), dx(x.size());
    x[4] = 0.0f;
    std::vector<double> expected, rectified, backward;
    for (u64 at = 0; at < x.size(); at++) {
        double m = kept(at / size, at % size);
        expected.push_back(x[at] * m);
        rectified.push_back(x[at] > 0 ? x[at] * m : 0);
        backward.push_back(x[at] > 0 ? g[at] * m : 0);
    }
    launch(2, LANES, 16, false, [&] { dropout(x.data(), QUARTER_DROPPED, size, out.data()); });
    close("dropout", out, expected);
    launch(2, LANES, 16, false, [&] { rectify(x.data(), QUARTER_DROPPED, size, positive.data()); });
    close("rectify", positive, rectified);
    launch(2, LANES, 16, false, [&] { rectify_backward(positive.data(), g.data(), SCALE, size, dx.data()); });
    close("rectify backward", dx, backward);
    launch(1, LANES, 16, false, [&] { dropout(x.data(), NOTHING_DROPPED, size, out.data()); });
    close("dropout of nothing", out, {x.begin(), x.end()});
}

static void products() {
    Matrix s(NODES, FEATURES);
    Floats z = normal(LANES * FEATURES * COLUMNS), y = normal(LANES * NODES * COLUMNS), out(y.size());
    std::vector<double> expected(y.size());
    for (u32 l = 0; l < LANES; l++)
        for (u32 i = 0; i < NODES; i++)
            for (u32 c = 0; c < COLUMNS; c++) {
                double sum = 0;
                for (u32 e = s.starts[i]; e < s.starts[i + 1]; e++)
                    sum += (double)s.values[e] * z[(l * FEATURES + s.indices[e]) * COLUMNS + c];
                u64 at = (l * NODES + i) * COLUMNS + c;
                expected[at] = 2.0 * sum - 0.5 * y[at];
            }
    launch(3, LANES, 16, false, [&] {
        spmm(s.starts.data(), s.indices.data(), s.values.data(), z.data(), y.data(), 2.0f, -0.5f, NODES, FEATURES, COLUMNS,
             out.data());
    });
    close("spmm", out, expected);
}

static void features() {
    Matrix x(NODES, FEATURES);
    Floats w = normal(LANES * FEATURES * COLUMNS), bias = normal(LANES * COLUMNS), g = normal(LANES * NODES * COLUMNS);
    Floats dense(NODES * FEATURES);
    Floats out(g.size()), dw(w.size());
    std::vector<double> of_sparse(g.size()), of_dense(g.size()), d_sparse(w.size()), d_dense(w.size());
    for (u32 l = 0; l < LANES; l++)
        for (u32 i = 0; i < NODES; i++)
            for (u32 c = 0; c < COLUMNS; c++) {
                u64 at = (l * NODES + i) * COLUMNS + c;
                of_sparse[at] = of_dense[at] = bias[l * COLUMNS + c];
                for (u32 e = x.starts[i]; e < x.starts[i + 1]; e++) {
                    u32 f = x.indices[e];
                    dense[i * FEATURES + f] = x.values[e];
                    u64 to = (l * FEATURES + f) * COLUMNS + c;
                    double by_entry = x.values[e] * kept(l, e), by_place = x.values[e] * kept(l, i * FEATURES + f);
                    of_sparse[at] += by_entry * w[to], of_dense[at] += by_place * w[to];
                    d_sparse[to] += by_entry * g[at], d_dense[to] += by_place * g[at];
                }
            }
    launch(3, LANES, 16, false, [&] {
        sparse_features(x.starts.data(), x.indices.data(), x.values.data(), w.data(), bias.data(), QUARTER_DROPPED, NODES,
                        FEATURES, COLUMNS, out.data());
    });
    close("sparse features", out, of_sparse);
    launch(3, LANES, 16, false, [&] {
        sparse_features_backward(x.turned_starts.data(), x.turned_indices.data(), x.turned_values.data(), x.places.data(),
                                 g.data(), QUARTER_DROPPED, NODES, FEATURES, COLUMNS, dw.data());
    });
    close("sparse features backward", dw, d_sparse);
    launch(3, LANES, 16, false, [&] {
        dense_features(dense.data(), w.data(), bias.data(), QUARTER_DROPPED, NODES, FEATURES, COLUMNS, out.data());
    });
    close("dense features", out, of_dense);
    launch(3, LANES, 16, false, [&] {
        dense_features_backward(dense.data(), g.data(), QUARTER_DROPPED, NODES, FEATURES, COLUMNS, dw.data());
    });
    close("dense features backward", dw, d_dense);
}

static void optimiser() {
    u64 size = 101;
    Floats w = normal(size), m(size), v(size);
    std::vector<double> expected(w.begin(), w.end()), first(size), second(size);
    double lr = 0.01, decay = 0.05;
    for (int t = 1; t <= 3; t++) {
        Floats g = normal(size);
        double unbias1 = 1 - std::pow(0.9, t), unbias2 = 1 - std::pow(0.999, t);
        for (u64 i = 0; i < size; i++) {
            double slope = g[i] + decay * expected[i];
            first[i] = 0.9 * first[i] + 0.1 * slope;
            second[i] = 0.999 * second[i] + 0.001 * slope * slope;
            expected[i] -= lr * first[i] / unbias1 / (std::sqrt(second[i] / unbias2) + 1e-8);
        }
        launch(2, 1, 16, false, [&] {
            adam(w.data(), m.data(), v.data(), g.data(), decay, 0.9f, 0.999f, 1e-8f, lr / unbias1, unbias2, size);
        });
    }
    close("adam", w, expected);
}

static void losses() {
    u32 nodes = 700, classes = 4, blocks = 2;
    Floats logits = normal(LANES * nodes * classes), weights(LANES), dz(logits.size());
    // Ties: the first of the largest is predicted.
    for (u32 at = 0; at < logits.size(); at += 3 * classes) logits[at + 1] = logits[at + 2] = 3.0f;
    std::vector<u32> labels(nodes);
    for (auto &label : labels) label = generator() % classes;
    std::vector<u8> inside(LANES * nodes);
    for (auto &in : inside) in = generator() % 3 == 0;
    std::vector<double> scores, means, gradient(logits.size());
    for (u32 l = 0; l < LANES; l++) {
        double loss = 0, right = 0, count = 0;
        for (u32 i = 0; i < nodes; i++) count += inside[l * nodes + i];
        weights[l] = 1 / count;
        for (u32 i = 0; i < nodes; i++) {
            if (!inside[l * nodes + i]) continue;
            const float *z = &logits[(l * nodes + i) * classes];
            double sum = 0;
            u32 best = 0;
            for (u32 k = 0; k < classes; k++) sum += std::exp((double)z[k]), best = z[k] > z[best] ? k : best;
            loss += std::log(sum) - z[labels[i]];
            right += best == labels[i];
            for (u32 k = 0; k < classes; k++)
                gradient[(l * nodes + i) * classes + k] = (std::exp((double)z[k]) / sum - (k == labels[i])) / count;
        }
        scores.insert(scores.end(), {loss, right});
        means.push_back(loss / count);
    }
    std::vector<double> partial(LANES * blocks * 2);
    Floats score(LANES * 2), mean(LANES);
    launch(blocks, LANES, TEAM, true, [&] {
        score_partials(logits.data(), labels.data(), inside.data(), nodes, classes, partial.data());
    });
    launch(1, 1, 16, false, [&] { score_fold(partial.data(), nullptr, blocks, LANES, 2, score.data()); });
    close("score", score, scores);
    launch(1, 1, 16, false, [&] { score_fold(partial.data(), weights.data(), blocks, LANES, 1, mean.data()); });
    close("cross-entropy", mean, means);
    launch(2, LANES, 16, false, [&] {
        cross_entropy_backward(logits.data(), labels.data(), inside.data(), weights.data(), nodes, classes, dz.data());
    });
    close("cross-entropy backward", dz, gradient);
}

int main() {
    masks();
    dropouts();
    products();
    features();
    optimiser();
    losses();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
