#include "core/exact/cost.hpp"

#include <algorithm>
#include <limits>

#include "core/base/error.hpp"
#include "core/exact/recursion.hpp"
#include "core/exact/registry.hpp"

namespace causeway::exact {
namespace {

__extension__ typedef __int128 Wide;  // sizes up to 2^40 cannot overflow it

Index narrow(Wide count) {
    if (count > std::numeric_limits<Index>::max()) fail("N: the count is 2^63 or more, expected shorter lengths");
    return static_cast<Index>(count);
}

Cost of(Wide multiply_adds, Wide more_multiplies, Wide memory) {
    return {{narrow(multiply_adds + more_multiplies), narrow(multiply_adds), 0, 0}, narrow(memory)};
}

Wide tau(Wide n) { return n * (n + 1) / 2; }

struct Blocks {
    Wide b, T, s, q, dense;
    Blocks(Index N, Index block)
        : b(block),
          T((N + b - 1) / b),
          s(N - (T - 1) * b),
          q((T - 1) * tau(b) + tau(s)),
          dense((T - 1) * b * b + s * s) {}
};

// Σ τ over the leaves of the recursion. The nodes of a level have the sizes m and m + 1 only, x and y of them.
Wide leaf_scores(Index N, Index t) {
    Wide m = N, x = 1, y = 0;
    while (m > t || (y > 0 && m + 1 > t)) {
        if (m <= t) return x * tau(m) + y * (tau((m + 1) / 2) + tau(m + 1 - (m + 1) / 2));
        const bool odd = m % 2 == 1;
        const Wide more_x = odd ? x : 2 * x + y, more_y = odd ? x + 2 * y : y;
        m /= 2, x = more_x, y = more_y;
    }
    return x * tau(m) + y * tau(m + 1);
}

void check_size(const char* name, Index value) {
    constexpr Index max_size = Index{1} << 40;
    if (value < 1 || value > max_size) fail(name, ": ", value, ", expected a number from 1 to ", max_size);
}

Work checked(const Work& asked, Index default_block) {
    Work w = asked;
    check_size("N", w.N);
    check_size("r", w.r);
    check_size("d", w.d);
    if (w.block != 0) check_size("block", w.block);
    w.block = std::min(w.block != 0 ? w.block : default_block, w.N);
    if (w.normalize) ++w.d;
    return w;
}

}  // namespace

Index halved(Index N, Index t) {
    if (N <= t) return 0;
    Index D = 0;
    while ((N + (Index{1} << D) - 1) >> D > t) ++D;  // ⌈log2(N/t)⌉
    const Index half = Index{1} << (D - 1);
    return N / half > t ? N * D : N * (D - 1) + (t + 1) * (N - t * half);
}

namespace cost_of {

Cost vanilla(const Work& w) {
    const Wide N = w.N;
    return of(N * N * (w.r + w.d), N * N, N * N + (w.decay ? N : 0));
}

Cost row_based(const Work& w) {
    const Wide rd = Wide(w.r) * w.d;
    return of(2 * w.N * rd, w.decay ? w.N * rd : 0, rd);
}

Cost fleet_untiled(const Work& w) {
    const Wide rd = Wide(w.r) * w.d;
    return of(2 * w.N * rd, w.decay ? w.N * rd : 0, w.d);
}

// The empty first carry and the last update are skipped. Decay multiplies the scores, rows of B and C, and the carry of
// the blocks between the first and the last.
Cost block_based(const Work& w) {
    const Blocks k(w.N, w.block);
    const Wide rd = Wide(w.r) * w.d;
    const Wide carries = k.T > 1 ? (2 * w.N - k.b - k.s) * rd : 0;
    const Wide scaled = k.T > 1 ? (2 * w.N - k.b - k.s) * w.r + (k.T - 2) * rd : 0;
    return of(k.q * (w.r + w.d) + carries, w.decay ? k.q + scaled : 0,
              rd + k.b * k.b + (w.decay ? k.b + 1 + k.b * w.r : 0));
}

// As block-based; decay multiplies the d outputs of a row instead of the r entries of b.
Cost lightning(const Work& w) {
    const Blocks k(w.N, w.block);
    const Wide rd = Wide(w.r) * w.d;
    const Wide carries = k.T > 1 ? (2 * w.N - k.b - k.s) * rd : 0;
    const Wide scaled = k.T > 1 ? (w.N - k.b) * w.d + (w.N - k.s) * w.r + (k.T - 2) * rd : 0;
    return of(k.q * (w.r + w.d) + carries, w.decay ? k.q + scaled : 0, rd + k.b + (w.decay ? k.b + 1 + w.r : 0));
}

Cost recursion(const Work& w) {
    const Wide rd = Wide(w.r) * w.d, S = halved(w.N, w.block), leaves = leaf_scores(w.N, w.block);
    const Wide memory = rd + recursion_tile(w.N, w.r, w.block, Leaf::vanilla, w.decay) + (w.decay ? w.N + 1 : 0);
    return of(rd * S + (w.r + w.d) * leaves, w.decay ? w.r * S + leaves : 0, memory);
}

Cost fleet(const Work& w) {
    const Blocks k(w.N, w.block);
    const Wide rd = Wide(w.r) * w.d, N = w.N;
    return {{narrow((w.decay ? 4 * N - k.T : 2 * N) * rd), narrow((3 * N - k.T) * rd), 0, 0},
            narrow(rd + k.b * w.d + (w.decay ? k.b + 1 : 0))};
}

Cost inner_product(const Work& w) {
    return of(tau(w.N) * (w.r + w.d), w.decay ? tau(w.N) : 0, w.decay ? 2 * w.N : w.N);
}

Cost outer_product(const Work& w) {
    const Wide all = Wide(w.N) * w.r * w.d;
    return of(2 * all, w.decay ? all : 0, all);
}

Cost outer_product_blockwise(const Work& w) {
    const Wide rd = Wide(w.r) * w.d;
    return of(2 * w.N * rd, w.decay ? w.N * rd : 0, rd + w.block * rd);
}

Cost hybrid(const Work& w) {
    const Blocks k(w.N, w.block);
    const Wide rd = Wide(w.r) * w.d, N = w.N;
    return of(k.dense * (w.r + w.d) + 2 * N * rd, k.dense + (w.decay ? 2 * N * w.r + k.T * rd : 0),
              rd + k.b * k.b + (w.decay ? k.b + 1 + k.b * w.r : 0));
}

}  // namespace cost_of

Cost cost(const Method& m, const Work& asked) {
    if (asked.block != 0 && m.block == 0) fail("block: the method \"", m.name, "\" has none");
    const Work w = checked(asked, m.block);
    Cost out = m.cost(w);
    if (w.normalize) {
        out.operations.divisions = narrow(Wide(asked.N) * asked.d);
        out.memory = narrow(Wide(out.memory) + 2 * Wide(w.N) * w.d);
    }
    return out;
}

Index crossover(const Work& asked, Tiles tiles) {
    const Index block = asked.block != 0 ? asked.block : asked.d;
    Work unbounded = asked;
    unbounded.N = Index{1} << 40;  // so that the block is not cut to the length
    const Work w = checked(unbounded, block);
    const Wide rd = Wide(w.r) * w.d, both = w.r + w.d;
    const bool dense = tiles == Tiles::dense;
    const auto hybrid_is_cheaper = [&](Index N) {
        const Blocks k(N, std::min(w.block, N));
        return (dense ? k.dense : k.q) * both + 2 * N * rd < (dense ? Wide(N) * N : tau(N)) * both;
    };
    Index N = narrow(w.block + (dense ? 2 : 4) * rd / both + 1);
    while (N > 1 && hybrid_is_cheaper(N - 1)) --N;
    return N;
}

}  // namespace causeway::exact
