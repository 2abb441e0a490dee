// Random problems of causal linear attention with their oracle.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "core/exact/vanilla.hpp"
#include "tests/catch.hpp"

namespace causeway::test {

using exact::Method;

// While alive, every new tensor and scratch is filled with NaN: what is not written, or read before, shows itself.
struct Poison {
    Poison() { memory::set_poison(true); }
    ~Poison() { memory::set_poison(false); }
};

struct Case {
    Index batch, heads, N, r, d;
    std::vector<double> decay;
    bool normalize = false;
    unsigned seed = 1;
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
    out << "batch=" << c.batch << " heads=" << c.heads << " N=" << c.N << " r=" << c.r << " d=" << c.d << " decay={";
    for (double gamma : c.decay) out << gamma << " ";
    return out << "} normalize=" << c.normalize << " seed=" << c.seed;
}

struct Inputs {
    Tensor B, C, V;
};

// Normal numbers, both signs; their absolute value plus 0.1 where rows are divided by their sum. Values are exact in
// Float32, so that only the method's own error is measured.
inline Inputs inputs(const Case& c, DType type) {
    std::mt19937_64 generator(c.seed);
    std::normal_distribution<double> normal;
    const auto fill = [&](Index width, bool positive) {
        Tensor out(type, {c.batch, c.heads, c.N, width});
        for (Index i = 0; i < out.size(); ++i) {
            const double x = normal(generator);
            out.set(i, static_cast<float>(positive ? std::abs(x) + 0.1 : x));
        }
        return out;
    };
    return {fill(c.r, c.normalize), fill(c.r, c.normalize), fill(c.d, false)};
}

// The definition in Float64, and Π = (|B||C|ᵀ ⊙ M)|V|, which bounds the rounding errors entrywise (claims B7); with
// normalize P and D are kept apart as the columns of V' = [V, 1].
struct Oracle {
    Case c;
    std::vector<double> P, Pi;  // [batch·heads, N, d + 1]

    Oracle(const Case& problem, const Inputs& in) : c(problem) {
        P = product(in, false);
        Pi = product(in, true);
    }

    std::vector<double> product(const Inputs& in, bool absolute) const {
        const Index wide = c.d + 1;
        std::vector<double> out(static_cast<std::size_t>(c.batch * c.heads * c.N * wide));
        const auto values = [&](const Tensor& A) {
            std::vector<double> x(static_cast<std::size_t>(A.size()));
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] = absolute ? std::abs(A.get(static_cast<Index>(i))) : A.get(static_cast<Index>(i));
            return x;
        };
        const auto b = values(in.B), k = values(in.C), v = values(in.V);
        std::vector<double> ones(static_cast<std::size_t>(c.N * wide));
        for (Index h = 0; h < c.batch * c.heads; ++h) {
            for (Index i = 0; i < c.N; ++i) {
                for (Index j = 0; j < c.d; ++j)
                    ones[static_cast<std::size_t>(i * wide + j)] = v[static_cast<std::size_t>((h * c.N + i) * c.d + j)];
                ones[static_cast<std::size_t>(i * wide + c.d)] = 1;
            }
            const double gamma = c.decay.empty()       ? 1
                                 : c.decay.size() == 1 ? c.decay[0]
                                                       : c.decay[static_cast<std::size_t>(h % c.heads)];
            exact::definition<double>({{b.data() + h * c.N * c.r, c.N, c.r},
                                       {k.data() + h * c.N * c.r, c.N, c.r},
                                       {ones.data(), c.N, wide},
                                       {out.data() + h * c.N * wide, c.N, wide},
                                       gamma,
                                       nullptr});
        }
        return out;
    }

    double expected(Index row, Index column) const {
        const auto at = static_cast<std::size_t>(row * (c.d + 1));
        const double p = P[at + static_cast<std::size_t>(column)];
        return c.normalize ? p / P[at + static_cast<std::size_t>(c.d)] : p;
    }

    // Allowed error: k u Π with k = 2N + r + 16 roundings (2N: sums and powers of γ), or more where the method has
    // more, plus a few of the smallest numbers.
    double bound(Index row, Index column, DType type, double roundings = 0) const {
        const double u = type == DType::f64 ? std::ldexp(1.0, -53) : std::ldexp(1.0, -24);
        const double tiny = type == DType::f64 ? 0 : 1e-37;
        const auto at = static_cast<std::size_t>(row * (c.d + 1));
        const double k = std::max(2.0 * static_cast<double>(c.N) + static_cast<double>(c.r) + 16, roundings);
        const double pi = Pi[at + static_cast<std::size_t>(column)];
        if (!c.normalize) return k * u * pi + tiny;
        // P / D with D > 0: the errors of both, |P|/D <= Π/D.
        return 2 * k * u * pi / P[at + static_cast<std::size_t>(c.d)] + tiny;
    }

    // "" when O agrees, else where and by how much not. NaN never agrees.
    std::string mismatch(const Tensor& O, double roundings = 0) const {
        const Index rows = c.batch * c.heads * c.N;
        if (O.size() != rows * c.d) return "output has " + O.summary();
        for (Index row = 0; row < rows; ++row) {
            for (Index column = 0; column < c.d; ++column) {
                const double got = O.get(row * c.d + column), want = expected(row, column);
                if (!(std::abs(got - want) <= bound(row, column, O.dtype(), roundings))) {
                    return sentence("row ", row, " column ", column, ": got ", got, ", expected ", want, " within ",
                                    bound(row, column, O.dtype(), roundings));
                }
            }
        }
        return "";
    }

    // Of this method, with its own block length.
    std::string mismatch(const Tensor& O, const Method& m) const {
        const bool sums = c.N > 0 && c.r > 0 && c.d > 0;
        return mismatch(O, sums ? static_cast<double>(exact::roundings(m, {c.N, c.r, c.d})) : 0);
    }
};

inline CausalOptions options(const Case& c, const std::string& method) {
    CausalOptions o;
    o.method = method;
    o.decay = c.decay;
    o.normalize = c.normalize;
    return o;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && a.dtype() == b.dtype() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace causeway::test
