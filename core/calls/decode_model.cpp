#include "core/calls/decode_model.hpp"

namespace causeway::calls {
namespace {

using S = DecodeModelOptions;

constexpr Index max_devices = 4096;
constexpr const char* of_the_cluster = "the cluster's";

std::vector<std::string> models() { return {"tree", "ring"}; }

// A whole number of something there is, as large as a model may be asked for.
Option<S> count(const char* name, Member<S> member, const char* text, const char* example,
                const char* standard = nullptr) {
    return {.name = name,
            .member = member,
            .text = text,
            .type = "from 1 to 2^40",
            .standard = standard,
            .min = 1,
            .max = Index{1} << 40,
            .example = example};
}

std::vector<Option<S>> of_the_call() {
    return {
        {.name = "method", .member = &S::method, .text = "of which schedule", .choices = models},
        count("length", &S::length, "keys", "length = 1000000"),
        count("batch", &S::batch, "batch entries", "batch = 4"),
        count("heads", &S::heads, "heads of keys and values", "heads = 32"),
        count("query_heads", &S::query_heads, "heads of queries, a multiple of heads", "query_heads = 64", "heads"),
        count("dim", &S::dim, "width of keys and values", "dim = 64"),
        count("queries", &S::queries, "queries of a head", "queries = 4"),
        {.name = "causal", .member = &S::causal, .text = "as for tree_decode"},
    };
}

std::vector<Option<S>> of_a_cluster() {
    return {
        {.name = "cluster",
         .member = &S::cluster,
         .text = "\"h100\" is DGX H100, with NVLink 4 and NDR InfiniBand",
         .choices = cluster_names},
        {.name = "within",
         .member = {},
         .text = "of a link inside a node, a direction",
         .type = "{latency = seconds, rate = bytes a second}",
         .standard = of_the_cluster,
         .example = "shards = 8, within = {latency = 1e-6}"},
        {.name = "between",
         .member = {},
         .text = "of a link between nodes, a direction",
         .type = "{latency = seconds, rate = bytes a second}",
         .standard = of_the_cluster,
         .example = "shards = 16, between = {rate = 1e9}"},
        {.name = "memory_rate",
         .member = &S::memory_rate,
         .text = "bytes a second that a device reads",
         .standard = of_the_cluster,
         .example = "memory_rate = 1e12"},
        {.name = "flop_rate",
         .member = &S::flop_rate,
         .text = "operations a second of a device",
         .standard = of_the_cluster,
         .example = "flop_rate = 1e14"},
        {.name = "start",
         .member = &S::start,
         .text = "seconds to start a kernel",
         .standard = of_the_cluster,
         .example = "start = 1e-5"},
        count("element_bytes", &S::element_bytes, "bytes of a number", "element_bytes = 4", of_the_cluster),
    };
}

}  // namespace

const Call<DecodeModelOptions>& decode_model() {
    static const auto& call =
        *new Call<S>{"decode_model",
                     {},
                     joined<S>(joined<S>(of_the_call(), of_a_cluster()),
                               joined<S>(joined<S>(sharing_options<S>(max_devices, "the number of sizes, or 1"),
                                                   tree_options<S>(of_the_cluster)),
                                         ring_options<S>()))};
    return call;
}

}  // namespace causeway::calls
