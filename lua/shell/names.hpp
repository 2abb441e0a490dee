// The names of the user's globals: which one a misspelt name may mean, which ones hide what was there before.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

struct lua_State;

namespace causeway::lua {

// Where the registry keeps a copy of the globals as they were before the user's first.
inline constexpr const char* first_globals_key = "causeway.first_globals";

// What is meant by a name that no global has: `did you mean "zeros"?`, or of a name of another library `it is called
// "range" here, see ?linspace`; "" where nothing is alike.
std::string meant_by(lua_State* L, const std::string& name);

// The kinds of what the user's globals hold, for syntax_hint.
std::function<std::string(std::string_view)> kinds_of_globals(lua_State* L);

// Keeps the text that is about to run: of `np.zeros(3)` Lua's message names only np.
void remember_source(lua_State* L, const std::string& source);

// The message; below one of Lua's that ends with "a nil value (global 'NAME')", what may be meant, as a hint, and
// likewise below one about arithmetic of a list.
std::string with_near_global(lua_State* L, const std::string& message);

// Adds causeway._hint(message): the hint alone, or nil.
void open_names(lua_State* L);

// A sentence for each global that a source reads as a value and that nothing has ever set. Quiet about what is asked
// for (`if x then`, `x or 3`, `x == nil`, type(x)), about what this or an earlier source gave a value, nil perhaps
// (`ok, fault = pcall(f)`), and about sources with functions, loops or locals of their own.
std::vector<std::string> notes_on_undefined_names(lua_State* L, const std::string& source);

// A sentence for True, False and the like that a script gives as values, once each: nil to Lua, which says nothing.
std::vector<std::string> notes_on_constants(const std::string& source);

// A sentence where an entry asks for the type of a tensor, which is "userdata" to Lua.
std::vector<std::string> notes_on_types(lua_State* L, const std::string& source);

// A sentence where an entry reads place 0 of a list, which counts from 1, or place -1, or a character of a text as of a
// list.
std::vector<std::string> notes_on_places(lua_State* L, const std::string& source);

// A sentence where a comma behind size(A) leaves of all sizes the first: in what an entry shows or sets, in print and
// in a list.
std::vector<std::string> notes_on_cut_sizes(lua_State* L, const std::string& source);

// A sentence where an entry takes what a call does not give: all sizes in one name, `s = size(A)`, the places of the
// largest elements, `y, i = maximum(A, 2)`, the value before the gradient, `value, g = grad(f, x)`, or the elements
// that are 2, `x == 2`.
std::vector<std::string> notes_on_results(lua_State* L, const std::string& source);

// A line for each global that now hides a name of the library's or of Lua's, of more than one letter, and is not yet in
// `known`, to which it is added.
std::vector<std::string> notes_on_hidden_names(lua_State* L, std::set<std::string>& known);

}  // namespace causeway::lua
