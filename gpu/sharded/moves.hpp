// Tokens and states from the GPU of one rank to that of another.
#pragma once

#include "core/sharded/split.hpp"
#include "gpu/sharded/run.hpp"

namespace causeway::gpu::sharded {

using causeway::sharded::Shares;

// x has all tokens, of which every rank has made those of its share: each gets the others'. Queued.
void gather_tokens(QueuedCommunicator& comm, const Shares& shares, const Whole& x);

// x [rows, tokens, width], of which the rank has `from`, one piece after the other, to y, where it has `to`. Queued.
void redistribute(QueuedCommunicator& comm, const Shares& from, const Whole& x, const Shares& to, const Whole& y);

// So many bytes of elements of so many bytes from the owner, which has them, to all. Queued.
void give_to_all(QueuedCommunicator& comm, int owner, void* data, std::size_t bytes, std::size_t element);

}  // namespace causeway::gpu::sharded
