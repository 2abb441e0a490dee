// An entry cut into pieces, each compiled and run by script.cpp; what to show goes to the display.
#include "lua/shell/evaluate.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/text.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/tokens.hpp"

namespace causeway::lua {
namespace {

constexpr std::string_view spaces = " \t\r\n";

std::string_view trim(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(spaces);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(spaces) + 1 - begin);
}

// ---- pieces: the shortest runs of lines that are complete, each evaluated by itself ----

struct Piece {
    enum Kind { lua, help, search, command, macro };
    Kind kind = lua;
    std::string macro_name;  // "time"
    std::string text;        // without the prefix
};

Piece read_prefix(std::string_view line) {
    const std::string_view text = trim(line);
    if (text.substr(0, 2) == "??") return {Piece::search, "", std::string(trim(text.substr(2)))};
    if (text.substr(0, 1) == "?") return {Piece::help, "", std::string(trim(text.substr(1)))};
    if (text.substr(0, 1) == ";") return {Piece::command, "", std::string(trim(text.substr(1)))};
    if (text.substr(0, 1) == "@") {
        const std::size_t end = std::min(text.find_first_of(spaces), text.size());
        return {Piece::macro, std::string(text.substr(1, end - 1)), std::string(trim(text.substr(end)))};
    }
    return {Piece::lua, "", std::string(line)};
}

enum class Parse { expression, statement, incomplete, wrong };

bool ends_early(const std::string& message) {
    return message.size() >= 5 && message.compare(message.size() - 5, 5, "<eof>") == 0;
}

// A "string" ends in its line; only long strings and comments go on in the next one.
bool ends_in_quote(const std::string& text) {
    const auto tokens = tokenize(text);
    return !tokens.empty() && tokens.back().open &&
           (text[tokens.back().begin] == '"' || text[tokens.back().begin] == '\'');
}

// In front of an expression: gives its values. The variable to be closed keeps `f(x)` from being a tail call, which
// would leave no line of the entry in messages and tracebacks.
const std::string give = "local _entry <close> = nil return ";

bool compile(lua_State* L, const std::string& code, const std::string& chunk) {
    return luaL_loadbufferx(L, code.data(), code.size(), chunk.c_str(), "t") == LUA_OK;
}

// "x = 5; x" as "x = 5; return x": a statement, and behind its semicolon an expression. Any other text as it is.
std::string returning_last(lua_State* L, const std::string& text) {
    const auto tokens = tokenize(text);
    for (std::size_t i = tokens.size(); i-- > 0;) {
        const bool last = i + 1 == tokens.size() || tokens[i + 1].kind == Token::comment;
        if (last || tokens[i].text(text) != ";") continue;
        const std::string before = text.substr(0, tokens[i].end) + " ", behind = give + text.substr(tokens[i].end);
        const int base = lua_gettop(L);
        const bool valid = compile(L, before, "=") && compile(L, behind, "=") && compile(L, before + behind, "=");
        lua_settop(L, base);
        return valid ? before + behind : text;
    }
    return text;
}

// Leaves the compiled function on the stack, or the message of the compiler, and tells which.
Parse parse(lua_State* L, const std::string& text, const std::string& chunk) {
    if (compile(L, give + text, chunk)) return Parse::expression;
    if (compile(L, returning_last(L, text), chunk)) {
        lua_remove(L, -2);
        return Parse::statement;
    }
    if (!ends_early(lua_tostring(L, -1)) && ends_early(lua_tostring(L, -2))) lua_insert(L, -2);
    lua_remove(L, -2);  // keeps the message that says more
    return ends_early(lua_tostring(L, -1)) && !ends_in_quote(text) ? Parse::incomplete : Parse::wrong;
}

Parse parse_only(lua_State* L, const std::string& text) {
    const Parse result = parse(L, text, "=input");
    lua_pop(L, 1);
    return result;
}

struct Split {
    std::vector<Piece> pieces;
    bool unfinished = false;  // the last piece is only a beginning
    bool wrong = false;       // a piece is not Lua
};

Split split(lua_State* L, const std::string& entry) {
    Split result;
    std::string lines;
    for (std::size_t begin = 0; begin < entry.size();) {
        const std::size_t end = std::min(entry.find('\n', begin), entry.size());
        const std::string line = entry.substr(begin, end - begin);
        begin = end + 1;
        if (lines.empty() && trim(line).empty()) continue;
        lines += lines.empty() ? line : "\n" + line;
        Piece piece = read_prefix(lines);
        if (piece.kind == Piece::lua || piece.kind == Piece::macro) {
            const Parse parsed = parse_only(L, piece.text);
            if (parsed == Parse::incomplete) continue;
            result.wrong = result.wrong || parsed == Parse::wrong;
        }
        result.pieces.push_back(std::move(piece));
        lines.clear();
    }
    if (!lines.empty()) {
        result.pieces.push_back(read_prefix(lines));
        result.unfinished = true;
    }
    return result;
}

bool starts_with_local(const Piece& piece) {
    const auto tokens = tokenize(piece.text);
    return piece.kind == Piece::lua && !tokens.empty() && tokens.front().text(piece.text) == "local";
}

// The pieces as one chunk, which shows the value of the last piece if that is an expression; as they were, if they
// are no chunk (one of them is a command).
std::vector<Piece> joined(lua_State* L, std::vector<Piece> pieces, const std::string& entry) {
    const std::string last = pieces.back().text;
    const std::string returning = entry.substr(0, entry.rfind(last)) + give + last;
    for (const std::string& text : {returning, entry}) {
        if (parse_only(L, text) == Parse::statement) return {{Piece::lua, "", text}};
    }
    return pieces;
}

// A `;` at the end hides the value.
bool hides_value(std::string_view text) {
    const auto tokens = tokenize(text);
    for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
        if (token->kind != Token::comment) return token->text(text) == ";";
    }
    return false;
}

// ---- values ----

struct Finish {
    bool show = true;
    std::string source;  // of @show: the text in front of the value
};

// Called with the values as arguments and a Finish as upvalue: keeps the first value as `ans` and shows them all.
int finish(lua_State* L) {
    const auto& how = *static_cast<const Finish*>(lua_touserdata(L, lua_upvalueindex(1)));
    const int n = lua_gettop(L);
    lua_pushglobaltable(L);
    lua_pushliteral(L, "ans");
    lua_pushvalue(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    if (!how.show) return 0;
    std::string text;
    for (int i = 1; i <= n; ++i) {
        if (!how.source.empty()) text += (i > 1 ? ", " : "") + rich(L, i).text;
        else if (!shown_in_entry(L, i)) display(L).show(rich(L, i));
    }
    if (how.source.empty()) return 0;
    const bool lines = text.find('\n') != std::string::npos;
    display(L).show({how.source + " =" + (lines ? "\n" : " ") + text, {}, {}});
    return 0;
}

// Called with seconds and bytes: a line as Julia's @time prints it.
int show_time(lua_State* L) {
    char text[64];
    std::snprintf(text, sizeof text, "  %.6f seconds, peak extra memory ", lua_tonumber(L, 1));
    push_causeway(L);
    lua_getfield(L, -1, "bytes_text");
    lua_pushvalue(L, 2);
    lua_call(L, 1, 1);
    display(L).show({text + check_string(L, -1, "bytes_text"), {}, {}});
    return 0;
}

Failure show_measured(lua_State* L, double seconds, std::size_t bytes) {
    lua_pushcfunction(L, guarded<show_time>);
    lua_pushnumber(L, seconds);
    lua_pushnumber(L, static_cast<lua_Number>(bytes));
    return call(L, 2, 0);
}

// ---- the kinds of pieces ----

// Runs a command of the system's shell; `cd` changes the directory of this program.
Failure run_command(const std::string& command) {
    std::fflush(nullptr);
    if (command == "cd" || command.rfind("cd ", 0) == 0) {
        const char* home = std::getenv("HOME");
        const std::string rest(trim(std::string_view(command).substr(2)));
        const std::string path = rest.empty()                       ? (home ? home : "/")
                                 : rest.rfind("~/", 0) == 0 && home ? home + rest.substr(1)
                                                                    : rest;
        if (chdir(path.c_str()) != 0) return {sentence("cd: ", path, ": ", std::strerror(errno)), "", false};
        return {};
    }
    const int status = std::system(command.c_str());
    if (status == -1) return {sentence("the command could not be started: ", std::strerror(errno)), "", false};
    if (WIFSIGNALED(status))
        return {sentence("the command was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")"),
                "", false};
    if (WEXITSTATUS(status) != 0)
        return {sentence("the command ended with exit status ", WEXITSTATUS(status)), "", false};
    return {};
}

// Calls causeway[name](text), without an argument where there is no text.
Failure call_library(lua_State* L, const char* name, const std::string& text) {
    push_causeway(L);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    if (!text.empty()) lua_pushlstring(L, text.data(), text.size());
    return call(L, text.empty() ? 0 : 1, 0);
}

// Calls causeway.btime with the function on the stack; leaves the result.
Failure call_btime(lua_State* L) {
    push_causeway(L);
    lua_getfield(L, -1, "btime");
    lua_replace(L, -2);
    lua_insert(L, -2);
    return call(L, 1, 1);
}

// A message about a chunk of one line needs no line number, nor a traceback that says nothing but `main chunk`.
Failure without_needless_position(Failure failure, const std::string& name) {
    const std::string position = name + ":1: ";
    if (failure.message.rfind(position, 0) == 0 && failure.message.size() > position.size())
        failure.message.erase(0, position.size());
    if (failure.traceback == position + "in main chunk") failure.traceback.clear();
    return failure;
}

Failure run_lua(lua_State* L, const Piece& piece, const std::string& name) {
    const std::string macro = piece.kind == Piece::macro ? piece.macro_name : "";
    if (piece.kind == Piece::macro) {
        const std::vector<std::string> known = {"@time", "@btime", "@show"};
        if (std::find(known.begin(), known.end(), "@" + macro) == known.end()) {
            return {sentence("@", macro, ": expected @time, @btime or @show", did_you_mean("@" + macro, known)), "",
                    false};
        }
        if (piece.text.empty()) return {sentence("@", macro, ": expected an expression after it"), "", false};
    }
    const int base = lua_gettop(L);
    const Parse parsed = parse(L, piece.text, "=" + name);
    if (parsed == Parse::incomplete || parsed == Parse::wrong) {
        Failure failure{lua_tostring(L, -1), "", false};
        lua_settop(L, base);
        return failure;
    }
    Failure failure;
    begin_entry(L);
    if (macro == "btime") {
        failure = call_btime(L);
    } else {
        const std::size_t held = memory::current();
        memory::reset_peak();
        const auto start = std::chrono::steady_clock::now();
        failure = call(L, 0, LUA_MULTRET);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const std::size_t peak = memory::peak();
        if (!failure && macro == "time") failure = show_measured(L, seconds, peak > held ? peak - held : 0);
    }
    if (failure) {
        lua_settop(L, base);
        return failure;
    }
    const int n = lua_gettop(L) - base;
    if (n == 0) return {};
    Finish how{!hides_value(piece.text), ""};
    if (macro == "show") {
        how = {true, std::string(trim(piece.text))};
        while (how.source.back() == ';') how.source.pop_back();
    }
    lua_pushlightuserdata(L, &how);
    lua_pushcclosure(L, guarded<finish>, 1);
    lua_insert(L, base + 1);
    return call(L, n, 0);
}

Failure run(lua_State* L, const Piece& piece, const std::string& name) {
    switch (piece.kind) {
        case Piece::help: return call_library(L, "_help", piece.text);
        case Piece::search: return call_library(L, "apropos", piece.text);
        case Piece::command: return run_command(piece.text);
        default: return run_lua(L, piece, name);
    }
}

}  // namespace

bool incomplete(lua_State* L, const std::string& entry) { return split(L, entry).unfinished; }

Failure evaluate(lua_State* L, const std::string& entry, const std::string& name) {
    Split parts = split(L, entry);
    const bool one_line = trim(entry).find('\n') == std::string_view::npos;
    // Lines that declare locals belong together; so do lines that are Lua only as a whole.
    bool together = parts.wrong;
    for (const Piece& piece : parts.pieces)
        together = together || (parts.pieces.size() > 1 && starts_with_local(piece));
    if (together) parts.pieces = joined(L, std::move(parts.pieces), entry);
    for (const Piece& piece : parts.pieces) {
        if (Failure failure = run(L, piece, name))
            return one_line ? without_needless_position(std::move(failure), name) : failure;
    }
    return {};
}

}  // namespace causeway::lua
