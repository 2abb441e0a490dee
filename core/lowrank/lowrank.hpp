// Low-rank factors of the attention matrix: the public function, where everything is checked.
#pragma once

#include <optional>

#include "core/lowrank/registry.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

struct LowRankOptions {
    std::optional<Index> rank;  // columns of B and C; what they stand for: lowrank::Method::rank
    std::optional<std::uint64_t>
        seed;                     // the same seed gives the same factors; none: one of the sequence that seed() starts
    std::optional<double> scale;  // > 0; default 1/sqrt(d)
    std::optional<Tensor> v;      // [b, h, N, w]: values, for the methods that look at them (lowrank::Method::values)
    std::map<std::string, double> own;  // options of the method by name; truth values 0 and 1
};

struct LowRank {
    Tensor B, C;                           // [b, h, N, r]; Float64 for Float64 inputs, else Float32
    std::map<std::string, Tensor> extras;  // [b, h, N] each, Float64: what a factorisation has beside B Cᵀ
};

// B Cᵀ ≈ exp(scale q kᵀ), or the method's own kernel (fleet eq. 3). q, k [b, h, N, d], or without the leading
// dimensions; one element type. Random numbers are functions of the seed and the head: not of the number of threads,
// nor of other heads. Throws Error naming the argument, also for entries that are not finite and factors that would not
// be; OutOfMemory, Interrupted, Timeout. Complexity: lowrank::Method::time for each head.
LowRank low_rank(const std::string& name, const Tensor& q, const Tensor& k, const LowRankOptions& = {});

namespace lowrank {

// Of a call: heads of all batches, tokens, width.
struct Heads {
    Index count, N, d;
};
// Checks q and k together, entry by entry finite. Throws Error.
Heads check_inputs(const Tensor& q, const Tensor& k);
// Throws Error unless the tensor is of finite numbers.
void check_finite(const char* name, const Tensor& x);
// Throws Error unless x has the dimensions of q but for the last one, and finite numbers.
void check_rows(const char* name, const Tensor& x, const Tensor& q);
// The scale, 1/sqrt(d) if none is given. Throws Error unless it is a number above 0.
double check_scale(const std::optional<double>& scale, Index d);

// What a call has settled with all defaults filled in.
struct Settled {
    double scale;
    Settings settings;
    Index rank;
    std::uint64_t seed;
};
// Throws Error for options that the method does not allow.
Settled settle(const Method& m, const Size& size, const LowRankOptions& o);

}  // namespace lowrank
}  // namespace causeway
