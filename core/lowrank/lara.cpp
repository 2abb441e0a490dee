// LARA, linear randomized attention (Zheng, Wang and Kong 2022, "Linear complexity randomized self-attention
// mechanism"): positive random features drawn where they matter, one from each of r proposals.
//
//   exp(qᵀk) = ∫ N(ω; 0, I) ξ(q, ω) ξ(k, ω) dω,   ξ(x, ω) = exp(ωᵀx − |x|²/2)
//   ω_c from N(μ_c, I), μ_c = q̃_c + k̃_c, the means of the c-th segment of queries and keys
//   B_ic = α_ic N(ω_c; 0, I) / N(ω_c; μ_c, I) ξ(q_i, ω_c) x_c,   C_jc = ξ(k_j, ω_c) / x_c,   x_c = max_j ξ(k_j, ω_c)
//   α_ic = max(β_c + t_ic − (1/r) Σ_c' t_ic', 1e-8)
//   β_c = N(ω_c; μ_c, I) / Σ_c' N(ω_c; μ_c', I),   t_ic = exp(q_iᵀq̃_c) / Σ_i' exp(q_i'ᵀq̃_c)
//
// N(q + k, I) is the density under which the integrand of that pair is constant, hence the choice of μ. β is the
// balance heuristic of multiple importance sampling, t favours the proposals near a query; without the maximum Σ_c
// α_ic(ω) = 1 for every ω, which makes E B Cᵀ = exp(Q Kᵀ). The maximum, the authors' way to keep every row sum
// positive, leaves a small bias. With `specific` = false α = β: positive and unbiased. The authors train maps from
// means to proposals, and take ω_c = μ_c once trained; here the maps are the identity and ω is drawn. Source of the
// formulas: the paper's section 4 and the authors' code (mis-opt; mis-bh with specific = false).
//
// rank: the number of proposals, at most N. O(N r d + r² d). Landmarks: proposals depend on all tokens, also on later
// ones; within a prompt they may, since it is known as a whole before anything is generated (claims A12).
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

// log Σ_i exp(q_iᵀ x_c) for every row x_c of X: each block of queries its own maximum and sum, then all blocks in their
// order.
Vector log_sums(const ConstView<double>& Q, const Matrix<double>& X) {
    constexpr Index block = 256;
    const Index blocks = (Q.rows() + block - 1) / block, r = X.rows();
    Matrix<double> largest(blocks, r), sum(blocks, r);
    each_block(
        Q.rows(),
        [&](Index first, Index n) {
            Matrix<double> scores = kit::product(Q.middleRows(first, n), X.transpose());
            largest.row(first / block) = scores.colwise().maxCoeff();
            scores.rowwise() -= largest.row(first / block);
            sum.row(first / block) = scores.array().exp().colwise().sum();
        },
        block);
    const Eigen::RowVectorXd top = largest.colwise().maxCoeff();
    largest.rowwise() -= top;
    return (top.array() + (sum.array() * largest.array().exp()).colwise().sum().log()).transpose();
}

void lara(const Head<double>& h) {
    const Index r = h.r();
    const Matrix<double> q_mean = segment_means(h.Q, r), mu = q_mean + segment_means(h.K, r);
    const Matrix<double> omega = h.random.normals(0, r, h.d()) + mu;
    // log of N(ω_c; 0, I) / N(ω_c; μ_c, I), and β_c
    Vector ratio(r), beta(r);
    for (Index c = 0; c < r; ++c) {
        const Vector log_density = -(mu.rowwise() - omega.row(c)).rowwise().squaredNorm() / 2;
        const double largest = log_density.maxCoeff();
        beta[c] = std::exp(log_density[c] - largest) / (log_density.array() - largest).exp().sum();
        ratio[c] = -omega.row(c).squaredNorm() / 2 - log_density[c];
    }
    const bool specific = h["specific"] != 0;
    const Vector near_all = specific ? log_sums(h.Q, q_mean) : Vector();
    View<double> B = h.B, C = h.C;
    // The columns of C get 1 as their largest entry, those of B the rest, so that neither overflows where B Cᵀ does
    // not.
    constexpr Index block = 256;
    Matrix<double> largest((h.N() + block - 1) / block, r);
    each_block(
        h.N(),
        [&](Index first, Index n) {
            auto c = C.middleRows(first, n);
            kit::set_product(c, h.K.middleRows(first, n), omega.transpose());
            c.colwise() -= Vector(h.K.middleRows(first, n).rowwise().squaredNorm() / 2);
            largest.row(first / block) = c.colwise().maxCoeff();
        },
        block);
    const Eigen::RowVectorXd top = largest.colwise().maxCoeff(), factor = ratio.transpose() + top;
    each_block(h.N(), [&](Index first, Index n) {
        auto b = B.middleRows(first, n), c = C.middleRows(first, n);
        c = (c.rowwise() - top).array().exp();
        kit::set_product(b, h.Q.middleRows(first, n), omega.transpose());
        Matrix<double> alpha;
        if (specific) {
            alpha = kit::product(h.Q.middleRows(first, n), q_mean.transpose());
            alpha = (alpha.rowwise() - near_all.transpose()).array().exp();
            alpha.colwise() -= Vector(alpha.rowwise().mean());
            alpha = (alpha.rowwise() + beta.transpose()).cwiseMax(1e-8);
        } else {
            alpha = beta.transpose().replicate(n, 1);
        }
        for (Index i = 0; i < n; ++i) {
            b.row(i) = (b.row(i) + factor).array() - h.Q.row(first + i).squaredNorm() / 2;
            b.row(i) = alpha.row(i).array() * b.row(i).array().exp();
        }
    });
}

}  // namespace

Method lara_method() {
    Method m;
    m.name = "lara";
    m.source = "Zheng, Wang and Kong 2022; fleet section 4.1";
    m.formula = "B = α N(ω; 0, I) / N(ω; q̃ + k̃, I) ξ(q, ω), C = ξ(k, ω)";
    m.text =
        "Linear randomized attention: one positive random feature from each of r proposals N(q̃_c + k̃_c, I), q̃, "
        "k̃ the means of segments. Weights: the balance heuristic of importance sampling and a preference for the "
        "proposals near the query, at least 1e-8, as in the authors' code; exp(qᵀk) on average but for that least "
        "weight, exactly so with specific = false.";
    m.use =
        "For a prompt whose scores are too large for favor+ at the same rank: its features are drawn where queries "
        "and keys are.";
    m.time = "O(Nrd + r²d)";
    m.rank = "number of proposals, one random feature from each";
    m.future = true;
    m.seeded = true;
    m.default_rank = 256;
    m.max_rank = [](const Size& s) { return s.N; };
    m.max_rank_text = "the length";
    m.options = {{"specific", 1, 0, 1, true,
                  "weights that depend on the query, as in the source; false: the balance heuristic alone, unbiased"}};
    m.f64 = lara;
    return m;
}

}  // namespace causeway::lowrank
