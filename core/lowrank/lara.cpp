// LARA, linear randomized attention (Zheng, Wang and Kong 2022, "Linear complexity randomized self-attention mechanism"):
// positive random features drawn where they matter, with weights that keep the estimate unbiased.
//
//   exp(qᵀk) = ∫ N(ω; 0, I) ξ(q, ω) ξ(k, ω) dω,   ξ(x, ω) = exp(ωᵀx − |x|²/2)
//   one ω_c from each proposal N(μ_c, I), μ_c = q̃_c + k̃_c, the means of the c-th segment of queries and keys
//   B_ic = α_ic N(ω_c; 0, I) / N(ω_c; μ_c, I) ξ(q_i, ω_c),   C_jc = ξ(k_j, ω_c),   Σ_c α_ic(ω) = 1 for every ω
//
// N(q + k, I) is the density under which the integrand of that pair is constant, hence the choice of μ. The weights are the
// balance heuristic of multiple importance sampling, α_c(ω) = N(ω; μ_c, I) / Σ_c' N(ω; μ_c', I): B stays positive. `specific`
// adds softmax_c(q_iᵀ q̃_c) − 1/r, the query-specific part of the paper: still unbiased, but B may have both signs.
//
// rank: the number of proposals, at most N. O(N r d + r² d). Landmarks: proposals depend on all tokens of the prompt.
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

void lara(const Head<double>& h) {
    const Index r = h.r();
    const Matrix<double> q_mean = segment_means(h.Q, r), mu = q_mean + segment_means(h.K, r);
    const Matrix<double> omega = h.random.normals(0, r, h.d()) + mu;
    // log of N(ω_c; 0, I) / Σ_c' N(ω_c; μ_c', I), and of N(ω_c; 0, I) / N(ω_c; μ_c, I)
    Vector balanced(r), alone(r);
    for (Index c = 0; c < r; ++c) {
        const Vector log_density = -(mu.rowwise() - omega.row(c)).rowwise().squaredNorm() / 2;
        const double most = log_density.maxCoeff(), at_zero = -omega.row(c).squaredNorm() / 2;
        balanced[c] = at_zero - most - std::log((log_density.array() - most).exp().sum());
        alone[c] = at_zero - log_density[c];
    }
    const bool specific = h["specific"] != 0;
    View<double> B = h.B, C = h.C;
    each_block(h.N(), [&](Index first, Index n) {
        auto b = B.middleRows(first, n), c = C.middleRows(first, n);
        b.noalias() = h.Q.middleRows(first, n) * omega.transpose();
        c.noalias() = h.K.middleRows(first, n) * omega.transpose();
        for (Index i = 0; i < n; ++i) {
            c.row(i) = (c.row(i).array() - h.K.row(first + i).squaredNorm() / 2).exp();
            const Eigen::RowVectorXd xi = b.row(i).array() - h.Q.row(first + i).squaredNorm() / 2;
            b.row(i) = (xi + balanced.transpose()).array().exp();
            if (!specific) continue;
            Eigen::ArrayXd near = (q_mean * h.Q.row(first + i).transpose()).array();
            near = (near - near.maxCoeff()).exp();
            near = near / near.sum() - 1 / static_cast<double>(r);
            b.row(i).array() += near.transpose() * (xi + alone.transpose()).array().exp();
        }
    });
}

}  // namespace

Method lara_method() {
    Method m;
    m.name = "lara";
    m.source = "Zheng, Wang and Kong 2022; 000 section 4.1";
    m.formula = "B = α N(ω; 0, I) / N(ω; q̃ + k̃, I) ξ(q, ω), C = ξ(k, ω)";
    m.time = "O(Nrd + r²d)";
    m.rank = "number of proposals, one random feature from each";
    m.future = true;
    m.seeded = true;
    m.otherwise = 256;
    m.most = [](const Size& s) { return s.N; };
    m.most_text = "the length";
    m.options = {{"specific", 0, 0, 1, true, "weights that depend on the query; B may then have both signs"}};
    m.f64 = lara;
    return m;
}

}  // namespace causeway::lowrank
