#include "lua/bind/attention_args.hpp"

#include <utility>

#include "lua/bind/gpu.hpp"

namespace causeway::lua {

namespace call_forms {

const CallForm causal_linear_attention{
    "causal_linear_attention",
    3,
    {"B", "C", "V", "q", "k", "v"},
    {"method", "decay", "normalize", "block", "scale", "device", "precision", "state", "return_state"}};
const CallForm causal_linear_attention_grad{
    "causal_linear_attention_grad",
    4,
    {"B", "C", "V", "q", "k", "v", "dO"},
    {"method", "decay", "normalize", "block", "scale", "device", "state", "precision", "ddecay"}};
const CallForm linear_attention{"linear_attention",
                                3,
                                {"q", "k", "v"},
                                {"update", "log_decay", "beta", "mode", "chunk", "scale", "state", "device"}};
const CallForm linear_attention_step{"linear_attention_step",
                                     4,
                                     {"q", "k", "v", "state"},
                                     {"update", "log_decay", "beta", "scale", "inplace", "device"}};
const CallForm linear_attention_grad{
    "linear_attention_grad",
    4,
    {"q", "k", "v", "dO"},
    {"update", "log_decay", "beta", "mode", "chunk", "scale", "state", "device", "dstate"}};
const CallForm softmax_attention{
    "softmax_attention", 3, {"q", "k", "v"}, {"causal", "method", "scale", "return_lse", "device"}};
const CallForm softmax_attention_grad{
    "softmax_attention_grad", 4, {"q", "k", "v", "dO"}, {"causal", "method", "scale", "O", "lse", "device"}};

}  // namespace call_forms

Arguments::Arguments(lua_State* L, const CallForm& form)
    : L_(L), form_(form), named_(lua_gettop(L) == 1 && lua_istable(L, 1)) {}

void Arguments::push_tensor(int index, const char* name, const char* alias) const {
    if (!named_) return lua_pushvalue(L_, index);
    if (lua_getfield(L_, 1, name) == LUA_TNIL && alias) {
        lua_pop(L_, 1);
        lua_getfield(L_, 1, alias);
    }
}

Tensor Arguments::tensor(int index, const char* name, const char* alias) const {
    push_tensor(index, name, alias);
    const Tensor out = check_tensor(L_, -1, name);
    lua_pop(L_, 1);
    return out;
}

Options Arguments::options() const {
    std::vector<std::string> known = form_.options;
    if (named_) known.insert(known.end(), form_.names.begin(), form_.names.end());
    for (int i = form_.tensors + 2; !named_ && i <= lua_gettop(L_); ++i)
        if (!lua_isnil(L_, i))
            fail(form_.function, ": argument ", i, ": a ", type_name(L_, i), ", expected none after the options");
    return {L_, named_ ? 1 : form_.tensors + 1, form_.function, std::move(known)};
}

std::optional<Tensor> tensor_option(lua_State* L, const Options& options, const char* key) {
    if (!options.has(key)) return {};
    options.push(key);
    const Tensor out = check_tensor(L, -1, key);
    lua_pop(L, 1);
    return out;
}

std::vector<double> decay_option(lua_State* L, const Options& options) {
    std::vector<double> decay;
    const int type = options.push("decay");
    const int index = lua_gettop(L);
    if (is_gpu_tensor(L, index)) {
        push_on_cpu(L, index);
        lua_replace(L, index);
    }
    if (type == LUA_TNUMBER) {
        decay.push_back(lua_tonumber(L, index));
    } else if (is_tensor(L, index)) {
        const Tensor A = check_tensor(L, index, "decay");
        for (Index i = 0; i < A.size(); ++i) decay.push_back(A.get(i));
    } else if (type == LUA_TTABLE) {
        const auto n = static_cast<lua_Integer>(lua_rawlen(L, index));
        for (lua_Integer i = 1; i <= n; ++i) {
            lua_geti(L, index, i);
            decay.push_back(check_number(L, -1, "decay"));
            lua_pop(L, 1);
        }
    } else if (type != LUA_TNIL) {
        fail("decay: expected a number, a list of numbers or a Tensor, got a ", type_name(L, index));
    }
    if (type != LUA_TNIL && type != LUA_TNUMBER && decay.empty())
        fail("decay: no values, expected a number in (0, 1] or one per head");
    lua_pop(L, 1);
    return decay;
}

void check_device(const Options& options) { options.choice("device", "cpu", {"cpu", "gpu"}); }

void check_precision(const Options& options) { options.choice("precision", "exact", {"exact", "bf16x3", "tf32"}); }

CausalOptions causal_options(lua_State* L, const Options& options) {
    CausalOptions o;
    o.method = options.string("method", o.method);
    o.decay = decay_option(L, options);
    o.normalize = options.boolean("normalize", o.normalize);
    if (options.has("block")) {
        o.block = options.integer("block", 0);
        if (*o.block < 1) fail("block: ", *o.block, ", expected 1 or more");
    }
    o.scale = options.number("scale", o.scale);
    o.return_state = options.boolean("return_state", o.return_state);
    o.state = tensor_option(L, options, "state");
    check_device(options);
    check_precision(options);
    return o;
}

LinearOptions linear_options(lua_State* L, const Options& options) {
    LinearOptions o;
    o.update = options.string("update", o.update);
    o.log_decay = tensor_option(L, options, "log_decay");
    o.beta = tensor_option(L, options, "beta");
    o.mode = options.string("mode", o.mode);
    o.chunk = options.integer("chunk", o.chunk);
    o.scale = options.number("scale", o.scale);
    check_device(options);
    return o;
}

}  // namespace causeway::lua
