// Reads the tables of globals without their metamethods.
#include "lua/shell/names.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "core/base/text.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/called.hpp"
#include "lua/shell/tokens.hpp"

namespace causeway::lua {
namespace {

constexpr const char* source_key = "causeway.source";      // of the registry
constexpr const char* assigned_key = "causeway.assigned";  // likewise: name -> true, what entries gave a value, or nil

// The keys of the table at the top that may be meant; it is taken off the stack.
void take_names(lua_State* L, std::vector<std::string>& names) {
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) continue;
        std::string name = lua_tostring(L, -2);
        if (!name.empty() && name[0] != '_') names.push_back(std::move(name));
    }
    lua_pop(L, 1);
}

// A global as it was set: a metatable of _G, which may throw, is not asked.
void push_global(lua_State* L, std::string_view name) {
    lua_pushglobaltable(L);
    push_text(L, name);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

// Whether a global of that name was set, or the library has it.
bool is_known(lua_State* L, std::string_view name) {
    push_global(L, name);
    push_causeway(L);
    push_text(L, name);
    lua_rawget(L, -2);
    const bool known = !lua_isnil(L, -1) || !lua_isnil(L, -3);
    lua_pop(L, 3);
    return known;
}

std::vector<std::string> global_names(lua_State* L) {
    std::vector<std::string> names;
    luaL_checkstack(L, 8, "no room for the names");
    lua_pushglobaltable(L);
    take_names(L, names);
    push_causeway(L);
    take_names(L, names);
    std::sort(names.begin(), names.end());
    return names;
}

// Whether most letters of the longer word are in the other one: among so many short names, one at a distance of two
// letters, or one that only begins so, as setmetatable with set, is seldom meant.
bool alike(const std::string& word, const std::string& name) {
    if (word.size() < 3) return false;
    if (name.compare(0, word.size(), word) == 0) return 2 * word.size() >= name.size();
    std::string a = word, b = name, common;
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
    return 3 * common.size() >= 2 * std::max(a.size(), b.size());
}

// What the table at the top of the stack itself has under the name at `name`, beside the value at `value`.
enum class Holds { nothing, other, same };
Holds holds(lua_State* L, int name, int value) {
    lua_pushvalue(L, name);
    lua_rawget(L, -2);
    const Holds found = lua_isnil(L, -1)                  ? Holds::nothing
                        : lua_rawequal(L, -1, value) != 0 ? Holds::same
                                                          : Holds::other;
    lua_pop(L, 1);
    return found;
}

// The constant of Lua's that other languages write so; "" for other names.
std::string constant_like(std::string_view name) {
    constexpr std::pair<std::string_view, const char*> constants[] = {
        {"True", "true"}, {"TRUE", "true"}, {"False", "false"}, {"FALSE", "false"},
        {"None", "nil"},  {"null", "nil"},  {"nothing", "nil"}, {"NULL", "nil"}};
    for (const auto& [word, meant] : constants) {
        if (name == word) return meant;
    }
    return "";
}

// The name of a global, or a constant of Lua's, that is like this one; "" when none is.
std::string near_global(lua_State* L, const std::string& name) {
    if (const std::string constant = constant_like(name); !constant.empty()) return constant;
    std::vector<std::string> names = global_names(L);
    std::erase_if(names, [&](const std::string& known) { return known == name || !alike(name, known); });
    return closest(name, names);
}

// The text of the source that runs.
std::string source_of(lua_State* L) {
    lua_getfield(L, LUA_REGISTRYINDEX, source_key);
    std::string source = lua_type(L, -1) == LUA_TSTRING ? text_at(L, -1) : "";
    lua_pop(L, 1);
    return source;
}

// "np.zeros" where the source that runs has a name behind this one and a point, else the name alone.
std::string name_in_source(lua_State* L, const std::string& name) {
    const std::string source = source_of(L);
    const auto tokens = tokenize_without_comments(source);
    const auto word = [&](std::size_t i) { return i < tokens.size() ? tokens[i].text(source) : std::string_view{}; };
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (word(i) != name) continue;
        std::string whole = name;
        for (; word(i + 1) == "." && i + 2 < tokens.size() && tokens[i + 2].kind == Token::name; i += 2)
            whole += "." + std::string(word(i + 2));
        if (whole != name) return whole;
    }
    return name;
}

// Whether the source that runs has a text of Python's with values in it, f"x = {x}", which Lua takes for a call of f:
// of nothing, or of a function of the user's.
bool has_text_with_values(lua_State* L) {
    const std::string source = source_of(L);
    const auto tokens = tokenize_without_comments(source);
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const bool joined = tokens[i].end == tokens[i + 1].begin && tokens[i + 1].kind == Token::string;
        const bool has_values = tokens[i + 1].text(source).find('{') != std::string_view::npos;
        if (joined && has_values && tokens[i].text(source) == "f") return true;
    }
    return false;
}

// What the library's function does of the name that Lua's own has, math.exp say, which was given a tensor, or what
// stands for one or for a number in grad or scan; else "".
std::string function_for_tensors(lua_State* L, const std::string& message) {
    constexpr std::string_view before = "bad argument #1 to '", expected = "' (number expected, got ";
    const std::size_t at = message.find(before), end = message.find(expected, at);
    if (at == std::string::npos || end == std::string::npos) return "";
    const std::string name = message.substr(at + before.size(), end - at - before.size());
    const std::string_view got = std::string_view(message).substr(end + expected.size());
    push_causeway(L);
    const bool has = lua_getfield(L, -1, name.c_str()) == LUA_TFUNCTION;
    lua_pop(L, 2);
    if (!has) return "";
    if (got == "Tensor)") return name + "(A) works on every element of a tensor";
    if (got == "traced value)") return name + "(x) is of numbers and of tensors, and grad sees it";
    return got == "value inside scan)" ? name + "(x) is of numbers and of tensors, and of the values of a step" : "";
}

// What is to be known where Lua stopped at the arithmetic of a list.
constexpr const char* of_lists = "of a list of numbers make a tensor first: tensor{1, 2} * 2";

constexpr const char* of_texts = "texts are joined by two points: \"a\" .. \"b\"";

// What lua/lib/errors.lua knows of the message and of the source that runs, or "".
std::string hint_on_message(lua_State* L, const std::string& message) {
    const int top = lua_gettop(L);
    luaL_checkstack(L, 6, "no room for a hint");
    push_causeway(L);
    lua_getfield(L, -1, "_hint_on");
    push_text(L, message);
    push_text(L, source_of(L));
    const bool told = lua_pcall(L, 2, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
    std::string hint = told ? text_at(L, -1) : "";
    lua_settop(L, top);
    return hint;
}

std::string hint_on_undefined(lua_State* L, const std::string& message);

// The name of a variable that was called though it holds no function, where the library has a function of that name;
// else "".
std::string hidden_function(lua_State* L, const std::string& message) {
    constexpr std::string_view before = "attempt to call a ", global = " value (global '", behind = "')";
    const std::size_t call = message.find(before), at = message.find(global, call);
    if (call == std::string::npos || at == std::string::npos || !message.ends_with(behind)) return "";
    const std::size_t begin = at + global.size();
    const std::string name = message.substr(begin, message.size() - behind.size() - begin);
    push_causeway(L);
    const bool has = lua_getfield(L, -1, name.c_str()) == LUA_TFUNCTION;
    lua_pop(L, 2);
    return has ? name : "";
}

}  // namespace

void remember_source(lua_State* L, const std::string& source) {
    push_text(L, source);
    lua_setfield(L, LUA_REGISTRYINDEX, source_key);
}

std::function<std::string(std::string_view)> kinds_of_globals(lua_State* L) {
    return [L](std::string_view name) {
        push_global(L, name);
        const std::string kind = lua_isnil(L, -1) ? "" : type_name(L, -1);
        lua_pop(L, 1);
        return kind;
    };
}

// What was said where a variable of this name was to be a state.
static std::string nil_state(lua_State* L, const std::string& name) {
    push_causeway(L);
    lua_getfield(L, -1, "_nil_states");
    lua_getfield(L, -1, name.c_str());
    const std::string told = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    lua_pop(L, 3);
    return told;
}

std::string meant_by(lua_State* L, const std::string& name) {
    if (std::string state = nil_state(L, name); !state.empty()) return state;
    if (std::string here = meant_here(L, name); !here.empty()) return here;
    const std::string near = near_global(L, name);
    return near.empty() ? "" : "did you mean \"" + near + "\"?";
}

std::string with_near_global(lua_State* L, const std::string& message) {
    constexpr std::string_view before = "a nil value (global '", behind = "')";
    if (has_text_with_values(L))
        return message + "\nhint: a text with a value in it is \"x = \" .. x, or string.format(\"x = %.3f\", x)";
    if (const std::string hint = hint_on_message(L, message); !hint.empty()) return message + "\nhint: " + hint;
    if (const std::string hint = hint_on_undefined(L, message); !hint.empty()) return message + "\nhint: " + hint;
    if (message.find("attempt to perform arithmetic on a table value") != std::string::npos)
        return message + "\nhint: " + of_lists;
    if (const std::string hidden = hidden_function(L, message); !hidden.empty())
        return message + "\nhint: " + hidden + " is a variable of yours here; the library's is causeway." + hidden;
    if (message.find("attempt to mul a 'string' with a 'number'") != std::string::npos ||
        message.find("attempt to mul a 'number' with a 'string'") != std::string::npos)
        return message + "\nhint: a text several times is (\"ab\"):rep(3)";
    if (message.find("attempt to add a 'string' with a") != std::string::npos ||
        message.find("attempt to mul a 'string' with a 'string'") != std::string::npos ||
        message.find("attempt to perform arithmetic on a string value") != std::string::npos)
        return message + "\nhint: " + of_texts;
    if (message.find("attempt to call a table value (for iterator") != std::string::npos)
        return message + "\nhint: a loop over a table is written: for key, value in pairs(t) do ... end";
    if (const std::string own = function_for_tensors(L, message); !own.empty()) return message + "\nhint: " + own;
    if (message.find("attempt to concatenate a Tensor value") != std::string::npos)
        return message + "\nhint: print(\"x =\", x) shows it, tostring(x) is its text";
    const std::size_t at = message.rfind(before), begin = at + before.size();
    const std::size_t end = at == std::string::npos ? at : message.find(behind, begin);
    if (end == std::string::npos) return message;
    const std::string name = message.substr(begin, end - begin);
    std::string meant = meant_here(L, name_in_source(L, name));
    if (meant.empty()) meant = meant_by(L, name);
    return message + "\nhint: " + (meant.empty() ? "nothing is called " + name + " here" : meant);
}

namespace {

// _hint(message) -> what may be meant where Lua raised the message, nil where nothing is known
int hint(lua_State* L) {
    const std::string message = check_string(L, 1, "message"), told = with_near_global(L, message);
    constexpr std::string_view label = "\nhint: ";
    if (told.size() <= message.size() + label.size()) return 0;
    push_text(L, told.substr(message.size() + label.size()));
    return 1;
}

}  // namespace

void open_names(lua_State* L) { add_functions(L, {{"_hint", guarded<hint>}}); }

namespace {

// A global that a source reads as a value and that nothing has ever set.
struct Undefined {
    std::string name;
    std::string option;  // that it was to be the value of, of a table; "" elsewhere
};

// The undefined names of a source, each once, and in `given` the names that it gives a value; with `operands` also
// those beside an operator. None of a source with functions, loops or locals of its own.
std::vector<Undefined> undefined_names(lua_State* L, const std::string& source, std::set<std::string>& given,
                                       bool operands) {
    const auto tokens = tokenize_without_comments(source);
    const auto word = [&](std::size_t i) { return i < tokens.size() ? tokens[i].text(source) : std::string_view{}; };
    const auto is = [&](std::size_t i, std::initializer_list<std::string_view> words) {
        return std::find(words.begin(), words.end(), word(i)) != words.end();
    };
    const std::initializer_list<std::string_view> operators = {"+", "-", "*", "/", "^", "%"};
    const auto is_equal_sign = [&](std::size_t i) { return is(i, {"="}) && !is(i - 1, {"=", "~", "<", ">"}); };
    std::vector<std::size_t> open;  // the brackets around a token
    std::vector<std::size_t> read;  // names that stand where a value is given
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (is(i, {"(", "{", "["})) open.push_back(i);
        if (is(i, {")", "}", "]"}) && !open.empty()) open.pop_back();
        if (tokens[i].kind != Token::name || is_keyword(word(i))) continue;
        if (open.empty() && (is(i + 1, {","}) || (is_equal_sign(i + 1) && !is(i + 2, {"="})))) given.emplace(word(i));
        const bool value = is_equal_sign(i - 1) || is(i - 1, {"(", ",", "{", "return"});
        const bool taken = is(i + 1, {")", ",", "}", ";", ""}) || starts_line(tokens, i + 1, source);
        const bool asked =
            !open.empty() && is(open.back() - 1, {"type", "assert", "print", "display", "tostring", "if", "while"});
        if (i > 0 && value && taken && !asked) read.push_back(i);
        const bool beside =
            is(i + 1, operators) || (i > 0 && is(i - 1, operators) && !is(i + 1, {"(", ".", ":", "[", "{"}));
        if (operands && beside && !(i > 0 && is(i - 1, {".", ":"}))) read.push_back(i);
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (is(i, {"function", "local", "for", "repeat", "goto"})) return {};
    }
    std::vector<Undefined> found;
    std::set<std::string> seen;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, assigned_key);
    for (const std::size_t i : read) {
        const std::string name(word(i));
        lua_getfield(L, -1, name.c_str());
        const bool assigned = !lua_isnil(L, -1);
        lua_pop(L, 1);
        if (assigned || given.count(name) != 0 || is_known(L, name) || !seen.insert(name).second) continue;
        const bool option =
            is(i - 1, {"="}) && is(i - 3, {"{", ","}) && is(i + 1, {",", "}"}) && constant_like(name).empty();
        found.push_back({name, option ? std::string(word(i - 2)) : ""});
    }
    lua_pop(L, 1);
    return found;
}

// "q is not defined", and of a word that was to be the value of an option what to type.
std::string told_undefined(lua_State* L, const Undefined& found, const std::string& so) {
    const std::string meant =
        found.option.empty() ? meant_by(L, found.name) : "a word stands in quotes: \"" + found.name + "\"";
    return found.name + " is not defined" + so + (meant.empty() ? "" : " (" + meant + ")");
}

// The first undefined name of the source that runs, where a message says that nothing came; "" elsewhere.
std::string hint_on_undefined(lua_State* L, const std::string& message) {
    const bool nothing = message.find("nothing") != std::string::npos || message.find("missing") != std::string::npos ||
                         message.find("got no value") != std::string::npos ||
                         message.find("got nil") != std::string::npos;
    if (!nothing) return "";
    std::set<std::string> given;
    const std::vector<Undefined> found = undefined_names(L, source_of(L), given, true);
    return found.empty() ? "" : told_undefined(L, found.front(), "");
}

}  // namespace

std::vector<std::string> notes_on_constants(const std::string& source) {
    const auto tokens = tokenize_without_comments(source);
    const auto word = [&](std::size_t i) { return i < tokens.size() ? tokens[i].text(source) : std::string_view{}; };
    std::vector<std::string> notes;
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i].kind == Token::name && !constant_like(word(i)).empty() && word(i + 1) == "=" &&
            word(i + 2) != "=")
            seen.insert(word(i));  // a name of the script's own
    }
    for (std::size_t i = 1; i < tokens.size(); ++i) {
        const std::string meant = tokens[i].kind == Token::name ? constant_like(word(i)) : "";
        const bool value = word(i - 1) == "=" || word(i - 1) == "(" || word(i - 1) == "," || word(i - 1) == "return";
        if (meant.empty() || meant == "nil" || !value || !seen.insert(word(i)).second) continue;
        notes.push_back(sentence(word(i), " is not defined, so it is nil (did you mean \"", meant, "\"?)"));
    }
    return notes;
}

std::vector<std::string> notes_on_undefined_names(lua_State* L, const std::string& source) {
    std::set<std::string> given;
    std::vector<std::string> notes;
    for (const Undefined& found : undefined_names(L, source, given, false)) {
        const std::string what = found.option.empty() ? "it is nil here" : found.option + " is not given";
        notes.push_back(told_undefined(L, found, ", so " + what));
    }
    luaL_getsubtable(L, LUA_REGISTRYINDEX, assigned_key);
    for (const std::string& name : given) {
        lua_pushboolean(L, true);
        lua_setfield(L, -2, name.c_str());
    }
    lua_pop(L, 1);
    return notes;
}

namespace {

// A source as words, with the place of the bracket that each closing one closes.
struct Words {
    Words(const std::string& text) : source(text), tokens(tokenize_without_comments(text)), opens(tokens.size()) {
        std::vector<std::size_t> open;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            const std::string_view word = (*this)[i];
            if (word == "(" || word == "{" || word == "[") open.push_back(i);
            if (word != ")" && word != "}" && word != "]") continue;
            opens[i] = open.empty() ? none : open.back();
            if (!open.empty()) open.pop_back();
        }
    }

    // Nothing where there is none: before the first too, where counting back has gone round.
    std::string_view operator[](std::size_t i) const {
        return i < tokens.size() ? tokens[i].text(source) : std::string_view{};
    }
    bool is_name(std::size_t i) const {
        return i < tokens.size() && tokens[i].kind == Token::name && !is_keyword((*this)[i]);
    }
    // Where the expression begins that ends with the token at `last`, of names, fields, calls and brackets; `none` for
    // another.
    std::size_t begin_of(std::size_t last) const {
        for (std::size_t i = last;;) {
            if ((*this)[i] == ")" || (*this)[i] == "]") {
                const std::size_t open = opens[i];
                if (open == none) return none;
                const bool of_a_value = is_name(open - 1) || (*this)[open - 1] == ")" || (*this)[open - 1] == "]";
                if (!of_a_value) return (*this)[i] == ")" ? open : none;
                i = open - 1;
            } else if (!is_name(i)) {
                return none;
            } else if ((*this)[i - 1] == "." || (*this)[i - 1] == ":") {
                i -= 2;
            } else {
                return i;
            }
        }
    }

    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    const std::string& source;
    std::vector<Token> tokens;
    std::vector<std::size_t> opens;
};

// Whether `size` is the library's, in the session and in the source.
bool size_is_the_librarys(lua_State* L, const Words& words) {
    for (std::size_t i = 0; i < words.tokens.size(); ++i) {
        const bool made = words[i - 1] == "function" || words[i - 1] == "local" ||
                          (words[i + 1] == "=" && words[i + 2] != "=" && words[i - 1] != ".");
        if (words[i] == "size" && made) return false;
    }
    push_causeway(L);
    lua_getfield(L, -1, "size");
    lua_getglobal(L, "size");
    const bool same = lua_rawequal(L, -1, -2) != 0;
    lua_pop(L, 3);
    return same;
}

}  // namespace

std::vector<std::string> notes_on_places(lua_State* L, const std::string& source) {
    const Words words(source);
    for (std::size_t i = 0; i < words.tokens.size(); ++i) {
        push_global(L, words[i]);
        const bool text = words.is_name(i) && lua_type(L, -1) == LUA_TSTRING;
        lua_pop(L, 1);
        if (text && words[i - 1] != "." && words[i + 1] == "[")
            return {"a character of a text is " + std::string(words[i]) + ":sub(1, 1), a part of it " +
                    std::string(words[i]) + ":sub(2, 5)"};
        const bool place = words.is_name(i) && words[i - 1] != "." && words[i + 1] == "[";
        const bool first = place && words[i + 2] == "0" && words[i + 3] == "]" && words[i + 4] != "=";
        const bool last =
            place && words[i + 2] == "-" && words[i + 3] == "1" && words[i + 4] == "]" && words[i + 5] != "=";
        if (!first && !last) continue;
        const std::string name(words[i]);
        bool list = false;
        push_global(L, name);
        if (lua_istable(L, -1) && lua_rawlen(L, -1) > 0) {
            list = lua_rawgeti(L, -1, first ? 0 : -1) == LUA_TNIL;
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
        if (list && last) return {"the last of " + name + " is " + name + "[#" + name + "]"};
        if (list) return {"lists count from 1: " + name + "[1] is the first of " + name};
    }
    return {};
}

std::vector<std::string> notes_on_types(lua_State* L, const std::string& source) {
    const Words words(source);
    const bool asks = words[0] == "type" && words[1] == "(" && words.is_name(2) && words[3] == ")" &&
                      (words[4].empty() || words[4] == ";");
    if (!asks) return {};
    const std::string name(words[2]);
    push_global(L, name);
    const bool tensor = is_tensor(L, -1);
    lua_pop(L, 1);
    if (!tensor) return {};
    return {"to Lua every tensor is userdata: eltype(" + name + ") is the type of its elements"};
}

std::vector<std::string> notes_on_cut_sizes(lua_State* L, const std::string& source) {
    const Words words(source);
    struct Bracket {
        std::size_t at;
        bool commas;
    };
    std::vector<Bracket> open;
    bool in_for = false;  // between `for` and its `do`
    for (std::size_t i = 0; i < words.tokens.size(); ++i) {
        const std::string_view token = words[i];
        if (token == "for" || token == "do") in_for = token == "for";
        if (token == "," && !open.empty()) open.back().commas = true;
        if (token == "(" || token == "{" || token == "[") open.push_back({i, false});
        if ((token != ")" && token != "}" && token != "]") || open.empty()) continue;
        const Bracket closed = open.back();
        open.pop_back();
        const std::size_t name = closed.at - 1;
        const bool method = words[name - 1] == ":";
        const bool all = token == ")" && words[name] == "size" && !closed.commas && method == (closed.at + 1 == i);
        const auto outer = open.empty() ? std::string_view{} : words[open.back().at - 1];
        const bool shown =
            open.empty() ? !in_for : words[open.back().at] == "{" || outer == "print" || outer == "display";
        if (!all || words[i + 1] != "," || !shown) continue;
        if (!method && (words[name - 1] == "." || !size_is_the_librarys(L, words))) continue;
        const std::size_t first = method ? words.begin_of(name - 2) : name;
        if (first == Words::none) continue;
        const std::size_t begin = words.tokens[first].begin;
        const std::string call = source.substr(begin, words.tokens[i].end - begin);
        return {"a comma behind " + call + " leaves the first size alone: {" + call + "} has all of them"};
    }
    return {};
}

namespace {

// Whether the global of this name is a tensor of so many dimensions or more.
bool is_tensor_of(lua_State* L, std::string_view name, Index dimensions) {
    push_global(L, name);
    const bool found = is_tensor(L, -1) && check_tensor(L, -1, "A").ndim() >= dimensions;
    lua_pop(L, 1);
    return found;
}

// A tensor beside == or ~= and a number or a constant, which never are equal: `x == 2`.
std::string note_on_equality(lua_State* L, const Words& words) {
    for (std::size_t i = 1; i < words.tokens.size(); ++i) {
        const bool equal = words[i] == "==",
                   behind = words[i + 2].empty() || words[i + 2] == ")" || words[i + 2] == ";";
        if (!equal && words[i] != "~=") continue;
        const bool number = i + 1 < words.tokens.size() && words.tokens[i + 1].kind == Token::number;
        if (!number || !behind || !words.is_name(i - 1) || words[i - 2] == "." || words[i - 2] == ":" ||
            words[i - 2] == "#")
            continue;
        if (!is_tensor_of(L, words[i - 1], 0)) continue;
        return "a tensor is never equal to a number: " + std::string(equal ? "eq(" : "ne(") +
               std::string(words[i - 1]) + ", " + std::string(words[i + 1]) + ") compares element by element";
    }
    return "";
}

// Whether the token at `last` ends a tensor's name, or a call of a function of the library's.
bool ends_tensor(lua_State* L, const Words& words, std::size_t last) {
    if (words.is_name(last)) return words[last - 1] != "." && is_tensor_of(L, words[last], 1);
    if (words[last] != ")" || words.opens[last] == Words::none || !words.is_name(words.opens[last] - 1)) return false;
    push_causeway(L);
    push_text(L, words[words.opens[last] - 1]);
    const bool known = lua_rawget(L, -2) == LUA_TFUNCTION;
    lua_pop(L, 2);
    return known;
}

// A tensor that is read from a place to the one before it, which has no elements: x({2, 1}).
std::string note_on_empty_range(lua_State* L, const Words& words) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < words.tokens.size(); ++i) {
        const std::string_view token = words[i];
        if ((token == ")" || token == "}" || token == "]") && !open.empty()) open.pop_back();
        const bool whole = token == "{" && words[i + 2] == "," && words[i + 4] == "}" && !open.empty() &&
                           words[open.back()] == "(" && ends_tensor(L, words, open.back() - 1);
        if (whole) {
            const std::string from(words[i + 1]), to(words[i + 3]);
            const long first = std::strtol(from.c_str(), nullptr, 10), last = std::strtol(to.c_str(), nullptr, 10);
            if (last > 0 && last == first - 1 && from == std::to_string(first) && to == std::to_string(last))
                return "{" + from + ", " + to + "} is the empty range: backwards it is {range(" + from + ", " + to +
                       ", {step = -1})}";
        }
        if (token == "(" || token == "{" || token == "[") open.push_back(i);
    }
    return "";
}

}  // namespace

std::vector<std::string> notes_on_results(lua_State* L, const std::string& source) {
    const Words words(source);
    if (std::string note = note_on_equality(L, words); !note.empty()) return {std::move(note)};
    if (std::string note = note_on_empty_range(L, words); !note.empty()) return {std::move(note)};
    for (std::size_t i = 0; i < words.tokens.size(); ++i) {
        if (words[i] != "=" || !words.is_name(i - 1)) continue;
        const bool begins = i == 1 || words[i - 2] == ";", two = words[i - 2] == "," && words.is_name(i - 3);
        const std::string name(words[i - 1]);
        const bool plain = begins && words[i + 1] == "size" && words[i + 2] == "(" && words[i + 4] == ")";
        const bool method = begins && words[i + 2] == ":" && words[i + 3] == "size" && words[i + 5] == ")";
        const std::size_t tensor = method ? i + 1 : i + 3, behind = method ? i + 6 : i + 5;
        const bool alone = words[behind].empty() || words[behind] == ";";
        if ((plain || method) && alone && is_tensor_of(L, words[tensor], 2) && size_is_the_librarys(L, words)) {
            const std::string call =
                source.substr(words.tokens[i + 1].begin, words.tokens[behind - 1].end - words.tokens[i + 1].begin);
            return {name + " is the first size alone: " + name + " = {" + call + "} has all of them"};
        }
        const std::string_view before = two ? words[i - 3] : std::string_view{};
        const bool value = before == "value" || before == "val" || before == "loss" || before == "y";
        if (value && words[i + 1] == "grad" && words[i + 2] == "(")
            return {"the gradient comes first: " + name + ", " + std::string(before) +
                    " = grad(...), so they are swapped here"};
        const bool largest = words[i + 1] == "maximum" || words[i + 1] == "minimum";
        if (!two || !largest || words[i + 2] != "(" || !words.is_name(i + 3) || words[i + 4] != ",") continue;
        const std::string extreme(words[i + 1]), places = extreme == "maximum" ? "argmax" : "argmin";
        const std::string tensor_name(words[i + 3]), dimension(words[i + 5]);
        return {extreme + " has one value, and " + name + " is nil: " + name + " = " + places + "(" + tensor_name +
                ", " + dimension + ") has the places"};
    }
    return {};
}

std::vector<std::string> notes_on_hidden_names(lua_State* L, std::set<std::string>& known) {
    std::vector<std::string> notes;
    luaL_checkstack(L, 8, "no room for the names");
    lua_pushglobaltable(L);
    const int globals = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, globals); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) continue;
        const std::string name = lua_tostring(L, -2);
        const int key = lua_absindex(L, -2), value = lua_absindex(L, -1);
        lua_getfield(L, LUA_REGISTRYINDEX, first_globals_key);
        const Holds first = holds(L, key, value);
        push_causeway(L);
        const Holds library = holds(L, key, value);
        lua_pop(L, 2);
        const bool hides = first == Holds::other || (first == Holds::nothing && library == Holds::other);
        const bool usual = name.size() == 1;  // `t` is what everybody calls a time, and A:t() the transpose
        if (!hides || usual || name[0] == '_' || !known.insert(name).second) continue;
        if (library == Holds::nothing)
            notes.push_back("note: this is yours now; the shell's own " + name + " is back in a new shell");
        else notes.push_back("note: this is yours now; the library's is causeway." + name);
    }
    lua_getfield(L, LUA_REGISTRYINDEX, first_globals_key);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) continue;
        const std::string name = lua_tostring(L, -2);
        push_text(L, name);
        const bool gone = lua_rawget(L, globals) == LUA_TNIL;
        lua_pop(L, 1);
        if (!gone || name[0] == '_' || is_known(L, name) || !known.insert(name).second) continue;
        notes.push_back("note: this is nil now; the shell's own " + name + " is back in a new shell");
    }
    lua_pop(L, 2);
    std::sort(notes.begin(), notes.end());
    return notes;
}

}  // namespace causeway::lua
