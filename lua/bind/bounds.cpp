// The claims of proofs/ on inputs of the user's; lua/lib/bounds.lua shows them.
#include <algorithm>

#include "core/bounds/claim.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/result.hpp"

namespace causeway::lua {
namespace {

// _claims() -> {{id, statement, proof, source, terms, takes, inputs = {{name, form, text, optional}}}}
int list_of_claims(lua_State* L) {
    lua_newtable(L);
    lua_Integer n = 0;
    for (const bounds::Claim& claim : bounds::claims()) {
        lua_newtable(L);
        set_field(L, "id", claim.id);
        set_field(L, "statement", claim.statement);
        set_field(L, "proof", claim.proof);
        set_field(L, "source", claim.source);
        set_field(L, "terms", claim.terms);
        set_field(L, "takes", bounds::inputs_text(claim));
        lua_newtable(L);
        lua_Integer i = 0;
        for (const bounds::Input& input : claim.inputs) {
            lua_newtable(L);
            set_field(L, "name", input.name);
            set_field(L, "form", input.form);
            set_field(L, "text", input.text);
            set_field(L, "optional", input.optional);
            lua_rawseti(L, -2, ++i);
        }
        lua_setfield(L, -2, "inputs");
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

// The table of name = value at `index`; a Tensor alone is the claim's first input.
bounds::Values values_of(lua_State* L, int index, const bounds::Claim& claim) {
    bounds::Values out;
    if (is_tensor(L, index)) {
        out.emplace(claim.inputs.front().name, check_tensor(L, index, "inputs"));
        return out;
    }
    const auto takes = [&] { return sentence("; ", claim.id, " takes ", bounds::inputs_text(claim)); };
    if (!lua_istable(L, index)) fail("inputs: expected a table of name = value, got a ", type_name(L, index), takes());
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            fail("inputs: expected a table of name = value, got the key ", luaL_tolstring(L, -2, nullptr), takes());
        const std::string name = check_string(L, -2, "name");
        switch (lua_type(L, -1)) {
            case LUA_TNUMBER: out.emplace(name, lua_tonumber(L, -1)); break;
            case LUA_TBOOLEAN: out.emplace(name, lua_toboolean(L, -1) != 0); break;
            case LUA_TSTRING: out.emplace(name, check_string(L, -1, name.c_str())); break;
            default: {
                // What the claim does not take at all is said by check(), before what is wrong with it.
                const auto named = [&](const bounds::Input& input) { return input.name == name; };
                if (std::ranges::none_of(claim.inputs, named)) out.emplace(name, false);
                else out.emplace(name, check_tensor(L, -1, name.c_str()));
            }
        }
    }
    return out;
}

// _check_bound(claim, inputs) -> {{what, measured, bound, exactly, holds}}
int check_bound(lua_State* L) {
    const bounds::Claim& claim = bounds::claim(check_string(L, 1, "claim"));
    lua_newtable(L);
    lua_Integer n = 0;
    for (const bounds::Row& row : bounds::check(claim, values_of(L, 2, claim))) {
        lua_newtable(L);
        set_field(L, "what", row.what);
        set_field(L, "measured", row.measured);
        set_field(L, "bound", row.bound);
        set_field(L, "exactly", row.exactly);
        set_field(L, "holds", row.holds());
        make_result(L, "a row");
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

}  // namespace

void open_bounds(lua_State* L) {
    add_functions(L, {{"_claims", guarded<list_of_claims>}, {"_check_bound", guarded<check_bound>}});
}

}  // namespace causeway::lua
