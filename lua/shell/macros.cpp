// Finds macros by tokens and tries where their expression ends; and the functions that they become.
#include "lua/shell/macros.hpp"

#include <algorithm>
#include <cstdio>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/memory.hpp"
#include "core/base/text.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/tokens.hpp"

namespace causeway::lua {
namespace {

const std::vector<std::string> macro_names = {"@time", "@btime", "@show"};

bool is_lua(lua_State* L, const std::string& code) {
    const bool valid = luaL_loadbufferx(L, code.data(), code.size(), "=", "t") == LUA_OK;
    lua_pop(L, 1);
    return valid;
}

// What a macro of Julia's, or a command of IPython's, is here.
std::string meant_by_macro(const std::string& name) {
    constexpr std::pair<std::string_view, const char*> macros[] = {
        {"@benchmark", "@btime f(x) measures many calls; t = @btime f(x) has the numbers"},
        {"@elapsed", "t = @btime f(x) has the seconds: t.minimum, t.median"},
        {"@belapsed", "t = @btime f(x) has the seconds: t.minimum, t.median"},
        {"@timed", "t = @btime f(x) has the seconds: t.minimum, t.median"},
        {"@timeit", "it is @btime f(x)"},
        {"@allocated", "@time f(x) shows the peak of extra memory"},
        {"@memory", "@time f(x) shows the peak of extra memory"},
        {"@printf", "print(string.format(\"%.3f\", x)) is it"},
        {"@sprintf", "string.format(\"%.3f\", x) is it"},
        {"@assert", "assert(x > 0, \"a sentence\") is it"},
        {"@test", "assert(isapprox(x, y)) is it"},
        {"@doc", "?name is it"},
        {"@which", "?name has what there is to know of a function"},
        {"@less", "?name has what there is to know of a function"},
        {"@edit", "?name has what there is to know of a function"},
        {"@info", "print(\"a sentence\") is it"},
        {"@warn", "print(\"a sentence\") is it"},
        {"@threads", "threads(n) sets how many threads the calls have; loops of Lua have one"},
        {"@inbounds", "leave it out"},
        {"@views", "parts of tensors are copies: leave it out"},
        {"@simd", "leave it out"}};
    for (const auto& [macro, here] : macros) {
        if (macro == name) return std::string(" (") + here + ")";
    }
    return did_you_mean(name, macro_names);
}

// The text as a literal of Lua.
std::string lua_literal(std::string_view text) {
    std::string literal = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') literal += '\\';
        if (c == '\n') literal += "\\n";
        else literal += c;
    }
    return literal + '"';
}

// The macros of one text, replaced from the last to the first: what a macro takes may hold another one.
class Expander {
public:
    Expander(lua_State* L, const std::string& text) : L_(L) { result_.code = text; }

    Expansion run() {
        tokens_ = tokenize_without_comments(result_.code);
        for (std::size_t i = tokens_.size(); i-- > 0;) {
            if (!is_macro(i)) continue;
            expand(i);
            if (!result_.fault.empty()) return result_;
            tokens_ = tokenize_without_comments(result_.code);
        }
        // What no call could be made of is left out, so that Lua tells what is wrong with the rest. If nothing is:
        if (!left_out_.empty() && (is_lua(L_, "return " + result_.code) || is_lua(L_, result_.code)))
            result_.fault = left_out_ + ": expected an expression up to the end of the line or a semicolon";
        return result_;
    }

private:
    std::string_view word(std::size_t i) const { return tokens_[i].text(result_.code); }

    bool starts_line(std::size_t i) const { return lua::starts_line(tokens_, i, result_.code); }

    bool is_macro(std::size_t i) const {
        if (word(i) != "@" || i + 1 == tokens_.size()) return false;
        if (tokens_[i + 1].kind != Token::name || tokens_[i + 1].begin != tokens_[i].end) return false;
        return starts_statement(i) || word(i - 1) == "=" || word(i - 1) == "return";
    }

    bool starts_statement(std::size_t i) const {
        return starts_line(i) ? i == 0 || word(i - 1) != "=" : word(i - 1) == ";";
    }

    void expand(std::size_t i) {
        const std::string name = "@" + std::string(word(i + 1));
        if (std::find(macro_names.begin(), macro_names.end(), name) == macro_names.end()) {
            result_.fault = name + ": expected @time, @btime or @show" + meant_by_macro(name);
            return;
        }
        const std::size_t begin = tokens_[i + 1].end;
        for (std::size_t end = i + 2; end <= tokens_.size(); ++end) {
            const bool last = end == tokens_.size();
            if (!last && word(end) != ";" && !starts_line(end)) continue;
            if (end == i + 2) {
                result_.fault = name + ": expected an expression after it";
                return;
            }
            const std::string body = result_.code.substr(begin, tokens_[end - 1].end - begin);
            const auto call = call_of(name, body, starts_statement(i));
            if (!result_.fault.empty()) return;
            if (!call) continue;
            const bool closes = last || (end + 1 == tokens_.size() && word(end) == ";");
            const bool gives = starts_statement(i) || word(i - 1) == "return";
            if (closes && gives && name == "@show") result_.ends_in_show = true;
            result_.code.replace(tokens_[i].begin, tokens_[end - 1].end - tokens_[i].begin, *call);
            return;
        }
        result_.code.erase(tokens_[i].begin, begin - tokens_[i].begin);
        left_out_ = name;
    }

    // Whether a name is set in the line of a value before it, without a semicolon: two statements to Lua.
    static bool sets_behind_value(const std::string& body) {
        const auto tokens = tokenize_without_comments(body);
        for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
            const bool behind = tokens[i - 1].text(body) == ")" && tokens[i].kind == Token::name;
            if (behind && tokens[i + 1].text(body) == "=" && !lua::starts_line(tokens, i, body)) return true;
        }
        return false;
    }

    // What stands for the macro before this text; nothing where the text is not Lua.
    std::optional<std::string> call_of(const std::string& name, const std::string& body, bool statement) {
        if (is_lua(L_, "return " + body)) {
            if (name == "@time") return "causeway._timed(causeway._start()," + body + ")";
            if (name == "@btime") return "causeway.btime(function() return" + body + " end)";
            return "causeway._show_as(" + lua_literal(body.substr(body.find_first_not_of(" \t\r\n"))) + "," + body +
                   ")";
        }
        if (!statement || !is_lua(L_, body)) return std::nullopt;
        if (name == "@btime" && sets_behind_value(body)) {  // @btime f(x) samples=10, as Julia has it
            result_.fault = name + ": expected an expression alone; options are those of btime(f, {samples = 10})";
            return std::nullopt;
        }
        if (name == "@time")
            return "do local _start <const> = causeway._start()" + body + " causeway._timed(_start) end";
        if (name == "@btime") return "causeway.btime(function()" + body + " end)";
        result_.fault = name + ": expected an expression after it";
        return std::nullopt;
    }

    lua_State* L_;
    Expansion result_;
    std::vector<Token> tokens_;
    std::string left_out_;
};

// ---- what the calls do ----

struct Start {
    std::size_t held;
    double seconds;
};
static_assert(std::is_trivially_destructible_v<Start>);
constexpr const char* start_type = "causeway.start";

// _start(): now, and the memory that is held now.
int start_measuring(lua_State* L) {
    auto* start = new (lua_newuserdatauv(L, sizeof(Start), 0)) Start{};
    luaL_newmetatable(L, start_type);
    lua_setmetatable(L, -2);
    start->held = memory::current();
    memory::reset_peak();
    start->seconds = steady_seconds();
    return 1;
}

// _timed(start, ...): shows what has been spent since, in a line as Julia's @time prints it, and returns the rest.
int timed(lua_State* L) {
    const double now = steady_seconds();
    const std::size_t peak = memory::peak();
    const auto& start = *static_cast<Start*>(luaL_checkudata(L, 1, start_type));
    const std::size_t extra = peak > start.held ? peak - start.held : 0;
    char text[64];
    std::snprintf(text, sizeof text, "  %.6f seconds, peak extra memory ", now - start.seconds);
    push_causeway(L);
    lua_getfield(L, -1, "bytes_text");
    lua_pushinteger(L, static_cast<lua_Integer>(extra));
    lua_call(L, 1, 1);
    display(L).show({text + check_string(L, -1, "bytes_text"), {}, {}});
    lua_pop(L, 2);
    return lua_gettop(L) - 1;
}

// _show_as(text, ...): shows "text = values", and returns the values.
int show_as(lua_State* L) {
    const int n = lua_gettop(L);
    std::string values;
    for (int i = 2; i <= n; ++i) values += (i > 2 ? ", " : "") + rich(L, i).text;
    const bool lines = values.find('\n') != std::string::npos;
    display(L).show({check_string(L, 1, "text") + " =" + (lines ? "\n" : " ") + values, {}, {}});
    return n - 1;
}

}  // namespace

Expansion expand_macros(lua_State* L, const std::string& text) {
    if (text.find('@') == std::string::npos) return {text, "", false};
    return Expander(L, text).run();
}

void open_macros(lua_State* L) {
    add_functions(L,
                  {{"_start", guarded<start_measuring>}, {"_timed", guarded<timed>}, {"_show_as", guarded<show_as>}});
}

}  // namespace causeway::lua
