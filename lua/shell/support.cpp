// What the Lua files of lua/lib need from C++: errors at the user's line, option tables, journals that survive a crash,
// folders, child programs.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/file.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"  // did_you_mean
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

extern char** environ;

namespace causeway::lua {
namespace {

constexpr const char* journal_type = "causeway.Journal";

std::string reason() { return std::strerror(errno); }

// The strings of the list at `index`.
std::vector<std::string> check_strings(lua_State* L, int index, const char* argument) {
    if (!lua_istable(L, index)) fail(argument, ": expected a list of strings, got a ", type_name(L, index));
    std::vector<std::string> list(lua_rawlen(L, index));
    for (std::size_t i = 0; i < list.size(); ++i) {
        lua_geti(L, index, static_cast<lua_Integer>(i + 1));
        list[i] = check_string(L, -1, argument);
        lua_pop(L, 1);
    }
    return list;
}

// One of the names that error_kind returns.
ErrorKind check_kind(lua_State* L, int index) {
    const std::string name = check_string(L, index, "kind");
    for (const ErrorKind kind : all_error_kinds)
        if (name == text_of(kind)) return kind;
    fail("kind: \"", name, "\" is no kind of an error");
}

// _raise(message, kind): an error with the position in the user's file in front; kind: "bad argument" where none is
// given
int raise_message(lua_State* L) {
    const ErrorKind kind = lua_isnoneornil(L, 2) ? ErrorKind::bad_argument : check_kind(L, 2);
    raise(L, check_string(L, 1, "message"), kind);
}

// _of_kind(message, kind) -> message, which error_kind then knows; kind nil: nothing is noted
int message_of_kind(lua_State* L) {
    if (lua_isnoneornil(L, 2)) return lua_settop(L, 1), 1;
    const ErrorKind kind = check_kind(L, 2);
    lua_settop(L, 1);
    remember_kind(L, kind);
    return 1;
}

// _check_options(function, options, known): an error unless options is nil or a table with only the known names
int check_options(lua_State* L) {
    const std::string function = check_string(L, 1, "function");
    const Options options(L, 2, function.c_str(), check_strings(L, 3, "known"));
    return 0;
}

// _check_names(argument, {name = true}, known): an error for a name that is not known, with the nearest one
int check_names(lua_State* L) {
    const std::string argument = check_string(L, 1, "argument");
    const std::vector<std::string> known = check_strings(L, 3, "known");
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        const std::string name = check_string(L, -2, "name");
        if (std::find(known.begin(), known.end(), name) == known.end())
            fail(argument, ": unknown name \"", name, "\"", did_you_mean(name, known));
    }
    return 0;
}

// A file that only grows, held by one process at a time. What append() has returned from is on the disk.
class Journal {
public:
    explicit Journal(const std::string& path)
        : path_(path), file_(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
        if (file_ < 0) fail_as<IoError>("cannot write ", path, ": ", reason());
        if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
            close_file();
            fail_as<IoError>(path, " is in use by another process, expected to be the only one that writes it");
        }
        sync_folder();
    }
    ~Journal() { close_file(); }
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    void append(const std::string& text) {
        require_open();
        for (std::size_t done = 0; done < text.size();) {
            const ssize_t n = write(file_, text.data() + done, text.size() - done);
            if (n < 0 && errno != EINTR) fail_as<IoError>("cannot write ", path_, ": ", reason());
            if (n > 0) done += static_cast<std::size_t>(n);
        }
        if (fsync(file_) != 0) fail_as<IoError>("cannot write ", path_, ": ", reason());
    }

    // Drops what lies behind the first `size` bytes.
    void cut(Index size) {
        require_open();
        if (ftruncate(file_, size) != 0 || fsync(file_) != 0) fail_as<IoError>("cannot write ", path_, ": ", reason());
    }

    void close_file() {
        if (file_ >= 0) close(file_);
        file_ = -1;
    }

private:
    void require_open() const {
        if (file_ < 0) fail(path_, ": the journal is closed");
    }

    // A new name is only safe when its folder is on the disk too.
    void sync_folder() const {
        const std::string folder = std::filesystem::absolute(path_).parent_path().string();
        const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (handle < 0) return;
        fsync(handle);
        close(handle);
    }

    std::string path_;
    int file_;
};

Journal& check_journal(lua_State* L) { return *static_cast<Journal*>(luaL_checkudata(L, 1, journal_type)); }

// _open_journal(path) -> journal with the methods append(text), cut(size), close()
int open_journal(lua_State* L) {
    const std::string path = check_string(L, 1, "path");
    void* place = lua_newuserdatauv(L, sizeof(Journal), 0);
    new (place) Journal(path);
    luaL_setmetatable(L, journal_type);
    return 1;
}

int append_to_journal(lua_State* L) {
    check_journal(L).append(check_string(L, 2, "text"));
    return 0;
}

int cut_journal(lua_State* L) {
    check_journal(L).cut(check_integer(L, 2, "size"));
    return 0;
}

int close_journal(lua_State* L) {
    check_journal(L).close_file();
    return 0;
}

int destroy_journal(lua_State* L) {
    check_journal(L).~Journal();
    return 0;
}

// _make_folder(path): with the folders above it
int make_folder(lua_State* L) {
    const std::string path = check_string(L, 1, "path");
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (!std::filesystem::is_directory(path))
        fail("cannot make the folder ", path, ": ", error ? error.message() : "a file has this name");
    return 0;
}

// _replace_file(path, text): the file has either its old or its new content, whatever happens meanwhile
int replace_file(lua_State* L) {
    Writer file(check_string(L, 1, "path"));
    file.write(check_string(L, 2, "text"));
    file.commit();
    return 0;
}

using TemporaryFile = std::unique_ptr<FILE, int (*)(FILE*)>;

TemporaryFile temporary_file() {
    TemporaryFile file(std::tmpfile(), std::fclose);
    if (!file) fail_as<IoError>("cannot make a temporary file: ", reason());
    return file;
}

std::string content(FILE* file) {
    std::string text;
    std::rewind(file);
    char piece[1 << 14];
    for (std::size_t n; (n = std::fread(piece, 1, sizeof piece, file)) > 0;) text.append(piece, n);
    return text;
}

// The exit status of the child; 128 + signal where a signal ended it. A stopped computation ends the child.
int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) fail_as<SystemError>("cannot wait for a program: ", reason());
        if (interrupt::requested()) kill(child, SIGTERM);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// _run_program({name, argument, ...}, input) -> exit status, output, error output; nil where there is no such program.
// The program reads `input` as its standard input; no shell is between.
int run_program(lua_State* L) {
    std::vector<std::string> words = check_strings(L, 1, "program");
    if (words.empty()) fail("program: expected at least a name");
    const std::string input = check_string(L, 2, "input");

    // Files, not pipes: neither side can wait for the other.
    const TemporaryFile in = temporary_file(), out = temporary_file(), err = temporary_file();
    if (std::fwrite(input.data(), 1, input.size(), in.get()) != input.size() || std::fflush(in.get()) != 0)
        fail_as<IoError>("cannot write a temporary file: ", reason());
    std::rewind(in.get());

    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(in.get()), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(out.get()), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(err.get()), STDERR_FILENO);
    pid_t child = 0;
    const int fault = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (fault == ENOENT) {
        lua_pushnil(L);
        return 1;
    }
    if (fault != 0) fail_as<IoError>("cannot start ", words[0], ": ", std::strerror(fault));
    lua_pushinteger(L, wait_for(child));
    for (FILE* file : {out.get(), err.get()}) {
        const std::string text = content(file);
        lua_pushlstring(L, text.data(), text.size());
    }
    return 3;
}

}  // namespace

void open_support(lua_State* L) {
    luaL_newmetatable(L, journal_type);
    lua_pushcfunction(L, guarded<destroy_journal>);
    lua_setfield(L, -2, "__gc");
    const luaL_Reg methods[] = {{"append", guarded<append_to_journal>},
                                {"cut", guarded<cut_journal>},
                                {"close", guarded<close_journal>},
                                {nullptr, nullptr}};
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    add_functions(L, {
                         {"error_kind", guarded<error_kind>},
                         {"_raise", guarded<raise_message>},
                         {"_of_kind", guarded<message_of_kind>},
                         {"_check_options", guarded<check_options>},
                         {"_check_names", guarded<check_names>},
                         {"_open_journal", guarded<open_journal>},
                         {"_make_folder", guarded<make_folder>},
                         {"_replace_file", guarded<replace_file>},
                         {"_run_program", guarded<run_program>},
                     });
}

}  // namespace causeway::lua
