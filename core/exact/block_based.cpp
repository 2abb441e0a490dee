// Block-based by Eigen's products: the steps of the definition, spread over heads or blocks.
#include "core/exact/block_based.hpp"

#include <optional>

#include "core/exact/all_methods.hpp"
#include "core/exact/forms.hpp"

namespace causeway::exact {
namespace {

template <class T>
class Chunk {
public:
    Chunk(const Problem<T>& p, Index c)
        : p_(p), S_(std::min(c, p.N), std::min(c, p.N)), scaled_(p.gamma ? std::min(c, p.N) : 0, p.r) {}

    static Index state_size(const Problem<T>& p) { return p.r * p.d; }

    void load(Index head, Index start, Index n) {
        if (head != head_ && p_.gamma) powers_.emplace(p_.decay_of(head), S_.rows() + 1);
        head_ = head, start_ = start, n_ = n;
    }

    void scores() {
        const Head<T> h = p_.head(head_);
        masked_product<T>(S_.topLeftCorner(n_, n_), h.B.middleRows(start_, n_), h.C.middleRows(start_, n_), powers_ ? &*powers_ : nullptr);
    }

    void output(const T* U) {
        const Head<T> h = p_.head(head_);
        View<T> whole = h.O;
        auto O = whole.middleRows(start_, n_);
        O.setZero();
        add_lower_product(O, S_.topLeftCorner(n_, n_), h.V.middleRows(start_, n_));
        if (!U) return;
        const ConstView<T> state(U, p_.r, p_.d);
        if (powers_) {
            for (Index i = 0; i < n_; ++i) scaled_.row(i) = h.B.row(start_ + i) * (*powers_)[i + 1];
            O.noalias() += scaled_.topRows(n_) * state;
        } else {
            O.noalias() += h.B.middleRows(start_, n_) * state;
        }
    }

    void delta(T* D) {
        const Head<T> h = p_.head(head_);
        View<T> into(D, p_.r, p_.d);
        if (powers_) {
            for (Index i = 0; i < n_; ++i) scaled_.row(i) = h.C.row(start_ + i) * (*powers_)[n_ - 1 - i];
            into.noalias() = scaled_.topRows(n_).transpose() * h.V.middleRows(start_, n_);
        } else {
            into.noalias() = h.C.middleRows(start_, n_).transpose() * h.V.middleRows(start_, n_);
        }
    }

    T carry() const { return powers_ ? (*powers_)[n_] : T(1); }
    void import_state(const T* from, T* U) const { std::copy_n(from, state_size(p_), U); }
    void export_state(const T* U, T* into) const { std::copy_n(U, state_size(p_), into); }

private:
    const Problem<T>& p_;
    Scratch<T> S_, scaled_;
    std::optional<Powers<T>> powers_;
    Index head_ = -1, start_ = 0, n_ = 0;
};

}  // namespace

Method block_based_method() {
    Method m;
    m.name = "block-based";
    m.short_name = "Bb";
    m.source = "Lingle 2024 (Transformer-VQ), eq. 28; leet Algorithm 2";
    m.time = "O(N)";
    m.memory = "rd + b²";
    m.block = 128;
    m.state = true;
    m.f32 = [](const auto& p) { each_chunk<Chunk<float>>(p, p.block); };
    m.f64 = [](const auto& p) { each_chunk<Chunk<double>>(p, p.block); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [&](const auto& h) { block_based(h, p.block); }); };
    return m;
}

}  // namespace causeway::exact
