// Skeinformer: columns of the attention matrix, drawn by importance (Chen et al. 2022, "Sketching as a tool for understanding
// and accelerating self-attention for long sequences").
//
//   J: r − 1 keys, drawn without replacement, p_j ∝ (Σ_{i in pilot} softmax(Q Kᵀ)_ij²)^{1/2}, the pilot a uniform sample of queries
//   B = [exp(Q K_Jᵀ), g],   C = [columns J of I, 1 outside J],   g_i the geometric mean of exp(q_i K_Jᵀ)
//
// Columns in J are exact; every other entry of row i is g_i, the source's adaptive row normalisation. Two parts of the source need
// more than Q and K and are left out: |v_j| in p_j, and exact outputs for the queries of the pilot. rank: columns of B, at
// least 2; from N + 1 on all columns are exact. O(N r d). Which columns are drawn depends on all tokens.
#include <algorithm>
#include <numeric>

#include "core/base/error.hpp"
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

void skeinformer(const Head<double>& h) {
    const Index N = h.N(), r = h.r(), kept = r - 1;
    const Index pilots = std::min<Index>(N, h["pilot"] > 0 ? static_cast<Index>(h["pilot"]) : r);
    Eigen::ArrayXd squares = Eigen::ArrayXd::Zero(N);
    for (Index i : sample(h.random.uniforms(0, pilots), N, pilots)) {
        Eigen::ArrayXd row = (h.K * h.Q.row(i).transpose()).array();
        row = (row - row.maxCoeff()).exp();
        squares += (row / row.sum()).square();
    }
    // The r − 1 largest of u^(1/p): sampling without replacement, one by one in proportion to p (Efraimidis and Spirakis 2006).
    const auto u = h.random.uniforms(1, N);
    std::vector<double> key(static_cast<std::size_t>(N));
    for (std::size_t j = 0; j < key.size(); ++j) key[j] = std::log(u[j]) / std::max(std::sqrt(squares[static_cast<Index>(j)]), 1e-300);
    std::vector<Index> J(static_cast<std::size_t>(N));
    std::iota(J.begin(), J.end(), Index{0});
    std::partial_sort(J.begin(), J.begin() + kept, J.end(), [&](Index a, Index b) {
        const double x = key[static_cast<std::size_t>(a)], y = key[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
    });
    Matrix<double> keys(kept, h.d());
    View<double> B = h.B, C = h.C;
    C.setZero();
    C.col(kept).setOnes();
    for (Index c = 0; c < kept; ++c) {
        const Index j = J[static_cast<std::size_t>(c)];
        keys.row(c) = h.K.row(j);
        C(j, c) = 1;
        C(j, kept) = 0;
    }
    each_block(N, [&](Index first, Index n) {
        auto scores = B.block(first, 0, n, kept);
        scores.noalias() = h.Q.middleRows(first, n) * keys.transpose();
        B.col(kept).segment(first, n) = scores.rowwise().mean().array().exp();
        scores = scores.array().exp();
    });
}

}  // namespace

Method skeinformer_method() {
    Method m;
    m.name = "skeinformer";
    m.source = "Chen et al. 2022 (Skeinformer)";
    m.formula = "B = [exp(q k_Jᵀ), geometric mean], C = [I_J, 1 outside J]";
    m.time = "O(Nrd)";
    m.rank = "columns: r − 1 keys drawn by importance, and one for all others";
    m.future = true;
    m.seeded = true;
    m.otherwise = 128;
    m.most = [](const Size& s) { return s.N + 1; };
    m.most_text = "the length and one";
    m.options = {{"pilot", 0, 0, 1 << 20, false, "queries from which the importance of keys is estimated; 0: as many as the rank"}};
    m.check = [](const Size&, Index rank, const Settings&) {
        if (rank < 2) fail("rank: ", rank, ", expected 2 or more: a sampled column and the one for all others");
    };
    m.f64 = skeinformer;
    return m;
}

}  // namespace causeway::lowrank
