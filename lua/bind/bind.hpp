// Helpers of the bindings: errors, tensors as userdata, option tables. A binding uses core, gpu and the Lua API, and
// nothing of lua/shell; the shell uses the bindings.
// A binding file is a set of static functions, one table of names and one open function (lua/bind/families.hpp).
#pragma once

// The Lua library is the one built as C++: its errors are C++ exceptions, so destructors run when they pass.
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/distributed/mpi.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::lua {

// How the names of chunks begin that travel inside the program: "=causeway:lua/lib/plot.lua". No file has such a name.
inline constexpr const char* embedded_chunk = "=causeway:";

// Raises `message` as a Lua error, with the position in the user's Lua file in front: the nearest caller that is not
// one of the embedded files (lua/lib). error_kind of Lua knows its kind.
[[noreturn]] void raise(lua_State* L, const std::string& message, ErrorKind kind);

// Errors of Lua stay strings, so that they can be printed, joined and searched like any; their kind is kept beside
// them. remember_kind notes the kind of the string at the top of the stack, which is to be raised as it is: a string
// that is made of it (by joining, or by error(message) with its position in front) is another one, of no kind. At least
// the last 64 messages are known.
void remember_kind(lua_State* L, ErrorKind kind);

// error_kind(message) -> "bad argument", "out of memory", "timeout", "interrupted", "I/O", "system"; nil for what was
// not raised by this library.
int error_kind(lua_State* L);

// raise() from a hook, with the position of the running function in front: a hook has no level of its own.
[[noreturn]] void raise_in_hook(lua_State* L, const std::string& message, ErrorKind kind);

// Whether a call that has found no memory may be made again: where the garbage held some (reclaim), and it has not met
// other processes, or told them of a failure, since distributed::met_others was `met`.
bool may_be_made_again(lua_State* L, int arguments, std::int64_t met);

// Collects the garbage, which the arguments (the lowest `arguments` values of the stack) are not; the rest is dropped.
// True when that freed memory of tensors and the arguments are still in place.
bool reclaim(lua_State* L, int arguments);

// While `on_tape`, calls are seen by the tape of gradients first (lua/bind/trace.cpp), unless the tape itself makes
// them. The number of results, or -1 for a call that it leaves to the function.
inline bool on_tape = false;
int seen_by_tape(lua_State* L);

// What is said of an error.
struct Told {
    std::string message;
    ErrorKind kind{};
};
// The sentence of an error; "out of memory" of std::bad_alloc, and where there is no memory for the sentence. Of a name
// that core does not know, with what it is called here where it is one of the literature.
Told told_of(lua_State* L, const std::exception& error);

// The function as Lua calls it: a C++ exception becomes a Lua error with the same sentence. A call that finds no memory
// is made once more when the garbage held some, so a function that may throw OutOfMemory leaves its arguments in place.
template <int (*F)(lua_State*)>
int guarded(lua_State* L) {
    if (on_tape) {
        if (const int results = seen_by_tape(L); results >= 0) return results;
    }
    const int arguments = lua_gettop(L);
    const std::int64_t met = distributed::met_others;
    Told told;
    for (bool again = true; again;
         again = told.kind == ErrorKind::out_of_memory && may_be_made_again(L, arguments, met)) {
        try {
            return F(L);
        } catch (const std::exception& error) {
            told = told_of(L, error);
        }
    }
    distributed::note_reason(told.message);
    raise(L, told.message, told.kind);
}

// A function and its name.
struct Entry {
    const char* name;
    lua_CFunction function;
};

// Puts the function into the table at the top of the stack.
void set_function(lua_State* L, const Entry& entry);

// Puts the functions into the table `causeway`, where the shell's globals are looked up.
void add_functions(lua_State* L, std::initializer_list<Entry> entries);

// Pushes the table `causeway`.
void push_causeway(lua_State* L);

// Lets print show the table at the top of the stack as the prompt does (lua/lib/literal.lua).
void make_printable(lua_State* L);

// "nil", "number", "string", "table", "function", "Tensor": what a message calls the value.
std::string type_name(lua_State* L, int index);

// Pushes a new userdata. The garbage is collected when tensors have grown much since the last time: the collector
// itself sees only the few bytes of the handle.
void push(lua_State* L, Tensor value);

// The same as all that a function returns.
int push_one(lua_State* L, Tensor value);
bool is_tensor(lua_State* L, int index);
// A value that stands for a tensor or a number in the function of grad.
bool is_traced(lua_State* L, int index);
// Throw Error naming the argument: `B: expected a Tensor, got a number`.
Tensor& check_tensor(lua_State* L, int index, const char* argument);
double check_number(lua_State* L, int index, const char* argument);
Index check_integer(lua_State* L, int index, const char* argument);
std::string check_string(lua_State* L, int index, const char* argument);
// The string or number at `index` as text, zero bytes and all.
std::string text_at(lua_State* L, int index);
void push_text(lua_State* L, std::string_view text);

// The path with the home folder in the place of "~/" at its beginning, where there is one.
std::string with_home(const std::string& path);
// The strings of the list at `index`.
std::vector<std::string> check_strings(lua_State* L, int index, const char* argument);

// Names the type whose metatable is at the top of the stack: what Lua's own messages call its values, and what
// getmetatable returns, so that scripts cannot change the type.
void seal(lua_State* L, const char* name);

// Sets a field of the table at the top of the stack.
void set_field(lua_State* L, const char* key, double value);
void set_field(lua_State* L, const char* key, Index value);
void set_field(lua_State* L, const char* key, bool value);
void set_field(lua_State* L, const char* key, const std::string& value);
void set_field(lua_State* L, const char* key, const char* value);
void set_field(lua_State* L, const char* key, const Tensor& value);

// A.name for the userdata and the name on the stack: pushes what upvalue 1, a table of methods, has under it. Throws
// Error for another key, and for an unknown name with the nearest known one: `Tensor has no method "sise" (did you mean
// "size"?)`, and `hint` behind it.
int method_named(lua_State* L, const char* type, const char* hint = "");

std::vector<std::string_view> views_of(const std::vector<std::string>& names);

// The table of options at `index` (nil or none: no option given). Throws Error for a value that is not a table and
// for an unknown key, with the nearest known one: `causal_linear_attention: unknown option "blocks" (did you mean
// "block"?)`.
class Options {
public:
    Options(lua_State* L, int index, const char* function, const std::vector<std::string_view>& known);
    // Those that causeway._options lists for the function, which are what Tab offers in its calls.
    Options(lua_State* L, int index, const char* function);

    bool has(const char* key) const;
    // The value pushed on the stack (nil where not given); returns its Lua type.
    int push(const char* key) const;
    // Throw Error when the value has another type: `decay: expected a number, got a string`.
    double number(const char* key, double default_value) const;
    Index integer(const char* key, Index default_value) const;
    bool boolean(const char* key, bool default_value) const;
    std::string string(const char* key, const std::string& default_value) const;
    // One of the choices; another string is an error that names the nearest.
    std::string choice(const char* key, const std::string& default_value,
                       const std::vector<std::string>& choices) const;

private:
    lua_State* L_;
    int index_;  // 0: no table
};

}  // namespace causeway::lua
