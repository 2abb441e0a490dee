// What the calls on a part of the tokens have in common.
#pragma once

#include <algorithm>

#include "core/gated/linear_attention.hpp"
#include "core/sharded/exchange.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/sharded/moves.hpp"
#include "gpu/sharded/run.hpp"
#include "gpu/sharded/tokens.hpp"

namespace causeway::gpu::sharded {

// Whole chunks of all kernels, in tokens.
inline constexpr Index unit = 64;

// The name of the exchange that is asked for; "auto" is the ring, unless a call knows better. Throws Error.
inline std::string exchange_of(const Sharding& o) {
    return o.exchange == "auto" ? "ring" : causeway::sharded::exchanges()[o.exchange].name;
}

// Throws Error where heads of v share those of q or k.
inline void refuse_shared(const causeway::gated::Sizes& n) {
    if (n.shared_keys > 1 || n.shared_queries > 1)
        fail("v: heads ", n.heads,
             ", expected no more than those of q, and those of k, on several GPUs, or exchange = \"heads\"");
}

// The same elements as [batch, heads, tokens, width], what is missing being 1; width false: it has none.
inline Tensor in_four(const Tensor& x, bool width = true) {
    Shape shape;
    for (int i = x.ndim() + (width ? 0 : 1); i < 4; ++i) shape.push_back(1);
    for (int i = 0; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
    if (!width) shape.push_back(1);
    return x.reshape(shape);
}

// A tensor [rows, N, width] that the caller has on a GPU.
inline Whole whole(const Tensor& x, Index rows, Index N, int device) {
    return {x.data(), rows, N, rows * N > 0 ? x.size() / (rows * N) : 0, size_of(x.dtype()), device};
}

// Of states that ranks own, those of one rank: neighbours are one span.
inline std::vector<Span> owned_by(int rank, const std::vector<int>& owners) {
    std::vector<Span> out;
    for (std::size_t i = 0; i < owners.size(); ++i) {
        if (owners[i] != rank) continue;
        if (i > 0 && owners[i - 1] == rank) ++out.back().n;
        else out.push_back({static_cast<Index>(i), 1});
    }
    return out;
}
inline Whole states_of(const Whole& all, const Span& s) {
    Whole some = all;
    some.data = static_cast<char*>(all.data) + static_cast<std::size_t>(s.first * all.width) * all.element;
    some.rows = s.n;
    return some;
}
// Queues the copy of some states from where the rank has all of them to where the caller does.
inline void give_states(QueuedCommunicator& comm, const Local& mine, const Whole& all, const Span& s) {
    Whole from = all;
    from.data = mine.data();
    if (mine.data() != all.data) give_rows(comm, states_of(from, s).data, states_of(all, s), 0, 1);
}
// What every rank owns of the states to all others.
inline void share_states(QueuedCommunicator& comm, const Whole& all, const std::vector<int>& owners) {
    for (int owner = 0; owner < comm.size(); ++owner)
        for (const Span& s : owned_by(owner, owners)) {
            const Whole some = states_of(all, s);
            give_to_all(comm, owner, some.data, static_cast<std::size_t>(s.n * all.width) * all.element, all.element);
        }
}

// Strides of [batch, heads, N, width] whose heads are `row` elements apart.
inline Strides head_strides(Index heads, Index row, Index width) { return {heads * row, row, width}; }

// Contiguous gates [rows, n, width] of the part: kernels take no strides of them.
class Gates {
public:
    Gates(QueuedCommunicator& comm, const Whole& x, Index first, Index n)
        : holding_(comm, Held::shard, x.rows * n * x.width, x.element) {
        if (n > 0 && n == x.N && current_device() == x.device) {
            data_ = static_cast<const float*>(x.data);
            return;
        }
        const Local part(comm, Held::shard, x, first, n, true);
        // Not null where the rank has no tokens: that would be another rule.
        own_ = Buffer(std::max<std::size_t>(static_cast<std::size_t>(x.rows * n * x.width), 1) * sizeof(float),
                      comm.stream());
        const auto bytes = [&](Index tokens) { return static_cast<std::size_t>(tokens * x.width) * sizeof(float); };
        copy_rows({own_.data(), bytes(n), part.data(), static_cast<std::size_t>(part.row()) * sizeof(float), bytes(n),
                   static_cast<std::size_t>(x.rows)},
                  comm.stream(), "copying gates");
        data_ = own_.as<float>();
    }
    const float* data() const { return data_; }

private:
    Holding holding_;
    Buffer own_;
    const float* data_ = nullptr;
};

}  // namespace causeway::gpu::sharded
