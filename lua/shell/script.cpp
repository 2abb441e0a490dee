// Protected calls and what is said of their errors. Everything that runs the user's code goes through here.
#include "lua/shell/script.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <sstream>
#include <string_view>

#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/hints.hpp"
#include "lua/shell/names.hpp"
#include "lua/shell/signals.hpp"
#include "lua/shell/state.hpp"

namespace causeway::lua {
namespace {

// "file:12:" of the first frame that is the user's Lua, or "".
std::string user_position(lua_State* L) {
    lua_Debug frame;
    for (int level = 0; lua_getstack(L, level, &frame); ++level) {
        lua_getinfo(L, "Sl", &frame);
        if (frame.currentline > 0 && !std::string_view(frame.source).starts_with(embedded_chunk))
            return sentence(frame.short_src, ":", frame.currentline, ":");
    }
    return "";
}

// A message of a file of the library, "causeway:lua/lib/plot.lua:12: ...", with the position of the user's line
// instead.
std::string at_users_line(lua_State* L, std::string message) {
    const std::string_view file = std::string_view(embedded_chunk).substr(1);
    if (!message.starts_with(file)) return message;
    const std::size_t end_of_file = message.find(':', file.size());
    const std::size_t end_of_line = end_of_file == std::string::npos ? end_of_file : message.find(':', end_of_file + 1);
    const std::string position = user_position(L);
    if (end_of_line == std::string::npos || position.empty()) return message;
    return position + message.substr(end_of_line + 1);
}

int error_text(lua_State* L) {
    luaL_tolstring(L, 1, nullptr);
    return 1;
}

int error_literal(lua_State* L) {
    const std::string text = rich(L, 1).text;
    push_text(L, text);
    return 1;
}

// The error object at the top of the stack, whatever it is, as a sentence.
std::string sentence_of_object(lua_State* L) {
    const int top = lua_gettop(L);
    std::string message;
    if (lua_type(L, top) == LUA_TSTRING) {
        const std::string text = text_at(L, top);
        return text.empty() ? "an empty message" : with_near_global(L, at_users_line(L, text));
    }
    const bool speaks = lua_type(L, top) != LUA_TNUMBER && luaL_getmetafield(L, top, "__tostring") != LUA_TNIL;
    lua_settop(L, top);
    lua_pushcfunction(L, speaks ? guarded<error_text> : guarded<error_literal>);
    lua_pushvalue(L, top);
    const bool told = lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
    if (told) message = lua_tostring(L, -1);
    lua_settop(L, top);
    const std::string kind = type_name(L, top);
    if (speaks && told) return message;
    if (!told) return sentence("the error object is a ", kind, " value");
    return sentence("the error object is a ", kind,
                    kind == "nil" ? " value" : " value: ", kind == "nil" ? "" : message);
}

// The traceback of L without the frames of C and of the library.
std::string users_traceback(lua_State* L) {
    luaL_traceback(L, L, nullptr, 1);
    const std::string all = lua_tostring(L, -1);
    lua_pop(L, 1);
    std::vector<std::string> lines;
    for (std::size_t begin = all.find('\n'); begin != std::string::npos;) {
        const std::size_t end = all.find('\n', begin + 1);
        lines.push_back(all.substr(begin + 2, end == std::string::npos ? end : end - begin - 2));
        begin = end;
    }
    const auto library = [](const std::string& line) {
        return line.starts_with("[C]:") || line.starts_with("(...tail calls...)") ||
               line.starts_with(std::string_view(embedded_chunk).substr(1));
    };
    std::string text;
    for (const std::string& line : lines) {
        if (library(line)) continue;
        if (!text.empty()) text += '\n';
        text += line;
    }
    return text;
}

// Lets `require` find modules beside the script as well.
void add_to_package_path(lua_State* L, const std::string& script) {
    const std::size_t slash = script.rfind('/');
    if (slash == std::string::npos) return;  // the current folder is in the path already
    const std::string pattern = ";" + script.substr(0, slash) + "/?.lua";
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "path");
    push_text(L, pattern);
    lua_concat(L, 2);
    lua_setfield(L, -2, "path");
    lua_pop(L, 1);
}

// Of a file; "" of what may never end.
std::string text_of(const std::string& path) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return "";
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

// A script that Lua reads part by part, and what has been read of it; its first line is empty where that begins with a
// #, as Lua reads a file. A pipe is read once, and of what never ends no more than the compiler asks for.
class Source {
public:
    explicit Source(std::FILE* file) : file_(file) {
        for (const int c : {0xEF, 0xBB, 0xBF})
            if (!skip(c)) break;
        if (!skip('#')) return;
        int c = 0;
        while ((c = std::getc(file_)) != EOF && c != '\n') continue;
        if (c == '\n') std::ungetc(c, file_);
    }

    int load(lua_State* L, const std::string& name) {
        const int status = lua_load(L, next, this, name.c_str(), "t");
        if (out_of_memory_) throw std::bad_alloc();
        return status;
    }
    bool failed() const { return std::ferror(file_) != 0; }
    const std::string& text() const { return text_; }
    // Where the compiler has stopped: the rest of a file too.
    void read_rest() {
        struct stat about {};
        if (fstat(fileno(file_), &about) != 0 || !S_ISREG(about.st_mode)) return;
        std::size_t n = 0;
        while (next(nullptr, this, &n)) continue;
    }

private:
    bool skip(int expected) {
        const int c = std::getc(file_);
        if (c != expected && c != EOF) std::ungetc(c, file_);
        return c == expected;
    }
    static const char* next(lua_State*, void* data, std::size_t* n) {
        Source& s = *static_cast<Source*>(data);
        *n = s.out_of_memory_ ? 0 : std::fread(s.part_, 1, sizeof s.part_, s.file_);
        try {
            s.text_.append(s.part_, *n);
        } catch (const std::bad_alloc&) {  // which does not pass through the compiler
            s.out_of_memory_ = true;
            *n = 0;
        }
        return *n > 0 ? s.part_ : nullptr;
    }

    std::FILE* file_;
    std::string text_;
    char part_[4096];
    bool out_of_memory_ = false;
};

// Whether the message names a line, "file:12: ...".
bool has_position(const std::string& message) {
    for (std::size_t at = message.find(':'); at < message.find('\n') && at != std::string::npos;
         at = message.find(':', at + 1)) {
        const std::size_t end = message.find_first_not_of("0123456789", at + 1);
        if (end != std::string::npos && end > at + 1 && message[end] == ':') return true;
    }
    return false;
}

// Whether this is error(message, 0): a message for whoever runs the script, which no line of it makes clearer.
bool is_plain_message(lua_State* L, const std::string& message) {
    lua_Debug raised;
    return lua_type(L, 1) == LUA_TSTRING && !has_position(message) && lua_getstack(L, 1, &raised) &&
           lua_getinfo(L, "Sn", &raised) && raised.what == std::string_view("C") && raised.name &&
           raised.name == std::string_view("error");
}

// The message handler: its upvalue is the Failure to fill. It returns the error as it is, for those who are given it on
// its way: __close, and load with a function that reads.
int describe(lua_State* L) {
    auto& failure = *static_cast<Failure*>(lua_touserdata(L, lua_upvalueindex(1)));
    lua_settop(L, 1);
    failure.message = sentence_of_object(L);
    if (!is_plain_message(L, failure.message)) failure.traceback = users_traceback(L);
    lua_settop(L, 1);
    return 1;
}

}  // namespace

Failure call(lua_State* L, int arguments, int results) {
    Failure failure;
    Stoppable stoppable(L);
    const int base = lua_gettop(L) - arguments;
    lua_pushlightuserdata(L, &failure);
    lua_pushcclosure(L, describe, 1);
    lua_insert(L, base);
    const int status = lua_pcall(L, arguments, results, base);
    lua_remove(L, base);
    if (status == LUA_OK) return {};
    if (status != LUA_ERRRUN && failure.message.empty()) {
        const bool known = status == LUA_ERRMEM || status == LUA_ERRERR;
        failure.message = known ? sentence_of_object(L) : "a C++ exception that is not known to Lua";
        if (status == LUA_ERRMEM) failure.message = "out of memory";
    }
    lua_settop(L, base - 1);
    failure.interrupted = interrupt::requested();
    return failure;
}

void set_arg(lua_State* L, const std::vector<std::string>& arguments, std::size_t script) {
    lua_createtable(L, 0, 0);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        push_text(L, arguments[i]);
        lua_rawseti(L, -2, static_cast<lua_Integer>(i) - static_cast<lua_Integer>(script));
    }
    lua_setglobal(L, "arg");

    // The same for the library, whatever the script does to `arg`.
    push_causeway(L);
    lua_createtable(L, static_cast<int>(arguments.size()), 1);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        push_text(L, arguments[i]);
        lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
    }
    if (script != 0) set_field(L, "script", static_cast<Index>(script) + 1);
    lua_setfield(L, -2, "_command");
    lua_pop(L, 1);
}

namespace {

// What is said of a file of data that was given as a script and is none; "" of another file.
std::string told_of_data(const std::string& path) {
    const std::string named = in_quotes(path);
    for (const std::string_view extension : {".npy", ".npz", ".safetensors", ".csv", ".json", ".gguf"}) {
        if (!path.ends_with(extension)) continue;
        const std::string call = (extension == ".gguf" ? "model(" : "load(") + named + ")";
        return path + " is a file of data, no script of Lua: " + call + " reads it, in the shell or in a script";
    }
    return "";
}

// Without a traceback that says nothing new: the line of the script that the message begins with, and no other.
Failure told_once(Failure failure) {
    constexpr std::string_view of_script = " in main chunk";
    std::string_view line = failure.traceback;
    if (!line.ends_with(of_script) || line.find('\n') != std::string_view::npos) return failure;
    line.remove_suffix(of_script.size());
    if (failure.message.starts_with(line)) failure.traceback.clear();
    return failure;
}

// "hint: ..." on the message of the compiler about a script, or "".
std::string hint_on_script(lua_State* L, const std::string& text, const std::string& message) {
    return script_hint(text, message, [L](const std::string& code) {
        const bool valid = luaL_loadbufferx(L, code.data(), code.size(), "=", "t") == LUA_OK;
        lua_pop(L, 1);
        return valid;
    });
}

}  // namespace

Failure run_file(lua_State* L, const std::vector<std::string>& arguments, std::size_t script) {
    const std::string& path = arguments[script];
    add_to_package_path(L, path);
    const bool piped = path == "-";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(piped ? nullptr : std::fopen(path.c_str(), "rb"),
                                                               std::fclose);
    const auto unread = [&](const char* what) {
        return Failure{
            piped ? "standard input cannot be read" : sentence("cannot ", what, " ", path, ": ", std::strerror(errno)),
            "", interrupt::requested()};
    };
    if (!piped && !file) return unread("open");
    errno = 0;
    Source source(piped ? stdin : file.get());
    const int status = source.load(L, piped ? "=stdin" : "@" + path);
    if (source.failed()) {
        lua_pop(L, 1);
        return unread("read");
    }
    if (status != LUA_OK) {
        Failure failure{lua_tostring(L, -1), "", false};
        lua_pop(L, 1);
        if (std::string told = told_of_data(path); !told.empty()) return {std::move(told), "", false};
        source.read_rest();
        const std::string hint = hint_on_script(L, source.text(), failure.message);
        if (!hint.empty()) failure.message += "\n" + hint;
        return failure;
    }
    const std::string& text = source.text();
    remember_source(L, text);
    for (const std::string& note : notes_on_constants(text)) {
        push_causeway(L);
        lua_getfield(L, -1, "_note");
        push_text(L, path + ": " + note);
        lua_call(L, 1, 0);
        lua_pop(L, 1);
    }
    for (std::size_t i = script + 1; i < arguments.size(); ++i) push_text(L, arguments[i]);
    return told_once(call(L, static_cast<int>(arguments.size() - script - 1), 0));
}

void report(lua_State* L, const Failure& failure) {
    display(L).status("");
    std::fflush(stdout);
    if (failure.interrupted) {
        std::fputs("interrupted\n", stderr);
        return;
    }
    const bool terminal = isatty(STDERR_FILENO) != 0;
    const std::string_view label = "error:";
    std::string text = sentence(label, " ", failure.message);
    if (terminal) text = in_whole_words(text, display(L).columns());
    if (terminal && display(L).colour()) text.insert(label.size(), "\033[0m").insert(0, "\033[1;31m");
    std::fprintf(stderr, "%s\n", text.c_str());
    if (failure.traceback.empty()) return;
    std::fputs("stack traceback:\n\t", stderr);
    for (const char c : failure.traceback) std::fputs(c == '\n' ? "\n\t" : std::string(1, c).c_str(), stderr);
    std::fputc('\n', stderr);
}

namespace {

int report_message(lua_State* L) {
    report(L, {check_string(L, 1, "message"), "", false});
    return 0;
}

// _hint_on_script(path, message) -> what may be meant where the compiler said so of this file, nil where nothing is
// known
int hint_on_file(lua_State* L) {
    constexpr std::string_view label = "hint: ";
    const std::string hint = hint_on_script(L, text_of(check_string(L, 1, "path")), check_string(L, 2, "message"));
    if (!hint.starts_with(label)) return 0;
    push_text(L, hint.substr(label.size()));
    return 1;
}

}  // namespace

void open_script(lua_State* L) {
    add_functions(L, {{"_report", guarded<report_message>}, {"_hint_on_script", guarded<hint_on_file>}});
}

}  // namespace causeway::lua
