// Random problems of softmax attention, and the oracle: safe softmax by plain loops in Float64.
#pragma once

#include <cmath>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/softmax/softmax_attention.hpp"
#include "tests/core/exact/problems.hpp"

namespace causeway::test {

struct SoftmaxCase {
    Index batch = 1, heads = 1, group = 1, N = 1, M = 1, d = 1, dv = 1;
    bool causal = true;
    double size = 1;     // standard deviation of the queries
    bool whole = false;  // queries and keys are whole numbers: with scale 1 their products are exact
    unsigned seed = 1;
};

inline std::ostream& operator<<(std::ostream& out, const SoftmaxCase& c) {
    return out << "batch=" << c.batch << " heads=" << c.heads << " group=" << c.group << " N=" << c.N << " M=" << c.M
               << " d=" << c.d << " dv=" << c.dv << " causal=" << c.causal << " size=" << c.size << " whole=" << c.whole
               << " seed=" << c.seed;
}

struct SoftmaxInputs {
    Tensor q, k, v;
    SoftmaxOptions options;

    SoftmaxInputs to(DType type) const { return {q.to(type), k.to(type), v.to(type), options}; }
    SoftmaxResult run(const std::string& method = "flash") const {
        SoftmaxOptions o = options;
        o.method = method;
        return softmax_attention(q, k, v, o);
    }
};

// Every number is a Float32 (so that only the method's own error is measured), stored as Float64.
inline SoftmaxInputs softmax_inputs(const SoftmaxCase& c) {
    std::mt19937_64 generator(c.seed);
    std::normal_distribution<double> normal;
    const auto drawn = [&](const Shape& shape, double size, bool whole) {
        Tensor out(DType::f64, shape);
        for (Index i = 0; i < out.size(); ++i) {
            const double x = size * normal(generator);
            out.set(i, static_cast<float>(whole ? std::round(x) : x));
        }
        return out;
    };
    SoftmaxInputs in{drawn({c.batch, c.heads * c.group, c.N, c.d}, c.size, c.whole),
                     drawn({c.batch, c.heads, c.M, c.d}, c.whole ? 4 : 1, c.whole),
                     drawn({c.batch, c.heads, c.M, c.dv}, 1, false),
                     {}};
    in.options.causal = c.causal;
    if (c.whole) in.options.scale = 1;
    return in;
}

inline std::vector<double> values_of(const Tensor& A) {
    std::vector<double> out(static_cast<std::size_t>(A.size()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = A.get(static_cast<Index>(i));
    return out;
}

// Output and log-sum-exp, and what rounding may do to them. A score s_ij = scale·Σ q k carries d + 2 roundings of
// Σ|q||k|, which multiply its weight by e^{±error}; a sum of n weights n more, and with it the exponentials and
// rescalings.
struct SoftmaxOracle {
    Index rows, dv;
    std::vector<double> O, lse, slack, spread;  // slack: Σ_j |s|-error of the row; spread: Σ_j P |v|

    SoftmaxOracle(const SoftmaxCase& c, const SoftmaxInputs& in) : rows(c.batch * c.heads * c.group * c.N), dv(c.dv) {
        const double scale = in.options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<Index>(c.d, 1))));
        const auto q = values_of(in.q), k = values_of(in.k), v = values_of(in.v);
        const auto at = [](Index i, Index width, Index e) { return static_cast<std::size_t>(i * width + e); };
        for (Index row = 0; row < rows; ++row) {
            const Index head = row / (c.group * c.N), n = c.causal ? row % c.N + c.M - c.N + 1 : c.M;
            std::vector<double> s;
            double size = 0, m = -INFINITY, l = 0;
            for (Index j = 0; j < n; ++j) {
                double dot = 0, absolute = 0;
                for (Index e = 0; e < c.d; ++e) {
                    const double term = q[at(row, c.d, e)] * k[at(head * c.M + j, c.d, e)];
                    dot += term;
                    absolute += std::abs(term);
                }
                s.push_back(dot * scale);
                m = std::max(m, s.back());
                size = std::max(size, absolute * std::abs(scale));
            }
            std::vector<double> o(static_cast<std::size_t>(dv)), a(o);
            for (Index j = 0; j < n; ++j) {
                const double p = std::exp(s[static_cast<std::size_t>(j)] - m);
                l += p;
                for (std::size_t e = 0; e < o.size(); ++e) {
                    const double x = v[at(head * c.M + j, dv, static_cast<Index>(e))];
                    o[e] += p * x;
                    a[e] += p * std::abs(x);
                }
            }
            for (std::size_t e = 0; e < o.size(); ++e) {
                O.push_back(n > 0 ? o[e] / l : 0);
                spread.push_back(n > 0 ? a[e] / l : 0);
            }
            lse.push_back(m + std::log(l));
            // Whole numbers have exact scores.
            const double roundings = c.whole ? 0 : static_cast<double>(c.d) + 4;
            slack.push_back(3 * roundings * size + static_cast<double>(n) + 8 +
                            2 * std::log(static_cast<double>(n) + 1));
        }
    }

    // "" when the result agrees, else where it does not. NaN never agrees.
    std::string mismatch(const SoftmaxResult& got) const {
        const double u = got.lse.dtype() == DType::f64 ? std::ldexp(1.0, -53) : std::ldexp(1.0, -24);
        const double stored = got.O.dtype() == DType::f16    ? std::ldexp(1.0, -11)
                              : got.O.dtype() == DType::bf16 ? std::ldexp(1.0, -8)
                                                             : 0;
        const double tiny = u < 1e-10 ? 1e-300 : got.O.dtype() == DType::f16 ? 1e-7 : 1e-36;
        if (got.O.size() != rows * dv || got.lse.size() != rows)
            return "sizes " + got.O.summary() + ", " + got.lse.summary();
        for (Index row = 0; row < rows; ++row) {
            const auto at = static_cast<std::size_t>(row);
            const double allowed = u * slack[at];
            const double lse_allowed = allowed + 4 * u * std::abs(lse[at]);
            if (!(got.lse.get(row) == lse[at] || std::abs(got.lse.get(row) - lse[at]) <= lse_allowed))
                return sentence("lse of row ", row, ": ", got.lse.get(row), ", expected ", lse[at], " within ",
                                lse_allowed);
            for (Index e = 0; e < dv; ++e) {
                const auto i = at * static_cast<std::size_t>(dv) + static_cast<std::size_t>(e);
                const double bound = 2 * std::expm1(allowed) * spread[i] + stored * std::abs(O[i]) + tiny;
                if (!(std::abs(got.O.get(row * dv + e) - O[i]) <= bound))
                    return sentence("row ", row, " column ", e, ": got ", got.O.get(row * dv + e), ", expected ", O[i],
                                    " within ", bound);
            }
        }
        return "";
    }
};

}  // namespace causeway::test
