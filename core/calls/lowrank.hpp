// The options of lowrank that all factorisations share, and of lowrank_error. What a factorisation takes besides stands
// in its own descriptor (core/lowrank/registry.hpp), which the same readers look at.
#pragma once

#include "core/calls/option.hpp"

namespace causeway {
namespace calls {

// What each member means is said once, by its option in lowrank() below.
struct LowRankOptions {
    using TensorType = Tensor;

    std::optional<Index> rank;
    std::optional<std::uint64_t> seed;
    std::optional<double> scale;
    std::optional<Tensor> v;
    std::map<std::string, double> own;  // options of the factorisation by name; truth values 0 and 1
};

// What each member means is said once, by its option in lowrank_error() below.
struct LowRankErrorOptions {
    using TensorType = Tensor;

    bool mask = true;
    std::optional<double> scale;
    std::optional<Tensor> v;
    std::map<std::string, Tensor> extras;
    double tolerance = 1e-6;
    Index iterations = 300;
};

const Call<LowRankOptions>& lowrank();
const Call<LowRankErrorOptions>& lowrank_error();

}  // namespace calls

using LowRankOptions = calls::LowRankOptions;
using LowRankErrorOptions = calls::LowRankErrorOptions;

}  // namespace causeway
