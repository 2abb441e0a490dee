// How the methods spread over blocks of tokens with a carried state. Nothing here depends on the number of threads but
// the order in which independent pieces are computed, so results do not either.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/exact/problem.hpp"
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

// Heads [first, first + heads) by all threads: each takes the next block, computes what hangs on no other one, waits
// until the blocks before it have added to the state, adds its own and lets the next one do so, and computes the
// outputs from the state before it (a chained scan: D. Merrill and M. Garland, Single-pass Parallel Prefix Scan with
// Decoupled Look-back, NVR-2016-002). A block that is waited for has been taken by a thread that runs.
template <class Block, class T>
class ChainedBlocks {
public:
    ChainedBlocks(const Problem<T>& p, Index b, Index first, Index heads)
        : p_(p), b_(b), blocks_((p.N + b - 1) / b), first_(first), chains_(static_cast<std::size_t>(heads)) {
        for (Chain& chain : chains_) chain.S = Buffer<T>(Block::state_size(p));
    }

    void run() {
        if (p_.state) each_state([](const Block& block, T* theirs, T* S) { block.import_state(theirs, S); });
        const Index all = blocks_ * static_cast<Index>(chains_.size());
        parallel_for(std::min<Index>(threads_here(), all), [&](Index) {
            try {
                Block block(p_, b_);
                Buffer<T> D(Block::state_size(p_));
                for (Index k; !ended_ && (k = next_.fetch_add(1)) < all;) compute(block, D.data(), k);
            } catch (...) {
                ended_ = true;
                throw;
            }
        });
        if (p_.state) each_state([](const Block& block, T* theirs, T* S) { block.export_state(S, theirs); });
    }

private:
    struct alignas(64) Chain {
        std::atomic<Index> added{0};  // blocks that have
        Buffer<T> S;
    };

    // The k-th of all blocks, heads being the fast index: those of one head wait for each other.
    void compute(Block& block, T* D, Index k) {
        interrupt::check();
        const auto heads = static_cast<Index>(chains_.size());
        const Index i = k / heads, head = k % heads, start = i * b_;
        Chain& chain = chains_[static_cast<std::size_t>(head)];
        const bool adds = i + 1 < blocks_ || p_.state, starts = i == 0 && !p_.state;
        block.load(first_ + head, start, std::min(b_, p_.N - start));
        block.scores();
        if (adds) block.delta(D);
        for (int polls = 0; chain.added.load(std::memory_order_acquire) < i; ++polls) {
            if (ended_) return;
            if (polls > 100) std::this_thread::yield();
        }
        const Index size = Block::state_size(p_);
        if (starts) std::copy_n(D, adds ? size : 0, chain.S.data());
        else if (adds) combine(chain.S.data(), D, size, block.carry());
        chain.added.store(i + 1, std::memory_order_release);
        const T* const none = nullptr;
        block.output(starts ? none : adds ? D : chain.S.data());
    }

    template <class F>
    void each_state(F&& f) {
        const Block block(p_, b_);
        for (std::size_t h = 0; h < chains_.size(); ++h)
            f(block, p_.state_of(first_ + static_cast<Index>(h)), chains_[h].S.data());
    }

    const Problem<T>& p_;
    Index b_, blocks_, first_;
    std::vector<Chain> chains_;
    std::atomic<Index> next_{0};
    std::atomic<bool> ended_{false};  // by an error
};

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
    ChainedBlocks<Block, T>(p, b, whole, heads - whole).run();
}

}  // namespace causeway::exact
