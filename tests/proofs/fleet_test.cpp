// Checks of proofs/fleet.md: claims D1 to D7.
#include <cstring>
#include <functional>
#include <set>

#include "core/exact/cost.hpp"
#include "core/exact/fleet.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/causal.hpp"
#include "tests/proofs/claims.hpp"
#include "tests/proofs/tables.hpp"

using namespace causeway;
using namespace causeway::proofs;

namespace {

// Elements that move between slow memory and the tile.
struct Traffic {
    Index loads = 0, stores = 0;
};

// Algorithm 1 of fleet (5 of leet) line by line, indices repaired: l¹ .. l^r, T_r tiles of rows, a short last tile.
// Line 14 computes diag(C)V and its sum anew. carries = false leaves out l and m.
template <class T>
Mat<T> algorithm_1(const Mat<T>& B, const Mat<T>& C, const Mat<T>& V, Index Br, Index Bc, bool divides, Traffic& moved,
                   bool carries = true) {
    const Index N = B.rows(), r = B.cols(), d = V.cols();
    Mat<T> out = zeros<T>(N, d);
    for (Index k = 0; k < d; k += Bc) {
        const Index cols = std::min(Bc, d - k);
        Mat<T> l = zeros<T>(r, cols), m = zeros<T>(r, 1);
        for (Index start = 0; start < N; start += Br) {
            const Index n = std::min(Br, N - start);
            const Mat<T> v = V.block(start, k, n, cols);
            moved.loads += n * cols;
            Mat<T> O = zeros<T>(n, cols), D = zeros<T>(n, 1);
            for (Index j = 0; j < r; ++j) {
                const Mat<T> b = B.block(start, j, n, 1), c = C.block(start, j, n, 1);
                moved.loads += 2 * n;
                const auto scaled = [&] {
                    Mat<T> x(n, cols);
                    for (Index p = 0; p < n; ++p)
                        for (Index q = 0; q < cols; ++q) x(p, q) = c(p, 0) * v(p, q);
                    return x;
                };
                const auto cumsum = [](Mat<T> x) {
                    for (Index p = 1; p < x.rows(); ++p)
                        for (Index q = 0; q < x.cols(); ++q) x(p, q) += x(p - 1, q);
                    return x;
                };
                const auto sum = [](const Mat<T>& x) {
                    Mat<T> total = x.row(0);
                    for (Index p = 1; p < x.rows(); ++p)
                        for (Index q = 0; q < x.cols(); ++q) total(0, q) += x(p, q);
                    return total;
                };
                const Mat<T> x = cumsum(scaled()), y = divides ? cumsum(c) : c;
                for (Index p = 0; p < n; ++p) {
                    for (Index q = 0; q < cols; ++q) O(p, q) += b(p, 0) * (x(p, q) + l(j, q));
                    if (divides) D(p, 0) += b(p, 0) * (y(p, 0) + m(j, 0));
                }
                const Mat<T> more = sum(scaled());
                for (Index q = 0; q < cols; ++q)
                    if (carries) l(j, q) = fault("D2: l of the tile before alone") ? more(0, q) : more(0, q) + l(j, q);
                if (divides && carries) m(j, 0) = sum(c)(0, 0) + m(j, 0);
            }
            for (Index p = 0; p < n; ++p)
                for (Index q = 0; q < cols; ++q) out(start + p, k + q) = divides ? O(p, q) / D(p, 0) : O(p, q);
            moved.stores += n * cols;
        }
    }
    return out;
}

// Divided Algorithm 1 with its column tiles side by side, as its parallel loop over k has them. Each keeps its l, r ×
// Bc, and its m, r, from one row tile to the next (`carried`: how many scalars that is); at work it holds one tile: the
// sums of diag(C)V, in Br × Bc, those of C and d_i, in Br each. O_i is summed in the output.
Matrix side_by_side(const Causal& x, Index Br, Index Bc, std::int64_t& carried) {
    struct Column {
        Index k, cols;
        kit::Scratch<double> l, m;
    };
    Matrix out = zeros<double>(x.N(), x.d());
    const auto before = memory::current();
    std::vector<Column> columns;
    for (Index k = 0; k < x.d(); k += Bc) {
        const Index cols = std::min(Bc, x.d() - k);
        columns.push_back({k, cols, {x.r(), cols}, {x.r(), 1}});
        columns.back().l.setZero(), columns.back().m.setZero();
    }
    for (Index start = 0; start < x.N(); start += Br) {
        const Index n = std::min(Br, x.N() - start);
        for (Column& w : columns) {
            kit::Scratch<double> X(n, w.cols), y(n, 1), divisor(n, 1);
            divisor.setZero();
            for (Index j = 0; j < x.r(); ++j) {
                for (Index p = 0; p < n; ++p) {
                    const double b = x.B(start + p, j), c = x.C(start + p, j);
                    X.row(p) = c * x.V.block(start + p, w.k, 1, w.cols);
                    y(p, 0) = c;
                    if (p > 0) X.row(p) += X.row(p - 1), y(p, 0) += y(p - 1, 0);
                    out.block(start + p, w.k, 1, w.cols) += b * (X.row(p) + w.l.row(j));
                    divisor(p, 0) += b * (y(p, 0) + w.m(j, 0));
                }
                w.l.row(j) += X.row(n - 1), w.m(j, 0) += y(n - 1, 0);
            }
            for (Index p = 0; p < n; ++p) out.block(start + p, w.k, 1, w.cols) /= divisor(p, 0);
        }
        carried = static_cast<std::int64_t>((memory::current() - before) / sizeof(double));
    }
    return out;
}

}  // namespace

TEST_CASE("D1: a mask on a matrix of rank 1", "[proofs][fleet]") {
    double identity = 0, sides = 0, sums = 0;
    for (Index N : {1, 7, 40}) {
        Random random(static_cast<unsigned>(600 + N));
        const Matrix b = rounded(random.normal(N, 1)), c = rounded(random.normal(N, 1)),
                     M = rounded(random.normal(N, N));
        const auto of = [](const auto& bs, const auto& cs, const auto& Ms) {
            return std::pair{product(bs, cs.transpose()).cwiseProduct(Ms).eval(),
                             (bs.col(0).asDiagonal() * Ms * cs.col(0).asDiagonal()).eval()};
        };
        const auto [left, right] = of(b.cast<float>().eval(), c.cast<float>().eval(), M.cast<float>().eval());
        const Matrix want = of(b, c, M).first, a = want.cwiseAbs();  // Float64: 2⁻²⁸ of a rounding of Float32
        const Matrix left64 = left.cast<double>(), right64 = right.cast<double>();
        sides = worst(sides, worst(roundings(left64, want, a, u32), roundings(right64, want, a, u32)));
        identity = worst(identity, roundings(left64, right64, a, u32));
        const Matrix shift =
            Matrix::Identity(N, N) - Matrix::NullaryExpr(N, N, [](Index i, Index j) { return i == j + 1 ? 1.0 : 0.0; });
        sums = worst(sums, (product(shift, mask(N)) - Matrix::Identity(N, N)).norm());
    }
    const std::string dense = "Float32, dense normal M, N = 1, 7, 40";
    claim("D1", "(b cᵀ) ⊙ M and diag(b) M diag(c) against b_i M_ij c_j: two products, e(2), in units of u", dense,
          sides, e(faulty("D1: e(1)", 2, 1), u32) / u32);
    claim("D1", "one against the other: 2e(2), in units of u", dense, identity, 2 * e(2, u32) / u32);
    published_fails("D1", "one against the other, not e(2): in units of u", dense, identity, e(2, u32) / u32);
    claim("D1", "(I - shift) M = I", "N = 1, 7, 40", sums, 0);
    double most = 0;
    for (Index N : {1, 33, 200}) {
        const Causal x = normal_problem(N, 5, 3, static_cast<unsigned>(610 + N));
        most = worst(most, roundings(library(x, "fleet-untiled", 0, 1, DType::f32), definition(x), absolute(x), u32) /
                               real(N + 5));
    }
    claim("D1", "(7) of fleet, (5) of leet: error of an entry over N + r roundings",
          "Float32, N = 1, 33, 200, r = 5, d = 3", most, 1);
}

TEST_CASE("D2: FleetAttention in tiles", "[proofs][fleet]") {
    const Index d = 5;
    double most = 0, printed = 0, dropped = INFINITY, dropped_short = 0, divided = 0;
    for (Index N : {7, 40})
        for (Index Br : {Index{1}, Index{7}, Index{16}, N, N + 5})
            for (Index Bc : {Index{1}, Index{3}, d, d + 2}) {
                const Causal x = normal_problem(N, 4, d, static_cast<unsigned>(620 + N));
                const double k = real(std::min(Br, N) + ceil_div(N, Br) + 4 + 1);
                const Matrix want = definition(x), Pi = absolute(x);
                most = worst(most, roundings(on_head<Unfused<float>>(x, 1, [&](auto& h) { exact::fleet(h, Br, Bc); }),
                                             want, Pi, u32) /
                                       k);
                Traffic moved;
                printed =
                    worst(printed, roundings(algorithm_1<double>(x.B, x.C, x.V, Br, Bc, false, moved), want, Pi, u64) /
                                       (k + real(N + 4)));
                const double without = relative(algorithm_1<double>(x.B, x.C, x.V, Br, Bc, false, moved, false), want);
                if (N > Br) dropped = fewest(dropped, without);
                else dropped_short = worst(dropped_short, without);
                const Causal y{x.B.cwiseAbs(), x.C.cwiseAbs(), x.V};
                divided = worst(divided, relative(algorithm_1<double>(y.B, y.C, y.V, Br, Bc, true, moved),
                                                  normalised<double>(y.B, y.C, y.V, Matrix::Ones(N, 1))));
            }
    const std::string input = "N = 7, 40, Br = 1, 7, 16, N, N + 5, Bc = 1, 3, d, d + 2";
    claim("D2", "error of an entry over Br + ⌈N/Br⌉ + r + 1 roundings", "Float32, " + input, most, 1);
    claim(
        "D2", "the public call in tiles of 16", "Float64, N = 100, r = 4, d = 5",
        [] {
            const Causal x = normal_problem(100, 4, 5, 621);
            return relative(library(x, "fleet", 16), definition(x));
        }(),
        1e-14);
    claim("D2", "Algorithm 1 with T_r, l¹ .. l^r: error in units of its and the definition's budget",
          "Float64, " + input, printed, 1);
    claim("D2", "the same, divided: relative error", "Float64, positive B and C, " + input, divided, 1e-13);
    published_fails("D2", "l left out, N > Br: least error", input, dropped, 0.05);
    claim("D2", "l left out, N <= Br: error", input, dropped_short, 1e-14);
}

TEST_CASE("D3, D4: what Algorithm 1 computes, holds and moves", "[proofs][fleet]") {
    Index multiplies = 0, adds = 0, divisions = 0, loads = 0, stores = 0, cases = 0;
    for (const auto& [N, r, d] : {std::array<Index, 3>{7, 3, 5}, {40, 2, 4}, {16, 1, 1}})
        for (Index Br : {Index{1}, Index{7}, Index{16}, N, N + 5})
            for (Index Bc : {Index{1}, Index{3}, d, d + 2}) {
                const Mat<Counted> B = Mat<Counted>::Constant(N, r, Counted(1)),
                                   V = Mat<Counted>::Constant(N, d, Counted(1));
                Traffic moved;
                const auto got = count([&] { algorithm_1<Counted>(B, B, V, Br, Bc, true, moved); });
                const Index Tr = ceil_div(N, Br), Tc = ceil_div(d, Bc);
                ++cases;
                multiplies += got.multiplies != 3 * N * r * d + N * r * Tc;
                adds += got.adds != (4 * N - faulty("D3: without Tr", Tr, Index{0})) * (r * d + Tc * r);
                divisions += got.divisions != N * d;
                loads += moved.loads != N * d + 2 * N * r * faulty("D4: B and C read once", Tc, Index{1});
                stores += moved.stores != N * d;
            }
    const std::string input = std::to_string(cases) + " sizes N, r, d, Br, Bc";
    exactly("D3", "3Nrd + NrTc multiplies; deviations", input, multiplies, 0);
    exactly("D3", "(4N - Tr)(rd + Tc r) adds; deviations", input, adds, 0);
    exactly("D3", "Nd divisions; deviations", input, divisions, 0);
    const auto minimal = measured("fleet", {40, 3, 5, 7}).operations;
    exactly("D3", "l from the last row of cumsum + l: 2Nrd multiplies", "N = 40, r = 3, d = 5, Br = 7",
            minimal.multiplies, 2 * 40 * 15);
    exactly("D3", "the same: (3N - Tr)rd adds", "N = 40, r = 3, d = 5, Br = 7", minimal.adds, (3 * 40 - 6) * 15);
    // The value reused is the value recomputed.
    const Causal x = normal_problem(40, 3, 5, 630);
    Traffic moved;
    claim("D3", "the two give the same", "Float64, N = 40, Br = 7",
          relative(algorithm_1<double>(x.B, x.C, x.V, 7, 5, false, moved), library(x, "fleet", 7)), 1e-14);

    exactly("D4", "Algorithm 1 as the test writes it: loads Nd + 2NrTc; deviations", input, loads, 0, note);
    exactly("D4", "its stores Nd; deviations", input, stores, 0, note);
    moved = {};
    algorithm_1<double>(x.B, x.C, x.V, 7, 5, false, moved);
    exactly("D4", "its loads for Bc = d, the fewest: Nd + 2Nr", "N = 40, r = 3, d = 5", moved.loads,
            40 * 5 + 2 * 40 * 3, note);
    Matrix O = zeros<double>(40, 5);
    const auto einsum = peak_scalars<double>([&] {
        kit::Scratch<double> all(3 * 40, 5);  // the r summands of (7)
        for (Index j = 0; j < 3; ++j)
            for (Index i = 0; i < 40; ++i) {
                all.row(j * 40 + i) = x.C(i, j) * x.V.row(i);
                if (i > 0) all.row(j * 40 + i) += all.row(j * 40 + i - 1);
            }
        for (Index j = 0; j < 3; ++j)
            for (Index i = 0; i < 40; ++i) O.row(i) += x.B(i, j) * all.row(j * 40 + i);
    });
    exactly("D4", "einsum form as the test writes it: Nrd scalars", "N = 40, r = 3, d = 5", einsum, 40 * 3 * 5, note);
    claim("D4", "einsum form: error", "N = 40, r = 3, d = 5", relative(O, definition(x)), 1e-14);
    for (Index N : {40, 400})
        exactly("D4", "the library in tiles: rd + Br Bc scalars, whatever N",
                sentence("N = ", N, ", r = 3, d = 5, Br = 7, Bc = d"), measured("fleet", {N, 3, 5, 7}).memory,
                15 + 7 * faulty("D4: a tile of Br", 5, 1));
    // Divided, column tiles side by side.
    Index carried_wrong = 0, peak_wrong = 0;
    double most = 0;
    for (const auto& [N, r, d] : {std::array<Index, 3>{7, 3, 5}, {40, 2, 4}, {80, 2, 4}, {16, 1, 1}})
        for (Index Br : {Index{1}, Index{7}, Index{16}, N, N + 5})
            for (Index Bc : {Index{1}, Index{3}, d, d + 2}) {
                Causal y = normal_problem(N, r, d, 631);
                y.B = y.B.cwiseAbs(), y.C = y.C.cwiseAbs();
                std::int64_t carried = 0;
                Matrix out;
                const auto peak =
                    peak_scalars<double>([&, rows = Br, cols = Bc] { out = side_by_side(y, rows, cols, carried); });
                const Index all = r * d + r * ceil_div(d, Bc);
                carried_wrong += carried != all;
                peak_wrong += peak != all + std::min(Br, N) * (std::min(Bc, d) + 2);
                most = worst(most, relative(out, normalised<double>(y.B, y.C, y.V, Matrix::Ones(N, 1))));
            }
    exactly("D4",
            "divided, column tiles side by side, as the test writes it: rd + rTc scalars from row tile to row tile; "
            "deviations",
            "80 sizes N, r, d, Br, Bc", carried_wrong, 0, note);
    exactly("D4", "its peak, one column tile at work: Br(Bc + 2) more; deviations", "the same", peak_wrong, 0, note);
    claim("D4", "what it computes: relative error", "the same", most, 1e-13);
    exactly("D4", "untiled, rank by rank: d scalars", "N = 40, r = 3, d = 5",
            measured("fleet-untiled", {40, 3, 5}).memory, 5);
}

TEST_CASE("D5, D6: sums over ranks by several workers", "[proofs][fleet]") {
    // r workers, each: load the output, then store load + x_j, x_j = 2^j. Every interleaving of these 2r events.
    const auto reachable = [](int r, bool atomic) {
        std::set<int> values;
        std::int64_t schedules = 0;
        std::vector<int> state(static_cast<std::size_t>(r), 0), loaded(state);
        const std::function<void(int)> run = [&](int output) {
            bool done = true;
            for (std::size_t j = 0; j < state.size(); ++j) {
                if (state[j] == 2) continue;
                done = false;
                const int before = loaded[j];
                if (atomic) {
                    state[j] = 2;
                    run(output + (1 << j));
                    state[j] = 0;
                } else if (state[j] == 0) {
                    state[j] = 1, loaded[j] = output;
                    run(output);
                    state[j] = 0, loaded[j] = before;
                } else {
                    state[j] = 2;
                    run(before + (1 << j));
                    state[j] = 1;
                }
            }
            if (done) values.insert(output), ++schedules;
        };
        run(0);
        return std::pair{values, schedules};
    };
    for (int r = 2; r <= 4; ++r) {
        const auto [values, schedules] = reachable(r, false);
        std::set<int> subsets;
        for (int s = 1; s < 1 << r; ++s) subsets.insert(s);
        const auto input = sentence("r = ", r, ", all ", schedules, " schedules");
        exactly("D5", "load, add, store: values reached, 2^r - 1", input, static_cast<std::int64_t>(values.size()),
                (1 << r) - faulty("D5: 2^r", 1, 0));
        exactly("D5", "they are the sums of all non-empty subsets; missing or other", input, values == subsets ? 0 : 1,
                0);
        published_fails("D5", "FA_modify, without atomics: schedules' worst loss over the full sum", input,
                        1 - *values.begin() / real((1 << r) - 1), 0.5);
        const auto safe = reachable(r, true).first;
        exactly("D5", "atomic adds: values reached", input, static_cast<std::int64_t>(safe.size()), 1);
        exactly("D5", "atomic adds: that value is the full sum", input, *safe.begin(), (1 << r) - 1);
    }
    // Neither serial nor atomic: one worker a tile keeps the loop over ranks; or a tree over ranks, each pair by one
    // worker.
    const Causal x = normal_problem(40, 5, 3, 640);
    std::vector<Matrix> parts;
    for (Index j = 0; j < 5; ++j) {
        const Index rank = faulty("D6: the first rank twice", j, std::max(j - 1, Index{0}));
        parts.push_back(definition({x.B.col(rank), x.C.col(rank), x.V}));
    }
    Index rounds = 0;
    for (; parts.size() > 1; ++rounds) {
        std::vector<Matrix> sums;
        for (std::size_t j = 0; j + 1 < parts.size(); j += 2) sums.push_back(parts[j] + parts[j + 1]);
        if (parts.size() % 2) sums.push_back(parts.back());
        parts = std::move(sums);
    }
    exactly("D6", "tree over ranks: rounds, ⌈lg r⌉", "r = 5", rounds, 3, note);
    published_fails("D6", "carried out serially: r - 1 rounds less those of a tree", "r = 5",
                    4.0 - static_cast<double>(rounds), 1, note);
    claim("D6", "tree over ranks: error", "Float64, N = 40, r = 5", relative(parts[0], definition(x)), 1e-14);
    // Column tiles are independent: any order of workers gives the same bits.
    Matrix one_by_one(40, 3);
    Traffic moved;
    for (Index k : {2, 0, 1}) one_by_one.col(k) = algorithm_1<double>(x.B, x.C, x.V.col(k), 7, 1, false, moved);
    claim("D6", "column tiles by workers in any order, no atomics: difference", "N = 40, d = 3, Bc = 1",
          (one_by_one - algorithm_1<double>(x.B, x.C, x.V, 7, 1, false, moved)).cwiseAbs().maxCoeff(), 0);
}

TEST_CASE("D7: two papers on the speed of FleetAttention", "[proofs][fleet]") {
    const Table t = read_table("leet/table3.csv");
    const double fleet = t.number({{"method", "FA"}, {"seq_len_tokens", faulty("D7: FA at 25600", "100000", "25600")}},
                                  "latency_mean_s");
    double least = INFINITY;
    for (const std::string other : {"Cdotp", "Bb", "Recur", "LA"})
        least = fewest(least, fleet / t.number({{"method", other}, {"seq_len_tokens", "100000"}}, "latency_mean_s"));
    // Both sides are what is printed: that they contradict each other is all that can be checked here.
    const Table own = read_table("fleet/table4.csv");
    double rivals = 0;
    for (std::size_t row = 0; row < own.rows.size(); ++row)
        if (own.cell(row, "method") != "FleetAttention")
            rivals = worst(rivals, Table::as_number(own.cell(row, "throughput_unit_not_stated")));
    claim("D7", "fleet: FA has the highest throughput, the next over it", "fleet Table 4",
          rivals / own.number({{"method", "FleetAttention"}}, "throughput_unit_not_stated"), 1, note);
    published_fails("D7", "leet: FA takes, over the next slowest of four", "leet Table 3, N = 100000", least, 1.5,
                    note);
    claim("D7", "FA over LA there, 32.7", "leet Table 3, N = 100000",
          std::abs(fleet / t.number({{"method", "LA"}, {"seq_len_tokens", "100000"}}, "latency_mean_s") - 32.7), 0.05,
          note);
    exactly("D7", "operations do not tell: untiled FleetAttention less row-based", "N = 100, r = 5, d = 3",
            measured("fleet-untiled", {100, 5, 3}).operations.adds - measured("row-based", {100, 5, 3}).operations.adds,
            0);
}
