// Linear attention with gates and delta rules: whole sequences and single tokens.
#include <optional>
#include <utility>

#include "core/gated/step.hpp"
#include "lua/about.hpp"
#include "lua/bind.hpp"
#include "lua/counting.hpp"
#include "lua/families.hpp"

namespace causeway::lua {
namespace {

// The arguments of a call: in order with options behind them, or all in one table: {q =, k =, v =, update = ...}.
struct Arguments {
    lua_State* L;
    bool named;
    int count;  // before the options

    Arguments(lua_State* state, int n) : L(state), named(lua_gettop(state) == 1 && lua_istable(state, 1)), count(n) {}

    Options options(const char* function, std::vector<std::string> known, std::initializer_list<const char*> names) const {
        if (named) known.insert(known.end(), names.begin(), names.end());
        return {L, named ? 1 : count + 1, function, std::move(known)};
    }

    Tensor tensor(int index, const char* name) const {
        if (!named) return check_tensor(L, index, name);
        lua_getfield(L, 1, name);
        const Tensor out = check_tensor(L, -1, name);
        lua_pop(L, 1);
        return out;
    }
};

std::optional<Tensor> tensor_option(lua_State* L, const Options& options, const char* key) {
    if (!options.has(key)) return {};
    options.push(key);
    const Tensor out = check_tensor(L, -1, key);
    lua_pop(L, 1);
    return out;
}

// What both functions have. Names of updates and modes are checked in core.
LinearOptions common_options(lua_State* L, const Options& options) {
    LinearOptions o;
    o.update = options.string("update", o.update);
    o.log_decay = tensor_option(L, options, "log_decay");
    o.beta = tensor_option(L, options, "beta");
    o.scale = options.number("scale", o.scale);
    if (options.choice("device", "cpu", {"cpu", "gpu"}) == "gpu") fail("device: \"gpu\" cannot be used, ", gpu_text());
    return o;
}

// linear_attention(q, k, v, options) -> output, state
int linear_attention_(lua_State* L) {
    const Arguments given(L, 3);
    const Tensor q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v");
    const Options options =
        given.options("linear_attention", {"update", "log_decay", "beta", "mode", "chunk", "scale", "state", "device"}, {"q", "k", "v"});
    LinearOptions o = common_options(L, options);
    o.mode = options.string("mode", o.mode);
    o.chunk = options.integer("chunk", o.chunk);
    o.state = tensor_option(L, options, "state");
    const LinearResult result = counting ? linear_attention_counted(q, k, v, o, *counting) : linear_attention(q, k, v, o);
    push(L, result.O);
    push(L, result.state);
    return 2;
}

// linear_attention_step(q, k, v, state, options) -> output, state
int linear_attention_step_(lua_State* L) {
    const Arguments given(L, 4);
    const Tensor q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v");
    Tensor state = given.tensor(4, "state");
    const Options options =
        given.options("linear_attention_step", {"update", "log_decay", "beta", "scale", "inplace", "device"}, {"q", "k", "v", "state"});
    const LinearOptions o = common_options(L, options);
    if (counting) fail("opcount: linear_attention_step is not counted, expected linear_attention, with mode = \"recurrent\" for the same operations");
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
    add_functions(L, {{"linear_attention", guarded<linear_attention_>}, {"linear_attention_step", guarded<linear_attention_step_>}});
}

}  // namespace causeway::lua
