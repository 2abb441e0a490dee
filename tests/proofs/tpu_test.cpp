// Checks of proofs/tpu.md: claims G1 to G6 and G11.
#include <stdexcept>
#include <string>

#include "core/exact/causal_linear_attention.hpp"
#include "core/exact/outer_product.hpp"
#include "core/exact/row_based.hpp"
#include "core/exact/vanilla.hpp"
#include "core/gated/linear_attention.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/claims.hpp"
#include "tests/proofs/reference.hpp"

using namespace causeway;
using namespace causeway::proofs;

namespace {

constexpr double u32 = 0x1p-24;

// Σ_{first<=j<=i} (q_i·k_j) v_j + q_i C, by the outer products k_j v_jᵀ.
Matrix row_from(const Matrix& Q, const Matrix& K, const Matrix& V, Index i, Index first, const Matrix& C) {
    Matrix sum = C;
    for (Index j = first; j <= i; ++j) sum += product(K.row(j).transpose(), V.row(j));
    return product(Q.row(i), sum);
}

// Algorithm 1 of tpu, lines 6 to 11, V in line 8 read as V_ib. The ones matrices are b × width: printed width b,
// repaired d_v. Throws std::invalid_argument in a line that does not conform.
template <class T>
Mat<T> algorithm_1(const Mat<T>& Q, const Mat<T>& K, const Mat<T>& V, Index b, Index width) {
    const Index n = Q.rows(), dk = Q.cols(), dv = V.cols();
    Mat<T> C_KV = zeros<T>(dk, dv), C_K = zeros<T>(dk, width), Y = zeros<T>(n, dv);
    const Mat<T> one = Mat<T>::Constant(b, width, T(1));
    for (Index start = 0; start < n; start += b) {
        const Mat<T> q = Q.middleRows(start, b), k = K.middleRows(start, b), v = V.middleRows(start, b),
                     kT = k.transpose();
        const Mat<T> A = lower<T>(times<T>(q, kT));  // 6
        Y.middleRows(start, b) =
            over<T>(plus<T>(times<T>(A, v), times<T>(q, C_KV)), plus<T>(times<T>(A, one), times<T>(q, C_K)));  // 8
        C_KV = plus<T>(times<T>(kT, v), C_KV);                                                                 // 10
        C_K = plus<T>(times<T>(kT, one), C_K);                                                                 // 11
    }
    return Y;
}

// Section 3.3 as printed, unnormalised, a block starting where G2 says: sums of the block from zero, the query with sum
// and carry apart.
template <class T>
Mat<T> outer_printed(const Mat<T>& Q, const Mat<T>& K, const Mat<T>& V, Index b) {
    const Index n = Q.rows();
    Mat<T> carry = zeros<T>(Q.cols(), V.cols()), O = zeros<T>(n, V.cols());
    for (Index start = 0; start < n; start += b) {
        Mat<T> sum = zeros<T>(Q.cols(), V.cols());
        for (Index i = start; i < std::min(n, start + b); ++i) {
            sum += product(K.row(i).transpose(), V.row(i));
            O.row(i) = product(Q.row(i), sum) + product(Q.row(i), carry);
        }
        carry += sum;
    }
    return O;
}

// The repaired form: V' = [V, 1], any b, dk, dv, ragged last block. Dense tiles.
template <class T>
Mat<T> repaired_1(const Mat<T>& Q, const Mat<T>& K, const Mat<T>& V, Index b) {
    const Index n = Q.rows(), dv = V.cols();
    const Mat<T> V1 = with_ones(V);
    Mat<T> C = zeros<T>(Q.cols(), dv + 1), Y = zeros<T>(n, dv);
    for (Index start = 0; start < n; start += b) {
        const Index c = std::min(b, n - start);
        const Mat<T> q = Q.middleRows(start, c), k = K.middleRows(start, c), v = V1.middleRows(start, c);
        const Mat<T> N =
            product(lower<T>(product(q, k.transpose()), faulty("G6: without the diagonal", 0, -1)), v) + product(q, C);
        for (Index t = 0; t < c; ++t)
            for (Index j = 0; j < dv; ++j) Y(start + t, j) = N(t, j) / N(t, dv);
        C += product(k.transpose(), v);
    }
    return Y;
}

Mat<Counted> ones(Index m, Index n) { return Mat<Counted>::Constant(m, n, Counted(1)); }

template <class F>
OperationCount count(F&& f) {
    counted = {};
    f();
    return std::exchange(counted, {});
}

template <class F>
OperationCount count_head(Index n, Index dk, Index dv, F&& f) {
    const std::vector<Counted> x(static_cast<std::size_t>(n * std::max(dk, dv)), Counted(1));
    std::vector<Counted> O(static_cast<std::size_t>(n * dv));
    const exact::Head<Counted> h{
        {x.data(), n, dk}, {x.data(), n, dk}, {x.data(), n, dv}, {O.data(), n, dv}, 1, nullptr};
    return count([&] { f(h); });
}

}  // namespace

TEST_CASE("G1: inner and outer products", "[proofs][tpu]") {
    Random random(201);
    const Index n = 90, dk = 5, dv = 4;
    const Matrix Q = rounded(random.positive(n, dk)), K = rounded(random.positive(n, dk)),
                 V = rounded(random.normal(n, dv));
    const Matrix A = lower<double>(product(Q, K.transpose())), want = product(A, with_ones(V)),
                 Pi = product(A, with_ones<double>(V.cwiseAbs()));
    const Matrix divided = normalised<double>(Q, K, V, Matrix::Ones(n, 1));
    for (const char* method : {"vanilla", "row-based"}) {
        CausalOptions o;
        o.method = method;
        const Matrix got = matrix(
            causal_linear_attention(tensor(Q, DType::f32), tensor(K, DType::f32), tensor(with_ones(V), DType::f32), o)
                .O);
        const std::string form = method == std::string("vanilla") ? "inner" : "outer";
        claim("G1", form + "-product form on [V, 1]: roundings of an entry (B7: n + dk)", "Float32, n = 90, dk = 5",
              ((got - want).cwiseAbs().array() / (u32 * Pi.array())).maxCoeff<Eigen::PropagateNaN>(),
              static_cast<double>(n + dk));
        o.normalize = true;
        const Matrix Y = matrix(causal_linear_attention(tensor(Q), tensor(K), tensor(V), o).O);
        claim("G1", form + "-product form, divided, against its definition", "Float64, the same", relative(Y, divided),
              1e-14);
        claim("G1", "positive features: outputs are means of values, max |y| / max |v|", form + "-product, the same",
              Y.cwiseAbs().maxCoeff() / V.cwiseAbs().maxCoeff(), 1);
    }
    Matrix k(2, 1);
    k << 1, -1;
    const Matrix q = Matrix::Ones(2, 1), v = Matrix::Identity(2, 2).leftCols(1),
                 D = lower<double>(product(q, k.transpose())).rowwise().sum();
    published_fails("G1", "denominators that vanish", "q = (1, 1), k = (1, -1)",
                    static_cast<double>((D.array() == 0).count()), 1);
    const bool finite = std::isfinite(normalised<double>(q, k, v, Matrix::Ones(2, 1))(1, 0));
    published_fails("G1", "outputs that are not finite, v = (1, 0)", "q = (1, 1), k = (1, -1)", finite ? 0 : 1, 1);

    for (const Index m : {Index{7}, Index{40}}) {
        const std::string input = "n = " + std::to_string(m) + ", dk = 5, dv = 4";
        exactly("G1", "inner product: n(n+1)/2 (dk+dv) multiplies", input,
                count_head(m, dk, dv, [](auto& h) { exact::definition(h); }).multiplies,
                m * (m + faulty("G1: n²/2", Index{1}, Index{0})) / 2 * (dk + dv));
        exactly("G1", "outer product: 2n dk dv multiplies", input,
                count_head(m, dk, dv, [](auto& h) { exact::row_based(h); }).multiplies, 2 * m * dk * dv);
    }
}

TEST_CASE("G2: where a block starts", "[proofs][tpu]") {
    Random random(202);
    const Index n = 16, b = 4;
    const Matrix Q = random.positive(n, 3), K = random.positive(n, 3), V = with_ones<double>(random.normal(n, 2));
    const Matrix want = product(lower<double>(product(Q, K.transpose())), V);
    Matrix printed = want, repaired = want, C = zeros<double>(3, 3);
    int wrong = 0, wrong_repaired = 0;
    Index start = 0;
    for (Index i = 0; i < n; ++i) {
        if (i == start + b) start = i;
        wrong += i / b != start;
        wrong_repaired += b * (i / b) != start;
        if (i % b == 0 && i > 0)
            for (Index j = i - b; j < i; ++j) C += product(K.row(j).transpose(), V.row(j));
        printed.row(i) = row_from(Q, K, V, i, i / b, C);
        repaired.row(i) = row_from(Q, K, V, i, b * (i / b) + faulty("G2: one later", Index{0}, Index{1}), C);
    }
    published_fails("G2", "indices i for which floordiv(i, b) is not the start of the block", "i = 0 .. 15, b = 4",
                    wrong, 12);
    exactly("G2", "for which b floordiv(i, b) is not", "i = 0 .. 15, b = 4", wrong_repaired, 0);
    published_fails("G2", "sums from floordiv(i, b) on: tokens of earlier blocks count twice", "n = 16, b = 4",
                    relative(printed, want), 0.1);
    claim("G2", "sums from b floordiv(i, b) on", "n = 16, b = 4", relative(repaired, want), 1e-14);
}

TEST_CASE("G3: memory of prefixes and of carries", "[proofs][tpu]") {
    const Index n = 48, dk = 6, dv = 5;
    Random random(203);
    const Matrix Q = random.positive(n, dk), K = random.positive(n, dk), V = random.normal(n, dv);
    // Scalars held at the peak, by the counting allocator.
    const auto peak = [](auto&& f) {
        memory::reset_peak();
        const auto before = memory::current();
        f();
        return static_cast<std::int64_t>((memory::peak() - before) / sizeof(double));
    };
    // The library's definitions of Sections 3.2 and 3.3 on [V, 1]: dk × (dv + 1) sums, c_kv and c_k as one.
    Matrix O(n, dv + 1);
    const auto on = [&](const Matrix& values, auto&& f) {
        const Index d = values.cols();
        const kit::Matrix<double> q = Q, k = K, v = values;  // by rows, as the library's are
        kit::Matrix<double> out = kit::Matrix<double>::Zero(n, d);
        const exact::Head<double> head{
            {q.data(), n, dk}, {k.data(), n, dk}, {v.data(), n, d}, {out.data(), n, d}, 1, nullptr};
        const auto held = peak([&] { f(head); });
        O = out;
        return held;
    };
    const auto divided = [&] { return Matrix(O.leftCols(dv).array().colwise() / O.col(dv).array()); };
    const Matrix V1 = with_ones(V), want = normalised<double>(Q, K, V, Matrix::Ones(n, 1));
    const Matrix A = lower<double>(product(Q, K.transpose())), sums = product(A, V1),
                 Pi = product(A, with_ones<double>(V.cwiseAbs()));
    exactly("G3", "all prefixes: n dk dv + n dk scalars", "n = 48, dk = 6, dv = 5",
            on(V1, [](auto& h) { exact::outer_product(h); }), n * dk * dv + n * dk);
    claim("G3", "all prefixes, divided, against the definition", "the same", relative(divided(), want), 1e-14);
    LinearOptions F4;
    F4.chunk = 16;
    const Matrix chunkwise = matrix(linear_attention(tensor(Q), tensor(K), tensor(V1), F4).O);
    for (const Index b : {1, 8, 10, 48}) {
        const auto input = sentence("n = 48, dk = 6, dv = 5, b = ", b);
        const auto held = on(V1, [&](auto& h) { exact::outer_product_blockwise(h, b); });
        exactly("G3", "blocks: carries of dk dv + dk scalars, and b times as many within a block", input, held,
                (b + faulty("G3: without the carry", Index{1}, Index{0})) * (dk * dv + dk));
        claim("G3", "blocks, divided, against the definition", input, relative(divided(), want), 1e-14);
        claim("G3", "blocks against F4 (chunkwise, C = 16): in units of the two budgets of B7", input,
              ((O - chunkwise).cwiseAbs().array() / (0x1p-53 * Pi.array())).maxCoeff<Eigen::PropagateNaN>() /
                  static_cast<double>(n + dk + 16 + n / 16 + dk + 1),
              1);
        claim("G3", "sums of a block from zero, sum and carry apart, as printed", input,
              relative<double>(outer_printed<double>(Q, K, V1, b), sums), 1e-14);
        const auto X = ones(n, dk), Y = ones(n, dv);
        const auto printed = count([&] { outer_printed<Counted>(X, X, Y, b); }).multiplies,
                   library = count_head(n, dk, dv, [&](auto&h) { exact::outer_product_blockwise(h, b); }).multiplies;
        exactly("G3", "multiplies on top of the carry: 2n dk dv", input, library, 2 * n * dk * dv);
        exactly("G3", "multiplies as printed: n dk dv more", input, printed, 3 * n * dk * dv);
    }
    claim("G3", "and what the hybrid of Algorithm 1 computes", "b = 8", relative(repaired_1<double>(Q, K, V, 8), want),
          1e-14);
}

TEST_CASE("G4: outer products on a matrix unit", "[proofs][tpu]") {
    for (Index m : {4, 8, 32}) {
        // One column of the left and one row of the right factor are used; the unit multiplies all of both.
        Mat<Counted> left = zeros<Counted>(m, m), right = left;
        left.col(0) = ones(m, 1), right.row(0) = ones(1, m);
        const auto padded = count([&] { product(left, right); }).multiplies,
                   useful = count([&] { product(left.col(0), right.row(0)); }).multiplies;
        exactly("G4", "multiplies of the unit over those of k vᵀ: m", "m = " + std::to_string(m), padded,
                faulty("G4: √m", m, static_cast<Index>(std::sqrt(m))) * useful, note);
    }
}

TEST_CASE("G5, G6: Algorithm 1 of tpu", "[proofs][tpu]") {
    Random random(205);
    const Index d = 4;
    for (Index blocks : {1, 3, 5}) {
        const Matrix Q = random.positive(blocks * d, d), K = random.positive(blocks * d, d),
                     V = random.normal(blocks * d, d);
        const std::string input = "b = d = 4, n = " + std::to_string(blocks * d);
        claim("G6", "Algorithm 1 with V read as the block V_ib", input,
              relative(algorithm_1<double>(Q, K, V, d, d), normalised<double>(Q, K, V, Matrix::Ones(blocks * d, 1))),
              1e-14);
        const auto X = ones(blocks * d, d);
        exactly("G6", "its multiplies: 7 d³ a block", input,
                count([&] { algorithm_1<Counted>(X, X, X, d, d); }).multiplies, 7 * d * d * d * blocks);
    }
    double most = 0;
    for (Index n : {1, 3, 4, 7, 13})
        for (Index b : {1, 2, 4, 5, 16}) {
            const Matrix Q = random.positive(n, 5), K = random.positive(n, 5), V = random.normal(n, 3);
            most =
                worst(most, relative(repaired_1<double>(Q, K, V, b), normalised<double>(Q, K, V, Matrix::Ones(n, 1))));
        }
    claim("G6", "with V' = [V, 1]: any b and length", "n = 1, 3, 4, 7, 13, b = 1, 2, 4, 5, 16, dk = 5, dv = 3", most,
          1e-14);
    const Matrix q = random.positive(12, 5), k = random.positive(12, 5), v = random.normal(12, 3);
    claim("G6", "with 1 of b × d_v for b × b: any b that divides n", "n = 12, b = 4, dk = 5, dv = 3",
          relative(algorithm_1<double>(q, k, v, 4, 3), normalised<double>(q, k, v, Matrix::Ones(12, 1))), 1e-14);
    // Lines 6 to 11 with the printed 1 of b × b, for which 3.4 sets b = d, and with 1 of b × d_v: where they do not
    // conform.
    const Stopped at = stopped(
        [](Index b, Index dv, Index width) { algorithm_1<Counted>(ones(12, 5), ones(12, 5), ones(12, dv), b, width); });
    exactly("G6", "1 of b × b: pairs b = dv of 5 for which a line does not conform",
            "n = 12, b and dv of 1, 2, 3, 4, 6", at.square, 0, note);
    exactly("G6", "1 of b × dv: pairs of 25 for which a line does not conform", "the same", at.repaired, 0, note);
    for (const auto& [n, b, dk, dv] : {std::array<Index, 4>{12, 4, 5, 3}, {13, 5, 5, 3}, {12, 4, 4, 4}}) {
        const Index s = n - (n - 1) / b * b, dense = (n - 1) / b * b * b + s * s;
        const auto Q = ones(n, dk), V = ones(n, dv);
        const auto input = sentence("n = ", n, ", b = ", b, ", dk = ", dk, ", dv = ", dv);
        exactly("G6", "its multiplies: q'(dk+dv+1) + 2n dk(dv+1)", input,
                count([&, bb = b] { repaired_1<Counted>(Q, Q, V, bb); }).multiplies,
                dense * (dk + dv + 1) + 2 * n * dk * (dv + 1));
    }

    // Without the division: scalar work 4nd² with b = d, in n/d dependent steps of four d × d products.
    const auto hybrid = [](Index n, Index width) {
        return count([&] {
                   Mat<Counted> C = zeros<Counted>(width, width);
                   const auto X = ones(width, width);
                   for (Index start = 0; start < n; start += width) {
                       product(lower<Counted>(product(X, X)), X), product(X, C);
                       C += product(X, X);
                   }
               })
            .multiplies;
    };
    for (Index n : {16, 32, 64})
        exactly("G5", "scalar multiplies, b = d: 4nd², not O(n/d)", "d = 8, n = " + std::to_string(n), hybrid(n, 8),
                faulty("G5: three products", 4, 3) * n * 64, note);
    int wrong = 0, wrong_triangle = 0;
    for (Index width : {2, 4})
        for (Index n = width; n <= 6 * width; n += width) {
            const auto X = ones(n, width);
            const auto inner_form = count([&] { product(lower<Counted>(product(X, X.transpose())), X); }).multiplies,
                       triangle = count_head(n, width, width, [](auto&h) { exact::definition(h); }).multiplies;
            wrong += inner_form != 2 * n * n * width ||
                     (hybrid(n, width) < inner_form) != (n > faulty("G11: n > d", 2, 1) * width);
            wrong_triangle += triangle != n * (n + 1) * width || (hybrid(n, width) < triangle) != (n + 1 > 4 * width);
        }
    exactly("G11", "hybrid 4nd² below the inner product up to the diagonal, n(n+1)d, iff n + 1 > 4d; deviations",
            "d = 2, 4, n = d .. 6d", wrong_triangle, 0);
    exactly("G11", "hybrid 4nd² below the dense inner product 2n²d iff n > 2d; deviations", "d = 2, 4, n = d .. 6d",
            wrong, 0);
}
