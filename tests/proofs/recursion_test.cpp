// Checks of proofs/recursion.md: claims C1 to C6.
#include "core/exact/recursion.hpp"
#include "core/exact/cost.hpp"
#include "core/tensor/linalg.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/causal.hpp"
#include "tests/proofs/claims.hpp"
#include "tests/proofs/tables.hpp"

using namespace causeway;
using namespace causeway::proofs;

namespace {

// Of the halving n → ⌊n/2⌋, ⌈n/2⌉ down to t: sizes of all halved nodes, leaves, their τ, the depth, the longest leaf.
struct Halving {
    Index S = 0, leaves = 0, tiles = 0, depth = 0, most = 0;
    Halving(Index n, Index t) {
        if (n <= t) {
            leaves = 1, tiles = tau(n), most = n;
            return;
        }
        const Halving a(n / 2, t), b(n - n / 2, t);
        S = n + a.S + b.S, leaves = a.leaves + b.leaves, tiles = a.tiles + b.tiles,
        depth = 1 + std::max(a.depth, b.depth);
        most = std::max(a.most, b.most);
    }
};

// How many leaves of each size 0 .. t.
void count_leaves(Index n, Index t, std::vector<Index>& sizes) {
    if (n <= t) {
        ++sizes[static_cast<std::size_t>(n)];
        return;
    }
    count_leaves(n / 2, t, sizes), count_leaves(n - n / 2, t, sizes);
}

// ⌈lg(N/t)⌉, 0 for N <= t.
Index levels(Index N, Index t) {
    Index D = 0;
    while ((t << D) < N) ++D;
    return D;
}

// S(N, t) in closed form.
Index closed(Index N, Index t) {
    if (N <= t) return 0;
    const Index D = levels(N, t), leaves = Index{1} << (D - 1);
    return N * (D - 1) + std::min(N, faulty("C1: N for the minimum", (t + 1) * (N - t * leaves), N));
}

// The leaves in closed form: 2^D of ⌊N/2^D⌋ and ⌈N/2^D⌉ where all nodes of level D - 1 are halved, else t and the
// halves of t + 1.
std::vector<Index> closed_leaves(Index N, Index t) {
    std::vector<Index> sizes(static_cast<std::size_t>(t + 1), 0);
    const auto add = [&](Index size, Index leaves) { sizes.at(static_cast<std::size_t>(size)) += leaves; };
    const Index D = levels(N, t);
    if (D == 0) {
        add(N, 1);
        return sizes;
    }
    const Index all = Index{1} << D, half = all / 2;
    if (N / half > t) {
        add(N / all, all - N % all);
        if (N % all > 0) add(N / all + 1, N % all);
    } else {
        const Index longer = N - t * half;  // nodes of t + 1 on level D - 1
        add(t, half - longer);
        add((t + 1) / 2, longer), add(t + 1 - (t + 1) / 2, longer);
    }
    return sizes;
}

// One head of ones through the library's definition.
template <class F>
OperationCount counted_ones(Index N, Index r, Index d, F&& f) {
    const std::vector<Counted> x(static_cast<std::size_t>(N * std::max(r, d)), Counted(1));
    std::vector<Counted> O(static_cast<std::size_t>(N * d));
    const exact::Head<Counted> head{{x.data(), N, r}, {x.data(), N, r}, {x.data(), N, d}, {O.data(), N, d}, 1, nullptr};
    return count([&] { f(head); });
}

// Algorithm 4 of leet, Algorithm 3 with w = 1. As printed the parts are put together as [[O1, 0], [O3, O2]]; repaired,
// stacked as [O1; O3 + O2]. 0⁰ = 1.
Matrix algorithm_4(const Causal& x, double w, Index t, bool printed) {
    const Index n = x.N();
    if (n <= t) return definition(x, w);
    const Index mid = n / 2, rest = n - mid;
    const Causal first{x.B.topRows(mid), x.C.topRows(mid), x.V.topRows(mid)},
        second{x.B.bottomRows(rest), x.C.bottomRows(rest), x.V.bottomRows(rest)};
    const Matrix O1 = algorithm_4(first, w, t, printed), O2 = algorithm_4(second, w, t, printed);
    const Matrix W1 = Matrix::NullaryExpr(rest, 1, [&](Index i, Index) { return std::pow(w, real(i)); });
    const Matrix W2 = Matrix::NullaryExpr(mid, 1, [&, less = faulty("C3: w^{mid-left-j-1}", 0, 1)](Index j, Index) {
        return std::pow(w, real(mid - j - less));
    });
    const Matrix O3 = product(scale_rows(W1, second.B), product(scale_rows(W2, first.C).transpose(), first.V));
    if (printed) {
        Matrix out = zeros<double>(n, O1.cols() + O2.cols());
        out.topLeftCorner(mid, O1.cols()) = O1;
        out.bottomLeftCorner(rest, O3.cols()) = O3;
        out.bottomRightCorner(rest, O2.cols()) = O2;
        return out;
    }
    Matrix out(n, x.d());
    out << O1, fault("C2: O2 left out") ? O3 : Matrix(O3 + O2);
    return out;
}

using Rows = kit::Scratch<double>;

// The printed recursion with its parts in memory of their own: O1, O2, then O3, added to O2, then both copied into the
// result, which is made last. `into`: where the result of the whole call goes.
Rows in_parts(const Causal& x, Index lo, Index hi, Index t, Matrix* into) {
    const Index n = hi - lo, d = x.d();
    if (n <= t) {
        Rows out(n, d);
        out.setZero();
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j <= i; ++j) out.row(i) += x.B.row(lo + i).dot(x.C.row(lo + j)) * x.V.row(lo + j);
        return out;
    }
    const Index mid = lo + n / 2;
    Rows O1 = in_parts(x, lo, mid, t, nullptr), O2 = in_parts(x, mid, hi, t, nullptr);
    {
        Rows U(x.r(), d), O3(hi - mid, d);
        U.setZero(), O3.setZero();
        for (Index j = lo; j < mid; ++j) U += x.C.row(j).transpose() * x.V.row(j);
        for (Index i = mid; i < hi; ++i) O3.row(i - mid) = x.B.row(i) * U;
        O2 += O3;
    }
    if (into) {
        *into << O1, O2;
        return Rows(0, 0);
    }
    Rows out(n, d);
    out << O1, O2;
    return out;
}

// The repair of the log factor: the state goes down, Cᵀ V comes up.
template <class T>
Mat<T> carried(const Mat<T>& B, const Mat<T>& C, const Mat<T>& V, Index lo, Index hi, Index t, const Mat<T>& U,
               Mat<T>& O) {
    if (hi - lo <= t) {
        const Mat<T> b = B.middleRows(lo, hi - lo), c = C.middleRows(lo, hi - lo), v = V.middleRows(lo, hi - lo);
        Mat<T> out = product(b, U);
        for (Index i = 0; i < hi - lo; ++i)
            for (Index j = 0; j <= i; ++j) {
                T score = 0;
                for (Index k = 0; k < b.cols(); ++k) score += b(i, k) * c(j, k);
                for (Index k = 0; k < v.cols(); ++k) out(i, k) += score * v(j, k);
            }
        O.middleRows(lo, hi - lo) = out;
        return product(c.transpose(), v);
    }
    const Index mid = lo + (hi - lo) / 2;
    const Mat<T> left = carried<T>(B, C, V, lo, mid, t, U, O), right = carried<T>(B, C, V, mid, hi, t, U + left, O);
    return left + right;
}

}  // namespace

TEST_CASE("C1, C4: the cost of recursion", "[proofs][recursion]") {
    const std::array<Index, 7> bases{1, 2, 3, 7, 31, 32, 64};
    Index wrong = 0, library_wrong = 0, library_costs = 0, depth = 0, sizes = 0, ones = 0;
    double bounds = 0;
    for (Index t : bases)
        for (Index N = 1; N <= 3000; ++N) {
            const Halving h(N, t);
            std::vector<Index> leaves(static_cast<std::size_t>(t + 1), 0);
            count_leaves(N, t, leaves);
            sizes += leaves != closed_leaves(N, t);
            const auto closed_cost = exact::cost(exact::method("recursion"), {N, 3, 2, t}).operations;
            library_costs += closed_cost.adds != 6 * h.S + 5 * h.tiles || closed_cost.multiplies != closed_cost.adds;
            wrong += h.S != closed(N, t);
            library_wrong += h.S != exact::halved(N, t);
            depth += h.depth != levels(N, t);
            if (N <= t) continue;
            const Index D = levels(N, t);
            const double lg = std::log2(real(N) / real(t));
            bounds = worst(bounds, worst(real(N) * lg / real(h.S), real(h.S) / (real(N) * std::ceil(lg))));
            if (t == 1) ones += h.S != N * D + N - (Index{1} << D);
        }
    const std::string input = "N to 3000, t = 1, 2, 3, 7, 31, 32, 64";
    exactly("C1", "S(N,t) in closed form against the sum over nodes; deviations", input, wrong, 0);
    exactly("C1", "the library's S(N,t); deviations", input, library_wrong, 0);
    exactly("C1", "depth is ⌈lg(N/t)⌉; deviations", input, depth, 0);
    exactly("C1", "the library's rd S + (r+d) Σ τ(leaf); deviations", input + ", r = 3, d = 2", library_costs, 0);
    exactly("C1", "how many leaves of each size; deviations", input, sizes, 0);
    exactly("C1", "t = 1: S = N⌈lg N⌉ + N - 2^⌈lg N⌉; deviations", input, ones, 0);
    claim("C1", "N lg(N/t) <= S <= N⌈lg(N/t)⌉, largest ratio", input, bounds, 1 + 1e-14);
    // Any other way to split costs at least N lg(N/t).
    std::mt19937_64 generator(501);
    double entropy = 0;
    for (int draw = 0; draw < 200; ++draw) {
        const Index N = 2 + static_cast<Index>(generator() % 400), t = 1 + static_cast<Index>(generator() % 8);
        std::vector<Index> open{N};
        Index S = 0;
        while (!open.empty()) {
            const Index n = open.back();
            open.pop_back();
            if (n <= t) continue;
            const Index cut = 1 + static_cast<Index>(generator() % static_cast<std::uint64_t>(n - 1));
            S += n, open.push_back(cut), open.push_back(n - cut);
        }
        if (N > t) entropy = worst(entropy, real(N) * std::log2(real(N) / real(t)) / real(S));
    }
    claim("C1", "any splitting: N lg(N/t) over the sum of nodes", "200 random trees, N <= 401, t <= 8", entropy, 1);

    Index vanilla = 0, rows = 0;
    const Index r = 3, d = 2;
    for (Index t : bases)
        for (Index N = 1; N <= 3000; N = N < 70 ? N + 1 : N < 200 ? N + 13 : 2 * N + 53) {  // .. 200, 453, 959, 1971
            const Halving h(N, t);
            const Index off = r * d * h.S;
            const auto a = counted_ones(N, r, d, [t](auto& head) { exact::recursion(head, t); });
            const auto b =
                counted_ones(N, r, d, [t](auto& head) { exact::recursion(head, t, exact::Leaf::row_based); });
            vanilla += a.multiplies != off + (r + d) * h.tiles || a.adds != a.multiplies;
            rows += b.multiplies != off + 2 * N * r * d || b.adds != b.multiplies;
        }
    exactly("C1", "counted, vanilla leaves: rd S + (r+d) Σ τ(leaf); deviations", "N to 1971, seven t", vanilla, 0);
    exactly("C1", "counted, row-based leaves: rd S + 2Nrd; deviations", "N to 1971, seven t", rows, 0);
    exactly("C1", "S(3, 1)", "N = 3, t = 1", closed(3, 1), 5, note);
    exactly("C1", "S(1000, 32)", "N = 1000, t = 32", closed(1000, 32), 5000, note);
    exactly("C1", "S(100000, 32)", "N = 100000, t = 32", closed(100000, 32), 1200000, note);
    exactly("C1", "cost over row-based, 1 + S/2N", "N = 100000, t = 32", 1 + closed(100000, 32) / 200000, 7, note);
    exactly("C1", "t = N/8 is linear: S = 3N", "N = 4096", closed(4096, 512), 3 * 4096, note);
    exactly("C4", "base case at most 32: S", "N = 4096", closed(4096, 32), 28672);
    exactly("C4", "base case below 32: S, one level and N rd more", "N = 4096", closed(4096, 31), 32768);
    Index more = 0;
    for (Index m = 1; m <= 8; ++m) more += closed(32 << m, 31) - closed(32 << m, 32) != 32 << m;
    exactly("C4", "the difference is N, leaf 16; deviations", "N = 64 .. 8192",
            more + Halving(4096, faulty("C4: at most 32", Index{31}, Index{32})).most - 16, 0);
}

TEST_CASE("C2, C3: how the parts are put together", "[proofs][recursion]") {
    const Matrix ones = Matrix::Ones(2, 1);
    const Causal two{ones, ones, ones};
    const Matrix printed = algorithm_4(two, 1, 1, true), repaired = algorithm_4(two, 1, 1, false);
    published_fails("C2", "[[O1, 0], [O3, O2]]: columns beyond the d of the output",
                    "N = 2, t = 1, r = d = 1, all ones", real(printed.cols() - 1), 1);
    published_fails("C2", "its first column against the output", "N = 2, all ones",
                    (printed.col(0) - definition(two).col(0)).cwiseAbs().maxCoeff(), 1);
    claim("C2", "[O1; O3 + O2] against (1, 2)", "N = 2, t = 1, r = d = 1, all ones",
          (repaired - (Matrix(2, 1) << 1, 2).finished()).norm(), 0);
    for (Index N : {8, 13}) {
        const Causal x = normal_problem(N, 3, 2, 510);
        const auto input = sentence("normal, N = ", N, ", t = 3");
        published_fails("C2", "as printed: columns beyond d", input, real(algorithm_4(x, 1, 3, true).cols() - x.d()),
                        2);
        claim("C2", "repaired: error", input, relative(algorithm_4(x, 1, 3, false), definition(x)), 1e-14);
    }
    // M2 is of rank r, not "regular dense".
    const Causal x = normal_problem(40, 3, 2, 511);
    const Tensor values = svdvals(tensor(product(x.B.bottomRows(20), x.C.topRows(20).transpose())));
    claim("C2", "M2 of (6) has rank r: singular value r + 1 over the first", "N = 40, r = 3",
          values.get(3) / values.get(0), 1e-14);

    for (double w : {0.0, 0.5, 0.9, 1.0}) {
        double most = 0;
        for (Index N : {5, 33, 100})
            for (Index t : {1, 7, 32}) {
                const Causal y = normal_problem(N, 3, 2, static_cast<unsigned>(512 + N));
                const double k = real(std::max(ceil_div(N, 2), t) + levels(N, t) + y.r() + 1 + 2 * N);
                most = worst(most, roundings(algorithm_4(y, w, t, false), definition(y, w), absolute(y, w), u64) / k);
                if (w > 0)
                    most = worst(most,
                                 roundings(library(y, "recursion", t, w), definition(y, w), absolute(y, w), u64) / k);
            }
        claim("C3", "special mask after C2, and the library: error in units of its budget",
              sentence("w = ", w, ", N = 5, 33, 100, t = 1, 7, 32"), most, 1);
    }
    Index wrong = 0;
    for (Index N : {1, 5, 64, 100})
        for (Index t : {1, 7, 32}) {
            const exact::Work plain{N, 3, 2, t, false}, decay{N, 3, 2, t, true};
            const Halving h(N, t);
            wrong += measured("recursion", decay).operations.multiplies -
                         measured("recursion", plain).operations.multiplies !=
                     3 * h.S + h.tiles;
        }
    // Near overflow: w^{-N} is infinite, and entries so large that a power much above 1 would make an output infinite.
    const auto near = [](Index N, double size, DType type, double u, double w) {
        Causal y = normal_problem(N, 3, 2, 530);
        y.B *= size, y.C *= size, y.V *= size;
        if (type == DType::f32) y = {rounded(y.B), rounded(y.C), rounded(y.V)};
        const Matrix want = definition(y, w), Pi = absolute(y, w);
        return roundings(library(y, "recursion", 32, w, type), want, Pi, u) /
               real(ceil_div(N, 2) + levels(N, 32) + 3 + 1 + 2 * N);
    };
    claim("C3", "near overflow: error in units of its budget",
          "Float64, w = 0.5, N = 1200, entries about 1e100, t = 32", near(1200, 1e100, DType::f64, u64, 0.5), 1);
    claim("C3", "near overflow: error in units of its budget", "Float32, w = 0.5, N = 400, entries about 1e11, t = 32",
          near(400, 1e11, DType::f32, u32, 0.5), 1);
    const Causal z = normal_problem(1200, 3, 2, 530);
    Matrix rising = z.C, falling = z.B;
    for (Index i = 0; i < z.N(); ++i)
        rising.row(i) *= std::pow(0.5, -real(i)), falling.row(i) *= std::pow(0.5, real(i));
    const Matrix split = definition({falling, rising, z.V});
    published_fails("C3", "B w^i (w^{-j} C)ᵀ: outputs that are not finite", "Float64, w = 0.5, N = 1200",
                    real(split.size()) - real(split.array().isFinite().count()), 1);
    exactly("C3", "extra multiplies: r S(N,t), and Σ τ(leaf) for the masks of leaves; deviations",
            "N = 1, 5, 64, 100, t = 1, 7, 32", wrong, 0);
}

TEST_CASE("C5, C6: normaliser and depth", "[proofs][recursion]") {
    const Matrix ones = Matrix::Ones(2, 1);
    const Causal two{ones, ones, ones};
    const Matrix A = product(two.B, two.C.transpose()), P = definition(two);
    const Matrix full = P.cwiseQuotient(A.rowwise().sum()),
                 masked = P.cwiseQuotient(
                     Matrix(lower<double>(A, faulty("C5: without the diagonal", 0, -1)).rowwise().sum()));
    published_fails("C5", "D̃ by full row sums: row 1 is 1/2, off by", "N = 2, all ones, V = (1, 1)",
                    std::abs(full(0, 0) - 1), 0.5);
    claim("C5", "D̃ = (M ⊙ Ã)1: output against V", "N = 2, all ones, V = (1, 1)", (masked - ones).norm(), 0);
    Causal x = normal_problem(50, 3, 2, 520);
    x.B = x.B.cwiseAbs(), x.C = x.C.cwiseAbs();
    const Matrix S = product(x.B, x.C.transpose()), want = normalised<double>(x.B, x.C, x.V, Matrix::Ones(50, 1));
    const Matrix by_full = (definition(x).array().colwise() / S.rowwise().sum().array()).matrix();
    published_fails("C5", "D̃ by full row sums: relative error", "positive B, C, N = 50", relative(by_full, want), 0.1);
    claim("C5", "the library's normalised recursion", "positive B, C, N = 50, t = 8",
          relative(library(x, "recursion", 8, 1, DType::f64, true), want), 1e-13);
    for (Index N : {64, 1000}) {
        const auto input = sentence("N = ", N, ", t = 32, r = 3");
        exactly(
            "C5", "the normaliser by recursion: r(S + 2N), not O(N)", input,
            counted_ones(N, 3, 1, [](auto& head) { exact::recursion(head, 32, exact::Leaf::row_based); }).multiplies,
            3 * (closed(N, 32) + 2 * N));
        exactly("C5", "by prefix sums: 2Nr", input, measured("row-based", {N, 3, 1}).operations.multiplies, 2 * N * 3);
    }

    exactly("C6", "depth at N = 100000, t = 32", "N = 100000, t = 32", Halving(100000, 32).depth, 12);
    // What the program timed ran out of, no test here can tell. But the depth is that of the row that ran.
    const auto recur = [](const char* table) {
        return read_table(table).number({{"method", "Recur"}, {"seq_len_tokens", "100000"}}, "latency_mean_s");
    };
    exactly("C6", "recursion at 100000, of that depth, has a time without decay: 1 if so", "leet Table 3",
            std::isfinite(recur("leet/table3.csv")), 1, note);
    exactly("C6", "with decay it has none: 1 if so", "leet Table 4", std::isnan(recur("leet/table4.csv")), 1, note);
    for (const auto& [N, r, d, t] : {std::array<Index, 4>{96, 4, 5, 8}, {101, 4, 5, 8}, {1000, 16, 3, 32}}) {
        const Causal y = normal_problem(N, r, d, 521);
        Matrix out(N, d);
        const auto peak = peak_scalars<double>([&, t_ = t] { in_parts(y, 0, y.N(), t_, &out); });
        const auto input = sentence("N = ", N, ", r = ", r, ", d = ", d, ", t = ", t);
        exactly("C6", "parts in memory of their own: (N + ⌈N/2⌉)d scalars and the rd of C1ᵀV1", input, peak,
                (N + ceil_div(N, 2)) * d + r * faulty("C6: without C1ᵀV1", d, Index{0}));
        claim("C6", "what they compute", input, relative(out, definition(y)), 1e-13);
    }
    const Index r = 3, d = 2;
    for (const auto& [N, t] : {std::pair<Index, Index>{64, 8}, {101, 8}, {200, 32}}) {
        const Mat<Counted> B = Mat<Counted>::Constant(N, r, Counted(1)), V = Mat<Counted>::Constant(N, d, Counted(1));
        Mat<Counted> O = zeros<Counted>(N, d);
        const auto got =
            count([&, n = N, base = t] { carried<Counted>(B, B, V, 0, n, base, zeros<Counted>(r, d), O); });
        const Halving h(N, t);
        const auto input = sentence("N = ", N, ", t = ", t, ", r = 3, d = 2");
        exactly("C6", "state down, CᵀV up: 2Nrd + (r+d) Σ τ(leaf) multiplies, no log factor", input, got.multiplies,
                2 * N * r * d + (r + d) * h.tiles);
        exactly("C6", "and 2rd adds a node: adds beyond the multiplies", input, got.adds - got.multiplies,
                2 * r * d * (h.leaves - 1));
        const Causal y = normal_problem(N, r, d, 522);
        Matrix got_values = zeros<double>(N, d);
        const Matrix sum = carried<double>(y.B, y.C, y.V, 0, N, t, zeros<double>(r, d), got_values);
        // A term meets t additions in CᵀV, two a level, r in B U, and those of the tile; the definition N + r.
        const double k = real(2 * t + 2 * levels(N, t) + r), own = real(N + r);
        claim("C6",
              "what it computes: error of every entry over its 2t + 2D + r roundings and the N + r of the definition",
              "normal, " + input, roundings(got_values, definition(y), absolute(y), u64) / (k + own), 1);
        claim("C6", "what comes up at the end, CᵀV", "the same", relative(sum, product(y.C.transpose(), y.V)), 1e-14);
    }
}
