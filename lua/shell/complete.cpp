// Completion by the tokens before the cursor, the tables of the interpreter (read raw, so that no code of the user
// runs) and the file system.
#include "lua/shell/complete.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "lua/bind/bind.hpp"
#include "lua/shell/tokens.hpp"

namespace causeway::lua {
namespace {

namespace fs = std::filesystem;

// ---- where the cursor is ----

// The innermost call around the cursor: `f(a, {b, method = ...` is function "f", argument 2, in_table, option "method".
struct Call {
    std::string function;
    int argument = 1;
    bool in_table = false;
    bool at_key = false;  // where the name of an option is expected
    std::string option;   // the option whose value is expected
};

bool is(const Token& token, std::string_view source, std::string_view text) {
    return token.kind != Token::string && token.kind != Token::comment && token.text(source) == text;
}

// `tokens` end before the word at the cursor.
std::optional<Call> enclosing_call(const std::vector<Token>& tokens, std::string_view source) {
    struct Open {
        std::size_t at;
        int argument = 1;
        std::size_t item = 0;  // index of the first token of the current item
    };
    std::vector<Open> open;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const auto one_of = [&](std::string_view a, std::string_view b, std::string_view c) {
            return is(tokens[i], source, a) || is(tokens[i], source, b) || is(tokens[i], source, c);
        };
        if (one_of("(", "{", "[")) {
            open.push_back({i, 1, i + 1});
        } else if (one_of(")", "}", "]")) {
            if (!open.empty()) open.pop_back();
        } else if (one_of(",", ",", ";") && !open.empty()) {
            ++open.back().argument;
            open.back().item = i + 1;
        }
    }
    Call call;
    if (open.empty()) return std::nullopt;
    Open paren = open.back();
    // `modes = {"`: an item of a list is a value of the option that the list is for.
    const bool at_item = is(tokens[paren.at], source, "{") && paren.item == tokens.size();
    if (at_item && paren.at >= 2 && is(tokens[paren.at - 1], source, "=") && tokens[paren.at - 2].kind == Token::name) {
        const auto before = tokens.begin() + static_cast<std::ptrdiff_t>(paren.at);
        return enclosing_call(std::vector<Token>(tokens.begin(), before), source);
    }
    if (is(tokens[paren.at], source, "{")) {
        call.in_table = true;
        call.at_key = paren.item == tokens.size();
        if (paren.item + 2 == tokens.size() && tokens[paren.item].kind == Token::name &&
            is(tokens.back(), source, "=")) {
            call.option = tokens[paren.item].text(source);
        }
        const std::size_t brace = paren.at;
        if (brace > 0 && tokens[brace - 1].kind == Token::name) {  // f{...}
            call.function = tokens[brace - 1].text(source);
            return call;
        }
        open.pop_back();
        if (open.empty() || open.back().item != brace) return std::nullopt;
        paren = open.back();
    }
    if (!is(tokens[paren.at], source, "(") || paren.at == 0 || tokens[paren.at - 1].kind != Token::name)
        return std::nullopt;
    call.function = tokens[paren.at - 1].text(source);
    call.argument = paren.argument;
    return call;
}

// ---- what there is ----

class Finder {
public:
    Finder(lua_State* L, const std::string& text) : L_(L), text_(text) {}

    Completion find() {
        const std::size_t start = std::min(text_.find_first_not_of(" \t"), text_.size());
        const std::string_view head = std::string_view(text_).substr(start);
        if (head.starts_with("?")) {
            word_from(std::min(text_.find_first_not_of("? \t\"", start), text_.size()));
            add_manual();
        } else if (head.starts_with(";")) {
            word_from(std::max(text_.find_last_of(" \t;'\"") + 1, start + 1));
            add_files();
        } else if (head.starts_with("@") && head.find_first_of(" \t") == std::string_view::npos) {
            word_from(start);
            for (const char* name : {"@btime ", "@show ", "@time "}) add(name);
        } else {
            find_in_code(head.starts_with("@") ? text_.find_first_of(" \t", start) : 0);
        }
        std::sort(found_.words.begin(), found_.words.end());
        found_.words.erase(std::unique(found_.words.begin(), found_.words.end()), found_.words.end());
        return std::move(found_);
    }

private:
    void word_from(std::size_t begin) {
        found_.begin = begin;
        word_ = std::string_view(text_).substr(begin);
    }

    void add(std::string_view candidate) {
        if (candidate.starts_with(word_)) found_.words.emplace_back(candidate);
    }

    void find_in_code(std::size_t begin) {
        const std::string_view source = std::string_view(text_).substr(begin);
        auto tokens = tokenize(source);
        if (!tokens.empty() && tokens.back().open) {
            const Token last = tokens.back();
            tokens.pop_back();
            if (last.kind == Token::string) find_in_string(tokens, source, begin + last.begin);
            return;
        }
        const bool in_word = !tokens.empty() && tokens.back().kind == Token::name && tokens.back().end == source.size();
        word_from(in_word ? begin + tokens.back().begin : text_.size());
        if (in_word) tokens.pop_back();
        if (!tokens.empty() && (is(tokens.back(), source, ".") || is(tokens.back(), source, ":"))) {
            add_fields(tokens, source);
            return;
        }
        if (const auto call = enclosing_call(tokens, source); call && call->at_key) add_options(*call);
        if (found_.words.empty() && !word_.empty()) add_names();
    }

    void find_in_string(const std::vector<Token>& tokens, std::string_view source, std::size_t quote) {
        word_from(quote + 1);
        if (const auto call = enclosing_call(tokens, source)) add_choices(*call);
        if (found_.words.empty()) add_files();
    }

    // Calls f(key) for every string key of the table at the top with the value at the top of the stack.
    template <class F>
    void each_key(F&& f) {
        luaL_checkstack(L_, 6, "no room to complete");
        for (lua_pushnil(L_); lua_next(L_, -2); lua_pop(L_, 1)) {
            if (lua_type(L_, -2) == LUA_TSTRING) f(std::string_view(lua_tostring(L_, -2)));
        }
    }

    static bool is_word(std::string_view key) {
        const auto tokens = tokenize(key);
        return tokens.size() == 1 && tokens[0].kind == Token::name && !is_keyword(key);
    }

    // Names of the table at the top that can be written after a dot; internal ones only when the word begins like them.
    void add_keys(bool functions_only) {
        each_key([&](std::string_view key) {
            if (!is_word(key) || (key[0] == '_' && !word_.starts_with("_"))) return;
            if (!functions_only || lua_isfunction(L_, -1)) add(key);
        });
    }

    void add_names() {
        lua_pushglobaltable(L_);
        add_keys(false);
        lua_pop(L_, 1);
        push_causeway(L_);
        add_keys(false);
        lua_pop(L_, 1);
        for (const std::string_view keyword : keywords) add(keyword);
    }

    void add_manual() {
        push_causeway(L_);
        lua_getfield(L_, -1, "_page_names");  // of lua/lib/help.lua
        if (lua_pcall(L_, 0, 1, 0) == LUA_OK && lua_istable(L_, -1)) each_key([&](std::string_view key) { add(key); });
        lua_pop(L_, 2);
    }

    // Pushes _options[function] and returns true, or pushes nothing.
    bool push_options(const Call& call) {
        push_causeway(L_);
        lua_getfield(L_, -1, "_options");
        push_text(L_, call.function);
        lua_rawget(L_, -2);
        lua_replace(L_, -3);
        lua_pop(L_, 1);
        if (lua_istable(L_, -1)) return true;
        lua_pop(L_, 1);
        return false;
    }

    void add_options(const Call& call) {
        if (!call.in_table || !push_options(call)) return;
        each_key([&](std::string_view key) { add(key); });
        lua_pop(L_, 1);
    }

    // The choices of an option, or of an argument by its number.
    void add_choices(const Call& call) {
        if ((call.in_table && call.option.empty()) || !push_options(call)) return;
        if (call.in_table) lua_getfield(L_, -1, call.option.c_str());
        else lua_rawgeti(L_, -1, call.argument);
        if (lua_istable(L_, -1)) {
            for (lua_Integer i = 1; lua_rawgeti(L_, -1, i) == LUA_TSTRING; ++i, lua_pop(L_, 1))
                add(lua_tostring(L_, -1));
            lua_pop(L_, 1);
        }
        lua_pop(L_, 2);
    }

    // Replaces the value at the top by the table its fields are looked up in: itself, or what its metatable names as
    // __methods or __index. False where there is none.
    bool to_fields() {
        if (lua_istable(L_, -1)) return true;
        if (!lua_getmetatable(L_, -1)) return false;
        lua_replace(L_, -2);
        for (const char* name : {"__methods", "__index"}) {
            lua_pushstring(L_, name);
            if (lua_rawget(L_, -2) == LUA_TTABLE) {
                lua_replace(L_, -2);
                return true;
            }
            lua_pop(L_, 1);
        }
        return false;
    }

    // What the metatable at the top names as __methods or, where it names none, as __index.
    void push_inherited() {
        lua_pushliteral(L_, "__methods");
        if (lua_rawget(L_, -2) == LUA_TTABLE) return;
        lua_pop(L_, 1);
        lua_pushliteral(L_, "__index");
        lua_rawget(L_, -2);
    }

    // Replaces the table at the top by its field, looked up without calling anything; false where there is none.
    bool to_field(std::string_view name) {
        for (int depth = 0; depth < 8 && to_fields(); ++depth) {
            push_text(L_, name);
            if (lua_rawget(L_, -2) != LUA_TNIL) {
                lua_replace(L_, -2);
                return true;
            }
            lua_pop(L_, 1);
            if (!lua_getmetatable(L_, -1)) return false;
            push_inherited();
            lua_replace(L_, -3);
            lua_pop(L_, 1);
        }
        return false;
    }

    // `tokens` end in the dot or colon behind a path of names.
    void add_fields(const std::vector<Token>& tokens, std::string_view source) {
        const bool methods = is(tokens.back(), source, ":");
        std::size_t first = tokens.size() - 1;
        while (first >= 1 && tokens[first - 1].kind == Token::name &&
               (first == tokens.size() - 1 || is(tokens[first], source, "."))) {
            --first;
            if (first == 0 || !is(tokens[first - 1], source, ".")) break;
            --first;
        }
        const int top = lua_gettop(L_);
        luaL_checkstack(L_, 8, "no room to complete");
        if (first + 1 == tokens.size()) {
            push_type_before(tokens, source);
        } else {
            lua_pushglobaltable(L_);
            for (std::size_t i = first; i + 1 < tokens.size(); i += 2) {
                if (to_field(tokens[i].text(source))) continue;
                lua_settop(L_, top);
                return;
            }
        }
        const bool is_table = lua_istable(L_, -1);
        for (int depth = 0; depth < 8 && to_fields(); ++depth) {
            add_keys(methods && !is_table);
            if (!lua_getmetatable(L_, -1)) break;
            push_inherited();
            lua_replace(L_, -3);
            lua_pop(L_, 1);
        }
        lua_settop(L_, top);
    }

    // Something with the methods of the value in front of the dot or colon: of a string, or, behind the parenthesis of
    // a call whose result cannot be known, of a tensor.
    void push_type_before(const std::vector<Token>& tokens, std::string_view source) {
        const std::size_t n = tokens.size() - 1;
        const bool closed = n >= 1 && is(tokens[n - 1], source, ")");
        const bool literal = n >= (closed ? 2u : 1u) && tokens[n - (closed ? 2 : 1)].kind == Token::string;
        if (literal) lua_pushliteral(L_, "");
        else if (closed) luaL_getmetatable(L_, "causeway.Tensor");
        else lua_pushnil(L_);
        if (!closed || literal || !lua_istable(L_, -1)) return;
        for (const char* name : {"__methods", "__index"}) {
            lua_pushstring(L_, name);
            if (lua_rawget(L_, -2) == LUA_TTABLE) return;
            lua_pop(L_, 1);
        }
    }

    // Files whose path begins with the word; folders end in a slash. `~/` is the home folder.
    void add_files() {
        const std::string word(word_);
        const std::size_t slash = word.find_last_of('/');
        const std::string folder = slash == std::string::npos ? "" : word.substr(0, slash + 1);
        const fs::path place = folder.empty() ? "." : with_home(folder);
        std::error_code error;
        for (fs::directory_iterator file(place, error), end; !error && file != end; file.increment(error)) {
            const std::string name = file->path().filename().string();
            if (name[0] == '.' && word.substr(folder.size(), 1) != ".") continue;
            std::error_code ignored;
            add(folder + name + (file->is_directory(ignored) ? "/" : ""));
        }
    }

    lua_State* L_;
    const std::string& text_;
    std::string_view word_;
    Completion found_;
};

struct Request {
    const std::string& text;
    Completion found;
};

int find_protected(lua_State* L) {
    auto& request = *static_cast<Request*>(lua_touserdata(L, 1));
    request.found = Finder(L, request.text).find();
    return 0;
}

}  // namespace

Completion complete(lua_State* L, const std::string& text) {
    Request request{text, {}};
    lua_pushcfunction(L, guarded<find_protected>);
    lua_pushlightuserdata(L, &request);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
    return request.found;
}

}  // namespace causeway::lua
