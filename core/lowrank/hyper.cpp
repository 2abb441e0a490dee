// HyperAttention: exact blocks of similar queries and keys, sampled columns for the rest (Han et al. 2023).
//
//   Ã_ij = exp(q_iᵀ k_j) where i and j are in the same block, else (B Cᵀ)_ij
//   B = exp(Q K_Jᵀ),   C_jc = N/r for the c-th drawn key j, else 0;   J: r keys drawn uniformly, with replacement
//
// Blocks: queries and keys are sorted by an angular hash, the signs of lsh_num_projs random projections read as a Gray
// code, so that neighbouring buckets differ in one sign; then cut into pieces of `block`. Ã is not a product B Cᵀ: the
// extras query_block and key_block [N] number the blocks, counted from 1; an entry whose numbers agree is to be taken
// from exp(Q Kᵀ). Outside of the blocks the estimate is unbiased. Parameters of fleet's Table 5: lsh_num_projs 7, block
// 64, 64 samples. With N <= block it is exact.
//
// rank: the number r of sampled columns. O(N (r + block) d + N log N). Samples and blocks depend on all tokens, also on
// later ones; within a prompt they may, since it is known as a whole before anything is generated (claims A12).
#include <algorithm>
#include <numeric>

#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

// The block of each row when rows are sorted by hash, equal ones by position.
void blocks(const ConstView<double>& X, const Matrix<double>& directions, Index block, double* number) {
    const Matrix<double> projected = kit::product(X, directions.transpose());
    std::vector<unsigned> hash(static_cast<std::size_t>(X.rows()), 0);
    for (Index i = 0; i < X.rows(); ++i) {
        unsigned signs = 0;
        for (Index p = 0; p < projected.cols(); ++p) signs = signs << 1 | (projected(i, p) > 0 ? 1u : 0u);
        unsigned place = signs;  // the position of the sign pattern in the Gray code
        for (unsigned shift = 1; shift < 32; shift *= 2) place ^= place >> shift;
        hash[static_cast<std::size_t>(i)] = place;
    }
    std::vector<Index> order(hash.size());
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
        return hash[static_cast<std::size_t>(a)] < hash[static_cast<std::size_t>(b)];
    });
    for (std::size_t p = 0; p < order.size(); ++p)
        number[order[p]] = static_cast<double>(static_cast<Index>(p) / block + 1);
}

void hyper(const Head<double>& h) {
    const Index N = h.N(), r = h.r();
    const Matrix<double> directions = h.random.normals(0, static_cast<Index>(h["lsh_num_projs"]), h.d());
    const auto size = static_cast<Index>(h["block"]);
    blocks(h.Q, directions, size, h.extras[0]);
    blocks(h.K, directions, size, h.extras[1]);
    const auto u = h.random.uniforms(1, r);
    Matrix<double> keys(r, h.d());
    View<double> B = h.B, C = h.C;
    C.setZero();
    for (Index c = 0; c < r; ++c) {
        const auto j = static_cast<Index>(u[static_cast<std::size_t>(c)] * static_cast<double>(N));
        keys.row(c) = h.K.row(j);
        C(j, c) = static_cast<double>(N) / static_cast<double>(r);
    }
    each_block(N, [&](Index first, Index n) {
        B.middleRows(first, n) = kit::product(h.Q.middleRows(first, n), keys.transpose()).array().exp();
    });
}

}  // namespace

Method hyper_method() {
    Method m;
    m.name = "hyper";
    m.source = "Han et al. 2023; fleet table 5";
    m.formula = "exp(q k_Jᵀ) N/r outside of the blocks that sorting by hash makes, exact inside";
    m.text =
        "HyperAttention: queries and keys are sorted by a hash of their directions and cut into blocks, inside of "
        "which entries are exact; outside stands exp(q k_Jᵀ) N/r for r sampled keys. Not a product B Cᵀ alone: "
        "query_block and key_block, returned as a third value, number the blocks; entries whose numbers agree are "
        "those of exp(q kᵀ).";
    m.use = "For a long prompt whose large scores are between queries and keys of nearly the same direction.";
    m.time = "O(N(r + block)d + N log N)";
    m.rank = "number of sampled columns";
    m.future = true;
    m.seeded = true;
    m.default_rank = 64;
    m.max_rank = [](const Size&) { return Index{1} << 20; };
    m.max_rank_text = "the largest number of samples";
    m.options = {{"lsh_num_projs", 7, 1, 30, false, "random projections of the hash"},
                 {"block", 64, 1, 1 << 20, false, "length of a block"}};
    m.extras = [](const Settings&) { return std::vector<std::string>{"query_block", "key_block"}; };
    m.f64 = hyper;
    return m;
}

}  // namespace causeway::lowrank
