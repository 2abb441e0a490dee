// Linformer: keys and values projected along the length (Wang et al. 2020).
//
//   softmax(Q (E K)ᵀ) (F V):   B = exp(Q (E K)ᵀ),   C = Fᵀ,   so   (B Cᵀ)_ij = Σ_c exp(q_iᵀ Σ_l E_cl k_l) F_cj
//
// In the source E and F are learned. Untrained they are random, E = F normal with variance 1/r, and then B Cᵀ is no
// estimate of exp(Q Kᵀ): its mean is q_iᵀk_j exp(|K q_i|² / 2r). With `pooled` E takes means of r segments and F sums
// of them: every key is replaced by the mean of its segment, which at r = N is exact. rank: the rows of E and F, at
// most N. O(N r d). Every row depends on all keys, also on later ones; within a prompt it may, since that is known as a
// whole before anything is generated (claims A12).
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

void linformer(const Head<double>& h) {
    const Index N = h.N(), r = h.r();
    View<double> B = h.B, C = h.C;
    Matrix<double> keys;  // E K
    if (h["pooled"] != 0) {
        keys = segment_means(h.K, r);
        C.setZero();
        for (Index c = 0; c < r; ++c) {
            const Index first = c * N / r, last = (c + 1) * N / r;
            C.col(c).segment(first, last - first).setOnes();
        }
    } else {
        C = h.random.normals(0, N, r) / std::sqrt(static_cast<double>(r));
        keys = kit::product(C.transpose(), h.K);
    }
    each_block(N, [&](Index first, Index n) {
        B.middleRows(first, n) = kit::product(h.Q.middleRows(first, n), keys.transpose()).array().exp();
    });
}

}  // namespace

Method linformer_method() {
    Method m;
    m.name = "linformer";
    m.source = "Wang et al. 2020";
    m.formula = "B = exp(q (E k)ᵀ), C = Eᵀ";
    m.text =
        "exp(q (E k)ᵀ) times E: keys and values are mixed along the length. E is learned in the source; a random "
        "one, as here, does not estimate exp(qᵀk). pooled = true replaces every key by the mean of its segment, "
        "which does, and is exact at rank N.";
    m.use = "To time a layer of its shape; as an approximation of given keys only with pooled = true.";
    m.time = "O(Nrd)";
    m.rank = "rows of the projection E of the length";
    m.future = true;
    m.seeded = true;
    m.default_rank = 256;
    m.max_rank = [](const Size& s) { return s.N; };
    m.max_rank_text = "the length";
    m.options = {{"pooled", 0, 0, 1, true, "means of segments of keys in place of random combinations"}};
    m.f64 = linformer;
    return m;
}

}  // namespace causeway::lowrank
