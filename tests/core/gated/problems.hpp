// Random problems of the gated and delta-rule family, and the oracle: the recurrence in Float64.
#pragma once

#include <cmath>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/gated/linear_attention.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"

namespace causeway::test {

inline const std::vector<std::string> modes{"recurrent", "chunkwise", "parallel"};

struct GatedCase {
    std::string update = "gated_delta";
    Index batch = 1, heads = 1, group = 1, N = 1, dk = 1, dv = 1;
    bool channels = false;  // a gate per key channel
    double gate = 0.1;      // gates are -gate · |normal|; Inf: a few of exactly -Inf among ordinary ones
    double beta_low = 0, beta_high = 1;
    double key_norm = 1;  // keys are scaled to it; 0: normal entries as drawn
    double scale = 1;
    bool state = true;  // starts from a random state
    unsigned seed = 1;

    bool gated() const { return update == "gated" || update == "gated_delta"; }
    bool delta() const { return update == "delta" || update == "gated_delta"; }
};

inline std::ostream& operator<<(std::ostream& out, const GatedCase& c) {
    return out << "update=" << c.update << " batch=" << c.batch << " heads=" << c.heads << " group=" << c.group
               << " N=" << c.N << " dk=" << c.dk << " dv=" << c.dv << " channels=" << c.channels << " gate=" << c.gate
               << " beta=[" << c.beta_low << "," << c.beta_high << "] key_norm=" << c.key_norm << " scale=" << c.scale
               << " state=" << c.state << " seed=" << c.seed;
}

// Every update, with a gate per head and, where it has a gate, per key channel; each with a seed of its own.
inline std::vector<GatedCase> each_update(GatedCase c) {
    std::vector<GatedCase> out;
    for (const char* update : {"linear", "gated", "delta", "gated_delta"}) {
        for (bool channels : {false, true}) {
            c.update = update, c.channels = channels, ++c.seed;
            if (!channels || c.gated()) out.push_back(c);
        }
    }
    return out;
}

struct GatedInputs {
    Tensor q, k, v;
    LinearOptions options;

    // The same numbers as another element type; exact where they came from a narrower one.
    GatedInputs to(DType type) const {
        GatedInputs out{q.to(type), k.to(type), v.to(type), options};
        const auto convert = [&](std::optional<Tensor>& A) {
            if (A) A = A->to(type);
        };
        convert(out.options.log_decay), convert(out.options.beta), convert(out.options.state);
        return out;
    }
};

// Every number is a Float32 (so that only the method's own error is measured), stored as Float64.
inline GatedInputs gated_inputs(const GatedCase& c) {
    std::mt19937_64 generator(c.seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const auto drawn = [&](const Shape& shape, auto&& f) {
        Tensor out(DType::f64, shape);
        for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(f()));
        return out;
    };
    const auto ordinary = [&] { return normal(generator); };
    GatedInputs in{drawn({c.batch, c.heads * c.group, c.N, c.dk}, ordinary),
                   drawn({c.batch, c.heads, c.N, c.dk}, ordinary),
                   drawn({c.batch, c.heads, c.N, c.dv}, ordinary),
                   {}};
    if (c.key_norm > 0) {
        for (Index row = 0; row < in.k.size() / std::max<Index>(c.dk, 1); ++row) {
            double square = 0;
            for (Index e = 0; e < c.dk; ++e) square += in.k.get(row * c.dk + e) * in.k.get(row * c.dk + e);
            for (Index e = 0; e < c.dk; ++e)
                in.k.set(row * c.dk + e, static_cast<float>(in.k.get(row * c.dk + e) * c.key_norm / std::sqrt(square)));
        }
    }
    in.options.update = c.update;
    in.options.scale = c.scale;
    if (c.gated()) {
        in.options.log_decay =
            drawn(c.channels ? Shape{c.batch, c.heads, c.N, c.dk} : Shape{c.batch, c.heads, c.N}, [&] {
                const double size = std::abs(normal(generator));
                if (std::isfinite(c.gate)) return -c.gate * size;
                return uniform(generator) < 0.05 ? -INFINITY : -0.1 * size;
            });
    }
    if (c.delta())
        in.options.beta = drawn({c.batch, c.heads, c.N},
                                [&] { return c.beta_low + (c.beta_high - c.beta_low) * uniform(generator); });
    if (c.state) in.options.state = drawn({c.batch, c.heads, c.dk, c.dv}, ordinary);
    return in;
}

// Indices [from, to) of a dimension.
inline Tensor slice(const Tensor& A, std::size_t dimension, Index from, Index to) {
    Box box;
    for (int i = 0; i < A.ndim(); ++i) box.count[static_cast<std::size_t>(i)] = A.shape()[i];
    box.first[dimension] = from;
    box.count[dimension] = to - from;
    return part(A, box);
}

// Tokens [from, to) of a tensor [b, h, N(, w)], or of all that has tokens.
inline Tensor tokens(const Tensor& A, Index from, Index to) { return slice(A, 2, from, to); }

inline GatedInputs tokens(const GatedInputs& in, Index from, Index to) {
    GatedInputs out{tokens(in.q, from, to), tokens(in.k, from, to), tokens(in.v, from, to), in.options};
    if (in.options.log_decay) out.options.log_decay = tokens(*in.options.log_decay, from, to);
    if (in.options.beta) out.options.beta = tokens(*in.options.beta, from, to);
    return out;
}

// The recurrence in Float64.
inline LinearResult oracle(const GatedInputs& in) {
    auto exact = in.to(DType::f64);
    exact.options.mode = "recurrent";
    return linear_attention(exact.q, exact.k, exact.v, exact.options);
}

// ||got - want||_F / ||want||_F; NaN where anything is NaN. 0 for a difference below the range of Float32: what a
// strong gate leaves of a state underflows there.
inline double relative_error(const Tensor& got, const Tensor& want) {
    if (got.shape() != want.shape()) return INFINITY;
    double difference = 0, size = 0;
    for (Index i = 0; i < want.size(); ++i) {
        difference += (got.get(i) - want.get(i)) * (got.get(i) - want.get(i));
        size += want.get(i) * want.get(i);
    }
    return std::sqrt(difference) < 1e-36 ? 0 : std::sqrt(difference / size);
}

}  // namespace causeway::test
