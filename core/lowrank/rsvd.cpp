// Randomised range finder (Halko, Martinsson and Tropp 2011, algorithms 4.4 and 5.1): close to the truncated singular
// value decomposition, from products with A = exp(Q Kᵀ) alone. A is formed tile by tile, never as a whole.
//
//   Y = A Ω, Ω [N, l] normal, l = r + oversample; `power` times Y ← A Aᵀ Y, orthonormal in between
//   Y = Q_Y R,   W = Aᵀ Q_Y:   A ≈ Q_Y Wᵀ,   of which the r largest singular values are kept
//
// The error of Q_Y Wᵀ in operator norm is on average at most (1 + √(r/(p−1)) + e√(r+p)/p √(N−r))^{1/(2 power + 1)}
// σ_{r+1}, p = oversample (Corollary 10.10). rank: singular values kept, at most N. O((2 power + 2) N² (d + l)) time,
// O(N l) memory. Every row depends on all tokens, also on later ones; within a prompt it may, since that is known as a
// whole before anything is generated (claims A12).
#include "core/base/interrupt.hpp"
#include "core/lowrank/registry.hpp"
#include "core/tensor/orthogonal.hpp"
#include "core/tensor/singular.hpp"

namespace causeway::lowrank {
namespace {

Matrix<double> orthonormal(const Matrix<double>& Y) {
    interrupt::check();
    const dense::Orthogonal qr = dense::orthogonal(Y);
    interrupt::check();
    return qr.Q;
}

void rsvd(const Head<double>& h) {
    const Index N = h.N(), r = h.r(), l = std::min(N, r + static_cast<Index>(h["oversample"]));
    const Buffer<double> workspace(5 * (N + l) * l);  // what the matrices below take
    const auto product = [&](const ConstView<double>& rows, const ConstView<double>& columns, const Matrix<double>& X) {
        Matrix<double> Y(N, l);
        kernel_product(rows, columns, X, {Y.data(), N, l});
        return Y;
    };
    Matrix<double> basis = orthonormal(product(h.Q, h.K, h.random.normals(0, N, l)));
    for (int step = 0; step < static_cast<int>(h["power"]); ++step) {
        basis = orthonormal(product(h.K, h.Q, basis));
        basis = orthonormal(product(h.Q, h.K, basis));
    }
    const Matrix<double> W = product(h.K, h.Q, basis);
    if (!W.allFinite()) overflows();
    const dense::Orthogonal qr = dense::orthogonal(W);
    interrupt::check();
    const dense::Singular small = dense::singular(qr.R);
    interrupt::check();
    const Vector root = small.s.head(r).cwiseSqrt();
    // A ≈ basis Wᵀ = basis (Q_W U S Vᵀ)ᵀ = (basis V) S (Q_W U)ᵀ
    const Matrix<double> left = small.U.leftCols(r) * root.asDiagonal(), Q_W = qr.Q,
                         right = small.V.leftCols(r) * root.asDiagonal();
    View<double> B = h.B, C = h.C;
    kit::set_product(B, basis, right);
    kit::set_product(C, Q_W, left);
}

}  // namespace

Method rsvd_method() {
    Method m;
    m.name = "rsvd";
    m.source = "Halko, Martinsson and Tropp 2011; fleet section 2";
    m.formula = "Q_Y Q_Yᵀ A, of it the largest singular values";
    m.text =
        "Nearly the r largest singular values, from products with exp(scale q kᵀ) computed tile by tile; memory "
        "O(N r).";
    m.use = "As svd, for lengths whose matrix does not fit; its time still grows with N².";
    m.time = "O(power · N²(r + d))";
    m.rank = "number of singular values kept";
    m.future = true;
    m.seeded = true;
    m.default_rank = 64;
    m.max_rank = [](const Size& s) { return s.N; };
    m.max_rank_text = "the length";
    m.options = {{"oversample", 10, 0, 4096, false, "columns beyond the rank while the range is sought"},
                 {"power", 2, 0, 20, false, "power iterations"}};
    m.f64 = rsvd;
    return m;
}

}  // namespace causeway::lowrank
