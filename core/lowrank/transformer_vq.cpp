// Transformer-VQ: every key is replaced by the nearest of r codes (Lingle 2023).
//
//   B = exp(Q Γᵀ),   C_jc = 1 for the code z(j) = c of key j, else 0:   (B Cᵀ)_ij = exp(q_iᵀ γ_z(j))
//
// In the source the codes are learned with the model; here they are the k-means of the keys at hand: seeds by k-means++
// (Arthur and Vassilvitskii 2007), then Lloyd's iteration until nothing moves. A code without keys moves to the key
// farthest from its own. rank: the number of codes, at most N, at which it is exact. O(iterations · N r d). The codes
// come from all keys of the prompt, also from later ones, which is known as a whole before anything is generated
// (claims A12); learned ones would not look ahead. The code of each key is returned as `code`, counted from 1.
#include <limits>

#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

constexpr Index block = 256;

// k-means++: each further code is a key drawn in proportion to its squared distance from the codes so far.
Matrix<double> seeds(const ConstView<double>& K, Index r, const Random& random) {
    const Index N = K.rows();
    const auto u = random.uniforms(0, r);
    Matrix<double> codes(r, K.cols());
    Vector distance = Vector::Constant(N, std::numeric_limits<double>::infinity());
    Index chosen = static_cast<Index>(u[0] * static_cast<double>(N));
    for (Index c = 0;;) {
        codes.row(c) = K.row(chosen);
        if (++c == r) return codes;
        each_block(
            N,
            [&](Index first, Index n) {
                distance.segment(first, n) = distance.segment(first, n).cwiseMin(
                    (K.middleRows(first, n).rowwise() - codes.row(c - 1)).rowwise().squaredNorm());
            },
            block);
        const double total = distance.sum();
        double left = u[static_cast<std::size_t>(c)] * total;
        if (total == 0) {  // all keys are codes already
            chosen = c % N;
            continue;
        }
        Index last = 0;  // the last key at a distance: rounding may leave a little of `left`
        for (chosen = 0; chosen < N; ++chosen) {
            if (distance[chosen] == 0) continue;
            last = chosen;
            left -= distance[chosen];
            if (left < 0) break;
        }
        if (chosen == N) chosen = last;
    }
}

void transformer_vq(const Head<double>& h) {
    const Index N = h.N(), r = h.r(), d = h.d();
    Matrix<double> codes = seeds(h.K, r, h.random);
    std::vector<Index> z(static_cast<std::size_t>(N), -1);
    Vector distance(N);
    const auto assign = [&] {
        const Vector half = codes.rowwise().squaredNorm() / 2;
        std::vector<char> moved(static_cast<std::size_t>((N + block - 1) / block), 0);
        each_block(
            N,
            [&](Index first, Index n) {
                Matrix<double> score = kit::product(h.K.middleRows(first, n), codes.transpose());
                score.rowwise() -= half.transpose();
                for (Index i = 0; i < n; ++i) {
                    Index best = 0;
                    score.row(i).maxCoeff(&best);
                    Index& own = z[static_cast<std::size_t>(first + i)];
                    if (own != best) moved[static_cast<std::size_t>(first / block)] = 1;
                    own = best;
                    distance[first + i] = (h.K.row(first + i) - codes.row(best)).squaredNorm();
                }
            },
            block);
        return std::find(moved.begin(), moved.end(), 1) != moved.end();
    };
    assign();
    for (int step = 0; step < static_cast<int>(h["iterations"]); ++step) {
        Matrix<double> sums = Matrix<double>::Zero(r, d);
        Vector count = Vector::Zero(r);
        for (Index j = 0; j < N; ++j) {
            sums.row(z[static_cast<std::size_t>(j)]) += h.K.row(j);
            count[z[static_cast<std::size_t>(j)]] += 1;
        }
        for (Index c = 0; c < r; ++c) {
            if (count[c] > 0) {
                codes.row(c) = sums.row(c) / count[c];
            } else {
                Index farthest = 0;
                if (distance.maxCoeff(&farthest) > 0) codes.row(c) = h.K.row(farthest);
                distance[farthest] = 0;
            }
        }
        if (!assign()) break;
    }
    View<double> B = h.B, C = h.C;
    C.setZero();
    for (Index j = 0; j < N; ++j) {
        C(j, z[static_cast<std::size_t>(j)]) = 1;
        h.extras[0][j] = static_cast<double>(z[static_cast<std::size_t>(j)] + 1);
    }
    each_block(
        N,
        [&](Index first, Index n) {
            B.middleRows(first, n) = kit::product(h.Q.middleRows(first, n), codes.transpose()).array().exp();
        },
        block);
}

}  // namespace

Method transformer_vq_method() {
    Method m;
    m.name = "transformer-vq";
    m.source = "Lingle 2023; Lloyd 1982; Arthur and Vassilvitskii 2007";
    m.formula = "exp(q γ_z(j)ᵀ), γ_z(j) the code nearest to key j";
    m.text =
        "Every key is replaced by the nearest of r codes, the k-means of the keys: B = exp(q γᵀ), C one-hot. Exact "
        "with as many codes as keys. The code of each key is returned as code.";
    m.use =
        "For a prompt whose keys fall into clusters; on the real inputs of docs/performance.md its errors are among "
        "the "
        "smallest of the fast ones.";
    m.time = "O(iterations · Nrd)";
    m.rank = "number of codes";
    m.future = true;
    m.seeded = true;
    m.default_rank = 64;
    m.max_rank = [](const Size& s) { return s.N; };
    m.max_rank_text = "the length";
    m.options = {{"iterations", 20, 0, 10000, false, "largest number of steps of Lloyd's iteration"}};
    m.extras = [](const Settings&) { return std::vector<std::string>{"code"}; };
    m.f64 = transformer_vq;
    return m;
}

}  // namespace causeway::lowrank
