// Skyformer: Nyström on the Gaussian kernel of queries and keys together (Chen et al. 2021, "Skyformer: remodel
// self-attention with Gaussian kernel and Nyström method").
//
//   κ(x, y) = exp(−|x−y|²/2), S the landmarks, r rows of [Q; K] drawn without replacement:
//   κ(Q, K) ≈ κ(Q, S) κ(S, S)⁺ κ(S, K)
//
// κ of all 2N rows is positive semidefinite, of which this is the Nyström approximation; its upper right quarter is
// returned. As exp(qᵀk) = e^{|q|²/2} κ(q, k) e^{|k|²/2}, the same factors with exp(xᵀs − |s|²/2) in place of κ(x, s)
// give exp(Q Kᵀ); they are the features of favor+ at the directions S. `gaussian` returns κ(Q, K), the attention that
// Skyformer trains with. The authors' code draws half of S from each of Q and K, adds I/10 to κ(S, S) and inverts it in
// six steps; here it is the pseudo-inverse. rank: the number of landmarks, at most 2N, at which it is exact. O(N r d +
// N r² + r³). Landmarks come from all tokens, also from later ones; within a prompt they may, since it is known as a
// whole before anything is generated (claims A12).
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

void skyformer(const Head<double>& h) {
    const Index N = h.N(), r = h.r();
    const auto drawn = sample(h.random.uniforms(0, r), 2 * N, r);
    Matrix<double> S(r, h.d());
    for (Index c = 0; c < r; ++c) {
        const Index row = drawn[static_cast<std::size_t>(c)];
        S.row(c) = row < N ? h.Q.row(row) : h.K.row(row - N);
    }
    const Eigen::RowVectorXd half = S.rowwise().squaredNorm().transpose() / 2;
    const bool gaussian = h["gaussian"] != 0;
    const auto kernel = [&](const auto& X, bool pure) {
        Matrix<double> F = kit::product(X, S.transpose());
        F.rowwise() -= half;
        if (pure) F.colwise() -= Vector(X.rowwise().squaredNorm() / 2);
        F = F.array().exp();
        return F;
    };
    const PseudoInverse Z = pseudo_inverse(kernel(S, true), 1e-13);
    View<double> B = h.B, C = h.C;
    each_block(N, [&](Index first, Index n) {
        kit::set_product(B.middleRows(first, n), kernel(h.Q.middleRows(first, n), gaussian), Z.left);
        kit::set_product(C.middleRows(first, n), kernel(h.K.middleRows(first, n), gaussian), Z.right.transpose());
    });
}

}  // namespace

Method skyformer_method() {
    Method m;
    m.name = "skyformer";
    m.source = "Chen et al. 2021 (Skyformer)";
    m.formula = "κ(q, s) κ(s, s)⁺ κ(s, k), κ Gaussian";
    m.text =
        "Nyström on the Gaussian kernel of queries and keys together, κ(q, s) κ(s, s)⁺ κ(s, k), with landmarks s "
        "drawn from both; times the factors that make it exp(qᵀk). Exact with 2N landmarks.";
    m.use =
        "For a prompt, as nystrom: its matrix of landmarks is positive semidefinite, so the pseudo-inverse is a "
        "tame one.";
    m.time = "O(Nrd + Nr² + r³)";
    m.rank = "number of landmarks, drawn from queries and keys";
    m.future = true;
    m.seeded = true;
    m.default_rank = 128;
    m.max_rank = [](const Size& s) { return 2 * s.N; };
    m.max_rank_text = "twice the length";
    m.options = {
        {"gaussian", 0, 0, 1, true, "B Cᵀ ≈ exp(−scale |q−k|²/2), without the factors that make it exp(scale qᵀk)"}};
    m.f64 = skyformer;
    return m;
}

}  // namespace causeway::lowrank
