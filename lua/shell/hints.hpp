// A line of help for code that is not Lua where it is what Julia or Python would have.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace causeway::lua {

// Name of a variable -> the kind of value that it holds, "table", "string", "Tensor" ..., "" where it holds none.
using KindOf = std::function<std::string(std::string_view)>;

// `message` is what Lua's compiler says of `source`: "input[1]:2: ']' expected near ','". Returns "hint: ...", in
// at most 80 columns but where it repeats a call of the source's, if that has a habit there that is known, else "".
// With kind_of it says of l[1:2] what l is: a list, a text or a tensor. Plain C++.
std::string syntax_hint(std::string_view source, std::string_view message, const KindOf& kind_of = {});

// The same of a script: where the line that Lua stops at, or the one before it, is an expression, the hint is that only
// the prompt shows values. `compiles` tells whether a text is Lua.
std::string script_hint(std::string_view source, std::string_view message,
                        const std::function<bool(const std::string&)>& compiles);

// Whether the source has an `else if`, which Lua takes for a condition with an end of its own.
bool has_else_if(std::string_view source);

// The hint on a source with one that ends too early, as the message says; "" for another.
std::string else_if_hint(std::string_view source, std::string_view message);

// Whether the source has a list of lists of numbers as Python writes it, [[1, 2], [3, 4]], which is a text to Lua.
bool has_list_in_long_brackets(std::string_view source);

}  // namespace causeway::lua
