// Visiting strided operands together, in row-major order, as rows as long as their layouts allow.
// Elementwise operations, parts, transposition and broadcasting are all walks with different strides.
#pragma once

#include <algorithm>
#include <array>

#include "core/base/parallel.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

// Strides in elements of a contiguous tensor.
inline std::array<Index, Shape::max_ndim> contiguous_strides(const Shape& shape) {
    std::array<Index, Shape::max_ndim> strides{};
    Index step = 1;
    for (int i = shape.ndim() - 1; i >= 0; --i) {
        strides[static_cast<std::size_t>(i)] = step;
        step *= shape[i];
    }
    return strides;
}

// Strides with which a contiguous tensor of shape `from` is read as one of shape `into`: 0 where it is repeated.
// `from` must broadcast to `into`.
inline std::array<Index, Shape::max_ndim> broadcast_strides(const Shape& from, const Shape& into) {
    const auto own = contiguous_strides(from);
    std::array<Index, Shape::max_ndim> strides{};
    const int shift = into.ndim() - from.ndim();
    for (int i = 0; i < from.ndim(); ++i) {
        if (from[i] != 1) strides[static_cast<std::size_t>(i + shift)] = own[static_cast<std::size_t>(i)];
    }
    return strides;
}

// K operands over the index space `shape`.
template <int K>
class Walk {
public:
    using Strides = std::array<std::array<Index, Shape::max_ndim>, K>;
    using Offsets = std::array<Index, K>;

    Walk(const Shape& shape, const Strides& strides) : size_(shape.size()) {
        // Dimensions of length 1 vanish; neighbours that every operand passes through evenly become one.
        for (int i = 0; i < shape.ndim(); ++i) {
            if (shape[i] == 1) continue;
            if (ndim_ > 0 && mergeable(strides, at(i), shape[i])) {
                dims_[at(ndim_ - 1)] *= shape[i];
            } else {
                dims_[at(ndim_++)] = shape[i];
            }
            for (int k = 0; k < K; ++k) strides_[at(k)][at(ndim_ - 1)] = strides[at(k)][at(i)];
        }
        if (ndim_ == 0) dims_[at(ndim_++)] = 1;
    }

    // Step of operand k inside a row.
    Index step(int k) const { return strides_[at(k)][at(ndim_ - 1)]; }

    // Calls row(offsets, position, n) for each row: operand k's elements are offsets[k] + i * step(k), i < n, and
    // `position` counts the elements before. Pieces of fixed size run in parallel.
    template <class Row>
    void run(Row row) const {
        constexpr Index piece = 1 << 15;
        parallel_for((size_ + piece - 1) / piece, [&](Index p) {
            const Index end = std::min(size_, (p + 1) * piece);
            for (Index position = p * piece; position < end;) {
                const Index width = dims_[at(ndim_ - 1)];
                const Index column = position % width;
                const Index n = std::min(end - position, width - column);
                row(offsets(position), position, n);
                position += n;
            }
        });
    }

    // Where each operand stands after `position` elements.
    Offsets offsets(Index position) const {
        Offsets out{};
        for (int i = ndim_ - 1; i >= 0; --i) {
            const Index index = position % dims_[at(i)];
            position /= dims_[at(i)];
            for (int k = 0; k < K; ++k) out[at(k)] += index * strides_[at(k)][at(i)];
        }
        return out;
    }

private:
    static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

    bool mergeable(const Strides& strides, std::size_t i, Index dim) const {
        for (int k = 0; k < K; ++k) {
            if (strides_[at(k)][at(ndim_ - 1)] != strides[at(k)][i] * dim) return false;
        }
        return true;
    }

    Index size_;
    int ndim_ = 0;
    std::array<Index, Shape::max_ndim> dims_{};
    Strides strides_{};
};

}  // namespace causeway
