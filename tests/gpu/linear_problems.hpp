// Problems of causal linear attention for the GPU: inputs on both sides, any layout, and how far outputs may be off.
#pragma once

#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/exact/problem.hpp"
#include "gpu/tensor/tensor.hpp"
#include "tests/gpu/device.hpp"

namespace causeway::test {

struct GpuCase {
    DType type = DType::bf16;
    Index B = 1, H = 1, N = 1, r = 128, d = 128;
    std::vector<double> gamma = {};  // one per head; empty: the 0-1 mask
    bool token_major = false;        // [B, N, H, width] in memory
    Index pad = 0;                   // unused columns between rows
    int splits = 0;
    gpu::Precision precision = gpu::Precision::bf16x3;
};

inline std::ostream& operator<<(std::ostream& out, const GpuCase& c) {
    out << name(c.type) << " B=" << c.B << " H=" << c.H << " N=" << c.N << " r=" << c.r << " d=" << c.d << " gamma={";
    for (double gamma : c.gamma) out << gamma << " ";
    return out << "} token_major=" << c.token_major << " pad=" << c.pad << " splits=" << c.splits
               << " precision=" << static_cast<int>(c.precision);
}

// Normal numbers of standard deviation `scale`, rounded to the type: [B, H, N, width].
inline Tensor normal_inputs(const GpuCase& c, Index width, double scale, unsigned seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal(0, scale);
    Tensor x(c.type, {c.B, c.H, c.N, width});
    for (Index i = 0; i < x.size(); ++i) x.set(i, normal(generator));
    return x;
}

inline gpu::Strides strides_of(const GpuCase& c, Index width) {
    const Index w = width + c.pad;
    if (c.token_major) return {c.N * c.H * w, w, c.H * w};
    return {c.H * c.N * w, c.N * w, w};
}

// [B, H, N, width] in the GPU's memory as the case lays it out; NaN between the rows, and in the rows too where there
// is no `x`.
struct Laid {
    const GpuCase c;
    Index width;
    gpu::Tensor memory;

    Laid(const GpuCase& problem, Index columns, const Tensor* x = nullptr) : c(problem), width(columns) {
        Tensor host =
            Tensor::full(c.type, {c.B * c.H * c.N * (width + c.pad)}, std::numeric_limits<double>::quiet_NaN());
        if (x) each([&](Index flat, Index at) { host.set(at, x->get(flat)); });
        memory = gpu::Tensor(host);
    }
    Laid(const GpuCase& problem, const Tensor& x) : Laid(problem, x.shape().back(), &x) {}

    template <class F>
    void each(const F& f) const {
        const gpu::Strides s = strides_of(c, width);
        Index flat = 0;
        for (Index b = 0; b < c.B; ++b)
            for (Index h = 0; h < c.H; ++h)
                for (Index t = 0; t < c.N; ++t)
                    for (Index j = 0; j < width; ++j) f(flat++, b * s.batch + h * s.head + t * s.token + j);
    }
    // After all work of `stream`. Fails the test where something was written between the rows.
    Tensor read(cudaStream_t stream) const {
        const Tensor host = memory.cpu(stream);
        Tensor x(c.type, {c.B, c.H, c.N, width});
        std::vector<bool> inside(static_cast<std::size_t>(host.size()), false);
        each([&](Index flat, Index at) {
            x.set(flat, host.get(at));
            inside[static_cast<std::size_t>(at)] = true;
        });
        Index written = 0;
        for (Index i = 0; i < host.size(); ++i)
            written += !inside[static_cast<std::size_t>(i)] && !std::isnan(host.get(i));
        CHECK(written == 0);
        return x;
    }
};

// ‖x - y‖ / max(‖y‖, least); NaN where x has one.
inline double relative_error(const Tensor& x, const Tensor& y, double least = 0) {
    REQUIRE(x.size() == y.size());
    double error = 0, norm = 0;
    for (Index i = 0; i < x.size(); ++i) {
        const double e = x.get(i) - y.get(i);
        error += e * e, norm += y.get(i) * y.get(i);
    }
    norm = std::max(norm, least * least);
    return norm > 0 ? std::sqrt(error / norm) : error > 0 ? std::numeric_limits<double>::infinity() : std::sqrt(error);
}

// What outputs have at least where a token's own score is neither large nor small: sqrt(Σ ‖q_i‖² ‖k_i‖² ‖v_i‖² / width
// of q).
inline double own_terms(const Tensor& q, const Tensor& k, const Tensor& v) {
    const Index r = q.shape().back(), d = v.shape().back();
    double sum = 0;
    for (Index i = 0; i < q.size() / r; ++i) {
        double q2 = 0, k2 = 0, v2 = 0;
        for (Index j = 0; j < r; ++j)
            q2 += q.get(i * r + j) * q.get(i * r + j), k2 += k.get(i * r + j) * k.get(i * r + j);
        for (Index j = 0; j < d; ++j) v2 += v.get(i * d + j) * v.get(i * d + j);
        sum += q2 * k2 * v2 / static_cast<double>(r);
    }
    return std::sqrt(sum);
}

// Relative, of the whole output: rounding of the operands of the products, and of the output. Few numbers may all be
// rounded by the most, once as a score and once as an output; over many it is the root mean square that counts.
inline double allowed(const GpuCase& c) {
    const double few = c.N * c.B * c.H * std::min(c.r, c.d) < 4096 ? 2.2 : 1;
    if (c.type == DType::f32) return few * (c.precision == gpu::Precision::exact ? 6e-6 : 1e-5);
    return few * (c.type == DType::bf16 ? 3.5e-3 : 4.5e-4);
}

inline CausalOptions options_of(const GpuCase& c) {
    CausalOptions options;
    options.method = "block-based";
    options.decay = c.gamma;
    return options;
}

}  // namespace causeway::test
