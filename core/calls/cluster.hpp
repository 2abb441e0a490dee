// The options that say on which cluster a model runs.
#pragma once

#include "core/calls/option.hpp"

namespace causeway::calls {

// What a call gives in place of the cluster's own figures; what each means is said once, by its option below.
struct ClusterOptions {
    std::string cluster = "h100";
    std::optional<Index> element_bytes{};
    std::optional<double> memory_rate{}, flop_rate{}, start{};
};

// The clusters there is a model of (core/distributed/cluster.cpp).
std::vector<std::string> cluster_names();

inline constexpr const char* of_the_cluster = "the cluster's";
inline constexpr Index max_devices = 4096;

// A whole number of something there is, as large as a model may be asked for.
template <class S>
Option<S> model_count(const char* name, Member<S> member, const char* text, const char* example,
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

template <class S>
std::vector<Option<S>> cluster_options() {
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
        model_count<S>("element_bytes", &S::element_bytes, "bytes of a number", "element_bytes = 4", of_the_cluster),
    };
}

}  // namespace causeway::calls
