// Calls of linear_attention on the CPU and the same on the GPU, whole and sequence by sequence.
#pragma once

#include "gpu/calls/linear_attention.hpp"
#include "tests/core/gradient/problems.hpp"
#include "tests/gpu/gated.hpp"

namespace causeway::test::sequences {

constexpr const char* updates[] = {"linear", "gated", "delta", "gated_delta"};

// A call of the CPU, and the same for the GPU in 16 or 32 bits.
struct Problem {
    Tensor q, k, v;
    LinearOptions options;
    bool prefix = false;    // deterministic = "prefix" on the GPU too
    bool together = false;  // "run" there

    gpu::LinearOptions on_gpu() const {
        gpu::LinearOptions o;
        o.update = options.update, o.mode = options.mode, o.scale = options.scale;
        o.deterministic = prefix ? "prefix" : together ? "run" : "alone";
        if (options.log_decay) o.log_decay = gpu::Tensor(options.log_decay->to(DType::f32));
        if (options.beta) o.beta = gpu::Tensor(options.beta->to(DType::f32));
        if (options.state) o.state = gpu::Tensor(options.state->to(DType::f32));
        o.cu_seqlens = options.cu_seqlens, o.state_indices = options.state_indices;
        o.checkpoint_every = options.checkpoint_every, o.inplace = options.inplace;
        return o;
    }
};

// Queries and keys have length 1 on average; everything is what `type` has exactly.
inline Problem make(const char* update, bool channels, std::array<Index, 3> heads, Index N, Index dk, Index dv,
                    DType type, unsigned seed, Index batch = 1, Index states = 0) {
    const auto [hq, hk, h] = heads;
    const auto rounded = [&](Tensor x, double by) {
        for (Index i = 0; i < x.size(); ++i) x.set(i, x.get(i) * by);
        return x.to(type).to(DType::f64);
    };
    const double by = 1 / std::sqrt(static_cast<double>(dk));
    Problem c{rounded(random_tensor({batch, hq, N, dk}, seed), by),
              rounded(random_tensor({batch, hk, N, dk}, seed + 1), by),
              rounded(random_tensor({batch, h, N, dv}, seed + 2), 1),
              {}};
    c.options.update = update;
    const auto mapped = [](Tensor x, auto&& f) {
        for (Index i = 0; i < x.size(); ++i) x.set(i, static_cast<float>(f(x.get(i))));
        return x;
    };
    const Shape gates = channels ? Shape{batch, h, N, dk} : Shape{batch, h, N};
    if (gated::has_gate(gated::updates()[update].update))
        c.options.log_decay = mapped(random_tensor(gates, seed + 3), [](double x) { return -0.05 * x * x; });
    if (gated::has_delta(gated::updates()[update].update))
        c.options.beta =
            mapped(random_tensor({batch, h, N}, seed + 4), [](double x) { return 1 / (1 + std::exp(-x)); });
    c.options.state =
        mapped(random_tensor({states > 0 ? states : batch, h, dk, dv}, seed + 5), [](double x) { return 0.3 * x; });
    return c;
}

inline double bound(DType type) { return type == DType::f32 ? 2e-5 : 1e-2; }

inline gpu::Tensor moved(const Tensor& x, DType type) { return gpu::Tensor(x.to(type)); }

inline gpu::LinearResult run(const Problem& c, DType type, const gpu::LinearOptions& o) {
    return gpu::linear_attention(moved(c.q, type), moved(c.k, type), moved(c.v, type), o);
}

// Tokens first ... last - 1, of one packed sequence whose state is the i-th.
inline Problem part(const Problem& c, Index first, Index last, Index i) {
    Problem out = c;
    out.q = tokens(c.q, first, last), out.k = tokens(c.k, first, last), out.v = tokens(c.v, first, last);
    if (c.options.log_decay) out.options.log_decay = tokens(*c.options.log_decay, first, last);
    if (c.options.beta) out.options.beta = tokens(*c.options.beta, first, last);
    if (c.options.state) out.options.state = slice(*c.options.state, 0, i, i + 1);
    out.options.cu_seqlens.clear();
    return out;
}

inline std::vector<Index> offsets_of(const std::vector<Index>& tokens) {
    std::vector<Index> offsets{0};
    for (const Index n : tokens) offsets.push_back(offsets.back() + n);
    return offsets;
}

// Every sequence of the packed call has the bits of a call with it alone.
inline void check_alone(const Problem& c, DType type, const gpu::LinearResult& got) {
    const Tensor O = got.O.cpu(), state = got.state.cpu();
    const auto& offsets = c.options.cu_seqlens;
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        const auto at = static_cast<Index>(i);
        const Problem one = part(c, offsets[i], offsets[i + 1], at);
        const gpu::LinearResult alone = run(one, type, one.on_gpu());
        CAPTURE(i, offsets[i + 1] - offsets[i]);
        CHECK(same_bits(tokens(O, offsets[i], offsets[i + 1]), alone.O.cpu()));
        CHECK(same_bits(slice(state, 0, at, at + 1), alone.state.cpu()));
    }
}

}  // namespace causeway::test::sequences
