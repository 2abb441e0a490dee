// An encoder that walks Lua values and a decoder that builds them as the parser of nlohmann/json meets them.
#include "lua/bind/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"
#include "core/base/utf8.hpp"
#include "core/tensor/visit.hpp"
#include "lua/bind/bind.hpp"

namespace causeway::lua {
namespace {

constexpr std::size_t deepest = 200;
constexpr std::size_t longest = std::size_t{1} << 30;
constexpr const char* null_type = "causeway.Null";
constexpr const char* number_key = "$numberDouble";  // of the object that stands for a number JSON has not

class Encoder {
public:
    Encoder(lua_State* L, const std::string& where, bool lines) : L_(L), where_(where), lines_(lines) {}

    std::string text(int index) {
        value(lua_absindex(L_, index));
        return std::move(out_);
    }

private:
    struct Step {
        std::string_view name;  // where position is 0
        lua_Integer position;
    };

    // "x.json: value[3].time: ..."
    template <class... Parts>
    [[noreturn]] void wrong(const Parts&... parts) const {
        std::string path;
        for (const Step& step : path_)
            path += step.position ? "[" + std::to_string(step.position) + "]" : "." + std::string(step.name);
        fail(where_, ": value", path.size() > 200 ? path.substr(0, 200) + "..." : path, ": ", parts...);
    }

    void value(int index) {
        switch (lua_type(L_, index)) {
            case LUA_TBOOLEAN: out_ += lua_toboolean(L_, index) ? "true" : "false"; return;
            case LUA_TNUMBER:
                if (lua_isinteger(L_, index)) out_ += std::to_string(lua_tointeger(L_, index));
                else number(lua_tonumber(L_, index));
                return;
            case LUA_TSTRING: string(text_at(L_, index)); return;
            case LUA_TTABLE: table(index); return;
            default: break;
        }
        if (luaL_testudata(L_, index, null_type)) out_ += "null";
        else if (is_tensor(L_, index)) tensor(check_tensor(L_, index, "value"));
        else
            wrong("expected a table, a Tensor, a string, a number or a boolean, got ",
                  lua_isnil(L_, index) ? "nil" : "a " + type_name(L_, index));
    }

    template <class T>
    void number(T x) {
        if (std::isfinite(x)) out_ += number_text(x);
        else
            out_ += std::string("{\"") + number_key + "\": \"" +
                    (std::isnan(x) ? "NaN"
                     : x > 0       ? "Infinity"
                                   : "-Infinity") +
                    "\"}";
    }

    void string(std::string_view text) {
        out_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        check_length();
    }

    void check_length() const {
        if (out_.size() > longest)
            fail(where_, ": more than 1 GiB of text, save large tensors as .npy or .safetensors");
    }

    // Between two elements or brackets, `depth` deep.
    void separate(bool broken, std::size_t depth) {
        if (broken) (out_ += '\n').append(2 * depth, ' ');
    }

    void table(int index) {
        const void* self = lua_topointer(L_, index);
        if (std::find(ancestors_.begin(), ancestors_.end(), self) != ancestors_.end())
            wrong("the table contains itself");
        if (ancestors_.size() == deepest) fail(where_, ": tables are nested deeper than ", deepest);
        luaL_checkstack(L_, 8, "too deep");
        interrupt::check();

        std::vector<std::string> names;
        lua_Integer count = 0, last = 0;
        bool flat = true;  // no tables inside: stays on one line
        for (lua_pushnil(L_); lua_next(L_, index); lua_pop(L_, 1)) {
            flat = flat && lua_type(L_, -1) != LUA_TTABLE && lua_type(L_, -1) != LUA_TUSERDATA;
            if (lua_type(L_, -2) == LUA_TSTRING) {
                names.push_back(text_at(L_, -2));
            } else if (lua_isinteger(L_, -2) && lua_tointeger(L_, -2) > 0) {
                ++count;
                last = std::max(last, lua_tointeger(L_, -2));
            } else {
                wrong("a table has the key ", luaL_tolstring(L_, -2, nullptr),
                      ", expected names or positions from 1 on");
            }
        }
        if (count > 0 && !names.empty())
            wrong("a table has both positions and names (\"", *std::min_element(names.begin(), names.end()),
                  "\"), expected one of them");
        if (count != last) wrong("an array of ", count, " values goes to position ", last, ", expected no holes");
        std::sort(names.begin(), names.end());
        for (const std::string& name : names)
            if (utf8_prefix(name) < name.size()) wrong("a table has the name ", in_quotes(name), ", expected UTF-8");

        ancestors_.push_back(self);
        const bool broken = lines_ && !flat;
        const bool object = !names.empty();
        out_ += object ? '{' : '[';
        for (const std::string& name : names) {
            if (&name != &names.front()) out_ += broken ? "," : ", ";
            separate(broken, ancestors_.size());
            string(name);
            out_ += ": ";
            push_text(L_, name);
            lua_rawget(L_, index);
            element({name, 0});
        }
        for (lua_Integer i = 1; i <= count; ++i) {
            if (i > 1) out_ += broken ? "," : ", ";
            separate(broken, ancestors_.size());
            lua_rawgeti(L_, index, i);
            element({{}, i});
        }
        ancestors_.pop_back();
        separate(broken, ancestors_.size());
        out_ += object ? '}' : ']';
        check_length();
    }

    // The value on top of the stack, which it pops.
    void element(Step step) {
        path_.push_back(step);
        value(lua_gettop(L_));
        path_.pop_back();
        lua_pop(L_, 1);
    }

    void tensor(const Tensor& t) {
        visit(t.dtype(), [&](auto zero) { dimension(t.data<decltype(zero)>(), t.shape(), 0, t.size()); });
    }

    // `size` elements from `data` on, which have the dimensions from number `d` on.
    template <class T>
    void dimension(const T* data, const Shape& shape, int d, Index size) {
        if (d == shape.ndim()) {
            if constexpr (std::is_same_v<T, double>) number(*data);
            else number(static_cast<float>(*data));
            return;
        }
        interrupt::check();
        check_length();
        const Index n = shape[d];
        const bool broken = lines_ && d + 1 < shape.ndim() && n > 0;
        out_ += '[';
        for (Index i = 0; i < n; ++i) {
            if (i > 0) out_ += broken ? "," : ", ";
            separate(broken, ancestors_.size() + static_cast<std::size_t>(d) + 1);
            dimension(data + i * (size / n), shape, d + 1, size / n);
        }
        separate(broken, ancestors_.size() + static_cast<std::size_t>(d));
        out_ += ']';
    }

    lua_State* L_;
    const std::string& where_;
    bool lines_;
    std::string out_;
    std::vector<const void*> ancestors_;
    std::vector<Step> path_;
};

// Builds the value on the Lua stack, event by event: a table in the making per level, above the key it will have.
class Decoder final : public nlohmann::json_sax<nlohmann::json> {
public:
    // of_file: `where` names a file, whose faults are errors of I/O; else an argument.
    Decoder(lua_State* L, std::string_view text, const std::string& where, bool of_file)
        : L_(L), text_(text), where_(where), of_file_(of_file) {}

    bool null() override {
        if (levels_.empty() || levels_.back() >= 0) {
            lua_getfield(L_, LUA_REGISTRYINDEX, "causeway.json_null");
            return attach();
        }
        nothing_.back().insert(text_at(L_, -1));
        lua_pop(L_, 1);  // the key: nothing has this name
        return true;
    }

    bool boolean(bool value) override {
        lua_pushboolean(L_, value);
        return attach();
    }

    bool number_integer(number_integer_t value) override {
        if (value == 0) lua_pushnumber(L_, -0.0);  // it stands here for a sign: "-0"
        else lua_pushinteger(L_, value);
        return attach();
    }

    bool number_unsigned(number_unsigned_t value) override {
        if (value <= static_cast<number_unsigned_t>(std::numeric_limits<lua_Integer>::max()))
            lua_pushinteger(L_, static_cast<lua_Integer>(value));
        else lua_pushnumber(L_, static_cast<double>(value));
        return attach();
    }

    bool number_float(number_float_t value, const string_t&) override {
        lua_pushnumber(L_, value);
        return attach();
    }

    bool string(string_t& value) override {
        push_text(L_, value);
        return attach();
    }

    bool binary(binary_t&) override { return false; }  // text has none

    bool key(string_t& value) override {
        push_text(L_, value);
        lua_pushvalue(L_, -1);
        const bool known = lua_rawget(L_, -3) != LUA_TNIL || nothing_.back().contains(value);
        lua_pop(L_, 1);
        if (known) refuse(": has the name ", in_quotes(value), " twice in one object");
        return true;
    }

    bool start_object(std::size_t) override { return open(object); }
    bool start_array(std::size_t) override { return open(0); }
    bool end_object() override {
        replace_number();
        return close();
    }
    bool end_array() override { return close(); }

    bool parse_error(std::size_t position, const std::string& token,
                     const nlohmann::detail::exception& error) override {
        if (error.id == number_beyond) refuse(": line ", line_of(position), ": ", beyond_f64(token));
        invalid(position);
    }

    [[noreturn]] void invalid(std::size_t position) const {
        refuse(": is not valid JSON at byte ", position, " (line ", line_of(position), ")");
    }

private:
    static constexpr int number_beyond = 406;  // nlohmann's number of this error

    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
        if (of_file_) fail_as<IoError>(where_, parts...);
        fail(where_, parts...);
    }

    std::ptrdiff_t line_of(std::size_t position) const {
        const std::size_t end = std::min(position, text_.size());
        return 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    }

    static constexpr lua_Integer object = -1;  // level of an object; that of an array is its length so far

    bool open(lua_Integer level) {
        if (levels_.size() == deepest) refuse(": is nested deeper than ", deepest);
        luaL_checkstack(L_, 8, "too deep");
        interrupt::check();
        lua_newtable(L_);
        levels_.push_back(level);
        nothing_.emplace_back();
        return true;
    }

    // Puts the number in the place of the object at the top where that stands for one: {number_key = "NaN"} and nothing
    // else.
    void replace_number() {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        lua_pushstring(L_, number_key);
        const std::string name = lua_rawget(L_, -2) == LUA_TSTRING ? text_at(L_, -1) : "";
        lua_pop(L_, 1);
        if ((name != "NaN" && name != "Infinity" && name != "-Infinity") || entries() != 1) return;
        lua_pop(L_, 1);
        lua_pushnumber(L_, name == "NaN"        ? std::numeric_limits<double>::quiet_NaN()
                           : name == "Infinity" ? infinity
                                                : -infinity);
    }

    // Of the table at the top.
    std::size_t entries() {
        std::size_t count = 0;
        for (lua_pushnil(L_); lua_next(L_, -2); lua_pop(L_, 1)) ++count;
        return count;
    }

    bool close() {
        levels_.pop_back();
        nothing_.pop_back();
        return attach();
    }

    // Puts the value on top of the stack into the table it belongs to, if any.
    bool attach() {
        if (levels_.empty()) return true;
        if (levels_.back() == object) lua_rawset(L_, -3);
        else lua_rawseti(L_, -2, ++levels_.back());
        return true;
    }

    lua_State* L_;
    std::string_view text_;
    const std::string& where_;
    const bool of_file_;
    std::vector<lua_Integer> levels_;
    std::vector<std::set<std::string>> nothing_;  // of each level: names whose value is null
};

int json_encode(lua_State* L) {
    if (lua_isnone(L, 1)) fail("json_encode: value: expected a value, got nothing");
    const std::string text = encode_json(L, 1, "json_encode", false);
    push_text(L, text);
    return 1;
}

int json_decode(lua_State* L) {
    const std::string text = check_string(L, 1, "json_decode: text");
    push_json(L, text, "json_decode: text", false);
    return 1;
}

int null_text(lua_State* L) {
    lua_pushliteral(L, "null");
    return 1;
}

}  // namespace

std::string encode_json(lua_State* L, int index, const std::string& where, bool lines) {
    return Encoder(L, where, lines).text(index);
}

void push_json(lua_State* L, std::string_view text, const std::string& where, bool of_file) {
    Decoder decoder(L, text, where, of_file);
    // The parser takes a zero byte for the end of the text.
    const std::size_t zero = text.find('\0');
    if (zero != std::string_view::npos) decoder.invalid(zero + 1);
    nlohmann::json::sax_parse(text.begin(), text.end(), &decoder);
}

void open_json(lua_State* L) {
    add_functions(L, {{"json_encode", guarded<json_encode>}, {"json_decode", guarded<json_decode>}});
    lua_newuserdatauv(L, 0, 0);
    luaL_newmetatable(L, null_type);
    lua_pushcfunction(L, null_text);
    lua_setfield(L, -2, "__tostring");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, "causeway.json_null");
    push_causeway(L);
    lua_insert(L, -2);
    lua_setfield(L, -2, "json_null");
    lua_pop(L, 1);
}

}  // namespace causeway::lua
