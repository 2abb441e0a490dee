// Vanilla by Eigen's products, in blocks of rows; the entries above the diagonal are not computed.
#include "core/exact/vanilla.hpp"

#include "core/exact/all_methods.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {
namespace {

// One head after the other, so that one N×N matrix is alive at a time; the blocks of rows of it are the tasks.
template <class T>
void vanilla_by_rows(const Problem<T>& p) {
    constexpr Index rows = 256;
    const Index N = p.N;
    if (N == 0) return;
    Scratch<T> A(N, N);
    for (Index index = 0; index < p.all_heads(); ++index) {
        const Head<T> h = p.head(index);
        const Powers<T> powers(h.gamma, h.decays() ? N : 0);
        auto O = h.O;
        const auto block = [&](Index start, Index n) {
            const Index seen = start + n;
            auto Ai = A.block(start, 0, n, seen);
            set_product(Ai, h.B.middleRows(start, n), h.C.topRows(seen).transpose());
            for (Index i = start; i < seen; ++i) {
                T* a = A.data() + i * N;
                if (h.decays())
                    for (Index j = 0; j <= i; ++j) a[j] *= powers[i - j];
            }
            auto Oi = O.middleRows(start, n);
            set_product(Oi, Ai.leftCols(start), h.V.topRows(start));
            add_lower_product(Oi, Ai.rightCols(n), h.V.middleRows(start, n));
        };
        each_block(N, block, rows);
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
