// What an entry at the prompt means: expressions whose value is shown, statements, and the prefixes ? and ;, macros
// such as @time. Knows of no terminal beyond the Display; -e and a notebook evaluate with it as well.
#pragma once

#include <string>
#include <string_view>

#include "lua/shell/script.hpp"

namespace causeway::lua {

// Whether an entry goes on, told line by line: only the piece that is not complete yet is kept and looked at again, so
// that a long function which is pasted costs as many compilations as it has lines.
class EntryReader {
public:
    explicit EntryReader(lua_State* L) : L_(L) {}

    // True where the entry with these lines at its end is the beginning of something longer.
    bool wants_more_after(const std::string& lines);

    // The lines of that beginning so far; "" where none are open.
    const std::string& open_lines() const { return piece_; }

private:
    lua_State* L_;
    std::string piece_;
};

// Whether an entry can be evaluated: `incomplete` is the beginning of something longer, `invalid` is no Lua.
enum class Completeness { complete, incomplete, invalid };
Completeness completeness(lua_State* L, const std::string& entry);

// Evaluates an entry of one or more lines and shows its values; `ans` becomes the last of them.
// Several lines are taken as if they were typed one after the other, except that they share their locals.
// `name` is what error messages call the entry: `input[3]`. Throws nothing.
Failure evaluate(lua_State* L, const std::string& entry, const std::string& name);

}  // namespace causeway::lua
