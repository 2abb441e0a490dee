// Random feature attention: trigonometric features of the Gaussian kernel (Rahimi and Recht 2007; Peng et al. 2021).
//
//   φ(x) = exp(|x|²/2) √(2/r) [cos ω_1ᵀx, …, cos ω_{r/2}ᵀx, sin ω_1ᵀx, …],   E φ(q)ᵀφ(k) = exp(|q|²/2 + |k|²/2)
//   exp(−|q−k|²/2) = exp(qᵀk)
//
// rank: the number r of features, two for each direction ω. O(N r d). Features have both signs: a row sum of B Cᵀ may
// vanish, which the positive features of favor+ exclude. Peng et al. divide q and k by their lengths, so that
// exp(|x|²/2) is one constant; here it stays, split so that B and C have similar sizes, by one number found from all
// tokens, which cancels in B Cᵀ: an entry of that depends on its two tokens alone.
#include "core/base/error.hpp"
#include "core/lowrank/features.hpp"
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

// max |x|²
template <class T>
T largest_square(const ConstView<T>& X) {
    T largest = 0;
    for (Index i = 0; i < X.rows(); ++i) largest = std::max(largest, X.row(i).squaredNorm());
    return largest;
}

template <class T>
void rfa(const Head<T>& h) {
    const Index half = h.r() / 2;
    const Matrix<T> W = directions(h.random, half, h.d(), h["orthogonal"] != 0).transpose().template cast<T>();
    const T shift = (largest_square(h.Q) - largest_square(h.K)) / 4;
    const auto features = [&](const ConstView<T>& X, View<T> F, T less) {
        each_block(X.rows(), [&](Index first, Index n) {
            const Matrix<T> angles = kit::product(X.middleRows(first, n), W);
            for (Index i = 0; i < n; ++i) {
                const T factor = std::exp(X.row(first + i).squaredNorm() / 2 - less) / std::sqrt(static_cast<T>(half));
                F.row(first + i).head(half).array() = angles.row(i).array().cos() * factor;
                F.row(first + i).tail(half).array() = angles.row(i).array().sin() * factor;
            }
        });
    };
    features(h.Q, h.B, shift);
    features(h.K, h.C, -shift);
}

}  // namespace

Method rfa_method() {
    Method m;
    m.name = "rfa";
    m.source = "Rahimi and Recht 2007; Peng et al. 2021";
    m.formula = "exp(|x|²/2) √(2/r) [cos ωᵀx, sin ωᵀx]";
    m.text =
        "Trigonometric random features of the Gaussian kernel, exp(|x|²/2) √(2/r) [cos ωᵀx, sin ωᵀx]: exp(qᵀk) on "
        "average, entry by entry, but of both signs, so that a row sum may vanish.";
    m.use = "To compare with favor+, which draws as many numbers and keeps row sums positive.";
    m.time = "O(Nrd)";
    m.rank = "number of random features, even: a cosine and a sine for each direction";
    m.seeded = true;
    m.default_rank = 256;
    m.max_rank = [](const Size&) { return Index{1} << 20; };
    m.max_rank_text = "the largest number of features";
    m.options = {{"orthogonal", 1, 0, 1, true, "directions in groups of d at right angles"}};
    m.check = [](const Size&, Index rank, const Settings&) {
        if (rank % 2 != 0) fail("rank: ", rank, ", expected an even number: a cosine and a sine for each direction");
    };
    m.f32 = rfa<float>;
    m.f64 = rfa<double>;
    return m;
}

}  // namespace causeway::lowrank
