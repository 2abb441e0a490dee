// Sequences packed one after the other into one batch entry, for calls that have no form of their own for them: each is
// cut out, computed by the very call that it is alone, and put in its place, so that the bits are those of that call.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::kit {

// Tokens first ... first + n - 1.
struct Span {
    Index first = 0, n = 0;
};

// The sequences between these offsets, of one batch entry of N tokens. Throws Error unless there are two offsets or
// more, the first is 0, the last N, none smaller than the one before it, and the batch is 1.
std::vector<Span> packed_spans(const std::vector<Index>& offsets, Index batch, Index N);

// The tokens of a span in a tensor [.., N, width], or in a tensor [.., N] with `width` false; those of nothing in
// nothing.
Tensor tokens_of(const Tensor& A, const Span&, bool width = true);
void put_tokens(Tensor& A, const Span&, const Tensor& tokens, bool width = true);

// Entry i of the first dimension, which stays as a dimension of 1.
Tensor entry_of(const Tensor& A, Index i);
void put_entry(Tensor& A, Index i, const Tensor& entry);

// f(i, span) for every sequence: those that have more than a thread's share of the tokens one after the other, each
// with all threads, the others side by side.
template <class F>
void each_sequence(const std::vector<Span>& spans, F&& f) {
    if (spans.empty()) return;
    const Index share = (spans.back().first + spans.back().n) / threads();
    std::vector<Index> few;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        if (spans[i].n <= share) {
            few.push_back(static_cast<Index>(i));
            continue;
        }
        interrupt::check();
        f(static_cast<Index>(i), spans[i]);
    }
    parallel_for(static_cast<Index>(few.size()), [&](Index task) {
        const Index i = few[static_cast<std::size_t>(task)];
        f(i, spans[static_cast<std::size_t>(i)]);
    });
}

}  // namespace causeway::kit
