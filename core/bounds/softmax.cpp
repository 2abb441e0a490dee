// Claims H5 to H12: merging partial softmaxes, tree and ring decoding (proofs/energy.md, proofs/tree.md).
#include "core/bounds/softmax.hpp"

#include <limits>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"
#include "core/distributed/decode.hpp"
#include "core/softmax/softmax_attention.hpp"

namespace causeway::bounds {
namespace {

double least_normal(const Given& given) {
    return given.type() == DType::f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

// One query against a head: scores, values by column, and the calls' arguments.
struct Decoded {
    Tensor q, k, v;
    std::vector<Long> s;
    std::vector<Point> columns;
    double scale;
    double scores_off = 0;  // what a score may be off by, in u

    Index N() const { return static_cast<Index>(s.size()); }
};

std::vector<Point> columns_of(const Matrix& V) {
    std::vector<Point> out;
    for (Index c = 0; c < V.cols(); ++c) out.emplace_back(V.col(c).data(), V.col(c).data() + V.rows());
    return out;
}

// Scores s and values v of a query that is 1: each score is exact.
Decoded of_scores(const Given& given) {
    Decoded out;
    const Point s = given.numbers("s");
    out.q = Tensor::full(given.type(), {1, 1}, 1), out.k = Tensor(given.type(), {static_cast<Index>(s.size()), 1});
    for (Index i = 0; i < out.k.size(); ++i) out.k.set(i, s[static_cast<std::size_t>(i)]);
    out.v = given.head("v", 0);
    out.s.assign(s.begin(), s.end());
    out.columns = columns_of(given.matrix("v"));
    out.scale = 1;
    return out;
}

// A head of q, k, v. A score is a sum of d products times the scale, which is rounded itself: d + 2 roundings of the
// sum of sizes. Errors η of the scores move an output by at most 2 max|η| Σ P|v| (H11, rounded scores).
Decoded of_head(const Given& given, Index h) {
    interrupt::check();
    Decoded out;
    out.q = given.head("q", h), out.k = given.head("k", h), out.v = given.head("v", h);
    const Matrix q = given.matrix("q", h), k = given.matrix("k", h);
    const Index d = q.cols();
    out.scale = given.number("scale", 1 / std::sqrt(real(d)));
    for (Index a = 0; a < k.rows(); ++a) {
        Long s = 0, size = 0;
        for (Index i = 0; i < d; ++i) {
            const Long x = static_cast<Long>(q(0, i)) * k(a, i);
            s += x, size += std::abs(x);
        }
        out.s.push_back(s * out.scale);
        out.scores_off = worst(out.scores_off, static_cast<double>(size * std::abs(out.scale)) * real(d + 2));
    }
    out.columns = columns_of(given.matrix("v", h));
    return out;
}

// The output's worst entry. As long as what a term moves is small the bound is of first order in u; beyond, where
// `all_sizes`, it grows by 1 + 2x (H5). Weights below the least normal number may be lost: up to so much of each value.
Row worst_entry(const Given& given, const std::string& what, const Decoded& x, const Tensor& O,
                const Allowed& allowed) {
    const double least = least_normal(given), u = given.u();
    const Long top = *std::max_element(x.s.begin(), x.s.end());
    return nearest(static_cast<Index>(x.columns.size()), [&](Index c) {
        const Point& values = x.columns[static_cast<std::size_t>(c)];
        const Attended exact(x.s, values);
        Row row = exact.row(what, O.get(c), u, allowed.plus(2 * x.scores_off));
        const double moved = u * (allowed.mean + exact.farthest);
        if (moved > 1.3 * std::sqrt(u)) row.bound *= 1 + 2 * moved;
        for (std::size_t a = 0; a < x.s.size(); ++a)
            if (std::exp(x.s[a] - top) < 2 * static_cast<Long>(least)) row.bound += 2 * least * std::abs(values[a]);
        return row;
    });
}

// rows(head) of every head, of each row the nearest to its bound.
template <class F>
std::vector<Row> over_heads(const Given& given, F&& rows) {
    std::vector<Row> out;
    for (Index h = 0; h < given.heads(); ++h) {
        const std::vector<Row> of_this = rows(of_head(given, h));
        if (h == 0) out = of_this;
        else
            for (std::size_t i = 0; i < out.size(); ++i) out[i] = nearer(out[i], of_this[i]);
    }
    return out;
}

Tensor attention(const Decoded& x, const std::string& method) {
    SoftmaxOptions o;
    o.scale = x.scale, o.causal = false, o.method = method;
    return softmax_attention(x.q, x.k, x.v, o).O;
}

Row flash(const Given& given, const Decoded& x) {
    return worst_entry(given, "softmax_attention, flash", x, attention(x, "flash"), of_flash(x.N()));
}

Row standard(const Given& given, const Decoded& x) {
    return worst_entry(given, "softmax_attention, standard", x, attention(x, "standard"), of_tree(real(x.N()), x.N()));
}

std::vector<Row> merging(const Given& given) {
    const Decoded x = of_scores(given);
    const Point s = given.numbers("s");
    std::vector<Row> out;
    for (const bool pairs : {false, true}) {
        const double depth = real(merge_depth(x.N(), pairs));
        const std::string shape = pairs ? ", merged in pairs" : ", merged one by one";
        Tensor means(DType::f64, {1, static_cast<Index>(x.columns.size())});
        double D = 0;
        for (std::size_t c = 0; c < x.columns.size(); ++c) {
            const auto put = [&](const auto& triple) {
                D = static_cast<double>(triple[1]);
                means.set(static_cast<Index>(c), static_cast<double>(triple[2] / triple[1]));
            };
            if (given.type() == DType::f64) put(merged<double>(s, x.columns[c], pairs));
            else put(merged<float>(s, x.columns[c], pairs));
        }
        const Attended exact(x.s, x.columns[0]);
        out.push_back(denominator("D, relative" + shape, D, exact, depth, x.N(), given.u()));
        out.push_back(worst_entry(given, "n/D" + shape, x, means, of_tree(depth, x.N())));
    }
    out.push_back(flash(given, x)), out.push_back(standard(given, x));
    return out;
}

// Algorithms 1 to 3, or packed triples (0), on the head.
Row decoded(const Given& given, const Decoded& x, int algorithm) {
    const Index p = given.whole("shards", 2), rounds = ceil_lg(p);
    if (p > x.N()) fail("shards: ", p, ", expected at most the ", x.N(), " keys");
    if (p > 1024) fail("shards: ", p, ", expected at most 1024");
    const double t = real(ceil_div(x.N(), p));
    if (algorithm != 0 && given.u() == u32 && t + real(rounds) > 1700)
        fail("shards: ", p, " leave ", t, " keys to a shard, and the bound is stated for at most 1700 in Float32");
    const Tensor O =
        tree_decode(x.q, x.k, x.v, {.shards = static_cast<int>(p), .scale = x.scale, .algorithm = algorithm}).O;
    const double lse = algorithm == 3 ? largest_lse(x.s, p) : 0;
    return worst_entry(
        given,
        (algorithm == 0 ? "packed triples" : "Algorithm " + std::to_string(algorithm)) + ", p = " + std::to_string(p),
        x, O, of_decode(algorithm, x.N(), p, lse, rounds));
}

std::function<std::vector<Row>(const Given&)> of_algorithm(int algorithm) {
    return [algorithm](const Given& given) {
        return over_heads(given, [&](const Decoded& x) { return std::vector<Row>{decoded(given, x, algorithm)}; });
    };
}

std::vector<Row> same_activations(const Given& given) {
    return over_heads(given, [&](const Decoded& x) {
        const Index p = given.whole("shards", 2);
        std::vector<Row> out{decoded(given, x, 0)};
        const Tensor O = ring_decode(x.q, x.k, x.v, {.shards = static_cast<int>(p), .scale = x.scale}).O;
        out.push_back(worst_entry(given, "ring, p = " + std::to_string(p), x, O, of_tree(real(x.N()), x.N())));
        out.push_back(flash(given, x)), out.push_back(standard(given, x));
        return out;
    });
}

// The scores and values of H10 and H12, whose sums the bounds are of are written here: f(zero, values of a column).
template <class F>
Row by_columns(const Given& given, const std::string& what, F&& f) {
    const Decoded x = of_scores(given);
    Tensor O(DType::f64, {1, static_cast<Index>(x.columns.size())});
    Allowed allowed{0, 0};
    for (std::size_t c = 0; c < x.columns.size(); ++c) {
        const auto put = [&](auto zero) {
            const auto [z, of] = f(zero, x.columns[c]);
            O.set(static_cast<Index>(c), z), allowed = of;
        };
        given.type() == DType::f64 ? put(0.0) : put(0.0f);
    }
    return worst_entry(given, what, x, O, allowed);
}

std::vector<Row> in_one_sum(const Given& given) {
    const Point s = given.numbers("s");
    const auto [low, high] = std::minmax_element(s.begin(), s.end());
    const double B = given.number("bound", *high), room = given.type() == DType::f64 ? 700 : 87;
    const Index p = given.whole("shards", 2);
    if (p > static_cast<Index>(s.size())) fail("shards: ", p, ", expected at most the ", s.size(), " keys");
    if (!(B >= *high && B - *low < room))
        fail("bound: ", number_text(B), ", expected at least the largest score, ", number_text(*high),
             ", and less than ", room, " above the least, ", number_text(*low));
    return {by_columns(given, "one sum, p = " + std::to_string(p), [&](auto zero, const Point& v) {
        return std::pair(one_sum<decltype(zero)>(s, v, p, B), of_one_sum(s, p, B));
    })};
}

std::vector<Row> shifted(const Given& given) {
    const Point s = given.numbers("s");
    const double h = given.number("shift", 0);
    return {by_columns(given, "scores shifted by " + number_text(h), [&](auto zero, const Point& v) {
        const Shifted<decltype(zero)> x(s, v, static_cast<double>(static_cast<decltype(zero)>(h)));
        return std::pair(x.z, x.allowed(static_cast<Index>(s.size())));
    })};
}

const Input scores{"s", "[N]", "scores of one query"}, scored_values{"v", "[N, d]", "the values"};
const Input shards{"shards", "whole number", "shards of the keys; 2", true};
const std::vector<Input> one_query{{"q", "[..., 1, r]", "one query"},
                                   {"k", "[..., N, r]", "the keys"},
                                   {"v", "[..., N, d]", "the values"},
                                   {"scale", "number", "factor on scores; 1/√r", true},
                                   shards};

}  // namespace

Allowed of_one_sum(const Point& s, Index p, double bound) {
    const Index N = static_cast<Index>(s.size());
    double most = 0;
    for (const double score : s) most = std::max(most, bound - score);
    return of_decode(0, N, p, 0, ceil_lg(p)).plus(2 * most);
}

std::vector<Claim> softmax_claims() {
    const std::string energy = "proofs/energy.md", tree = "proofs/tree.md";
    return {
        {"H5",
         "partial softmaxes merged in any order",
         energy,
         "tree 5.1 eq. 7",
         {scores, scored_values},
         merging,
         "D: the sum of the weights exp(s - max s); n: that of the weighted values"},
        {"H7", "tree decoding by Algorithm 1: error of the output", tree, "tree Algorithm 1", one_query,
         of_algorithm(1)},
        {"H8", "tree decoding by Algorithm 2: error of the output", tree, "tree Algorithm 2", one_query,
         of_algorithm(2)},
        {"H9", "tree decoding by Algorithm 3: error of the output", tree, "tree Algorithm 3", one_query,
         of_algorithm(3)},
        {"H10",
         "one sum with a bound on the scores: its error",
         tree,
         "derived",
         {scores, scored_values, {"bound", "number", "at least every score; the largest", true}, shards},
         in_one_sum},
        {"H11", "tree, ring and one worker: error of the output", tree, "tree 6", one_query, same_activations},
        {"H12",
         "a shift of all scores: its roundings",
         energy,
         "tree App. F",
         {scores, scored_values, {"shift", "number", "added to all scores; 0", true}},
         shifted},
    };
}

}  // namespace causeway::bounds
