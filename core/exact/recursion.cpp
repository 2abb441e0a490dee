// Recursion by Eigen's products. With fewer heads than threads the halves of large nodes run in parallel, level by
// level.
#include "core/exact/recursion.hpp"

#include <vector>

#include "core/exact/all_methods.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {
namespace {

// Nodes larger than this are computed by all threads together, the smaller ones are one task each.
constexpr Index together = 2048;

// The nodes [lo, hi) of the recursion: those at most `together` long, and the larger ones above them, children first.
struct Nodes {
    struct Node {
        Index lo, hi;
    };
    std::vector<Node> small, large;

    Nodes(Index lo, Index hi, Index t) { add(lo, hi, t); }

    void add(Index lo, Index hi, Index t) {
        if (hi - lo <= std::max(t, together)) {
            small.push_back({lo, hi});
            return;
        }
        const Index mid = lo + (hi - lo) / 2;
        add(lo, mid, t);
        add(mid, hi, t);
        large.push_back({lo, hi});
    }
};

// O2 += diag(W1) B2 (diag(W2) C1)ᵀ V1 by all threads: partial sums of fixed slabs of rows, added in order.
template <class T>
void off_diagonal(const Head<T>& h, Index lo, Index hi, const Powers<T>& powers, Index partials, View<T> S) {
    const Index r = h.r(), d = h.d(), mid = lo + (hi - lo) / 2;
    const auto slice = [&](Index from, Index to, Index i) { return from + (to - from) * i / partials; };
    parallel_for(partials, [&](Index i) {
        View<T> Si(S.data() + i * r * d, r, d);
        Scratch<T> scaled(h.decays() ? recursion_slab : 0, r);
        Si.setZero();
        for (Index at = slice(lo, mid, i), end = slice(lo, mid, i + 1); at < end; at += recursion_slab) {
            const Index n = std::min(recursion_slab, end - at);
            if (h.decays()) {
                for (Index p = 0; p < n; ++p) scaled.row(p) = h.C.row(at + p) * powers[mid - at - p];
                add_product(Si, scaled.topRows(n).transpose(), h.V.middleRows(at, n));
            } else {
                add_product(Si, h.C.middleRows(at, n).transpose(), h.V.middleRows(at, n));
            }
        }
    });
    View<T> sum(S.data(), r, d);
    for (Index i = 1; i < partials; ++i) sum += View<T>(S.data() + i * r * d, r, d);
    parallel_for(partials, [&](Index i) {
        Scratch<T> scaled(h.decays() ? recursion_slab : 0, r);
        View<T> O = h.O;
        for (Index at = slice(mid, hi, i), end = slice(mid, hi, i + 1); at < end; at += recursion_slab) {
            const Index n = std::min(recursion_slab, end - at);
            if (h.decays()) {
                for (Index p = 0; p < n; ++p) scaled.row(p) = h.B.row(at + p) * powers[at + p - mid];
                add_product(O.middleRows(at, n), scaled.topRows(n), sum);
            } else {
                add_product(O.middleRows(at, n), h.B.middleRows(at, n), sum);
            }
        }
    });
}

template <class T>
void recursion_by_levels(const Problem<T>& p) {
    constexpr Index partials = 16;  // slices of a large node; fixed, so that the sums do not depend on the threads
    const Index N = p.N, t = p.block;
    if (N == 0) return;
    const Nodes nodes(0, N, t);
    const Index small = static_cast<Index>(nodes.small.size());
    parallel_for(p.all_heads() * small, [&](Index task) {
        const Head<T> h = p.head(task / small);
        const auto node = nodes.small[static_cast<std::size_t>(task % small)];
        const Powers<T> powers(h.gamma, h.decays() ? node.hi - node.lo + 1 : 0);
        Scratch<T> S(p.r, p.d), tile(recursion_tile(N, p.r, t, Leaf::vanilla, h.decays()), 1);
        View<T> O = h.O;
        O.middleRows(node.lo, node.hi - node.lo).setZero();
        recursion_step<T>(h, node.lo, node.hi, t, Leaf::vanilla, powers, S, tile);
    });
    if (nodes.large.empty()) return;
    Scratch<T> S(partials * p.r, p.d);
    for (Index index = 0; index < p.all_heads(); ++index) {
        const Head<T> h = p.head(index);
        const Powers<T> powers(h.gamma, h.decays() ? N + 1 : 0);
        for (const auto& node : nodes.large) off_diagonal<T>(h, node.lo, node.hi, powers, partials, S);
    }
}

// Σ τ over the leaves of the recursion. The nodes of a level have the sizes m and m + 1 only, x and y of them.
closed_form::Wide leaf_scores(Index N, Index t) {
    using closed_form::triangle;
    closed_form::Wide m = N, x = 1, y = 0;
    while (m > t || (y > 0 && m + 1 > t)) {
        if (m <= t) return x * triangle(m) + y * (triangle((m + 1) / 2) + triangle(m + 1 - (m + 1) / 2));
        const bool odd = m % 2 == 1;
        const closed_form::Wide more_x = odd ? x : 2 * x + y, more_y = odd ? x + 2 * y : y;
        m /= 2, x = more_x, y = more_y;
    }
    return x * triangle(m) + y * triangle(m + 1);
}

// rd·S(N,t) + (r+d)Σ τ(leaf) multiply-adds; rd + t² scalars (claims C1).
Cost recursion_cost(const Work& w) {
    const closed_form::Wide rd = closed_form::Wide(w.r) * w.d, S = halved(w.N, w.block),
                            leaves = leaf_scores(w.N, w.block);
    const auto memory = rd + recursion_tile(w.N, w.r, w.block, Leaf::vanilla, w.decay) + (w.decay ? w.N + 1 : 0);
    return closed_form::of(rd * S + (w.r + w.d) * leaves, w.decay ? w.r * S + leaves : 0, memory);
}

// One node after the other: the definition's memory.
Index memory_of(const Work& w) {
    return w.r * w.d + recursion_tile(w.N, w.r, w.block, Leaf::vanilla, w.decay) + (w.decay ? w.N + 1 : 0);
}

// A term is summed over half the tokens at most in one product, and added once a level; or within its leaf.
Index roundings_of(const Work& w) {
    const Index N = w.N, t = w.block;
    if (N <= t) return N + w.r;
    Index depth = 0;
    while ((N + (Index{1} << depth) - 1) >> depth > t) ++depth;
    return std::max((N + 1) / 2 + depth + w.r + 1, t + w.r);
}

}  // namespace

// The default base case is that of fleet and leet, §5.1.
Method recursion_method() {
    Method m;
    m.name = "recursion";
    m.short_name = "Recur";
    m.source = "Han et al. 2023 (HyperAttention), Algorithm 4; leet Algorithms 3, 4";
    m.formula =
        "f(B, C, V) = [f(B1, C1, V1);  f(B2, C2, V2) + W1 B2 (W2 C1)ᵀ V1]\n"
        "halves 1 and 2, W1 = diag(1, γ, γ² ...), W2 = diag(... γ², γ)";
    m.text =
        "The mask is halved: two triangles, each halved again down to t tokens, and a full square "
        "between them, which is a product from the right.";
    m.use =
        "To have a form without a carried state, all of whose products of one level are independent. "
        "With log N in its time others pass it by for long sequences.";
    m.time = "O(N log N)";
    m.memory = "rd + t²";
    m.block = 32;
    m.cost = recursion_cost;
    m.running_memory = memory_of;
    m.roundings = roundings_of;
    m.f32 = [](const auto& p) { recursion_by_levels(p); };
    m.f64 = [](const auto& p) { recursion_by_levels(p); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [&](const auto& h) { recursion(h, p.block); }); };
    return m;
}

}  // namespace causeway::exact
