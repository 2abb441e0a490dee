// Low-rank factors of the attention matrix, their registry, and their errors with and without the causal mask.
#include <algorithm>

#include "core/base/text.hpp"
#include "core/lowrank/error.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/described.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/result.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

// lowrank(name, q, k, options) -> B, C, and where the factorisation has more than B Cᵀ a table of it
int lowrank_(lua_State* L) {
    const std::string name = check_string(L, 1, "name");
    const Tensor q = check_tensor(L, 2, "q"), k = check_tensor(L, 3, "k");
    if (counting) fail("opcount: lowrank is not counted, expected the factors to be made before");
    refuse_more(L, 4, "lowrank");
    const LowRankOptions o = lowrank_options(L, 4, lowrank::method(name));
    return push_low_rank(L, low_rank(name, q, k, o));
}

// lowrank_method_list(): the registry as a list of tables.
int lowrank_method_list(lua_State* L) {
    lua_newtable(L);
    lua_Integer n = 0;
    for (const auto& m : lowrank::methods()) {
        push_described(L, m);
        set_field(L, "rank", m.rank);
        set_field(L, "future", m.future);
        set_field(L, "seeded", m.seeded);
        set_field(L, "values", m.values);
        if (m.default_rank > 0) set_field(L, "default_rank", m.default_rank);
        lua_newtable(L);
        lua_Integer i = 0;
        for (const auto& option : m.options) {
            lua_newtable(L);
            set_field(L, "name", option.name);
            set_field(L, "text", option.text);
            if (option.flag) lua_pushboolean(L, option.default_value != 0);
            else lua_pushinteger(L, static_cast<lua_Integer>(option.default_value));
            lua_setfield(L, -2, "default");
            lua_rawseti(L, -2, ++i);
        }
        lua_setfield(L, -2, "options");
        make_result(L, "a factorisation", "default_rank");
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

// An error x over what it is an error of; without any error 0, whatever y is.
double quotient(double x, double y) { return x == 0 ? 0 : x / y; }

void set_norms(lua_State* L, const char* key, const MaskedNorms& x, double bound, bool mask, bool relative) {
    lua_newtable(L);
    set_field(L, "unmasked", x.error);
    if (relative) set_field(L, "relative", quotient(x.error, x.matrix));
    if (mask) {
        set_field(L, "masked", x.error_masked);
        if (relative) set_field(L, "relative_masked", quotient(x.error_masked, x.matrix_masked));
        set_field(L, "ratio", x.ratio());
        set_field(L, "ratio_bound", bound);
        set_field(L, "bound", bound * x.error);
    }
    make_result(L, "an error of a norm", "relative masked relative_masked ratio ratio_bound bound");
    lua_setfield(L, -2, key);
}

void push_error(lua_State* L, const LowRankError& e, bool mask) {
    lua_newtable(L);
    set_norms(L, "frobenius", e.frobenius, 1, mask, true);
    set_norms(L, "operator", e.operator_norm, e.operator_constant, mask, true);
    set_field(L, "residual", e.residual);
    if (!e.output) return;
    const OutputError& o = *e.output;
    lua_newtable(L);
    set_field(L, "unmasked", o.error);
    set_field(L, "relative", quotient(o.error, o.output));
    if (mask) {
        set_field(L, "masked", o.error_masked);
        set_field(L, "relative_masked", quotient(o.error_masked, o.output_masked));
        set_field(L, "row_bound", o.row_bound);
        set_field(L, "row_share", o.row_share);
        set_field(L, "frobenius_bound", o.frobenius_bound);
        set_field(L, "operator_bound", o.operator_bound);
        set_field(L, "least_sum", o.min_sum);
    }
    make_result(L, "an error of the output",
                "masked relative_masked row_bound row_share frobenius_bound operator_bound least_sum");
    lua_setfield(L, -2, "output");
}

// lowrank_error(q, k, B, C, {mask =, scale =, v =, extras =, tolerance =, iterations =})
int lowrank_error_(lua_State* L) {
    const auto& call = calls::lowrank_error();
    const Arguments given(L, call);
    const auto [q, k, B, C] = given.tensors<Tensor, 4>();
    LowRankErrorOptions o = given.read(call);
    o.extras.erase("code");  // of no use to an error
    const LowRankErrors e = lowrank_error(q, k, B, C, o);
    push_error(L, e.all, o.mask);
    lua_createtable(L, static_cast<int>(e.heads.size()), 0);
    const Shape& shape = q.shape();  // [b, h, N, d], [h, N, d] or [N, d]
    const std::size_t heads = shape.ndim() == 4 ? static_cast<std::size_t>(shape[1]) : e.heads.size();
    for (std::size_t h = 0; h < e.heads.size(); ++h) {
        push_error(L, e.heads[h], o.mask);
        set_field(L, "batch", static_cast<Index>(h / heads + 1));
        set_field(L, "head", static_cast<Index>(h % heads + 1));
        make_result(L, "the errors of a head", "output");
        lua_rawseti(L, -2, static_cast<lua_Integer>(h + 1));
    }
    lua_setfield(L, -2, "heads");
    push_causeway(L);
    lua_getfield(L, -1, "_lowrank_report");  // of lua/lib/lowrank.lua: it gives the report its methods
    lua_pushvalue(L, -3);
    lua_call(L, 1, 1);
    return 1;
}

// masked_norms(X) -> {frobenius = {unmasked, masked, ratio, ratio_bound, bound}, operator = {...}}
int masked_norms_(lua_State* L) {
    const Tensor X = check_tensor(L, 1, "X");
    const MatrixNorms norms = masked_norms(X);
    lua_newtable(L);
    set_norms(L, "frobenius", norms.frobenius, 1, true, false);
    set_norms(L, "operator", norms.operator_norm, masking_constant(X.shape()[0]), true, false);
    make_result(L, "a table of norms");
    return 1;
}

int masking_constant_(lua_State* L) {
    lua_pushnumber(L, masking_constant(check_integer(L, 1, "n")));
    return 1;
}

int masked_worst_case_(lua_State* L) {
    push(L, masked_worst_case(check_integer(L, 1, "n"), lua_isnoneornil(L, 2) ? "W" : check_string(L, 2, "which")));
    return 1;
}

}  // namespace

LowRankOptions lowrank_options(lua_State* L, int index, const lowrank::Method& method) {
    auto shared = calls::lowrank().options;
    if (!method.values) std::erase_if(shared, [](const auto& option) { return option.name == std::string_view("v"); });
    std::vector<std::string_view> known = names_of(shared);
    for (const auto& option : method.options) known.push_back(option.name);
    const Options options(L, index, "lowrank", known);
    LowRankOptions o;
    read_options(L, options, shared, calls::Device::cpu, o);
    for (const auto& option : method.options) {
        if (!options.has(option.name.c_str())) continue;
        o.own[option.name] = option.flag ? (options.boolean(option.name.c_str(), false) ? 1 : 0)
                                         : static_cast<double>(options.integer(option.name.c_str(), 0));
    }
    return o;
}

void open_lowrank(lua_State* L) {
    add_functions_by_device(L, {{"lowrank", guarded<lowrank_>}});
    add_functions(L, {{"lowrank_method_list", guarded<lowrank_method_list>},
                      {"lowrank_error", guarded<lowrank_error_>},
                      {"masked_norms", guarded<masked_norms_>},
                      {"masking_constant", guarded<masking_constant_>},
                      {"masked_worst_case", guarded<masked_worst_case_>}});
}

}  // namespace causeway::lua
