// The options of calls whose sequence is spread over several workers.
#pragma once

#include "core/calls/option.hpp"

namespace causeway {
namespace calls {

// What each member means is said once, by its option below.
struct Sharding {
    int shards = 0;
    std::vector<Index> sizes{};
    std::string engine{};
    std::string exchange = "auto";
    bool sharded = false;
    double timeout = 0;

    // Whether the call asks for workers at all.
    bool asked() const { return shards > 0 || !sizes.empty() || !engine.empty() || sharded || exchange != "auto"; }
};

inline constexpr Index max_sequence_shards = 1024;

// The names of what is defined in core/sharded.
std::vector<std::string> sharding_engines();
std::vector<std::string> state_exchanges();
std::vector<std::string> ring_exchanges();

template <class S>
std::vector<Option<S>> sharding_options() {
    return {
        {.name = "shards",
         .member = &S::shards,
         .text = "the number p of workers that share the sequence; a report of what they sent and held comes after "
                 "the results",
         .standard = "one worker, or the number of MPI ranks or of GPUs",
         .min = 1,
         .max = max_sequence_shards,
         .example = "shards = 4"},
        {.name = "sizes",
         .member = &S::sizes,
         .text = "tokens of each worker, any may be 0",
         .type = "a list of lengths",
         .standard = "whole chunks, as equal as can be",
         .example = "sizes = {30, 70}"},
        {.name = "engine",
         .member = &S::engine,
         .text = "what the workers are",
         .standard = "\"threads\", \"mpi\" under mpirun, and \"nccl\" for tensors on the GPU",
         .choices = sharding_engines,
         .example = "engine = \"threads\", shards = 2"},
        {.name = "sharded",
         .member = &S::sharded,
         .text = "whether every MPI rank gives its own part of the sequence, in the order of the ranks, and gets its "
                 "part of the results; shard(x) cuts one out, unshard(x) joins them",
         .example = "shards = 2, sharded = false"},
        {.name = "timeout",
         .member = &S::timeout,
         .text = mpi_timeout,
         .standard = mpi_timeout_default,
         .example = "shards = 2, timeout = 60"},
    };
}

template <class S>
Option<S> exchange_option(const char* text, std::vector<std::string> (*choices)()) {
    return {.name = "exchange",
            .member = &S::exchange,
            .text = text,
            .standard = nullptr,
            .choices = choices,
            .example = "shards = 2, exchange = \"heads\""};
}

// Of calls that hand states on.
template <class S>
Option<S> state_exchange_option() {
    return exchange_option<S>(
        "how the states get from worker to worker: a ring of states, head after head; a scan or an all-gather of the "
        "maps of the parts; or \"heads\", where no state travels: each worker gets all tokens of some heads",
        state_exchanges);
}

// Of their gradients.
template <class S>
Option<S> grad_exchange_option() {
    return exchange_option<S>(
        "how the states get from worker to worker, and their gradients back: a ring of both, head after head; a scan "
        "or "
        "an all-gather of the maps of the parts, which are made first both ways; or \"heads\", where each worker gets "
        "all tokens of some heads; on GPUs \"ring\" and \"heads\"",
        state_exchanges);
}

// Of the other calls.
template <class S>
Option<S> ring_exchange_option() {
    return exchange_option<S>(
        "what the workers send: what goes round the ring, or with \"heads\" the tokens of some heads to each worker, "
        "and its results back",
        ring_exchanges);
}

}  // namespace calls

using Sharding = calls::Sharding;

}  // namespace causeway
