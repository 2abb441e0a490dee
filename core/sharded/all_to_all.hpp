// Tensors on their way between ranks that have some tokens of them and ranks that have others, or some heads: every
// rank sends every other one a block. Written once for threads, processes and modelled clusters.
#pragma once

#include <algorithm>

#include "core/distributed/communicator.hpp"
#include "core/sharded/split.hpp"

namespace causeway::sharded {

using distributed::Communicator;
using distributed::Held;
using distributed::Room;

// Sends rank r a block of to(r) elements, which pack(r, block) fills, and gets one of from(r) elements of it, which
// unpack(r, block) takes away; its own block is not sent. p - 1 rounds.
template <class T, class To, class From, class Pack, class Unpack>
void all_to_all(Communicator& comm, To&& to, From&& from, Pack&& pack, Unpack&& unpack) {
    const int p = comm.size(), me = comm.rank();
    for (int s = 0; s < p; ++s) {
        const int receiver = (me + s) % p, sender = (me + p - s) % p;
        Room<T> out(comm, Held::work, to(receiver)), in(comm, Held::work, s > 0 ? from(sender) : 0);
        if (!comm.dry()) pack(receiver, out.data());
        if (s > 0) comm.exchange(out.data(), out.size(), receiver, in.data(), in.size(), sender);
        if (!comm.dry()) unpack(sender, s > 0 ? in.data() : out.data());
    }
}

// Moves x [rows, tokens, width], of which the rank has `from`, one piece after the other, to where it has `to`.
template <class T>
void redistribute(Communicator& comm, Index rows, Index width, const Shares& from, const T* x, const Shares& to, T* y) {
    const int me = comm.rank();
    const auto at = [](const Shares& shares, int r) -> const std::vector<kit::Span>& {
        return shares[static_cast<std::size_t>(r)];
    };
    // f(place among those of `mine`, tokens) for the tokens that both have.
    const auto each_common = [](const std::vector<kit::Span>& mine, const std::vector<kit::Span>& others, auto&& f) {
        Index place = 0;
        for (const kit::Span& a : mine) {
            for (const kit::Span& b : others) {
                const Index first = std::max(a.first, b.first), last = std::min(a.first + a.n, b.first + b.n);
                if (first < last) f(place + first - a.first, last - first);
            }
            place += a.n;
        }
    };
    const auto common = [&](int sender, int receiver) {
        Index n = 0;
        each_common(at(from, sender), at(to, receiver), [&](Index, Index tokens) { n += tokens; });
        return n * rows * width;
    };
    const Index here = length_of(at(from, me)), there = length_of(at(to, me));
    all_to_all<T>(
        comm, [&](int receiver) { return common(me, receiver); }, [&](int sender) { return common(sender, me); },
        [&](int receiver, T* block) {  // in the order of the sender's pieces, as the receiver's are
            each_common(at(from, me), at(to, receiver), [&](Index place, Index n) {
                for (Index i = 0; i < rows; ++i, block += n * width)
                    std::copy_n(x + (i * here + place) * width, n * width, block);
            });
        },
        [&](int sender, const T* block) {
            each_common(at(to, me), at(from, sender), [&](Index place, Index n) {
                for (Index i = 0; i < rows; ++i, block += n * width)
                    std::copy_n(block, n * width, y + (i * there + place) * width);
            });
        });
}

// Of `heads`, a multiple of the groups that stay together, those of a rank: the first ranks have some, where there are
// more ranks than groups.
inline kit::Span heads_of_rank(int rank, int ranks, Index groups, Index heads) {
    if (groups == 0) return {};
    const auto start = [&](Index r) { return (r * groups + ranks - 1) / ranks * (heads / groups); };
    return {start(rank), start(rank + 1) - start(rank)};
}

// The exchange of heads (DeepSpeed Ulysses, S. Jacobs et al., arXiv:2309.14509, 2023): a rank gives away its tokens of
// the other ranks' heads for all tokens of its own, computes whole heads as one worker does, to the bit, and gives the
// results back. Heads that share keys, queries or a state stay together, in `groups`; ranks beyond them have none.
class HeadExchange {
public:
    // tokens: where the parts of all ranks begin. whole: x below has all tokens, else those of the rank alone.
    HeadExchange(Communicator& comm, const Starts& tokens, bool whole, Index groups)
        : comm_(comm), tokens_(tokens), whole_(whole), groups_(groups) {}

    Index tokens() const { return tokens_.back(); }
    // Of `heads`, a multiple of the groups, those of a rank: first and number.
    kit::Span heads_of(int rank, Index heads) const { return heads_of_rank(rank, comm_.size(), groups_, heads); }
    kit::Span heads_here(Index heads) const { return heads_of(comm_.rank(), heads); }

    // y [batch, heads here, all tokens, width] <- x [batch, heads, tokens, width].
    template <class T>
    void to_heads(const T* x, Index batch, Index heads, Index width, T* y) {
        all_to_all<T>(
            comm_, [&](int r) { return block(comm_.rank(), r, batch, heads, width); },
            [&](int r) { return block(r, comm_.rank(), batch, heads, width); },
            [&](int r, T* to) {
                each_row(batch, heads, heads_of(r, heads),
                         [&](Index row, Index) { to = std::copy_n(x + first_here(row) * width, mine() * width, to); });
            },
            [&](int r, const T* from) {
                each_row(batch, heads, heads_here(heads), [&](Index, Index row) {
                    std::copy_n(from, part(r) * width, y + (row * tokens() + start(r)) * width);
                    from += part(r) * width;
                });
            });
    }
    // The way back.
    template <class T>
    void to_tokens(const T* y, Index batch, Index heads, Index width, T* x) {
        all_to_all<T>(
            comm_, [&](int r) { return block(r, comm_.rank(), batch, heads, width); },
            [&](int r) { return block(comm_.rank(), r, batch, heads, width); },
            [&](int r, T* to) {
                each_row(batch, heads, heads_here(heads), [&](Index, Index row) {
                    to = std::copy_n(y + (row * tokens() + start(r)) * width, part(r) * width, to);
                });
            },
            [&](int r, const T* from) {
                each_row(batch, heads, heads_of(r, heads), [&](Index row, Index) {
                    std::copy_n(from, mine() * width, x + first_here(row) * width);
                    from += mine() * width;
                });
            });
    }
    // The ranks of [batch, heads].
    std::vector<int> owners(Index batch, Index heads) const {
        std::vector<int> out(static_cast<std::size_t>(batch * heads));
        for (int r = 0; r < comm_.size(); ++r)
            each_row(batch, heads, heads_of(r, heads),
                     [&](Index row, Index) { out[static_cast<std::size_t>(row)] = r; });
        return out;
    }
    // f(row of [batch, heads], row of [batch, heads of the span]).
    template <class F>
    static void each_row(Index batch, Index heads, kit::Span own, F&& f) {
        for (Index b = 0; b < batch; ++b)
            for (Index h = 0; h < own.n; ++h) f(b * heads + own.first + h, b * own.n + h);
    }

private:
    Index start(int r) const { return tokens_[static_cast<std::size_t>(r)]; }
    Index part(int r) const { return start(r + 1) - start(r); }
    Index mine() const { return part(comm_.rank()); }
    // The rank's first token of a row of x.
    Index first_here(Index row) const { return whole_ ? row * tokens() + start(comm_.rank()) : row * mine(); }
    // Elements of what the rank with these tokens and the one with these heads have in common.
    Index block(int of_tokens, int of_heads, Index batch, Index heads, Index width) const {
        return batch * heads_of(of_heads, heads).n * part(of_tokens) * width;
    }

    Communicator& comm_;
    const Starts& tokens_;
    bool whole_;
    Index groups_;
};

// Of a tensor [batch, heads, tokens, width] the rank's heads, while they are computed with.
template <class T>
class HeadTensor {
public:
    HeadTensor(Communicator& comm, HeadExchange& by, Held held, Index batch, Index heads, Index width)
        : by_(by),
          batch_(batch),
          heads_(heads),
          width_(width),
          room_(comm, held, batch * by.heads_here(heads).n * by.tokens() * width) {}

    // Gets them; null where the call has no such tensor, of width 0.
    const T* brought(const T* x) {
        if (width_ == 0) return nullptr;
        by_.to_heads(x, batch_, heads_, width_, room_.data());
        return room_.data();
    }
    // Sends the tokens back, where they belong to.
    void give(T* x) {
        if (width_ > 0) by_.to_tokens(room_.data(), batch_, heads_, width_, x);
    }
    T* data() { return width_ > 0 ? room_.data() : nullptr; }

private:
    HeadExchange& by_;
    Index batch_, heads_, width_;
    Room<T> room_;
};

// States [sequences, heads, size] of the rank's heads, in and out: every rank has all of them before the call.
template <class T>
class HeadStates {
public:
    HeadStates(Communicator& comm, const HeadExchange& by, Index sequences, Index heads, Index size)
        : sequences_(sequences),
          heads_(heads),
          size_(size),
          own_(by.heads_here(heads)),
          room_(comm, Held::state, sequences * own_.n * size) {}

    T* brought(const T* all) {
        HeadExchange::each_row(sequences_, heads_, own_, [&](Index row, Index mine) {
            std::copy_n(all + row * size_, size_, room_.data() + mine * size_);
        });
        return room_.data();
    }
    void give(T* all) {
        HeadExchange::each_row(sequences_, heads_, own_, [&](Index row, Index mine) {
            std::copy_n(room_.data() + mine * size_, size_, all + row * size_);
        });
    }

private:
    Index sequences_, heads_, size_;
    kit::Span own_;
    Room<T> room_;
};

}  // namespace causeway::sharded
