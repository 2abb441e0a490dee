// How the methods spread over blocks of tokens with a carried state. Nothing here depends on the number of threads but
// the order in which independent pieces are computed, so results do not either.
#pragma once

#include <algorithm>
#include <vector>

#include "core/exact/problem.hpp"
#include "core/kit/chained_scan.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {

// Of a state and what a block adds to it: S ← carry S + D, and D becomes the state before the block.
template <class T>
void combine(T* S, T* D, Index size, T carry) {
    for (Index i = 0; i < size; ++i) {
        const T before = S[i];
        S[i] = carry * before + D[i];
        D[i] = before;
    }
}

// One head, block after block on the calling thread.
template <class Block, class T>
void carry_in_order(const Problem<T>& p, Index b, Index head) {
    const Index blocks = (p.N + b - 1) / b, state_size = Block::state_size(p);
    const T* const none = nullptr;
    Block block(p, b);
    Buffer<T> S(state_size), D(state_size);
    if (p.state) block.import_state(p.state_of(head), S.data());
    for (Index i = 0; i < blocks; ++i) {
        interrupt::check();
        block.load(head, i * b, std::min(b, p.N - i * b));
        block.scores();
        block.output(i > 0 || p.state ? S.data() : none);
        if (i + 1 == blocks && !p.state) return;
        block.delta(D.data());
        if (i == 0 && !p.state) std::swap(S, D);
        else combine(S.data(), D.data(), state_size, block.carry());
    }
    block.export_state(S.data(), p.state_of(head));
}

// Heads from `first` on, by all threads: blocks of a head are links of a chain, to which each adds its part of the
// state.
template <class Block, class T>
class ChainedBlock {
public:
    ChainedBlock(const Problem<T>& p, Index b, Index first, std::vector<Buffer<T>>& states)
        : p_(p), b_(b), blocks_((p.N + b - 1) / b), first_(first), states_(states), block_(p, b), D_(size()) {}

    void prepare(Index chain, Index i) {
        block_.load(first_ + chain, i * b_, std::min(b_, p_.N - i * b_));
        block_.scores();
        if (adds(i)) block_.delta(D_.data());
    }
    void add(Index chain, Index i) {
        if (!adds(i)) return;
        if (starts(i)) std::copy_n(D_.data(), size(), state(chain));
        else combine(state(chain), D_.data(), size(), block_.carry());
    }
    void finish(Index chain, Index i) {
        const T* const none = nullptr;
        block_.output(starts(i) ? none : adds(i) ? D_.data() : state(chain));
    }

private:
    Index size() const { return Block::state_size(p_); }
    T* state(Index chain) { return states_[static_cast<std::size_t>(chain)].data(); }
    bool adds(Index i) const { return i + 1 < blocks_ || p_.state; }
    bool starts(Index i) const { return i == 0 && !p_.state; }

    const Problem<T>& p_;
    Index b_, blocks_, first_;
    std::vector<Buffer<T>>& states_;
    Block block_;
    Buffer<T> D_;
};

template <class Block, class T>
void carry_in_chains(const Problem<T>& p, Index b, Index first, Index heads) {
    std::vector<Buffer<T>> states;
    for (Index h = 0; h < heads; ++h) states.emplace_back(Block::state_size(p));
    const auto each_state = [&](auto&& f) {
        if (!p.state) return;
        const Block block(p, b);
        for (Index h = 0; h < heads; ++h) f(block, p.state_of(first + h), states[static_cast<std::size_t>(h)].data());
    };
    each_state([](const Block& block, T* theirs, T* S) { block.import_state(theirs, S); });
    kit::chained_scan(heads, (p.N + b - 1) / b, [&] { return ChainedBlock<Block, T>(p, b, first, states); });
    each_state([](const Block& block, T* theirs, T* S) { block.export_state(S, theirs); });
}

// All heads, in blocks of b tokens. Block does the arithmetic of one block:
//   Block(p, b)                  scratch for blocks of up to b tokens
//   Index state_size(p)          scalars of a state as Block keeps it
//   void load(h, start, n)       takes the tokens [start, start + n) of head h
//   void scores()                the masked product of the block
//   void output(const T* S)      O of the block given the state before it; null: an empty one
//   void delta(T* D)             what the block adds to the state
//   void import_state(const T*, T* S), void export_state(const T* S, T*)   from and to the caller's layout
//   T carry()                    γ^n
// Where there are enough heads, each is one task; the remaining ones are shared by all threads. The arithmetic of a
// block is the same either way, so the two agree bit for bit. Extra memory: a state, what a block adds to it and the
// scratch of Block for every thread, and a state for every head that is shared.
template <class Block, class T>
void each_carried_block(const Problem<T>& p, Index b) {
    if (p.N == 0) return;
    const Index heads = p.all_heads(), crew = threads_here();
    const Index whole = p.N <= b || heads >= 4 * crew ? heads : heads / crew * crew;
    parallel_for(whole, [&](Index h) { carry_in_order<Block>(p, b, h); });
    if (whole == heads) return;
    carry_in_chains<Block>(p, b, whole, heads - whole);
}

}  // namespace causeway::exact
