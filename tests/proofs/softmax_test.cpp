// Checks of proofs/energy.md: claims H1 to H5, H12, H17 to H19 and H21.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/measure/counting.hpp"
#include "core/measure/dual.hpp"
#include "core/softmax/energy.hpp"
#include "tests/catch.hpp"
#include "tests/decompositions.hpp"
#include "tests/proofs/claims.hpp"
#include "tests/proofs/reference.hpp"
#include "tests/proofs/rounding.hpp"

namespace causeway {

// One logarithm ends energy_of_row; it is none of the operations that are counted.
static Counted log(Counted x) { return std::log(x.value); }

}  // namespace causeway

using namespace causeway;
using namespace causeway::proofs;

namespace {

constexpr double u32 = 0x1p-24;

// Scores s_ia = q_i·k_a; weights P, row by row over the first limit(i) columns; causal: i + 1.
Matrix weights(const Matrix& S, bool causal) {
    Matrix P = Matrix::Zero(S.rows(), S.cols());
    for (Index i = 0; i < S.rows(); ++i) {
        const Index n = causal ? i + 1 : S.cols();
        const double m = S.row(i).head(n).maxCoeff();
        P.row(i).head(n) = (S.row(i).head(n).array() - m).exp();
        P.row(i) /= P.row(i).sum();
    }
    return P;
}

// F_tot (25), unshifted, on any scalar: sources ζ_i, or as (35) is printed ζ_a.
template <class T>
T total_energy(const Matrix& S, const Mat<T>& zeta, const Matrix& V, bool causal, bool printed = false) {
    using std::exp;
    using std::log;
    T total(0);
    for (Index i = 0; i < S.rows(); ++i) {
        T Z(0);
        for (Index a = 0; a < (causal ? i + 1 : S.cols()); ++a) {
            T source(0);
            for (Index e = 0; e < V.cols(); ++e) source += zeta(printed ? a : i, e) * T(V(a, e));
            Z += exp(T(S(i, a)) + source);
        }
        total += log(Z);
    }
    return total;
}

Matrix covariance(const Matrix& p, const Matrix& V) {  // p: 1 × n
    const Matrix mean = p * V, centred = V.rowwise() - mean.row(0);
    return centred.transpose() * p.row(0).asDiagonal() * centred;
}

// The merge of H5. depth: of the tree that made it.
template <class T>
struct Triple {
    T m = -std::numeric_limits<T>::infinity(), D = 0;
    std::vector<T> n;
    int depth = 0;
};

template <class T>
Triple<T> merge(const Triple<T>& a, const Triple<T>& b) {
    Triple<T> out;
    out.m = std::max(a.m, b.m);
    out.depth = std::max(a.depth, b.depth) + 1;
    const bool none = out.m == -std::numeric_limits<T>::infinity();
    const T x = none ? T(0) : std::exp(a.m - out.m), y = none                                 ? T(0)
                                                         : fault("H5: the second not scaled") ? T(1)
                                                                                              : std::exp(b.m - out.m);
    out.D = a.D * x + b.D * y;
    for (std::size_t e = 0; e < a.n.size(); ++e) out.n.push_back(a.n[e] * x + b.n[e] * y);
    return out;
}

// Any order, any shape: two random ones become one until one is left.
template <class T>
Triple<T> random_tree(std::vector<Triple<T>> all, std::mt19937_64& generator) {
    while (all.size() > 1) {
        std::uniform_int_distribution<std::size_t> draw(0, all.size() - 1);
        std::swap(all[draw(generator)], all.back());
        const Triple<T> a = all.back();
        all.pop_back();
        std::uniform_int_distribution<std::size_t> other(0, all.size() - 1);
        const std::size_t at = other(generator);
        all[at] = merge(a, all[at]);
    }
    return all[0];
}

template <class F>
OperationCount count(F&& f) {
    counted = {};
    f();
    return std::exchange(counted, {});
}

// Γ of (30), repaired: Σ zζ - F_tot(ζ); printed: Σ_{i,A} (z_iA ζ_iA - F_tot(ζ)).
template <class T>
T gamma_of(const Matrix& S, const Matrix& V, const Mat<T>& zeta, const Mat<T>& z, bool printed) {
    const double copies = printed ? static_cast<double>(V.size() / V.rows() * S.rows()) : 1.0;
    return inner<T>(z, zeta) - T(copies) * total_energy<T>(S, zeta, V, true);
}

}  // namespace

TEST_CASE("H1: the gradient of the energy is attention, its Hessian a covariance", "[proofs][energy]") {
    Random random(301);
    const Index n = 40, d = 6;
    const Matrix Q = random.normal(n, d), K = random.normal(n, d), V = random.normal(n, d), S = Q * K.transpose(),
                 Z = Matrix::Zero(n, d);
    const auto by_step = [&](const Matrix& zeta) {
        return complex_step({zeta},
                            [&](const auto& x) { return total_energy<std::complex<double>>(S, x[0], V, true); })[0];
    };
    EnergyOptions o;
    o.scale = 1;
    SoftmaxOptions s;
    s.scale = 1;
    claim("H1", "∂F/∂ζ at 0, by the complex step, against attention", "Float64, n = 40, d = 6, causal",
          relative(by_step(Z), matrix(softmax_attention(tensor(Q), tensor(K), tensor(V), s).O)), 1e-14);
    const Matrix zeta = random.normal(n, d);
    claim("H1", "energy_grad at ζ ≠ 0 against the complex step", "the same",
          relative(by_step(zeta), matrix(energy_grad(tensor(Q), tensor(K), tensor(V), tensor(zeta), o))), 1e-14);

    const Matrix q = Q.topRows(1), P = weights(q * K.transpose(), false),
                 H = matrix(energy_hessian(tensor(q), tensor(K), tensor(V), {}, o));
    const Matrix moment = V.transpose() * P.row(0).asDiagonal() * V;
    claim("H1", "∂²F/∂ζ² is the covariance of v", "one query, 40 keys",
          relative(H, faulty("H1: the second moment", covariance(P, V), moment)), 1e-13);
    Matrix twice(d, d);
    for (Index a = 0; a < d; ++a)
        for (Index b = 0; b < d; ++b) {
            Mat<Dual<Dual<double>>> z = Mat<Dual<Dual<double>>>::Constant(1, d, Dual<Dual<double>>(0.0));
            z(0, a).value.slope = 1;
            z(0, b).slope.value = 1;
            twice(a, b) = total_energy<Dual<Dual<double>>>(q * K.transpose(), z, V, false).slope.slope;
        }
    claim("H1", "the same by dual numbers, twice", "one query, 40 keys", relative(twice, H), 1e-12);
    published_fails("H1", "the second moment as Hessian, relative error", "one query, 40 keys",
                    relative<double>(V.transpose() * P.row(0).asDiagonal() * V, H), 0.01);
    const Matrix one = matrix(energy_hessian(tensor(q), tensor(K.topRows(1)), tensor(V.topRows(1)), {}, o));
    published_fails("H1", "one key: F'' = 0, the second moment is v²; |v²| - |F''|", "1 key",
                    V.row(0).squaredNorm() - one.norm(), 1e-3);
}

TEST_CASE("H2: moments are derivatives of Z, with n! in the series", "[proofs][energy]") {
    Random random(302);
    const Index n = 12, d = 3;
    double most = 0, worst_form = 0;
    for (double size : {0.01, 0.1, 0.3, 1.0}) {
        const Matrix P = weights(random.normal(1, n), false), V = random.normal(n, d),
                     zeta = size * random.normal(1, d), y = V * zeta.transpose();
        const double x = y.cwiseAbs().maxCoeff(), ratio = (P * y.array().exp().matrix())(0, 0);
        double sum = 1, term = 1, unscaled = 1;
        for (int order = 1; order <= 4; ++order) {
            term /= order;
            const double moment = (P * y.array().pow(order).matrix())(0, 0);
            sum += faulty("H2: without 1/n!", term, 1.0) * moment;
            unscaled += moment;
            const double bound = std::pow(x, order + 1) * std::exp(x) * term / (order + 1) + 1e-15;
            most = worst(most, std::abs(ratio - sum) / bound);
        }
        worst_form = worst(worst_form, std::abs(ratio - unscaled));
    }
    claim("H2", "remainder of the series over its bound x^{m+1} e^x / (m+1)!", "orders 1 .. 4, ζ of size 0.01 .. 1",
          most, 1);
    published_fails("H2", "moments as Taylor coefficients, without 1/n!", "order 4, ζ of size 1", worst_form, 0.01);
}

TEST_CASE("H3: each source moves its own row", "[proofs][energy]") {
    Random random(303);
    const Index n = 30, d = 3;
    const Matrix S = random.normal(n, n), V = random.normal(n, d), Z = Matrix::Zero(n, d), P = weights(S, true),
                 want = P * V;
    const auto gradient = [&](bool printed) {
        return complex_step(
            {Z}, [&](const auto& x) { return total_energy<std::complex<double>>(S, x[0], V, true, printed); })[0];
    };
    claim("H3", "∂F_tot/∂ζ_i is row i of causal attention (26)", "n = 30, d = 3",
          relative(gradient(fault("H3: ζ_a")), want), 1e-14);
    const Matrix columns = P.colwise().sum().transpose().asDiagonal() * V;
    claim("H3", "(35) as printed, with ζ_a: (Σ_i P_ia) v_a", "n = 30, d = 3", relative(gradient(true), columns), 1e-14);
    published_fails("H3", "(35) as printed against attention, relative error", "n = 30, d = 3",
                    relative(gradient(true), want), 0.5);
}

TEST_CASE("H4: the output projection can be put into the values", "[proofs][energy]") {
    Random random(304);
    const Index n = 20, heads = 3, dh = 4, demb = 12;
    const Matrix x = random.normal(n, demb);
    Matrix apart = Matrix::Zero(n, demb), together = apart, printed = apart;
    for (Index h = 0; h < heads; ++h) {
        const Matrix P = weights(random.normal(n, n), true), WV = random.normal(dh, demb), WO = random.normal(demb, dh);
        apart += product(product(P, product(x, WV.transpose())), WO.transpose());
        const Matrix W = product(WO, WV);  // d_emb × d_emb
        together += product(P, product(x, faulty<Matrix>("H4: W_O W_V not transposed", W.transpose(), W)));
        printed += product(P, product(x.leftCols(dh), W.leftCols(dh).transpose()));
    }
    claim("H4", "Σ_h P_h (x W_Vᵀ) W_Oᵀ = Σ_h P_h (x (W_O W_V)ᵀ)", "3 heads, d_h = 4, d_emb = 12",
          relative(together, apart), 1e-13);
    published_fails(
        "H4", "(29) as printed, v_bA = Σ_B x_bB (W_O W_V)_AB with B over the d_h intra-head indices: relative error",
        "3 heads, d_h = 4, d_emb = 12", relative(printed, apart), 0.5);
}

TEST_CASE("H5: merging (max, sum, numerator) is associative up to rounding", "[proofs][energy]") {
    std::mt19937_64 generator(305);
    std::normal_distribution<double> normal;
    const int n = 300, empty = 20;
    const std::size_t d = 3;
    const std::pair<double, double> inputs[] = {
        {1, 0}, {30, 0}, {1e4, 0}, {1, 1e4}};  // at a spread of 1e4 one key has all the weight
    for (const auto& [spread, offset] : inputs) {
        std::vector<Triple<float>> leaves;
        std::vector<double> s, v;
        for (int j = 0; j < n; ++j) {
            Triple<float> leaf;
            leaf.m = static_cast<float>(offset + spread * normal(generator));
            leaf.D = 1;
            for (std::size_t e = 0; e < d; ++e) leaf.n.push_back(static_cast<float>(normal(generator)));
            leaves.push_back(leaf);
            s.push_back(leaf.m);
            v.insert(v.end(), leaf.n.begin(), leaf.n.end());
        }
        for (int j = 0; j < empty; ++j) {
            Triple<float> unit;
            unit.n.assign(d, 0);
            leaves.push_back(unit);
        }
        std::vector<Attended> exact;  // by column of the values
        for (std::size_t e = 0; e < d; ++e) {
            std::vector<double> column;
            for (std::size_t j = 0; j < s.size(); ++j) column.push_back(v[j * d + e]);
            exact.emplace_back(s, column);
        }
        const double m = *std::max_element(s.begin(), s.end()), D = static_cast<double>(exact[0].D);
        double in_sums = 0, in_means = 0;
        int maxima = 0;
        std::vector<float> sums;
        for (int trial = 0; trial < 40; ++trial) {
            const Triple<float> root = random_tree(leaves, generator);
            maxima += root.m != static_cast<float>(m);
            sums.push_back(root.D);
            in_sums = worst(in_sums, std::abs(root.D - D) / D / (u32 * (3 * root.depth + ln(n) + 4)));
            for (std::size_t e = 0; e < d; ++e)
                in_means = worst(in_means,
                                 exact[e].share(root.n[e] / static_cast<double>(root.D), u32, of_tree(root.depth, n)));
        }
        std::sort(sums.begin(), sums.end());
        const std::string input = sentence("Float32, 40 random trees of 300 leaves, 20 empty, scores of spread ",
                                           spread, ", offset ", offset);
        exactly("H5", "maxima that depend on the order", input, maxima, 0);
        claim("H5", "sums: error over u (3 depth + ln N + 4)", input, in_sums, 1);
        claim("H5", "means: error over u[(6 depth + ln N + 8) Σ P|v| + Σ P|v||ln w|]", input, in_means, 1);
        if (spread == 1)
            published_fails("H5", "different sums among the orders: not associative bitwise", input,
                            static_cast<double>(std::unique(sums.begin(), sums.end()) - sums.begin()), 2);
    }
    const double none = -INFINITY;
    const auto naive = [](double a, double b) {
        const double m = std::max(a, b);
        return m + std::log(std::exp(a - m) + std::exp(b - m));
    };
    exactly("H5", "lse(-inf, -inf) without the special case is NaN", "two empty chunks", std::isnan(naive(none, none)),
            1);
    Triple<double> unit, x;
    unit.n = {0}, x.n = {5}, x.m = 2, x.D = 3;
    const auto y = merge(unit, x), z = merge(unit, unit);
    exactly("H5", "(-inf, 0, 0) is the unit", "with (2, 3, 5) and with itself",
            y.m == 2 && y.D == 3 && y.n[0] == 5 && z.m == none && z.D == 0 && z.n[0] == 0, 1);
}

TEST_CASE("H12: safe softmax", "[proofs][energy]") {
    Random random(306);
    const Index n = 60, d = 4;
    const Matrix S = rounded(3 * random.normal(n, n)), V = rounded(random.normal(n, d)), want = weights(S, true) * V;
    double most = 0, largest = 0, unshifted = 0, last = 0;
    for (double h : {0.0, 1.0, 30.0, 100.0, 1000.0}) {
        last = 0;
        for (Index i = 0; i < n; ++i) {  // in Float32, with the scores s + h as Float32 has them
            Eigen::ArrayXf s = (S.row(i).head(i + 1).array() + h).cast<float>().transpose();
            const float m = s.maxCoeff();
            const Eigen::ArrayXf p = (s - m).exp();
            largest = worst(largest, static_cast<double>(p.maxCoeff()));
            const Matrix exact = weights(S.row(i).head(i + 1), false);
            for (Index e = 0; e < d; ++e) {
                float top = 0, sum = 0;
                for (Index j = 0; j <= i; ++j) top += p[j] * static_cast<float>(V(j, e)), sum += p[j];
                const double size = faulty("H12: without max |s + h|", 1.0, 0.0) *
                                    (S.row(i).head(i + 1).array() + h).abs().maxCoeff(),
                             spread = (exact.array() * V.col(e).head(i + 1).transpose().array().abs()).sum();
                // The roundings of the sums themselves, i + 8 of them, do not grow with h.
                const double error = std::abs(top / sum - want(i, e)) / (u32 * spread);
                last = worst(last, error);
                most = worst(most, error / (4 * (size + static_cast<double>(i) + 8)));
            }
        }
        if (h == 0) unshifted = last;
    }
    claim("H12", "a shift h of the scores: |Δz| over 4u (max |s + h| + i + 8) Σ P|v|", "Float32, n = 60, h = 0 .. 1000",
          most, 1);
    published_fails("H12", "the error grows with the shift: largest |Δz| / Σ P|v| at h = 1000 over that at h = 0",
                    "Float32, n = 60", last / unshifted, 10);
    claim("H12", "exponentials are at most 1", "Float32, n = 60, h = 0 .. 1000", largest, 1);
    const Matrix m = S.rowwise().maxCoeff(), Z = Matrix::Zero(n, d);
    const auto f = [&](const auto& x) {
        std::complex<double> shifts(0);
        for (Index i = 0; i < n; ++i) shifts += m(i, 0);
        return total_energy<std::complex<double>>(S, x[0], V, true) - shifts;
    };
    claim("H12", "F' = F - Σ m_i has the gradient of F", "the same", relative(complex_step({Z}, f)[0], want), 1e-14);
}

TEST_CASE("H17 to H19: the Bayesian reading", "[proofs][energy]") {
    Random random(307);
    const Index n = 4, d = 2;
    const Matrix S = random.normal(n, n), V = random.normal(n, d), P = weights(S, true), attention = P * V,
                 Z = Matrix::Zero(n, d);
    const auto slopes = [&](const Matrix& zeta, const Matrix& z, bool printed) {
        return complex_step({zeta, z},
                            [&](const auto& x) { return gamma_of<std::complex<double>>(S, V, x[0], x[1], printed); });
    };
    const double copies = static_cast<double>(n * faulty("H17: F counted N times", d, Index{1}));
    published_fails("H17", "(30) as printed: slope in ζ at z = attention", "n = 4, d = 2",
                    slopes(Z, attention, true)[0].norm(), 1);
    claim("H17", "(30) as printed is stationary at z = N d · attention", "n = 4, d = 2",
          slopes(Z, copies * attention, true)[0].norm(), 1e-12);
    const double log_likelihood = -gamma_of<double>(S, V, Z, attention, false);  // of e^{-Γ}, (34)
    published_fails("H17", "Γ as the logarithm of the likelihood e^{-Γ}: off by", "ζ = 0, z = attention, n = 4, d = 2",
                    std::abs(gamma_of<double>(S, V, Z, attention, false) - log_likelihood), 1, note);
    claim("H17", "-Γ as that logarithm, which at z = attention is F_tot(0): off by", "ζ = 0, n = 4, d = 2",
          std::abs(log_likelihood - total_energy<double>(S, Z, V, true)), 1e-14);
    const auto there = slopes(Z, faulty("H18: half of attention", 1.0, 0.5) * attention, false);
    claim("H18", "repaired: both slopes vanish at ζ = 0, z = attention", "n = 4, d = 2",
          there[0].norm() + there[1].norm(), 1e-13);
    published_fails("H18", "no other point: slope in z at ζ ≠ 0 is ζ", "n = 4, d = 2",
                    slopes(Matrix::Constant(n, d, 0.1), attention, false)[1].norm(), 0.1);

    // The Hessian in (ζ, z), entries in the order of the rows of ζ and z: Γ differentiated twice by dual numbers of
    // dual numbers.
    const Index half = n * d;
    using Twice = Dual<Dual<double>>;
    Matrix H(2 * half, 2 * half);
    for (Index a = 0; a < 2 * half; ++a)
        for (Index b = 0; b < 2 * half; ++b) {
            std::array<Mat<Twice>, 2> x{Z.unaryExpr([](double y) { return Twice(y); }),
                                        attention.unaryExpr([](double y) { return Twice(y); })};
            const auto entry = [&](Index at) -> Twice& {
                return x[static_cast<std::size_t>(at / half)](at % half / d, at % d);
            };
            entry(a).value.slope = 1;
            entry(b).slope.value = 1;
            H(a, b) = gamma_of<Twice>(S, V, x[0], x[1], false).slope.slope;
        }
    Matrix closed = Matrix::Zero(2 * half, 2 * half);
    for (Index i = 0; i < n; ++i) closed.block(i * d, i * d, d, d) = -covariance(P.row(i), V);
    closed.topRightCorner(half, half) = closed.bottomLeftCorner(half, half) = Matrix::Identity(half, half);
    claim("H19", "Hessian of Γ, differentiated twice by dual numbers, against [[-Cov(v), I], [I, 0]]", "n = 4, d = 2",
          relative(H, closed), 1e-12);
    const Eigen::VectorXd outside = test::spectrum_of(H).values,
                          inside = test::spectrum_of(-H.topLeftCorner(half, half)).values;
    std::vector<double> want;
    for (Index i = 0; i < half; ++i)
        for (double sign : {-1.0, 1.0})
            want.push_back((-inside[i] + sign * std::sqrt(inside[i] * inside[i] + faulty("H19: √(c² + 1)", 4.0, 1.0))) /
                           2);
    std::sort(want.begin(), want.end());
    double difference = 0;
    int positive = 0;
    for (Index i = 0; i < 2 * half; ++i) {
        difference = worst(difference, std::abs(outside[i] - want[static_cast<std::size_t>(i)]));
        positive += outside[i] > 0;
    }
    claim("H19", "eigenvalues of that Hessian: (-c ± √(c² + 4)) / 2", "n = 4, d = 2", difference, 1e-12);
    exactly("H19", "positive eigenvalues, of 2nd: a saddle", "n = 4, d = 2", positive, half);

    const Matrix direction = random.normal(n, d), none = Z;
    const double at = gamma_of<double>(S, V, none, attention, false);
    const auto along = [&](double s) {
        return gamma_of<double>(S, V, 0.05 * direction, attention + s * direction, false) - at;
    };
    published_fails("H19", "argmax e^{-Γ} (34): Γ falls below the stationary value by",
                    "ζ = 0.05 x, z = z* - 10 x, x normal", -along(-10), 0.1);
    published_fails("H19", "minimum of Γ: it rises above it by", "ζ = 0.05 x, z = z* + 10 x, x normal", along(10), 0.1);

    // F*(z) = max_ζ zζ - F(ζ) by Newton's method, for z inside the hull of the values, and the weights that the
    // maximiser tilts p to.
    const Matrix s = random.normal(1, 8), values = random.normal(8, 2), p = weights(s, false);
    struct Conjugate {
        double value;
        Matrix tilted;
    };
    const auto conjugate = [&](const Matrix& z) {
        Matrix zeta = Matrix::Zero(1, 2), tilted;
        for (int step = 0; step < 60; ++step) {
            tilted = weights(s + zeta * values.transpose(), false);
            const Matrix slope = z - tilted * values;
            Matrix move = (covariance(tilted, values) + 1e-14 * Matrix::Identity(2, 2))
                              .ldlt()
                              .solve(slope.transpose())
                              .transpose();
            zeta += move * std::min(1.0, 1 / move.norm());
        }
        return Conjugate{inner<double>(z, zeta) - total_energy<double>(s, zeta, values, false), tilted};
    };
    const auto divergence = [&](const Matrix& w) { return (w.array() * (w.array() / p.array()).log()).sum(); };
    const double F0 = total_energy<double>(s, Matrix::Zero(1, 2), values, false),
                 radius = values.rowwise().norm().maxCoeff();
    // Moves of weights that keep their sum and their mean: the kernel of [1, v]ᵀ, 8 - 3 directions.
    Matrix kept(3, 8);
    kept.row(0).setOnes();
    kept.bottomRows(2) = values.transpose();
    const Matrix kernel = Eigen::FullPivLU<Matrix>(kept).kernel();
    double least = INFINITY, attained = 0, mean = 0, below = -INFINITY, pinsker = 0;
    for (int trial = 0; trial < 20; ++trial) {
        const Matrix other = weights(0.7 * random.normal(1, 8), false), z = other * values;
        const Conjugate best = conjugate(z);
        const double gap = best.value + F0, distance = (z - p * values).norm();
        least = fewest(least, gap);
        mean = worst(mean, (best.tilted * values - z).norm());
        attained = worst(attained, std::abs(divergence(best.tilted) - gap));
        below = worst(below, gap - divergence(other));
        for (int move = 0; move < 20; ++move) {
            const Matrix direction_of_weights = (kernel * random.normal(kernel.cols(), 1)).transpose();
            const double reach = 0.9 * (best.tilted.array() / direction_of_weights.array().abs()).minCoeff();
            below = worst(below, gap - divergence(best.tilted +
                                                  random.uniform(1, 1, 0.01, 1)(0, 0) * reach * direction_of_weights));
        }
        pinsker = worst(pinsker, distance * distance / (2 * radius * radius) / gap);
    }
    claim("H19", "min_z max_ζ Γ = -F(0): how far F*(z) + F(0) falls below 0", "20 random z in the hull of 8 values",
          -least, 1e-12);
    claim("H19", "mean of the weights tilted by the maximiser, against z", "the same", mean, 1e-12);
    claim("H19", "F*(z) + F(0) is their divergence from p: off by", "the same", attained, 1e-12);
    claim("H19", "and the least of all with that mean: how far 21 others each fall below it", "the same", below, 1e-12);
    claim("H19", "0 at z* only: |z - z*|² / (2 max|v|²) over F*(z) + F(0)", "the same", pinsker, 1);
    claim("H19", "F*(z*) + F(0) at z* = attention", "8 values", std::abs(conjugate(p * values).value + F0), 1e-13);
}

TEST_CASE("H21: attention token by token", "[proofs][energy]") {
    Random random(308);
    const Index n = 50, d = 6;
    const Matrix q = random.normal(1, d), K = random.normal(n, d), V = random.normal(n, d);
    // (1) to (3), unshifted, on any scalar; the value alone, or with the gradient.
    const auto iterate = [](const auto& query, const auto& keys, const auto& values, bool gradient) {
        using T = typename std::decay_t<decltype(query)>::Scalar;
        using std::exp;
        std::pair<T, Mat<T>> out{T(0), Mat<T>::Constant(1, values.cols(), T(0))};
        for (Index i = 0; i < keys.rows(); ++i) {
            T dot(0);
            for (Index e = 0; e < keys.cols(); ++e) dot += query(0, e) * keys(i, e);
            const T s = exp(dot);
            out.first += s;
            for (Index e = 0; gradient && e < values.cols(); ++e) out.second(0, e) += s * values(i, e);
        }
        return out;
    };
    const auto [D, N] = iterate(q, K, V, true);
    SoftmaxOptions o;
    o.scale = 1;
    claim("H21", "(1)-(3): n / d against attention", "Float64, 50 keys, d = 6",
          relative<double>(N / D, matrix(softmax_attention(tensor(q), tensor(K), tensor(V), o).O)), 1e-14);
    const Eigen::MatrixXf one = Eigen::MatrixXf::Ones(1, 1);
    const auto unshifted = [&](float score) {
        return iterate(Mat<float>(score * one), Mat<float>(one), Mat<float>(one), true).first;
    };
    exactly("H21", "unshifted, a score of 88.72 is finite in Float32", "one key", std::isfinite(unshifted(88.72f)), 1);
    published_fails("H21", "unshifted, a score of 88.73 in Float32: infinite", "one key", std::isinf(unshifted(88.73f)),
                    1);
    const auto shifted = [&](double score) {
        const auto f32 = [](double x) { return tensor(Matrix::Constant(1, 1, x), DType::f32); };
        return softmax_attention(f32(score), f32(1), f32(1), o).O.get(0);
    };
    claim("H21", "shifted: |o - 1|", "one key, score 88.73, Float32", std::abs(shifted(88.73) - 1), 0);
    claim("H21", "shifted: |o - 1|", "one key, score 1e4, Float32", std::abs(shifted(1e4) - 1), 0);
    const Mat<Counted> cq = Mat<Counted>::Constant(1, d, Counted(0.1)), cK = Mat<Counted>::Constant(n, d, Counted(0.1));
    const OperationCount value = count([&] { iterate(cq, cK, cK, false); }),
                         both = count([&] { iterate(cq, cK, cK, true); });
    exactly("H21", "(1)-(3), F(0): N d multiplies", "N = 50, d = 6", value.multiplies, n * d);
    exactly("H21", "(1)-(3), value and gradient: 2 N d, twice the cost", "N = 50, d = 6", both.multiplies,
            faulty("H21: the gradient for nothing", 2, 1) * n * d);
    exactly("H21", "(1)-(3), exponentials, either way: N", "N = 50, d = 6", both.exponentials + value.exponentials,
            2 * n);

    // The library's own definitions. energy_of_row has no source where dv = 0; each score costs one multiply more, by
    // the scale.
    const auto row = [&](Index dv, bool gradient) {
        const std::vector<Counted> x(static_cast<std::size_t>(n * d), 0.1);  // query, keys, values and source
        std::vector<Counted> slope(static_cast<std::size_t>(dv));
        return count([&] {
            attention::energy_of_row<Counted>(x.data(), x.data(), x.data(), x.data(), n, d, dv, Counted(1),
                                              gradient ? slope.data() : nullptr);
        });
    };
    OperationCount attention;
    o.method = "standard", o.causal = false;
    softmax_attention_counted(tensor(q), tensor(K), tensor(V), o, attention);
    const OperationCount F0 = row(0, false), F = row(d, false), both_rows = row(d, true);
    exactly("H21", "the library's F(0): N d multiplies, and N by the scale", "N = 50, d = 6", F0.multiplies, n * d + n);
    exactly("H21", "the library's attention, the gradient at 0: 2 N d, and N by the scale", "N = 50, d = 6",
            attention.multiplies, 2 * n * d + n);
    exactly("H21", "exponentials of either: N", "N = 50, d = 6", F0.exponentials + attention.exponentials, 2 * n);
    exactly("H21", "the library's F(ζ), its source N d more", "N = 50, d = 6", F.multiplies, 2 * n * d + n);
    exactly("H21", "and its gradient N d more", "N = 50, d = 6", both_rows.multiplies - F.multiplies, n * d);
    exactly("H21", "and no further exponential", "N = 50, d = 6", both_rows.exponentials - F.exponentials, 0);
}
