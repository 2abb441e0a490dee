// Random problems of the general rule, and the oracle: a plain loop over tokens in Float64.
#pragma once

#include <cmath>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/gated/general/general_linear_attention.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"

namespace causeway::test {

struct GeneralCase {
    Index batch = 1, heads = 1, group = 1, N = 1, dk = 1, dv = 1;
    Index gates = 2;        // 0: no a, 1: one a head, 2: one a row of the state
    bool erases = true;     // with u and w
    double log_a = 0.1;     // log a is -log_a · |normal|; Inf: a few of exactly 0 among ordinary ones
    bool signs = false;     // a of both signs
    double strength = 0.9;  // u and w are unit vectors of their own, u times as much as this
    Index shared_keys = 1, shared_factors = 1;  // states that share a head of k, and of a, u and w
    double scale = 1;
    bool state = true;
    unsigned seed = 1;
};

inline std::ostream& operator<<(std::ostream& out, const GeneralCase& c) {
    return out << "batch=" << c.batch << " heads=" << c.heads << " group=" << c.group << " N=" << c.N << " dk=" << c.dk
               << " dv=" << c.dv << " gates=" << c.gates << " erases=" << c.erases << " log_a=" << c.log_a
               << " signs=" << c.signs << " strength=" << c.strength << " shared=" << c.shared_keys << ","
               << c.shared_factors << " scale=" << c.scale << " state=" << c.state << " seed=" << c.seed;
}

struct GeneralInputs {
    Tensor q, k, v;
    GeneralOptions options;

    GeneralInputs to(DType type) const {
        GeneralInputs out{q.to(type), k.to(type), v.to(type), options};
        for (auto* A : {&out.options.a, &out.options.u, &out.options.w})
            if (*A) *A = (*A)->to(type);
        if (options.state) out.options.state = options.state->to(type == DType::f64 ? DType::f64 : DType::f32);
        return out;
    }
};

// Every number is a Float32, stored as Float64. k, u and w are unit vectors, so that the state stays bounded.
inline GeneralInputs general_inputs(const GeneralCase& c) {
    std::mt19937_64 generator(c.seed);
    std::normal_distribution<double> normal;
    const auto drawn = [&](const Shape& shape, auto&& f) {
        Tensor out(DType::f64, shape);
        for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(f()));
        return out;
    };
    const auto ordinary = [&] { return normal(generator); };
    const auto units = [&](const Shape& shape, double size) {
        Tensor out = drawn(shape, ordinary);
        const Index width = shape[shape.ndim() - 1];
        for (Index row = 0; width > 0 && row < out.size() / width; ++row) {
            double square = 0;
            for (Index e = 0; e < width; ++e) square += out.get(row * width + e) * out.get(row * width + e);
            for (Index e = 0; e < width; ++e)
                out.set(row * width + e, static_cast<float>(out.get(row * width + e) * size / std::sqrt(square)));
        }
        return out;
    };
    const Index shared = c.heads / c.shared_factors;
    GeneralInputs in{drawn({c.batch, c.heads * c.group, c.N, c.dk}, ordinary),
                     units({c.batch, c.heads / c.shared_keys, c.N, c.dk}, 1),
                     drawn({c.batch, c.heads, c.N, c.dv}, ordinary),
                     {}};
    in.options.scale = c.scale;
    if (c.gates > 0)
        in.options.a = drawn(c.gates == 2 ? Shape{c.batch, shared, c.N, c.dk} : Shape{c.batch, shared, c.N}, [&] {
            const double size = std::abs(normal(generator)), sign = c.signs && normal(generator) < 0 ? -1 : 1;
            if (std::isfinite(c.log_a)) return sign * std::exp(-c.log_a * size);
            return size < 0.1 ? 0.0 : sign * std::exp(-0.1 * size);
        });
    if (c.erases) {
        in.options.u = units({c.batch, shared, c.N, c.dk}, c.strength);
        in.options.w = units({c.batch, shared, c.N, c.dk}, 1);
        // On one side of w, u takes out what w reads and does not add to it.
        Tensor u = *in.options.u;
        for (Index row = 0; row < u.size() / std::max<Index>(c.dk, 1); ++row) {
            double product = 0;
            for (Index e = 0; e < c.dk; ++e) product += u.get(row * c.dk + e) * in.options.w->get(row * c.dk + e);
            for (Index e = 0; product < 0 && e < c.dk; ++e) u.set(row * c.dk + e, -u.get(row * c.dk + e));
        }
    }
    if (c.state) in.options.state = drawn({c.batch, c.heads, c.dk, c.dv}, ordinary);
    return in;
}

// S ← diag(a) S - u (Sᵀw)ᵀ + k vᵀ, o = scale · Sᵀq, an element at a time.
inline LinearResult plain_loop(const GeneralInputs& in) {
    const Index batch = in.v.shape()[0], heads = in.v.shape()[1], N = in.v.shape()[2], dv = in.v.shape()[3],
                dk = in.k.shape()[3], queries = in.q.shape()[1];
    LinearResult out{
        Tensor(DType::f64, {batch, std::max(queries, heads), N, dv}),
        in.options.state ? in.options.state->to(DType::f64).copy() : Tensor::zeros(DType::f64, {batch, heads, dk, dv}),
        {}};
    const auto row = [&](const Tensor& A, Index b, Index h, Index t) {
        const Index own = A.shape()[1];
        return (b * own + h / (heads / own)) * N + t;
    };
    for (Index b = 0; b < batch; ++b)
        for (Index h = 0; h < heads; ++h) {
            Tensor S = out.state;
            const Index first = (b * heads + h) * dk * dv;
            for (Index t = 0; t < N; ++t) {
                std::vector<double> y(static_cast<std::size_t>(dv), 0.0);
                for (Index j = 0; in.options.w && j < dv; ++j)
                    for (Index e = 0; e < dk; ++e)
                        y[static_cast<std::size_t>(j)] +=
                            in.options.w->get(row(*in.options.w, b, h, t) * dk + e) * S.get(first + e * dv + j);
                for (Index e = 0; e < dk; ++e)
                    for (Index j = 0; j < dv; ++j) {
                        double s = S.get(first + e * dv + j);
                        if (in.options.a) {
                            const Index at = row(*in.options.a, b, h, t);
                            s *= in.options.a->get(in.options.a->ndim() == 4 ? at * dk + e : at);
                        }
                        if (in.options.u)
                            s -= in.options.u->get(row(*in.options.u, b, h, t) * dk + e) *
                                 y[static_cast<std::size_t>(j)];
                        s += in.k.get(row(in.k, b, h, t) * dk + e) * in.v.get(row(in.v, b, h, t) * dv + j);
                        S.set(first + e * dv + j, s);
                    }
                const Index group = std::max<Index>(queries / heads, 1);
                for (Index i = 0; i < group; ++i) {
                    const Index reader = queries >= heads ? h * group + i : h / (heads / queries);
                    for (Index j = 0; j < dv; ++j) {
                        double o = 0;
                        for (Index e = 0; e < dk; ++e)
                            o += in.q.get(((b * queries + reader) * N + t) * dk + e) * S.get(first + e * dv + j);
                        out.O.set(((b * heads * group + h * group + i) * N + t) * dv + j, in.options.scale * o);
                    }
                }
            }
        }
    return out;
}

inline LinearResult run(const GeneralInputs& in, const std::string& mode, Index chunk = 32) {
    GeneralOptions o = in.options;
    o.mode = mode, o.chunk = chunk;
    return general_linear_attention(in.q, in.k, in.v, o);
}

inline double worst(const LinearResult& got, const LinearResult& want) {
    return std::max(relative_error(got.O, want.O), relative_error(got.state, want.state));
}

// With and without a and u, a of each kind.
inline std::vector<GeneralCase> each_kind(const GeneralCase& base) {
    std::vector<GeneralCase> out;
    for (Index gates : {0, 1, 2})
        for (bool erases : {false, true}) {
            GeneralCase c = base;
            c.gates = gates, c.erases = erases;
            out.push_back(c);
        }
    return out;
}

}  // namespace causeway::test
