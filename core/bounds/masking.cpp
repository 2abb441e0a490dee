// Claims A1 to A10: masking and approximation error (proofs/masking.md).
#include <algorithm>
#include <numbers>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"
#include "core/bounds/approximation.hpp"
#include "core/lowrank/error.hpp"
#include "core/tensor/dense.hpp"
#include "core/tensor/linalg.hpp"

namespace causeway::bounds {
namespace {

// Of bounds that inputs attain: norms come from an iteration with a residual of 1e-6.
constexpr double norm_roundings = 1 + 1e-6;

std::vector<Row> in_frobenius_norm(const Given& given) {
    const MatrixNorms norms = masked_norms(dense::matrix(given.matrix("X")));
    return {{"‖tril X‖_F ≤ ‖X‖_F", norms.frobenius.error_masked, norms.frobenius.error * own_roundings}};
}

// ‖tril X‖ against `factor` ‖X‖.
Row in_operator_norm(const Given& given, const std::string& what, double factor) {
    const MatrixNorms norms = masked_norms(dense::matrix(given.matrix("X")));
    return {what, norms.operator_norm.error_masked, factor * norms.operator_norm.error * norm_roundings};
}

// Λ_n by Fejér's sum.
double lebesgue(Index n) {
    double sum = 0;
    for (Index k = n; k >= 1; --k) sum += std::tan(std::numbers::pi * real(k) / (2 * real(n) + 1)) / real(k);
    return 1 / (2 * real(n) + 1) + 2 / std::numbers::pi * sum;
}

// (2/π) K(g) = 1/agm(1, √(1 - g²)).
double elliptic(double g) {
    double a = 1, b = std::sqrt((1 - g) * (1 + g));
    for (int step = 0; step < 60 && std::abs(a - b) > 1e-16 * a; ++step) {
        const double mean = (a + b) / 2;
        b = std::sqrt(a * b), a = mean;
    }
    return 1 / a;
}

std::vector<Row> with_decay(const Given& given) {
    const double g = given.decay();
    Matrix X = given.matrix("X");
    const double all = opnorm(dense::matrix(X)), U = masking_constant(X.rows());
    for (Index i = 0; i < X.rows(); ++i)
        for (Index j = 0; j < X.cols(); ++j) X(i, j) *= i < j ? 0 : std::pow(g, real(i - j));
    const double masked = opnorm(dense::matrix(X));
    std::vector<Row> out{{"‖M ⊙ X‖ ≤ U_n ‖X‖", masked, U * all * norm_roundings}};
    if (g < 1) out.push_back({"‖M ⊙ X‖ ≤ (2/π) K(g) ‖X‖", masked, elliptic(g) * all * norm_roundings});
    return out;
}

std::vector<Row> with_gates(const Given& given) {
    const Point a = given.gates("a");
    Matrix X = given.matrix("X");
    const double all = opnorm(dense::matrix(X));
    for (Index j = 0; j < X.cols(); ++j) {
        double product = 1;
        X.col(j).head(j).setZero();
        for (Index i = j + 1; i < X.rows(); ++i) X(i, j) *= product *= a[static_cast<std::size_t>(i)];
    }
    return {{"‖M ⊙ X‖ ≤ U_n ‖X‖", opnorm(dense::matrix(X)), masking_constant(X.rows()) * all * norm_roundings}};
}

Approximated approximated(const Given& given) {
    const Matrix A = given.matrix("A");
    for (Index i = 0; i < A.rows(); ++i)
        for (Index j = 0; j <= i; ++j)
            if (!(A(i, j) > 0))
                fail("A: has ", number_text(A(i, j)), " at (", i + 1, ", ", j + 1, "), expected positive entries");
    return {A, given.matrix("At"), given.matrix("V")};
}

std::vector<Row> by_rows(const Given& given) {
    const Approximated y = approximated(given);
    // What rounding the comparison has beside an error that may be small: of the entries, not of the error.
    const auto compared = [&](Row row) {
        row.bound = row.bound * own_roundings + 1e-15 * y.V.cwiseAbs().maxCoeff();
        return row;
    };
    Row sum = compared(y.by_sum(0)), share;
    Index at_sum = 0, at_share = -1;
    for (Index i = 0; i < y.n(); ++i) {
        const Row row = compared(y.by_sum(i));
        if (&nearer(sum, row) == &row) sum = row, at_sum = i;
        if (!(y.share_of(i) < 1)) continue;
        const Row other = compared(y.by_share(i));
        if (at_share < 0 || &nearer(share, other) == &other) share = other, at_share = i;
    }
    sum.what += ", row " + std::to_string(at_sum + 1);
    std::vector<Row> out{sum};
    if (at_share >= 0) out.push_back(share), out.back().what += ", row " + std::to_string(at_share + 1);
    return out;
}

std::vector<Row> by_norms(const Given& given) {
    const Approximated y = approximated(given);
    std::vector<Row> out{y.by_frobenius(), y.by_operator()};
    for (Row& row : out) row.bound = row.bound * norm_roundings + 1e-14 * y.V.norm();
    return out;
}

const Input square_matrix{"X", "[n, n]", "a matrix"};
const std::vector<Input> approximated_pair{
    {"A", "[N, N]", "the matrix of attention, positive on and below the diagonal"},
    {"At", "[N, N]", "its approximation"},
    {"V", "[N, d]", "the values"}};

}  // namespace

Approximated::Approximated(Matrix A_, Matrix At_, Matrix V_)
    : A(std::move(A_)), At(std::move(At_)), V(std::move(V_)), off(V.rows(), V.cols()) {
    const auto outputs = [&](const Matrix& P, Point& sums) {
        LongMatrix out(n(), V.cols());
        for (Index i = 0; i < n(); ++i) {
            interrupt::check();
            Long sum = 0;
            Eigen::Matrix<Long, 1, Eigen::Dynamic> top = Eigen::Matrix<Long, 1, Eigen::Dynamic>::Zero(V.cols());
            for (Index j = 0; j <= i; ++j) {
                sum += P(i, j);
                for (Index c = 0; c < V.cols(); ++c) top(c) += static_cast<Long>(P(i, j)) * V(j, c);
            }
            out.row(i) = top / sum, sums.push_back(static_cast<double>(sum));
        }
        return out;
    };
    const LongMatrix O = outputs(A, d), Ot = outputs(At, dt);
    off = (Ot - O).cast<double>();
    double diameter_so_far = 0;
    for (Index i = 0; i < n(); ++i) {
        for (Index j = 0; j < i; ++j) diameter_so_far = std::max(diameter_so_far, (V.row(i) - V.row(j)).norm());
        diameters.push_back(diameter_so_far);
    }
}

Row Approximated::by_sum(Index i) const {
    return {"‖Δ_i‖₁ diam_i / |d̃_i|", off.row(i).norm(),
            difference(i) * diameter(i) / std::abs(dt[static_cast<std::size_t>(i)])};
}

Row Approximated::by_share(Index i) const {
    const double eps = share_of(i);
    return {"ε/(1-ε) diam_i", off.row(i).norm(), eps * diameter(i) / (1 - eps)};
}

Row Approximated::by_frobenius() const {
    double factor = 0;
    for (Index i = 0; i < n(); ++i)
        factor = worst(factor, std::sqrt(real(i + 1)) * diameter(i) / std::abs(dt[static_cast<std::size_t>(i)]));
    return {"max √i diam_i/|d̃_i| ‖A - Ã‖_F", off.norm(), factor * (A - At).norm()};
}

Row Approximated::by_operator() const {
    double least = INFINITY;
    for (const double sum : dt) least = std::min(least, std::abs(sum));
    // In one dimension the half diameter; else a ball around the mean.
    const double radius = V.cols() == 1
                              ? diameter(n() - 1) / 2
                              : std::sqrt((V.rowwise() - V.colwise().mean()).rowwise().squaredNorm().maxCoeff());
    return {"2 √N U_N ‖A - Ã‖ R/min |d̃_i|", off.norm(),
            2 * std::sqrt(real(n())) * masking_constant(n()) * opnorm(dense::matrix(A - At)) * radius / least};
}

std::vector<Claim> masking_claims() {
    const std::string proof = "proofs/masking.md";
    const std::string norms = "‖·‖: the largest singular value",
                      norms_and_tril = norms + "; tril X: X on and below the diagonal, else 0",
                      constant = "U_n ≤ 1 + ln(n)/π: the constant of masking, computed";
    const std::string approximated_terms =
        "Δ: A - Ã on and below the diagonal; d̃_i: the sum of row i of Ã there; ε: ‖Δ_i‖₁ over that of A; diam_i: the "
        "largest distance of two of the first i values";
    return {
        {"A1",
         "masking: ‖tril X‖_F ≤ ‖X‖_F",
         proof,
         "fleet Theorem 4.1",
         {square_matrix},
         in_frobenius_norm,
         "‖·‖_F: the square root of the sum of squares; tril X: X on and below the diagonal, else 0"},
        {"A2",
         "masking: ‖tril X‖ ≤ U_n ‖X‖, U_n ≤ 1 + ln(n)/π",
         proof,
         "fleet Theorem 4.1",
         {square_matrix},
         [](const Given& given) {
             return std::vector<Row>{in_operator_norm(given, "‖tril X‖ ≤ U_n ‖X‖", masking_constant(given.size('n')))};
         },
         norms_and_tril + "; " + constant},
        {"A4",
         "masking: ‖tril X‖ ≤ (⌈lg n⌉ + 1) ‖X‖",
         proof,
         "derived",
         {square_matrix},
         [](const Given& given) {
             return std::vector<Row>{
                 in_operator_norm(given, "‖tril X‖ ≤ (⌈lg n⌉ + 1) ‖X‖", real(ceil_lg(given.size('n')) + 1))};
         },
         norms_and_tril + "; lg: the logarithm to base 2"},
        {"A5",
         "masking: ‖tril X‖ ≤ Λ_n ‖X‖, Lebesgue's constant",
         proof,
         "fleet App. C.1",
         {square_matrix},
         [](const Given& given) {
             return std::vector<Row>{in_operator_norm(given, "‖tril X‖ ≤ Λ_n ‖X‖", lebesgue(given.size('n')))};
         },
         norms_and_tril + "; Λ_n = (1/π) ∫ |sin((n+½)t)/sin(t/2)| dt from 0 to π"},
        {"A7",
         "a mask of fixed decay: ‖M ⊙ X‖ ≤ (2/π) K(g) ‖X‖",
         proof,
         "derived",
         {square_matrix, {"decay", "number", "the decay g in (0, 1]"}},
         with_decay,
         norms + "; M_ij = g^(i-j) for i ≥ j, else 0; K: the complete elliptic integral of modulus g; " + constant},
        {"A8",
         "a mask of gates: ‖M ⊙ X‖ ≤ U_n ‖X‖",
         proof,
         "derived",
         {square_matrix, {"a", "[n]", "the gates"}},
         with_gates,
         norms + "; M_ij: the product of the gates behind j up to i; " + constant},
        {"A9", "an approximated matrix: normalised output by rows", proof, "derived", approximated_pair, by_rows,
         approximated_terms},
        {"A10", "an approximated matrix: normalised output in norms", proof, "derived", approximated_pair, by_norms,
         approximated_terms + "; R: the radius of a ball that holds all values; " + constant},
    };
}

}  // namespace causeway::bounds
