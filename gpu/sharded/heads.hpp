// The exchange of heads (DeepSpeed Ulysses, S. Jacobs et al., arXiv:2309.14509, 2023): a rank has all tokens of some
// heads and makes the call of one GPU on them.
#pragma once

#include <cstdint>
#include <deque>
#include <numeric>

#include "core/sharded/all_to_all.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/sharded/run.hpp"

namespace causeway::gpu::sharded {

// Tensors are [batch, heads, tokens, width], or have fewer dimensions as calls take them, on the GPU of the caller's;
// `width` false: they have a number for each token. Heads that share keys, queries or a state stay together, in
// `groups`; ranks beyond them have none. Everything is queued on the stream of the communicator.
class HeadTokens {
public:
    HeadTokens(QueuedCommunicator& comm, const Workers& workers, int home, Index groups)
        : comm_(comm), workers_(workers), home_(home), groups_(groups) {}

    // Of `heads`, a multiple of the groups, those of a rank.
    kit::Span of_rank(int rank, Index heads) const {
        return causeway::sharded::heads_of_rank(rank, comm_.size(), groups_, heads);
    }
    kit::Span here(Index heads) const { return of_rank(comm_.rank(), heads); }
    bool any() const { return here(groups_).n > 0; }

    // The rank's heads over all tokens, in four dimensions: of x that has all, or where processes have parts the tokens
    // that `starts` gives the rank.
    Tensor bring(Held, const Tensor& x, const Starts& starts, bool width = true);
    // Of states [entries, heads, ...], which every process has whole.
    Tensor bring_states(const Tensor& S);
    // The way back of what the rank has made, nothing if it has no heads; share() then brings to all processes what
    // each has given.
    void give(const Tensor& mine, const Tensor& to, const Starts& starts, bool width = true);
    void give_states(const Tensor& mine, const Tensor& to);
    void share(const Tensor& x, bool width = true);

    // The time of the call, called in this order: parts of the processes' own are moved within it, copies of the
    // caller's tensors are not.
    void begins() {
        if (workers_.parts) comm_.begin();
    }
    void is_brought() {
        if (!workers_.parts) comm_.begin();
    }
    void is_computed() {
        if (!workers_.parts) seconds_ = comm_.settle();
    }
    double is_given() {
        const double all = comm_.settle();
        return workers_.parts ? all : seconds_;
    }

private:
    void holds(Held held, const Tensor& x) { held_.emplace_back(comm_, held, x.size(), size_of(x.dtype())); }
    Shape shape_here(const Tensor& x, Index tokens) const;
    // Some heads of every entry of the caller's x, all its tokens, to a block on this GPU or from it.
    void copy_heads(const Tensor& x, const kit::Span& heads, char* block, bool to_block) const;
    // Some tokens of every head of x on this GPU.
    void copy_tokens(const Tensor& x, const kit::Span& tokens, char* block, bool to_block) const;
    // Blocks of so many bytes to and from every rank, this one too, whose block is not sent. E: the elements.
    template <class E, class To, class From, class Pack, class Unpack>
    void exchange(To&& to, From&& from, Pack&& pack, Unpack&& unpack);
    template <class To, class From, class Pack, class Unpack>
    void exchange(DType type, To&& to, From&& from, Pack&& pack, Unpack&& unpack) {
        if (size_of(type) == sizeof(float)) exchange<float>(to, from, pack, unpack);
        else exchange<std::uint16_t>(to, from, pack, unpack);
    }

    QueuedCommunicator& comm_;
    const Workers& workers_;
    int home_;
    Index groups_;
    std::deque<Holding> held_;
    double seconds_ = 0;
};

// The heads that share a head of keys or of queries stay together.
inline Index groups_of(const causeway::gated::Sizes& n) { return n.heads / std::lcm(n.shared_queries, n.shared_keys); }

// The options of the rank's call: its gates, and its states before the first tokens, `states` or none.
LinearOptions of_heads(HeadTokens&, const gated::Call&, const LinearOptions&, const std::optional<Tensor>& states,
                       const Starts&, cudaStream_t);

}  // namespace causeway::gpu::sharded
