// Lua values as JSON text and back.
//
//   Lua                       JSON
//   true, false               true, false
//   integer, float            3, 3.0 (a float keeps its point, so that it comes back as a float)
//   NaN, Inf, -Inf            {"$numberDouble": "NaN"}, "Infinity", "-Infinity", which read back as the numbers: JSON
//   has no
//                             place for them, and the strings "NaN" and "Inf" are strings (MongoDB Extended JSON v2)
//   string                    string; bytes that are not UTF-8 become U+FFFD, in names they are refused
//   table 1, 2, ..., n        array; so does an empty table
//   table with names          object, names sorted
//   Tensor                    nested arrays, a number without dimensions
//   causeway.json_null        null, which in an object reads back as nil and in an array, to keep places, as json_null
#pragma once

#include <string>
#include <string_view>

struct lua_State;

namespace causeway::lua {

// Text of the value at `index`: one line, or, with `lines`, one for each element of a table that holds tables. O(size).
// Throws Error, starting with `where`, for what has no JSON (functions, tables with holes, with names beside positions
// or that contain themselves), for nesting deeper than 200 and for more than 1 GiB of text.
std::string encode_json(lua_State* L, int index, const std::string& where, bool lines);

// Pushes the value. Throws Error, starting with `where`, for text that is not JSON and nesting deeper than 200: an
// IoError where the text is that of a file (of_file).
void push_json(lua_State* L, std::string_view text, const std::string& where, bool of_file);

// Adds json_encode, json_decode and json_null to `causeway`.
void open_json(lua_State* L);

}  // namespace causeway::lua
