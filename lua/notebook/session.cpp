// Cells go to evaluate, questions to complete and to the manual; what they say becomes the contents of messages.
#include "lua/notebook/session.hpp"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "core/base/interrupt.hpp"
#include "core/measure/machine.hpp"
#include "lua/bind/bind.hpp"
#include "lua/notebook/interrupt_mask.hpp"
#include "lua/shell/about.hpp"
#include "lua/shell/complete.hpp"
#include "lua/shell/evaluate.hpp"
#include "lua/shell/names.hpp"
#include "lua/shell/script.hpp"
#include "lua/shell/state.hpp"
#include "lua/shell/tokens.hpp"

namespace causeway::lua {
namespace {

using Json = nlohmann::json;

constexpr const char* red = "\033[31m";
constexpr const char* plain = "\033[0m";

// An interrupt that came between two cells would stop the next one.
void drop_pending_interrupts() {
    const sigset_t set = interrupts();
    const timespec at_once{};
    while (sigtimedwait(&set, nullptr, &at_once) == SIGINT) {}
}

// ---- positions: characters for the protocol, bytes for the text ----

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// The byte at which that character stands; beyond the text, or below 0: its end.
std::size_t byte_of(const std::string& text, int character) {
    if (character < 0) return text.size();
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (begins_character(text[i]) && character-- == 0) return i;
    }
    return text.size();
}

std::ptrdiff_t character_of(const std::string& text, std::size_t byte) {
    return std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), begins_character);
}

// Where the piece begins that the end of the text belongs to: behind the lines that are complete without it.
std::size_t open_piece(lua_State* L, const std::string& text) {
    const std::size_t last_line = text.rfind('\n') + 1;  // 0 where there is only one
    EntryReader lines(L);
    if (last_line == 0 || !lines.wants_more_after(text.substr(0, last_line - 1))) return last_line;
    const std::size_t open = lines.open_lines().size() + 1;
    return open > last_line ? 0 : last_line - open;
}

// ---- what the cursor stands on ----

// The names that may be asked about: the one at the cursor with what stands before its dots, and the functions whose
// calls it is in, from the inside out.
std::vector<std::string> names_at(const std::string& code, std::size_t cursor) {
    const auto tokens = tokenize_without_comments(code);
    std::vector<std::string> names;
    std::vector<std::string> calls;  // the function before each open bracket, or ""
    const auto text = [&](std::size_t i) { return tokens[i].text(code); };
    const auto path_to = [&](std::size_t i) {
        std::size_t first = i;
        while (first >= 2 && (text(first - 1) == "." || text(first - 1) == ":") &&
               tokens[first - 2].kind == Token::name)
            first -= 2;
        return code.substr(tokens[first].begin, tokens[i].end - tokens[first].begin);
    };
    for (std::size_t i = 0; i < tokens.size() && tokens[i].begin <= cursor; ++i) {
        const bool name = tokens[i].kind == Token::name && !is_keyword(text(i));
        if (name && tokens[i].end >= cursor) names.push_back(path_to(i));
        if (tokens[i].end > cursor) break;
        const auto word = text(i);
        if (word == "(" || word == "{" || word == "[")
            calls.push_back(i > 0 && tokens[i - 1].kind == Token::name ? path_to(i - 1) : "");
        if ((word == ")" || word == "}" || word == "]") && !calls.empty()) calls.pop_back();
    }
    names.insert(names.end(), calls.rbegin(), calls.rend());
    std::erase(names, "");
    return names;
}

// The page of the first of these names that has one; empty where none has.
Rich page_of(lua_State* L, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        push_causeway(L);
        lua_getfield(L, -1, "_page_of");
        lua_remove(L, -2);
        push_text(L, name);
        if (call(L, 1, 2)) continue;
        Rich page;
        if (lua_type(L, -2) == LUA_TSTRING) page.text = text_at(L, -2);
        if (lua_type(L, -1) == LUA_TSTRING) page.html = text_at(L, -1);
        lua_pop(L, 2);
        if (!page.text.empty()) return page;
    }
    return {};
}

// ---- failures ----

// What error_kind says of the message, "" where it says nothing.
std::string kind_of_message(lua_State* L, const std::string& message) {
    const int base = lua_gettop(L);
    lua_pushcfunction(L, error_kind);
    push_text(L, message);
    const bool known = lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
    const std::string kind = known ? text_at(L, -1) : "";
    lua_settop(L, base);
    return kind;
}

// The name of a cell's failure, which is known by the message as it was raised.
std::string name_of(lua_State* L, const Failure& failure) {
    if (failure.interrupted) return "interrupted";
    const std::string kind = kind_of_message(L, failure.position + failure.message);
    return kind.empty() ? "error" : kind;
}

std::string sentence_of(const Failure& failure) {
    if (failure.interrupted) return sentence(red, "interrupted", plain);
    return sentence(red, "error:", plain, " ", failure.message);
}

// All lines: the sentence, and below it where it came from.
std::vector<std::string> lines_of(const Failure& failure) {
    std::vector<std::string> lines = {sentence_of(failure)};
    for (std::size_t begin = 0; begin < failure.traceback.size();) {
        const std::size_t end = std::min(failure.traceback.find('\n', begin), failure.traceback.size());
        lines.push_back("  " + failure.traceback.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

Json error_content(const std::string& name, const std::string& value, const std::vector<std::string>& lines) {
    return {{"status", "error"}, {"ename", name}, {"evalue", value}, {"traceback", lines}};
}

int push_rich(lua_State* L) {
    *static_cast<Rich*>(lua_touserdata(L, lua_upvalueindex(1))) = rich(L, 1);
    return 0;
}

}  // namespace

Session::Session(Outlet& outlet) : outlet_(outlet), display_(outlet), L_(new_state(), lua_close) {
    set_display(L_.get(), display_);
    set_arg(L_.get(), {"causeway"}, 0);
    open_front_end(L_.get(), *this);
}

Session::~Session() = default;

// Interrupts stop this work, and nothing else.
Failure Session::run(const std::function<Failure()>& work) {
    drop_pending_interrupts();
    const InterruptMask taking(SIG_UNBLOCK);
    Failure failure = work();
    interrupt::clear();
    return failure;
}

Json Session::execute(const std::string& code, int count, bool silent, const Json& expressions, bool may_ask) {
    display_.begin(count, silent);
    may_ask_ = may_ask;
    const std::string chunk = "input[" + std::to_string(count) + "]";
    Json values = Json::object();
    const Failure failure = run([&] {
        Failure of_cell = evaluate(L_.get(), code, chunk);
        interrupt::clear();
        tell_hidden_names();
        if (!of_cell) values = values_of(expressions);
        return of_cell;
    });
    may_ask_ = false;
    Json reply;
    if (failure) {
        const std::string name = name_of(L_.get(), failure);
        const auto lines = lines_of(failure);
        display_.error(name, failure, sentence_of(failure));
        reply = error_content(name, failure.message, lines);
    } else {
        reply = {{"status", "ok"}, {"user_expressions", values}};
    }
    display_.end();
    reply["payload"] = Json::array();
    if (!display_.pages().is_null())
        reply["payload"].push_back({{"source", "page"}, {"start", 0}, {"data", display_.pages()}});
    return reply;
}

void Session::receive(const std::string& comm, const Json& data) {
    display_.begin_message();
    const Failure failure = run([&] {
        lua_State* L = L_.get();
        begin_entry(L);
        push_causeway(L);
        lua_getfield(L, -1, "_receive");
        lua_remove(L, -2);
        push_text(L, comm);
        push_text(L, data.dump());
        return call(L, 2, 0);
    });
    if (failure) display_.fail_kept(failure);
    display_.end();
}

void Session::tell_hidden_names() {
    for (const auto& note : notes_on_hidden_names(L_.get(), told_names_)) std::printf("%s\n", note.c_str());
}

Json Session::values_of(const Json& expressions) {
    Json values = Json::object();
    if (!expressions.is_object()) return values;
    for (const auto& [name, expression] : expressions.items())
        values[name] = value_of(expression.is_string() ? expression.get<std::string>() : "");
    return values;
}

Json Session::value_of(const std::string& expression) {
    lua_State* L = L_.get();
    const int base = lua_gettop(L);
    const std::string code = "return " + expression;
    Failure failure;
    Rich value;
    if (luaL_loadbufferx(L, code.data(), code.size(), "=expression", "t") != LUA_OK) failure.message = text_at(L, -1);
    else failure = call(L, 0, 1);
    if (!failure) {
        lua_pushlightuserdata(L, &value);
        lua_pushcclosure(L, guarded<push_rich>, 1);
        lua_insert(L, -2);
        failure = call(L, 1, 0);
    }
    lua_settop(L, base);
    if (failure) return error_content("error", failure.message, lines_of(failure));
    return {{"status", "ok"}, {"data", bundle_of(value)}, {"metadata", Json::object()}};
}

Json Session::complete(const std::string& code, int cursor) {
    const std::string before = code.substr(0, byte_of(code, cursor));
    const std::size_t begin = open_piece(L_.get(), before);
    const Completion found = lua::complete(L_.get(), before.substr(begin));
    return {{"status", "ok"},
            {"matches", found.words},
            {"cursor_start", character_of(before, begin + found.begin)},
            {"cursor_end", character_of(before, before.size())},
            {"metadata", Json::object()}};
}

Json Session::inspect(const std::string& code, int cursor) {
    const Rich page = page_of(L_.get(), names_at(code, byte_of(code, cursor)));
    const bool found = !page.text.empty();
    return {{"status", "ok"},
            {"found", found},
            {"data", found ? bundle_of(page) : Json::object()},
            {"metadata", Json::object()}};
}

Json Session::is_complete(const std::string& code) {
    switch (completeness(L_.get(), code)) {
        case Completeness::complete: return {{"status", "complete"}};
        case Completeness::invalid: return {{"status", "invalid"}};
        default: return {{"status", "incomplete"}, {"indent", "  "}};
    }
}

void Session::stop() { pthread_kill(thread_, SIGINT); }

Json kernel_info() {
    return {{"status", "ok"},
            {"implementation", "causeway"},
            {"implementation_version", machine().version},
            {"language_info",
             {{"name", "lua"},
              {"version", LUA_VERSION_MAJOR "." LUA_VERSION_MINOR},
              {"mimetype", "text/x-lua"},
              {"file_extension", ".lua"},
              {"pygments_lexer", "lua"},
              {"codemirror_mode", "lua"}}},
            {"banner", banner_text(80, false)},
            {"debugger", false},
            {"help_links", Json::array({{{"text", "Lua 5.4"}, {"url", "https://www.lua.org/manual/5.4/"}}})}};
}

}  // namespace causeway::lua
