#include "core/calls/linear_model.hpp"

#include "core/calls/linear_attention.hpp"

namespace causeway::calls {
namespace {

using S = LinearModelOptions;

std::vector<Option<S>> of_the_call() {
    return {
        {.name = "exchange",
         .member = &S::exchange,
         .text = "how the states get from device to device, as for linear_attention",
         .choices = named_exchanges,
         .example = "shards = 8, exchange = \"all-scan\""},
        {.name = "update", .member = &S::update, .text = "as for linear_attention", .choices = linear_updates},
        {.name = "per_channel",
         .member = &S::per_channel,
         .text = "whether a gate is one number a key channel",
         .example = "update = \"gated\", per_channel = true"},
        {.name = "forgets",
         .member = &S::forgets,
         .text = "whether the gates of a device's tokens leave nothing of the state before them: then no device "
                 "waits for another, and the state goes after the outputs; with exchange = \"ring\"",
         .example = "update = \"gated\", forgets = true, shards = 8"},
        {.name = "shards",
         .member = &S::shards,
         .text = "the number p of devices",
         .min = 1,
         .max = max_devices,
         .example = "shards = 64"},
        {.name = "per_node",
         .member = &S::per_node,
         .text = "devices of a node",
         .standard = of_the_cluster,
         .min = 1,
         .max = max_devices,
         .example = "shards = 4, per_node = 2"},
        model_count<S>("length", &S::length, "tokens", "length = 1000000"),
        model_count<S>("batch", &S::batch, "batch entries", "batch = 4"),
        model_count<S>("heads", &S::heads, "heads, each with a state", "heads = 16"),
        model_count<S>("dim", &S::dim, "width of keys and values", "dim = 64"),
        model_count<S>("chunk", &S::chunk, "chunk length", "chunk = 128"),
        model_count<S>("together", &S::together, "states that a device computes at once, by one kernel", "together = 8",
                       "all"),
        {.name = "token_time",
         .member = &S::token_time,
         .text = "seconds that a token of a head takes a device, where that was measured; passes without queries "
                 "and for the maps take the share of it that they have in operations",
         .standard = "by operations and bytes",
         .example = "token_time = 5e-10"},
    };
}

}  // namespace

const Call<LinearModelOptions>& linear_model() {
    static const auto& call = *new Call<S>{"linear_model", {}, joined<S>(of_the_call(), cluster_options<S>())};
    return call;
}

}  // namespace causeway::calls
