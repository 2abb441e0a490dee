// The exchanges of states as values.
#pragma once

#include <string>

#include "core/calls/sharding.hpp"
#include "core/kit/registry.hpp"
#include "core/sharded/states.hpp"

namespace causeway::sharded {

struct ExchangeForm {
    std::string name;  // "all-scan"
    Exchange exchange;
    std::string source;
};
const kit::Registry<ExchangeForm>& exchanges();

// The name of the exchange that a call has: with "auto" the ring where the bits of one worker are asked for, or where
// the states keep all ranks busy, being at least twice as many as the ranks that wait; else the scan.
std::string chosen_exchange(const std::string& asked, bool same_bits, Index states, int ranks, int together);

// Whether heads whose gates forget may go before the state that they forget has come: where neither an exchange nor the
// bits of one worker were asked for.
inline bool may_forget(const Sharding& o, bool same_bits) { return o.exchange == "auto" && !same_bits; }

// Whether softmax attention that asks for no exchange goes by heads: the ring of a causal call has pieces to merge and,
// of parts of the ranks' own, tokens to move to its zigzag and back, in pieces of every packed sequence. By heads it is
// shorter on GPUs (docs/kernels/sharded.md) and on CPUs (docs/performance.md), where each rank has as many of them.
bool heads_are_shorter(const Sharding& o, bool causal, Index heads, int ranks);
// The name of the exchange that softmax attention has, "ring" or "heads". Throws Error.
std::string chosen_softmax_exchange(const Sharding& o, bool causal, Index heads, int ranks);

}  // namespace causeway::sharded
