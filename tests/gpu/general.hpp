// Calls of general_linear_attention on the CPU, and the same on the GPU.
#pragma once

#include "gpu/calls/general_linear_attention.hpp"
#include "tests/core/gated/general/problems.hpp"
#include "tests/gpu/device.hpp"
#include "tests/temporary.hpp"

namespace causeway::test::general {

using testing::message_of;

// Inputs as the GPU gets them: q, k, v in `type`, a in Float32, u and w in either.
struct OnGpu {
    GeneralInputs in;  // the numbers themselves, in Float64
    DType type, type_of_u = DType::f32;

    OnGpu(const GeneralInputs& given, DType t, bool all = false) : in(given), type(t), type_of_u(all ? t : DType::f32) {
        const auto rounded = [](const Tensor& x, DType to) { return x.to(to).to(DType::f64); };
        in.q = rounded(in.q, type), in.k = rounded(in.k, type), in.v = rounded(in.v, type);
        if (in.options.u) {
            in.options.u = rounded(*in.options.u, type_of_u), in.options.w = rounded(*in.options.w, type_of_u);
        }
    }
    gpu::GeneralOptions options(const std::string& mode) const {
        gpu::GeneralOptions o;
        const auto moved = [](const std::optional<Tensor>& x, DType t) {
            return x ? std::optional(gpu::Tensor(x->to(t))) : std::optional<gpu::Tensor>();
        };
        o.mode = mode, o.scale = in.options.scale;
        o.a = moved(in.options.a, DType::f32);
        o.u = moved(in.options.u, type_of_u), o.w = moved(in.options.w, type_of_u);
        o.state = moved(in.options.state, DType::f32);
        o.cu_seqlens = in.options.cu_seqlens, o.state_indices = in.options.state_indices;
        o.checkpoint_every = in.options.checkpoint_every, o.inplace = in.options.inplace;
        return o;
    }
    gpu::LinearResult run(const std::string& mode) const { return run(options(mode)); }
    gpu::LinearResult run(const gpu::GeneralOptions& o) const {
        const auto moved = [&](const Tensor& x) { return gpu::Tensor(x.to(type)); };
        return gpu::general_linear_attention(moved(in.q), moved(in.k), moved(in.v), o);
    }
    // Tokens from ... to - 1.
    OnGpu tokens(Index from, Index to) const {
        const auto some = [&](const Tensor& x) { return test::tokens(x, from, to); };
        OnGpu out = *this;
        out.in.q = some(in.q), out.in.k = some(in.k), out.in.v = some(in.v);
        for (auto* x : {&out.in.options.a, &out.in.options.u, &out.in.options.w})
            if (*x) *x = some(**x);
        return out;
    }
};

constexpr const char* modes[] = {"recurrent", "chunkwise"};

// Where `got` first is further from `want` than `most` of its usual element, for the eye; empty where nowhere.
inline std::string first_fault(const Tensor& got, const Tensor& want, double most) {
    if (got.shape() != want.shape()) return "shape " + got.shape().text() + ", expected " + want.shape().text();
    double square = 0;
    for (Index i = 0; i < want.size(); ++i) square += want.get(i) * want.get(i);
    const double usual = std::sqrt(square / std::max<double>(1, static_cast<double>(want.size())));
    Index found = 0, first = -1;
    for (Index i = 0; i < want.size(); ++i) {
        if (std::abs(got.get(i) - want.get(i)) <= 8 * most * (usual + std::abs(want.get(i)))) continue;
        if (first < 0) first = i;
        ++found;
    }
    if (first < 0) return {};
    std::string place;
    Index rest = first;
    for (int d = want.ndim() - 1; d >= 0; --d) {
        place = std::to_string(rest % want.shape()[d]) + " " + place;
        rest /= want.shape()[d];
    }
    return std::to_string(found) + " of " + std::to_string(want.size()) + " elements, first at " + place + ": " +
           std::to_string(got.get(first)) + ", expected " + std::to_string(want.get(first));
}

// Of relative_error: the sum's own error, and what rounding to 16 bits adds.
inline double bound(DType type, const std::string& mode) {
    if (type == DType::f32) return 1e-5;
    return type == DType::f16 ? 4e-4 : mode == "recurrent" ? 3e-3 : 8e-3;
}
inline double state_bound(DType type, const std::string& mode) {
    return type == DType::bf16 && mode == "chunkwise" ? 8e-3 : 1e-5;
}

inline void check_near(const Tensor& got, const Tensor& want, double most, const char* what) {
    const double error = relative_error(got, want);
    INFO(what << ": " << first_fault(got, want, most));
    CHECK(error <= most);
}

// The same with u = strength · w, of which no matrix diag(a) - u wᵀ with a from 0 to 1 enlarges anything: others may
// let what rounding to 16 bits adds grow without bound.
inline GeneralInputs steady(const GeneralInputs& in, double strength) {
    GeneralInputs out = in;
    if (!in.options.u) return out;
    out.options.u = in.options.w->copy();
    for (Index i = 0; i < out.options.u->size(); ++i)
        out.options.u->set(i, static_cast<float>(strength * in.options.w->get(i)));
    return out;
}

// Both modes are the plain loop.
inline void agrees(const GeneralCase& c, const GeneralInputs& given, DType type, bool all = false) {
    const OnGpu call(type == DType::bf16 ? steady(given, c.strength) : given, type, all);
    const LinearResult want = plain_loop(call.in);
    for (const std::string mode : modes) {
        CAPTURE(c, name(type), all, mode);
        const Poison poison;
        const gpu::LinearResult got = call.run(mode);
        check_near(got.O.cpu(), want.O, bound(type, mode), "O");
        check_near(got.state.cpu(), want.state, state_bound(type, mode), "state");
    }
}
inline void agrees(const GeneralCase& c, DType type, bool all = false) { agrees(c, general_inputs(c), type, all); }

}  // namespace causeway::test::general
