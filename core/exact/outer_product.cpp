// Outer products by Eigen. With all states kept, one head after the other, so that Nrd scalars are alive at a time:
// rows of the states, which do not depend on one another, are the tasks, then tokens. In blocks the definition is the
// form.
#include "core/exact/outer_product.hpp"

#include "core/exact/all_methods.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {
namespace {

template <class T>
void all_states(const Problem<T>& p) {
    constexpr Index tokens = 64;  // of a task
    const Index N = p.N, r = p.r, d = p.d;
    if (N == 0) return;
    Scratch<T> states(N, r * d);
    for (Index index = 0; index < p.all_heads(); ++index) {
        const Head<T> h = p.head(index);
        const T gamma = T(h.gamma);
        parallel_for(r, [&](Index e) {
            const auto row = [&](Index i) { return View<T>(states.data() + (i * r + e) * d, 1, d); };
            for (Index i = 0; i < N; ++i) {
                if (i % tokens == 0) interrupt::check();
                View<T> s = row(i);
                if (i > 0) s = row(i - 1) * gamma;
                else if (h.S) s = View<T>(h.S + e * d, 1, d) * gamma;
                else s.setZero();
                s += h.C(i, e) * h.V.row(i);
            }
            if (h.S) View<T>(h.S + e * d, 1, d) = row(N - 1);
        });
        View<T> O = h.O;
        parallel_for((N + tokens - 1) / tokens, [&](Index task) {
            for (Index i = task * tokens; i < std::min(N, (task + 1) * tokens); ++i)
                set_product(O.row(i), h.B.row(i), ConstView<T>(states.data() + i * r * d, r, d));
        });
    }
}

// 2Nrd multiply-adds; Nrd scalars (claims G1, G3).
Cost outer_product_cost(const Work& w) {
    const auto all = closed_form::Wide(w.N) * w.r * w.d;
    return closed_form::of(2 * all, w.decay ? all : 0, all);
}

// 2Nrd multiply-adds; rd + b·rd scalars (claims G3).
Cost outer_product_cost_blockwise(const Work& w) {
    const auto rd = closed_form::Wide(w.r) * w.d;
    return closed_form::of(2 * w.N * rd, w.decay ? w.N * rd : 0, rd + w.block * rd);
}

}  // namespace

Method outer_product_method() {
    Method m;
    m.name = "outer-product";
    m.short_name = "Outer";
    m.source = "tpu §3.2";
    m.formula = "S_i = γ S_{i-1} + c_iᵀ v_i for all i,  then o_i = b_i S_i";
    m.text =
        "Outer products first: the states before all tokens are written down, then each is read by its "
        "query.";
    m.use =
        "To compare with the other forms of the tpu document, for short sequences: all N states are kept "
        "in memory.";
    m.time = "O(N)";
    m.memory = "Nrd";
    m.state = true;
    m.candidate = false;
    m.prefix = true;
    m.cost = outer_product_cost;
    m.running_memory = [](const Work& w) { return w.N * w.r * w.d; };
    m.roundings = roundings_of_one_sum;
    m.f32 = [](const auto& p) { all_states(p); };
    m.f64 = [](const auto& p) { all_states(p); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [](const auto& h) { outer_product(h); }); };
    return m;
}

Method outer_product_blockwise_method() {
    Method m;
    m.name = "outer-product-blockwise";
    m.short_name = "OuterBlock";
    m.source = "tpu §3.3";
    m.formula = "S_i = γ S_{i-1} + c_iᵀ v_i within a block,  o_i = b_i S_i,  S carried";
    m.text = "The states of one block of b tokens at a time, the last of which is carried to the next block.";
    m.use =
        "To compare with the other forms of the tpu document: outer-product without its N states in "
        "memory.";
    m.time = "O(N)";
    m.memory = "rd + brd";
    m.block = 128;
    m.state = true;
    m.candidate = false;
    m.prefix = true;
    m.cost = outer_product_cost_blockwise;
    m.running_memory = [](const Work& w) { return (1 + w.block) * w.r * w.d; };
    m.roundings = roundings_of_one_sum;
    m.f32 = [](const auto& p) { each_head(p, [&](const auto& h) { outer_product_blockwise(h, p.block); }); };
    m.f64 = [](const auto& p) { each_head(p, [&](const auto& h) { outer_product_blockwise(h, p.block); }); };
    m.counted = [](const auto& p) {
        each_head_in_turn(p, [&](const auto& h) { outer_product_blockwise(h, p.block); });
    };
    return m;
}

}  // namespace causeway::exact
