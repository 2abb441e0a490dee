// The bounds on errors that proofs/ state, as ratios to climb.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/bounds/approximation.hpp"
#include "core/bounds/causal_error.hpp"
#include "core/bounds/stability.hpp"
#include "core/bounds/sums.hpp"
#include "core/distributed/decode.hpp"
#include "core/exact/registry.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/gradient/causal_linear_attention_grad.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/softmax/softmax_attention.hpp"
#include "tests/proofs/adversary.hpp"
#include "tests/proofs/causal.hpp"
#include "tests/proofs/rounding.hpp"

namespace causeway::proofs {
namespace {

using bounds::Approximated;
using bounds::own_roundings;
using bounds::real;
using Long = long double;

double uniform(Generator& draw, double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(draw);
}
double normal(Generator& draw) { return std::normal_distribution<double>()(draw); }

// Numbers [from, from + n) of a point.
Point part(const Point& x, Index from, Index n) { return {x.begin() + from, x.begin() + from + n}; }
Matrix rows(const Point& x, Index from, Index n, Index width) {
    return Matrix::NullaryExpr(n, width,
                               [&](Index i, Index j) { return x[static_cast<std::size_t>(from + i * width + j)]; });
}
void append(Point& to, const Tensor& A) {
    for (Index i = 0; i < A.size(); ++i) to.push_back(A.get(i));
}
bool each(const Point& x, double least, double most) {
    return std::all_of(x.begin(), x.end(), [&](double y) { return std::abs(y) >= least && std::abs(y) <= most; });
}
double roundoff(bool single) { return single ? u32 : u64; }
DType type_of(bool single) { return single ? DType::f32 : DType::f64; }

// ---- One query, of 1, against N keys that are the scores: a point is the scores and the values.

struct Query {
    Point s, v;
    explicit Query(const Point& x) {
        const Index N = static_cast<Index>(x.size()) / 2;
        s = part(x, 0, N), v = part(x, N, N);
    }
    Tensor tensor(const Point& x, DType type) const {
        Tensor out(type, {1, 1, static_cast<Index>(x.size()), 1});
        for (std::size_t i = 0; i < x.size(); ++i) out.set(static_cast<Index>(i), x[i]);
        return out;
    }
    Tensor q(DType type) const { return tensor({1}, type); }
    Tensor k(DType type) const { return tensor(s, type); }
    Tensor values(DType type) const { return tensor(v, type); }
};

// Weights from 1 down to just above the least normal number, and no value so large or small that its part of a sum is
// not a number or subnormal.
bool in_range(const Query& x, bool single) {
    const auto [low, high] = std::minmax_element(x.s.begin(), x.s.end());
    return *high - *low <= (single ? 80 : 690) && each(x.s, 0, single ? 100 : 800) &&
           each(x.v, 1e-2, single ? 1e37 : 1e300);
}

// Bounds of the forms of softmax attention. run gives the output, allowed what it may be off.
Bound attention(const std::string& id, const std::string& name, bool single, Index N,
                std::function<double(const Query&)> run, std::function<Allowed(const Query&)> allowed) {
    Bound b{
        .id = id, .name = name, .single = single, .start = {}, .inside = {}, .share = {}, .gradient = {}, .moves = {}};
    const double u = roundoff(single), lowest = single ? 80 : 690;
    b.start = [=](Generator& draw) {
        Point s, v;
        const bool small = draw() % 2;  // some keys of little weight, or all near the largest
        for (Index j = 0; j < N; ++j) {
            const double down = small && draw() % 2 ? uniform(draw, 0, lowest - 2) : uniform(draw, 0, 2);
            s.push_back(1 - down);
            v.push_back(normal(draw) * std::exp(draw() % 4 ? down : 0) + 0.1);
        }
        s.insert(s.end(), v.begin(), v.end());
        return s;
    };
    b.inside = [=](const Point& x) { return in_range(Query(x), single); };
    b.share = [=](const Point& x) {
        const Query query(x);
        return Attended(query.s, query.v).share(run(query), u, allowed(query));
    };
    b.gradient = [](const Point& x) {
        const Query query(x);
        SoftmaxOptions o;
        o.scale = 1, o.causal = false;
        const auto g = softmax_attention_grad(query.q(DType::f64), query.k(DType::f64), query.values(DType::f64),
                                              query.q(DType::f64), o);
        Point out;
        append(out, g.dk), append(out, g.dv);
        return out;
    };
    // A score lower and its value larger, so that the key has the same part of the output.
    b.moves.push_back([N](Point x, Generator& draw) {
        const auto i = static_cast<std::size_t>(draw() % static_cast<std::size_t>(N));
        const double down = 8 * normal(draw);
        x[i] -= down, x[i + static_cast<std::size_t>(N)] *= std::exp(down);
        return x;
    });
    // Of the 33 scores nearest to each, that whose difference to the largest is rounded most in the direction in which
    // the output grows with the score.
    b.moves.push_back([=, gradient = b.gradient](Point x, Generator& draw) {
        const Point g = gradient(x);
        const double m = *std::max_element(x.begin(), x.begin() + N), up = draw() % 2 ? 1 : -1;
        for (std::size_t i = 0; i < static_cast<std::size_t>(N); ++i) {
            double best = x[i], most = 0;
            for (int step = -16; step <= 16; ++step) {
                const double near = x[i] + step * std::abs(x[i]) * 2 * u,
                             score = single ? static_cast<double>(static_cast<float>(near)) : near;
                if (score >= m) continue;
                const Long exact = static_cast<Long>(score) - m;
                const Long rounded =
                    single ? static_cast<Long>(static_cast<float>(score - m)) : static_cast<Long>(score - m);
                const double gain = up * g[i] * static_cast<double>(rounded - exact);
                if (gain > most) most = gain, best = score;
            }
            x[i] = best;
        }
        return x;
    });
    return b;
}

// The output of b over what another statement allows it.
void refute(Bound& b, const std::string& text, std::function<double(const Query&)> run, const Allowed& allowed) {
    const double u = roundoff(b.single);
    b.refuted = text;
    b.refuted_share = [=](const Point& x) {
        const Query query(x);
        return Attended(query.s, query.v).share(run(query), u, allowed);
    };
}

Bound decoding(const std::string& id, const std::string& name, int algorithm, bool single, Index N, Index p) {
    const DType type = type_of(single);
    const auto run = [=](const Query& x) {
        return tree_decode(x.q(type), x.k(type), x.values(type),
                           {.shards = static_cast<int>(p), .scale = 1, .algorithm = algorithm})
            .O.get(0);
    };
    Bound b = attention(id, name, single, N, run, [=](const Query& x) {
        return of_decode(algorithm, N, p, algorithm == 3 ? largest_lse(x.s, p) : 0);
    });
    if (algorithm == 0 && N == 2) refute(b, "2u(3(⌈N/p⌉ + ⌈lg p⌉) + ln N + 4) Σ P|v|", run, without_weights(2, N));
    if ((algorithm == 1 && N == 4) || (algorithm == 2 && N == 3))
        refute(b, "the bound of the packed form", run, of_decode(0, N, p));
    return b;
}

Bound attention_call(const std::string& name, const std::string& method, bool single, Index N) {
    const DType type = type_of(single);
    return attention(
        "H5", name, single, N,
        [=](const Query& x) {
            SoftmaxOptions o;
            o.scale = 1, o.causal = false, o.method = method;
            return softmax_attention(x.q(type), x.k(type), x.values(type), o).O.get(0);
        },
        [=](const Query&) { return method == "flash" ? of_flash(N) : of_tree(real(N), N); });
}

// H5: leaves merged one by one, or in pairs.
void merging(std::vector<Bound>& all) {
    for (const bool pairs : {false, true}) {
        const Index N = 16;
        const double depth = real(bounds::merge_depth(N, pairs));
        const std::string shape = pairs ? "16 leaves in pairs" : "16 leaves one by one";
        Bound mean = attention(
            "H5", "H5 n/D, " + shape, true, N,
            [=](const Query& x) {
                const auto t = bounds::merged<float>(x.s, x.v, pairs);
                return static_cast<double>(t[2]) / static_cast<double>(t[1]);
            },
            [=](const Query&) { return of_tree(depth, N); });
        Bound sum = mean;
        sum.name = "H5 D, " + shape;
        sum.share = [=](const Point& x) {
            const Query query(x);
            const float D = bounds::merged<float>(query.s, query.v, pairs)[1];
            return bounds::denominator("", D, Attended(query.s, query.v), depth, N, u32).share();
        };
        all.push_back(mean), all.push_back(sum);
    }
    all.push_back(attention(
        "H5", "H5 n/D, Float64, 4 leaves in pairs", false, 4,
        [](const Query& x) {
            const auto t = bounds::merged<double>(x.s, x.v, true);
            return t[2] / t[1];
        },
        [](const Query&) { return of_tree(2, 4); }));
    all.push_back(attention_call("H5 softmax_attention, flash, N = 4", "flash", true, 4));
    all.push_back(attention_call("H5 softmax_attention, flash, N = 100", "flash", true, 100));
    all.push_back(attention_call("H5 softmax_attention, standard, N = 4", "standard", true, 4));
}

void decoding(std::vector<Bound>& all) {
    all.push_back(decoding("H11", "H11 packed, N = 2, p = 2", 0, true, 2, 2));
    all.push_back(decoding("H11", "H11 packed, Float64, N = 2, p = 2", 0, false, 2, 2));
    all.push_back(decoding("H11", "H11 packed, N = 40, p = 5", 0, true, 40, 5));
    all.push_back(decoding("H7", "H7 Algorithm 1, N = 4, p = 4", 1, true, 4, 4));
    all.push_back(decoding("H7", "H7 Algorithm 1, Float64, N = 8, p = 8", 1, false, 8, 8));
    all.push_back(decoding("H8", "H8 Algorithm 2, N = 3, p = 3", 2, true, 3, 3));
    all.push_back(decoding("H8", "H8 Algorithm 2, Float64, N = 8, p = 4", 2, false, 8, 4));
    all.push_back(decoding("H9", "H9 Algorithm 3, N = 2, p = 2", 3, true, 2, 2));
    all.push_back(decoding("H9", "H9 Algorithm 3, N = 12, p = 4", 3, true, 12, 4));
    all.push_back(attention(
        "H11", "H11 ring, N = 6, p = 3", true, 6,
        [](const Query& x) {
            return ring_decode(x.q(DType::f32), x.k(DType::f32), x.values(DType::f32), {.shards = 3, .scale = 1})
                .O.get(0);
        },
        [](const Query&) { return of_tree(6, 6); }));

    Bound energy = decoding("H7", "H7 energy of Algorithm 1, N = 6, p = 3", 1, true, 6, 3);
    energy.share = [](const Point& x) {
        const Query query(x);
        const double F = static_cast<double>(Attended(query.s, query.v).lse),
                     got = tree_decode(query.q(DType::f32), query.k(DType::f32), query.values(DType::f32),
                                       {.shards = 3, .scale = 1, .algorithm = 1})
                               .lse.get(0);
        return std::abs(got - F) / (u32 * bounds::energy_roundings(2, 2, 6, F));
    };
    all.push_back(energy);

    // Scores that are rounded: a point is the query, too.
    Bound scores = decoding("H11", "H11 rounded scores, N = 3, p = 3", 0, true, 3, 3);
    const auto split = [](const Point& x) { return std::pair{x[0], Query(part(x, 1, 6))}; };
    scores.start = [start = scores.start](Generator& draw) {
        Point x = start(draw);
        const double q = uniform(draw, 10, 200), offset = draw() % 2 ? uniform(draw, 0, 80) : 0;
        for (std::size_t i = 0; i < 3; ++i) x[i] = x[i] / q + offset;
        x.insert(x.begin(), q);
        return x;
    };
    const auto products = [split](const Point& x) {  // exact in Float64
        auto [q, query] = split(x);
        for (double& s : query.s) s *= q;
        return query;
    };
    scores.inside = [products](const Point& x) {
        const Query query = products(x);
        const auto [low, high] = std::minmax_element(query.s.begin(), query.s.end());
        return *high - *low <= 80 && each(query.s, 0, 1e5) && each(query.v, 1e-2, 1e37);
    };
    scores.share = [=](const Point& x) {
        const auto [q, query] = split(x);
        const Query exact = products(x);
        double largest = 0;
        for (const double s : exact.s) largest = std::max(largest, std::abs(s));
        const double got = tree_decode(query.tensor({q}, DType::f32), query.k(DType::f32), query.values(DType::f32),
                                       {.shards = 3, .scale = 1})
                               .O.get(0);
        return Attended(exact.s, exact.v).share(got, u32, of_decode(0, 3, 3).plus(2 * largest));
    };
    scores.gradient = nullptr, scores.moves.clear();
    all.push_back(scores);

    // H10: sums of e^{s - B}(1, v) of 2 shards of 4 keys, B a bound on the scores; a point begins with B.
    Bound one_sum = attention("H10", "H10 one sum, N = 8, p = 2", true, 8, {}, {});
    const auto rest = [](const Point& x) { return Query(part(x, 1, 16)); };
    one_sum.start = [start = one_sum.start](Generator& draw) {
        Point x = start(draw);
        x.insert(x.begin(), uniform(draw, 1, 80));
        return x;
    };
    one_sum.inside = [rest](const Point& x) {
        const Query query = rest(x);
        const auto [low, high] = std::minmax_element(query.s.begin(), query.s.end());
        return x[0] >= *high && x[0] - *low <= 80 && each(x, 0, 1e37) && each(query.v, 1e-2, 1e37);
    };
    one_sum.share = [rest](const Point& x) {
        const Query query = rest(x);
        const double z = bounds::one_sum<float>(query.s, query.v, 2, x[0]);
        return Attended(query.s, query.v).share(z, u32, bounds::of_one_sum(query.s, 2, x[0]));
    };
    one_sum.gradient = nullptr, one_sum.moves.clear();
    all.push_back(one_sum);

    // H12: the scores shifted by h, the first number, and the maximum taken away again.
    Bound shifted = one_sum;
    shifted.id = "H12", shifted.name = "H12 shifted scores, N = 8";
    shifted.start = [start = one_sum.start](Generator& draw) {
        Point x = start(draw);
        x[0] = std::exp(uniform(draw, 0, 8)) * (draw() % 2 ? 1 : -1);
        return x;
    };
    shifted.inside = [rest](const Point& x) { return std::abs(x[0]) <= 1e4 && in_range(rest(x), true); };
    shifted.share = [rest](const Point& x) {
        const Query query = rest(x);
        const bounds::Shifted<float> shift(query.s, query.v, x[0]);
        return Attended(query.s, query.v).share(shift.z, u32, shift.allowed(8));
    };
    all.push_back(shifted);
}

// ---- Causal linear attention, d = 1: a point is B and C [N, r] and V [N, 1].

Causal causal_of(const Point& x, Index N, Index r) {
    return {rows(x, 0, N, r), rows(x, N * r, N, r), rows(x, 2 * N * r, N, 1)};
}

// run: the output; k: the roundings of its budget; g: a decay.
Bound linear(const std::string& id, const std::string& name, Index N, Index r, double k, double g,
             std::function<Matrix(const Causal&)> run, std::function<Point(const Causal&, const Matrix& dO)> grad) {
    Bound b{
        .id = id, .name = name, .single = true, .start = {}, .inside = {}, .share = {}, .gradient = {}, .moves = {}};
    const auto size = static_cast<std::size_t>(N * (2 * r + 1));
    b.start = [=](Generator& draw) {
        Point x(size, 1);
        const auto kind = draw() % 4;
        if (kind == 0)
            for (double& y : x) y = normal(draw);
        if (kind == 1)
            for (double& y : x) y = uniform(draw, 0.05, 1);
        if (kind == 2) std::fill(x.begin(), x.end(), uniform(draw, 0.05, 1));
        if (kind == 3) {  // 1, and then what it swallows
            const double lost = 0.98 * u32;
            std::fill(x.end() - N + 1, x.end(), lost);
        }
        return x;
    };
    b.inside = [](const Point& x) { return each(x, 1e-9, 1e9); };
    b.share = [=](const Point& x) {
        const Causal problem = causal_of(x, N, r);
        const bounds::CausalReference exact(problem.B, problem.C, problem.V, g);
        return exact.error("", tensor(run(problem)), k, u32).share();
    };
    b.gradient = [=](const Point& x) {  // of the output that is off most
        const Causal problem = causal_of(x, N, r);
        const Matrix error = (run(problem) - definition(problem, g)).cwiseAbs().cwiseQuotient(absolute(problem, g));
        Matrix dO = zeros<double>(N, 1);
        Index worst_row = 0;
        error.col(0).maxCoeff(&worst_row);
        dO(worst_row, 0) = 1;
        return grad(problem, dO);
    };
    return b;
}

Point causal_gradient(const Causal& x, const Matrix& dO, double g) {
    CausalOptions o;
    if (g != 1) o.decay = {g};
    const CausalGradient d = causal_linear_attention_grad(tensor(x.B), tensor(x.C), tensor(x.V), tensor(dO), o);
    Point out;
    append(out, d.dB), append(out, d.dC), append(out, d.dV);
    return out;
}

// Linear attention in chunks of C tokens, in Float32: every product and every sum is rounded once, and the C terms of a
// tile are added onto q S one after another. A product or a sum in Float64, rounded to Float32, is that of Float32.
Matrix chunkwise_in_a_row(const Causal& x, Index C) {
    const Index N = x.B.rows(), r = x.B.cols();
    const auto times = [](float a, float b) { return static_cast<float>(double{a} * double{b}); };
    const auto plus = [](float a, float b) { return static_cast<float>(double{a} + double{b}); };
    const Eigen::MatrixXf Q = x.B.cast<float>(), K = x.C.cast<float>(), V = x.V.cast<float>();
    Eigen::VectorXf S = Eigen::VectorXf::Zero(r);
    Matrix O = zeros<double>(N, 1);
    for (Index t0 = 0; t0 < N; t0 += C) {
        const Index t1 = std::min(t0 + C, N);
        for (Index i = t0; i < t1; ++i) {
            float o = 0;
            for (Index a = 0; a < r; ++a) o = plus(o, times(Q(i, a), S(a)));
            for (Index j = t0; j <= i; ++j) {
                float score = 0;
                for (Index a = 0; a < r; ++a) score = plus(score, times(Q(i, a), K(j, a)));
                o = plus(o, times(score, V(j, 0)));
            }
            O(i, 0) = double{o};
        }
        for (Index a = 0; a < r; ++a) {
            float sum = 0;
            for (Index j = t0; j < t1; ++j) sum = plus(sum, times(K(j, a), V(j, 0)));
            S(a) = plus(S(a), sum);
        }
    }
    return O;
}

void linear(std::vector<Bound>& all) {
    const Index N = 32, r = 1, block = 8;
    for (const exact::Method& m : exact::methods()) {
        const Index b = m.block > 0 ? block : 0;
        all.push_back(linear(
            "B7", "B7 " + m.name + ", N = 32", N, r, real(exact::roundings(m, {N, r, 1, b})), 1,
            [name = m.name, b](const Causal& x) { return library(x, name, b, 1, DType::f32); },
            [](const Causal& x, const Matrix& dO) { return causal_gradient(x, dO, 1); }));
    }
    const double g = static_cast<float>(0.9);
    all.push_back(linear(
        "C3", "C3 recursion with decay 0.9, N = 32", N, r,
        real(exact::roundings(exact::method("recursion"), {N, r, 1, block}) + 2 * N), g,
        [=](const Causal& x) { return library(x, "recursion", block, g, DType::f32); },
        [=](const Causal& x, const Matrix& dO) { return causal_gradient(x, dO, g); }));
    for (const std::string mode : {"recurrent", "parallel", "chunkwise"}) {
        const bool chunks = mode == "chunkwise";
        LinearOptions o;
        o.mode = mode, o.chunk = block;
        const double k = real(chunks ? 2 * block + ceil_div(N, block) + r : N + r);
        all.push_back(linear(
            chunks ? "F4" : "F3", (chunks ? "F4 " : "F3 ") + mode + ", N = 32", N, r, k, 1,
            [=](const Causal& x) {
                return matrix(
                    linear_attention(tensor(x.B, DType::f32), tensor(x.C, DType::f32), tensor(x.V, DType::f32), o).O);
            },
            [=](const Causal& x, const Matrix& dO) {
                const LinearGradient d = linear_attention_grad(tensor(x.B), tensor(x.C), tensor(x.V), tensor(dO), o);
                Point out;
                append(out, d.dq), append(out, d.dk), append(out, d.dv);
                return out;
            }));
    }
    // The same sums in an order that no compiler or processor changes: what it refutes, it refutes everywhere.
    Bound in_a_row = linear(
        "F4", "F4 chunkwise, one sum in a row, N = 32", N, r, real(2 * block + ceil_div(N, block) + r), 1,
        [=](const Causal& x) { return chunkwise_in_a_row(x, block); },
        [](const Causal& x, const Matrix& dO) { return causal_gradient(x, dO, 1); });
    const double all_roundings = real(2 * block + ceil_div(N, block) + r),
                 apart = real(block + ceil_div(N, block) + r + 1);
    in_a_row.refuted = "the budget C + ⌈n/C⌉ + dk + 1, of a tile that is summed apart";
    in_a_row.refuted_share = [=, share = in_a_row.share](const Point& x) {
        return share(x) * e(all_roundings, u32) / e(apart, u32);
    };
    all.push_back(in_a_row);
}

// ---- Approximated attention over the reals: A and its approximation row by row, then V; row i of both to column i.

bounds::Approximated approximated(const Point& x, Index n) {
    return {rows(x, 0, n, n), rows(x, n * n, n, n), rows(x, 2 * n * n, n, 1)};
}

// Where no sum cancels and the errors are not roundings of this test.
bool plain(const Approximated& y) {
    const double largest = y.V.cwiseAbs().maxCoeff();
    bool out = largest <= 1e3 && y.diameter(y.n() - 1) >= std::max(1e-3, 1e-2 * largest);
    for (Index i = 0; i < y.n(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        out = out && y.A.row(i).head(i + 1).minCoeff() > 0 && y.d[at] <= 1e3 && y.d[at] >= 1e-3 &&
              std::abs(y.dt[at]) >= 1e-2 * y.At.row(i).head(i + 1).lpNorm<1>() && y.difference(i) >= 1e-2 * y.d[at] &&
              (y.A - y.At).cwiseAbs().maxCoeff() <= 1e3;
    }
    return out;
}

Bound approximation(const std::string& id, const std::string& name, Index n,
                    std::function<double(const Approximated&)> share, std::function<bool(const Approximated&)> where) {
    Bound b{
        .id = id, .name = name, .single = false, .start = {}, .inside = {}, .share = {}, .gradient = {}, .moves = {}};
    b.start = [=](Generator& draw) {
        Point x(static_cast<std::size_t>(2 * n * n + n));
        const auto half = static_cast<std::size_t>(n * n);
        for (std::size_t i = 0; i < half; ++i) {
            x[i] = std::abs(normal(draw)) + 0.05;
            x[half + i] = x[i] * (1 + 0.3 * normal(draw));
        }
        for (std::size_t i = 2 * half; i < x.size(); ++i) x[i] = normal(draw);
        return x;
    };
    b.inside = [=](const Point& x) {
        const Approximated y = approximated(x, n);
        return plain(y) && (!where || where(y));
    };
    b.share = [=](const Point& x) { return share(approximated(x, n)) / own_roundings; };
    b.gradient = [=](const Point& x) {  // of ‖Õ - O‖² / 2; A = A Iᵀ
        const Approximated y = approximated(x, n);
        CausalOptions o;
        o.normalize = true;
        const Tensor one = tensor(Matrix::Identity(n, n)), V = tensor(y.V);
        const CausalGradient to = causal_linear_attention_grad(tensor(y.At), one, V, tensor(y.off), o),
                             from = causal_linear_attention_grad(tensor(y.A), one, V, tensor(Matrix(-y.off)), o);
        Point out;
        append(out, from.dB), append(out, to.dB);
        for (Index i = 0; i < n; ++i) out.push_back(to.dV.get(i) + from.dV.get(i));
        return out;
    };
    return b;
}

void approximations(std::vector<Bound>& all) {
    all.push_back(approximation("A9", "A9 ‖Δ_i‖₁ diam/|d̃_i|, row 5", 5,
                                [](const Approximated& y) { return y.by_sum(y.n() - 1).share(); }, {}));
    all.push_back(approximation(
        "A9", "A9 ε/(1-ε) diam, row 5", 5, [](const Approximated& y) { return y.by_share(y.n() - 1).share(); },
        [](const Approximated& y) { return y.share_of(y.n() - 1) < 0.999; }));
    all.push_back(approximation("A10", "A10 by ‖A - Ã‖_F, N = 5", 5,
                                [](const Approximated& y) { return y.by_frobenius().share(); }, {}));
    all.push_back(approximation("A10", "A10 by ‖A - Ã‖, N = 5", 5,
                                [](const Approximated& y) { return y.by_operator().share(); }, {}));
}

// ---- Sums and products on their own.

Bound numbers(const std::string& id, const std::string& name, bool single, std::function<Point(Generator&)> start,
              std::function<bool(const Point&)> inside, std::function<double(const Point&)> share) {
    return {id, name, single, std::move(start), std::move(inside), std::move(share), {}, {}};
}

std::function<Point(Generator&)> uniforms(std::size_t n, double low, double high) {
    return [=](Generator& draw) {
        Point x(n);
        for (double& y : x) y = uniform(draw, low, high);
        return x;
    };
}

void sums(std::vector<Bound>& all) {
    // (b cᵀ) ⊙ M and diag(b) M diag(c), an entry: b, M, c.
    all.push_back(numbers(
        "D1", "D1 b M c against the reals", true, uniforms(3, 1, 2), [](const Point& x) { return each(x, 1e-6, 1e6); },
        [](const Point& x) { return bounds::Sides<float>(x[0], x[1], x[2]).off / e(2, u32); }));
    all.push_back(numbers(
        "D1", "D1 one side against the other", true, uniforms(3, 1, 2),
        [](const Point& x) { return each(x, 1e-6, 1e6); },
        [](const Point& x) { return bounds::Sides<float>(x[0], x[1], x[2]).apart / (2 * e(2, u32)); }));
    // The discounted sum of 60 numbers; the last is λ.
    all.push_back(numbers(
        "E1", "E1 discounted sum, N = 60", true,
        [](Generator& draw) {
            const double v = uniform(draw, 0.1, 1);
            Point x(61, v);
            if (draw() % 2)
                for (double& y : x) y = uniform(draw, 0.1, 1);
            x.back() = uniform(draw, 0.3, 0.9);
            return x;
        },
        [](const Point& x) { return each(x, 1e-6, 1e6) && x.back() >= 0.1 && x.back() <= 0.95; },
        [](const Point& x) {
            return bounds::discounted_sum<float>({x.data(), x.size() - 1}, x.back(), u32).share();
        }));
    // The product of 16 gates after the first.
    all.push_back(numbers(
        "E4", "E4 Λ of 16 gates", true, uniforms(16, 0.5, 1),
        [](const Point& x) { return each(x, 0.02, 1) && *std::min_element(x.begin(), x.end()) > 0; },
        [](const Point& x) {
            bounds::RunningProduct<float> product;
            for (const double a : x) product.multiply(a);
            return product.error() / e(16, u32);
        }));
    // Carries of 12 blocks, one number each, rebuilt from the last by subtraction.
    all.push_back(numbers(
        "G10", "G10 carries rebuilt, T = 12", true, uniforms(12, -1, 1),
        [](const Point& x) { return each(x, 1e-6, 1e6); },
        [](const Point& x) { return bounds::rebuilt_carries<float>(x, u32).share(); }));
    // Six scores, six y = ζ·v, the series to the second moment.
    all.push_back(numbers(
        "H2", "H2 remainder after two moments", false, uniforms(12, -1, 1),
        [](const Point& x) {
            return each(x, 0, 30) && *std::max_element(x.begin() + 6, x.end()) >= 0.1 && each(part(x, 6, 6), 0, 5);
        },
        [](const Point& x) {
            const std::span<const double> all_of(x);
            return bounds::moments(all_of.first(6), all_of.last(6), 2).share() / own_roundings;
        }));
}

// ---- F9: 6 keys in two dimensions, β and gates.
void stability(std::vector<Bound>& all) {
    const Index n = 6;
    const auto solved = [](const Point& x) {
        return bounds::DeltaInverse(rows(x, 0, n, 2), rows(x, 2 * n, n, 1), rows(x, 3 * n, n, 1));
    };
    const auto inside = [](const Point& x) {
        bool out = true;
        for (std::size_t t = 0; t < 6; ++t) {
            const double squared = x[2 * t] * x[2 * t] + x[2 * t + 1] * x[2 * t + 1], beta = x[12 + t], a = x[18 + t];
            out = out && squared <= 1 && beta >= 1e-3 && beta * squared <= 2 && beta <= 1e3 && a >= 0 && a <= 1;
        }
        return out;
    };
    const auto start = [](Generator& draw) {
        Point x(24);
        for (std::size_t t = 0; t < 6; ++t) {
            const double length = uniform(draw, 0.5, 1), angle = uniform(draw, -1, 1) * (draw() % 2 ? 3.1 : 0.1);
            x[2 * t] = length * std::cos(angle), x[2 * t + 1] = length * std::sin(angle);
            x[12 + t] = uniform(draw, 0.1, 1.99) / (length * length), x[18 + t] = uniform(draw, 0.5, 1);
        }
        return x;
    };
    all.push_back(numbers("F9", "F9 entries of (I+T)⁻¹ over β, C = 6", false, start, inside,
                          [=](const Point& x) { return solved(x).entries().share() / own_roundings; }));
    all.push_back(numbers("F9", "F9 ‖(I+T)⁻¹‖ over 1 + C max β, C = 6", false, start, inside,
                          [=](const Point& x) { return solved(x).operator_norm().share() / own_roundings; }));
}

}  // namespace

std::vector<Bound> bounds() {
    std::vector<Bound> all;
    approximations(all), linear(all), sums(all), stability(all), merging(all), decoding(all);
    return all;
}

}  // namespace causeway::proofs
