// How the methods spread over blocks of tokens with a carried state. Nothing here depends on the number of threads but
// the order in which independent pieces are computed, so results do not either.
#pragma once

#include <algorithm>
#include <vector>

#include "core/exact/problem.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {

// Elements from ... to - 1 of a state and of what a block adds to it: S ← carry S + D, and D becomes the state before
// the block.
template <class T>
void combine(T* S, T* D, Index from, Index to, T carry) {
    for (Index i = from; i < to; ++i) {
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
        else combine(S.data(), D.data(), 0, state_size, block.carry());
    }
    block.export_state(S.data(), p.state_of(head));
}

// One head by all threads, in waves of blocks: what all blocks of the wave add to the state, in parallel; one pass that
// turns this into the states before each block; the outputs of all blocks, in parallel.
template <class Block, class T>
class Waves {
public:
    Waves(const Problem<T>& p, Index b)
        : p_(p), b_(b), blocks_((p.N + b - 1) / b), state_size_(Block::state_size(p)), S_(state_size_) {
        const Index wave = std::min<Index>(blocks_, 4 * threads());
        for (Index i = 0; i < wave; ++i) {
            wave_.emplace_back(p, b);
            D_.emplace_back(state_size_);
        }
    }

    void run(Index head) {
        if (p_.state) wave_[0].import_state(p_.state_of(head), S_.data());
        else std::fill_n(S_.data(), state_size_, T(0));
        const auto wave = static_cast<Index>(wave_.size());
        for (Index first = 0; first < blocks_; first += wave) run_wave(head, first, std::min(wave, blocks_ - first));
        if (p_.state) wave_[0].export_state(S_.data(), p_.state_of(head));
    }

private:
    Block& block(Index i) { return wave_[static_cast<std::size_t>(i)]; }
    T* delta(Index i) { return D_[static_cast<std::size_t>(i)].data(); }

    void run_wave(Index head, Index first, Index count) {
        const bool update = p_.state || first + count < blocks_;  // the state after the wave is wanted
        parallel_for(count, [&](Index i) {
            const Index start = (first + i) * b_;
            block(i).load(head, start, std::min(b_, p_.N - start));
            block(i).scores();
            if (i + 1 < count || update) block(i).delta(delta(i));
        });
        each_block(
            state_size_,
            [&](Index from, Index n) {
                for (Index i = 0; i < count; ++i) {
                    if (i + 1 < count || update) combine(S_.data(), delta(i), from, from + n, block(i).carry());
                    else std::copy_n(S_.data() + from, n, delta(i) + from);
                }
            },
            4096);
        const T* const none = nullptr;
        parallel_for(count, [&](Index i) { block(i).output(first + i > 0 || p_.state ? delta(i) : none); });
    }

    const Problem<T>& p_;
    Index b_, blocks_, state_size_;
    std::vector<Block> wave_;
    Buffer<T> S_;
    std::vector<Buffer<T>> D_;
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
// Where there are enough heads, each is one task; the remaining ones go in waves. The arithmetic of a block is the same
// either way, so the two agree bit for bit. Extra memory: a state and the scratch of Block for every head in flight, or
// for every block of a wave.
template <class Block, class T>
void each_carried_block(const Problem<T>& p, Index b) {
    if (p.N == 0) return;
    const Index heads = p.all_heads(), crew = threads();
    const Index whole = p.N <= b || heads >= 4 * crew ? heads : heads / crew * crew;
    parallel_for(whole, [&](Index h) { carry_in_order<Block>(p, b, h); });
    if (whole == heads) return;
    Waves<Block, T> waves(p, b);
    for (Index h = whole; h < heads; ++h) waves.run(h);
}

}  // namespace causeway::exact
