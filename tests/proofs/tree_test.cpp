// Checks of proofs/tree.md: claims H5 to H16, H20, H22 and H23.
#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <random>
#include <string>

#include "core/distributed/collectives.hpp"
#include "core/distributed/decode.hpp"
#include "core/distributed/merge.hpp"
#include "core/distributed/threads.hpp"
#include "tests/catch.hpp"
#include "tests/core/distributed/problems.hpp"
#include "tests/proofs/claims.hpp"

using namespace causeway;
using namespace causeway::distributed;
using namespace causeway::proofs;
using causeway::test::decode_inputs;
using causeway::test::DecodeCase;
using causeway::test::DecodeOracle;

namespace {

constexpr double u64 = 0x1p-53, u32 = 0x1p-24;

Index ceil_lg(Index n) { return static_cast<Index>(std::bit_width(static_cast<std::size_t>(n - 1))); }
std::string with(const char* name, Index value) { return std::string(name) + " = " + std::to_string(value); }

struct Leaf {
    double s, v;
};
using Triple = std::array<double, 3>;

Triple merged(Triple a, const Triple& b) {
    MergeTriples<double>{1}(a.data(), b.data(), 1);
    return a;
}

// A random tree over leaves [first, last): the merge and the depth.
std::pair<Triple, Index> random_tree(const std::vector<Leaf>& x, std::size_t first, std::size_t last, std::mt19937_64& generator) {
    if (last - first == 1) return {{x[first].s, 1, x[first].v}, 0};
    const std::size_t middle = first + 1 + generator() % (last - first - 1);
    const auto [a, i] = random_tree(x, first, middle, generator);
    const auto [b, j] = random_tree(x, middle, last, generator);
    return {merged(a, b), 1 + std::max(i, j)};
}

// The schedule of a decode of `z` over p equal shards, without data.
DecodeReport model(const std::string& method, const Sizes& z, int p, const DecodeOptions& given = {}) {
    DecodeOptions o = given;
    o.shards = p;
    return decode_model(method, z, cluster("h100"), o);
}

Sizes block(Index b, Index heads, Index dh, Index N) { return {b, heads, heads, 1, N, dh, dh, false, 1}; }

Index most_sent(const DecodeReport& r) {
    Index most = 0;
    for (const Traffic& t : r.traffic) most = std::max(most, t.elements);
    return most;
}

}  // namespace

TEST_CASE("H5: the triple is a monoid; rounding of any tree", "[proofs][tree]") {
    std::mt19937_64 generator(501);
    std::normal_distribution<double> normal;
    for (const double spread : {1.0, 30.0, 1e4}) {
        double D_share = 0, z_share = 0;
        int bits = 0;
        for (int trial = 0; trial < 60; ++trial) {
            std::vector<Leaf> x(60);
            for (Leaf& leaf : x) leaf = {spread * normal(generator), normal(generator)};
            const auto top = std::max_element(x.begin(), x.end(), [](const Leaf& a, const Leaf& b) { return a.s < b.s; })->s;
            long double D = 0, n = 0, absolute = 0;
            for (const Leaf& leaf : x) {
                const long double w = std::exp(static_cast<long double>(leaf.s) - top);
                D += w, n += w * leaf.v, absolute += w * std::abs(leaf.v);
            }
            std::shuffle(x.begin(), x.end(), generator);
            const auto [t, depth] = random_tree(x, 0, x.size(), generator);
            const auto [other, other_depth] = random_tree(x, 0, x.size(), generator);
            bits += t != other;
            const double bound = u64 * (3 * static_cast<double>(depth) + std::log(60.0) + 4);
            D_share = std::max(D_share, static_cast<double>(std::abs(t[1] - D) / D) / bound);
            z_share = std::max(z_share, static_cast<double>(std::abs(static_cast<long double>(t[2]) / t[1] - n / D) / (absolute / D)) / (2 * bound));
        }
        const std::string input = "60 random trees of 60 leaves, spread " + std::to_string(static_cast<int>(spread));
        claim("H5", "relative error of D over u(3 depth + ln N + 4)", input, D_share, 1);
        claim("H5", "error of n/D over twice that times Σ P|v|", input, z_share, 1);
        if (spread < 100) published_fails("H5", "trees whose bits differ: the merge is not associative bitwise", input, bits, 1);
    }
    const Triple unit{minus_infinity<double>, 0, 0}, x{3, 2, 1};
    exactly("H5", "(-∞, 0, 0) is neutral on both sides and for itself", "a triple", merged(x, unit) == x && merged(unit, x) == x && merged(unit, unit) == unit, 1);
    published_fails("H5", "log(e^-∞ + e^-∞) by the shifted formula: NaN", "two empty shards", std::isnan(std::exp(unit[0] - unit[0])), 1);
}

TEST_CASE("H6: depth of a reduction over p processors", "[proofs][tree]") {
    // Steps until one result is left: chunks of c in sequence, then pairs; against all N, p.
    Index wrong = 0, gap = 0, better = 0;
    const auto steps_in_pairs = [](Index parts) {
        Index steps = 0;
        for (; parts > 1; parts = (parts + 1) / 2) ++steps;
        return steps;
    };
    for (Index N = 1; N < 120; ++N)
        for (Index p = 1; p <= N; ++p) {
            const Index c = (N + p - 1) / p, used = (N + c - 1) / c;
            Index busiest = 0, chunks = 0;  // by walking through the array
            for (Index start = 0; start < N; start += c) busiest = std::max(busiest, std::min(c, N - start) - 1), ++chunks;
            wrong += busiest + steps_in_pairs(chunks) != c - 1 + ceil_lg(used);
        }
    exactly("H6", "pairs (N, p) where depth is not ⌈N/p⌉ - 1 + ⌈lg p'⌉", "all N < 120, p <= N", wrong, 0);
    for (Index N = 1; N < 400; ++N)
        for (Index p = 1; p <= N; p += p < 20 ? 1 : 17) {
            const Index c = (N + p - 1) / p, used = (N + c - 1) / c, chunked = c - 1 + ceil_lg(used);
            Index greedy = 0;
            for (Index n = N; n > 1; n -= std::min(p, n / 2)) ++greedy;
            gap += chunked - greedy > 1 || chunked < greedy;
            better += chunked > greedy;
        }
    exactly("H6", "cases where greedy pairing is not 0 or 1 steps shorter", "N < 400", gap, 0);
    published_fails("H6", "cases where chunks are not the optimum (N = 7, p = 3: 4 steps, not 3)", "N < 400", static_cast<double>(better), 1);
    for (const int p : {1, 2, 3, 5, 8, 13, 32, 63, 64}) {
        const auto run = run_simulated(cluster("h100"), p, true, [](Communicator& comm) { reduce_binomial<float>(comm, all_ranks(comm), nullptr, 1, 1, Sum<float>{1}); });
        exactly("H6", "rounds of the binomial reduction: ⌈lg p⌉", with("p", p), run.traffic[0].rounds, p == 1 ? 0 : ceil_lg(p));
    }
}

TEST_CASE("H7: what Algorithm 1 returns", "[proofs][tree]") {
    std::mt19937_64 generator(507);
    std::normal_distribution<double> normal;
    using Complex = std::complex<double>;
    std::vector<Leaf> x(20);
    for (Leaf& leaf : x) leaf = {3 * normal(generator), normal(generator)};
    // F by Algorithm 1 with ζ = ih: the complex step. follows: m depends on ζ as in lines 3 and 4; adds: m + lse is returned.
    const auto gradient = [&](bool follows, bool adds) {
        const double h = 1e-30;
        const Leaf top = *std::max_element(x.begin(), x.end(), [](const Leaf& a, const Leaf& b) { return a.s < b.s; });
        const Complex m = Complex(top.s, follows ? h * top.v : 0);
        Complex sum = 0;
        for (const Leaf& leaf : x) sum += std::exp(Complex(leaf.s, h * leaf.v) - m);
        return ((adds ? m : 0) + std::log(sum)).imag() / h;
    };
    double D = 0, n = 0, v_top = 0, top = -1e300;
    for (const Leaf& leaf : x) {
        D += std::exp(leaf.s), n += std::exp(leaf.s) * leaf.v;
        if (leaf.s > top) top = leaf.s, v_top = leaf.v;
    }
    published_fails("H7", "gradient of the printed lse, m differentiated, against attention", "N = 20", std::abs(gradient(true, false) - n / D), 0.1);
    claim("H7", "it is off by v of the largest score", "N = 20", std::abs(gradient(true, false) - (n / D - v_top)), 1e-14);
    claim("H7", "gradient of m + lse", "N = 20", std::abs(gradient(true, true) - n / D), 1e-14);
    claim("H7", "gradient of lse with m held constant", "N = 20", std::abs(gradient(false, false) - n / D), 1e-14);

    const DecodeCase c{.N = 2, .M = 40, .dk = 8, .dv = 4, .seed = 7};
    const auto in = decode_inputs(c);
    const DecodeOracle oracle(c, in, 1);
    const DecodeResult got = tree_decode(in.q, in.k, in.v, {.shards = 5, .scale = 1, .algorithm = 1});
    double energy = 0;
    for (std::size_t i = 0; i < oracle.lse.size(); ++i) energy = std::max(energy, std::abs(got.lse.get(static_cast<Index>(i)) - oracle.lse[i]));
    claim("H7", "energy m + lse of the library's Algorithm 1", "p = 5, Float64", energy, 1e-13);
    claim("H7", "its gradient by dual numbers: roundings of an entry", "p = 5, Float64", oracle.roundings(got.O, u64), 500);
}

TEST_CASE("H8: Algorithm 2 takes the lse of shifted scores", "[proofs][tree]") {
    const DecodeCase c{.N = 1, .M = 30, .dk = 4, .dv = 3, .spread = 4, .seed = 8};
    const auto in = decode_inputs(c);
    const DecodeOracle oracle(c, in, 1);
    double least_shift = 1e300;
    for (Index h = 0; h < 2; ++h) {
        std::vector<double> s;
        for (Index j = 0; j < c.M; ++j) {
            s.push_back(0);
            for (Index i = 0; i < c.dk; ++i) s.back() += in.q.get(h * c.dk + i) * in.k.get((h * c.M + j) * c.dk + i);
        }
        const double m = *std::max_element(s.begin(), s.end());
        double shifted = 0, F = 0;
        for (const double x : s) shifted += std::exp(x - m);
        F = m + std::log(shifted);
        double unshifted_pair = 0, shifted_pair = 0, mixed = 0;
        for (const double x : s) shifted_pair += std::exp(x - m - std::log(shifted)), unshifted_pair += std::exp(x - F), mixed += std::exp(x - m - F);
        claim("H8", "weights exp(r - m - lse) sum to 1", with("head", h + 1), std::abs(shifted_pair - 1), 1e-14);
        claim("H8", "weights exp(r - F) sum to 1", with("head", h + 1), std::abs(unshifted_pair - 1), 1e-14);
        claim("H8", "the mixed pairing exp(r - m - F) sums to e^-m, relative", with("head", h + 1), std::abs(mixed / std::exp(-m) - 1), 1e-13);
        least_shift = std::min(least_shift, std::abs(std::exp(-m) - 1));
    }
    published_fails("H8", "the mixed pairing's weights, off from 1 by", "two heads", least_shift, 0.1);
    claim("H8", "the library's Algorithm 2: roundings of an entry", "p = 4, Float64", oracle.roundings(tree_decode(in.q, in.k, in.v, {.shards = 4, .scale = 1, .algorithm = 2}).O, u64), 1000);
}

TEST_CASE("H9: Algorithm 3 for any p and scores up to 1e4", "[proofs][tree]") {
    for (const double spread : {1.0, 100.0, 10000.0 / 8}) {
        const DecodeCase c{.N = 1, .M = 11, .dk = 4, .dv = 3, .spread = spread, .seed = 9};
        const auto in = decode_inputs(c);
        const DecodeOracle oracle(c, in, 1);
        double worst = 0;
        for (const int p : {1, 2, 3, 5, 8, 11, 14}) worst = std::max(worst, oracle.roundings(tree_decode(in.q, in.k, in.v, {.shards = p, .scale = 1, .algorithm = 3}).O, u64));
        claim("H9", "error over Σ P|v|, p in {1, 2, 3, 5, 8, N, N + 3}", "N = 11, largest score " + std::to_string(static_cast<int>(oracle.largest_score)), u64 * worst,
              1e-14 + 8 * u64 * oracle.largest_score);
    }
    published_fails("H9", "exp(q·k) in Float32 without a shift: infinities", "q·k = 88.8", std::isinf(std::exp(88.8f)), 1);
    std::mt19937_64 generator(509);
    double least = 1e300, most = 0;
    for (int trial = 0; trial < 200; ++trial) {
        const int p = 1 + static_cast<int>(generator() % 16);
        double top = -1e300, d = 0;
        std::vector<double> lse;
        for (int i = 0; i < p; ++i) lse.push_back(1e3 * (static_cast<double>(generator() % 2000) / 1000 - 1)), top = std::max(top, lse.back());
        for (const double l : lse) d += std::exp(l - top);
        least = std::min(least, d), most = std::max(most, d / p);
    }
    claim("H9", "1 <= d_g: 1 / d_g", "200 random sets of local lse", 1 / least, 1);
    claim("H9", "d_g <= p: d_g / p", "200 random sets of local lse", most, 1);
    const Sizes z = block(2, 3, 4, 64);
    exactly("H9", "rounds of Algorithm 3: 3 lg p", "p = 16", model("tree", z, 16, {.algorithm = 3}).total().rounds, 12);
}

TEST_CASE("H10: three all-reduces are one", "[proofs][tree]") {
    const Index b = 2, heads = 3, dh = 5, d = heads * dh;
    const Sizes z = block(b, heads, dh, 640);
    const std::pair<int, Index> rounds[] = {{0, 1}, {1, 2}, {2, 3}, {3, 3}};
    for (const int p : {2, 4, 8, 32})
        for (const auto& [algorithm, reductions] : rounds) {
            const std::string input = with("p", p) + (algorithm == 0 ? ", packed" : ", Algorithm " + std::to_string(algorithm));
            const DecodeReport r = model("tree", z, p, {.topology = "recursive-doubling", .algorithm = algorithm});
            exactly("H10", "rounds by recursive doubling: reductions · lg p", input, r.total().rounds, reductions * ceil_lg(p));
            exactly("H10", "elements a rank: (bd + 2bn_h) lg p", input, r.traffic[0].elements, (b * d + 2 * b * heads) * ceil_lg(p));
        }
    for (const int p : {2, 3, 8}) {
        const DecodeReport r = model("tree", z, p, {.topology = "all-gather"});
        exactly("H10", "all-gather of triples: ⌈lg p⌉ rounds", with("p", p), r.total().rounds, ceil_lg(p));
        exactly("H10", "and (p-1)(bd + 2bn_h) elements a rank", with("p", p), r.traffic[0].elements, (p - 1) * (b * d + 2 * b * heads));
    }
    const DecodeCase c{.N = 1, .M = 64, .dk = 8, .dv = 8, .seed = 10};
    const auto in = decode_inputs(c);
    const DecodeOracle oracle(c, in, 1);
    for (const char* topology : {"recursive-doubling", "halving-doubling", "ring", "binomial", "all-gather"})
        claim("H10", std::string("packed, ") + topology + ": error over Σ P|v| in u", "p = 8, N = 64, Float64",
              oracle.roundings(tree_decode(in.q, in.k, in.v, {.shards = 8, .scale = 1, .topology = topology}).O, u64),
              2 * (3 * (8 + 3) + std::log(64.0) + 4) + 4 * oracle.largest_score);
}

TEST_CASE("H11: not the same bits, but within the bound", "[proofs][tree]") {
    const DecodeCase c{.N = 4, .M = 300, .dk = 8, .dv = 8, .seed = 11};
    const auto in = decode_inputs(c);
    const DecodeOracle oracle(c, in, 1);
    const Tensor q = in.q.to(DType::f32), k = in.k.to(DType::f32), v = in.v.to(DType::f32);
    const Tensor one = tree_decode(q, k, v, {.shards = 1, .scale = 1}).O, eight = tree_decode(q, k, v, {.shards = 8, .scale = 1}).O, ring = ring_decode(q, k, v, {.shards = 8, .scale = 1}).O;
    Index differ = 0;
    for (Index i = 0; i < one.size(); ++i) differ += one.get(i) != eight.get(i) || one.get(i) != ring.get(i);
    published_fails("H11", "\"exactly the same activations\": entries whose bits differ between p = 1 and p = 8", "Float32, N = 300", static_cast<double>(differ), 1);
    const double bound = 2 * (3 * (300.0 / 8 + 4) + std::log(300.0) + 4) + 4 * (8 + 2) * oracle.largest_score;
    claim("H11", "tree, p = 8: error over Σ P|v| in u, with the rounding of scores", "Float32, N = 300", oracle.roundings(eight, u32), bound);
    claim("H11", "ring, p = 8: the same", "Float32, N = 300", oracle.roundings(ring, u32), bound);
}

TEST_CASE("H12: the shift of safe softmax", "[proofs][tree]") {
    std::mt19937_64 generator(512);
    std::normal_distribution<float> normal;
    std::vector<float> s(40), v(40);
    for (std::size_t i = 0; i < 40; ++i) s[i] = 3 * normal(generator), v[i] = normal(generator);
    for (const float h : {0.0f, 30.0f, 1000.0f}) {
        // Every score gets the shift h, which the maximum takes away again; what is left is the rounding of s + h.
        float m = -1e30f, D = 0, n = 0, most = 0;
        for (const float x : s) m = std::max(m, x + h), most = std::max(most, std::abs(x + h));
        for (std::size_t i = 0; i < 40; ++i) D += std::exp(s[i] + h - m), n += std::exp(s[i] + h - m) * v[i];
        double exact_D = 0, exact_n = 0, absolute = 0;
        for (std::size_t i = 0; i < 40; ++i) {
            const double w = std::exp(static_cast<double>(s[i]));
            exact_D += w, exact_n += w * v[i], absolute += w * std::abs(v[i]);
        }
        claim("H12", "|dz| / (u Σ P|v|) with shifted scores, against 4 max|q·k + h| and the roundings of 40 terms", with("h", static_cast<Index>(h)),
              std::abs(n / D - exact_n / exact_D) / (u32 * absolute / exact_D), 4 * static_cast<double>(most) + 2 * (40 + 4));
    }
}

TEST_CASE("H13, H14: memory of a worker", "[proofs][tree]") {
    for (const int p : {1, 2, 4, 16, 64})
        for (const Index dh : {Index{4}, Index{128}}) {
            const Index b = 2, heads = 3, d = heads * dh, t = 10, N = t * p;
            const Sizes z = block(b, heads, dh, N);
            const std::string input = with("p", p) + ", t = 10, b = 2, n_h = 3, " + with("d_h", dh);
            const Memory tree = model("tree", z, p).memory[0], ring = model("ring", z, p).memory[0];
            exactly("H13", "tree: keys, values, q, n, d, m: equation 9, 2btd + 2bd + 2bn_h", input, tree.peak_total - tree.most(Held::work), 2 * b * t * d + 2 * b * d + 2 * b * heads);
            exactly("H13", "beyond it: one triple for the all-reduce (recursive doubling)", input, tree.most(Held::work), p == 1 ? 0 : b * (d + 2 * heads));
            if (p > 1) exactly("H13", "ring: equation 8 and the m and d it leaves out, 4btd + 2bd + 2bn_h", input, ring.peak_total, 4 * b * t * d + 2 * b * d + 2 * b * heads);
            claim("H13", "ratio of equations 8 and 9 is below 2", input, static_cast<double>(4 * b * t * d + 2 * b * d) / static_cast<double>(2 * b * t * d + 2 * b * d + 2 * b * heads), 2);
        }
    // bf16, b t = 64000 (inferred: the text gives no length), two devices: the gap of equations 8 and 9, 4btd - 4bn_h bytes.
    const auto gap = [&](Index hidden) {
        const Sizes z = block(1, hidden / 128, 128, 2 * 64000);
        const DecodeReport ring = model("ring", z, 2), tree = model("tree", z, 2);
        return static_cast<double>(ring.memory[0].peak_total - tree.memory[0].peak_total) * 2 / 1e6;
    };
    claim("H14", "gap at hidden 2048 against the printed 524 MB, relative", "bt = 64000, bf16", std::abs(gap(2048) - 524) / 524, 0.01);
    claim("H14", "gap at hidden 4096 against the printed 1040 MB, relative", "bt = 64000, bf16", std::abs(gap(4096) - 1040) / 1040, 0.01);
    claim("H14", "the model's ratio is 2, up to the all-reduce", "bt = 64000, bf16", std::abs(gap(4096) / gap(2048) - 2), 1e-4);
}

TEST_CASE("H15: what the ring sends", "[proofs][tree]") {
    const Index b = 2, heads = 2, dh = 8, d = heads * dh, N = 640;
    for (const int p : {1, 2, 4, 5, 8, 16, 32, 64}) {
        const Sizes z = block(b, heads, dh, N);
        const Index t = N / p;
        const DecodeReport once = model("ring", z, p), home = model("ring", z, p, {.home = true});
        exactly("H15", "a rank sends 2btd (p-1) elements", with("p", p), once.traffic[0].elements, 2 * b * t * d * (p - 1));
        exactly("H15", "all ranks: 2bNd (p-1)", with("p", p), once.total().elements, 2 * b * N * d * (p - 1));
        exactly("H15", "in p-1 messages a rank", with("p", p), once.traffic[0].messages, p - 1);
        exactly("H15", "and p-1 rounds", with("p", p), once.total().rounds, p - 1);
        if (p > 1) exactly("H15", "equation 10, 2btd·p, is p shifts of one rank, 2bNd for every p", with("p", p), home.traffic[0].elements, 2 * b * N * d);
    }
}

TEST_CASE("H16: what the tree sends, by the algorithm of the all-reduce", "[proofs][tree]") {
    const Index b = 1, heads = 64, dh = 6, d = heads * dh, numel = b * d + 2 * b * heads;  // 64 triples of 8
    for (int p = 1; p <= 64; p = p < 16 ? p + 1 : p * 2) {
        const Sizes z = block(b, heads, dh, 64);
        const auto run = [&](const char* topology) { return model("tree", z, p, {.topology = topology}); };
        const Index lg = p == 1 ? 0 : ceil_lg(p);
        const DecodeReport ring = run("ring"), doubling = run("recursive-doubling"), halving = run("halving-doubling"), binomial = run("binomial"), gather = run("all-gather");
        exactly("H16", "ring all-reduce: total 2(p-1) numel", with("p", p), ring.total().elements, 2 * (p - 1) * numel);
        exactly("H16", "ring all-reduce: 2(p-1) rounds", with("p", p), ring.total().rounds, 2 * (p - 1));
        exactly("H16", "binomial: total 2(p-1) numel", with("p", p), binomial.total().elements, 2 * (p - 1) * numel);
        exactly("H16", "binomial: the root sends ⌈lg p⌉ numel", with("p", p), binomial.traffic[0].elements, lg * numel);
        exactly("H16", "binomial: 2⌈lg p⌉ rounds", with("p", p), binomial.total().rounds, 2 * lg);
        exactly("H16", "all-gather: ⌈lg p⌉ rounds", with("p", p), gather.total().rounds, lg);
        if (std::has_single_bit(static_cast<unsigned>(p))) {
            exactly("H16", "equation 14 a rank, 2 (p-1)/p (bd + 2bn_h), by the ring", with("p", p), ring.traffic[0].elements, 2 * (p - 1) * numel / p);
            exactly("H16", "equation 14 a rank by halving and doubling", with("p", p), most_sent(halving), 2 * (p - 1) * numel / p);
            exactly("H16", "halving and doubling: 2 lg p rounds", with("p", p), halving.total().rounds, 2 * lg);
            exactly("H16", "recursive doubling: lg p · numel a rank", with("p", p), most_sent(doubling), lg * numel);
            exactly("H16", "recursive doubling: lg p rounds", with("p", p), doubling.total().rounds, lg);
        } else {
            exactly("H16", "recursive doubling: ⌊lg p⌋ + 2 rounds", with("p", p), doubling.total().rounds, lg - 1 + 2);
        }
        if (p > 1 && 64 % p == 0) {  // the same footing: totals of one decode step
            const double ratio = static_cast<double>(model("ring", z, p).total().elements) / static_cast<double>(ring.total().elements);
            claim("H16", "ring over tree, total: N / (1 + 2/d_h), relative", with("p", p), std::abs(ratio / (64 / (1 + 2.0 / static_cast<double>(dh))) - 1), 1e-14);
        }
    }
}

TEST_CASE("H16: the busiest rank where triples cannot be shared out evenly", "[proofs][tree]") {
    const Index dh = 6;
    for (const Index heads : {1, 3, 16}) {
        const Index numel = heads * (dh + 2);
        for (const int p : {2, 5, 8, 16, 64}) {
            const DecodeReport ring = model("tree", block(1, heads, dh, 64), p, {.topology = "ring"});
            exactly("H16", "uneven triples, ring: total 2(p-1) numel", with("p", p), ring.total().elements, 2 * (p - 1) * numel);
            const Index most = 2 * (heads - heads / p) * (dh + 2);
            claim("H16", "uneven triples, ring: the busiest rank over 2n(1 - ⌊bn_h/p⌋/bn_h)", with("p", p), static_cast<double>(most_sent(ring)) / static_cast<double>(most), 1);
            if (p > 1 && heads % p == 0) exactly("H16", "even triples, ring: equation 14", with("p", p), most_sent(ring), 2 * (p - 1) * numel / p);
        }
    }
    exactly("H16", "16 triples by the ring of 64: 2n", with("p", 64), most_sent(model("tree", block(1, 16, dh, 64), 64, {.topology = "ring"})), 2 * 16 * (dh + 2));
    exactly("H16", "one triple by halving and doubling of 8: 3n", with("p", 8), most_sent(model("tree", block(1, 1, dh, 64), 8, {.topology = "halving-doubling"})), 3 * (dh + 2));
}

TEST_CASE("H20: the latency example", "[proofs][tree]") {
    const double shard = 2.0 * 80000 * 2048 * 2;
    claim("H20", "a shard of keys and values in MB against 655.36", "640k tokens, 8 devices, hidden 2048, bf16", std::abs(shard / 1e6 - 655.36), 1e-9);
    claim("H20", "moving it takes 1.46 ms at 450 GB/s: O(1e-3) s", "", std::abs(shard / 450e9 - 1.46e-3), 1e-5);
    const Cluster& h100 = cluster("h100");
    const double reading = shard / h100.memory_rate;
    published_fails("H20", "attention in O(1e-5) s: reading the shard takes that many times as long", "3.35 TB/s", reading / 1e-5, 10);
    claim("H20", "moving over reading is the ratio of rates, 7.4", "", std::abs(shard / 450e9 / reading - 7.444), 1e-2);
    const Sizes z = block(1, 16, 128, 640000);
    const double apart = model("ring", z, 8, {.overlap = false}).seconds, together = model("ring", z, 8).seconds;
    claim("H20", "share of the ring's time that overlap hides, in the model: at most 13.4 percent", "8 devices of one node", (apart - together) / apart, 0.134);
    claim("H20", "and some it hides: 5 percent over it", "8 devices of one node", 0.05 / ((apart - together) / apart), 1);
}

TEST_CASE("H22: the code of Appendix D", "[proofs][tree]") {
    // res [b, s, h, d] times lse [b, h, s], right-aligned as arrays broadcast: [b, s, h, d] against [1, b, h, s] needs d = s or
    // s = 1, and pairs batch entry i of one with j of the other.
    const Index b = 2, s = 1, h = 3, d = 4;
    std::vector<double> res(static_cast<std::size_t>(b * s * h * d)), weight(static_cast<std::size_t>(b * h * s));
    for (std::size_t i = 0; i < res.size(); ++i) res[i] = 1 + static_cast<double>(i);
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = 1 + 10 * static_cast<double>(i);
    // The result has shape [b, b, h, d]: entry (i, j, head, c) is res(i, 0, head, c) · weight(j, head, 0).
    Index cross = 0;
    for (Index i = 0; i < b; ++i)
        for (Index j = 0; j < b; ++j)
            for (Index head = 0; head < h; ++head)
                for (Index c = 0; c < d; ++c) {
                    const double broadcast = res[static_cast<std::size_t>((i * h + head) * d + c)] * weight[static_cast<std::size_t>(j * h + head)];
                    const double meant = res[static_cast<std::size_t>((i * h + head) * d + c)] * weight[static_cast<std::size_t>(i * h + head)];
                    cross += broadcast != meant;
                }
    published_fails("H22", "entries of res · lse that pair different batch entries", "b = 2, s = 1", static_cast<double>(cross), 1);
    exactly("H22", "they are the b(b-1) h d cross terms", "b = 2, s = 1", cross, b * (b - 1) * h * d);
    const DecodeCase c{.batch = 2, .query_heads = 3, .heads = 3, .M = 20, .seed = 22};
    const auto in = decode_inputs(c);
    const DecodeOracle oracle(c, in, 1);
    claim("H22", "with the shapes aligned: the library's Algorithm 3, roundings of an entry", "b = 2, Float64", oracle.roundings(tree_decode(in.q, in.k, in.v, {.shards = 4, .scale = 1, .algorithm = 3}).O, u64), 500);
}

TEST_CASE("H23: which of the two is faster", "[proofs][tree]") {
    // Table 1, seconds: tree and ring on 8 H100 and on 4 MI300X, 32k to 256k tokens.
    const double tree[] = {0.60, 1.08, 2.68, 2.89, 1.05, 2.36, 6.43, 15.30}, ring[] = {2.57, 4.42, 6.38, 8.19, 3.57, 7.33, 16.40, 35.12};
    Index slower = 0, twice = 0;
    for (int i = 0; i < 8; ++i) slower += ring[i] > tree[i], twice += std::lround(ring[i] / tree[i]) == 2;
    published_fails("H23", "\"Ring Attention is up to ×4 faster\": entries of Table 1 in which it is the slower one", "8 entries", static_cast<double>(slower), 8);
    published_fails("H23", "\"×3-5\": entries of Table 1 with a speedup of 2", "8 entries", static_cast<double>(twice), 1);
    // 128 devices, 5.12M tokens: published ×8. What crosses the wire alone, at the rates that the document prints.
    const Sizes z = block(1, 16, 128, 5120000);
    const std::string input = "128 H100, 5.12M tokens";
    const double shard = 2.0 * 40000 * 2048 * 2, wire = 127 * shard / 50e9;
    const DecodeReport t = model("tree", z, 128, {.algorithm = 3}), r = model("ring", z, 128);
    claim("H23", "the ring of the model takes what its slowest link takes, relative", input, std::abs(r.seconds / wire - 1), 0.02);
    published_fails("H23", "×8 at 128 devices: the model's ratio over it", input, r.seconds / t.seconds / 8, 100);
    published_fails("H23", "even with every link at 900 GB/s, wire time of the ring over eight tree steps", input, 127 * shard / 900e9 / (8 * t.seconds), 10);
    Cluster slow = cluster("h100");
    slow.start *= 100, slow.within.latency *= 100, slow.between.latency *= 100;
    for (double* rate : {&slow.memory_rate, &slow.flop_rate, &slow.within.rate, &slow.between.rate}) *rate /= 100;
    DecodeOptions o;
    o.shards = 128, o.algorithm = 3;
    published_fails("H23", "a tree with every constant a hundred times worse: wire time of the ring over it, over 8", input, wire / decode_model("tree", z, slow, o).seconds / 8, 1.25);
    published_fails("H23", "a tree of ×8: its time over that of reading its keys and values", input, wire / 8 / (shard / cluster("h100").memory_rate), 1000);
    const double fixed = (r.seconds - 8 * t.seconds) / 7;
    claim("H23", "a cost of 119 ms in both makes the model's ratio 8, relative", input, std::abs((r.seconds + 0.119) / (t.seconds + 0.119) / 8 - 1), 0.01);
    published_fails("H23", "that cost over the time of the tree", input, fixed / t.seconds, 400);
}

// Tables 1 and 2 print times of ten tokens with the same prefill in both columns: their difference is 10 tokens, all layers, a
// ring step less a tree step. The ring is the one that footnote 2 names: p shifts, the last brings the blocks home. Keys and
// values have as many heads as the queries (32): with the 8 heads of Llama 3 every rate below would be a quarter.
TEST_CASE("H23: the model against Tables 1 and 2", "[proofs][tree]") {
    const auto difference = [](const char* machine, int p, Index layers, Index dh, Index N) {
        DecodeOptions o;
        o.shards = p, o.home = true;
        const double ring = decode_model("ring", block(1, 32, dh, N), cluster(machine), o).seconds;
        o.algorithm = 3;
        return 10 * static_cast<double>(layers) * (ring - decode_model("tree", block(1, 32, dh, N), cluster(machine), o).seconds);
    };
    const Index lengths[] = {32000, 64000, 128000, 256000}, shorter[] = {8000, 16000, 20000, 32000};
    const double mi300x[] = {3.57 - 1.05, 7.33 - 2.36, 16.40 - 6.43, 35.12 - 15.30}, h100[] = {2.57 - 0.60, 4.42 - 1.08, 6.38 - 2.68, 8.19 - 2.89};
    const double rtx4090[] = {1.38 - 0.34, 2.77 - 0.58, 3.47 - 0.74, 5.45 - 1.01};
    double slope[2] = {}, mean_N = 0, mean[2] = {}, squares = 0;
    for (int i = 0; i < 4; ++i) {
        const Index N = lengths[i];
        claim("H23", "ring less tree on 4 MI300X: the model's against Table 1, relative", with("N", N), std::abs(difference("mi300x", 4, 32, 128, N) / mi300x[i] - 1), 0.25);
        const double excess = (h100[i] - difference("h100", 8, 32, 128, N)) / (320 * 8);
        claim("H23", "the same on 8 H100: s a shift more than the model, at most", with("N", N), excess, 1.1e-3);
        published_fails("H23", "and at least", with("N", N), excess, 0.5e-3);
        mean_N += static_cast<double>(N) / 4, mean[0] += h100[i] / 4, mean[1] += difference("h100", 8, 32, 128, N) / 4;
        const double ratio = difference("rtx4090", 2, 16, 64, shorter[i]) / rtx4090[i];
        claim("H23", "the same on 2 RTX 4090, Table 2: model over printed against 0.3, relative", with("N", shorter[i]), std::abs(ratio / 0.3 - 1), 0.05);
    }
    for (int i = 0; i < 4; ++i) {
        const double N = static_cast<double>(lengths[i]) - mean_N;
        squares += N * N;
        slope[0] += N * (h100[i] - mean[0]), slope[1] += N * (difference("h100", 8, 32, 128, lengths[i]) - mean[1]);
    }
    claim("H23", "growth of ring less tree with the length on 8 H100, least squares: model against printed, relative", "32k to 256k", std::abs(slope[1] / slope[0] - 1), 0.25);
    claim("H23", "printed growth, s a token", "32k to 256k", slope[0] / squares, 1.4e-5);
}

TEST_CASE("H23: the shape of Figure 3", "[proofs][tree]") {
    double before = 0;
    for (const int p : {8, 64, 128}) {
        const auto at = [&](const char* method, Index N) { return model(method, block(1, 16, 128, N), p, {.algorithm = method[0] == 't' ? 3 : 0}).seconds; };
        const auto slope = [&](const char* method) { return std::log(at(method, 5120000) / at(method, 80000)) / std::log(64.0); };
        claim("H23", "the ring's time grows with the length: slope of the logarithms against 1", with("p", p), std::abs(slope("ring") - 1), 0.05);
        claim("H23", "the tree's flattens with p: slope", with("p", p), slope("tree"), p == 8 ? 0.75 : p == 64 ? 0.25 : 0.15);
        const double gap = at("ring", 5120000) - at("tree", 5120000);
        claim("H23", "the gap in s widens with p: the gap at fewer devices, over it", with("p", p), before / gap, 1);
        claim("H23", "the ratio widens with the length: ring over tree at 80000, over that at 5.12M", with("p", p),
              at("ring", 80000) / at("tree", 80000) / (at("ring", 5120000) / at("tree", 5120000)), 0.5);
        before = gap;
    }
}
