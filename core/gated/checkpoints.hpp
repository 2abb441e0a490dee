// States that a call keeps on its way.
#pragma once

#include <algorithm>
#include <vector>

#include "core/gated/problem.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::gated {

// Runs the sequences of p, a Problem or what is made of one, in pieces of `every` tokens and returns the states between
// them, [checkpoints, heads, d_k, d_v]: of each sequence in turn those after every, 2·every, ... tokens. A piece is
// what a call that goes on from its state computes, so the bits are the same. run(p) runs a piece of all sequences.
template <class T, class P, class Run>
Tensor run_with_checkpoints(P p, Index every, Run&& run) {
    std::vector<Sequence> whole;
    std::vector<Index> place;  // of the first checkpoint of each sequence
    Index longest = 0, all = 0;
    for (Index i = 0; i < p.all_sequences(); ++i) {
        whole.push_back(p.sequence(i));
        place.push_back(all);
        longest = std::max(longest, whole.back().n);
        all += whole.back().n / every;
    }
    const Index elements = p.heads * p.dk * p.dv;
    Tensor kept(dtype_of<T>, {all, p.heads, p.dk, p.dv});
    p.sequences = whole;
    p.chunk = std::min(p.chunk, every);
    for (Index start = 0, piece = 0; start < longest; start += every, ++piece) {
        for (std::size_t i = 0; i < whole.size(); ++i)
            p.sequences[i] = {whole[i].batch, whole[i].first + std::min(start, whole[i].n),
                              std::clamp<Index>(whole[i].n - start, 0, every)};
        run(p);
        for (std::size_t i = 0; i < whole.size(); ++i)
            if (start + every <= whole[i].n)
                std::copy_n(p.S + static_cast<Index>(i) * elements, elements,
                            kept.data<T>() + (place[i] + piece) * elements);
    }
    return kept;
}

}  // namespace causeway::gated
