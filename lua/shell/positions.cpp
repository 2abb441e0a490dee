#include "lua/shell/positions.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "lua/bind/bind.hpp"

namespace causeway::lua {
namespace {

constexpr const char* entries_key = "causeway.entries";  // a table: name -> text
constexpr const char* running_key = "causeway.entry";    // the name of the entry that runs, or ran last

void push_entries(lua_State* L) {
    if (lua_getfield(L, LUA_REGISTRYINDEX, entries_key) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, entries_key);
}

std::optional<std::string> text_of_entry(lua_State* L, const std::string& name) {
    push_entries(L);
    std::optional<std::string> text;
    if (lua_getfield(L, -1, name.c_str()) == LUA_TSTRING) text = text_at(L, -1);
    lua_pop(L, 2);
    return text;
}

// "input[3]:2: ..." of an entry that is known.
struct Position {
    std::string entry, text;           // its name and the whole of it
    std::size_t line = 0, length = 0;  // of "input[3]:2:"
    bool one_line() const { return text.find('\n') == std::string::npos; }
};

std::optional<Position> position_of(lua_State* L, std::string_view message) {
    const std::size_t colon = message.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::size_t end = message.find_first_not_of("0123456789", colon + 1);
    if (end == std::string_view::npos || end == colon + 1 || end > colon + 10 || message[end] != ':')
        return std::nullopt;
    Position out;
    out.entry = message.substr(0, colon);
    std::optional<std::string> text = text_of_entry(L, out.entry);
    if (!text) return std::nullopt;
    out.text = *std::move(text);
    out.line = std::stoul(std::string(message.substr(colon + 1, end - colon - 1)));
    out.length = end + 1;
    return out;
}

// The line of an entry without the blanks around it, cut to what a terminal of 80 columns has room for.
std::string source_line(const Position& position) {
    constexpr std::size_t room = 66;
    std::string_view rest = position.text;
    for (std::size_t line = 1; line < position.line; ++line) {
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) return "";
        rest.remove_prefix(end + 1);
    }
    rest = rest.substr(0, rest.find('\n'));
    const std::size_t begin = rest.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return "";
    rest = rest.substr(begin, rest.find_last_not_of(" \t\r") + 1 - begin);
    std::size_t characters = 0, cut = 0;
    for (std::size_t i = 0; i < rest.size(); ++i) {
        if ((static_cast<unsigned char>(rest[i]) & 0xC0) == 0x80) continue;  // goes on with a UTF-8 character
        if (++characters == room) cut = i;
    }
    return characters > room ? sentence(rest.substr(0, cut), "…") : std::string(rest);
}

std::string without_position(const std::string& message, const Position& position) {
    const std::size_t begin = message.find_first_not_of(' ', position.length);
    return begin == std::string::npos ? message : message.substr(begin);
}

bool is_running(lua_State* L, const std::string& name) {
    lua_getfield(L, LUA_REGISTRYINDEX, running_key);
    const bool same = lua_type(L, -1) == LUA_TSTRING && text_at(L, -1) == name;
    lua_pop(L, 1);
    return same;
}

// _without_position(message) -> the message without the position in an entry of one line that it begins with, and the
// line of the entry that it begins with, nil where that is all of what the user has just typed
int plain_message(lua_State* L) {
    std::string message = check_string(L, 1, "message");
    const std::optional<Position> position = position_of(L, message);
    if (position && position->one_line()) message = without_position(message, *position);
    push_text(L, message);
    if (!position || (position->one_line() && is_running(L, position->entry))) return 1;
    push_text(L, source_line(*position));
    return 2;
}

}  // namespace

void remember_entry(lua_State* L, const std::string& name, const std::string& text) {
    push_entries(L);
    push_text(L, text);
    lua_setfield(L, -2, name.c_str());
    lua_pop(L, 1);
    push_text(L, name);
    lua_setfield(L, LUA_REGISTRYINDEX, running_key);
}

Failure told_by_lines(lua_State* L, Failure failure, const std::string& name) {
    const std::optional<Position> raised = position_of(L, failure.message);
    const std::string place_of_message = raised ? failure.message.substr(0, raised->length) : "";
    std::string traceback, last;
    if (raised && raised->entry != name &&
        ("\n" + failure.traceback).find("\n" + place_of_message) == std::string::npos) {
        // It was caught on its way, by sweep say, and raised once more.
        traceback = place_of_message + "\n  " + source_line(*raised);
        last = place_of_message;
    }
    for (std::size_t begin = 0; begin < failure.traceback.size();) {
        const std::size_t end = std::min(failure.traceback.find('\n', begin), failure.traceback.size());
        const std::string frame = failure.traceback.substr(begin, end - begin);
        begin = end + 1;
        const std::optional<Position> position = position_of(L, frame);
        if (position && position->entry == name && position->one_line()) continue;
        if (!traceback.empty()) traceback += '\n';
        traceback += frame;
        const std::string place = position ? frame.substr(0, position->length) : "";
        if (position && place != last && !source_line(*position).empty()) traceback += "\n  " + source_line(*position);
        last = place;
    }
    failure.traceback = traceback;
    if (raised && raised->one_line()) {
        const std::string message = without_position(failure.message, *raised);
        failure.position = failure.message.substr(0, failure.message.size() - message.size());
        failure.message = message;
    }
    return failure;
}

void open_positions(lua_State* L) { add_functions(L, {{"_without_position", guarded<plain_message>}}); }

}  // namespace causeway::lua
