// The display on a terminal, and what Lua calls to reach the display in use. Uses the bindings' helpers, no reader of
// lines.
#include "lua/shell/display.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lua/bind/attention.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

constexpr const char* display_key = "causeway.display";
constexpr const char* shown_key = "causeway.shown";  // a table: value -> true, or what is shown in its place

// Only what is one object wherever it is passed can be told from an equal value.
bool has_identity(lua_State* L, int index) { return lua_istable(L, index) || lua_isuserdata(L, index); }

// A terminal without control codes.
bool dumb_terminal() {
    const char* term = std::getenv("TERM");
    return !term || !*term || std::strcmp(term, "dumb") == 0;
}

// Columns (or rows) of the terminal; without one, what the environment says, else the usual 80 × 24.
int terminal_extent(unsigned short winsize::*extent, const char* variable, int default_value) {
    for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
        winsize size{};
        if (ioctl(file, TIOCGWINSZ, &size) == 0 && size.*extent > 0) return size.*extent;
    }
    const char* wish = std::getenv(variable);
    const int n = wish ? std::atoi(wish) : 0;
    return n > 0 && n < 10000 ? n : default_value;
}

// `line` cut to `columns` characters; bytes that continue a UTF-8 character and colour codes take no column.
std::string_view fit(std::string_view line, int columns) {
    bool escape = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const auto byte = static_cast<unsigned char>(line[i]);
        if (byte == '\n') return line.substr(0, i);
        if (escape) {
            escape = !(byte >= '@' && byte <= '~' && byte != '[');
        } else if (byte == '\033') {
            escape = true;
        } else if ((byte & 0xC0) != 0x80 && columns-- == 0) {
            return line.substr(0, i);
        }
    }
    return line;
}

// The string field `name` of the table at `index`, or "".
std::string text_field(lua_State* L, int index, const char* name) {
    std::string value;
    if (lua_getfield(L, index, name) != LUA_TNIL) value = check_string(L, -1, name);
    lua_pop(L, 1);
    return value;
}

// The picture or the page of the table at `index`, or "". Where making it fails, gnuplot missing say, the text is there
// still, and says why there is nothing else.
std::string made_field(lua_State* L, int index, const char* name, std::string& text) {
    const auto get = [](lua_State* state) {
        lua_settop(state, 2);
        lua_gettable(state, 1);
        return 1;
    };
    lua_pushcfunction(L, get);
    lua_pushvalue(L, index);
    lua_pushstring(L, name);
    std::string value;
    if (lua_pcall(L, 2, 1, 0) == LUA_OK) {
        if (!lua_isnil(L, -1)) value = check_string(L, -1, name);
    } else if (const char* message = lua_tostring(L, -1)) {
        text += sentence("\n(no ", name, ": ", message, ")");
    }
    lua_pop(L, 1);
    return value;
}

Rich to_rich(lua_State* L, int index) {
    index = lua_absindex(L, index);
    if (!lua_istable(L, index))
        fail("__rich: expected a table {text = ..., svg = ..., html = ...}, got a ", type_name(L, index));
    Rich value{text_field(L, index, "text"), {}, {}};
    if (!display(L).pictures()) return value;
    value.svg = made_field(L, index, "svg", value.text);
    value.html = made_field(L, index, "html", value.text);
    return value;
}

// The elements of a tensor that its text shows, as a table.
std::string tensor_html(lua_State* L, const std::string& text) {
    push_causeway(L);
    lua_getfield(L, -1, "_tensor_html");
    push_text(L, text);
    lua_call(L, 1, 1);
    const std::string html = check_string(L, -1, "_tensor_html");
    lua_pop(L, 2);
    return html;
}

int show_values(lua_State* L) {
    const int n = lua_gettop(L);
    for (int i = 1; i <= n; ++i) display(L).show(rich(L, i));
    return 0;
}

int present(lua_State* L) {
    display(L).show(to_rich(L, 1));
    return 0;
}

// _page{text = ..., html = ...}: what `?name` shows.
int show_page(lua_State* L) {
    display(L).page(to_rich(L, 1));
    return 0;
}

// clear_output([wait])
int clear_output(lua_State* L) {
    if (!lua_isnoneornil(L, 1) && !lua_isboolean(L, 1))
        fail("clear_output: wait: expected true or false, got a ", type_name(L, 1));
    display(L).clear(lua_toboolean(L, 1));
    return 0;
}

void mark_as_shown(lua_State* L, int index) {
    lua_pushvalue(L, index);
    lua_getfield(L, LUA_REGISTRYINDEX, shown_key);
    lua_insert(L, -2);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

void mark_shown(lua_State* L, int index) {
    if (has_identity(L, index)) mark_as_shown(L, index);
}

// _show(value): shows a result in the middle of a computation.
int show_result(lua_State* L) {
    luaL_checkany(L, 1);
    display(L).show(rich(L, 1));
    mark_shown(L, 1);
    return 0;
}

// _show_new(value, ...): the same for those that the entry has not shown yet.
int show_new(lua_State* L) {
    const int n = lua_gettop(L);
    for (int i = 1; i <= n; ++i) {
        if (!shown_in_entry(L, i)) display(L).show(rich(L, i));
        mark_shown(L, i);
    }
    return 0;
}

// _mark_shown(value): counts as shown, so that it is not shown as the value of the entry; a text too.
int count_as_shown(lua_State* L) {
    luaL_checkany(L, 1);
    mark_as_shown(L, 1);
    return 0;
}

// _saved(value, path): the value of the entry, where it is this, is told by the file written, not shown once more.
int count_as_saved(lua_State* L) {
    luaL_checkany(L, 1);
    const std::string before = shown_in_place(L, 1);
    const std::string text = sentence(before, before.empty() ? "" : "\n", "saved as ", check_string(L, 2, "path"));
    lua_getfield(L, LUA_REGISTRYINDEX, shown_key);
    lua_pushvalue(L, 1);
    push_text(L, text);
    lua_rawset(L, -3);
    return 0;
}

int status(lua_State* L) {
    display(L).status(lua_isnoneornil(L, 1) ? "" : check_string(L, 1, "text"));
    return 0;
}

int terminal_size(lua_State* L) {
    lua_pushinteger(L, display(L).columns());
    lua_pushinteger(L, display(L).rows());
    return 2;
}

int colour(lua_State* L) {
    lua_pushboolean(L, display(L).colour());
    return 1;
}

int on_terminal(lua_State* L) {
    lua_pushboolean(L, display(L).terminal());
    return 1;
}

}  // namespace

void TerminalDisplay::show(const Rich& value) {
    status("");
    std::fwrite(value.text.data(), 1, value.text.size(), stdout);
    if (value.text.empty() || value.text.back() != '\n') std::fputc('\n', stdout);
    std::fflush(stdout);
}

void TerminalDisplay::status(std::string_view line) {
    if ((line.empty() && !status_shown_) || !isatty(STDERR_FILENO) || dumb_terminal()) return;
    std::fflush(stdout);
    const std::string_view visible = fit(line, columns() - 1);
    std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(visible.size()), visible.data());
    std::fflush(stderr);
    status_shown_ = !line.empty();
}

int TerminalDisplay::columns() const { return terminal_extent(&winsize::ws_col, "COLUMNS", 80); }
int TerminalDisplay::rows() const { return terminal_extent(&winsize::ws_row, "LINES", 24); }

bool TerminalDisplay::colour() const {
    const char* refused = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !dumb_terminal() && !(refused && *refused);
}

bool TerminalDisplay::terminal() const { return isatty(STDOUT_FILENO); }

std::string in_whole_words(std::string_view text, int columns) {
    const auto width = [](std::string_view word) {  // bytes that continue a UTF-8 character take no column
        return std::count_if(word.begin(), word.end(), [](unsigned char byte) { return (byte & 0xC0) != 0x80; });
    };
    std::string out;
    std::ptrdiff_t column = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        if (text[begin] == '\n') {
            out += text[begin++];
            column = 0;
            continue;
        }
        const std::size_t word = std::min(text.find_first_not_of(' ', begin), text.size());
        const std::size_t end = std::min(text.find_first_of(" \n", word), text.size());
        const std::string_view blanks = text.substr(begin, word - begin), letters = text.substr(word, end - word);
        const bool breaks = column > 0 && column + width(blanks) + width(letters) > columns;
        if (breaks) out += '\n';
        else out += blanks;
        out += letters;
        column = (breaks ? 0 : column + width(blanks)) + width(letters);
        begin = end;
    }
    return out;
}

Display& display(lua_State* L) {
    static TerminalDisplay terminal;
    lua_getfield(L, LUA_REGISTRYINDEX, display_key);
    auto* chosen = static_cast<Display*>(lua_touserdata(L, -1));
    lua_pop(L, 1);
    return chosen ? *chosen : terminal;
}

void set_display(lua_State* L, Display& display) {
    lua_pushlightuserdata(L, &display);
    lua_setfield(L, LUA_REGISTRYINDEX, display_key);
}

Rich rich(lua_State* L, int index) {
    index = lua_absindex(L, index);
    luaL_checkstack(L, 8, "no room to show a value");
    if (luaL_getmetafield(L, index, "__rich") != LUA_TNIL) {
        lua_pushvalue(L, index);
        lua_call(L, 1, 1);
        Rich value = to_rich(L, -1);
        lua_pop(L, 1);
        return value;
    }
    push_causeway(L);
    lua_getfield(L, -1, "_literal");
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    Rich value{check_string(L, -1, "_literal"), {}, {}};
    lua_pop(L, 2);
    if (display(L).pictures() && is_tensor(L, index)) value.html = tensor_html(L, value.text);
    return value;
}

void begin_entry(lua_State* L) {
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");  // what was shown may be collected
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, shown_key);
    forget_growth(L), forget_cancelled_rows(L);
}

bool shown_in_entry(lua_State* L, int index) {
    index = lua_absindex(L, index);
    if (!has_identity(L, index) && lua_type(L, index) != LUA_TSTRING) return false;
    lua_getfield(L, LUA_REGISTRYINDEX, shown_key);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    const bool shown = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return shown;
}

std::string shown_in_place(lua_State* L, int index) {
    index = lua_absindex(L, index);
    if (!has_identity(L, index)) return "";
    lua_getfield(L, LUA_REGISTRYINDEX, shown_key);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    const std::string text = lua_type(L, -1) == LUA_TSTRING ? text_at(L, -1) : "";
    lua_pop(L, 2);
    return text;
}

void open_display(lua_State* L) {
    begin_entry(L);
    add_functions(L, {
                         {"display", guarded<show_values>},
                         {"terminal_size", guarded<terminal_size>},
                         {"clear_output", guarded<clear_output>},
                         {"_present", guarded<present>},
                         {"_page", guarded<show_page>},
                         {"_show", guarded<show_result>},
                         {"_show_new", guarded<show_new>},
                         {"_mark_shown", guarded<count_as_shown>},
                         {"_saved", guarded<count_as_saved>},
                         {"_status", guarded<status>},
                         {"_colour", guarded<colour>},
                         {"_on_terminal", guarded<on_terminal>},
                     });
}

}  // namespace causeway::lua
