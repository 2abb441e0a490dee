// FAVOR+: positive orthogonal random features (Choromanski et al. 2021, "Rethinking attention with Performers", Lemma
// 1).
//
//   φ(x)_c = exp(ω_cᵀ x − |x|²/2) / √m,   ω_c normal in R^d:   E φ(q)ᵀφ(k) = exp(qᵀk), entry by entry
//
// rank: the number m of features. O(N m d), and m d² once. Another seed draws the features anew. An entry of B Cᵀ
// depends on its two tokens alone.
//
// `stabilised` (default) divides B and multiplies C by one number, found from all tokens, so that both reach similar
// sizes: B Cᵀ stays what it is. `rows` stabilises as the Performer does: each row of B is divided by its largest entry,
// C by its own, which no rounding underflows; then A_i ≈ exp(log_rows_i) (B Cᵀ)_i, and the quotient of normalised
// attention is the same.
#include <algorithm>
#include <limits>

#include "core/kit/panels.hpp"
#include "core/lowrank/features.hpp"
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

// ωᵀ in panels [panel][d][W], for products in register tiles: with an inner dimension of only d, Eigen's packing and
// the clearing of the result would take as long as half of the product.
template <class T>
class Panels {
public:
    explicit Panels(const Matrix<double>& omega)
        : d_(omega.cols()), m_(omega.rows()), W_(panels<T>(m_) * panel_width<T> * d_) {
        const Matrix<T> transposed = omega.transpose().template cast<T>();
        std::fill_n(W_.data(), W_.size(), T(0));
        pack_rows(transposed.data(), d_, m_, m_, W_.data(), d_);
    }

    // Y = X ωᵀ, X [n, d], Y [n, m]
    void multiply(const T* X, Index n, T* Y) const {
        constexpr Index width = panel_width<T>;
        for (Index c = 0; c < m_; c += width) {
            const Index columns = std::min(width, m_ - c);
            vectors_of_panel(columns, simd::lanes<T>, [&](auto vectors) {
                each_row_tile(n, [&](auto rows, Index i) {
                    simd::Tile<T, rows, vectors> tile;
                    tile.clear();
                    tile.multiply(X + i * d_, d_, 1, W_.data() + c * d_, width, d_);
                    for (int k = 0; k < rows; ++k) store_row<T, vectors>(Y + (i + k) * m_ + c, tile.acc[k], columns);
                });
            });
        }
    }

private:
    Index d_, m_;
    Buffer<T> W_;
};

// max over x of the bound |ω||x| − |x|²/2 on an exponent, ω the longest direction; infinite where |x|² overflows.
template <class T>
double largest_exponent(const ConstView<T>& X, double longest) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double largest = -infinity;
    for (Index i = 0; i < X.rows(); ++i) {
        const double size = static_cast<double>(X.row(i).norm());
        largest = std::max(largest, std::isfinite(size) ? longest * size - size * size / 2 : infinity);
    }
    return largest;
}

template <class T>
void favor(const Head<T>& h) {
    const Index m = h.r(), d = h.d();
    const Matrix<double> omega = directions(h.random, m, d, h["orthogonal"] != 0);
    const Panels<T> W(omega);
    const T half_log_m = static_cast<T>(std::log(static_cast<double>(m)) / 2);

    // Exponents ω_cᵀ x_i of rows first, ... written to F; then `finish` is called for the row, with |x|²/2 + log(m)/2.
    const auto exponents = [&](const ConstView<T>& X, View<T> F, auto&& finish) {
        each_block(
            X.rows(),
            [&](Index first, Index n) {
                W.multiply(X.data() + first * d, n, F.data() + first * m);
                for (Index i = first; i < first + n; ++i) finish(i, X.row(i).squaredNorm() / 2 + half_log_m);
            },
            96);  // rows of F and X stay in the second-level cache until they are finished
    };
    const auto exponentiate = [](View<T>& F, Index i, T shift) { F.row(i).array() = (F.row(i).array() - shift).exp(); };
    const auto largest = [](const View<T>& F, Index i) {
        return *std::max_element(F.data() + i * F.cols(), F.data() + (i + 1) * F.cols());
    };
    View<T> B = h.B, C = h.C;
    const double longest = omega.rowwise().norm().maxCoeff(), max_q = largest_exponent(h.Q, longest),
                 max_k = largest_exponent(h.K, longest);
    if (h["rows"] == 0) {
        const double half = h["stabilised"] != 0 ? (max_q - max_k) / 2 : 0;
        const T shift = static_cast<T>(half);
        h.finite =
            std::max(max_q - half, max_k + half) < 0.99 * std::log(static_cast<double>(std::numeric_limits<T>::max()));
        exponents(h.Q, B, [&](Index i, T own) { exponentiate(B, i, own + shift); });
        exponents(h.K, C, [&](Index i, T own) { exponentiate(C, i, own - shift); });
        return;
    }
    h.finite = std::isfinite(max_q + max_k);  // no exponent is above 0
    Buffer<T> row_max(h.N()), row_own(h.N());
    exponents(h.K, C, [&](Index i, T own) { row_own[i] = own, row_max[i] = largest(C, i) - own; });
    const T max_all = *std::max_element(row_max.data(), row_max.data() + h.N());
    each_block(h.N(), [&](Index first, Index n) {
        for (Index i = first; i < first + n; ++i) exponentiate(C, i, row_own[i] + max_all);
    });
    exponents(h.Q, B, [&](Index i, T own) {
        const T max_here = largest(B, i);
        exponentiate(B, i, max_here);
        h.extras[0][i] = static_cast<double>(max_here - own) + static_cast<double>(max_all);
    });
}

}  // namespace

Method favor_method() {
    Method m;
    m.name = "favor+";
    m.source = "Choromanski et al. 2021; fleet section 4.1";
    m.formula = "exp(ωᵀx − |x|²/2) / √r";
    m.text =
        "Positive orthogonal random features: exp(ωᵀx − |x|²/2)/√r for normal ω, whose products are exp(qᵀk) on "
        "average, entry by entry. Row sums are positive. The relative error falls like 1/√r and grows with |q + "
        "k|. Another seed draws the features anew.";
    m.use =
        "For generating text where scores are small: with large ones the variance is too great for any rank one would "
        "pay.";
    m.time = "O(Nrd)";
    m.rank = "number of random features";
    m.seeded = true;
    m.default_rank = 256;
    m.max_rank = [](const Size&) { return Index{1} << 20; };
    m.max_rank_text = "the largest number of features";
    m.options = {
        {"orthogonal", 1, 0, 1, true, "directions in groups of d at right angles"},
        {"stabilised", 1, 0, 1, true, "B and C scaled against each other to similar sizes; B Cᵀ stays"},
        {"rows", 0, 0, 1, true, "each row of B divided by its largest entry, its logarithm returned as log_rows"}};
    m.extras = [](const Settings& s) {
        return s.at("rows") != 0 ? std::vector<std::string>{"log_rows"} : std::vector<std::string>{};
    };
    m.f32 = favor<float>;
    m.f64 = favor<double>;
    return m;
}

}  // namespace causeway::lowrank
