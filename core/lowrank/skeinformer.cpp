// Skeinformer: columns of the attention matrix, drawn by importance (Chen et al. 2022, "Sketching as a tool for
// understanding and accelerating self-attention for long sequences").
//
//   J: r − 1 keys, drawn without replacement, p_j ∝ (Σ_{i in pilot} softmax(Q Kᵀ)_ij²)^{1/2} |v_j|, the pilot a uniform
//   sample of queries B = [exp(Q K_Jᵀ), g],   C = [columns J of I, 1 outside J],   g_i the geometric mean of exp(q_i
//   K_Jᵀ) row i of the estimate is that of exp(Q Kᵀ) itself for i in the pilot, else that of B Cᵀ
//
// Columns in J are exact; every other entry of row i is g_i, the source's adaptive row normalisation. The rows of the
// pilot, which the estimate of p computes anyway, are used again: `exact_rows` [N] is 1 there, and such a row is to be
// taken from exp(Q Kᵀ), not from B Cᵀ. |v_j| counts where the option v gives the values, and is 1 without. (Checked
// against the authors' code, which draws the pilot with replacement.)
//
// rank: columns of B, at least 2; from N + 1 on all columns are exact. O(N (r + pilot) d). What is drawn depends on all
// tokens, also on later ones; within a prompt it may, since that is known as a whole before anything is generated
// (claims A12).
#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/error.hpp"
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

// log Σ_j exp(q_iᵀ k_j) for every row of Q, the keys in tiles.
Vector log_row_sums(const Matrix<double>& Q, const ConstView<double>& K) {
    constexpr Index tile = 512;
    Vector out(Q.rows());
    each_block(
        Q.rows(),
        [&](Index first, Index m) {
            Vector largest = Vector::Constant(m, -std::numeric_limits<double>::infinity()), sum = Vector::Zero(m);
            for (Index j = 0; j < K.rows(); j += tile) {
                Matrix<double> scores =
                    kit::product(Q.middleRows(first, m), K.middleRows(j, std::min(tile, K.rows() - j)).transpose());
                const Vector higher = largest.cwiseMax(scores.rowwise().maxCoeff());
                scores.colwise() -= higher;
                sum = sum.array() * (largest - higher).array().exp() + scores.array().exp().rowwise().sum();
                largest = higher;
            }
            out.segment(first, m) = largest.array() + sum.array().log();
        },
        16);
    return out;
}

void skeinformer(const Head<double>& h) {
    const Index N = h.N(), r = h.r(), kept = r - 1;
    const Index pilots = std::min<Index>(N, h["pilot"] > 0 ? static_cast<Index>(h["pilot"]) : r);
    const auto pilot = sample(h.random.uniforms(0, pilots), N, pilots);
    Matrix<double> queries(pilots, h.d());
    std::fill_n(h.extras[0], N, 0.0);
    for (Index i = 0; i < pilots; ++i) {
        const Index row = pilot[static_cast<std::size_t>(i)];
        queries.row(i) = h.Q.row(row);
        h.extras[0][row] = 1;
    }
    const Vector log_sums = log_row_sums(queries, h.K);
    Eigen::ArrayXd weight(N);
    each_block(N, [&](Index first, Index n) {
        Matrix<double> scores = kit::product(queries, h.K.middleRows(first, n).transpose());
        scores.colwise() -= log_sums;
        weight.segment(first, n) = (2 * scores.array()).exp().colwise().sum().sqrt();
        if (h.sizes) weight.segment(first, n) *= Eigen::Map<const Eigen::ArrayXd>(h.sizes + first, n);
    });
    // The r − 1 largest of u^(1/p): sampling without replacement, one by one in proportion to p (Efraimidis and
    // Spirakis 2006).
    const auto u = h.random.uniforms(1, N);
    std::vector<double> key(static_cast<std::size_t>(N));
    for (std::size_t j = 0; j < key.size(); ++j)
        key[j] = std::log(u[j]) / std::max(weight[static_cast<Index>(j)], 1e-300);
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
        kit::set_product(scores, h.Q.middleRows(first, n), keys.transpose());
        B.col(kept).segment(first, n) = scores.rowwise().mean().array().exp();
        scores = scores.array().exp();
    });
}

}  // namespace

Method skeinformer_method() {
    Method m;
    m.name = "skeinformer";
    m.source = "Chen et al. 2022 (Skeinformer)";
    m.formula = "B = [exp(q k_Jᵀ), geometric mean], C = [I_J, 1 outside J]; rows of the pilot exact";
    m.text =
        "r − 1 columns of exp(q kᵀ), drawn by an importance that a pilot sample of queries estimates, times the "
        "length of the values where v is given; every other entry of a row is the geometric mean of those. Exact "
        "at rank N + 1. Not a product B Cᵀ alone: exact_rows, returned in a third value, is 1 for the queries of "
        "the pilot, whose rows are those of exp(q kᵀ).";
    m.use = "For a prompt where a few keys carry most of the weight, the same ones for most queries.";
    m.time = "O(N(r + pilot)d)";
    m.rank = "columns: r − 1 keys drawn by importance, and one for all others";
    m.future = true;
    m.seeded = true;
    m.values = true;
    m.default_rank = 128;
    m.max_rank = [](const Size& s) { return s.N + 1; };
    m.max_rank_text = "the length and one";
    m.options = {{"pilot", 0, 0, 1 << 20, false,
                  "queries from which the importance of keys is estimated; 0: as many as the rank"}};
    m.extras = [](const Settings&) { return std::vector<std::string>{"exact_rows"}; };
    m.check = [](const Size&, Index rank, const Settings&) {
        if (rank < 2) fail("rank: ", rank, ", expected 2 or more: a sampled column and the one for all others");
    };
    m.f64 = skeinformer;
    return m;
}

}  // namespace causeway::lowrank
