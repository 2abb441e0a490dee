// Checks of proofs/gates.md: claims E4 and F1 to F9. F10 stands with the other backward passes.
#include <algorithm>
#include <limits>

#include "core/gated/linear_attention.hpp"
#include "core/gated/step.hpp"
#include "core/kit/product.hpp"
#include "core/tensor/linalg.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/causal.hpp"
#include "tests/proofs/claims.hpp"

using namespace causeway;
using namespace causeway::proofs;

namespace {

// The library on the inputs of reference.hpp.
LinearResult library(const Inputs<double>& x, const std::string& update, const std::string& mode, Index chunk,
                     DType type = DType::f64) {
    LinearOptions o;
    o.update = update, o.mode = mode, o.chunk = chunk;
    if (update.find("gated") != std::string::npos) o.log_decay = vector(x[iA].array().log().matrix(), type);
    if (update.find("delta") != std::string::npos) o.beta = vector(x[iBeta], type);
    o.state = tensor(x[iS], type);
    return linear_attention(tensor(x[iQ], type), tensor(x[iK], type), tensor(x[iV], type), o);
}

double error_of(const LinearResult& got, const Output<double>& want) {
    return worst(relative(matrix(got.O), want.O), relative(matrix(got.state), want.S));
}

// Unit keys, β in (0, 2), gates in [low, 1], a random state.
Inputs<double> problem(Index n, Index dk, Index dv, double low, unsigned seed) {
    Random random(seed);
    const Matrix Q = random.normal(n, dk), K = random.unit_rows(n, dk), V = random.normal(n, dv);
    const Matrix a = random.uniform(n, 1, low, 1), beta = random.uniform(n, 1, 0, 2), S = random.normal(dk, dv);
    return {Q, K, V, a, beta, S};
}

OperationCount counted_library(Index n, Index dk, Index dv, const std::string& update, const std::string& mode,
                               Index C) {
    const Tensor q = Tensor::full(DType::f64, {n, dk}, 0.5), v = Tensor::full(DType::f64, {n, dv}, 0.5),
                 gate = Tensor::full(DType::f64, {n}, -0.5);
    LinearOptions o;
    o.update = update, o.mode = mode, o.chunk = C;
    if (update.find("gated") != std::string::npos) o.log_decay = gate;
    if (update.find("delta") != std::string::npos) o.beta = Tensor::full(DType::f64, {n}, 0.5);
    OperationCount count;
    linear_attention_counted(q, q, v, o, count);
    return count;
}

}  // namespace

TEST_CASE("E4: running products of gates", "[proofs][gates]") {
    auto x = problem(40, 5, 4, 0.5, 41);
    x[iA](6, 0) = x[iA](22, 0) = 0;
    const auto want = recurrence(x);
    double worst_error = 0;
    for (Index C : {1, 5, 16, 40})
        worst_error = worst(worst_error, error_of(library(x, "gated_delta", "chunkwise", C), want));
    claim("E4", "chunkwise with a_t = 0 equals the recurrence", "n = 40, a_7 = a_23 = 0, C = 1, 5, 16, 40", worst_error,
          1e-14);

    const Matrix c = [&] {
        Matrix sums = x[iA].array().log().matrix();
        for (Index t = 1; t < sums.rows(); ++t) sums(t, 0) += sums(t - 1, 0);
        return sums;
    }();
    int nans = 0;
    for (Index t = 0; t < 40; ++t)
        for (Index j = 0; j <= t; ++j) nans += std::isnan(std::exp(c(t, 0) - c(j, 0)));
    published_fails("E4", "Λ_tj = e^{c_t - c_j}: entries that are NaN (-Inf minus -Inf)", "the same", nans, 1);

    Random random(42);
    const Matrix a = rounded(random.uniform(64, 1, 0.5, 1));
    const auto exact = Gates<double>(a).lambda;
    const auto got = Gates<float>(a.cast<float>()).lambda;
    double ratio = 0;
    for (Index t = 0; t < 64; ++t)
        for (Index j = 0; j < t; ++j)
            ratio = worst(ratio, std::abs(static_cast<double>(got(t, j)) / exact(t, j) - 1) /
                                     e(faulty("E4: one rounding", static_cast<double>(t - j), 1.0), u32));
    claim("E4", "relative error of Λ_tj in units of e(t-j)", "Float32, 64 gates in [0.5, 1]", ratio, 1);
}

TEST_CASE("F1: a mask inside the softmax does not mask", "[proofs][gates]") {
    const auto softmax = [](Matrix scores) {
        for (Index i = 0; i < scores.rows(); ++i) {
            scores.row(i) = (scores.row(i).array() - scores.row(i).maxCoeff()).exp().matrix();
            scores.row(i) /= scores.row(i).sum();
        }
        return scores;
    };
    const auto published = [&](const Matrix& Q, const Matrix& K) {
        return softmax(lower<double>(product(Q, K.transpose())));
    };
    const auto repaired = [&](const Matrix& Q, const Matrix& K) {
        Matrix scores = product(Q, K.transpose());
        for (Index i = 0; i < scores.rows(); ++i)
            for (Index j = i + 1; j < scores.cols(); ++j) scores(i, j) = faulty("F1: -1 for ln 0", -INFINITY, -1.0f);
        return softmax(scores);
    };
    Matrix Q(2, 2);
    Q << 1, 2, 3, 4;
    const Matrix I = Matrix::Identity(2, 2);
    const double leak = published(Q, I)(0, 1);
    published_fails("F1", "softmax(QKᵀ ⊙ M): weight of the future token in row 1", "scores (1, 2; 3, 4)", leak, 0.268);
    claim("F1", "that weight is 1/(1 + e), that of the own token e/(1 + e)", "scores (1, 2; 3, 4)",
          worst(std::abs(leak - 1 / (1 + std::exp(1.0))),
                std::abs(published(Q, I)(0, 0) - std::exp(1.0) / (1 + std::exp(1.0)))),
          1e-15);
    claim("F1", "softmax(QKᵀ + log M): row 1 differs from (1, 0) by", "scores (1, 2; 3, 4)",
          (repaired(Q, I).row(0) - I.row(0)).norm(), 0);

    Random random(1);
    const Matrix q = random.normal(16, 4), k = random.normal(16, 4), V = random.normal(16, 3);
    Matrix W = V;
    W.row(15).array() += 1;
    const auto moved = [&](const Matrix& P) {
        return (product(P, W) - product(P, V)).topRows(15).cwiseAbs().maxCoeff();
    };
    published_fails("F1", "softmax(QKᵀ ⊙ M): rows before n move with v_n by", "n = 16, v_n + 1", moved(published(q, k)),
                    0.01);
    claim("F1", "softmax(QKᵀ + log M): rows before n move with v_n by", "n = 16, v_n + 1", moved(repaired(q, k)), 0);
}

TEST_CASE("F2: counts of matrix products", "[proofs][gates]") {
    const auto ones = [](Index m, Index n) -> Mat<Counted> { return Mat<Counted>::Constant(m, n, Counted(1)); };
    // Entry by entry as a dot product: the first term starts the sum.
    const auto multiply = [](const Mat<Counted>& A, const Mat<Counted>& B) {
        Mat<Counted> out(A.rows(), B.cols());
        for (Index i = 0; i < A.rows(); ++i)
            for (Index j = 0; j < B.cols(); ++j) {
                out(i, j) = A(i, 0) * B(0, j);
                for (Index l = 1; l < A.cols(); ++l) out(i, j) += A(i, l) * B(l, j);
            }
        return out;
    };
    for (const auto& [m, n, k] : {std::array<Index, 3>{5, 7, 3}, {1, 1, 1}, {8, 2, 9}}) {
        counted = {};
        multiply(ones(m, n), ones(n, k));
        const auto input =
            std::to_string(m) + "×" + std::to_string(n) + " by " + std::to_string(n) + "×" + std::to_string(k);
        exactly("F2", "multiplies of a product, mnk", input, counted.multiplies, m * n * k);
        exactly("F2", "adds of a product, mk(n-1)", input, counted.adds,
                m * k * (n - faulty("F2: mkn adds", Index{1}, Index{0})));
    }
    int wrong = 0;
    for (Index n = 1; n <= 10; ++n)
        for (Index d = 1; d <= 10; ++d) {
            const auto Q = ones(n, d);
            counted = {};
            multiply(multiply(Q, Q.transpose()), Q);
            const auto left = std::exchange(counted, {}).multiplies;
            multiply(Q, multiply(Q.transpose(), Q));
            const auto right = std::exchange(counted, {}).multiplies;
            wrong += left != 2 * n * n * d || right != 2 * n * d * d || (left > right) != (n > d) ||
                     (left == right) != (n == d);
        }
    exactly("F2", "(QKᵀ)V: 2n²d, Q(KᵀV): 2nd², dearer iff n > d; deviations", "n, d = 1 .. 10", wrong, 0);
}

TEST_CASE("F3, F4: recurrent, parallel and chunkwise are one function", "[proofs][gates]") {
    Random random(3);
    const auto check = [&](Inputs<double> x, const std::string& input) {
        const Index n = x[iQ].rows(), dk = x[iQ].cols();
        for (auto& m : x) m = rounded(m);
        x[iS].setZero();
        const auto product_of = [&](auto&& f) {
            return product(lower<double>(product(f(x[iQ]), f(x[iK]).transpose())), f(x[iV]));
        };
        const Matrix want = product_of([](const Matrix& m) -> Matrix { return m; });
        const Matrix Pi = product_of([](const Matrix& m) -> Matrix { return m.cwiseAbs(); });
        const double k = static_cast<double>(n + dk);
        for (const char* mode : {"recurrent", "parallel"})
            claim("F3", std::string(mode) + ": roundings of an entry (B7: n + dk)", input,
                  roundings(matrix(library(x, "linear", mode, 1, DType::f32).O), want, Pi, u32),
                  faulty("F3: dk roundings", k, static_cast<double>(dk)));
        for (Index C : {Index{16}, Index{64}}) {
            const Index chunks = (n + C - 1) / C;
            claim("F4", "chunkwise: roundings of an entry (B7: 2C + ⌈n/C⌉ + dk)", input + ", C = " + std::to_string(C),
                  roundings(matrix(library(x, "linear", "chunkwise", C, DType::f32).O), want, Pi, u32),
                  static_cast<double>(2 * C + chunks + dk));
        }
    };
    check({random.normal(97, 6), random.normal(97, 6), random.normal(97, 5), {}, {}, Matrix::Zero(6, 5)},
          "Float32, normal, n = 97, dk = 6");
    const Matrix tenth = Matrix::Constant(1024, 4, 0.1);
    check({tenth, tenth, tenth, {}, {}, Matrix::Zero(4, 4)}, "Float32, all 0.1, n = 1024, dk = 4");

    // Every chunk length, in Float64 against the parallel form.
    const Inputs<double> x{random.normal(33, 5), random.normal(33, 5), random.normal(33, 4), {}, {},
                           Matrix::Zero(5, 4)};
    const Matrix want = product(lower<double>(product(x[iQ], x[iK].transpose())), x[iV]);
    const Matrix Pi = product(lower<double>(product(x[iQ].cwiseAbs(), x[iK].cwiseAbs().transpose())), x[iV].cwiseAbs());
    double most = 0, state = 0;
    for (Index C = 1; C <= 33; ++C) {
        const auto got = library(x, "linear", "chunkwise", C);
        most = worst(
            most, roundings(matrix(got.O), want, Pi, u64) / static_cast<double>(2 * C + (33 + C - 1) / C + 5 + 33 + 5));
        const Index seen = faulty("F4: a last state without the last token", 33, 32);
        state =
            worst(state, relative(matrix(got.state), product(x[iK].topRows(seen).transpose(), x[iV].topRows(seen))));
    }
    claim("F4", "every C: difference to the parallel form, in units of the two budgets of B7",
          "Float64, n = 33, C = 1 .. 33", most, 1);
    claim("F4", "every C: last state against KᵀV", "Float64, n = 33, C = 1 .. 33", state, 1e-14);

    const auto count = [](Index n) { return counted_library(n, 6, 5, "linear", "recurrent", 1).multiplies; };
    int wrong = 0;
    for (Index n = 1; n <= 40; ++n) wrong += count(n) - count(n - 1) != 2 * 6 * 5;
    exactly("F3", "a token costs 2 dk dv multiplies, whatever came before; deviations", "token 1 .. 40, dk = 6, dv = 5",
            wrong, 0);

    // A state and an output of dv numbers are all that generation holds, after any number of tokens.
    const Index tokens = 40, dk = 6, dv = 5;
    const Inputs<double> text{random.normal(tokens, dk), random.normal(tokens, dk), random.normal(tokens, dv)};
    const auto row = [&](std::size_t i, Index t) { return tensor(Matrix(text[i].row(t))); };
    Matrix generated(tokens, dv);
    std::vector<std::int64_t> held;
    const auto before = memory::current();
    Tensor S = Tensor::zeros(DType::f64, {dk, dv}), o = Tensor::zeros(DType::f64, {1, dv});
    for (Index t = 0; t < tokens; ++t) {
        const Tensor q = row(iQ, t), k = row(iK, t), v = row(iV, t);
        memory::reset_peak();
        linear_attention_step(q, k, v, S, o);
        held.push_back(static_cast<std::int64_t>((memory::peak() - before) / sizeof(double)) -
                       (q.size() + k.size() + v.size()));
        generated.row(t) = matrix(o).row(0);
    }
    exactly("F3", "scalars held at the peak of a step besides the token's: state dk dv, output dv; least",
            "token 1 .. 40, dk = 6, dv = 5", *std::min_element(held.begin(), held.end()), dk * dv + dv);
    exactly("F3", "the same, largest", "the same", *std::max_element(held.begin(), held.end()), dk * dv + dv);
    claim("F3", "what the steps return against the parallel form", "the same",
          relative(generated, product(lower<double>(product(text[iQ], text[iK].transpose())), text[iV])), 1e-13);
}

namespace {

// Chunks of C on numbers that count. dense: whole tiles; skips: no product with the zero state of the first chunk, no
// update after the last.
std::int64_t hybrid(Index n, Index dk, Index dv, Index C, bool dense, bool skips) {
    using kit::add_product;
    const Mat<Counted> Q = Mat<Counted>::Constant(n, dk, Counted(1)), V = Mat<Counted>::Constant(n, dv, Counted(1));
    Mat<Counted> S = zeros<Counted>(dk, dv), O = zeros<Counted>(n, dv);
    counted = {};
    for (Index start = 0; start < n; start += C) {
        const Index c = std::min(C, n - start);
        const auto q = Q.middleRows(start, c), v = V.middleRows(start, c);
        auto o = O.middleRows(start, c);
        Mat<Counted> A = zeros<Counted>(c, c);
        for (Index t = 0; t < c; ++t) {
            const Index width = dense ? c : t + 1;
            add_product(A.row(t).head(width), q.row(t), q.topRows(width).transpose());
        }
        if (dense) A = lower(A);
        for (Index t = 0; t < c; ++t) {
            const Index width = dense ? c : t + 1;
            add_product(o.row(t), A.row(t).head(width), v.topRows(width));
        }
        if (!skips || start > 0) add_product(o, q, S);
        if (!skips || start + c < n) add_product(S, q.transpose(), v);
    }
    REQUIRE(O(n - 1, 0).value == static_cast<double>(n * dk));
    return std::exchange(counted, {}).multiplies;
}

std::vector<Index> divisors(Index n) {
    std::vector<Index> out;
    for (Index C = 1; C <= n; ++C)
        if (n % C == 0) out.push_back(C);
    return out;
}

}  // namespace

TEST_CASE("F5: what a chunk length costs", "[proofs][gates]") {
    int wrong_dense = 0, wrong_triangle = 0, wrong_unskipped = 0, wrong_end = 0;
    const Index n = 16;
    for (Index d : {4, 8, 9, 16, 32}) {
        std::vector<std::int64_t> dense, triangle;
        for (Index C : divisors(n)) {
            dense.push_back(hybrid(n, d, d, C, true, true));
            triangle.push_back(hybrid(n, d, d, C, false, true));
            wrong_dense += dense.back() != 2 * n * d * d + 2 * C * d * (n - d);
            wrong_triangle +=
                triangle.back() != n * d + 2 * n * d * d + C * d * (n - faulty("F5: n - d for triangles", 2, 1) * d);
            wrong_unskipped += hybrid(n, d, d, C, true, false) != 2 * n * C * d + 2 * n * d * d;
            wrong_unskipped += hybrid(n, d, d, C, false, false) != n * (C + 1) * d + 2 * n * d * d;
        }
        const auto best_at = [](const std::vector<std::int64_t>& counts, bool first, bool last) {
            const auto least = *std::min_element(counts.begin(), counts.end());
            return (counts.front() == least) == first && (counts.back() == least) == last;
        };
        wrong_end += !best_at(dense, n >= d, n <= d) + !best_at(triangle, n >= 2 * d, n <= 2 * d);
    }
    const std::string input = "n = 16, d = 4, 8, 9, 16, 32, all C | n";
    exactly("F5", "dense tiles with skips: 2nd² + 2Cd(n-d) multiplies; deviations", input, wrong_dense, 0);
    exactly("F5", "triangular tiles with skips: nd + 2nd² + Cd(n-2d); deviations", input, wrong_triangle, 0);
    exactly("F5", "without skips: dense 2nCd + 2nd², triangular n(C+1)d + 2nd²; deviations", input, wrong_unskipped, 0);
    exactly("F5", "the optimum is the end that the sign of n-d (n-2d) tells; deviations", input, wrong_end, 0);
    for (Index C : divisors(64)) {
        const auto text = ", C = " + std::to_string(C);
        if (C == 1 || C == 8 || C == 64) {
            exactly("F5", "tie at n = 2d, triangular", "n = 64, d = 32" + text, hybrid(64, 32, 32, C, false, true),
                    133120);
            exactly("F5", "tie at n = d, dense", "n = 64, d = 64" + text, hybrid(64, 64, 64, C, true, true), 524288);
        }
    }

    const Index dk = 6, dv = 5;
    for (Index C : {1, 4, 7, 16, 48})
        exactly("F5", "library, linear: n(C+1)/2 (dk+dv) + 2n dk dv multiplies",
                "n = " + std::to_string(2 * C) + ", C = " + std::to_string(C),
                counted_library(2 * C, dk, dv, "linear", "chunkwise", C).multiplies,
                C * (C + 1) * (dk + dv) + 4 * C * dk * dv);

    // MACs over their rate and n/C sequential steps: the least time over all divisors C of 720, from the counted MACs
    // of dense tiles, is had at a neighbour of C* = √(σρ/(dk+dv)).
    const Index length = 720;
    const auto lengths = divisors(length);
    std::vector<double> macs;
    for (Index C : lengths) macs.push_back(static_cast<double>(hybrid(length, 2, 1, C, true, false)));
    int elsewhere = 0;
    for (int power = 0; power <= 60; ++power) {
        const double steps = std::pow(10, 1 + power / 12.0);  // σρ: MACs in the time of one step
        std::size_t least = 0;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            const auto time = [&](std::size_t at) {
                return macs[at] + steps * static_cast<double>(length / lengths[at]);
            };
            if (time(i) < time(least)) least = i;
        }
        const double best = std::sqrt(steps / 3);
        const bool below = least + 1 == lengths.size() || best < static_cast<double>(lengths[least + 1]),
                   above = least == 0 || best > static_cast<double>(lengths[least - 1]);
        elsewhere += !below || !above;
    }
    exactly("F5", "dense tiles, counted: the fastest C | n is a neighbour of √(σρ/(dk+dv)); deviations",
            "n = 720, dk = 2, dv = 1, σρ = 10 .. 1e6 in 61 steps", elsewhere, 0);
}

TEST_CASE("F6: the delta rule", "[proofs][gates]") {
    Random random(6);
    double algebra = 0, reading = 0, blend = INFINITY, unit_blend = 0;
    for (int round = 0; round < 20; ++round) {
        const Matrix S = random.normal(5, 4), k = random.normal(5, 1), v = random.normal(4, 1);
        const double beta = random.uniform(1, 1, 0, 1)(0, 0);
        const auto step = [&](const Matrix& key) -> Matrix {
            return S - beta * key * (key.transpose() * S) + beta * key * v.transpose();
        };
        const Matrix old = S.transpose() * k;
        const Matrix three = S - k * old.transpose() + k * (beta * v + (1 - beta) * old).transpose();
        algebra = worst(algebra, relative(three, (Matrix::Identity(5, 5) - beta * k * k.transpose()) * S +
                                                     beta * k * v.transpose()));
        const double strength = beta * k.squaredNorm();
        reading = worst(reading, relative<double>(step(k).transpose() * k, (1 - strength) * old + strength * v));
        blend = fewest(blend, relative<double>(step(k).transpose() * k, beta * v + (1 - beta) * old));
        const Matrix unit = k / k.norm(), read = S.transpose() * unit;
        unit_blend = worst(unit_blend, relative<double>(step(unit).transpose() * unit, beta * v + (1 - beta) * read));
    }
    claim("F6", "delete-and-write equals (I - βkkᵀ)S + βkvᵀ", "20 normal k, β in (0, 1)", algebra, 1e-14);
    claim("F6", "kᵀS_t = (1 - β|k|²) v_oldᵀ + β|k|² vᵀ", "20 normal k, β in (0, 1)", reading, 1e-13);
    published_fails("F6", "kᵀS_t is the blend βv + (1-β)v_old, least error", "20 normal k, β in (0, 1)", blend, 0.01);
    claim("F6", "kᵀS_t is the blend, keys of length 1", "the same, k/|k|", unit_blend, 1e-13);

    // k = 3, β = 1/2, v = 0: S_t = (-3.5)^t S_0.
    const Index n = 40;
    const Inputs<double> grown{Matrix::Ones(n, 1),          Matrix::Constant(n, 1, 3), Matrix::Zero(n, 1), {},
                               Matrix::Constant(n, 1, 0.5), Matrix::Ones(1, 1)};
    const Matrix O = matrix(library(grown, "delta", "recurrent", 1).O);
    double growth = 0;
    for (Index t = 0; t < n; ++t)
        growth = worst(growth, std::abs(O(t, 0) / std::pow(-3.5, static_cast<double>(t + 1)) - 1));
    published_fails("F6", "|S_t| without the condition |k| = 1", "k = 3, β = 1/2, v = 0, S_0 = 1, t = 40",
                    std::abs(O(n - 1, 0)), 1e20);
    claim("F6", "it is (-3.5)^t, relative error", "the same, t = 1 .. 40", growth, 1e-10);

    double inside = 0, outside = INFINITY;
    for (double strength : {0.0, 0.3, 1.0, 1.7, 2.0, -0.1, 2.1, 4.5}) {
        const Matrix k = random.unit_rows(1, 6).transpose();
        const double size = opnorm(tensor(Matrix::Identity(6, 6) - strength * k * k.transpose()));
        if (strength >= 0 && strength <= faulty("F6: stable up to 2.1", 2.0, 2.1)) inside = worst(inside, size - 1);
        else outside = fewest(outside, std::abs(size - std::abs(1 - strength)) > 1e-12 ? 0.0 : size - 1);
    }
    claim("F6", "‖I - βkkᵀ‖ - 1 for 0 <= β|k|² <= 2", "β|k|² = 0, 0.3, 1, 1.7, 2", inside, 1e-13);
    published_fails("F6", "‖I - βkkᵀ‖ - 1 beyond, where it is |1 - β|k|²| - 1; least", "β|k|² = -0.1, 2.1, 4.5",
                    outside, 0.0999);
}

TEST_CASE("F7: gate first, then the delta rule", "[proofs][gates]") {
    const auto x = problem(50, 6, 5, 0.3, 7);
    claim("F7", "the library's recurrence equals a(I - βkkᵀ)S + βkvᵀ", "n = 50, unit keys, β in (0, 2), a in [0.3, 1]",
          error_of(library(x, "gated_delta", "recurrent", 1), recurrence(x)), 1e-13);
    const Index n = 11, dk = 6, dv = 5;
    const auto count = counted_library(n, dk, dv, "gated_delta", "recurrent", 1);
    exactly("F7", "a token: 3 dk dv multiply-adds, dk dv for the gate, dv for β; multiplies", "n = 11, dk = 6, dv = 5",
            count.multiplies, n * (4 * dk * dv + dv));
    exactly("F7", "a token: 3 dk dv + dv adds", "n = 11, dk = 6, dv = 5", count.adds,
            n * (faulty("F7: the state read once less", 3, 2) * dk * dv + dv));
}

TEST_CASE("F8: the chunkwise form of the gated delta rule", "[proofs][gates]") {
    for (double low : {0.9, 0.05}) {
        const auto x = problem(97, 8, 6, low, low > 0.5 ? 8u : 9u);
        const auto want = recurrence(x);
        for (Index C : {1, 16, 32, 97}) {
            char input[80];
            std::snprintf(input, sizeof input, "unit keys, a in [%g, 1], n = 97, C = %d", low, static_cast<int>(C));
            claim("F8", "chunkwise equals the recurrence", input,
                  error_of(library(x, "gated_delta", "chunkwise", C), want), 1e-13);
        }
    }
    // One chunk by hand: U, and its WY form with factors that S_0 does not enter.
    const auto x = problem(24, 8, 6, 0.5, 10);
    const Index n = 24, dk = 8, dv = 6;
    const Gates<double> gates(x[iA]);
    const Matrix M = lower<double>(gates.lambda.cwiseProduct(product(x[iK], x[iK].transpose())), -1);
    const Matrix A = lower<double>(gates.lambda.cwiseProduct(product(x[iQ], x[iK].transpose())));
    const Matrix T = scale_rows(x[iBeta], M), Ke = scale_rows(gates.e, x[iK]), Qe = scale_rows(gates.e, x[iQ]);
    const Matrix U = substitute<double>(T, scale_rows<double>(x[iBeta], x[iV] - product(Ke, x[iS])));
    const Matrix Ut = substitute<double>(T, scale_rows(x[iBeta], x[iV])),
                 W = substitute<double>(T, scale_rows(x[iBeta], Ke));
    const auto want = recurrence(x);
    claim("F8", "WY: U = Ũ - W S_0", "n = C = 24, a in [0.5, 1]", relative<double>(Ut - product(W, x[iS]), U), 1e-13);
    claim("F8", "WY: O = Qe S_0 + A(Ũ - W S_0)", "n = C = 24, a in [0.5, 1]",
          relative<double>(product(Qe, x[iS]) + product(A, Ut - product(W, x[iS])), want.O), 1e-13);
    claim(
        "F8", "WY: S_C = (e_C I - KwᵀW) S_0 + KwᵀŨ", "n = C = 24, a in [0.5, 1]",
        [&] {
            const Matrix Kw = scale_rows(faulty("F8: e for w", gates.w, gates.e), x[iK]);
            const Matrix carry = gates.e(n - 1, 0) * Matrix::Identity(dk, dk) - product(Kw.transpose(), W);
            return relative<double>(product(carry, x[iS]) + product(Kw.transpose(), Ut), want.S);
        }(),
        1e-13);

    auto still = x;
    still[iBeta].setZero();
    const auto none = library(still, "gated_delta", "chunkwise", 8);
    claim("F8", "β = 0: the state only decays, S_n = e_n S_0", "n = 24, C = 8",
          relative<double>(matrix(none.state), gates.e(n - 1, 0) * x[iS]), 1e-14);

    // Without T it is gated linear attention on βv.
    auto fresh = x;
    fresh[iS].setZero();
    auto weighted = fresh;
    weighted[iV] = scale_rows(x[iBeta], x[iV]);
    const Matrix dropped = product(A, weighted[iV]);
    claim("F8", "T dropped, S_0 = 0: gated linear attention on βv", "n = 24",
          relative(dropped, matrix(library(weighted, "gated", "chunkwise", 8).O)), 1e-13);
    published_fails("F8", "T dropped: difference to the gated delta rule", "n = 24",
                    relative(dropped, recurrence(fresh).O), 0.1);

    for (Index C : {1, 4, 16}) {
        const auto count = counted_library(3 * C, dk, dv, "delta", "chunkwise", C);
        const Index length = 3 * C, macs = length * (C * (dk + dv) + 3 * dk * dv);
        const std::string input =
            "delta, n = " + std::to_string(length) + ", C = " + std::to_string(C) + ", dk = 8, dv = 6";
        exactly("F8", "n(C(dk+dv) + 3 dk dv) multiplies, and n dv for β", input, count.multiplies, macs + length * dv);
        exactly("F8", "as many adds (n dv: the subtraction from v)", input, count.adds, macs + length * dv);
    }
    // A ragged last chunk, and one gate a token.
    for (const auto& [length, C] : {std::pair<Index, Index>{13, 4}, {33, 16}, {7, 16}}) {
        Index squares = 0, gating = 0;
        for (Index start = 0; start < length; start += C) {
            const Index c = std::min(C, length - start);
            squares += c * c, gating += c * c - 1 + c * (c + 1) / 2 + (3 * c - 1) * dk + dk * dv;
        }
        const std::string input = sentence("n = ", length, ", C = ", C, ", dk = 8, dv = 6");
        const auto plain = counted_library(length, dk, dv, "delta", "chunkwise", C),
                   gated = counted_library(length, dk, dv, "gated_delta", "chunkwise", C);
        exactly("F8", "ragged: ΣC_i² (dk+dv) + 3n dk dv multiplies, and n dv for β", input, plain.multiplies,
                faulty("F8: nC for ΣC_i²", squares, length * C) * (dk + dv) + length * (3 * dk * dv + dv));
        exactly("F8", "gates: C² - 1 + C(C+1)/2 + (3C-1)dk + dk dv multiplies more a chunk", input,
                gated.multiplies - plain.multiplies, gating);
        exactly("F8", "gates: as many adds", input, gated.adds - plain.adds, 0);
        exactly("F8", "gates: an exponential a token", input, gated.exponentials - plain.exponentials, length);
    }
    const Mat<Counted> keys = Mat<Counted>::Constant(n, dk, Counted(1)),
                       ones = Mat<Counted>::Constant(n, n, Counted(1));
    counted = {};
    substitute<Counted>(ones, keys);
    exactly("F8", "forming W: C(C-1)/2 dk multiply-adds more", "C = 24, dk = 8", std::exchange(counted, {}).multiplies,
            n * (n - 1) / 2 * dk);
}

namespace {

// T of F8 for equal unit keys and no gates: β below the diagonal.
template <class T>
Mat<T> equal_keys(Index n, double beta) {
    return lower<T>(Mat<T>::Constant(n, n, static_cast<T>(beta)), -1);
}

// (I + L)⁻¹ = (I - L)(I + L²)(I + L⁴) .., exact for a nilpotent L in exact arithmetic. Rounded as written, nothing
// fused.
template <class T>
Matrix inverse_by_powers(const Mat<T>& plain) {
    using F = Unfused<T>;
    const Mat<F> L = plain.template cast<F>(), I = Mat<F>::Identity(L.rows(), L.rows());
    Mat<F> inverse = I + F(-1) * L, power = product(L, L);
    for (Index m = 2; m < L.rows(); m *= 2) {
        inverse = product(inverse, Mat<F>(I + power));
        power = product(power, power);
    }
    return inverse.unaryExpr([](F x) { return static_cast<double>(x.value); });
}

}  // namespace

TEST_CASE("F9: forward substitution is stable", "[proofs][gates]") {
    const Index n = 48;
    double entry = 0, closed = 0, norm = 0, residual = 0;
    for (unsigned seed = 1; seed <= 4; ++seed) {
        Random random(90 + seed);
        // Few dimensions: keys overlap much. Lengths up to 1, β|k|² up to 2.
        const Matrix unit = random.unit_rows(n, 3),
                     K = seed % 2 ? unit : scale_rows<double>(random.uniform(n, 1, 0.5, 1), unit);
        const Matrix beta = (random.uniform(n, 1, 0, 2).array() / K.rowwise().squaredNorm().array()).matrix();
        const Matrix a = random.uniform(n, 1, seed > 2 ? 0.0 : 0.95, 1);
        const Matrix T = scale_rows<double>(
            beta, lower<double>(Gates<double>(a).lambda.cwiseProduct(product(K, K.transpose())), -1));
        const Matrix inverse = substitute<double>(T, Matrix::Identity(n, n));
        residual = worst(residual,
                         (product(Matrix::Identity(n, n) + T, inverse) - Matrix::Identity(n, n)).cwiseAbs().maxCoeff());
        norm = worst(norm, opnorm(tensor(inverse)) / (1 + static_cast<double>(n) * beta.maxCoeff()));
        for (Index t = 0; t < n; ++t) {
            Matrix row = K.row(t);  // a_t k_tᵀ Π_{s=t-1..j+1} a_s (I - β_s k_s k_sᵀ), j falling
            row *= faulty("F9: without a_t", a(t, 0), 1.0);
            for (Index j = t - 1; j >= 0; --j) {
                closed = worst(closed, std::abs(inverse(t, j) + beta(t, 0) * row.row(0).dot(K.row(j))));
                entry = worst(entry, std::abs(inverse(t, j)) / beta(t, 0));
                row = (a(j, 0) * (row - beta(j, 0) * row.row(0).dot(K.row(j)) * K.row(j))).eval();
            }
        }
    }
    const std::string input = "n = 48, dk = 3, β|k|² in (0, 2), four draws";
    claim("F9", "|(I+T)⁻¹_tj| / β_t for j < t", input, entry, 1);
    claim("F9", "(I+T)⁻¹_tj = -β_t a_t k_tᵀ Π a(I - βkkᵀ) k_j", input, closed, 1e-12);
    claim("F9", "‖(I+T)⁻¹‖₂ / (1 + C max β)", input, norm, 1);
    claim("F9", "residual of forward substitution", input, residual, 1e-12);
    const Matrix worst_case = substitute<double>(equal_keys<double>(64, 2), Matrix::Identity(64, 64));
    claim("F9", "equality: entries below the diagonal are ±2 = ±β; deviation", "dk = 1, k = 1, a = 1, β = 2, C = 64",
          (lower<double>(worst_case, -1).cwiseAbs() - equal_keys<double>(64, 2)).cwiseAbs().maxCoeff(), 0);

    // (i) keys scaled by e^{-c_j}, c the sums of ln a.
    Index overflows = 0;
    for (float c = 0; std::isfinite(std::exp(-c)); ++overflows) c += std::log(0.2f);
    exactly("F9", "unsafe (i): the first j at which e^{-c_j} is Inf", "Float32, a = 0.2", overflows, 56);
    auto strong = problem(64, 8, 6, 0.5, 91);
    for (auto& m : strong) m = rounded(m);
    strong[iA].setConstant(0.2);
    const auto want = recurrence(strong);
    claim("F9", "the safe form on such a chunk", "Float32, a = 0.2, n = C = 64",
          error_of(library(strong, "gated_delta", "chunkwise", 64, DType::f32), want), 1e-5);
    {
        // Λ_tj q_t·k_j as (e^{c_t} q_t)·(e^{-c_j} k_j), c_t = t ln a.
        Mat<float> Qe = strong[iQ].cast<float>(), Ke = strong[iK].cast<float>();
        for (Index t = 0; t < 64; ++t) {
            const float c = static_cast<float>(t + 1) * std::log(0.2f);
            Qe.row(t) *= std::exp(c);
            Ke.row(t) *= std::exp(-c);
        }
        const Mat<float> scores = product(Qe, Ke.transpose());
        int lost = 0;
        for (Index t = 0; t < 64; ++t) lost += !scores.row(t).head(t + 1).allFinite();
        published_fails("F9", "unsafe (i): rows of scores that are not finite", "Float32, a = 0.2, n = C = 64", lost, 9,
                        regression);
    }
    // (ii) the inverse by powers.
    const auto powers_error = [&]<class T>(T, double beta) {
        const Matrix exact = substitute<double>(equal_keys<double>(64, beta), Matrix::Identity(64, 64));
        return (inverse_by_powers(equal_keys<T>(64, beta)) - exact).cwiseAbs().maxCoeff();
    };
    Matrix power = Matrix::Identity(64, 64);
    for (int m = 0; m < 32; ++m) power = product(power, equal_keys<double>(64, 1));
    claim("F9", "unsafe (ii): largest entry of T³² against binom(62, 31), relative", "k equal, β = 1, C = 64",
          std::abs(power.maxCoeff() / 465428353255261088.0 - 1), 1e-13);
    const double single = powers_error(0.0f, 1), twice = powers_error(0.0, 0.97);
    published_fails("F9", "unsafe (ii): error of (I-T)(I+T²)(I+T⁴).., true entries <= 1",
                    "Float32, nothing fused, k equal, β = 1, C = 64", single, 0x1p35, regression);
    claim("F9", "that is 2³⁵ = 3.44e10, off by", "the same", std::abs(single - 0x1p35), 0, regression);
    published_fails("F9", "unsafe (ii): the same", "Float64, nothing fused, k equal, β = 0.97, C = 64", twice,
                    32 - 1e-9, regression);
    claim("F9", "that is 32, off by", "the same", std::abs(twice - 32), 1e-9, regression);
    claim(
        "F9", "forward substitution there: residual", "Float32, k equal, β = 1, C = 64",
        [&] {
            const Mat<float> L = equal_keys<float>(64, 1), I = Mat<float>::Identity(64, 64);
            return static_cast<double>((product(I + L, substitute<float>(L, I)) - I).cwiseAbs().maxCoeff());
        }(),
        0);
}
