#include "core/calls/decode_model.hpp"

namespace causeway::calls {
namespace {

using S = DecodeModelOptions;

std::vector<std::string> models() { return {"tree", "ring"}; }

std::vector<Option<S>> of_the_call() {
    return {
        {.name = "method", .member = &S::method, .text = "of which schedule", .choices = models},
        model_count<S>("length", &S::length, "keys", "length = 1000000"),
        model_count<S>("batch", &S::batch, "batch entries", "batch = 4"),
        model_count<S>("heads", &S::heads, "heads of keys and values", "heads = 32"),
        model_count<S>("query_heads", &S::query_heads, "heads of queries, a multiple of heads", "query_heads = 64",
                       "heads"),
        model_count<S>("dim", &S::dim, "width of keys and values", "dim = 64"),
        model_count<S>("queries", &S::queries, "queries of a head", "queries = 4"),
        {.name = "causal", .member = &S::causal, .text = "as for tree_decode"},
    };
}

}  // namespace

const Call<DecodeModelOptions>& decode_model() {
    static const auto& call =
        *new Call<S>{"decode_model",
                     {},
                     joined<S>(joined<S>(of_the_call(), cluster_options<S>()),
                               joined<S>(joined<S>(sharing_options<S>(max_devices, "the number of sizes, or 1"),
                                                   tree_options<S>(of_the_cluster)),
                                         ring_options<S>()))};
    return call;
}

}  // namespace causeway::calls
