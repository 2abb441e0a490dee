#include "tests/faults/examples.hpp"

#include <map>
#include <memory>

#include "lua/bind/bind.hpp"
#include "lua/shell/state.hpp"

namespace causeway::faults {
namespace {

// Matrices of a size at which decompositions take their ways for large ones; files of every format, with names and
// metadata; several ranks in threads.
const std::vector<Example> further{
    {"a decomposition of 20 x 12", "U, s, V = svd(randn(20, 12)); s"},
    {"a decomposition of 12 x 20", "U, s, V = svd(randn(12, 20)); s"},
    {"a decomposition of 70 x 50", "U, s, V = svd(randn(70, 50)); s"},
    {"singular values of 40 x 40", "svdvals(randn(40, 40))"},
    {"a matrix without full rank", "U, s, V = svd(randn(40, 2) * randn(2, 40)); s"},
    {"saving .npy", "save('x.npy', randn(8, 4)); load('x.npy')"},
    {"saving .npz", "save('x.npz', {a = randn(8, 4), b = ones(3)}); load('x.npz').a"},
    {"saving .safetensors",
     "save('x.safetensors', {a = randn(8, 4), b = ones(3), ['a long name of a tensor'] = ones(2)}); "
     "load('x.safetensors').a"},
    {"saving .csv", "save('x.csv', {{x = 1, y = 2}, {x = 3, y = 4}}); load('x.csv')"},
    {"saving .json", "save('x.json', {a = {1, 2, {b = 'c'}}, t = randn(3)}); load('x.json').a"},
};

}  // namespace

std::vector<Example> all_examples() {
    const std::unique_ptr<lua_State, void (*)(lua_State*)> state(lua::new_state(), lua_close);
    lua_State* L = state.get();
    std::map<std::string, std::string> names;  // of examples: those that options of one function share run once
    lua::push_causeway(L);
    lua_getfield(L, -1, "_sections");
    lua_call(L, 0, 1);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        for (lua_Integer i = 1; lua_geti(L, -1, i) == LUA_TTABLE; ++i, lua_pop(L, 1)) {
            if (lua_getfield(L, -1, "example") == LUA_TSTRING) {
                std::string& name = names[lua_tostring(L, -1)];
                const std::string now = lua_tostring(L, -4);
                if (name.empty() || now < name) name = now;
            }
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    std::vector<Example> examples = further;
    for (const auto& [code, name] : names) examples.push_back({name, code});
    return examples;
}

}  // namespace causeway::faults
