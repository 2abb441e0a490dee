#include "core/calls/lowrank.hpp"

namespace causeway::calls {
namespace {

std::vector<std::string> extras_of_lowrank() { return {"log_rows", "query_block", "key_block", "exact_rows", "code"}; }

}  // namespace

const Call<LowRankOptions>& lowrank() {
    using S = LowRankOptions;
    static const auto& call =
        *new Call<S>{"lowrank",
                     {{"name"}, {"q"}, {"k"}},
                     {{.name = "rank",
                       .member = &S::rank,
                       .text = "columns of B and C; ?NAME tells what they are, for instance ?nystrom, ?favor+, ?svd",
                       .standard = "the factorisation's",
                       .example = "rank = 32"},
                      {.name = "seed",
                       .member = &S::seed,
                       .text = "the same seed gives the same factors",
                       .standard = "the next of seed(n)",
                       .min = 0,
                       .example = "seed = 1"},
                      {.name = "scale",
                       .member = &S::scale,
                       .text = "factor on q kᵀ, above 0",
                       .standard = "1/sqrt(d)",
                       .example = "scale = 0.5"},
                      {.name = "v",
                       .member = &S::v,
                       .text = "values [b, h, N, w], for the factorisations that weigh keys by them",
                       .standard = "all count alike",
                       .example = "v = randn(1, 2, 100, 8)"},
                      device_option<S>()},
                     "name = \"skeinformer\"\nq, k = randn(1, 2, 100, 8), randn(1, 2, 100, 8)"};
    return call;
}

const Call<LowRankErrorOptions>& lowrank_error() {
    using S = LowRankErrorOptions;
    static const auto& call =
        *new Call<S>{"lowrank_error",
                     {{"q"}, {"k"}, {"B"}, {"C"}},
                     {{.name = "mask", .member = &S::mask, .text = "false leaves out everything masked"},
                      {.name = "scale",
                       .member = &S::scale,
                       .text = "factor on q kᵀ",
                       .standard = "1/sqrt(d)",
                       .example = "scale = 0.5"},
                      {.name = "v",
                       .member = &S::v,
                       .text = "values [b, h, N, w], for the errors of the output",
                       .standard = "none",
                       .example = "v = randn(1, 2, 100, 8)"},
                      {.name = "extras",
                       .member = &S::extras,
                       .text = "what lowrank returned beside B and C",
                       .type = "the table that lowrank returns",
                       .standard = "none",
                       .choices = extras_of_lowrank,
                       .why = "is nothing that lowrank returns",
                       .example = "extras = extras"},
                      {.name = "tolerance",
                       .member = &S::tolerance,
                       .text = "on the relative residual at which the iteration for an operator norm stops",
                       .example = "tolerance = 1e-3"},
                      {.name = "iterations",
                       .member = &S::iterations,
                       .text = "most steps of the iteration for an operator norm",
                       .example = "iterations = 50"}},
                     "q, k = randn(1, 2, 100, 8), randn(1, 2, 100, 8)\n"
                     "B, C, extras = lowrank(\"hyper\", q, k)"};
    return call;
}

}  // namespace causeway::calls
