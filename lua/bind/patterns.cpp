// find, match, gmatch and gsub of Lua's table `string`, on a matcher that looks now and then whether it is to stop: a
// pattern such as ("a?"):rep(40) .. ("a"):rep(40) may go on for years, and Lua's own matcher cannot be interrupted.
// What they do, and every error, is as in Lua 5.4 (manual, section 6.4.1); tests/lua/bind/patterns_test.cpp compares
// both.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

#include "core/base/interrupt.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

constexpr int most_captures = 32, deepest_match = 200;  // Lua's own limits
constexpr int steps_between_looks = 1 << 14;
constexpr std::size_t characters_between_looks = 1 << 22;  // of a plain text, compared many at once

// Whether c is in the class %NAME; for a NAME that is no letter of a class, whether it is that character.
bool in_class(unsigned char c, unsigned char name) {
    bool in = false;
    switch (std::tolower(name)) {
        case 'a': in = std::isalpha(c) != 0; break;
        case 'c': in = std::iscntrl(c) != 0; break;
        case 'd': in = std::isdigit(c) != 0; break;
        case 'g': in = std::isgraph(c) != 0; break;
        case 'l': in = std::islower(c) != 0; break;
        case 'p': in = std::ispunct(c) != 0; break;
        case 's': in = std::isspace(c) != 0; break;
        case 'u': in = std::isupper(c) != 0; break;
        case 'w': in = std::isalnum(c) != 0; break;
        case 'x': in = std::isxdigit(c) != 0; break;
        case 'z': in = c == 0; break;  // as Lua 5.1 had it
        default: return name == c;
    }
    return in != (std::isupper(name) != 0);
}

// Whether c is in the set from its '[' at `p` to its ']' at `last`.
bool in_set(unsigned char c, const char* p, const char* last) {
    const auto byte = [](const char* at) { return static_cast<unsigned char>(*at); };
    bool wanted = true;
    if (*++p == '^') wanted = false, ++p;
    for (; p < last; ++p) {
        if (*p == '%') {
            if (in_class(c, byte(++p))) return wanted;
        } else if (p[1] == '-' && p + 2 < last) {
            if (byte(p) <= c && c <= byte(p + 2)) return wanted;
            p += 2;
        } else if (byte(p) == c) {
            return wanted;
        }
    }
    return !wanted;
}

// A pattern on a subject. Both are strings of Lua, behind which stands a 0.
class Matcher {
public:
    Matcher(lua_State* L, std::string_view subject, std::string_view pattern)
        : L_(L), begin_(subject.data()), end_(begin_ + subject.size()), pattern_end_(pattern.data() + pattern.size()) {}

    // Where the match of the pattern from `p` on that starts at `s` ends, or null.
    const char* match(const char* s, const char* p) {
        captures_ = depth_ = 0;
        return run(s, p);
    }

    // Pushes capture i, counted from 0; without captures the first one is the whole match, from s to e.
    void push_capture(int i, const char* s, const char* e) const {
        if (i >= captures_) {
            if (i != 0) luaL_error(L_, "invalid capture index %%%d", i + 1);
            lua_pushlstring(L_, s, static_cast<std::size_t>(e - s));
            return;
        }
        const Capture& capture = capture_[static_cast<std::size_t>(i)];
        if (capture.length == open) luaL_error(L_, "unfinished capture");
        if (capture.length == position) lua_pushinteger(L_, capture.begin - begin_ + 1);
        else lua_pushlstring(L_, capture.begin, static_cast<std::size_t>(capture.length));
    }

    // Pushes all captures, or the match from s to e where there are none and s is given. Returns their number.
    int push_captures(const char* s, const char* e) const {
        const int n = captures_ == 0 && s ? 1 : captures_;
        luaL_checkstack(L_, n, "too many captures");
        for (int i = 0; i < n; ++i) push_capture(i, s, e);
        return n;
    }

private:
    static constexpr std::ptrdiff_t open = -1, position = -2;
    struct Capture {
        const char* begin;
        std::ptrdiff_t length;  // or one of the two above
    };

    void step() {
        if (--steps_left_ > 0) return;
        steps_left_ = steps_between_looks;
        interrupt::check();
    }

    const char* run(const char* s, const char* p) {
        if (depth_++ == deepest_match) luaL_error(L_, "pattern too complex");
        const char* const e = follow(s, p);
        --depth_;
        return e;
    }

    // Goes through the items of the pattern as long as there is one way to go on.
    const char* follow(const char* s, const char* p) {
        while (p != pattern_end_) {
            step();
            if (*p == '(') return p[1] == ')' ? capture(s, p + 2, position) : capture(s, p + 1, open);
            if (*p == ')') return end_capture(s, p + 1);
            if (*p == '$' && p + 1 == pattern_end_) return s == end_ ? s : nullptr;
            if (*p == '%' && p[1] == 'b') {
                if (!(s = balanced(s, p + 2))) return nullptr;
                p += 4;
            } else if (*p == '%' && p[1] == 'f') {
                const char* const set = p + 2;
                if (*set != '[') luaL_error(L_, "missing '[' after '%%f' in pattern");
                p = item_end(set);
                const auto before = static_cast<unsigned char>(s == begin_ ? '\0' : s[-1]);
                if (in_set(before, set, p - 1) || !in_set(static_cast<unsigned char>(*s), set, p - 1)) return nullptr;
            } else if (*p == '%' && std::isdigit(static_cast<unsigned char>(p[1])) != 0) {
                if (!(s = captured_again(s, p[1]))) return nullptr;
                p += 2;
            } else {
                const char* const next = item_end(p);
                const char count = next == pattern_end_ ? '\0' : *next;
                const bool optional = count == '*' || count == '?' || count == '-';
                if (!fits(s, p, next)) {
                    if (!optional) return nullptr;
                    p = next + 1;
                } else if (count == '?') {
                    if (const char* const e = run(s + 1, next + 1)) return e;
                    p = next + 1;
                } else if (count == '*' || count == '+') {
                    return longest(s, p, next, count == '+' ? 1 : 0);
                } else if (count == '-') {
                    return shortest(s, p, next);
                } else {
                    ++s;
                    p = next;
                }
            }
        }
        return s;
    }

    // Behind the item of one character at p: x, %x or [set].
    const char* item_end(const char* p) const {
        if (*p == '%') {
            if (p + 1 == pattern_end_) luaL_error(L_, "malformed pattern (ends with '%%')");
            return p + 2;
        }
        if (*p != '[') return p + 1;
        if (*++p == '^') ++p;
        do {  // a ']' that comes first is an element
            if (p == pattern_end_) luaL_error(L_, "malformed pattern (missing ']')");
            if (*p++ == '%' && p < pattern_end_) ++p;
        } while (p == pattern_end_ || *p != ']');
        return p + 1;
    }

    // Whether the character at s is the item at p, which ends at `next`.
    bool fits(const char* s, const char* p, const char* next) {
        step();
        if (s >= end_) return false;
        const auto c = static_cast<unsigned char>(*s);
        if (*p == '.') return true;
        if (*p == '%') return in_class(c, static_cast<unsigned char>(p[1]));
        if (*p == '[') return in_set(c, p, next - 1);
        return *p == *s;
    }

    // As many of the item as there are, then fewer, at least `least`.
    const char* longest(const char* s, const char* p, const char* next, std::ptrdiff_t least) {
        std::ptrdiff_t n = 0;
        while (fits(s + n, p, next)) ++n;
        for (; n >= least; --n) {
            if (const char* const e = run(s + n, next + 1)) return e;
        }
        return nullptr;
    }

    // As few of the item as will do.
    const char* shortest(const char* s, const char* p, const char* next) {
        while (true) {
            if (const char* const e = run(s, next + 1)) return e;
            if (!fits(s, p, next)) return nullptr;
            ++s;
        }
    }

    const char* capture(const char* s, const char* p, std::ptrdiff_t kind) {
        if (captures_ >= most_captures) luaL_error(L_, "too many captures");
        capture_[static_cast<std::size_t>(captures_++)] = {s, kind};
        const char* const e = run(s, p);
        if (!e) --captures_;
        return e;
    }

    const char* end_capture(const char* s, const char* p) {
        int i = captures_ - 1;
        while (i >= 0 && capture_[static_cast<std::size_t>(i)].length != open) --i;
        if (i < 0) luaL_error(L_, "invalid pattern capture");
        Capture& ended = capture_[static_cast<std::size_t>(i)];
        ended.length = s - ended.begin;
        const char* const e = run(s, p);
        if (!e) ended.length = open;
        return e;
    }

    // %bxy
    const char* balanced(const char* s, const char* p) {
        if (p + 1 >= pattern_end_) luaL_error(L_, "malformed pattern (missing arguments to '%%b')");
        if (s >= end_ || *s != p[0]) return nullptr;
        std::ptrdiff_t opened = 1;
        for (++s; s < end_; ++s) {
            step();
            if (*s == p[1]) {
                if (--opened == 0) return s + 1;
            } else if (*s == p[0]) {
                ++opened;
            }
        }
        return nullptr;
    }

    // %1: what the capture holds, once more.
    const char* captured_again(const char* s, char digit) const {
        const int i = digit - '1';
        if (i < 0 || i >= captures_ || capture_[static_cast<std::size_t>(i)].length == open)
            luaL_error(L_, "invalid capture index %%%d", i + 1);
        const Capture& held = capture_[static_cast<std::size_t>(i)];
        const auto length = static_cast<std::size_t>(held.length);  // that of a position is more than there is
        if (static_cast<std::size_t>(end_ - s) < length || std::memcmp(held.begin, s, length) != 0) return nullptr;
        return s + length;
    }

    lua_State* L_;
    const char *begin_, *end_, *pattern_end_;
    std::array<Capture, most_captures> capture_;
    int captures_ = 0, depth_ = 0, steps_left_ = steps_between_looks;
};

std::string_view check_text(lua_State* L, int index) {
    std::size_t n = 0;
    const char* const text = luaL_checklstring(L, index, &n);
    return {text, n};
}

// Where a search starts, counted from 0: the argument counts from 1, or below 0 from the end. Behind the end where it
// is past that.
std::size_t start_of(lua_State* L, int index, std::size_t length) {
    const lua_Integer at = luaL_optinteger(L, index, 1), n = static_cast<lua_Integer>(length);
    if (at > 0) return static_cast<std::size_t>(std::min(at - 1, n + 1));
    return at == 0 || at < -n ? 0 : static_cast<std::size_t>(n + at);
}

// The first place of a plain text from `start` on, or npos; looks now and then whether it is to stop.
std::size_t place_of(std::string_view text, std::string_view subject, std::size_t start) {
    const std::size_t places =
        std::max<std::size_t>(1, characters_between_looks / std::max<std::size_t>(1, text.size()));
    for (; start + text.size() <= subject.size(); start += places) {
        const std::size_t at = subject.substr(start, places - 1 + text.size()).find(text);
        if (at != std::string_view::npos) return start + at;
        interrupt::check();
    }
    return std::string_view::npos;
}

int find_or_match(lua_State* L, bool find) {
    const std::string_view subject = check_text(L, 1), pattern = check_text(L, 2);
    const std::size_t start = start_of(L, 3, subject.size());
    if (start > subject.size()) return luaL_pushfail(L), 1;
    if (find && (lua_toboolean(L, 4) || pattern.find_first_of("^$*+?.([%-") == std::string_view::npos)) {
        const std::size_t at = place_of(pattern, subject, start);
        if (at == std::string_view::npos) return luaL_pushfail(L), 1;
        lua_pushinteger(L, static_cast<lua_Integer>(at + 1));
        lua_pushinteger(L, static_cast<lua_Integer>(at + pattern.size()));
        return 2;
    }
    const bool anchored = pattern.starts_with('^');
    Matcher matcher(L, subject, pattern);
    const char *const begin = subject.data(), *const end = begin + subject.size();
    const char* const p = pattern.data() + anchored;
    for (const char* s = begin + start; s <= end; ++s) {
        if (const char* const e = matcher.match(s, p)) {
            if (!find) return matcher.push_captures(s, e);
            lua_pushinteger(L, s - begin + 1);
            lua_pushinteger(L, e - begin);
            return matcher.push_captures(nullptr, nullptr) + 2;
        }
        if (anchored) break;
    }
    return luaL_pushfail(L), 1;
}

// find(s, pattern[, init[, plain]]) -> begin, end, captures ... of the first match, or nil
int find(lua_State* L) { return find_or_match(L, true); }

// match(s, pattern[, init]) -> captures of the first match, or nil
int match(lua_State* L) { return find_or_match(L, false); }

// Upvalues: subject, pattern, where to go on (from 0), where the last match ended (-1: none yet).
int next_match(lua_State* L) {
    const std::string_view subject = check_text(L, lua_upvalueindex(1)), pattern = check_text(L, lua_upvalueindex(2));
    const lua_Integer last = lua_tointeger(L, lua_upvalueindex(4));
    Matcher matcher(L, subject, pattern);
    const char *const begin = subject.data(), *const end = begin + subject.size();
    for (const char* s = begin + lua_tointeger(L, lua_upvalueindex(3)); s <= end; ++s) {
        const char* const e = matcher.match(s, pattern.data());
        if (!e || e - begin == last) continue;
        for (const int kept : {3, 4}) {
            lua_pushinteger(L, e - begin);
            lua_replace(L, lua_upvalueindex(kept));
        }
        return matcher.push_captures(s, e);
    }
    return 0;
}

// gmatch(s, pattern[, init]) -> a function that gives the captures of one match after another
int next_match_of(lua_State* L);
int gmatch(lua_State* L) {
    const std::string_view subject = check_text(L, 1);
    check_text(L, 2);
    const std::size_t start = start_of(L, 3, subject.size());
    lua_settop(L, 2);
    lua_pushinteger(L, static_cast<lua_Integer>(start));
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, next_match_of, 4);
    return 1;
}

// Appends to `out` what takes the place of a match from s to e, by the text, table or function at argument 3; false:
// it stays.
bool replace(lua_State* L, const Matcher& matcher, const char* s, const char* e, std::string& out) {
    const int type = lua_type(L, 3);
    if (type == LUA_TFUNCTION) {
        lua_pushvalue(L, 3);
        const int n = matcher.push_captures(s, e);
        lua_call(L, n, 1);
    } else if (type == LUA_TTABLE) {
        matcher.push_capture(0, s, e);
        lua_gettable(L, 3);
    } else {
        const std::string_view text = check_text(L, 3);
        for (std::size_t i = 0; i < text.size(); ++i) {
            const char sign = text[i] == '%' && i + 1 < text.size() ? text[i + 1] : '\0';
            if (text[i] != '%') {
                out += text[i];
                continue;
            }
            ++i;
            if (sign == '%') {
                out += '%';
            } else if (sign == '0') {
                out.append(s, e);
            } else if (std::isdigit(static_cast<unsigned char>(sign)) != 0) {
                matcher.push_capture(sign - '1', s, e);
                out += text_at(L, -1);
                lua_pop(L, 1);
            } else {
                luaL_error(L, "invalid use of '%%' in replacement string");
            }
        }
        return true;
    }
    const bool stays = !lua_toboolean(L, -1);
    if (!stays && !lua_isstring(L, -1)) luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    if (stays) out.append(s, e);
    else out += text_at(L, -1);
    lua_pop(L, 1);
    return !stays;
}

// gsub(s, pattern, replacement[, n]) -> the text with what takes the place of its matches, their number
int gsub(lua_State* L) {
    const std::string_view subject = check_text(L, 1), pattern = check_text(L, 2);
    const int type = lua_type(L, 3);
    luaL_argexpected(L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                     "string/function/table");
    const lua_Integer most = luaL_optinteger(L, 4, static_cast<lua_Integer>(subject.size()) + 1);
    const bool anchored = pattern.starts_with('^');
    Matcher matcher(L, subject, pattern);
    const char *s = subject.data(), *last = nullptr;
    const char *const end = s + subject.size(), *const p = pattern.data() + anchored;
    std::string out;
    lua_Integer n = 0;
    bool changed = false;
    while (n < most) {
        const char* const e = matcher.match(s, p);
        if (e && e != last) {
            ++n;
            changed = replace(L, matcher, s, e, out) || changed;
            s = last = e;
        } else if (s < end) {
            out += *s++;
        } else {
            break;
        }
        if (anchored) break;
    }
    if (changed) push_text(L, out.append(s, end));
    else lua_pushvalue(L, 1);
    lua_pushinteger(L, n);
    return 2;
}

// A C++ exception as a Lua error. Not guarded, which may call twice: gsub calls functions of the user's.
template <int (*F)(lua_State*)>
int stoppable(lua_State* L) {
    Told told;
    try {
        return F(L);
    } catch (const std::exception& error) {
        told = told_of(L, error);
    }
    raise(L, told.message, told.kind);
}

int next_match_of(lua_State* L) { return stoppable<next_match>(L); }

}  // namespace

void open_patterns(lua_State* L) {
    lua_getglobal(L, "string");
    for (const Entry& entry : {Entry{"find", stoppable<find>}, Entry{"match", stoppable<match>},
                               Entry{"gmatch", stoppable<gmatch>}, Entry{"gsub", stoppable<gsub>}})
        set_function(L, entry);
    lua_pop(L, 1);
}

}  // namespace causeway::lua
