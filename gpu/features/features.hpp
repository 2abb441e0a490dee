// The feature maps of core/lowrank on the GPU: B and C with B Cᵀ ≈ exp(scale q kᵀ), or the map's own kernel. A row of B
// or C depends on its own token, and for the two random maps on one number for all tokens of a head that keeps the
// sizes of B and C alike. Linear attention takes B and C as its queries and keys.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// q, k: [batch, heads, N, d], b, c: [batch, heads, N, r]; k and c may be null: then b is made alone, as if k were q.
struct FeatureArgs {
    const void *q = nullptr, *k = nullptr;
    void *b = nullptr, *c = nullptr;
    Type type = Type::Float32, feature_type = Type::Float32;  // of q and k, of b and c
    std::int64_t batch = 1, heads = 1, N = 0;
    int d = 0, r = 0;
    Strides q_stride, k_stride, b_stride, c_stride;
    float scale = 1;  // > 0: q and k are multiplied by its root first
    const float* omega =
        nullptr;  // random maps, on the device: directions, contiguous [batch · heads, r, d] (rfa_features: r / 2)
    Workspace workspace;  // random maps: at least what random_features_workspace() says
};

// All throw Error naming what is wrong with the sizes. d from 1 to 256; N >= 0. Sums, exponentials and angles in
// Float32.

std::size_t random_features_workspace(const FeatureArgs&);  // bytes that favor_features and rfa_features need

// φ(x)_i = exp(ω_i·x - |x|²/2) / √r (Choromanski et al. 2021). O(N r d) a head.
struct FavorOptions {
    bool stabilised = true;  // B divided and C multiplied by one number for each head
    float* log_rows =
        nullptr;  // on the device, contiguous [batch, heads, N]; given: each row of B divided by its largest entry, its
                  // logarithm here, and C by its own (core's option `rows`); takes the products twice
};
void favor_features(const FeatureArgs&, const FavorOptions&, cudaStream_t);

// φ(x) = exp(|x|²/2) √(2/r) [cos ω_i·x, ..., sin ω_i·x, ...] (Rahimi and Recht 2007), r even. O(N r d) a head.
void rfa_features(const FeatureArgs&, cudaStream_t);

// φ(x) = [1, x, x_a²/√2, x_a x_b for a < b], row by row of a, r = 1 + d + d(d+1)/2; full: both x_a x_b and x_b x_a,
// times 1/√2, r = 1 + d + d² (Arora et al. 2024). O(N r) a head.
void taylor_features(const FeatureArgs&, bool full, cudaStream_t);

// φ(x) = softmax([x, -x]), or exp([x, -x]); r = 2d (Zhang et al. 2024). O(N d) a head.
void hedgehog_features(const FeatureArgs&, bool normalised, cudaStream_t);

// φ(x) = elu(x) + 1, which is e^x below 0 and x + 1 above (Katharopoulos et al. 2020), or max(x, 0); r = d. O(N d) a
// head.
enum class Pointwise { elu_plus_one, relu };
void pointwise_features(const FeatureArgs&, Pointwise, cudaStream_t);

}  // namespace causeway::gpu
