// Linear attention with gates and delta rules: whole sequences and single tokens.
#include "core/gated/step.hpp"
#include "lua/bind/attention_args.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

// linear_attention(q, k, v, options) -> output, state
int linear_attention_(lua_State* L) {
    const Arguments given(L, call_forms::linear_attention);
    const Tensor q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v");
    const Options options = given.options();
    LinearOptions o = linear_options(L, options);
    o.state = tensor_option(L, options, "state");
    const LinearResult result =
        counting ? linear_attention_counted(q, k, v, o, count_of_call()) : linear_attention(q, k, v, o);
    push(L, result.O);
    push(L, result.state);
    return 2;
}

// linear_attention_step(q, k, v, state, options) -> output, state
int linear_attention_step_(lua_State* L) {
    const Arguments given(L, call_forms::linear_attention_step);
    const Tensor q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v");
    Tensor state = given.tensor(4, "state");
    const Options options = given.options();
    const LinearOptions o = linear_options(L, options);
    refuse_counting("linear_attention_step", "linear_attention, with mode = \"recurrent\" for the same operations");
    if (!options.boolean("inplace", false)) {
        const auto size = gated::check_sizes(q, k, v, o);
        gated::check_state(state, k, size);
        state = state.dtype() == size.compute ? state.copy() : state.to(size.compute);
    }
    Shape shape = q.shape();
    if (q.ndim() > 0 && v.ndim() > 0) shape[q.ndim() - 1] = v.shape().back();
    Tensor O(q.dtype(), shape);
    linear_attention_step(q, k, v, state, O, o);
    push(L, O);
    push(L, state);
    return 2;
}

}  // namespace

void open_gated(lua_State* L) {
    add_functions_by_device(L, {{"linear_attention", guarded<linear_attention_>},
                                {"linear_attention_step", guarded<linear_attention_step_>}});
}

}  // namespace causeway::lua
