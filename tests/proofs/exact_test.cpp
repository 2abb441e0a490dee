// Checks of proofs/exact.md: claims B1 to B10 (the latencies of B2 stand in tables_test.cpp).
#include <cstring>

#include "core/exact/block_based.hpp"
#include "core/exact/cost.hpp"
#include "core/exact/fleet.hpp"
#include "core/exact/recursion.hpp"
#include "core/exact/row_based.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/causal.hpp"
#include "tests/proofs/claims.hpp"

using namespace causeway;
using namespace causeway::proofs;
using exact::Work;

namespace {

// Tiles of blocks of b: T of them, the last of s tokens.
struct Tiles {
    Index b, T, s, q, dense;
    Tiles(Index N, Index block) : b(std::min(block, N)), T(ceil_div(N, b)), s(N - (T - 1) * b), q((T - 1) * tau(b) + tau(s)),
        dense((T - 1) * b * b + s * s) {}
};

// Sums over the nodes that recursion halves, and of τ over its leaves.
Index nodes(Index n, Index t) { return n <= t ? 0 : n + nodes(n / 2, t) + nodes(n - n / 2, t); }
Index leaf_tiles(Index n, Index t) { return n <= t ? tau(n) : leaf_tiles(n / 2, t) + leaf_tiles(n - n / 2, t); }

double real(Index n) { return static_cast<double>(n); }

// The table of B1: multiplies and adds without decay, extra memory. Widths as given, N >= 1.
exact::Cost table(const std::string& method, const Work& w) {
    const Index N = w.N, r = w.r, d = w.d, rd = r * d;
    const Tiles k(N, w.block > 0 ? w.block : N);
    const auto macs = [](Index n, Index memory) { return exact::Cost{{n, n, 0, 0}, memory}; };
    const Index blocks = k.q * (r + d) + (k.T > 1 ? (2 * N - k.b - k.s) * rd : 0);
    if (method == "vanilla") return {{N * N * (r + d) + N * N, N * N * (r + d), 0, 0}, N * N};
    if (method == "inner-product") return macs(tau(N) * (r + d), N);
    if (method == "row-based" || method == "causal-dot-product") return macs(2 * N * rd, rd);
    if (method == "block-based") return macs(blocks, rd + k.b * k.b);
    if (method == "lightning-attention-2") return macs(blocks, rd + k.b);
    if (method == "recursion") return macs(rd * nodes(N, k.b) + (r + d) * leaf_tiles(N, k.b), rd + k.b * k.b);
    if (method == "fleet-untiled") return macs(2 * N * rd, d);
    if (method == "fleet") return {{2 * N * rd, (3 * N - k.T) * rd, 0, 0}, rd + k.b * d};
    if (method == "outer-product") return macs(2 * N * rd, N * rd);
    if (method == "hybrid") return {{k.dense * (r + d) + 2 * N * rd + k.dense, k.dense * (r + d) + 2 * N * rd, 0, 0}, rd + k.b * k.b};
    fail("no line of the table for ", method);
}

// Extra multiplies of decay, at most.
Index decay_at_most(const std::string& method, const Work& w) {
    const Index N = w.N, r = w.r, d = w.d;
    const Tiles k(N, w.block > 0 ? w.block : N);
    if (method == "vanilla") return 0;  // the mask multiplies are there already
    if (method == "inner-product") return tau(N);
    if (method == "row-based" || method == "causal-dot-product" || method == "fleet-untiled" || method == "outer-product") return N * r * d;
    if (method == "block-based") return k.q + 2 * N * r + k.T * r * d;
    if (method == "lightning-attention-2") return k.q + N * (r + d) + k.T * r * d;
    if (method == "recursion") return r * nodes(N, k.b) + leaf_tiles(N, k.b);
    if (method == "fleet") return (2 * N - k.T) * r * d;
    return 2 * N * r + k.T * r * d;
}

const std::array<const char*, 11> all_methods{"vanilla", "inner-product", "row-based", "causal-dot-product", "block-based", "lightning-attention-2",
                                              "recursion", "fleet-untiled", "fleet", "outer-product", "hybrid"};

}  // namespace

TEST_CASE("B1: operations and memory of every method", "[proofs][exact-methods]") {
    for (const std::string method : all_methods) {
        const bool blocks = exact::method(method).block > 0;
        Index operations = 0, extra_memory = 0, decays = 0, normalised = 0, closed = 0, cases = 0;
        for (const auto& [r, d] : {std::pair<Index, Index>{3, 2}, {1, 4}, {5, 5}})
            for (Index N : {1, 2, 7, 23, 24})  // with b = 8: N = bT - 1, N = bT; b = 1, b = N and b > N
                for (Index b : blocks ? std::vector<Index>{1, 5, 8, N, N + 3} : std::vector<Index>{0}) {
                    ++cases;
                    const Work w{N, r, d, b, false, false}, decaying{N, r, d, b, true, false}, divided{N, r, d, b, false, true},
                        wider{N, r, d + 1, b, false, false};
                    const auto got = measured(method, w), line = table(method, w);
                    operations += !(got.operations == line.operations);
                    extra_memory += got.memory != line.memory;
                    const auto with_decay = measured(method, decaying).operations;
                    decays += with_decay.adds != line.operations.adds
                        || with_decay.multiplies - line.operations.multiplies > decay_at_most(method, w);
                    auto want = table(method, wider).operations;
                    want.divisions = N * d;
                    normalised += !(measured(method, divided).operations == want);
                    closed += !(exact::cost(exact::method(method), decaying).operations == with_decay)
                        || exact::cost(exact::method(method), w).memory != got.memory;
                }
        const std::string input = std::to_string(cases) + " sizes N, r, d, b, ragged and b > N among them";
        exactly("B1", method + ": multiplies and adds against the table; deviations", input, operations, 0);
        exactly("B1", method + ": extra memory against the table; deviations", input, extra_memory, 0);
        exactly("B1", method + ": decay adds no more multiplies than said; deviations", input, decays, 0);
        exactly("B1", method + ": normalised is width d + 1 and Nd divisions; deviations", input, normalised, 0);
        exactly("B1", method + ": the library's closed forms, with decay; deviations", input, closed, 0);
    }
    exactly("B1", "block-based, b = 1: N(r+d) + 2(N-1)rd, not 2Nrd", "N = 20, r = 3, d = 2",
          measured("block-based", {20, 3, 2, 1}).operations.adds, 20 * 5 + 2 * 19 * 6);
    exactly("B1", "decay, row-based and untiled FleetAttention: Nrd multiplies more", "N = 20, r = 3, d = 2",
            measured("row-based", {20, 3, 2, 0, true}).operations.multiplies + measured("fleet-untiled",
                {20, 3, 2, 0, true}).operations.multiplies, 2 * 3 * 20 * 6);
    const Causal x = normal_problem(20, 3, 2, 401);
    const auto bidirectional = [&](auto scalar) {
        using T = decltype(scalar);
        return product(x.B.cast<T>(), product(x.C.transpose().cast<T>(), x.V.cast<T>()));
    };
    exactly("B1", "bidirectional B(CᵀV): 2Nrd", "N = 20, r = 3, d = 2", count([&] { bidirectional(Counted()); }).multiplies, 2 * 20 * 6);
}

TEST_CASE("B2, B3: linear for a fixed block", "[proofs][exact-methods]") {
    const Index r = 3, d = 2, b = 16;
    const auto macs = [&](Index N, Index block) { return measured("lightning-attention-2", {N, r, d, block}).operations.adds; };
    for (Index N : {64, 256})
        exactly("B2", "N(b+1)(r+d)/2 + 2(N-b)rd multiply-adds", sentence("b = 16, N = ", N), macs(N, b),
              N * (b + 1) * (r + d) / 2 + 2 * (N - b) * r * d);
    claim("B2", "count(2N)/count(N) - 2 - 2b rd/count(N)", "N = 512, b = 16",
          std::abs(real(macs(1024, b)) / real(macs(512, b)) - 2 - 2.0 * real(b * r * d) / real(macs(512, b))), 1e-14);
    claim("B2", "count(2N)/count(N), fixed block", "N = 512, b = 16", real(macs(1024, b)) / real(macs(512, b)), 2.03);
    published_fails("B2", "O(N²) of 000 Table 1 needs a ratio near 4, which only b = N gives", "N = 256, b = N",
          real(macs(512, 512)) / real(macs(256, 256)), 3.9);
    exactly("B2", "extra memory rd + b, whatever N", "b = 16, N = 4096",
          exact::cost(exact::method("lightning-attention-2"), {4096, r, d, b}).memory, r * d + b);

    double most = 0, tile = INFINITY;
    for (Index width : {8, 32, 128}) {
        const auto dear = exact::cost(exact::method("block-based"), {8 * width, 1, width, width}).operations.adds;
        tile = std::min(tile, real(dear) / real(8 * width * width) / (real(width) / 2));
    }
    published_fails("B3", "b = d is not O(Nrd) for r = 1: count/(Nd) over d/2", "d = 8, 32, 128, N = 8d", tile, 1);
    for (Index width_r : {1, 3, 16, 64})
        for (Index width_d : {1, 3, 16, 64})
            for (Index N : {64, 100, 1000})
                most = worst(most, real(exact::cost(exact::method("block-based"),
                    {N, width_r, width_d, std::min(width_r, width_d)}).operations.adds) / real(4 * N * width_r * width_d));
    claim("B3", "b = min(r, d): count / 4Nrd", "r, d = 1, 3, 16, 64, N = 64, 100, 1000", most, 1);
    claim("B3", "space: tile b² over Nd for b <= min(N, d)", "the same", [] {
        double space = 0;
        for (Index N : {1, 16, 100})
            for (Index width : {1, 16, 64}) space = worst(space, real(std::min(N, width) * std::min(N, width)) / real(N * width));
        return space;
    }(), 1);
}

TEST_CASE("B4: the block equations", "[proofs][exact-methods]") {
    // Equation (12) of 000 with the inner sum up to block i - 1 + extra.
    const auto blocks = [](const Causal& x, Index b, Index extra) {
        Matrix P = zeros<double>(x.N(), x.d());
        for (Index i = 0; i < x.N() / b; ++i) {
            const auto part = [&](const Matrix& A, Index j) -> Matrix { return A.middleRows(j * b, b); };
            Matrix U = zeros<double>(x.r(), x.d());
            for (Index j = 0; j < i + extra; ++j) U += product(part(x.C, j).transpose(), part(x.V, j));
            P.middleRows(i * b, b) = product(lower<double>(product(part(x.B, i), part(x.C, i).transpose())), part(x.V, i)) + product(part(x.B, i), U);
        }
        return P;
    };
    const Index b = 4;
    const Matrix ones = Matrix::Ones(2 * b, 1);
    const Causal x{ones, ones, ones};
    exactly("B4", "(12) of 000, (11) of 001 as printed: last output is b + 2b", "N = 2b = 8, all ones, r = d = 1",
          std::lround(blocks(x, b, 1)(2 * b - 1, 0)), 3 * b);
    published_fails("B4", "(12), (11) as printed, sum to i: relative error", "N = 2b = 8, all ones", relative(blocks(x, b, 1), definition(x)), 0.1);
    claim("B4", "sum to i - 1: error", "N = 2b = 8, all ones", relative(blocks(x, b, 0), definition(x)), 0);
    const Causal y = normal_problem(24, 3, 2, 402);
    published_fails("B4", "(12), (11) as printed, sum to i: relative error", "normal, N = 24, b = 4", relative(blocks(y, b, 1), definition(y)), 0.1);
    claim("B4", "sum to i - 1: relative error", "normal, N = 24, b = 4", relative(blocks(y, b, 0), definition(y)), 1e-14);
    // Shapes. (16) of 000: C_[i]ᵀ is r × b, 1_N has N rows. 001: U = Σ C_[j]ᵀ V_[j] is r × d.
    published_fails("B4", "(16), Alg 3 line 9 of 000, C_[i]ᵀ 1_N: rows of 1_N beyond the b that conform", "N = 24, b = 4", real(y.N() - b), 1);
    const Matrix U = product(y.C.topRows(b).transpose(), y.V.topRows(b));
    published_fails("B4", "U in R^{d×d} of 001: rows beyond d", "r = 3, d = 2", real(U.rows() - y.d()), 1);
    // With 1_b the normaliser is the method on V = 1.
    const Causal z{y.B.cwiseAbs(), y.C.cwiseAbs(), Matrix::Ones(24, 1)};
    claim("B4", "(15), (16) with 1_b: normaliser against (M ⊙ BCᵀ)1", "N = 24, b = 4", relative(blocks(z, b, 0), definition(z)), 1e-14);
}

TEST_CASE("B5, B6, B10: row-based and unmasked counts, and what must be read", "[proofs][exact-methods]") {
    const Causal x = normal_problem(40, 3, 2, 403);
    claim("B5", "row-based against the definition", "normal, N = 40, r = 3, d = 2", relative(library(x, "row-based"), definition(x)), 1e-14);
    int wrong = 0;
    for (Index N = 2; N <= 40; ++N)
        wrong += measured("row-based", {N, 3, 2}).operations.adds - measured("row-based", {N - 1, 3, 2}).operations.adds != 2 * 3 * 2;
    exactly("B5", "every token takes rd to update U and rd to read it; deviations", "token 2 .. 40, r = 3, d = 2", wrong, 0);

    // Equation (4): numerator, normaliser, division.
    const Index N = 12, r = 3, d = 2;
    const Mat<Counted> B = Mat<Counted>::Constant(N, r, Counted(1)), V = Mat<Counted>::Constant(N, d, Counted(1)),
        one = Mat<Counted>::Constant(N, 1, Counted(1));
    const auto four = count([&] {
        Mat<Counted> O = product(B, product(B.transpose(), V)), D = product(B, product(B.transpose(), one));
        for (Index i = 0; i < N; ++i)
            for (Index j = 0; j < d; ++j) O(i, j) /= D(i, 0);
    });
    exactly("B6", "(4) of 000: 2Nrd + 2Nr multiply-adds", "N = 12, r = 3, d = 2", four.adds, 2 * N * r * d + 2 * N * r);
    exactly("B6", "(4) of 000: Nd divisions", "N = 12, r = 3, d = 2", four.divisions, N * d);
    exactly("B6", "(5) of 000 directly: N²(r+d) multiply-adds", "N = 12, r = 3, d = 2", measured("vanilla", {N, r, d}).operations.adds,
          N * N * (r + d));
    exactly("B6", "(5) of 000 directly: N² memory", "N = 12, r = 3, d = 2", measured("vanilla", {N, r, d}).memory, N * N);
    const auto softmax = count([&] {
        Mat<Counted> A = product(V, V.transpose());
        for (Index k = 0; k < A.size(); ++k) A.data()[k] = exp(A.data()[k]);
        product(A, V);
    });
    exactly("B6", "(1): 2N²d multiplies", "N = 12, d = 2", softmax.multiplies, 2 * N * N * d);
    exactly("B6", "(1): N² exponentials", "N = 12, d = 2", softmax.exponentials, N * N);
    wrong = 0;
    for (Index rank : {1, 2, 5, 8})
        for (Index width : {1, 2, 5, 8})
            for (Index n = 1; n <= 40; ++n) {
                const auto triangular = exact::cost(exact::method("inner-product"), {n, rank, width}).operations.adds,
                    row = exact::cost(exact::method("row-based"), {n, rank, width}).operations.adds;
                wrong += (triangular < row) != ((n + 1) * (rank + width) < 4 * rank * width);
            }
    exactly("B6", "triangular vanilla below row-based iff N + 1 < 4rd/(r+d); deviations", "r, d = 1, 2, 5, 8, N = 1 .. 40", wrong, 0);

    // B10: each of the N(2r+d) inputs moves P.
    const Causal y = normal_problem(6, 3, 2, 404);
    const Matrix P = definition(y);
    Index idle = 0, inputs = 0;
    for (int which = 0; which < 3; ++which) {
        Causal z = y;
        Matrix& A = which == 0 ? z.B : which == 1 ? z.C : z.V;
        for (Index k = 0; k < A.size(); ++k, ++inputs) {
            const double at = A.data()[k];
            A.data()[k] += 1;
            idle += (definition(z) - P).cwiseAbs().maxCoeff() < 1e-6;
            A.data()[k] = at;
        }
    }
    exactly("B10", "inputs that move P: all N(2r+d)", "normal, N = 6, r = 3, d = 2", inputs - idle, 6 * 8);
    exactly("B10", "upper bound: 2Nrd multiply-adds", "N = 6, r = 3, d = 2", measured("row-based", {6, 3, 2}).operations.adds, 2 * 6 * 6);
}

TEST_CASE("B7, B9: the methods agree within their roundings", "[proofs][exact-methods]") {
    struct Line {
        std::string method;
        Index block;
    };
    const auto budget = [](const Line& m, Index N, Index r) {
        const Index b = std::min(m.block, N), blocks = b > 0 ? b + ceil_div(N, b) + r + 1 : 0;
        if (m.method == "recursion") {
            Index depth = 0;
            while (ceil_div(N, Index{1} << depth) > m.block) ++depth;
            return N > m.block ? std::max(ceil_div(N, 2) + depth + r + 1, b + r) : N + r;
        }
        return b > 0 ? blocks : N + r;
    };
    struct Known {
        Causal x;
        Matrix want, Pi;
    };
    std::vector<Known> problems;
    for (Index N : {1, 2, 3, 31, 32, 33, 100, 400})
        for (const auto& [r, d] : {std::pair<Index, Index>{1, 3}, {3, 1}, {16, 3}}) {
            const Causal x = normal_problem(N, r, d, static_cast<unsigned>(410 + N));
            problems.push_back({x, definition(x), absolute(x)});
        }
    const Causal general = normal_problem(100, 3, 2, 411);
    for (const Line& m : {Line{"vanilla", 0}, {"inner-product", 0}, {"row-based", 0}, {"causal-dot-product", 0}, {"fleet-untiled", 0},
        {"outer-product", 0}, {"block-based", 32},
                          {"lightning-attention-2", 32}, {"fleet", 32}, {"hybrid", 32}, {"recursion", 32}}) {
        double most = 0;
        for (const auto& [x, want, Pi] : problems)
            most = worst(most, roundings(library(x, m.method, m.block, 1, DType::f32), want, Pi, u32) / real(budget(m, x.N(), x.r())));
        claim("B7", m.method + ": error of an entry in units of its budget", "Float32, signed normal, N = 1 .. 400, r = 1, 3, 16", most, 1);
        claim("B9", m.method + " on general, signed B and C", "Float64, N = 100, r = 3, d = 2",
              relative(library(general, m.method, m.block), definition(general)), 1e-13);
    }
    // Roundings that agree in sign: the growth with N is real.
    const Index N = 4096, r = 4;
    const Matrix tenth = rounded(Matrix::Constant(N, r, 0.1));
    const Causal x{tenth, tenth, tenth.leftCols(1)};
    Matrix want(N, 1);
    for (Index i = 0; i < N; ++i) want(i, 0) = real(i + 1) * real(r) * std::pow(tenth(0, 0), 3);
    using F = Unfused<float>;
    const double row = roundings(on_head<F>(x, 1, [](auto& h) { exact::row_based(h); }), want, want, u32);
    claim("B7", "worst case, row by row: roundings of an entry (N + r)", "Float32, all 0.1, N = 4096, r = 4", row, real(N + r));
    published_fails("B7", "and they are many", "the same", row, 300);
    // Blocks: the sum CᵀV of a block is had before it is added to the carry, or else the carry meets N roundings again.
    const auto blocks = [&](bool summed_first) {
        const Index b = 64;
        const F c = static_cast<float>(tenth(0, 0));
        F U = 0;  // all entries of the state are equal
        Matrix P(N, 1);
        for (Index start = 0; start < N; start += b) {
            F score = 0, tile = 0, inter = 0, sum = 0;
            for (Index k = 0; k < r; ++k) score += c * c, inter += c * U;
            for (Index p = 0; p < b; ++p) {
                tile += score * c;
                P(start + p, 0) = static_cast<double>((tile + inter).value);
                (summed_first ? sum : U) += c * c;
            }
            U += sum;
        }
        return roundings(P, want, want, u32);
    };
    const double block = blocks(true), library_block = roundings(library({tenth, tenth, tenth.leftCols(1)}, "block-based", 64, 1, DType::f32),
        want, want, u32);
    claim("B7", "worst case, blocks of 64: roundings (b + ⌈N/b⌉ + r + 1)", "the same", block, 64 + 64 + 4 + 1);
    claim("B7", "that is 14.5, off by", "the same", std::abs(block - 14.5), 0.5);
    claim("B7", "worst case, the library in blocks of 64", "the same", library_block, 64 + 64 + 4 + 1);
    claim("B7", "blocks of √N against rows: share of the error", "the same", block / row, 0.05);
    published_fails("B7", "a block's tokens added to the carry one by one: roundings over that budget", "the same", blocks(false) / 133, 1);
}

TEST_CASE("B8: FleetAttention and row-based are one computation", "[proofs][exact-methods]") {
    const auto bits = [](auto scalar, double g) {
        using T = Unfused<decltype(scalar)>;
        Index differ = 0;
        for (Index N : {1, 33, 200}) {
            const Causal x = normal_problem(N, 5, 3, static_cast<unsigned>(420 + N));
            const Matrix fleet = on_head<T>(x, g, [](auto& h) { exact::fleet_untiled(h); }),
                row = on_head<T>(x, g, [](auto& h) { exact::row_based(h); });
            for (Index k = 0; k < row.size(); ++k) differ += std::memcmp(&fleet.data()[k], &row.data()[k], sizeof(double)) != 0;
        }
        return differ;
    };
    exactly("B8", "entries whose bits differ", "Float32, no fused operations, N = 1, 33, 200, r = 5, d = 3", bits(0.0f, 1), 0);
    exactly("B8", "entries whose bits differ", "Float64, no fused operations, N = 1, 33, 200, r = 5, d = 3", bits(0.0, 1), 0);
    exactly("B8", "entries whose bits differ, decay 0.9", "Float32, no fused operations, N = 1, 33, 200, r = 5, d = 3", bits(0.0f, 0.9), 0);
    const Causal x = normal_problem(200, 5, 3, 421);
    const Matrix row = on_head<Unfused<float>>(x, 1, [](auto& h) { exact::row_based(h); }),
        block = on_head<Unfused<float>>(x, 1, [](auto& h) { exact::block_based(h, 16); });
    published_fails("B8", "not so block-based: entries whose bits differ", "Float32, N = 200, b = 16",
          static_cast<double>((row.array() != block.array()).count()), 100);
}
