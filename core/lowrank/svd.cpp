// The best factors there are: the truncated singular value decomposition of A = exp(Q Kᵀ) (Eckart and Young 1936). No
// other B Cᵀ of rank r has a smaller error in Frobenius or operator norm, (Σ_{i>r} σ_i²)^{1/2} and σ_{r+1}: the
// yardstick of all others.
//
//   A = U Σ Vᵀ,   B = U_r Σ_r^{1/2},   C = V_r Σ_r^{1/2}
//
// A is formed: O(N³) time, O(N²) memory, for N <= 4096. rank: singular values kept, at most N. Every row depends on all
// tokens, also on later ones; within a prompt it may, since that is known as a whole before anything is generated
// (claims A12).
#include "core/base/error.hpp"
#include "core/lowrank/registry.hpp"
#include "core/tensor/singular.hpp"

namespace causeway::lowrank {
namespace {

void svd(const Head<double>& h) {
    const Index N = h.N(), r = h.r();
    const dense::Room workspace = dense::room(6 * N * N);  // what the decomposition takes
    Eigen::MatrixXd A(N, N);
    each_block(N, [&](Index first, Index n) {
        A.middleRows(first, n) = kit::product(h.Q.middleRows(first, n), h.K.transpose()).array().exp();
    });
    if (!A.allFinite()) overflows();
    const dense::Singular svd = dense::singular(A, workspace);
    const Vector root = svd.s.head(r).cwiseSqrt();
    View<double> B = h.B, C = h.C;
    B = svd.U.leftCols(r) * root.asDiagonal();
    C = svd.V.leftCols(r) * root.asDiagonal();
}

}  // namespace

Method svd_method() {
    Method m;
    m.name = "svd";
    m.source = "Eckart and Young 1936; fleet section 2";
    m.formula = "U_r Σ_r V_rᵀ";
    m.text =
        "The best factors there are: the r largest singular values of exp(scale q kᵀ). No other B Cᵀ of this rank "
        "has a smaller error in Frobenius or operator norm. Forms the matrix, for N <= 4096.";
    m.use =
        "To know how small an error of this rank can be, before asking it of another factorisation. The function "
        "svd(A) takes any matrix.";
    m.time = "O(N³)";
    m.rank = "number of singular values kept";
    m.future = true;
    m.default_rank = 64;
    m.max_rank = [](const Size& s) { return s.N; };
    m.max_rank_text = "the length";
    m.check = [](const Size& s, Index, const Settings&) {
        constexpr Index max_length = 4096;
        if (s.N > max_length)
            fail("q: length ", s.N, ", expected at most ", max_length,
                 ": svd forms the whole matrix; \"rsvd\" does not");
    };
    m.f64 = svd;
    return m;
}

}  // namespace causeway::lowrank
