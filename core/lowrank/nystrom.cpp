// Nyström with landmarks (Xiong et al. 2021, "Nyströmformer"), on the attention matrix itself:
//
//   B Cᵀ = exp(Q K̃ᵀ) exp(Q̃ K̃ᵀ)⁺ exp(Q̃ Kᵀ),   Q̃, K̃ [r, d] the means of r segments of Q and K
//
// Xiong et al. take the softmax of each of the three factors; without it the product approximates exp(Q Kᵀ), and with r
// = N landmarks it is exact. rank: the number of landmarks, at most N; where it does not divide N, segments differ by
// one token. O(N r d + N r² + r³). The pseudo-inverse is exact, by singular values above 1e-13 of the largest, or with
// `iterations` > 0 that of Razavi et al. 2014, of third order: Z ← Z (13 I − XZ (15 I − XZ (7 I − XZ))) / 4 from Xᵀ /
// (|X|₁ |X|∞). Landmarks: every row depends on all tokens, also on later ones; within a prompt it may, since that is
// known as a whole before anything is generated (claims A12).
#include "core/base/interrupt.hpp"
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

Matrix<double> iterated_inverse(const Matrix<double>& X, int iterations) {
    const Buffer<double> workspace(6 * X.size());  // what the matrices below take
    const Matrix<double> I = Matrix<double>::Identity(X.rows(), X.rows());
    const double columns = X.cwiseAbs().colwise().sum().maxCoeff(), rows = X.cwiseAbs().rowwise().sum().maxCoeff();
    Matrix<double> Z = X.transpose() / (columns * rows);
    for (int i = 0; i < iterations; ++i) {
        interrupt::check();
        const Matrix<double> XZ = kit::product(X, Z);
        Matrix<double> inner = 7 * I - XZ;
        inner = 15 * I - kit::product(XZ, inner);
        interrupt::check();
        inner = 13 * I - kit::product(XZ, inner);
        Z = 0.25 * kit::product(Z, inner);
    }
    return Z;
}

void nystrom(const Head<double>& h) {
    const Matrix<double> q = segment_means(h.Q, h.r()), k = segment_means(h.K, h.r());
    const Matrix<double> X = kit::product(q, k.transpose()).array().exp();
    const int iterations = static_cast<int>(h["iterations"]);
    const PseudoInverse Z =
        iterations > 0 ? PseudoInverse{iterated_inverse(X, iterations), {}} : pseudo_inverse(X, 1e-13);
    View<double> B = h.B, C = h.C;
    each_block(h.N(), [&](Index first, Index n) {
        const Matrix<double> F = kit::product(h.Q.middleRows(first, n), k.transpose()).array().exp();
        const Matrix<double> G = kit::product(h.K.middleRows(first, n), q.transpose()).array().exp();
        kit::set_product(B.middleRows(first, n), F, Z.left);
        if (iterations > 0) C.middleRows(first, n) = G;
        else kit::set_product(C.middleRows(first, n), G, Z.right.transpose());
    });
}

}  // namespace

Method nystrom_method() {
    Method m;
    m.name = "nystrom";
    m.source = "Xiong et al. 2021; Razavi et al. 2014; fleet section 4.1";
    m.formula = "exp(q k̃ᵀ) exp(q̃ k̃ᵀ)⁺ exp(q̃ kᵀ)";
    m.text =
        "exp(q k̃ᵀ) exp(q̃ k̃ᵀ)⁺ exp(q̃ kᵀ) with the means of segments as landmarks: the Nyströmformer without the "
        "softmax in each factor. Exact with as many landmarks as tokens; the rank need not divide N.";
    m.use =
        "For a prompt whose neighbouring tokens are alike, so that means of segments stand for them. On the inputs of "
        "docs/performance.md skyformer has smaller errors. Where neighbours are unlike, as in independent normal q and "
        "k, their means are near 0 and the matrix between the landmarks is nearly singular: its inverse multiplies "
        "what "
        "they miss, and the error grows with the rank, beyond what is approximated itself, until the rank is near the "
        "length.";
    m.time = "O(Nrd + Nr² + r³)";
    m.rank = "number of landmarks, means of segments";
    m.future = true;
    m.default_rank = 64;
    m.max_rank = [](const Size& s) { return s.N; };
    m.max_rank_text = "the length";
    m.options = {{"iterations", 0, 0, 100, false,
                  "steps of the iterative pseudo-inverse (6 in the source); 0: by singular values"}};
    m.f64 = nystrom;
    return m;
}

}  // namespace causeway::lowrank
