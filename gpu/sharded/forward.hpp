// The forward pass of linear attention on the tokens that a GPU has, and the hand-over of states between GPUs.
#pragma once

#include "core/sharded/exchange.hpp"
#include "core/sharded/route.hpp"
#include "core/sharded/split.hpp"
#include "gpu/sharded/part.hpp"

namespace causeway::gpu::sharded {

using causeway::sharded::Communicator;
using causeway::sharded::Exchange;
using causeway::sharded::Starts;

// The sequences of a call, in the tokens of all ranks, which have `heads` states each.
struct SharedSequences {
    std::vector<causeway::gated::Sequence> list;
    Index heads = 1;
    bool packed = false;  // into one batch entry; else one stands for all entries, which are alike

    // Of offsets in N tokens; none: each entry of the batch is one.
    SharedSequences(const std::vector<Index>& cu_seqlens, Index batch, Index of_heads, Index N);
    // What a rank has of each, in its own tokens; none where they are not packed.
    std::vector<Span> of_rank(const Starts& starts, int rank) const;
    // The ranks that have the first or last token of every state.
    std::vector<int> owners(const Starts& starts, bool last) const {
        return causeway::sharded::owners_of(list, heads, starts, last);
    }
};

// Parts in whole `unit`s of tokens for ranks that are to finish together, where so many of the `states` are forgotten
// by no rank, without the delta rule: a rank begins with the others, and then waits for the first block of these.
Starts waiting_starts(std::int64_t N, int p, std::int64_t unit, std::int64_t states, std::int64_t kept);

// Parts in whole `unit`s of tokens, of which the last rank has of_last where every other one has of_others.
Starts weighted_starts(std::int64_t N, int p, std::int64_t unit, double of_others, double of_last);

// Parts for ranks that are to finish together where the states go on by a scan of maps, made of k and v by the first of
// a method's two steps.
Starts scanned_starts(std::int64_t N, int p, std::int64_t unit);

// The way of the states of `tokens`, which are those that starts gives the rank.
Route route_of(const Communicator& comm, const Tokens& tokens, const SharedSequences& sequences, const Starts& starts,
               Exchange exchange);

// Outputs of the rank's tokens, and its share of the states [sequences, heads, d_k, d_v], entries of the batch being
// sequences too: first_states are read by the ranks that have the first tokens of each, null: zeros; last_states, null:
// not wanted, are written by those that have the last. All is queued on the stream of the tokens, where messages of the
// communicator are too. Returns which exchange it was: scan_gives_way as in core/sharded/states.hpp.
Exchange forward(Communicator& comm, const SharedSequences& sequences, const Starts& starts, Tokens& tokens,
                 Exchange exchange, const float* first_states, float* last_states, bool scan_gives_way = false);

}  // namespace causeway::gpu::sharded
