#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "lua/bind/elementwise.hpp"
#include "lua/bind/scan.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

using scan::Id;
using scan::Program;

constexpr const char* value_type = "causeway.ScanValue";

// What is being recorded, and which recording it is: a value that a step kept for later belongs to no other.
Program* recorded = nullptr;
std::uint64_t recording = 0;

struct ScanValue {
    Id id;
    std::uint64_t recording;
};

bool is_value(lua_State* L, int index) { return luaL_testudata(L, index, value_type) != nullptr; }

// The program, inside of a step.
Program& program() {
    if (!recorded) fail("a value inside scan outlived its step: only what the step returns is known afterwards");
    return *recorded;
}

int push_value(lua_State* L, Id id) {
    push_scan_value(L, id);
    return 1;
}

// Dimensions, as text.
std::string form_of(lua_State* L, int index) {
    const Shape& shape = program().shape(check_scan_value(L, index, "tostring"));
    return shape.ndim() == 0 ? "number" : shape.text();
}

Index check_dim_of(lua_State* L, int index, Id a, const char* function) {
    const std::string argument = sentence(function, ": dim");
    const Index dim = check_integer(L, index, argument.c_str());
    const Shape& shape = program().shape(a);
    if (dim < 1 || dim > shape.ndim())
        fail(argument, ": ", dim, ", expected a number from 1 to ", shape.ndim(), " for a value of shape ",
             shape.text());
    return dim - 1;
}

// The functions of lua/bind/elementwise.hpp.
struct ValueElements {
    template <Unary Op>
    static int unary(lua_State* L) {
        if constexpr (Op != Unary::negate) refuse_more(L, 1, name(Op));  // Lua gives the operand of - twice
        return push_value(L, program().apply(Op, check_scan_value(L, 1, name(Op))));
    }

    template <Binary Op>
    static int binary(lua_State* L) {
        refuse_more(L, 2, name(Op));
        const Id a = check_scan_value(L, 1, name(Op)), b = check_scan_value(L, 2, name(Op));
        return push_value(L, program().apply(Op, a, b));
    }

    static int clamp(lua_State* L) {
        const Id a = check_scan_value(L, 1, "clamp");
        return push_value(L, program().clamp(a, check_number(L, 2, "clamp: low"), check_number(L, 3, "clamp: high")));
    }
};

int product(lua_State* L) {
    const Id a = check_scan_value(L, 1, "*"), b = check_scan_value(L, 2, "*");
    return push_value(L, program().product(a, b));
}

constexpr const char* reduction_names[] = {"sum", "prod", "maximum", "minimum", "mean", "std"};

template <Reduction Op>
int reduction(lua_State* L) {
    constexpr const char* function = reduction_names[static_cast<int>(Op)];
    refuse_more(L, 2, function);
    const Id a = check_scan_value(L, 1, function);
    std::optional<int> dim;
    if (!lua_isnoneornil(L, 2)) dim = static_cast<int>(check_dim_of(L, 2, a, function));
    return push_value(L, program().reduce(Op, a, dim));
}

int dot(lua_State* L) {
    const Id a = check_scan_value(L, 1, "dot: A"), b = check_scan_value(L, 2, "dot: B");
    return push_value(L, program().dot(a, b));
}

int outer(lua_State* L) {
    const Id a = check_scan_value(L, 1, "outer: a"), b = check_scan_value(L, 2, "outer: b");
    return push_value(L, program().outer(a, b));
}

constexpr const char* single_names[] = {"norm", "softmax", "t", "diag"};
constexpr Id (Program::*singles[])(Id) = {&Program::norm, &Program::softmax, &Program::transpose, &Program::diagonal};

template <int Which>
int single(lua_State* L) {
    refuse_more(L, 1, single_names[Which]);
    return push_value(L, (program().*singles[Which])(check_scan_value(L, 1, single_names[Which])));
}

int reshape(lua_State* L) {
    const Id a = check_scan_value(L, 1, "reshape");
    return push_value(L, program().reshape(a, check_new_shape(L, Tensor::shaped(DType::f32, program().shape(a)))));
}

int size(lua_State* L) {
    const Id a = check_scan_value(L, 1, "size");
    const Shape shape = program().shape(a);
    if (!lua_isnoneornil(L, 2)) return lua_pushinteger(L, shape[static_cast<int>(check_dim_of(L, 2, a, "size"))]), 1;
    for (int i = 0; i < shape.ndim(); ++i) lua_pushinteger(L, shape[i]);
    return shape.ndim();
}

int length(lua_State* L) {
    lua_pushinteger(L, program().shape(check_scan_value(L, 1, "length")).size());
    return 1;
}

int ndims(lua_State* L) {
    lua_pushinteger(L, program().shape(check_scan_value(L, 1, "ndims")).ndim());
    return 1;
}

int to_string(lua_State* L) {
    const std::string text = recorded ? form_of(L, 1) + " value inside scan" : "value of a scan that has ended";
    push_text(L, text);
    return 1;
}

int no_comparison(lua_State*) {
    fail(
        "a value inside scan has no one truth: a step is recorded once for all tokens; lt(A, B), eq(A, B) ... give 1 "
        "or 0 for each");
}

int no_elements(lua_State*) {
    fail("elements of a value inside scan are not reached one by one; dot(A, e) with a constant vector e takes one");
}

int no_power(lua_State*) { fail("a value inside scan has no operator ^: pow(A, x) is the power of each element"); }

int index(lua_State* L) {
    return method_named(L, "a value inside scan", "; what works on it lists ?scan, and it is not changed in place");
}

// The other functions of tensors that also work on values.
// clang-format off
constexpr std::initializer_list<Entry> other_functions = {
    {"sum", guarded<reduction<Reduction::sum>>},
    {"prod", guarded<reduction<Reduction::prod>>},
    {"maximum", guarded<reduction<Reduction::maximum>>},
    {"minimum", guarded<reduction<Reduction::minimum>>},
    {"mean", guarded<reduction<Reduction::mean>>},
    {"std", guarded<reduction<Reduction::deviation>>},
    {"dot", guarded<dot>},
    {"outer", guarded<outer>},
    {"norm", guarded<single<0>>},
    {"softmax", guarded<single<1>>},
    {"t", guarded<single<2>>},
    {"diag", guarded<single<3>>},
    {"reshape", guarded<reshape>},
    {"size", guarded<size>},
    {"length", guarded<length>},
    {"ndims", guarded<ndims>},
};
// clang-format on

template <class Use>
void each_function(Use&& use) {
    for (const auto& list : {elementwise_functions<ValueElements>, other_functions})
        for (const Entry& entry : list) use(entry);
}

constexpr Entry operators[] = {
    {"__add", guarded<ValueElements::binary<Binary::add>>},
    {"__sub", guarded<ValueElements::binary<Binary::subtract>>},
    {"__div", guarded<ValueElements::binary<Binary::divide>>},
    {"__unm", guarded<ValueElements::unary<Unary::negate>>},
    {"__mul", guarded<product>},
};

// Upvalues: the function of tensors, and the one that records, which is called where a value is among the arguments.
int either(lua_State* L) {
    if (recorded) {
        for (int i = 1; i <= std::min(lua_gettop(L), 3); ++i)
            if (is_value(L, i)) return lua_tocfunction(L, lua_upvalueindex(2))(L);
    }
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

// Puts the function that takes either in the place of that of tensors, in the table at the top of the stack.
void take_either(lua_State* L, const Entry& entry) {
    if (lua_getfield(L, -1, entry.name) != LUA_TFUNCTION) return lua_pop(L, 1);
    lua_pushcfunction(L, entry.function);
    lua_pushcclosure(L, either, 2);
    lua_setfield(L, -2, entry.name);
}

}  // namespace

Recording::Recording(Program& into) {
    if (recorded) fail("scan: inside the step of another one, expected one after the other");
    recorded = &into;
    ++recording;
}

Recording::~Recording() { recorded = nullptr; }

void push_scan_value(lua_State* L, Id id) {
    *static_cast<ScanValue*>(lua_newuserdatauv(L, sizeof(ScanValue), 0)) = {id, recording};
    luaL_setmetatable(L, value_type);
}

Id check_scan_value(lua_State* L, int index, const char* argument) {
    if (is_value(L, index)) {
        const auto& value = *static_cast<ScanValue*>(lua_touserdata(L, index));
        program();  // or there is none
        if (value.recording != recording)
            fail(argument,
                 ": a value of another scan, expected one of this step: what a step needs goes through its "
                 "state and inputs");
        return value.id;
    }
    if (lua_type(L, index) == LUA_TNUMBER) return program().number(lua_tonumber(L, index));
    return program().constant(check_operand(L, index, argument));
}

void open_scan_values(lua_State* L) {
    luaL_newmetatable(L, value_type);
    for (const Entry& entry : operators) set_function(L, entry);
    const luaL_Reg others[] = {
        {"__tostring", guarded<to_string>},   {"__len", guarded<length>},       {"__call", guarded<no_elements>},
        {"__newindex", guarded<no_elements>}, {"__lt", guarded<no_comparison>}, {"__le", guarded<no_comparison>},
        {"__eq", guarded<no_comparison>},     {"__pow", guarded<no_power>},     {nullptr, nullptr}};
    luaL_setfuncs(L, others, 0);
    lua_newtable(L);
    each_function([L](const Entry& entry) { set_function(L, entry); });
    lua_pushcclosure(L, guarded<index>, 1);
    lua_setfield(L, -2, "__index");
    seal(L, "value inside scan");
    lua_pop(L, 1);

    push_causeway(L);
    each_function([L](const Entry& entry) { take_either(L, entry); });
    lua_pop(L, 1);
    luaL_getmetatable(L, "causeway.Tensor");
    for (const Entry& entry : operators) take_either(L, entry);
    lua_getfield(L, -1, "__methods");
    each_function([L](const Entry& entry) { take_either(L, entry); });
    lua_pop(L, 2);
}

}  // namespace causeway::lua
