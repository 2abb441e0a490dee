// The order of dimensions in which a call is given its tensors: with layout = "bnhd" they are put into the order
// [batch, heads, N, d] that every function takes, and results back. Where keys look like the other order and no layout
// is named, a note says so.
#include "core/calls/layout.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/calls/description.hpp"
#include "core/kit/callers_order.hpp"
#include "core/tensor/rearrange.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

using Names = std::vector<std::string_view>;

// The arguments, options and results that have a dimension of heads and one of tokens beside each other.
bool has_tokens(std::string_view name) {
    static const Names names{"q",   "k",  "v",  "B",  "C",  "V",  "dO", "zeta",      "log_decay",  "beta",
                             "O",   "dq", "dk", "dv", "dB", "dC", "dV", "F",         "dlog_decay", "dbeta",
                             "lse", "a",  "u",  "w",  "da", "du", "dw", "norm_gate", "dnorm_gate"};
    return std::find(names.begin(), names.end(), name) != names.end();
}

// The results of a call in their order, as far as one of them has tokens. A table of gradients stands for its fields.
const Names& results_of(std::string_view call) {
    static const Names output{"O"}, with_lse{"O", "lse"}, decoded{"O", "report", "lse"}, energies{"F"}, covariance{};
    if (call == "softmax_attention") return with_lse;
    if (call == "tree_decode" || call == "ring_decode") return decoded;
    if (call == "energy") return energies;
    return call == "energy_hessian" ? covariance : output;
}

// Pushes the value at `index`; a tensor on the CPU with dimension `heads` and the next one swapped, where it has both.
void push_swapped(lua_State* L, int index, int heads) {
    if (!is_tensor(L, index)) return lua_pushvalue(L, index);
    const Tensor& a = check_tensor(L, index, "tensor");
    if (a.ndim() < heads + 2) return lua_pushvalue(L, index);
    std::vector<int> order(static_cast<std::size_t>(a.ndim()));
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[static_cast<std::size_t>(heads)], order[static_cast<std::size_t>(heads) + 1]);
    push(L, permute(a, order));
}

// Pushes a copy of the table at `index` with its tensors that have tokens swapped.
void push_swapped_table(lua_State* L, int index, int heads) {
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, index);) {
        lua_pushvalue(L, -2);
        if (lua_type(L, -3) == LUA_TSTRING && has_tokens(lua_tostring(L, -3)))
            push_swapped(L, lua_gettop(L) - 1, heads);
        else lua_pushvalue(L, -2);
        lua_settable(L, -5);
        lua_pop(L, 1);
    }
}

// The arguments of a call as they lie on the stack: f(q, k, v, options) or f{q = ..., option = ...}.
class Given {
public:
    Given(lua_State* L, const calls::Description& call)
        : L_(L),
          call_(call),
          count_(lua_gettop(L)),
          named_(count_ == 1 && lua_istable(L, 1)),
          options_(named_ ? 1 : static_cast<int>(call.arguments.size()) + 1) {}

    // Pushes the argument that has this name or alias; nil: there is none. Returns the name it has in this call.
    const char* push(std::string_view name) const {
        for (std::size_t i = 0; i < call_.arguments.size(); ++i) {
            const auto& argument = call_.arguments[i];
            if (argument.name != name && !(argument.alias && argument.alias == name)) continue;
            push(i);
            return argument.name;
        }
        lua_pushnil(L_);
        return nullptr;
    }

    // The option layout, "" for none. What is no layout is for the call to refuse.
    std::string layout() const {
        std::string value;
        if (lua_istable(L_, options_)) {
            if (lua_getfield(L_, options_, "layout") != LUA_TNIL) value = luaL_tolstring(L_, -1, nullptr);
            lua_settop(L_, count_);
        }
        return value;
    }

    // The dimension of the heads in all tensors that have tokens, counted from 0: it is that of the queries, which end
    // with heads, tokens and width. Negative: there are no heads.
    int heads() const {
        push("q");
        const int heads = is_tensor(L_, -1) ? check_tensor(L_, -1, "q").ndim() - 3 : -1;
        lua_pop(L_, 1);
        return heads;
    }

    // Pushes all arguments, those with tokens swapped.
    void push_all_swapped(int heads) const {
        for (int i = 1; i <= count_; ++i) {
            const bool before_options = !named_ && i < options_;
            if (i == options_ && lua_istable(L_, i)) push_swapped_table(L_, i, heads);
            else if (before_options && has_tokens(call_.arguments[static_cast<std::size_t>(i) - 1].name))
                push_swapped(L_, i, heads);
            else lua_pushvalue(L_, i);
        }
    }

private:
    void push(std::size_t i) const {
        const auto& argument = call_.arguments[i];
        const int place = static_cast<int>(i) + 1;
        if (named_ && lua_getfield(L_, 1, argument.name) == LUA_TNIL && argument.alias) {
            lua_pop(L_, 1);
            lua_getfield(L_, 1, argument.alias);
        }
        if (named_) return;
        if (place <= count_) lua_pushvalue(L_, place);
        else lua_pushnil(L_);
    }

    lua_State* L_;
    const calls::Description& call_;
    int count_;
    bool named_;
    int options_;  // their place on the stack
};

// Puts the results from place `first` of the stack on, or in a table of gradients, back into the order of the caller.
void swap_results(lua_State* L, int first, std::string_view call, int heads) {
    const Names& names = results_of(call);
    for (int i = first; i <= lua_gettop(L); ++i) {
        const auto place = static_cast<std::size_t>(i - first);
        if (place >= names.size() || !has_tokens(names[place])) continue;
        if (lua_istable(L, i)) {
            push_swapped_table(L, i, heads);
            if (lua_getmetatable(L, i) != 0) lua_setmetatable(L, -2);
        } else {
            push_swapped(L, i, heads);
        }
        lua_replace(L, i);
    }
}

// Keys with more heads than models have, and fewer tokens than heads: [batch, N, heads, d] looks so, and hardly ever
// [batch, heads, N, d]. Keys, since a cache is long where the queries are one token.
bool looks_swapped(const Shape& k) {
    constexpr Index many_heads = 64, few_tokens = 128;
    return k.ndim() == 4 && k[1] > many_heads && k[2] > 1 && k[2] <= few_tokens && k[1] >= 2 * k[2];
}

// Says that the keys, argument `name` of a call, look swapped, and what is done about that.
void note_swapped(lua_State* L, std::string_view call, std::string_view name, const Shape& shape,
                  const std::string& way) {
    push_causeway(L);
    lua_getfield(L, -1, "_note");
    push_text(L, sentence(call, ": ", name, " is ", shape.text(), ":\n", shape[1], " heads of ", shape[2],
                          " tokens? Expected is [batch, heads, N, d];\n", way));
    lua_call(L, 1, 0);
    lua_pop(L, 1);
}

std::string by_hand(std::string_view name) {
    return sentence("[batch, N, heads, d] becomes it by permutedims(", name, ", 1, 3, 2, 4)");
}

constexpr const char* by_option = "[batch, N, heads, d] is layout = \"bnhd\" (\"bhnd\" hides this note)";

// Says once what looks wrong about the keys; true where it did.
bool note(lua_State* L, const Given& given, const calls::Description& call) {
    const int top = lua_gettop(L);
    const char* name = given.push("k");
    const bool on_gpu = is_gpu_tensor(L, -1);
    const Shape shape = is_tensor(L, -1) || on_gpu ? check_form(L, -1, "k").shape() : Shape{};
    lua_settop(L, top);
    if (!name || !looks_swapped(shape)) return false;
    const std::string way = call.option("layout") && !on_gpu ? by_option : by_hand(name) + (on_gpu ? ":gpu()" : "");
    note_swapped(L, call.name, name, shape, way);
    return true;
}

// _note_layout(call, name, k, has_option): the same of a call of Lua's, which has the option layout or not
int note_layout(lua_State* L) {
    const Shape& shape = check_tensor(L, 3, "k").shape();
    const std::string name = check_string(L, 2, "name");
    const std::string way = lua_toboolean(L, 4) ? by_option : by_hand(name);
    if (looks_swapped(shape)) note_swapped(L, check_string(L, 1, "call"), name, shape, way);
    return 0;
}

// Upvalues: the function, the description of the call, whether its note has been given.
int in_layout(lua_State* L) {
    const int count = lua_gettop(L);
    luaL_checkstack(L, count + LUA_MINSTACK, "too many arguments");
    const auto& call = *static_cast<const calls::Description*>(lua_touserdata(L, lua_upvalueindex(2)));
    const Given given(L, call);
    const std::string layout = given.layout();
    const int heads = layout == calls::tokens_first ? given.heads() : -1;
    if (layout.empty() && !lua_toboolean(L, lua_upvalueindex(3)) && note(L, given, call)) {
        lua_pushboolean(L, true);
        lua_replace(L, lua_upvalueindex(3));
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    if (heads >= 0) given.push_all_swapped(heads);
    else
        for (int i = 1; i <= count; ++i) lua_pushvalue(L, i);
    {
        const kit::CallersOrder order(heads);
        lua_call(L, count, LUA_MULTRET);
    }
    if (heads >= 0) swap_results(L, count + 1, call.name, heads);
    return lua_gettop(L) - count;
}

}  // namespace

void open_layouts(lua_State* L) {
    push_causeway(L);
    const auto wrap = [L](const char* function, const calls::Description& call) {
        lua_getfield(L, -1, function);
        lua_pushlightuserdata(L, const_cast<calls::Description*>(&call));
        lua_pushboolean(L, false);
        lua_pushcclosure(L, guarded<in_layout>, 3);
        lua_setfield(L, -2, function);
    };
    for (const auto& call : calls::descriptions()) {
        const auto is_keys = [](const calls::Argument& a) { return a.name == std::string_view("k") || a.alias; };
        if (std::none_of(call.arguments.begin(), call.arguments.end(), is_keys)) continue;
        wrap(call.name.c_str(), call);
        // It takes what the call takes.
        if (call.name == "causal_linear_attention") wrap("chosen_method", call);
    }
    lua_pop(L, 1);
    add_functions(L, {{"_note_layout", guarded<note_layout>}});
}

}  // namespace causeway::lua
