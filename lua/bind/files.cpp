// load and save: a file's extension says its format.
//
//   .npy           one Tensor                                  core/tensor/npy.hpp
//   .npz           a table of name -> Tensor, nested or not    core/tensor/npz.hpp
//   .safetensors   the same, and metadata                      core/tensor/safetensors.hpp
//   .csv           an array of rows, each column -> value      core/base/csv.hpp
//   .json          tables, strings, numbers, booleans          lua/bind/json.hpp
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "core/base/csv.hpp"
#include "core/base/file.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"
#include "core/sharded/files.hpp"
#include "core/tensor/npy.hpp"
#include "core/tensor/npz.hpp"
#include "core/tensor/safetensors.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/json.hpp"
#include "lua/bind/notes.hpp"

namespace causeway::lua {
namespace {

constexpr std::size_t page = 1u << 20;  // bytes of text gathered before they are written
constexpr const char *loads = "causeway.loads", *saves = "causeway.saves";
constexpr const char* known_formats = ".npy, .npz, .safetensors, .csv or .json";

// ".npy" of "a/b.NPY"; "" where there is none.
std::string extension_of(const std::string& path) {
    const std::size_t dot = path.find_last_of("./");
    if (dot == std::string::npos || path[dot] == '/') return "";
    return in_lower_case(path.substr(dot));
}

bool is_known(const std::string& extension) {
    return extension == ".npy" || extension == ".npz" || extension == ".safetensors" || extension == ".csv" ||
           extension == ".json";
}

bool exists(const std::string& path) {
    struct stat info {};
    return path.find('\0') == std::string::npos && ::stat(path.c_str(), &info) == 0;
}

// -- .npy, .npz and .safetensors ---------------------------------------------------------------------------------

using Named = std::map<std::string, Tensor>;

// "layers.12.w" -> "layers", "12", "w"
std::vector<std::string> parts_of(const std::string& name) {
    std::vector<std::string> parts{""};
    for (const char c : name) {
        if (c == '.') parts.emplace_back();
        else parts.back() += c;
    }
    return parts;
}

// A part of a name as the key that it was: "12" is a position, "012" and "w" are names.
void push_key(lua_State* L, const std::string& part) {
    const bool digits = std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); });
    if (digits && !part.empty() && part[0] != '0' && part.size() < 10) lua_pushinteger(L, std::stoll(part));
    else push_text(L, part);
}

// Tables in one another, as save took them apart.
void push_nested(lua_State* L, Named&& tensors) {
    lua_newtable(L);
    const int all = lua_gettop(L);
    for (auto& [name, tensor] : tensors) {
        const auto refuse = [&name = name] {
            fail("load: nested: ", in_quotes(name),
                 " stands below the name of another tensor, expected nested = false");
        };
        const std::vector<std::string> parts = parts_of(name);
        lua_pushvalue(L, all);
        for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
            push_key(L, parts[i]);
            lua_pushvalue(L, -1);
            const int found = lua_rawget(L, -3);
            if (found == LUA_TNIL) {
                lua_pop(L, 1);
                lua_newtable(L);
                lua_pushvalue(L, -2);
                lua_pushvalue(L, -2);
                lua_rawset(L, -5);
            } else if (found != LUA_TTABLE) {
                refuse();
            }
            lua_replace(L, -3);
            lua_pop(L, 1);
        }
        push_key(L, parts.back());
        lua_pushvalue(L, -1);
        if (lua_rawget(L, -3) != LUA_TNIL) refuse();
        lua_pop(L, 1);
        push(L, std::move(tensor));
        lua_rawset(L, -3);
        lua_settop(L, all);
    }
}

void push_named(lua_State* L, Named&& tensors, bool nested) {
    if (nested) return push_nested(L, std::move(tensors));
    lua_createtable(L, 0, static_cast<int>(std::min<std::size_t>(tensors.size(), 1u << 20)));
    for (auto& [name, tensor] : tensors) {
        push_text(L, name);
        push(L, std::move(tensor));
        lua_rawset(L, -3);
    }
}

// Says which arrays of a file are not among what was loaded: the first ones with the reason, and how many others. Each
// sentence begins with the path.
void tell_left_out(lua_State* L, const std::string& path, const std::vector<std::string>& sentences) {
    constexpr std::size_t most_told = 3;
    if (sentences.empty()) return;
    std::string text = "left out of " + path + ":";
    for (std::size_t i = 0; i < std::min(sentences.size(), most_told); ++i) {
        const std::string& whole = sentences[i];
        text += "\n" + (whole.starts_with(path + ": ") ? whole.substr(path.size() + 2) : whole);
    }
    const std::size_t others = sentences.size() - std::min(sentences.size(), most_told);
    if (others > 0) text += sentence("\n(and ", others, others == 1 ? " other)" : " others)");
    push_causeway(L);
    lua_getfield(L, -1, "_note");
    push_text(L, text);
    lua_call(L, 1, 0);
    lua_pop(L, 1);
}

int load_archive(lua_State* L, const std::string& path, bool nested) {
    std::vector<std::string> left_out;
    Named loaded = load_npz(path, &left_out);
    tell_left_out(L, path, left_out);
    push_named(L, std::move(loaded), nested);
    make_printable(L);
    return 1;
}

// The dimension that options call dim, counted from 1.
std::optional<int> dimension_option(const Options& options) {
    if (!options.has("dim")) return {};
    const Index dim = options.integer("dim", 1);
    if (dim < 1 || dim > Shape::max_ndim) fail("dim: ", dim, ", expected from 1 to ", Shape::max_ndim);
    return static_cast<int>(dim) - 1;
}

// What the options names and part ask for.
causeway::Wanted wanted_of(lua_State* L, const Options& options) {
    causeway::Wanted wanted;
    if (options.push("names") != LUA_TNIL) {
        wanted.names = check_strings(L, lua_gettop(L), "names");
        if (wanted.names.empty()) fail("names: an empty list, expected names of tensors");
    }
    if (options.push("part") != LUA_TNIL) {
        const std::string expected = "part: expected {from, to}, the first and the last position, got ";
        if (!lua_istable(L, -1)) fail(expected, "a ", type_name(L, -1));
        if (lua_rawlen(L, -1) != 2) fail(expected, "a list of ", lua_rawlen(L, -1));
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        const Index from = check_integer(L, -2, "part: from"), to = check_integer(L, -1, "part: to");
        lua_pop(L, 2);
        if (from < 1 || to < from - 1) fail("part: {", from, ", ", to, "}, expected {from, to} with 1 <= from <= to");
        const std::optional<int> dim = dimension_option(options);
        wanted.part = [=](const Shape& shape, const std::string&) {
            return TensorPart{dim.value_or(std::max(shape.ndim() - 2, 0)), from - 1, to - from + 1};
        };
    }
    lua_pop(L, 2);
    return wanted;
}

int load_tensors(lua_State* L, const std::string& path, const Options& options) {
    const bool nested = options.boolean("nested", false), sharded = options.boolean("sharded", false);
    const causeway::Wanted wanted = wanted_of(L, options);
    if (sharded && wanted.part) fail("part: given with sharded = true, expected one of them");
    if (options.has("dim") && !sharded && !wanted.part)
        fail("dim: given without part = {from, to} or sharded = true, expected with one of them");
    std::vector<std::string> left_out;
    NamedTensors loaded = sharded ? load_safetensors_sharded(path, wanted.names, dimension_option(options), &left_out)
                                  : load_safetensors(path, wanted, &left_out);
    tell_left_out(L, path, left_out);
    push_named(L, std::move(loaded.tensors), nested);
    make_printable(L);
    lua_newtable(L);
    for (const auto& [key, text] : loaded.metadata) {
        push_text(L, key);
        push_text(L, text);
        lua_rawset(L, -3);
    }
    make_printable(L);
    return 2;
}

constexpr std::size_t most_levels = 100;  // tables in one another

// Adds the tensors of the table at the top of the stack, their names behind `before`: {layers = {{w = A}}} is
// "layers.1.w". held: how an error about a key begins.
void add_named(lua_State* L, const std::string& held, const std::string& before, std::size_t depth, Named& out) {
    if (depth == most_levels) fail("save: tables are nested deeper than ", most_levels, ", or one contains itself");
    luaL_checkstack(L, 8, "too deep");
    const int table = lua_gettop(L);
    bool empty = true;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        empty = false;
        // A list of tensors has no names, a list of layers has some below.
        const bool position = (depth > 0 || lua_istable(L, -1)) && lua_isinteger(L, -2) && lua_tointeger(L, -2) > 0;
        if (lua_type(L, -2) != LUA_TSTRING && !position) fail(held, "the key ", luaL_tolstring(L, -2, nullptr));
        const std::string name = before + (position ? std::to_string(lua_tointeger(L, -2)) : text_at(L, -2));
        if (lua_istable(L, -1)) {
            add_named(L, held, name + ".", depth + 1, out);
            continue;
        }
        if (!is_tensor(L, -1)) fail("save: ", in_quotes(name), ": expected a Tensor, got a ", type_name(L, -1));
        if (!out.emplace(name, check_tensor(L, -1, "value")).second)
            fail("save: two tensors would be named ", in_quotes(name), ", expected names that stay apart");
    }
    if (empty && depth > 0)
        fail("save: ", in_quotes(before.substr(0, before.size() - 1)), ": an empty table, expected one with a Tensor");
}

// The table of name = Tensor, or of such tables, that a file of `extension` is to hold.
Named check_named(lua_State* L, int value, const std::string& extension) {
    const std::string held = "save: a " + extension + " file holds a table of name = Tensor, got ";
    if (is_tensor(L, value)) fail(held, "a Tensor (give it a name, as in {A = A}, or save it as .npy)");
    if (!lua_istable(L, value)) fail(held, "a ", type_name(L, value));
    Named out;
    lua_pushvalue(L, value);
    add_named(L, held, "", 0, out);
    lua_pop(L, 1);
    return out;
}

void save_tensors(lua_State* L, const std::string& path, int value, const Options& options) {
    NamedTensors out;
    out.tensors = check_named(L, value, ".safetensors");
    if (options.push("metadata") != LUA_TNIL) {
        if (!lua_istable(L, -1)) fail("save: metadata: expected a table of name = text, got a ", type_name(L, -1));
        const int metadata = lua_gettop(L);
        for (lua_pushnil(L); lua_next(L, metadata); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING)
                fail("save: metadata: expected a table of name = text, got the key ", luaL_tolstring(L, -2, nullptr));
            const std::string name = text_at(L, -2);
            if (lua_type(L, -1) != LUA_TSTRING)
                fail("save: metadata: ", in_quotes(name), ": expected text, got a ", type_name(L, -1));
            out.metadata.emplace(name, text_at(L, -1));
        }
    }
    lua_pop(L, 1);
    const bool sharded = options.boolean("sharded", false);
    if (options.has("dim") && !sharded) fail("dim: given without sharded = true, expected with it");
    if (sharded) save_safetensors_sharded(path, out, dimension_option(options));
    else save_safetensors(path, out);
}

// What PyTorch saves is a program for Python's unpickler: it is not run here, but what turns it into data is told.
// .bin and .ckpt are used for other things too; a zip archive or a pickle of protocol 2 is PyTorch's.
void refuse_pytorch(const std::string& path, const std::string& extension) {
    if (extension != ".pt" && extension != ".pth" && extension != ".bin" && extension != ".ckpt") return;
    if (extension == ".bin" || extension == ".ckpt") {
        const Source source(path);
        std::array<unsigned char, 4> start{};
        if (source.size() < start.size()) return;
        source.read(0, start);
        const bool zip = std::memcmp(start.data(), "PK\x03\x04", 4) == 0, pickle = start[0] == 0x80 && start[1] == 2;
        if (!zip && !pickle) return;
    }
    const std::string converted = path.substr(0, path.size() - extension.size()) + ".safetensors";
    const auto quoted = [](const std::string& text) {  // as Python writes a text
        std::string out = "'";
        for (const char c : text) (c == '\'' || c == '\\') ? (out += '\\') += c : out += c;
        return out + "'";
    };
    fail(path,
         ": is a file of PyTorch, which only Python can open; convert it there: import torch; from "
         "safetensors.torch import save_file; save_file({k: v.contiguous().clone() for k, v in torch.load(",
         quoted(path), ", map_location='cpu', weights_only=True).items() if torch.is_tensor(v)}, ", quoted(converted),
         ")");
}

// -- .csv --------------------------------------------------------------------------------------------------------

void push_cell(lua_State* L, const csv::Cell& cell) {
    if (const auto* flag = std::get_if<bool>(&cell)) lua_pushboolean(L, *flag);
    else if (const auto* integer = std::get_if<std::int64_t>(&cell)) lua_pushinteger(L, *integer);
    else if (const auto* number = std::get_if<double>(&cell)) lua_pushnumber(L, *number);
    else if (const auto* text = std::get_if<std::string>(&cell)) push_text(L, *text);
    else lua_pushnil(L);
}

// All cells of a .csv file without names of columns, [lines, cells of a line], Float64; NaN for a cell that is empty.
int load_matrix(lua_State* L, const std::string& path) {
    const Buffer<char> text = Source(path).text();
    csv::Reader reader({text.data(), static_cast<std::size_t>(text.size())}, path, false);
    std::vector<csv::Cell> row;
    std::vector<double> numbers;
    Index lines = 0;
    for (; reader.next(row); ++lines) {
        interrupt::check();
        for (std::size_t i = 0; i < row.size(); ++i) {
            const csv::Cell& cell = row[i];
            if (const auto* integer = std::get_if<std::int64_t>(&cell))
                numbers.push_back(static_cast<double>(*integer));
            else if (const auto* number = std::get_if<double>(&cell)) numbers.push_back(*number);
            else if (std::holds_alternative<std::monostate>(cell)) numbers.push_back(std::nan(""));
            else
                fail_as<IoError>(path, ": row ", lines + 1, ", column ", i + 1,
                                 " is no number, expected numbers alone where header = false");
        }
    }
    Tensor out(DType::f64, {lines, static_cast<Index>(reader.columns().size())});
    std::copy(numbers.begin(), numbers.end(), out.data<double>());
    push(L, out);
    return 1;
}

// Says so where the first line of a .csv file, which is taken for the names of its columns, holds numbers alone.
void note_numbers(lua_State* L, std::string_view text, const std::string& path) {
    csv::Records records(text, path, csv::separator_of(text));
    std::vector<csv::Records::Field> first;
    if (!records.next(first) || !csv::is_of_numbers(first)) return;
    note(L, path +
                ": its first line holds numbers alone, and was taken for the names of the columns; "
                "load(path, {header = false}) gives a Tensor of all lines");
}

// Whether a cell is a number with a comma for its point, 0,5, as spreadsheets of many languages write it between
// semicolons: a text here, for 1,234 may be either.
bool has_decimal_comma(const csv::Cell& cell) {
    const auto* text = std::get_if<std::string>(&cell);
    if (text == nullptr) return false;
    const std::size_t comma = text->find(',');
    const auto digits = [](std::string_view part) {
        return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    };
    const std::size_t sign = text->starts_with('-') || text->starts_with('+') ? 1 : 0;
    return comma != std::string::npos && comma > sign && digits(text->substr(sign, comma - sign)) &&
           digits(text->substr(comma + 1));
}

int load_rows(lua_State* L, const std::string& path) {
    const Buffer<char> buffer = Source(path).text();
    const std::string_view text(buffer.data(), static_cast<std::size_t>(buffer.size()));
    note_numbers(L, text, path);
    csv::Reader reader(text, path);
    const bool has_commas = csv::separator_of(text) != ',';
    bool told = false;
    const std::vector<std::string>& columns = reader.columns();
    lua_newtable(L);
    std::vector<csv::Cell> row;
    for (lua_Integer n = 1; reader.next(row); ++n) {
        interrupt::check();
        lua_newtable(L);
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (has_commas && !told && has_decimal_comma(row[i])) {
                told = true;
                note(L, sentence(path, ": ", std::get<std::string>(row[i]), " in row ", n, ", column ",
                                 in_quotes(columns[i]), ", is a text, as are others like it: a number has a point, ",
                                 "as 0.5"));
            }
            push_text(L, columns[i]);
            push_cell(L, row[i]);
            lua_rawset(L, -3);
        }
        lua_rawseti(L, -2, n);
    }
    push_causeway(L);
    lua_getfield(L, -1, "_file_rows");  // of lua/lib/rows.lua: it gives the rows their methods
    lua_pushvalue(L, -3);
    lua_call(L, 1, 0);
    lua_pop(L, 1);
    lua_newtable(L);
    for (std::size_t i = 0; i < columns.size(); ++i) {
        push_text(L, columns[i]);
        lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
    }
    make_printable(L);
    return 2;
}

// _csv_records(path) -> a list with an entry a line that is not empty: its cells as texts, line = its number
int csv_records(lua_State* L) {
    const std::string path = check_string(L, 1, "path");
    const Buffer<char> text = Source(path).text();
    csv::Records records({text.data(), static_cast<std::size_t>(text.size())}, path);
    lua_newtable(L);
    std::vector<csv::Records::Field> record;
    for (lua_Integer n = 1;; ++n) {
        interrupt::check();
        while (records.skip_empty_line()) {}
        const auto line = static_cast<lua_Integer>(records.line());
        if (!records.next(record)) return 1;
        lua_createtable(L, static_cast<int>(record.size()), 1);
        for (std::size_t i = 0; i < record.size(); ++i) {
            push_text(L, record[i].text);
            lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
        }
        lua_pushinteger(L, line);
        lua_setfield(L, -2, "line");
        lua_rawseti(L, -2, n);
    }
}

csv::Cell cell_at(lua_State* L, int index, lua_Integer row, const std::string& column) {
    switch (lua_type(L, index)) {
        case LUA_TNIL: return std::monostate{};
        case LUA_TBOOLEAN: return lua_toboolean(L, index) != 0;
        case LUA_TNUMBER:
            return lua_isinteger(L, index) ? csv::Cell(std::int64_t{lua_tointeger(L, index)})
                                           : csv::Cell(lua_tonumber(L, index));
        case LUA_TSTRING: return text_at(L, index);
        default:
            fail("save: row ", row, ", column ", in_quotes(column),
                 ": expected a number, a string or a boolean, got a ", type_name(L, index));
    }
}

// The names of all columns, sorted; checks the form of the table on the way.
std::vector<std::string> columns_of(lua_State* L, int value, lua_Integer count) {
    std::set<std::string> names;
    for (lua_Integer row = 1; row <= count; ++row) {
        if (lua_rawgeti(L, value, row) != LUA_TTABLE)
            fail("save: row ", row, ": expected a table of column = value, got a ", type_name(L, -1));
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING)
                fail("save: row ", row, ": expected a table of column = value, got the key ",
                     luaL_tolstring(L, -2, nullptr));
            std::string name = text_at(L, -2);
            if (!names.contains(name)) names.insert(std::move(name));
        }
        lua_pop(L, 1);
    }
    return {names.begin(), names.end()};
}

std::vector<std::string> chosen_columns(lua_State* L, int list) {
    std::vector<std::string> out;
    for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; ++i) {
        if (lua_type(L, -1) != LUA_TSTRING)
            fail("save: columns: expected an array of names, got a ", type_name(L, -1), " at position ", i);
        out.push_back(text_at(L, -1));
        if (std::count(out.begin(), out.end(), out.back()) > 1)
            fail("save: columns: ", in_quotes(out.back()), " is there twice");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return out;
}

void save_rows(lua_State* L, const std::string& path, int value, const Options& options) {
    if (!lua_istable(L, value))
        fail("save: a .csv file holds a table of rows, as {{N = 1, time = 2}, ...}, got a ", type_name(L, value),
             is_tensor(L, value) ? " (a .npy file holds one)" : "");
    const auto count = static_cast<lua_Integer>(lua_rawlen(L, value));
    for (lua_pushnil(L); lua_next(L, value); lua_pop(L, 1)) {
        if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) < 1 || lua_tointeger(L, -2) > count) {
            fail("save: a .csv file holds an array of rows, each a table of column = value, got the key ",
                 luaL_tolstring(L, -2, nullptr));
        }
    }
    std::vector<std::string> columns = columns_of(L, value, count);
    if (options.push("columns") != LUA_TNIL) {
        if (!lua_istable(L, -1)) fail("save: columns: expected an array of names, got a ", type_name(L, -1));
        const std::vector<std::string> all = std::exchange(columns, chosen_columns(L, lua_gettop(L)));
        // One that no row has stays empty; not all of them.
        const auto there = [&](const std::string& name) { return std::binary_search(all.begin(), all.end(), name); };
        if (!all.empty() && !columns.empty() && std::none_of(columns.begin(), columns.end(), there))
            fail("save: columns: no row has ", in_quotes(columns.front()),
                 columns.size() > 1 ? " or any other of them" : "");
    }
    lua_pop(L, 1);
    if (columns.empty()) fail("save: a .csv file has at least one column, got none");

    Writer out(path);
    std::string text;
    csv::append_header(text, columns);
    std::vector<csv::Cell> cells(columns.size());
    for (lua_Integer row = 1; row <= count; ++row) {
        lua_rawgeti(L, value, row);
        for (std::size_t i = 0; i < columns.size(); ++i) {
            push_text(L, columns[i]);
            lua_rawget(L, -2);
            cells[i] = cell_at(L, -1, row, columns[i]);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
        csv::append_row(text, cells);
        if (text.size() >= page) {
            out.write(text);
            text.clear();
        }
    }
    out.write(text);
    out.commit();
}

// -- .json -------------------------------------------------------------------------------------------------------

int load_value(lua_State* L, const std::string& path) {
    const Buffer<char> text = Source(path).text();
    if (text.size() == 0) fail_as<IoError>(path, ": the file is empty");
    push_json(L, {text.data(), static_cast<std::size_t>(text.size())}, path, true);
    return 1;
}

void save_value(lua_State* L, const std::string& path, int value) {
    const std::string text = encode_json(L, value, path, true);
    Writer out(path);
    out.write(text);
    out.write("\n");
    out.commit();
}

// -- The two functions -------------------------------------------------------------------------------------------

// Counts in a table of the registry, path -> how often: what is loaded and saved, since results tell the data that they
// were made of.
void note(lua_State* L, const char* table, const std::string& path) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, table);
    push_text(L, path);
    lua_pushvalue(L, -1);
    lua_rawget(L, -3);
    lua_pushinteger(L, lua_tointeger(L, -1) + 1);
    lua_remove(L, -2);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

// _loads() -> {path of a file = how often load was asked for it}, the same of save
int counted_loads(lua_State* L) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, loads);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, saves);
    return 2;
}

int load_file(lua_State* L, const std::string& path, const std::string& extension, int arguments) {
    const bool named = extension == ".npz" || extension == ".safetensors", more = arguments > 1 && !lua_isnil(L, 2);
    lua_settop(L, arguments);
    if (more && !named && extension != ".csv")
        fail("load: a ", extension, " file takes no second argument, got a ", type_name(L, 2));
    note(L, loads, path);
    if (extension == ".npy") {
        push(L, load_npy(path));
        return 1;
    }
    if (extension == ".npz")
        return load_archive(L, path, more && Options(L, 2, "load", {"nested"}).boolean("nested", false));
    if (extension == ".safetensors")
        return load_tensors(L, path, Options(L, 2, "load", {"nested", "names", "part", "dim", "sharded"}));
    if (extension == ".csv") {
        const bool has_names = !more || Options(L, 2, "load", {"header"}).boolean("header", true);
        return has_names ? load_rows(L, path) : load_matrix(L, path);
    }
    return load_value(L, path);
}

// Calls Lua's own function, which is the upvalue, with the lowest `arguments` values of the stack; returns the number
// of its results. The mode, the argument at this position, is "t" where none is given: Lua does not check bytecode,
// and what is damaged ends the program, so it is only taken where it is asked for ("b", "bt").
int load_with_mode(lua_State* L, int arguments, int mode) {
    const int below = lua_gettop(L);
    luaL_checkstack(L, arguments + mode + 1, "too many arguments");
    lua_pushvalue(L, lua_upvalueindex(1));
    for (int i = 1; i <= std::max(arguments, mode); ++i) {
        if (i <= arguments) lua_pushvalue(L, i);
        else lua_pushnil(L);
        if (i != mode || !lua_isnil(L, -1)) continue;
        lua_pop(L, 1);
        lua_pushliteral(L, "t");
    }
    lua_call(L, std::max(arguments, mode), LUA_MULTRET);
    return lua_gettop(L) - below;
}

int load_chunk(lua_State* L, int arguments) { return load_with_mode(L, arguments, 3); }

// loadfile(path, mode, env), dofile(path) -> as Lua's own, of text alone where no mode asks for more
int loadfile(lua_State* L) { return load_with_mode(L, lua_gettop(L), 2); }

int after_dofile(lua_State* L, int, lua_KContext) { return lua_gettop(L) - 1; }

int dofile(lua_State* L) {
    const char* path = luaL_optstring(L, 1, nullptr);
    lua_settop(L, 1);
    if (luaL_loadfilex(L, path, "t") != LUA_OK) return lua_error(L);
    lua_callk(L, 0, LUA_MULTRET, 0, after_dofile);
    return after_dofile(L, 0, 0);
}

// "weights.pt", "runs/1", not the beginning of a chunk such as "do" or "while t.x do": no space, and a folder or an
// extension in letters and digits.
bool is_like_a_path(const std::string& text) {
    const auto plain = [](unsigned char c) { return std::isalnum(c) || c >= 0x80 || std::strchr("._-~/+", c); };
    if (!std::all_of(text.begin(), text.end(), plain)) return false;
    const std::size_t dot = text.rfind('.');
    return text.find('/') != std::string::npos || (dot != std::string::npos && dot > 0 && dot + 1 < text.size());
}

// A folder is told from code that does not compile; that of a sweep is told with how its results are had
// (lua/lib/sweep.lua).
void refuse_folder(lua_State* L, const std::string& path) {
    struct stat info {};
    if (path.find('\0') != std::string::npos || ::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return;
    push_causeway(L);
    lua_getfield(L, -1, "_said_of_folder");
    push_text(L, path);
    lua_call(L, 1, 1);
    if (lua_isstring(L, -1)) fail(text_at(L, -1));
    fail("load: ", in_quotes(path), " is a folder, expected a file with the extension ", known_formats);
}

// load(path) reads a file; anything that is no path of a known format is a chunk for Lua's own load. Code may look like
// a path (`return t.csv`), and a path hardly ever is code: where no such file exists, what compiles is code.
int load(lua_State* L) {
    const int arguments = lua_gettop(L);
    if (!lua_isstring(L, 1) && !lua_isfunction(L, 1)) {
        fail("load: path: expected the path of a file, or Lua code, got ",
             lua_isnoneornil(L, 1) ? "nothing" : "a " + type_name(L, 1));
    }
    const std::string text = lua_type(L, 1) == LUA_TSTRING ? text_at(L, 1) : "";
    const bool one_line = !text.empty() && text.size() < 4096 && text.find('\n') == std::string::npos;
    const std::string extension = one_line ? extension_of(text) : "";
    const bool known = is_known(extension);
    const std::string path = with_home(text);
    if (known && (exists(path) || lua_istable(L, 2))) return load_file(L, path, extension, arguments);
    const int results = load_chunk(L, arguments);
    const bool is_code = results > 0 && !lua_isnil(L, -results);
    if (is_code || !one_line) return results;
    if (known) return load_file(L, path, extension, arguments);
    if (!extension.empty() && exists(path)) {
        refuse_pytorch(path, extension);
        if (extension == ".gguf") fail(path, ": holds a model, which model(", in_quotes(path), ") opens");
        fail(path, ": cannot be loaded: its extension is ", in_quotes(extension), ", expected ", known_formats);
    }
    refuse_folder(L, path);
    if (arguments == 1 && is_like_a_path(text))
        fail("load: ", in_quotes(text), " is neither a file nor Lua code, expected a file with the extension ",
             known_formats);
    return results;
}

// How `require` finds and loads a module of Lua, as Lua's own does, of text alone. The table `package` is the upvalue.
int search_module(lua_State* L) {
    const char* name = luaL_checkstring(L, 1);
    lua_getfield(L, lua_upvalueindex(1), "searchpath");
    lua_pushvalue(L, 1);
    lua_getfield(L, lua_upvalueindex(1), "path");
    lua_call(L, 2, 2);
    if (lua_isnil(L, -2)) return 1;
    const char* path = lua_tostring(L, -2);
    if (luaL_loadfilex(L, path, "t") != LUA_OK)
        return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, path, lua_tostring(L, -1));
    lua_pushstring(L, path);
    return 2;
}

int save_file(lua_State* L) {
    if (lua_type(L, 1) != LUA_TSTRING && lua_type(L, 2) == LUA_TSTRING)
        fail("save: path: a ", type_name(L, 1), ", expected the path first, as in save(\"q.npy\", q)");
    const std::string path = with_home(check_string(L, 1, "save: path"));
    if (lua_isnoneornil(L, 2)) fail("save: value: expected what to save, got nothing");
    const std::string extension = extension_of(path);
    if (!is_known(extension)) {
        const std::string came = extension.empty() ? "no extension" : "the extension " + in_quotes(extension);
        fail("save: ", in_quotes(path), " has ", came, ", expected ", known_formats,
             did_you_mean(extension, {".npy", ".npz", ".safetensors", ".csv", ".json"}));
    }
    if (luaL_getmetafield(L, 2, "__not_saved") != LUA_TNIL) fail("save: value: ", text_at(L, -1));
    note(L, saves, path);
    if (extension == ".npy") {
        Options(L, 3, "save", {});
        if (lua_istable(L, 2))
            fail("save: a .npy file holds one Tensor, got a table (a .npz or .safetensors file holds a table of them)");
        if (!is_tensor(L, 2)) fail("save: a .npy file holds one Tensor, got a ", type_name(L, 2));
        save_npy(path, check_tensor(L, 2, "value"));
    } else if (extension == ".npz") {
        Options(L, 3, "save", {});
        save_npz(path, check_named(L, 2, extension));
    } else if (extension == ".safetensors") {
        save_tensors(L, path, 2, Options(L, 3, "save", {"metadata", "sharded", "dim"}));
    } else if (extension == ".csv") {
        save_rows(L, path, 2, Options(L, 3, "save", {"columns"}));
    } else {
        Options(L, 3, "save", {});
        save_value(L, path, 2);
    }
    return 0;
}

int save(lua_State* L) {
    bool shared = false;  // by the processes of the job, each of which writes its part
    if (distributed::mpi_size() > 1 && lua_istable(L, 3)) {
        lua_pushliteral(L, "sharded");
        lua_rawget(L, 3);
        shared = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    return distributed::shared_call(shared, [&] { return save_file(L); });
}

}  // namespace

void open_files(lua_State* L) {
    open_json(L);
    add_functions(
        L, {{"save", guarded<save>}, {"_loads", guarded<counted_loads>}, {"_csv_records", guarded<csv_records>}});
    // Lua's own, under their names.
    lua_getglobal(L, "loadfile");
    lua_pushcclosure(L, guarded<loadfile>, 1);
    lua_setglobal(L, "loadfile");
    lua_pushcfunction(L, dofile);
    lua_setglobal(L, "dofile");
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, search_module, 1);
    lua_rawseti(L, -2, 2);  // behind those of package.preload
    lua_pop(L, 2);
    // Globals are found before `causeway` is asked, and Lua has a global `load`: it must itself become ours.
    lua_getglobal(L, "load");
    lua_pushcclosure(L, guarded<load>, 1);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "load");
    push_causeway(L);
    lua_insert(L, -2);
    lua_setfield(L, -2, "load");
    lua_pop(L, 1);
}

}  // namespace causeway::lua
