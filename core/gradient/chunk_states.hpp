// The states that the backward pass starts its chunks from.
#pragma once

#include <algorithm>

#include "core/gradient/problem.hpp"
#include "core/kit/panels.hpp"

namespace causeway::gradient {

// The states before the chunks, in panels without the padding of the last one: dk·dv numbers each.
template <class T>
class ChunkStates {
    static constexpr Index W = panel_width<T>;

public:
    ChunkStates(const gated::Head<T>& h, Index count)
        : rows_(h.dk),
          whole_(h.dv / W * W),
          rest_(h.dv - whole_),
          kept_(count * h.dk * h.dv),
          padded_(rest_ > 0 ? h.dk * (whole_ + W) : 0) {
        std::fill_n(padded_.data(), padded_.size(), T(0));
    }

    void keep(Index i, const T* panels) {
        T* into = kept_.data() + i * rows_ * (whole_ + rest_);
        std::copy_n(panels, rows_ * whole_, into);
        for (Index e = 0; e < rows_; ++e)
            std::copy_n(panels + rows_ * whole_ + e * W, rest_, into + rows_ * whole_ + e * rest_);
    }

    // In whole panels; until the next call.
    const T* get(Index i) {
        const T* from = kept_.data() + i * rows_ * (whole_ + rest_);
        if (rest_ == 0) return from;
        std::copy_n(from, rows_ * whole_, padded_.data());
        for (Index e = 0; e < rows_; ++e)
            std::copy_n(from + rows_ * whole_ + e * rest_, rest_, padded_.data() + rows_ * whole_ + e * W);
        return padded_.data();
    }

    // To the panels of a state of which these are the columns from `from` on, a multiple of the lanes of a vector.
    void copy_to(Index i, T* panels, Index from) const {
        constexpr Index L = simd::lanes<T>;
        const T* kept = kept_.data() + i * rows_ * (whole_ + rest_);
        for (Index x = 0; x < whole_ + rest_; x += L) {
            const Index stride = x < whole_ ? W : rest_, n = std::min(L, whole_ + rest_ - x);
            const T* column = kept + x / W * W * rows_ + x % W;
            T* into = panels + (from + x) / W * W * rows_ + (from + x) % W;
            for (Index e = 0; e < rows_; ++e) std::copy_n(column + e * stride, n, into + e * W);
        }
    }

private:
    Index rows_, whole_, rest_;
    Buffer<T> kept_, padded_;
};

}  // namespace causeway::gradient
