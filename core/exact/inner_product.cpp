// The definition, whose rows are products of a matrix and a vector, is the form too; heads are the tasks.
#include "core/exact/inner_product.hpp"

#include "core/exact/all_methods.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {

namespace {

// τ(N)(r+d) multiply-adds; N scalars (claims G1).
Cost inner_product_cost(const Work& w) {
    const closed_form::Wide scores = closed_form::triangle(w.N);
    return closed_form::of(scores * (w.r + w.d), w.decay ? scores : 0, w.decay ? 2 * w.N : w.N);
}

}  // namespace

Method inner_product_method() {
    Method m;
    m.name = "inner-product";
    m.short_name = "Inner";
    m.source = "tpu §3.1";
    m.formula = "o_i = Σ_{j<=i} γ^(i-j) (b_i · c_j) v_j";
    m.text =
        "Inner products first: for each query its scores with all keys before it, then their sum over "
        "the values.";
    m.use =
        "To compare with the other forms of the tpu document. From about N = 2rd/(r+d) + b on, hybrid "
        "has fewer operations: crossover{r =, d =} says where.";
    m.time = "O(N²)";
    m.memory = "N";
    m.candidate = false;
    m.prefix = true;
    m.cost = inner_product_cost;
    m.running_memory = [](const Work& w) { return w.decay ? 2 * w.N : w.N; };
    m.roundings = roundings_of_one_sum;
    m.f32 = [](const auto& p) { each_head(p, [](const auto& h) { inner_product(h); }); };
    m.f64 = [](const auto& p) { each_head(p, [](const auto& h) { inner_product(h); }); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [](const auto& h) { inner_product(h); }); };
    return m;
}

}  // namespace causeway::exact
