// An entry cut into pieces, each compiled and run by script.cpp; what to show goes to the display.
#include "lua/shell/evaluate.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "lua/bind/bind.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/hints.hpp"
#include "lua/shell/macros.hpp"
#include "lua/shell/names.hpp"
#include "lua/shell/positions.hpp"
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
    enum Kind { lua, help, search, command };
    Kind kind = lua;
    std::string text;      // without the prefix
    bool wrong = false;    // it is no Lua
    std::size_t line = 1;  // of the entry: where it begins
};

Piece read_prefix(std::string_view line) {
    const std::string_view text = trim(line);
    if (text.substr(0, 2) == "??") return {Piece::search, std::string(trim(text.substr(2)))};
    if (text.substr(0, 1) == "?") return {Piece::help, std::string(trim(text.substr(1)))};
    if (text.substr(0, 1) == ";") return {Piece::command, std::string(trim(text.substr(1)))};
    return {Piece::lua, std::string(line)};
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

// Leaves the compiled function on the stack, or the message of the compiler, and tells which. The text has no macros.
Parse parse(lua_State* L, const std::string& text, const std::string& chunk) {
    if (compile(L, give + text, chunk)) return Parse::expression;
    if (compile(L, returning_last(L, text), chunk)) {
        lua_remove(L, -2);
        return Parse::statement;
    }
    if (!ends_early(lua_tostring(L, -1)) && ends_early(lua_tostring(L, -2))) lua_insert(L, -2);
    lua_remove(L, -2);  // keeps the message that says more
    const std::string message = lua_tostring(L, -1);
    const bool begun = ends_early(message) && !ends_in_quote(text) && syntax_hint(text, message).empty();
    return begun ? Parse::incomplete : Parse::wrong;
}

Parse parse_only(lua_State* L, const std::string& text) {
    const Expansion expanded = expand_macros(L, text);
    if (!expanded.fault.empty()) return Parse::wrong;
    const Parse result = parse(L, expanded.code, "=input");
    lua_pop(L, 1);
    return result;
}

// The piece that these lines are; nothing where they are only the beginning of one.
std::optional<Piece> piece_of(lua_State* L, const std::string& lines) {
    Piece piece = read_prefix(lines);
    if (piece.kind == Piece::lua) {
        const Parse parsed = parse_only(L, piece.text);
        if (parsed == Parse::incomplete) return std::nullopt;
        piece.wrong = parsed == Parse::wrong;
    }
    return piece;
}

// Calls each(line) for the lines of a text.
template <class Each>
void each_line(const std::string& text, Each&& each) {
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        each(text.substr(begin, end - begin));
        begin = end + 1;
    }
}

// Adds a line to those of the piece before it, which may be none.
void add_line(std::string& lines, const std::string& line) {
    if (!lines.empty()) (lines += '\n') += line;
    else if (!trim(line).empty()) lines = line;
}

// The last piece may be only a beginning.
std::vector<Piece> split(lua_State* L, const std::string& entry) {
    std::vector<Piece> pieces;
    std::string lines;
    std::size_t number = 0, first = 1;  // of the line, and of the piece's first
    const auto add = [&](Piece piece) {
        piece.line = first;
        pieces.push_back(std::move(piece));
    };
    each_line(entry, [&](const std::string& line) {
        ++number;
        if (lines.empty()) first = number;
        add_line(lines, line);
        if (lines.empty()) return;
        std::optional<Piece> piece = piece_of(L, lines);
        if (!piece) return;
        add(*std::move(piece));
        lines.clear();
    });
    if (!lines.empty()) add(read_prefix(lines));
    return pieces;
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
        if (parse_only(L, text) == Parse::statement) return {{Piece::lua, text}};
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

// The name that the text, or what is behind its last semicolon, consists of; "" where it is anything else.
std::string bare_name(std::string_view text) {
    auto tokens = tokenize_without_comments(text);
    const auto is = [&](const Token& token, std::string_view word) { return token.text(text) == word; };
    if (!tokens.empty() && is(tokens.back(), ";")) tokens.pop_back();
    if (tokens.empty() || tokens.back().kind != Token::name || is_keyword(tokens.back().text(text))) return "";
    if (tokens.size() > 1 && !is(tokens[tokens.size() - 2], ";")) return "";
    for (const Token& token : tokens) {
        if (is(token, "local")) return "";  // the name need not be that of a global
    }
    return std::string(tokens.back().text(text));
}

// Whether the value at `index` is a function that is called when its name is all that is entered.
bool is_called_by_name(lua_State* L, int index, const std::string& name) {
    if (name != "exit" && name != "quit" && name != "help") return false;
    push_causeway(L);
    lua_getfield(L, -1, name.c_str());
    const bool same = lua_rawequal(L, -1, index) != 0;
    lua_pop(L, 2);
    return same;
}

// Whether what is entered writes to a file as its last call, io.write("a") or f:write("a"), whose value is that file.
bool ends_in_write(std::string_view text) {
    const auto tokens = tokenize_without_comments(text);
    std::size_t open = tokens.size();
    int depth = 0;
    for (std::size_t i = tokens.size(); i-- > 0 && open == tokens.size();) {
        const std::string_view word = tokens[i].text(text);
        if (word == ")") ++depth;
        else if (word == "(" && --depth == 0) open = i;
        else if (depth == 0 && word != ";" && tokens[i].kind != Token::string) return false;
        else if (depth == 0 && tokens[i].kind == Token::string) open = i;
    }
    if (open < 2 || open == tokens.size()) return false;
    const std::string_view sign = tokens[open - 2].text(text);
    return tokens[open - 1].text(text) == "write" && (sign == "." || sign == ":");
}

// Called with the values as arguments and as upvalues `show`, whether the entry is a name and whether it ends in a call
// of write: keeps the first value as `ans` and shows them all, but for the file that was written to. A name asks for
// its value even where the entry has written it to a file.
int finish(lua_State* L) {
    const bool show = lua_toboolean(L, lua_upvalueindex(1)), is_name = lua_toboolean(L, lua_upvalueindex(2)),
               writes = lua_toboolean(L, lua_upvalueindex(3));
    const int n = lua_gettop(L);
    lua_pushglobaltable(L);
    lua_pushliteral(L, "ans");
    lua_pushvalue(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    // All are made before the first is shown: where memory runs out, the call may be made once more.
    std::vector<Rich> values;
    for (int i = 1; show && i <= n; ++i) {
        if (writes && luaL_testudata(L, i, LUA_FILEHANDLE)) continue;
        const std::string instead = shown_in_place(L, i);
        if (!instead.empty() && !is_name) values.push_back({instead, {}, {}});
        else if (!instead.empty() || !shown_in_entry(L, i)) values.push_back(rich(L, i));
    }
    for (const Rich& value : values) display(L).result(value);
    return 0;
}

// ---- the kinds of pieces ----

// Runs a command of the system's shell; `cd` changes the directory of this program.
Failure run_command(const std::string& command) {
    std::fflush(nullptr);
    if (command == "cd" || command.rfind("cd ", 0) == 0) {
        const char* home = std::getenv("HOME");
        const std::string rest(trim(std::string_view(command).substr(2)));
        const std::string path = rest.empty() ? (home ? home : "/") : with_home(rest);
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
    if (!text.empty()) push_text(L, text);
    return call(L, text.empty() ? 0 : 1, 0);
}

// The hint on code that is neither an expression nor statements, "" where it is one of both; either message of the
// compiler may lead to it.
std::string hint_on_wrong(lua_State* L, const std::string& code, const std::string& name) {
    const int base = lua_gettop(L);
    std::string hint;
    if (!compile(L, code, "=" + name)) {
        const std::string of_statements = lua_tostring(L, -1);
        if (!compile(L, give + code, "=" + name)) {
            hint = syntax_hint(code, of_statements, kinds_of_globals(L));
            if (hint.empty()) hint = syntax_hint(code, lua_tostring(L, -1), kinds_of_globals(L));
        }
    }
    lua_settop(L, base);
    return hint;
}

// The parts of a line between semicolons that stand in no brackets.
std::vector<std::string> parts_of(const std::string& code) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    int depth = 0;
    const auto add = [&](std::size_t end) {
        const std::string part(trim(std::string_view(code).substr(begin, end - begin)));
        if (!part.empty()) parts.push_back(part);
    };
    for (const Token& token : tokenize_without_comments(code)) {
        const std::string_view word = token.text(code);
        depth += word == "(" || word == "[" || word == "{";
        depth -= word == ")" || word == "]" || word == "}";
        if (word != ";" || depth != 0) continue;
        add(token.begin);
        begin = token.end;
    }
    add(code.size());
    return parts;
}

// The hint on a line with semicolons by its first part that is wrong: Lua takes no expression for a part, and stops at
// its beginning where the habit comes later.
std::string hint_on_parts(lua_State* L, const std::string& code, const std::string& name) {
    const std::vector<std::string> parts = parts_of(code);
    for (const std::string& part : parts) {
        const int base = lua_gettop(L);
        const bool good = compile(L, part, "=") || compile(L, give + part, "=");
        lua_settop(L, base);
        if (!good) return hint_on_wrong(L, part, name);
    }
    return parts.size() > 1 ? "hint: in a line of several parts only the last is shown; print(x) shows x" : "";
}

// What the compiler says of code that is neither an expression nor statements.
Failure syntax_failure(lua_State* L, const std::string& code, const std::string& name, const std::string& message) {
    std::string hint = syntax_hint(code, message, kinds_of_globals(L));
    if (hint.empty()) hint = hint_on_wrong(L, code, name);
    if (hint.empty()) hint = else_if_hint(code, message);
    if (hint.empty()) hint = hint_on_parts(L, code, name);
    return {hint.empty() ? message : message + "\n" + hint, "", false};
}

// Says what causeway[name] knows of the entry, which ran.
void note_of(lua_State* L, const char* name, const std::string& code) {
    const int top = lua_gettop(L);
    push_causeway(L);
    lua_getfield(L, -1, name);
    push_text(L, code);
    const bool told = lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
    const std::string note = told ? lua_tostring(L, -1) : "";
    lua_settop(L, top);
    if (told) call_library(L, "_note", note);
}

Failure run_lua(lua_State* L, const Piece& piece, const std::string& name) {
    const Expansion expanded = expand_macros(L, piece.text);
    if (!expanded.fault.empty()) return {expanded.fault, "", false};
    const int base = lua_gettop(L);
    const std::string code = std::string(piece.line - 1, '\n') + expanded.code;  // its lines are those of the entry
    const Parse parsed = parse(L, code, "=" + name);
    if (parsed == Parse::incomplete || parsed == Parse::wrong) {
        Failure failure = syntax_failure(L, code, name, lua_tostring(L, -1));
        lua_settop(L, base);
        return failure;
    }
    begin_entry(L);
    remember_source(L, code);
    if (Failure failure = call(L, 0, LUA_MULTRET)) return failure;
    const int n = lua_gettop(L) - base;
    for (const std::string& note : notes_on_undefined_names(L, expanded.code)) call_library(L, "_note", note);
    for (const auto notes : {notes_on_types, notes_on_places, notes_on_cut_sizes, notes_on_results}) {
        for (const std::string& note : notes(L, expanded.code)) call_library(L, "_note", note);
    }
    for (const char* known : {"_note_on_field", "_note_on_state"}) note_of(L, known, expanded.code);
    if (n == 0) return {};
    const std::string bare = bare_name(piece.text);
    if (!bare.empty() && lua_isnil(L, base + 1)) {
        lua_settop(L, base);
        const std::string meant = meant_by(L, bare);
        return {bare + " is not defined" + (meant.empty() ? "" : " (" + meant + ")"), "", false};
    }
    if (is_called_by_name(L, base + 1, bare)) return call(L, n - 1, 0);
    lua_pushboolean(L, !hides_value(piece.text) && !expanded.ends_in_show);
    lua_pushboolean(L, !bare.empty());
    lua_pushboolean(L, ends_in_write(expanded.code));
    lua_pushcclosure(L, guarded<finish>, 3);
    lua_insert(L, base + 1);
    return call(L, n, 0);
}

Failure run(lua_State* L, const Piece& piece, const std::string& name) {
    switch (piece.kind) {
        case Piece::help: return call_library(L, "_show_help", piece.text);
        case Piece::search: return call_library(L, "_show_search", piece.text);
        case Piece::command: return run_command(piece.text);
        default: return run_lua(L, piece, name);
    }
}

}  // namespace

bool EntryReader::wants_more_after(const std::string& text) {
    each_line(text, [&](const std::string& line) {
        add_line(piece_, line);
        if (!piece_.empty() && piece_of(L_, piece_)) piece_.clear();
    });
    return !piece_.empty();
}

Completeness completeness(lua_State* L, const std::string& entry) {
    if (EntryReader(L).wants_more_after(entry)) return Completeness::incomplete;
    const auto wrong = [](const Piece& piece) { return piece.wrong; };
    std::vector<Piece> pieces = split(L, entry);
    if (std::none_of(pieces.begin(), pieces.end(), wrong)) return Completeness::complete;
    pieces = joined(L, std::move(pieces), entry);
    return std::any_of(pieces.begin(), pieces.end(), wrong) ? Completeness::invalid : Completeness::complete;
}

namespace {

Failure evaluate_pieces(lua_State* L, const std::string& entry, const std::string& name) {
    std::vector<Piece> pieces = split(L, entry);
    remember_entry(L, name, std::string(trim(entry).find('\n') == std::string_view::npos ? trim(entry) : entry));
    // Lines that declare locals belong together; so do lines that are Lua only as a whole.
    const bool together = std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return piece.wrong || (pieces.size() > 1 && starts_with_local(piece));
    });
    if (together) pieces = joined(L, std::move(pieces), entry);
    if (has_list_in_long_brackets(entry)) {
        call_library(L, "_note", "[[1,2],[3,4]] is a text in Lua; a tensor is tensor{{1, 2}, {3, 4}}");
    }
    for (const Piece& piece : pieces) {
        if (Failure failure = run(L, piece, name)) return told_by_lines(L, std::move(failure), name);
    }
    return {};
}

}  // namespace

Failure evaluate(lua_State* L, const std::string& entry, const std::string& name) {
    const int base = lua_gettop(L);
    try {
        return evaluate_pieces(L, entry, name);
    } catch (const std::exception&) {  // memory that ran out where Lua protects nothing: little is left to say it with
        lua_settop(L, base);
        return {"out of memory", "", false};
    }
}

}  // namespace causeway::lua
