// One block of the block methods by Eigen's products, as each_carried_block takes it.
#pragma once

#include <optional>

#include "core/exact/carried_blocks.hpp"
#include "core/exact/cost.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// Scores of the block, their product with V, products with the state before it and into the state after it. With
// `normalize` all of them are of V' = [V, 1], copied for the block, and the last column divides.
// Memory b² (+ br with decay, + 2b(d+1) normalised).
template <class T>
class EigenBlock {
public:
    EigenBlock(const Problem<T>& p, Index b)
        : p_(p),
          wide_(p.state_width()),
          A_(std::min(b, p.N), std::min(b, p.N)),
          scaled_(p.gamma ? std::min(b, p.N) : 0, p.r),
          V_(p.normalize ? std::min(b, p.N) : 0, wide_),
          P_(p.normalize ? std::min(b, p.N) : 0, wide_) {}

    static Index state_size(const Problem<T>& p) { return p.r * p.state_width(); }

    void load(Index head, Index start, Index n) {
        if (head != head_ && p_.gamma) powers_.emplace(p_.decay_of(head), A_.rows() + 1);
        head_ = head, start_ = start, n_ = n;
        if (!p_.normalize) return;
        const Head<T> h = p_.head(head_);
        V_.topLeftCorner(n, p_.d) = h.V.middleRows(start, n);
        V_.col(p_.d).head(n).setOnes();
    }

    void scores() {
        const Head<T> h = p_.head(head_);
        masked_product<T>(A_.topLeftCorner(n_, n_), h.B.middleRows(start_, n_), h.C.middleRows(start_, n_),
                          powers_ ? &*powers_ : nullptr);
    }

    void output(const T* S) {
        const Head<T> h = p_.head(head_);
        T* const into = p_.O + (head_ * p_.N + start_) * p_.d;
        View<T> P(p_.normalize ? P_.data() : into, n_, wide_);
        P.setZero();
        add_lower_product(P, A_.topLeftCorner(n_, n_), values());
        if (S && powers_) {
            for (Index i = 0; i < n_; ++i) scaled_.row(i) = h.B.row(start_ + i) * (*powers_)[i + 1];
            add_product(P, scaled_.topRows(n_), ConstView<T>(S, p_.r, wide_));
        } else if (S) {
            add_product(P, h.B.middleRows(start_, n_), ConstView<T>(S, p_.r, wide_));
        }
        if (!p_.normalize) return;
        for (Index i = 0; i < n_; ++i) View<T>(into + i * p_.d, 1, p_.d) = P.row(i).head(p_.d) / P(i, p_.d);
    }

    void delta(T* D) {
        const Head<T> h = p_.head(head_);
        View<T> into(D, p_.r, wide_);
        if (powers_) {
            for (Index i = 0; i < n_; ++i) scaled_.row(i) = h.C.row(start_ + i) * (*powers_)[n_ - 1 - i];
            set_product(into, scaled_.topRows(n_).transpose(), values());
        } else {
            set_product(into, h.C.middleRows(start_, n_).transpose(), values());
        }
    }

    T carry() const { return powers_ ? (*powers_)[n_] : T(1); }
    void import_state(const T* from, T* S) const { std::copy_n(from, state_size(p_), S); }
    void export_state(const T* S, T* into) const { std::copy_n(S, state_size(p_), into); }

private:
    // V of the block, or V'.
    ConstView<T> values() const { return {p_.normalize ? V_.data() : p_.V_of(head_) + start_ * p_.d, n_, wide_}; }

    const Problem<T>& p_;
    Index wide_;
    Scratch<T> A_, scaled_, V_, P_;
    std::optional<Powers<T>> powers_;
    Index head_ = -1, start_ = 0, n_ = 0;
};

// Method::running_memory and Method::roundings of the methods that run by this: the state and what a block adds to it,
// the scores, and with decay the scaled rows and the powers; a sum over the block, the carries of all blocks, a score
// of r products and the sum of the two parts.
inline Index block_chunk_memory(const Work& w) {
    const Index b = w.block;
    return 2 * w.r * w.d + b * b + (w.decay ? b * w.r + b + 1 : 0);
}
inline Index block_chunk_roundings(const Work& w) { return w.block + (w.N + w.block - 1) / w.block + w.r + 1; }

}  // namespace causeway::exact
