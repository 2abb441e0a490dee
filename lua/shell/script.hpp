// Running Lua: protected calls, whose failures become one sentence and a traceback of the user's own lines.
#pragma once

#include <string>
#include <vector>

struct lua_State;

namespace causeway::lua {

struct Failure {
    std::string message;    // "tour.lua:3: C: length 9, expected 8 like B"
    std::string traceback;  // lines "tour.lua:3: in main chunk"; those of the library are left out
    bool interrupted = false;
    std::string position = {};  // "input[3]:1: ", where it was in front of the message and goes without saying

    explicit operator bool() const { return interrupted || !message.empty(); }
};

// Calls the function below its `arguments` on the stack, as lua_pcall does; no error and no C++ exception passes.
// On failure nothing is left of function and arguments. Heeds Ctrl-C.
Failure call(lua_State* L, int arguments, int results);

// The global `arg`, as Lua's own program has it: arguments[script] at 0, what came before it at -1, -2 ... The library
// gets the same as causeway._command: a list, and in its field `script` the position of the script in it.
void set_arg(lua_State* L, const std::vector<std::string>& arguments, std::size_t script);

// Runs a file of Lua text ("-": standard input) with `arg` and `...` as the stand-alone Lua sets them: arguments[0]
// is the program, arguments[script] the file, the rest is for the script. Modules beside the script can be required.
Failure run_file(lua_State* L, const std::vector<std::string>& arguments, std::size_t script);

// "error: SENTENCE" and the traceback, or "interrupted", to standard error; after what is on its way to standard
// output.
void report(lua_State* L, const Failure& failure);

// The same for the library's files: _report(message).
void open_script(lua_State* L);

}  // namespace causeway::lua
