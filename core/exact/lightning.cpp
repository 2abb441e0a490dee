// Lightning Attention-2 as one fused pass over register tiles.
//
// Per block of n tokens and head: the scores A = B Cᵀ ⊙ M (lower triangle, in vectors of keys, from a transposed copy
// of C), then per tile of O: B S, scaled by γ^(p+1), plus A V in the same registers, then what the block adds to the
// state. All four products run in the same register tile on panels (panels.hpp). What comes with S meets the additions
// of the tile too: 2b + ⌈N/b⌉ + r roundings (claims B7). Memory 2rd + b² + b(r+d), widths rounded up to panels; the
// definition's is rd + b. Entries of later tokens never meet earlier rows, not even times zero: Inf and NaN stay
// causal.
#include "core/exact/lightning.hpp"

#include <optional>

#include "core/exact/all_methods.hpp"
#include "core/exact/carried_blocks.hpp"
#include "core/kit/panels.hpp"

namespace causeway::exact {
namespace {

template <class T>
class TileBlock {
    using Vec = simd::Vector<T>;
    static constexpr Index L = simd::lanes<T>;
    static constexpr Index W = panel_width<T>;

    static Index panels(Index columns) { return kit::panels<T>(columns); }

public:
    TileBlock(const Problem<T>& p, Index b)
        : p_(p),
          b_(std::min(b, p.N)),
          keys_(panels(b_) * W),
          Ct_(p.r * keys_),
          weighted_(p.gamma ? p.r * keys_ : 0),
          A_(b_ * keys_),
          V_(b_ * panels(p.d) * W),
          mask_(p.gamma ? b_ + keys_ : 0),
          divisor_(p.normalize ? b_ : 0) {
        std::fill_n(V_.data(), V_.size(), T(0));
    }

    // The state [r, d] in panels, then (normalised) the sum of the rows of C.
    static Index state_size(const Problem<T>& p) { return p.r * panels(p.d) * W + (p.normalize ? p.r : 0); }

    void load(Index head, Index start, Index n) {
        const Head<T> h = p_.head(head);
        n_ = n;
        B_ = h.B.data() + start * p_.r;
        O_ = p_.O + (head * p_.N + start) * p_.d;
        if (p_.gamma && head != head_) {
            powers_.emplace(h.gamma, b_ + 1);
            // mask_[b - 1 - k] = γ^k, then zeros: the mask of row i starts b - 1 - i before key 0.
            for (Index k = 0; k < b_; ++k) mask_[b_ - 1 - k] = (*powers_)[k];
            std::fill_n(mask_.data() + b_, keys_, T(0));
        }
        head_ = head;
        pack_rows(h.V.data() + start * p_.d, n, p_.d, p_.d, V_.data(), b_);  // columns past d stay zero
        pack_transposed(h.C.data() + start * p_.r, n, p_.r, Ct_.data());
        prefetch_.clear();
        const std::size_t next = static_cast<std::size_t>(n) * sizeof(T);
        prefetch_.add(O_ + n * p_.d, next * static_cast<std::size_t>(p_.d));
        prefetch_.add(B_ + n * p_.r, next * static_cast<std::size_t>(p_.r));
        prefetch_.add(h.C.data() + (start + n) * p_.r, next * static_cast<std::size_t>(p_.r));
        prefetch_.add(h.V.data() + (start + n) * p_.d, next * static_cast<std::size_t>(p_.d));
    }

    // A = B Cᵀ ⊙ M up to the diagonal; what lies to the right of it in the last vector is never read.
    void scores() {
        each_row_tile(n_, [&](auto rows, Index i) {
            constexpr int R = decltype(rows)::value;
            const Index seen = i + R;
            for (Index key = 0; key < seen; key += W) {
                vectors_of_panel(seen - key, L, [&](auto nv) { score_tile<R, decltype(nv)::value>(i, key); });
                prefetch_.lines(per_tile_);
            }
        });
    }

    void output(const T* S) {
        if (p_.normalize) divisors(S ? S + panels(p_.d) * W * p_.r : nullptr);
        for (Index at = 0; at < p_.d; at += W) {
            each_row_tile(n_, [&](auto rows, Index i) {
                constexpr int R = decltype(rows)::value;
                vectors_of_panel(p_.d - at, L, [&](auto nv) { output_tile<R, decltype(nv)::value>(S, i, at); });
                prefetch_.lines(per_tile_);
            });
        }
    }

    // D = Σ_p γ^(n-1-p) c_pᵀ v_p.
    void delta(T* D) {
        const T* const keys = weighted_keys();
        for (Index at = 0; at < p_.d; at += W) {
            each_row_tile(p_.r, [&](auto rows, Index e) {
                constexpr int R = decltype(rows)::value;
                simd::Tile<T, R, panel_vectors> t;
                t.clear();
                for (Index key = 0; key < n_; key += W)
                    t.multiply(keys + key * p_.r + e * W, W, 1, V_.data() + at * b_ + key * W, W,
                               std::min(W, n_ - key));
                for (int row = 0; row < R; ++row)
                    for (int v = 0; v < panel_vectors; ++v)
                        simd::store(D + at * p_.r + (e + row) * W + v * L, t.acc[row][v]);
                prefetch_.lines(per_tile_);
            });
        }
        if (!p_.normalize) return;
        T* z = D + panels(p_.d) * W * p_.r;
        for (Index e = 0; e < p_.r; ++e) {
            z[e] = T(0);
            for (Index key = 0; key < n_; key += W)
                z[e] += dot(keys + key * p_.r + e * W, nullptr, std::min(W, n_ - key));
        }
    }

    T carry() const { return p_.gamma ? (*powers_)[n_] : T(1); }

    void import_state(const T* from, T* S) const {
        std::fill_n(S, state_size(p_), T(0));
        each_state_entry([&](Index mine, Index theirs) { S[mine] = from[theirs]; });
    }

    void export_state(const T* S, T* into) const {
        each_state_entry([&](Index mine, Index theirs) { into[theirs] = S[mine]; });
    }

private:
    // f(position in panels, position in the caller's [r, d] or, normalised, [r, d + 1]).
    template <class F>
    void each_state_entry(F&& f) const {
        const Index columns = p_.state_width();
        for (Index e = 0; e < p_.r; ++e) {
            for (Index k = 0; k < p_.d; ++k) f(k / W * W * p_.r + e * W + k % W, e * columns + k);
            if (p_.normalize) f(panels(p_.d) * W * p_.r + e, e * columns + p_.d);
        }
    }

    template <int R, int NV>
    void score_tile(Index i, Index key) {
        simd::Tile<T, R, NV> t;
        t.clear();
        t.multiply(B_ + i * p_.r, p_.r, 1, Ct_.data() + key * p_.r, W, p_.r);
        for (int row = 0; row < R; ++row) {
            for (int v = 0; v < NV; ++v) {
                if (p_.gamma) t.acc[row][v] *= simd::load(mask_.data() + b_ - 1 - (i + row) + key + v * L);
                simd::store(A_.data() + (i + row) * keys_ + key + v * L, t.acc[row][v]);
            }
        }
    }

    template <int R, int NV>
    void output_tile(const T* S, Index i, Index at) {
        simd::Tile<T, R, NV> t;
        t.clear();
        if (S) {
            t.multiply(B_ + i * p_.r, p_.r, 1, S + at * p_.r, W, p_.r);
            if (p_.gamma)
                for (int row = 0; row < R; ++row)
                    for (int v = 0; v < NV; ++v) t.acc[row][v] *= (*powers_)[i + row + 1];
        }
        const T* A = A_.data() + i * keys_;
        const T* V = V_.data() + at * b_;
        t.multiply(A, keys_, 1, V, W, i);
        add_triangle(t, A + i, keys_, V + i * W);
        const Index columns = std::min(p_.d - at, NV * L);
        for (int row = 0; row < R; ++row) {
            T* o = O_ + (i + row) * p_.d + at;
            if (p_.normalize)
                for (int v = 0; v < NV; ++v) t.acc[row][v] /= divisor_[i + row];
            store_row<T, NV>(o, t.acc[row], columns);
        }
    }

    // Row sums of the masked product: Σ_{j<=i} A_ij + γ^(i+1) <b_i, z>.
    void divisors(const T* z) {
        for (Index i = 0; i < n_; ++i) {
            T total = dot(A_.data() + i * keys_, nullptr, i + 1);
            if (z) total += (p_.gamma ? (*powers_)[i + 1] : T(1)) * dot(B_ + i * p_.r, z, p_.r);
            divisor_[i] = total;
        }
    }

    // Σ a_k b_k, or Σ a_k without b.
    static T dot(const T* a, const T* b, Index n) {
        Vec total = {};
        Index k = 0;
        for (; k + L <= n; k += L) total += b ? simd::load(a + k) * simd::load(b + k) : simd::load(a + k);
        T rest = simd::sum<T>(total);
        for (; k < n; ++k) rest += b ? a[k] * b[k] : a[k];
        return rest;
    }

    // Cᵀ diag(γ^(n-1-p)); without decay Cᵀ itself.
    const T* weighted_keys() {
        if (!p_.gamma) return Ct_.data();
        for (Index key = 0; key < n_; key += L) {
            Vec weight = {};
            for (Index k = 0; k < std::min(L, n_ - key); ++k) weight[k] = (*powers_)[n_ - 1 - key - k];
            const Index at = key / W * W * p_.r + key % W;
            for (Index e = 0; e < p_.r; ++e)
                simd::store(weighted_.data() + at + e * W, simd::load(Ct_.data() + at + e * W) * weight);
        }
        return weighted_.data();
    }

    const Problem<T>& p_;
    Index b_, keys_;                // longest block; the same in whole panels
    Buffer<T> Ct_, weighted_, A_;   // [r, keys], [r, keys], [b, keys]
    Buffer<T> V_, mask_, divisor_;  // [b, d in whole panels]
    std::optional<Powers<T>> powers_;
    Prefetch prefetch_;
    int per_tile_ = 24;
    Index head_ = -1, n_ = 0;
    const T* B_ = nullptr;
    T* O_ = nullptr;
};

// The multiply-adds of block-based; rd + b scalars. Decay multiplies the d outputs of a row instead of the r entries of
// b.
Cost cost_of(const Work& w) {
    const closed_form::Blocks k(w.N, w.block);
    const auto rd = closed_form::Wide(w.r) * w.d;
    const auto scaled = k.T > 1 ? (w.N - k.b) * w.d + (w.N - k.s) * w.r + (k.T - 2) * rd : 0;
    return closed_form::of(k.q * (w.r + w.d) + k.carried(w.N) * rd, w.decay ? k.q + scaled : 0,
                           rd + k.b + (w.decay ? k.b + 1 + w.r : 0));
}

// The state and what a block adds to it, the scores, panels of C and V, and with decay the scaled keys, the mask and
// the powers.
Index memory_of(const Work& w) {
    const Index rd = w.r * w.d, b = w.block;
    return 2 * rd + b * b + b * (w.r + w.d) + (w.decay ? b * w.r + 3 * b + 1 : 0);
}

// The block's own b terms are added to B U in the same registers, so what comes with U meets their additions as well.
Index roundings_of(const Work& w) {
    const Index b = w.block;
    return w.N > b ? 2 * b + (w.N + b - 1) / b + w.r : w.N + w.r;
}

}  // namespace

Method lightning_attention_2_method() {
    Method m;
    m.name = "lightning-attention-2";
    m.short_name = "LA";
    m.source = "Qin et al. 2024, §3.2; leet §3.2";
    m.formula =
        "O_p = Σ_{j<=p} γ^(p-j) (b_p · c_j) v_j + γ^(p+1) b_p S\n"
        "S ← γ^n S + Σ_p γ^(n-1-p) c_pᵀ v_p,  p = 0 .. n-1 in a block of n";
    m.text =
        "Blocks of b tokens: within one the masked product, between blocks a carried state; tiles are "
        "copied to where they stay in fast memory.";
    m.use = "The first choice on a GPU, where it runs on tensor cores; on a CPU among the fastest at any length.";
    m.time = "O(N)";
    m.memory = "rd + b";
    m.block = 64;
    m.state = true;
    m.normalizes = true;
    m.prefix = true;
    m.cost = cost_of;
    m.running_memory = memory_of;
    m.roundings = roundings_of;
    m.f32 = [](const auto& p) { each_carried_block<TileBlock<float>>(p, p.block); };
    m.f64 = [](const auto& p) { each_carried_block<TileBlock<double>>(p, p.block); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [&](const auto& h) { lightning_attention_2(h, p.block); }); };
    return m;
}

}  // namespace causeway::exact
