// Causal linear attention: the call, the registry of methods with those written in Lua, and operation counts.
#include "core/exact/causal_linear_attention.hpp"
#include "core/exact/row_sums.hpp"
#include "core/sharded/causal_linear_attention.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/unknown_name.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/called.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/described.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/report.hpp"
#include "lua/bind/result.hpp"
#include "lua/bind/state_pool.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

constexpr const char* registered =
    "causeway.registered_methods";  // registry: list of the tables given to register_method

}  // namespace

std::vector<std::string> registered_names(lua_State* L) {
    std::vector<std::string> names;
    lua_getfield(L, LUA_REGISTRYINDEX, registered);
    const auto n = static_cast<lua_Integer>(lua_rawlen(L, -1));
    for (lua_Integer i = 1; i <= n; ++i) {
        lua_rawgeti(L, -1, i);
        lua_getfield(L, -1, "name");
        names.push_back(lua_tostring(L, -1));
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
    return names;
}

namespace {

// Names and short names.
std::vector<std::string> built_in_names() {
    std::vector<std::string> names;
    for (const auto& m : exact::methods()) names.insert(names.end(), {m.name, m.short_name});
    return names;
}

Shape four_dimensional(const Tensor& A) {
    const auto& s = A.shape();
    return {A.ndim() > 3 ? s[0] : 1, A.ndim() > 2 ? s.back(2) : 1, s.back(1), s.back(0)};
}

// A method written in Lua: forward(B, C, V, options) with tensors of four dimensions. Pushes the table of the method
// and returns true where one has the name.
bool push_registered(lua_State* L, const std::string& name) {
    const auto names = registered_names(L);
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) return false;
    lua_getfield(L, LUA_REGISTRYINDEX, registered);
    lua_rawgeti(L, -1, at - names.begin() + 1);
    lua_remove(L, -2);
    return true;
}

}  // namespace

void refuse_registered(lua_State* L, const std::string& method) {
    if (!push_registered(L, method)) return;
    fail("method: \"", method,
         "\" is written in Lua and has no gradient of its own, grad(f, ...) differentiates it (?grad)");
}

namespace {

// What the method's table says of a feature; nothing: it does not.
std::optional<bool> declared(lua_State* L, int method, const char* feature) {
    std::optional<bool> said;
    if (lua_getfield(L, method, feature) == LUA_TBOOLEAN) said = lua_toboolean(L, -1) != 0;
    lua_pop(L, 1);
    return said;
}

// What the method's table says of a feature, else what its function shows of it (lua/lib/methods.lua).
bool supports(lua_State* L, int method, const char* feature) {
    if (const auto said = declared(L, method, feature)) return *said;
    push_causeway(L);
    lua_getfield(L, -1, "_takes");
    lua_remove(L, -2);
    lua_getfield(L, method, "forward");
    lua_pushstring(L, feature);
    lua_call(L, 2, 1);
    const bool supported = lua_toboolean(L, -1) != 0;
    lua_pop(L, 1);
    return supported;
}

void check_supports(lua_State* L, int method, const std::string& name, const char* feature) {
    if (supports(L, method, feature)) return;
    if (declared(L, method, feature))
        fail(feature, ": the method \"", name, "\" was registered with ", feature, " = false (?register_method)");
    fail(feature, ": the method \"", name, "\" does not support it: its forward makes nothing of options.", feature,
         " (?register_method)");
}

// Stack: ..., the method's table. Pushes the output. The shapes and options are checked as for the built-in methods, so
// forward may trust them: B, C, V have four dimensions and the same heads, options.decay is nil or a list with one γ
// per head.
int call_registered(lua_State* L, const CausalOptions& o, Tensor B, Tensor C, Tensor V) {
    const int method = lua_gettop(L);
    if (counting)
        fail("opcount: the method \"", o.method,
             "\" is written in Lua, only the operations of built-in definitions are counted");
    const auto size = exact::check_grouped_inputs(B, C, V);
    auto gamma = exact::check_decay(o.decay, size.state_heads());
    if (o.state || o.return_state || o.inplace || !o.state_indices.empty())
        fail("state: the method \"", o.method, "\" carries no state");
    if (o.checkpoint_every > 0) fail("checkpoint_every: the method \"", o.method, "\" carries no state");
    if (!o.deterministic.empty())
        fail("deterministic: \"", o.deterministic, "\", which is not known of the method \"", o.method,
             "\", as it is written in Lua");
    if (!o.cu_seqlens.empty()) fail("cu_seqlens: the method \"", o.method, "\" takes one sequence");
    if (!gamma.empty()) check_supports(L, method, o.method, "decay");
    if (o.normalize) check_supports(L, method, o.method, "normalize");
    const auto all_heads = [&](const Tensor& A, Index shared) {
        return exact::repeat_heads(A.reshape(four_dimensional(A)), shared);
    };
    const Tensor values = all_heads(V, size.shared_V);
    const Shape expected = values.shape(), output = exact::output_shape(V, size);
    gamma = exact::decay_of_outputs(gamma, size.shared_V);
    lua_getfield(L, method, "forward");
    push(L, all_heads(B, size.shared_B));
    push(L, all_heads(C, size.shared_C));
    push(L, values);
    lua_newtable(L);
    if (!gamma.empty()) {
        lua_createtable(L, static_cast<int>(gamma.size()), 0);
        for (std::size_t i = 0; i < gamma.size(); ++i) {
            lua_pushnumber(L, gamma[i]);
            lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
        }
        lua_setfield(L, -2, "decay");
    }
    set_field(L, "normalize", o.normalize);
    set_field(L, "scale", o.scale);
    if (o.block) set_field(L, "block", *o.block);
    lua_call(L, 4, 1);
    if (!is_tensor(L, -1))
        fail("method \"", o.method, "\": forward returned a ", type_name(L, -1), ", expected a Tensor");
    const Tensor out = check_tensor(L, -1, "output");
    if (out.shape() != expected && out.shape() != output) {
        fail("method \"", o.method, "\": forward returned ", out.shape().text(), ", expected ", expected.text(),
             " like V");
    }
    if (out.dtype() != V.dtype())
        fail("method \"", o.method, "\": forward returned ", name(out.dtype()), ", expected ", name(V.dtype()),
             " like V");
    push(L, out.reshape(output));
    return 1;
}

constexpr const char* rows_noted = "causeway.noted_cancelled_rows";

// Says once an entry where normalize divides by row sums that leave nothing of V. Asked of whole sequences from an
// empty state.
void note_cancelled_rows(lua_State* L, const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o) {
    if (!o.normalize || counting || o.state || !o.cu_seqlens.empty() || noted(L, rows_noted)) return;
    const auto rows = exact::cancelled_rows(B, C, V, o.decay);
    if (rows.count == 0) return;
    const Shape s = four_dimensional(B);
    const Index heads = std::max(s[1], four_dimensional(V)[1]), batch = rows.head / heads;
    const std::string head = heads > 1 ? sentence(", head ", rows.head % heads + 1) : "",
                      entry = s[0] > 1 ? sentence(", batch ", batch + 1) : "";
    note_once(L, rows_noted,
              sentence("causal_linear_attention: normalize divides by the sum of a row's weights, and ", rows.count,
                       " of ", s[0] * heads * s[2], " sums are 0, negative or nearly cancelled (first: token ",
                       rows.token + 1, head, entry,
                       "): those outputs say little of V. Positive B and C, as elu(x) + 1 or \"favor+\", have no "
                       "such rows."));
}

}  // namespace

void forget_cancelled_rows(lua_State* L) { forget_note(L, rows_noted); }

namespace {

constexpr const char* dropped_state_noted = "causeway.noted_dropped_state";

// Says once where a call goes on from a state and its own is not asked for: `o, state = ...` is then nil, and a loop
// that goes on with it would begin anew.
void note_dropped_state(lua_State* L, const CausalOptions& o) {
    if (!o.state || o.return_state || o.inplace || counting) return;
    note_once(L, dropped_state_noted,
              "causal_linear_attention: the new state is returned with return_state = true: o, st = "
              "causal_linear_attention(B, C, V, {state = st, return_state = true})");
}

// causal_linear_attention(B, C, V, options), or with everything named: {q =, k =, v =, decay = ...} -> output (, state)
// (, checkpoints) (, report)
int causal_linear_attention_(lua_State* L) {
    const auto& call = calls::causal_linear_attention<Tensor>();
    const Arguments given(L, call);
    const auto [B, C, V] = given.tensors<Tensor, 3>();
    auto o = given.read(call);
    count_slots_from_zero(o);
    if (o.method != "auto" && push_registered(L, o.method)) {
        if (o.asked()) fail("shards: given, but the method \"", o.method, "\" of this session runs on one worker");
        call_registered(L, o, B, C, V);
        note_cancelled_rows(L, B, C, V, o);
        return 1;
    }
    const auto built_in = built_in_names();
    if (o.method != "auto" && std::find(built_in.begin(), built_in.end(), o.method) == built_in.end()) {
        std::vector<std::string> names = built_in, listed = calls::causal_methods();  // without their short names
        names.push_back("auto");
        for (const auto& name : registered_names(L)) names.push_back(name), listed.push_back(name);
        throw UnknownName(sentence("method: no method is named \"", o.method, "\""), o.method, names,
                          expected_one_of(listed));
    }
    if (o.asked()) {
        refuse_counting("causal_linear_attention with shards", "the call without shards");
        const ShardedCausalResult sharded = causal_linear_attention_sharded(B, C, V, o, o);
        push(L, sharded.O);
        if (o.return_state) push(L, sharded.state);
        push_report(L, sharded.report);
        return 2 + int(o.return_state);
    }
    CountedCall counted;
    const CausalResult result = counting ? causal_linear_attention_counted(B, C, V, o, counted.operations())
                                         : causal_linear_attention(B, C, V, o);
    note_cancelled_rows(L, B, C, V, o);
    note_dropped_state(L, o);
    push(L, result.O);
    if (o.return_state) push(L, result.state);
    if (result.checkpoints) push(L, *result.checkpoints);
    return 1 + int(o.return_state) + int(result.checkpoints.has_value());
}

// chosen_method(B, C, V, options) -> the name of the method that causal_linear_attention runs by, measured for "auto"
int chosen_method(lua_State* L) {
    const auto& call = calls::causal_linear_attention<Tensor>();
    const Arguments given(L, call);
    const auto [B, C, V] = given.tensors<Tensor, 3>();
    CausalOptions o = given.read(call);
    count_slots_from_zero(o);
    if (!o.cu_seqlens.empty())
        fail("cu_seqlens: given, expected one sequence: of packed ones each runs by the method of its length");
    if (o.method != "auto" && push_registered(L, o.method)) return lua_getfield(L, -1, "name"), 1;
    push_text(L, causal_method(B, C, V, o).name);
    return 1;
}

// Adds the name to those that Tab completes after method = (lua/lib/methods.lua).
void complete_name(lua_State* L, const std::string& name) {
    const int top = lua_gettop(L);
    push_causeway(L);
    for (const char* key : {"_options", "causal_linear_attention", "method"}) {
        if (lua_getfield(L, -1, key) != LUA_TTABLE) return lua_settop(L, top);
    }
    push_text(L, name);
    lua_rawseti(L, -2, static_cast<lua_Integer>(lua_rawlen(L, -2)) + 1);
    lua_settop(L, top);
}

// Says which fields there are where one is none of them.
void check_fields(lua_State* L, const std::vector<std::string>& known) {
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) continue;
        const std::string key = text_at(L, -2);
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        std::string list;
        for (const auto& name : known) list += (list.empty() ? "" : ", ") + name;
        fail("register_method: unknown option \"", key, "\", expected one of ", list, meant_among(L, key, known));
    }
}

// Pushes the function of a method: `forward`, or of a rule made by recurrence the function that gives its output alone.
// Whether it is a rule.
bool push_forward(lua_State* L, const Options& options) {
    if (options.push("forward") == LUA_TFUNCTION) return false;
    push_causeway(L);
    lua_getfield(L, -1, "_forward_of_rule");
    lua_remove(L, -2);
    lua_pushvalue(L, -2);
    lua_call(L, 1, 1);
    if (lua_isnil(L, -1)) fail("forward: expected a function(B, C, V, options), got a ", type_name(L, -2));
    return true;
}

// register_method{name =, forward = function(B, C, V, options) ... end, short =, source =, time =, memory =, ...}
int register_method(lua_State* L) {
    if (!lua_istable(L, 1))
        fail("register_method: expected a table {name = ..., forward = ...}, got a ", type_name(L, 1));
    const std::vector<std::string> fields{"name", "forward", "short", "source", "time", "memory", "decay", "normalize"};
    if (luaL_getmetafield(L, 1, "__call") != LUA_TNIL)
        fail(
            "register_method: a rule alone, expected a name beside it: register_method{name = \"mine\", forward = "
            "rule}");
    check_fields(L, fields);
    const Options options(L, 1, "register_method", views_of(fields));
    const std::string name = options.string("name", "");
    if (name.empty() || name == "auto") fail("name: \"", name, "\", expected the name of the new method");
    for (const auto& taken : built_in_names()) {
        if (taken == name) fail("name: \"", name, "\" is a built-in method");
    }
    for (char c : name) {
        if (static_cast<unsigned char>(c) <= ' ' || c == 127)
            fail("name: \"", name, "\", expected a name without spaces and control characters");
    }
    const bool is_rule = push_forward(L, options);
    const int forward = lua_gettop(L);
    for (const char* key : {"short", "source", "time", "memory"}) options.string(key, "");
    for (const char* key : {"decay", "normalize"}) options.boolean(key, true);

    lua_getfield(L, LUA_REGISTRYINDEX, registered);
    const auto names = registered_names(L);
    const auto place = std::find(names.begin(), names.end(), name) - names.begin();  // the same name replaces
    lua_newtable(L);  // a copy: later changes of the caller's table do not change the method
    for (lua_pushnil(L); lua_next(L, 1);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    lua_pushvalue(L, forward);
    lua_setfield(L, -2, "forward");
    for (const char* key : {"decay", "normalize"}) {
        if (is_rule && !options.has(key)) set_field(L, key, false);
    }
    const int method = lua_gettop(L);
    lua_pushvalue(L, method);
    lua_rawseti(L, -3, place + 1);
    for (const char* feature : {"decay", "normalize"}) supports(L, method, feature);  // what is noted of it, at once
    lua_pop(L, 1);
    if (place == static_cast<std::ptrdiff_t>(names.size())) {
        complete_name(L, name);
        return 0;
    }
    push_causeway(L);
    lua_getfield(L, -1, "_note");
    push_text(L,
              sentence("register_method: \"", name, "\" takes the place of the method registered before by this name"));
    lua_call(L, 1, 0);
    return 0;
}

// _registered_methods() -> list of the tables given to register_method
int registered_methods(lua_State* L) {
    lua_getfield(L, LUA_REGISTRYINDEX, registered);
    return 1;
}

// method_list(): every method as a table, in the order of the registry, those written in Lua last.
int method_list(lua_State* L) {
    lua_newtable(L);
    lua_Integer n = 0;
    const auto finish = [&](bool on_gpu) {
        lua_newtable(L);
        lua_pushliteral(L, "cpu");
        lua_rawseti(L, -2, 1);
        if (on_gpu) {
            lua_pushliteral(L, "gpu");
            lua_rawseti(L, -2, 2);
        }
        lua_setfield(L, -2, "device");
        make_result(L, "a method", "short source time memory block formula text use");
        lua_rawseti(L, -2, ++n);
    };
    for (const auto& m : exact::methods()) {
        push_described(L, m);
        set_field(L, "short", m.short_name);
        set_field(L, "decay", true);
        set_field(L, "normalize", true);
        set_field(L, "state", m.state);
        set_field(L, "prefix", m.prefix);
        set_field(L, "auto", m.candidate);
        set_field(L, "built_in", true);
        if (m.block > 0) set_field(L, "block", m.block);
        finish(runs_on_gpu(m.name));
    }
    for (const auto& name : registered_names(L)) {
        push_registered(L, name);
        const int method = lua_gettop(L);
        lua_newtable(L);
        for (const char* key : {"name", "short", "source", "time", "memory"}) {
            lua_getfield(L, method, key);
            lua_setfield(L, -2, key);
        }
        set_field(L, "decay", supports(L, method, "decay"));
        set_field(L, "normalize", supports(L, method, "normalize"));
        set_field(L, "state", false);
        set_field(L, "prefix", false);
        set_field(L, "auto", false);
        set_field(L, "built_in", false);
        lua_remove(L, method);
        finish(false);
    }
    return 1;
}

// opcount(f, ...): the operations of the built-in definitions that f(...) calls.
int opcount(lua_State* L) {
    const bool callable = luaL_getmetafield(L, 1, "__call") != LUA_TNIL;  // a rule made by recurrence
    if (callable) lua_pop(L, 1);
    if (!callable && !lua_isfunction(L, 1)) fail("opcount: expected a function, got a ", type_name(L, 1));
    OperationCount count;
    struct Scope {
        OperationCount* before;
        int calls_before = std::exchange(counted_calls, 0);
        explicit Scope(OperationCount* now) : before(std::exchange(counting, now)) {}
        ~Scope() { counting = before, counted_calls = calls_before; }
    };
    {
        const Scope scope(&count);
        lua_call(L, lua_gettop(L) - 1, 0);
        if (counted_calls == 0) {
            fail(
                "opcount: nothing that f called is counted, expected causal_linear_attention, linear_attention or "
                "softmax_attention in it");
        }
    }
    lua_newtable(L);
    set_field(L, "multiplies", count.multiplies);
    set_field(L, "adds", count.adds);
    set_field(L, "exponentials", count.exponentials);
    set_field(L, "divisions", count.divisions);
    make_result(L, "a count");
    return 1;
}

// The sizes of one head among the options: N where asked for, r, d (default r), block, normalize.
exact::Work work_of(const Options& options, const char* function, bool length) {
    for (const char* key : {"N", "r"}) {
        if ((length || key[0] != 'N') && !options.has(key))
            fail(function, ": ", key, ": expected a number, got nothing");
    }
    exact::Work w;
    w.N = length ? options.integer("N", 1) : 1;
    w.r = options.integer("r", 1);
    w.d = options.integer("d", w.r);
    if (options.has("block")) {
        w.block = options.integer("block", 0);
        if (w.block < 1) fail("block: ", w.block, ", expected 1 or more");
    }
    w.normalize = options.boolean("normalize", false);
    return w;
}

// cost(method, {N =, r =, d =, block =, normalize =, decay =}) -> {multiplies, adds, divisions, memory} in closed form
int cost_(lua_State* L) {
    const std::string name = check_string(L, 1, "cost: method");
    if (lua_type(L, 2) == LUA_TNUMBER) {
        std::string sizes;
        const char* keys[] = {"N", "r", "d"};
        for (int i = 0; i < 3; ++i) {
            const bool given = lua_type(L, i + 2) == LUA_TNUMBER;
            sizes += sentence(i == 0 ? "" : ", ", keys[i], " = ", given ? lua_tonumber(L, i + 2) : 128);
        }
        fail("cost: options: a number, expected sizes by their names: cost(", in_quotes(name), ", {", sizes, "})");
    }
    refuse_more(L, 2, "cost");
    const Options options(L, 2, "cost");
    const auto built_in = built_in_names();
    if (std::find(built_in.begin(), built_in.end(), name) == built_in.end()) {
        const auto written = registered_names(L);
        if (std::find(written.begin(), written.end(), name) != written.end())
            fail("cost: the method \"", name, "\" is written in Lua, only built-in methods have a closed form");
    }
    const auto& method = exact::method(name);
    exact::Work w = work_of(options, "cost", true);
    w.decay = options.boolean("decay", false);
    const exact::Cost c = exact::cost(method, w);
    lua_createtable(L, 0, 4);
    set_field(L, "multiplies", c.operations.multiplies);
    set_field(L, "adds", c.operations.adds);
    set_field(L, "divisions", c.operations.divisions);
    set_field(L, "memory", c.memory);
    make_result(L, "a cost");
    return 1;
}

// crossover{r =, d =, block =, normalize =, tiles =} -> the length from which hybrid takes fewer operations than
// inner-product
int crossover_(lua_State* L) {
    const Options options(L, 1, "crossover");
    const bool dense = options.choice("tiles", "dense", {"dense", "triangular"}) == "dense";
    lua_pushinteger(L, exact::crossover(work_of(options, "crossover", false),
                                        dense ? exact::Tiles::dense : exact::Tiles::triangular));
    return 1;
}

int push_decay(lua_State* L, Index heads, double (*gamma)(double head, double heads)) {
    constexpr Index most = 1 << 20;
    if (heads < 1 || heads > most) fail("h: ", heads, ", expected a number of heads from 1 to ", most);
    Tensor out(DType::f64, {heads});
    for (Index h = 0; h < heads; ++h) out.set(h, gamma(static_cast<double>(h), static_cast<double>(heads)));
    push(L, out);
    return 1;
}

// The slopes of ALiBi (Press et al. 2022): the geometric sequence 2^(-8/n), 2^(-16/n), ... for the largest power of two
// n up to h, then every second slope of 2n heads. As decays: γ = exp(-slope).
int alibi_slopes(lua_State* L) {
    return push_decay(L, check_integer(L, 1, "h"), [](double head, double heads) {
        const double n = std::exp2(std::floor(std::log2(heads)));
        return head < n ? std::exp2(-8 * (head + 1) / n) : std::exp2(-4 * (2 * (head - n) + 1) / n);
    });
}

// The decays of RetNet (Sun et al. 2023): γ = 1 - 2^(-5 - head), heads from 0.
int retnet_decay(lua_State* L) {
    return push_decay(L, check_integer(L, 1, "h"), [](double head, double) { return 1 - std::exp2(-5 - head); });
}

}  // namespace

void open_attention(lua_State* L) {
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, registered);
    add_functions_by_device(L, {{"causal_linear_attention",
                                 guarded<pooled<calls::causal_linear_attention<Tensor>, causal_linear_attention_>>}});
    add_functions(L, {{"register_method", guarded<register_method>},
                      {"chosen_method", guarded<chosen_method>},
                      {"_registered_methods", guarded<registered_methods>},
                      {"method_list", guarded<method_list>},
                      {"opcount", guarded<opcount>},
                      {"cost", guarded<cost_>},
                      {"crossover", guarded<crossover_>},
                      {"alibi_slopes", guarded<alibi_slopes>},
                      {"retnet_decay", guarded<retnet_decay>}});
}

}  // namespace causeway::lua
