// Checks of proofs/exact.md: claims B1 to B10 (the latencies of B2 stand in tables_test.cpp).
#include <cstring>

#include "core/exact/block_based.hpp"
#include "core/exact/cost.hpp"
#include "core/exact/fleet.hpp"
#include "core/exact/lightning.hpp"
#include "core/exact/recursion.hpp"
#include "core/exact/row_based.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/causal.hpp"
#include "tests/proofs/claims.hpp"
#include "tests/proofs/methods.hpp"
#include "tests/threads.hpp"

using namespace causeway;
using namespace causeway::proofs;
using exact::Work;

namespace {

// Tiles of blocks of b: T of them, the last of s tokens.
struct Tiles {
    Index b, T, s, q, dense;
    Tiles(Index N, Index block)
        : b(std::min(block, N)),
          T(ceil_div(N, b)),
          s(N - (T - 1) * b),
          q((T - 1) * tau(b) + tau(s)),
          dense((T - 1) * b * b + s * s) {}
};

// Sums over the nodes that recursion halves, and of τ over its leaves.
Index nodes(Index n, Index t) { return n <= t ? 0 : n + nodes(n / 2, t) + nodes(n - n / 2, t); }
Index leaf_tiles(Index n, Index t) { return n <= t ? tau(n) : leaf_tiles(n / 2, t) + leaf_tiles(n - n / 2, t); }

// The table of B1: multiplies and adds without decay, extra memory. Widths as given, N >= 1. A method that the table
// does not list is held to its own closed form.
exact::Cost table(const std::string& method, const Work& w) {
    const Index N = w.N, r = w.r, d = w.d, rd = r * d;
    const Tiles k(N, w.block > 0 ? w.block : N);
    const auto macs = [](Index n, Index memory) { return exact::Cost{{n, n, 0, 0}, memory}; };
    const Index saved = faulty("B1: blocks without what the first and the last save", k.b + k.s, Index{0});
    const Index blocks = k.q * (r + d) + (k.T > 1 ? (2 * N - saved) * rd : 0);
    if (method == "vanilla") return {{N * N * (r + d) + N * N, N * N * (r + d), 0, 0}, N * N};
    if (method == "inner-product") return macs(tau(N) * (r + d), N);
    if (method == "row-based" || method == "causal-dot-product") return macs(2 * N * rd, rd);
    if (method == "block-based") return macs(blocks, rd + k.b * k.b);
    if (method == "lightning-attention-2") return macs(blocks, rd + k.b);
    if (method == "recursion") return macs(rd * nodes(N, k.b) + (r + d) * leaf_tiles(N, k.b), rd + k.b * k.b);
    if (method == "fleet-untiled") return macs(2 * N * rd, d);
    if (method == "fleet") return {{2 * N * rd, (3 * N - k.T) * rd, 0, 0}, rd + k.b * d};
    if (method == "outer-product") return macs(2 * N * rd, N * rd);
    if (method == "outer-product-blockwise") return macs(2 * N * rd, rd + k.b * rd);
    if (method == "hybrid")
        return {{k.dense * (r + d) + 2 * N * rd + k.dense, k.dense * (r + d) + 2 * N * rd, 0, 0}, rd + k.b * k.b};
    return exact::cost(exact::method(method), w);
}

// Multiplies that decay adds, likewise.
Index decay_multiplies(const std::string& method, const Work& w) {
    const Index N = w.N, r = w.r, d = w.d;
    const Tiles k(N, w.block > 0 ? w.block : N);
    const Index between = std::max<Index>(k.T - 2, 0) * r * d;  // γ^b U, of the blocks between the first and the last
    if (method == "vanilla") return 0;                          // the mask multiplies are there already
    if (method == "inner-product") return tau(N);
    if (method == "row-based" || method == "causal-dot-product" || method == "fleet-untiled" ||
        method.starts_with("outer-product"))
        return N * r * d;
    if (method == "block-based") return k.q + (k.T > 1 ? (2 * N - k.b - k.s) * r : 0) + between;
    if (method == "lightning-attention-2") return k.q + (k.T > 1 ? (N - k.b) * d + (N - k.s) * r : 0) + between;
    if (method == "recursion") return r * nodes(N, k.b) + leaf_tiles(N, k.b);
    if (method == "fleet") return (2 * N - k.T) * r * d;
    if (method == "hybrid") return 2 * N * r + k.T * r * d;
    const exact::Method& m = exact::method(method);
    return exact::cost(m, {N, r, d, w.block, true}).operations.multiplies - exact::cost(m, w).operations.multiplies;
}

}  // namespace

void proofs::costs_what_it_says(const exact::Method& m) {
    const std::string& method = m.name;
    const bool blocks = m.block > 0;
    Index operations = 0, extra_memory = 0, decays = 0, normalised = 0, closed = 0, cases = 0;
    for (const auto& [r, d] : {std::pair<Index, Index>{3, 2}, {1, 4}, {5, 5}})
        for (Index N : {1, 2, 7, 23, 24})  // with b = 8: N = bT - 1, N = bT; b = 1, b = N and b > N
            for (Index b : blocks ? std::vector<Index>{1, 5, 8, N, N + 3} : std::vector<Index>{0}) {
                ++cases;
                const Work w{N, r, d, b, false, false}, decaying{N, r, d, b, true, false},
                    divided{N, r, d, b, false, true}, wider{N, r, d + 1, b, false, false};
                const auto got = measured(method, w), line = table(method, w);
                operations += !(got.operations == line.operations);
                extra_memory += got.memory != line.memory;
                const auto decayed = measured(method, decaying);
                const auto with_decay = decayed.operations;
                decays += with_decay.adds != line.operations.adds ||
                          with_decay.multiplies - line.operations.multiplies != decay_multiplies(method, w);
                auto want = table(method, wider).operations;
                want.divisions = N * d;
                normalised += !(measured(method, divided).operations == want);
                closed += !(exact::cost(m, decaying).operations == with_decay) ||
                          exact::cost(m, w).memory != got.memory || exact::cost(m, decaying).memory != decayed.memory;
            }
    const std::string input = std::to_string(cases) + " sizes N, r, d, b, ragged and b > N among them";
    exactly("B1", method + ": multiplies and adds against the table; deviations", input, operations, 0);
    exactly("B1", method + ": extra memory against the table; deviations", input, extra_memory, 0);
    exactly("B1", method + ": the multiplies that decay adds; deviations", input, decays, 0);
    exactly("B1", method + ": normalised is width d + 1 and Nd divisions; deviations", input, normalised, 0);
    exactly("B1", method + ": the library's closed forms, with decay; deviations", input, closed, 0);
}

TEST_CASE("B1: operations and memory of every method", "[proofs][exact-methods]") {
    for (const exact::Method& m : exact::methods()) costs_what_it_says(m);
    exactly("B1", "block-based, b = 1: N(r+d) + 2(N-1)rd, not 2Nrd", "N = 20, r = 3, d = 2",
            measured("block-based", {20, 3, 2, 1}).operations.adds, 20 * 5 + 2 * 19 * 6);
    // What the claim allows decay in blocks: q + 2Nr + Trd. Lightning scales the d outputs of a row, not the r entries
    // of b.
    double block = 0, lightning = 0, narrow = 0;
    for (const auto& [r, d] : {std::pair<Index, Index>{1, 8}, {3, 2}, {8, 1}})
        for (Index N : {1, 7, 24, 40})
            for (Index b : {1, 5, 8, 40}) {
                const Tiles k(N, b);
                const auto more = [&, r = r, d = d](const char* method) {
                    return real(measured(method, {N, r, d, b, true}).operations.multiplies -
                                measured(method, {N, r, d, b}).operations.multiplies);
                };
                block = worst(block, more("block-based") / real(k.q + 2 * N * r + k.T * r * d));
                lightning = worst(lightning, more("lightning-attention-2") / real(k.q + N * (r + d) + k.T * r * d));
                narrow = worst(narrow, more("lightning-attention-2") / real(k.q + 2 * N * r + k.T * r * d));
            }
    const std::string sizes = "N = 1, 7, 24, 40, b = 1, 5, 8, 40, (r, d) = (1, 8), (3, 2), (8, 1)";
    claim("B1", "decay, block-based: multiplies over q + 2Nr + Trd", sizes, block, 1);
    claim("B1", "decay, lightning-attention-2: multiplies over q + N(r+d) + Trd", sizes, lightning, 1);
    published_fails("B1", "decay, lightning-attention-2: multiplies over q + 2Nr + Trd", sizes, narrow, 1);
    const Causal x = normal_problem(20, 3, 2, 401);
    const auto bidirectional = [&](auto scalar) {
        using T = decltype(scalar);
        return product(x.B.cast<T>(), product(x.C.transpose().cast<T>(), x.V.cast<T>()));
    };
    exactly("B1", "bidirectional B(CᵀV): 2Nrd", "N = 20, r = 3, d = 2",
            count([&] { bidirectional(Counted()); }).multiplies, 2 * 20 * 6);
}

void proofs::holds_what_it_says(const exact::Method& m) {
    Index differ = 0, cases = 0;
    const test::Threads one(1);
    for (Index N : {64, 200, 1000})
        for (Index r : {3, 64})
            for (Index d : {64, 128})
                for (Index b : m.block > 0 ? std::vector<Index>{64, 128} : std::vector<Index>{0})
                    for (bool decay : {false, true}) {
                        const Work w{N, r, d, b, decay};
                        ++cases;
                        differ += peak_of_run<float>(m, w) != exact::running_memory(m, w);
                        differ += peak_of_run<double>(m, w) != exact::running_memory(m, w);
                    }
    exactly("B1", m.name + ": scalars that the form that runs holds; deviations",
            sentence("one head, one thread, Float32 and Float64, ", cases, " sizes N, r, d, b"), differ, 0);
}

TEST_CASE("B1: memory of the forms that run", "[proofs][exact-methods]") {
    for (const exact::Method& m : exact::methods()) holds_what_it_says(m);
    // Fewer heads than threads: a block a thread, with its scratch and what it adds to the state; a thread that comes
    // late finds nothing to do, and has none.
    const test::Threads two(2);
    Index differ = 0;
    for (const std::string method : {"block-based", "hybrid", "lightning-attention-2"})
        for (Index N : {200, 1000}) {
            const Work w{N, 3, 128, 64};
            const Index rd = w.r * w.d, blocks = std::min<Index>(ceil_div(N, w.block), 2);
            const exact::Method& m = exact::method(method);
            differ += peak_of_run<float>(m, w) > blocks * (exact::running_memory(m, w) - rd) + rd;
        }
    exactly("B1",
            "block-based, hybrid, lightning-attention-2, one head on two threads: at most min(T, 2) blocks and one rd; "
            "deviations",
            "Float32, N = 200, 1000, r = 3, d = 128, b = 64", differ, 0);
}

TEST_CASE("B2, B3: linear for a fixed block", "[proofs][exact-methods]") {
    const Index r = 3, d = 2, b = 16;
    const auto macs = [&](Index N, Index block) {
        return measured("lightning-attention-2", {N, r, d, block}).operations.adds;
    };
    for (Index N : {64, 256})
        exactly("B2", "N(b+1)(r+d)/2 + 2(N-b)rd multiply-adds", sentence("b = 16, N = ", N), macs(N, b),
                N * (b + faulty("B2: b for b + 1", Index{1}, Index{0})) * (r + d) / 2 + 2 * (N - b) * r * d);
    claim("B2", "count(2N)/count(N) - 2 - 2b rd/count(N)", "N = 512, b = 16",
          std::abs(real(macs(1024, b)) / real(macs(512, b)) - 2 - 2.0 * real(b * r * d) / real(macs(512, b))), 1e-14);
    claim("B2", "count(2N)/count(N), fixed block", "N = 512, b = 16", real(macs(1024, b)) / real(macs(512, b)), 2.03);
    published_fails("B2", "O(N²) of fleet Table 1 needs a ratio near 4, which only b = N gives", "N = 256, b = N",
                    real(macs(512, 512)) / real(macs(256, 256)), 3.9);
    exactly("B2", "extra memory rd + b, whatever N", "b = 16, N = 4096",
            exact::cost(exact::method("lightning-attention-2"), {4096, r, d, b}).memory, r * d + b);

    double most = 0, tile = INFINITY;
    for (Index width : {8, 32, 128}) {
        const auto dear = exact::cost(exact::method("block-based"), {8 * width, 1, width, width}).operations.adds;
        tile = fewest(tile, real(dear) / real(8 * width * width) / (real(width) / 2));
    }
    published_fails("B3", "b = d is not O(Nrd) for r = 1: count/(Nd) over d/2", "d = 8, 32, 128, N = 8d", tile, 1);
    for (Index width_r : {1, 3, 16, 64})
        for (Index width_d : {1, 3, 16, 64})
            for (Index N : {64, 100, 1000})
                most = worst(most, real(exact::cost(exact::method("block-based"),
                                                    {N, width_r, width_d,
                                                     faulty("B3: b = max(r, d)", std::min(width_r, width_d),
                                                            std::max(width_r, width_d))})
                                            .operations.adds) /
                                       real(4 * N * width_r * width_d));
    claim("B3", "b = min(r, d): count / 4Nrd", "r, d = 1, 3, 16, 64, N = 64, 100, 1000", most, 1);
    double space = 0, beyond = INFINITY;
    for (Index N : {1, 16, 100})
        for (Index width : {1, 16, 64})
            for (Index size : {Index{1}, std::min(N, width), N}) {
                const double over =
                    real(measured("block-based", {N, 3, width, size}).memory - 3 * width) / real(N * width);
                if (size <= width) space = worst(space, over);
                else beyond = fewest(beyond, over);
            }
    claim("B3", "space: what the method holds beyond rd, over Nd, for b <= min(N, d)",
          "N = 1, 16, 100, d = 1, 16, 64, r = 3", space, 1);
    published_fails("B3", "space: not so for b = N > d", "N = 16, 100, d = 1, 16, 64, r = 3", beyond, 1.5);
}

TEST_CASE("B4: the block equations", "[proofs][exact-methods]") {
    // Equation (12) of fleet with the inner sum from block `first` up to block i - 1 + extra, blocks numbered from 0.
    const auto blocks = [](const Causal& x, Index b, Index extra, Index first = 0) {
        Matrix P = zeros<double>(x.N(), x.d());
        for (Index i = 0; i < x.N() / b; ++i) {
            const auto part = [&](const Matrix& A, Index j) -> Matrix { return A.middleRows(j * b, b); };
            Matrix U = zeros<double>(x.r(), x.d());
            for (Index j = first; j < i + extra; ++j) U += product(part(x.C, j).transpose(), part(x.V, j));
            P.middleRows(i * b, b) =
                product(lower<double>(product(part(x.B, i), part(x.C, i).transpose())), part(x.V, i)) +
                product(part(x.B, i), U);
        }
        return P;
    };
    const Index b = 4;
    const Matrix ones = Matrix::Ones(2 * b, 1);
    const Causal x{ones, ones, ones};
    exactly("B4", "(12) of fleet, (11) of leet as printed: last output is b + 2b", "N = 2b = 8, all ones, r = d = 1",
            std::lround(blocks(x, b, 1)(2 * b - 1, 0)), 3 * b);
    published_fails("B4", "(12), (11) as printed, sum to i: relative error", "N = 2b = 8, all ones",
                    relative(blocks(x, b, 1), definition(x)), 0.1);
    claim("B4", "sum to i - 1: error", "N = 2b = 8, all ones", relative(blocks(x, b, 0), definition(x)), 0);
    const Causal y = normal_problem(24, 3, 2, 402);
    published_fails("B4", "(12), (11) as printed, sum to i: relative error", "normal, N = 24, b = 4",
                    relative(blocks(y, b, 1), definition(y)), 0.1);
    published_fails("B4", "blocks numbered from 0, the printed sum from j = 1 to i: relative error",
                    "normal, N = 24, b = 4", relative(blocks(y, b, 1, 1), definition(y)), 0.1);
    published_fails("B4", "blocks numbered from 0, sum from j = 1 to i - 1, so without block 0: relative error",
                    "normal, N = 24, b = 4", relative(blocks(y, b, 0, 1), definition(y)), 0.1);
    claim("B4", "all blocks before i: j = 0 .. i - 1 numbered from 0, 1 .. i - 1 from 1: relative error",
          "normal, N = 24, b = 4", relative(blocks(y, b, faulty("B4: sum to i", 0, 1)), definition(y)), 1e-14);

    // (13) and (14) of fleet: O_[i] = (B_[i]C_[i]ᵀ ⊙ M)V_[i] + B_[i]U_[i-1], U_[i] = U_[i-1] + add(i). late: U_[i] in
    // (13).
    const auto recurrence = [](const Causal& in, Index size, auto&& add, bool late = false) {
        Matrix P(in.N(), in.d()), U = zeros<double>(in.r(), in.d());
        for (Index i = 0; i < in.N() / size; ++i) {
            const auto part = [&](const Matrix& A) -> Matrix { return A.middleRows(i * size, size); };
            const Matrix before = U;
            U += add(i);
            P.middleRows(i * size, size) =
                product(lower<double>(product(part(in.B), part(in.C).transpose())), part(in.V)) +
                product(part(in.B), late ? U : before);
        }
        return P;
    };
    const Matrix want = definition(y);
    const auto block_sum = [&](const Matrix& C, const Matrix& V, Index j) {
        return product(C.middleRows(j * b, b).transpose(), V.middleRows(j * b, b));
    };
    claim("B4", "(13) with U_[i-1], (14) with index i: relative error", "normal, N = 24, b = 4",
          relative(recurrence(y, b, [&](Index i) { return block_sum(y.C, y.V, i); }), want), 1e-14);
    double least = INFINITY;
    for (Index j = 0; j < y.N() / b; ++j)
        least = fewest(least, relative(recurrence(y, b, [&](Index) { return block_sum(y.C, y.V, j); }), want));
    published_fails("B4", "(14) with a fixed j: relative error, the least of j = 1 .. 6", "normal, N = 24, b = 4",
                    least, 0.1);
    published_fails("B4", "U_[i] for U_[i-1] in (13): relative error", "normal, N = 24, b = 4",
                    relative(recurrence(
                                 y, b, [&](Index i) { return block_sum(y.C, y.V, i); }, true),
                             want),
                    0.1);
    // V_j for V_[j]: one row, which conforms with C_[j]ᵀ only if it stands for b rows.
    published_fails("B4", "V_j for V_[j], row j for each of the b: relative error", "normal, N = 24, b = 4",
                    relative(recurrence(y, b,
                                        [&](Index i) {
                                            return product(y.C.middleRows(i * b, b).transpose(),
                                                           y.V.row(i).replicate(b, 1));
                                        }),
                             want),
                    0.1);
    claim("B4", "the same for b = 1, where V_j is V_[j]", "normal, N = 24, b = 1",
          relative(recurrence(y, 1, [&](Index i) { return product(y.C.row(i).transpose(), y.V.row(i)); }), want),
          1e-14);

    // The normaliser: V = 1. C_[i]ᵀ1_N has a meaning for b = N only; the C of all rows makes it conform.
    const Causal z{y.B.cwiseAbs(), y.C.cwiseAbs(), Matrix::Ones(24, 1)};
    const Matrix D = definition(z);
    claim(
        "B4", "(15), (16) with 1_b: normaliser against (M ⊙ BCᵀ)1", "N = 24, b = 4",
        relative(recurrence(z, b,
                            [&](Index i) { return product(z.C.middleRows(i * b, b).transpose(), Matrix::Ones(b, 1)); }),
                 D),
        1e-14);
    published_fails(
        "B4", "(16) with 1_N, Cᵀ1_N so that it conforms: relative error of the normaliser", "N = 24, b = 4",
        relative(recurrence(z, b, [&](Index) { return product(z.C.transpose(), Matrix::Ones(z.N(), 1)); }), D), 0.1);
    // leet: U in R^{d×d}. For r > d the last rows of C_[j]ᵀV_[j] have no place in it.
    published_fails("B4", "U in R^{d×d} of leet, what is beyond it left out: relative error",
                    "normal, N = 24, b = 4, r = 3, d = 2",
                    relative(recurrence(y, b,
                                        [&](Index i) {
                                            Matrix U = block_sum(y.C, y.V, i);
                                            U.bottomRows(U.rows() - y.d()).setZero();
                                            return U;
                                        }),
                             want),
                    0.1);
    // Ã = BC has a meaning for r = N, and is not BCᵀ.
    const Causal full = normal_problem(8, 8, 2, 404);
    const auto masked = [&](const Matrix& A) { return relative(product(lower<double>(A), full.V), definition(full)); };
    published_fails("B4", "BC for BCᵀ: relative error", "normal, N = r = 8", masked(product(full.B, full.C)), 0.1);
    claim("B4", "BCᵀ: relative error", "normal, N = r = 8", masked(product(full.B, full.C.transpose())), 1e-14);
}

TEST_CASE("B5, B6, B10: row-based and unmasked counts, and what must be read", "[proofs][exact-methods]") {
    const Causal x = normal_problem(40, 3, 2, 403);
    claim("B5", "row-based against the definition", "normal, N = 40, r = 3, d = 2",
          relative(library(x, "row-based"), definition(x)), 1e-14);
    int wrong = 0;
    for (Index N = 2; N <= 40; ++N)
        wrong +=
            measured("row-based", {N, 3, 2}).operations.adds - measured("row-based", {N - 1, 3, 2}).operations.adds !=
            faulty("B5: rd a token", 2, 1) * 3 * 2;
    exactly("B5", "every token takes rd to update U and rd to read it; deviations", "token 2 .. 40, r = 3, d = 2",
            wrong, 0);

    // Equation (4): numerator, normaliser, division.
    const Index N = 12, r = 3, d = 2;
    const Mat<Counted> B = Mat<Counted>::Constant(N, r, Counted(1)), V = Mat<Counted>::Constant(N, d, Counted(1)),
                       one = Mat<Counted>::Constant(N, 1, Counted(1));
    const auto four = count([&] {
        Mat<Counted> O = product(B, product(B.transpose(), V)), D = product(B, product(B.transpose(), one));
        for (Index i = 0; i < N; ++i)
            for (Index j = 0; j < d; ++j) O(i, j) /= D(i, 0);
    });
    exactly("B6", "(4) of fleet: 2Nrd + 2Nr multiply-adds", "N = 12, r = 3, d = 2", four.adds,
            2 * N * r * d + 2 * N * r);
    exactly("B6", "(4) of fleet: Nd divisions", "N = 12, r = 3, d = 2", four.divisions, N * d);
    exactly("B6", "(5) of fleet directly: N²(r+d) multiply-adds", "N = 12, r = 3, d = 2",
            measured("vanilla", {N, r, d}).operations.adds, N * N * (r + d));
    exactly("B6", "(5) of fleet directly: N² memory", "N = 12, r = 3, d = 2", measured("vanilla", {N, r, d}).memory,
            N * N);
    const auto softmax = count([&] {
        Mat<Counted> A = product(V, V.transpose());
        for (Index k = 0; k < A.size(); ++k) A.data()[k] = exp(A.data()[k]);
        product(A, V);
    });
    exactly("B6", "(1): 2N²d multiplies", "N = 12, d = 2", softmax.multiplies, 2 * N * N * d);
    exactly("B6", "(1): N² exponentials", "N = 12, d = 2", softmax.exponentials, N * N);
    // (2): with the mask, as printed on the whole matrix, and without the entries that it drops.
    const auto masked = count([&] {
        Mat<Counted> A = product(V, V.transpose());
        for (Index i = 0; i < N; ++i)
            for (Index j = 0; j < N; ++j) A(i, j) = exp(A(i, j)) * Counted(i >= j ? 1 : 0);
        product(A, V);
    });
    exactly("B6", "(2) as printed: 2N²d multiplies, and N² by the mask", "N = 12, d = 2", masked.multiplies,
            2 * N * N * d + faulty("B6: (2) without the mask", N * N, Index{0}));
    exactly("B6", "(2) as printed: N² exponentials", "N = 12, d = 2", masked.exponentials, N * N);
    const auto triangle = count([&] {
        for (Index i = 0; i < N; ++i) {
            Mat<Counted> row = product(V.row(i), V.topRows(i + 1).transpose());
            for (Index j = 0; j <= i; ++j) row(0, j) = exp(row(0, j));
            product(row, V.topRows(i + 1));
        }
    });
    exactly("B6", "(2) up to the diagonal: 2τ(N)d multiplies", "N = 12, d = 2", triangle.multiplies, 2 * tau(N) * d);
    exactly("B6", "(2) up to the diagonal: τ(N) exponentials", "N = 12, d = 2", triangle.exponentials, tau(N));
    wrong = 0;
    for (Index rank : {1, 2, 5, 8})
        for (Index width : {1, 2, 5, 8})
            for (Index n = 1; n <= 40; ++n) {
                const auto triangular = exact::cost(exact::method("inner-product"), {n, rank, width}).operations.adds,
                           row = exact::cost(exact::method("row-based"), {n, rank, width}).operations.adds;
                wrong +=
                    (triangular < row) != ((n + faulty("B6: N for N + 1", 1, 0)) * (rank + width) < 4 * rank * width);
            }
    exactly("B6", "triangular vanilla below row-based iff N + 1 < 4rd/(r+d); deviations",
            "r, d = 1, 2, 5, 8, N = 1 .. 40", wrong, 0);

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
    exactly("B10", "inputs that move P: all N(2r+d)", "normal, N = 6, r = 3, d = 2", inputs - idle,
            6 * faulty("B10: N(r+d) inputs", 8, 5));
    exactly("B10", "upper bound: 2Nrd multiply-adds", "N = 6, r = 3, d = 2",
            measured("row-based", {6, 3, 2}).operations.adds, 2 * 6 * 6);
}

namespace {

// A problem with its output in Float64 and Π.
struct Known {
    Causal x;
    Matrix P, Pi;
    double roundings_of(const std::string& method, Index block) const {
        return roundings(library(x, method, block, 1, DType::f32), P, Pi, u32);
    }
    double budget(const exact::Method& m, Index block) const {
        return real(exact::roundings(m, {x.N(), x.r(), x.d(), block}));
    }
    double share(const std::string& method, Index block) const {
        return roundings_of(method, block) / budget(exact::method(method), block);
    }
};

// Roundings that agree in sign: all entries 0.1; and 1, then terms just below half a unit in its last place, so that a
// sum that starts with the 1 takes none of them. And signed normal entries.
struct Sums {
    static constexpr Index N = 4096, r = 4;
    Known tenths, small;
    std::vector<Known> problems;

    Sums() {
        const Matrix tenth = rounded(Matrix::Constant(N, r, 0.1)), ones = Matrix::Ones(N, 1);
        tenths = {{tenth, tenth, tenth.leftCols(1)}, zeros<double>(N, 1), {}};
        small = {{ones, ones, rounded(0.98 * u32 * ones)}, tenths.P, {}};
        small.x.V(0, 0) = 1;
        for (Index i = 0; i < N; ++i) {
            tenths.P(i, 0) = real(i + 1) * real(r) * std::pow(tenth(0, 0), 3);
            small.P(i, 0) = 1 + real(i) * small.x.V(1, 0);
        }
        tenths.Pi = tenths.P, small.Pi = small.P;
        for (Index n : {1, 2, 3, 31, 32, 33, 100, 400})
            for (const auto& [rank, d] : {std::pair<Index, Index>{1, 3}, {3, 1}, {16, 3}}) {
                const Causal x = normal_problem(n, rank, d, static_cast<unsigned>(410 + n));
                problems.push_back({x, definition(x), absolute(x)});
            }
    }
};

const Sums& sums() {
    static const Sums all;
    return all;
}

}  // namespace

void proofs::rounds_as_it_says(const exact::Method& m) {
    const Sums& of = sums();
    const Causal general = normal_problem(100, 3, 2, 411);
    Causal meant = general;
    if (fault("B9: |C| for C")) meant.C = meant.C.cwiseAbs();
    const bool blocks = m.block > 0;
    double normal = 0, same_sign = 0, absorbed = 0;
    for (const Known& p : of.problems)
        for (Index b : blocks ? std::vector<Index>{8, 32, 128} : std::vector<Index>{0})
            normal = worst(normal, p.share(m.name, b));
    for (Index b : blocks ? std::vector<Index>{8, 16, 32, 64, 128, 256, 512} : std::vector<Index>{0})
        same_sign = worst(same_sign, of.tenths.share(m.name, b)), absorbed = worst(absorbed, of.small.share(m.name, b));
    const std::string few = blocks ? ", b = 8, 32, 128" : "", many = blocks ? ", b = 8, 16 .. 512" : "";
    claim("B7", m.name + ": error of an entry in units of its budget",
          "Float32, signed normal, N = 1 .. 400, r = 1, 3, 16" + few, normal, 1);
    claim("B7", m.name + ": the same where roundings agree in sign", "Float32, all 0.1, N = 4096, r = 4" + many,
          same_sign, 1);
    claim("B7", m.name + ": the same where small terms are lost",
          "Float32, V = (1, 0.98u, 0.98u ..), B = C = 1, N = 4096" + many, absorbed, 1);
    claim("B9", m.name + " on general, signed B and C", "Float64, N = 100, r = 3, d = 2",
          relative(library(general, m.name, blocks ? 32 : 0), definition(meant)), 1e-13);
}

TEST_CASE("B7, B9: the methods agree within their roundings", "[proofs][exact-methods]") {
    for (const exact::Method& m : exact::methods()) rounds_as_it_says(m);

    double apart = 0;
    for (const Known& p : sums().problems) {
        std::vector<std::pair<Matrix, double>> outputs;  // and their error bounds, by method
        for (const exact::Method& m : exact::methods()) {
            const Index b = m.block > 0 ? 32 : 0;
            const Matrix P = library(p.x, m.name, b, 1, DType::f32);
            const double k = e(p.budget(m, b), u32);
            for (const auto& [other, bound] : outputs) apart = worst(apart, roundings(P, other, p.Pi, 1) / (k + bound));
            outputs.emplace_back(P, k);
        }
    }
    claim("B7", "two methods: their difference over e(k₁) + e(k₂), the most of all pairs",
          "Float32, signed normal, N = 1 .. 400, b = 32", apart, 1);
    const Known &tenths = sums().tenths, &small = sums().small;
    const Matrix& tenth = tenths.x.B;
    constexpr Index N = Sums::N, r = Sums::r;
    published_fails("B7", "row-based, small terms lost: share of N + r, so that no budget much less would do",
                    "N = 4096, r = 1", small.share("row-based", 0), 0.95, regression);

    using F = Unfused<float>;
    const auto unfused = [&](auto&& f) { return roundings(on_head<F>(tenths.x, 1, f), tenths.P, tenths.Pi, u32); };
    const double row = unfused([](auto& h) { exact::row_based(h); });
    claim("B7", "worst case, row by row: roundings of an entry (N + r)", "Float32, all 0.1, N = 4096, r = 4", row,
          real(faulty("B7: without N", N, Index{64}) + r));
    published_fails("B7", "and they are many", "the same", row, 300, regression);
    // FleetAttention in tiles: the definition sums a tile before it adds l; the form that runs goes on from l, so its k
    // is N + r.
    published_fails("B7", "FleetAttention as it runs, tiles of 64, over the Br + ⌈N/Br⌉ + r + 1 of its definition",
                    "the same", tenths.roundings_of("fleet", 64) / 133, 2, regression);
    published_fails("B7", "outer-product-blockwise, on top of the carry, over b + ⌈N/b⌉ + r + 1, b = 64", "the same",
                    tenths.roundings_of("outer-product-blockwise", 64) / 133, 2, regression);
    // Lightning adds the tile to B U in the same registers: what comes with U meets the tile's b additions as well.
    published_fails("B7", "lightning-attention-2 as it runs, over b + ⌈N/b⌉ + r + 1, b = 512",
                    "Float32, V = (1, 0.98u, 0.98u ..), B = C = 1, N = 4096",
                    small.roundings_of("lightning-attention-2", 512) / (512 + 8 + 1 + 1), 1.5, regression);
    // Blocks: the sum CᵀV of a block is had before it is added to the carry, or else the carry meets N roundings again.
    const auto blocks = [&](bool summed_first, Index b) {
        const F c = static_cast<float>(tenth(0, 0));
        F U = 0;  // all entries of the state are equal
        Matrix P(N, 1);
        for (Index start = 0; start < N; start += b) {
            F score = 0, tile = 0, inter = 0, sum = 0;
            for (Index k = 0; k < r; ++k) score += c * c, inter += c * U;
            for (Index p = 0; p < std::min(b, N - start); ++p) {
                tile += score * c;
                P(start + p, 0) = static_cast<double>((tile + inter).value);
                (summed_first ? sum : U) += c * c;
            }
            U += sum;
        }
        return roundings(P, tenths.P, tenths.Pi, u32);
    };
    const double block = blocks(true, 64);
    claim("B7", "worst case, blocks of 64: roundings (b + ⌈N/b⌉ + r + 1)", "Float32, all 0.1, N = 4096, r = 4", block,
          64 + 64 + 4 + 1);
    claim("B7", "that is 14.5, off by", "the same", std::abs(block - 14.5), 0.05, regression);
    claim("B7", "blocks of √N against rows: share of the error", "the same", block / row, 0.05, regression);
    published_fails("B7", "a block's tokens added to the carry one by one: roundings over that budget", "the same",
                    blocks(false, 64) / 133, 2);
    published_fails("B7", "so do the definitions that count, block-based: over that budget", "the same, b = 64",
                    unfused([](auto& h) { exact::block_based(h, 64); }) / 133, 2);
    published_fails("B7", "and lightning-attention-2", "the same",
                    unfused([](auto& h) { exact::lightning_attention_2(h, 64); }) / 133, 2);

    // Every b: errors within the budget. The budget is least at √N, the error of this input is not.
    double most_blocks = 0, most_fleet = 0, most_definition = 0, least = INFINITY;
    Index best = 0, sizes = 0;
    for (Index b = 1; b <= N; b = b < 16 ? b + 1 : b + b / 8, ++sizes) {
        const Index k = b + ceil_div(N, b) + r + 1;
        const double error = blocks(true, b);
        most_blocks = worst(most_blocks, error / real(k));
        most_fleet = worst(most_fleet, unfused([b](auto& h) { exact::fleet(h, b, 1); }) / real(k));
        if (b <= 256)
            most_definition = worst(most_definition, unfused([b](auto& h) { exact::block_based(h, b); }) / real(N + r));
        if (error < least) least = error, best = b;
    }
    claim("B7", "blocks: error over b + ⌈N/b⌉ + r + 1",
          sentence("Float32, all 0.1, N = 4096, r = 4, ", sizes, " sizes b from 1 to N"), most_blocks, 1);
    claim("B7", "FleetAttention's definition: error over Br + ⌈N/Br⌉ + r + 1", "the same", most_fleet, 1);
    claim("B7", "block-based, its definition, tokens added to the carry one by one: error over N + r",
          "Float32, all 0.1, N = 4096, r = 4, b <= 256", most_definition, 1);
    exactly("B7", "blocks, the best b of this input", "Float32, all 0.1, N = 4096, r = 4, the sizes b", best, 41,
            regression);
    published_fails("B7", "so b = √N = 64 is not: its error over the least", "the same", block / least, 2, regression);
    // The recursion as the library defines it: the r products of B2 (C1ᵀ V1) are added into the output one by one, at
    // every level. Values such that the last output is 1 by its own token, and each product of each level 0.98u, which
    // is lost when it is added to 1.
    double defined = 0, runs = 0, over_running = 0;
    for (const auto& [length, rank, t] : {std::array<Index, 3>{64, 64, 1}, {64, 64, 8}, {256, 16, 1}, {256, 16, 7}}) {
        Causal x{Matrix::Ones(length, rank), Matrix::Ones(length, rank), Matrix::Constant(length, 1, 1 / real(rank))};
        for (Index j = 0; j + 1 < length; ++j)  // the half that token j is in when it meets the last one
            x.V(j, 0) = 0.98 * u32 / std::exp2(std::floor(std::log2(real(length - 1 - j))));
        x.V = rounded(x.V);
        const Matrix P = definition(x);
        Index D = 0;
        while ((t << D) < length) ++D;
        Index k = t + rank + faulty("B7: r once, not at every level", rank * D, rank);
        for (Index j = 1; j <= D; ++j)
            k = std::max(
                k, ceil_div(length, Index{1} << j) + 1 + faulty("B7: r once, not at every level", j, Index{1}) * rank);
        const double error = roundings(on_head<F>(x, 1, [base = t](auto& h) { exact::recursion(h, base); }), P, P, u32);
        const double budget = real(exact::roundings(exact::method("recursion"), {length, rank, 1, t}));
        defined = worst(defined, error / real(k));
        runs = worst(runs, roundings(library(x, "recursion", t, 1, DType::f32), P, P, u32) / budget);
        if (rank == 64 && t == 1) over_running = error / budget;
    }
    const std::string lost =
        "Float32, small terms lost at every level, (N, r, t) = (64, 64, 1), (64, 64, 8), (256, 16, 1), (256, 16, 7)";
    claim("B7", "recursion, its definition: error over the largest of t + r + rD and ⌈N/2^j⌉ + 1 + rj", lost, defined,
          1);
    claim("B7", "recursion as it runs: error over ⌈N/2⌉ + D + r + 1", lost, runs, 1);
    published_fails("B7", "recursion, its definition: error over the 103 of the form that runs",
                    "Float32, small terms lost at every level, N = r = 64, t = 1", over_running, 3.5, regression);
    Index root = 0;
    for (Index n = 1; n < 3000; ++n) {
        const auto side = static_cast<Index>(std::ceil(std::sqrt(real(n))));
        Index smallest = n + 1;
        for (Index b = 1; b <= n; ++b) smallest = std::min(smallest, b + ceil_div(n, b));
        root +=
            side + ceil_div(n, side) != smallest || smallest != static_cast<Index>(std::ceil(std::sqrt(4.0 * real(n))));
    }
    exactly("B7", "b + ⌈N/b⌉ is least, ⌈2√N⌉, at b = ⌈√N⌉; deviations", "all b, N < 3000", root, 0);
}

TEST_CASE("B8: FleetAttention and row-based are one computation", "[proofs][exact-methods]") {
    const auto bits = [](auto scalar, double g) {
        using T = Unfused<decltype(scalar)>;
        Index differ = 0;
        for (Index N : {1, 33, 200}) {
            const Causal x = normal_problem(N, 5, 3, static_cast<unsigned>(420 + N));
            const Matrix fleet = on_head<T>(x, g, [](auto&h) { exact::fleet_untiled(h); }),
                         row = on_head<T>(x, g, [](auto&h) {
                             if (fault("B8: block-based for row-based")) exact::block_based(h, 16);
                             else exact::row_based(h);
                         });
            for (Index k = 0; k < row.size(); ++k)
                differ += std::memcmp(&fleet.data()[k], &row.data()[k], sizeof(double)) != 0;
        }
        return differ;
    };
    exactly("B8", "entries whose bits differ", "Float32, no fused operations, N = 1, 33, 200, r = 5, d = 3",
            bits(0.0f, 1), 0);
    exactly("B8", "entries whose bits differ", "Float64, no fused operations, N = 1, 33, 200, r = 5, d = 3",
            bits(0.0, 1), 0);
    exactly("B8", "entries whose bits differ, decay 0.9", "Float32, no fused operations, N = 1, 33, 200, r = 5, d = 3",
            bits(0.0f, 0.9), 0);
    const Causal x = normal_problem(200, 5, 3, 421);
    const Matrix row = on_head<Unfused<float>>(x, 1, [](auto&h) { exact::row_based(h); }),
                 block = on_head<Unfused<float>>(x, 1, [](auto&h) { exact::block_based(h, 16); });
    published_fails("B8", "not so block-based: entries whose bits differ", "Float32, N = 200, b = 16",
                    static_cast<double>((row.array() != block.array()).count()), 100, regression);
}
