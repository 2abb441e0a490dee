#include "core/kit/packed.hpp"

#include <cstring>

#include "core/base/error.hpp"
#include "core/tensor/rearrange.hpp"

namespace causeway::kit {
namespace {

Box box_of(const Tensor& A, const Span& span, bool width) {
    Box box;
    for (int i = 0; i < A.ndim(); ++i) box.count[static_cast<std::size_t>(i)] = A.shape()[i];
    const auto tokens = static_cast<std::size_t>(A.ndim() - (width ? 2 : 1));
    box.first[tokens] = span.first, box.count[tokens] = span.n;
    return box;
}

}  // namespace

std::vector<Span> packed_spans(const std::vector<Index>& offsets, Index batch, Index N) {
    const auto last = static_cast<Index>(offsets.size()) - 1;
    if (batch != 1) fail("cu_seqlens: given with batch ", batch, ", expected batch 1, which holds all sequences");
    if (last < 1) fail("cu_seqlens: one offset, expected the first, 0, and the last, ", N, ", at least");
    if (offsets.front() != 0) fail("cu_seqlens: ", offsets.front(), " as its first offset, expected 0");
    if (offsets.back() != N) fail("cu_seqlens: ", offsets.back(), " as its last offset, expected ", N, ", the tokens");
    std::vector<Span> out;
    out.reserve(offsets.size() - 1);
    for (std::size_t i = 1; i < offsets.size(); ++i) {
        if (offsets[i] < offsets[i - 1])
            fail("cu_seqlens: offset ", i + 1, " is ", offsets[i], ", expected ", offsets[i - 1],
                 " or more like offset ", i);
        out.push_back({offsets[i - 1], offsets[i] - offsets[i - 1]});
    }
    return out;
}

Tensor tokens_of(const Tensor& A, const Span& span, bool width) { return part(A, box_of(A, span, width)); }

void put_tokens(Tensor& A, const Span& span, const Tensor& tokens, bool width) {
    assign(A, box_of(A, span, width), tokens);
}

Tensor entry_of(const Tensor& A, Index i) {
    Shape shape = A.shape();
    shape[0] = 1;
    Tensor out(A.dtype(), shape);
    if (out.bytes() > 0) std::memcpy(out.raw(), A.raw() + static_cast<std::size_t>(i) * out.bytes(), out.bytes());
    return out;
}

void put_entry(Tensor& A, Index i, const Tensor& entry) {
    if (entry.bytes() > 0)
        std::memcpy(A.raw() + static_cast<std::size_t>(i) * entry.bytes(), entry.raw(), entry.bytes());
}

}  // namespace causeway::kit
