// Vanilla by Eigen's products, in blocks of rows; the entries above the diagonal are not computed.
#include "core/exact/vanilla.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/exact/all_methods.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {
namespace {

// The blocks of rows of a head are the tasks, and those of several heads together where their N×N matrices, one a head,
// fit into `room` scalars: a short sequence has too few blocks for many threads. Blocks of 64 rows leave none of 16
// threads without work at 512 tokens; longer sequences have enough of 256, which copy the keys less often.
template <class T>
void vanilla_by_rows(const Problem<T>& p) {
    constexpr Index room = Index{1} << 20;
    const Index N = p.N, heads = p.all_heads();
    if (N == 0) return;
    const Index rows = N < 4096 ? 64 : 256, blocks = (N + rows - 1) / rows;
    const Index at_once = std::clamp<Index>(room / (N * N), 1, std::max<Index>(heads, 1));
    Scratch<T> A(at_once * N, N);
    for (Index first = 0; first < heads; first += at_once) {
        const Index count = std::min(at_once, heads - first);
        std::vector<std::optional<Powers<T>>> powers(static_cast<std::size_t>(count));
        for (Index i = 0; i < count; ++i) {
            const Head<T> h = p.head(first + i);
            if (h.decays()) powers[static_cast<std::size_t>(i)].emplace(h.gamma, N);
        }
        parallel_for(count * blocks, [&](Index task) {
            const Index head = task / blocks, start = task % blocks * rows, n = std::min(rows, N - start);
            const Index seen = start + n;
            const Head<T> h = p.head(first + head);
            auto Ai = A.block(head * N + start, 0, n, seen);
            set_product(Ai, h.B.middleRows(start, n), h.C.topRows(seen).transpose());
            for (Index i = start; h.decays() && i < seen; ++i) {
                T* a = A.data() + (head * N + i) * N;
                for (Index j = 0; j <= i; ++j) a[j] *= (*powers[static_cast<std::size_t>(head)])[i - j];
            }
            auto O = h.O;
            auto Oi = O.middleRows(start, n);
            set_product(Oi, Ai.leftCols(start), h.V.topRows(start));
            add_lower_product(Oi, Ai.rightCols(n), h.V.middleRows(start, n));
        });
    }
}

// N²(r+d) multiply-adds and N² mask multiplies; N² scalars.
Cost vanilla_cost(const Work& w) {
    const closed_form::Wide N = w.N;
    return closed_form::of(N * N * (w.r + w.d), N * N, N * N + (w.decay ? N : 0));
}

}  // namespace

Method vanilla_method() {
    Method m;
    m.name = "vanilla";
    m.short_name = "Vanilla";
    m.source = "the formula; fleet eq. 5, leet eq. 4";
    m.formula = "O = (B Cᵀ ⊙ M) V";
    m.text =
        "The definition, a row of scores at a time: each query meets every key before it, the mask "
        "weighs the scores, and they weigh the values.";
    m.use =
        "To compare with, and for short sequences: up to about N = 4rd/(r+d) no other form has fewer "
        "operations; beyond, its time grows with N².";
    m.time = "O(N²)";
    m.memory = "N²";
    m.cost = vanilla_cost;
    m.running_memory = [](const Work& w) { return w.N * w.N + (w.decay ? w.N : 0); };
    m.roundings = roundings_of_one_sum;
    m.f32 = [](const auto& p) { vanilla_by_rows(p); };
    m.f64 = [](const auto& p) { vanilla_by_rows(p); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [](const auto& h) { vanilla(h); }); };
    return m;
}

}  // namespace causeway::exact
