// Random decoding problems and the definition of their result in Float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>
#include <vector>

#include "core/distributed/decode.hpp"
#include "tests/catch.hpp"

namespace causeway::test {

struct DecodeCase {
    Index batch = 1, query_heads = 2, heads = 2, N = 1, M = 20, dk = 5, dv = 3;
    bool causal = false;
    double spread = 1;  // scores have about this size
    unsigned seed = 1;
};

inline std::ostream& operator<<(std::ostream& out, const DecodeCase& c) {
    return out << "batch=" << c.batch << " query_heads=" << c.query_heads << " heads=" << c.heads << " N=" << c.N
               << " M=" << c.M << " dk=" << c.dk << " dv=" << c.dv << " causal=" << c.causal << " spread=" << c.spread
               << " seed=" << c.seed;
}

struct DecodeInputs {
    Tensor q, k, v;
};

// Every number is a Float32, stored as Float64.
inline DecodeInputs decode_inputs(const DecodeCase& c) {
    std::mt19937_64 generator(c.seed);
    std::normal_distribution<double> normal;
    const auto drawn = [&](const Shape& shape, double size) {
        Tensor out(DType::f64, shape);
        for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(size * normal(generator)));
        return out;
    };
    return {drawn({c.batch, c.query_heads, c.N, c.dk}, c.spread), drawn({c.batch, c.heads, c.M, c.dk}, 1),
            drawn({c.batch, c.heads, c.M, c.dv}, 1)};
}

// softmax(scale q kᵀ) v, ln Σ e^{score}, and what bounds the rounding errors (claims H5, H11): weight = Σ P|v|,
// far = Σ P|v||score - largest score|, and the largest |score|. In extended precision where the machine has it.
struct DecodeOracle {
    std::vector<double> lse, weight, far;
    std::vector<long double> O;
    double largest_score = 0;

    DecodeOracle(const DecodeCase& c, const DecodeInputs& in, double scale) {
        for (Index r = 0; r < c.batch * c.query_heads * c.N; ++r) {
            const Index b = r / (c.query_heads * c.N), hq = r / c.N % c.query_heads,
                        h = b * c.heads + hq / (c.query_heads / c.heads);
            const Index seen = c.causal ? c.M - c.N + r % c.N + 1 : c.M;
            std::vector<long double> s(static_cast<std::size_t>(seen)), w(s.size());
            for (Index j = 0; j < seen; ++j) {
                long double sum = 0;
                for (Index i = 0; i < c.dk; ++i)
                    sum += static_cast<long double>(in.q.get(r * c.dk + i)) * in.k.get((h * c.M + j) * c.dk + i);
                s[static_cast<std::size_t>(j)] = scale * sum;
                largest_score = std::max(largest_score, static_cast<double>(std::abs(scale * sum)));
            }
            const long double m = *std::max_element(s.begin(), s.end());
            long double D = 0;
            for (std::size_t j = 0; j < s.size(); ++j) D += w[j] = std::exp(s[j] - m);
            lse.push_back(static_cast<double>(m + std::log(D)));
            for (Index i = 0; i < c.dv; ++i) {
                long double n = 0, absolute = 0, weighted = 0;
                for (std::size_t j = 0; j < s.size(); ++j) {
                    const long double x = w[j] * in.v.get((h * c.M + static_cast<Index>(j)) * c.dv + i);
                    n += x, absolute += std::abs(x), weighted += std::abs(x) * (m - s[j]);
                }
                O.push_back(n / D);
                weight.push_back(static_cast<double>(absolute / D));
                far.push_back(static_cast<double>(weighted / D));
            }
        }
    }

    // Largest error of an entry over u(mean · Σ P|v| + of_far · Σ P|v||ln w|); NaN where an entry is not a number.
    double share(const Tensor& got, double u, double mean, double of_far) const {
        double most = 0;
        for (std::size_t i = 0; i < O.size(); ++i) {
            const double e = static_cast<double>(std::abs(got.get(static_cast<Index>(i)) - O[i])) /
                             (u * (mean * weight[i] + of_far * far[i]) + 1e-300);
            if (!(e <= most)) most = e;
            if (e != e) return e;
        }
        return most;
    }
    // The same in roundings u of Σ P|v|.
    double roundings(const Tensor& got, double u) const { return share(got, u, 1, 0); }
};

}  // namespace causeway::test
