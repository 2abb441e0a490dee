#include "lua/bind/call.hpp"

#include <cmath>

#include "core/base/text.hpp"
#include "core/calls/description.hpp"
#include "core/distributed/mpi.hpp"
#include "core/kit/callers_order.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {

Index whole_number(const Options& given, const OptionRule& rule) {
    const Index n = given.integer(rule.name, 0);
    if ((!rule.min || n >= *rule.min) && (!rule.max || n <= *rule.max)) return n;
    if (rule.type) fail(rule.name, ": ", n, ", expected ", rule.type);
    if (rule.max) fail(rule.name, ": ", n, ", expected from ", *rule.min, " to ", *rule.max);
    fail(rule.name, ": ", n, ", expected ", *rule.min, " or more");
}

std::size_t place_of_choice(const Options& given, const OptionRule& rule) {
    const auto choices = rule.choices();
    const std::string value = given.choice(rule.name, "", choices);
    return static_cast<std::size_t>(std::find(choices.begin(), choices.end(), value) - choices.begin());
}

std::vector<Index> list_of_lengths(lua_State* L, const Options& given, const OptionRule& rule) {
    std::vector<Index> lengths;
    const char* const wanted = rule.type ? rule.type : "a list of whole numbers";
    const int type = given.push(rule.name);
    if (is_tensor(L, -1)) {
        const Tensor A = check_tensor(L, -1, rule.name);
        if (A.ndim() != 1) fail(rule.name, ": ", A.summary(), ", expected ", wanted);
        for (Index i = 0; i < A.size(); ++i) {
            const double x = A.get(i);
            if (!(std::abs(x) <= 9007199254740992.0 && x == std::floor(x)))  // 2^53: exact
                fail(rule.name, ": ", number_text(x), " in element ", i + 1, ", expected a whole number");
            lengths.push_back(static_cast<Index>(x));
        }
        if (lengths.empty()) fail(rule.name, ": an empty Tensor, expected ", wanted);
        lua_pop(L, 1);
        return lengths;
    }
    if (type != LUA_TTABLE) fail(rule.name, ": expected ", wanted, ", got a ", type_name(L, -1));
    const auto n = static_cast<lua_Integer>(lua_rawlen(L, -1));
    for (lua_Integer i = 1; i <= n; ++i) {
        lua_geti(L, -1, i);
        lengths.push_back(check_integer(L, -1, rule.name));
        lua_pop(L, 1);
    }
    if (lengths.empty()) fail(rule.name, ": an empty table, expected ", wanted);
    lua_pop(L, 1);
    return lengths;
}

std::vector<double> list_of_decays(lua_State* L, const Options& given, const OptionRule& rule) {
    std::vector<double> decay;
    const int type = given.push(rule.name);
    const int index = lua_gettop(L);
    if (is_gpu_tensor(L, index)) {
        push_on_cpu(L, index);
        lua_replace(L, index);
    }
    if (type == LUA_TNUMBER) {
        decay.push_back(lua_tonumber(L, index));
    } else if (is_tensor(L, index)) {
        const Tensor A = check_tensor(L, index, rule.name);
        for (Index i = 0; i < A.size(); ++i) decay.push_back(A.get(i));
    } else if (type == LUA_TTABLE) {
        const auto n = static_cast<lua_Integer>(lua_rawlen(L, index));
        for (lua_Integer i = 1; i <= n; ++i) {
            lua_geti(L, index, i);
            decay.push_back(check_number(L, -1, rule.name));
            lua_pop(L, 1);
        }
    } else {
        fail(rule.name, ": expected a number, a list of numbers or a Tensor, got a ", type_name(L, index));
    }
    if (decay.empty()) fail(rule.name, ": no values, expected a number in (0, 1] or one per head");
    lua_pop(L, 1);
    return decay;
}

std::map<std::string, Tensor> table_of_tensors(lua_State* L, const Options& given, const OptionRule& rule) {
    std::map<std::string, Tensor> tensors;
    if (given.push(rule.name) != LUA_TTABLE) fail(rule.name, ": expected ", rule.type, ", got a ", type_name(L, -1));
    const auto keys = rule.choices();
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const std::string key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
            std::string list;
            for (const auto& name : keys) list += (list.empty() ? "" : &name == &keys.back() ? " or " : ", ") + name;
            fail(rule.name, ": \"", key, "\" ", rule.why, ", expected ", list);
        }
        tensors.emplace(key, check_tensor(L, -1, key.c_str()));
    }
    lua_pop(L, 1);
    return tensors;
}

Tensor constant_of(lua_State* L, const char* option, const Shape& v, DType type) {
    Shape shape;
    for (int i = 0; i + 1 < v.ndim(); ++i) shape.push_back(v[i]);
    if (lua_type(L, -1) == LUA_TNUMBER) return Tensor::full(type, shape, lua_tonumber(L, -1));
    const Index heads = v.ndim() > 2 ? v.back(2) : 1, tokens = v.back(1), count = static_cast<Index>(lua_rawlen(L, -1));
    if (count != heads)
        fail(option, ": a list of ", count, ", expected ", heads, heads == 1 ? " number" : " numbers",
             ", one a head, a number for all, or a Tensor ", kit::callers_sizes(shape));
    Tensor out(type, shape);
    for (Index h = 0; h < heads; ++h) {
        lua_geti(L, -1, h + 1);
        const double value = check_number(L, -1, option);
        lua_pop(L, 1);
        for (Index i = h * tokens; i < out.size(); i += heads * tokens)
            for (Index t = 0; t < tokens; ++t) out.set(i + t, value);
    }
    return out;
}

void check_effect(const Options& given, const OptionRule& rule, calls::Effect effect, calls::Device device) {
    const bool on_gpu = device == calls::Device::gpu;
    if (effect == calls::Effect::refused)
        fail(rule.name, ": given, but on the ", on_gpu ? "GPU" : "CPU", " ", rule.why);
    if (!on_gpu || !rule.cpu_choice || given.string(rule.name, "") != rule.cpu_choice) return;
    std::string others;
    for (const auto& name : rule.choices())
        if (name != rule.cpu_choice) others += (others.empty() ? "\"" : ", \"") + name + "\"";
    fail(rule.name, ": \"", rule.cpu_choice, "\" does not run on the GPU, expected ", others);
}

void check_timeout(const calls::Sharding& o) {
    const distributed::MpiTimeout number(o.timeout);  // which says what is no number of seconds
    if (o.timeout == 0 || o.asked()) return;
    fail("timeout: ", o.timeout, ", but one worker waits for no other, expected shards, sizes or engine beside it");
}

bool shared_by_ranks(lua_State* L, const calls::Description& call) {
    if (distributed::mpi_size() == 1 || !call.option("engine")) return false;
    const int options = lua_gettop(L);
    const bool given = options > 0 && lua_istable(L, options);
    const auto type_of = [&](const char* key) {
        if (!given) return LUA_TNIL;
        lua_pushstring(L, key);
        return lua_rawget(L, options);
    };
    const bool attention = call.option("sharded");
    bool shared = !attention;  // decoding is shared of itself
    if (const int type = type_of("engine"); type == LUA_TSTRING) {
        const std::string_view name = lua_tostring(L, -1);
        // Decoding by "nccl" of tensors on the CPU is one process's own.
        shared = name != "threads" && (attention || name != "nccl" || is_gpu_tensor(L, 1));
    } else if (type != LUA_TNIL) {
        shared = true;
    } else if (attention) {  // as Sharding::asked() has it
        type_of("exchange");
        const char* const exchange = lua_tostring(L, -1);
        type_of("shards");
        shared =
            (lua_isnumber(L, -1) && lua_tonumber(L, -1) != 0) || (exchange && exchange != std::string_view("auto"));
        shared = shared || type_of("sizes") != LUA_TNIL || (type_of("sharded") != LUA_TNIL && lua_toboolean(L, -1));
    }
    lua_settop(L, options);
    return shared;
}

Arguments::Arguments(lua_State* L, const char* function, const std::vector<calls::Argument>& arguments,
                     std::vector<std::string_view> known)
    : L_(L),
      function_(function),
      arguments_(arguments),
      known_(std::move(known)),
      named_(lua_gettop(L) == 1 && lua_istable(L, 1)) {}

void Arguments::push(std::size_t i) const {
    if (!named_) return lua_pushvalue(L_, static_cast<int>(i) + 1);
    const auto& argument = arguments_[i];
    if (lua_getfield(L_, 1, argument.name) == LUA_TNIL && argument.alias) {
        lua_pop(L_, 1);
        lua_getfield(L_, 1, argument.alias);
    }
}

std::size_t Arguments::place_of(std::string_view argument) const {
    const auto is_it = [&](const calls::Argument& a) { return a.name == argument; };
    return static_cast<std::size_t>(std::find_if(arguments_.begin(), arguments_.end(), is_it) - arguments_.begin());
}

bool Arguments::has(std::size_t i) const {
    push(i);
    const bool given = !lua_isnoneornil(L_, -1);
    lua_pop(L_, 1);
    return given;
}

Options Arguments::options() const {
    std::vector<std::string_view> known = known_;
    const int after = static_cast<int>(arguments_.size()) + 1;
    if (named_) {
        for (const auto& argument : arguments_) {
            known.emplace_back(argument.name);
            if (argument.alias) known.emplace_back(argument.alias);
        }
    }
    for (int i = after + 1; !named_ && i <= lua_gettop(L_); ++i)
        if (!lua_isnil(L_, i))
            fail(function_, ": argument ", i, ": a ", type_name(L_, i), ", expected none after the options");
    return {L_, named_ ? 1 : after, function_, known};
}

namespace {

const char* word(calls::Effect effect) {
    return effect == calls::Effect::works ? "works" : effect == calls::Effect::none ? "none" : "refused";
}

// Sets a field of the table at the top to a list of the names.
void set_list(lua_State* L, const char* key, const std::vector<std::string>& names) {
    lua_createtable(L, static_cast<int>(names.size()), 0);
    for (std::size_t i = 0; i < names.size(); ++i) {
        push_text(L, names[i]);
        lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
    }
    lua_setfield(L, -2, key);
}

void push_option(lua_State* L, const calls::OptionDescription& o) {
    lua_newtable(L);
    set_field(L, "name", o.name);
    set_field(L, "type", o.type);
    set_field(L, "text", o.text);
    set_field(L, "default", o.standard);
    set_field(L, "cpu", word(o.cpu));
    set_field(L, "gpu", word(o.gpu));
    if (!o.listed_by.empty()) set_field(L, "listed_by", o.listed_by);
    if (o.choices) set_list(L, "choices", o.choices());
    if (!o.cpu_choice.empty()) set_field(L, "cpu_choice", o.cpu_choice);
    set_field(L, "example", o.example);
}

// _described_calls() -> {{name =, arguments = {names}, inputs =, options = {{name =, type =, text =, default =,
// choices =, example =, ...}}}}; an argument that has another name goes by that one, as in the inputs
int described_calls(lua_State* L) {
    lua_newtable(L);
    lua_Integer n = 0;
    for (const auto& call : calls::descriptions()) {
        lua_newtable(L);
        set_field(L, "name", call.name);
        std::vector<std::string> arguments;
        for (const auto& argument : call.arguments)
            arguments.emplace_back(argument.alias ? argument.alias : argument.name);
        set_list(L, "arguments", arguments);
        set_field(L, "inputs", call.inputs);
        lua_createtable(L, static_cast<int>(call.options.size()), 0);
        for (std::size_t i = 0; i < call.options.size(); ++i) {
            push_option(L, call.options[i]);
            lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
        }
        lua_setfield(L, -2, "options");
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

}  // namespace

void open_calls(lua_State* L) { add_functions(L, {{"_described_calls", guarded<described_calls>}}); }

}  // namespace causeway::lua
