// Folders, files that are replaced whole, and child programs.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/file.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/base/zip.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

extern char** environ;

namespace causeway::lua {
namespace {

// mkpath(path): makes a folder, with those above it
int mkpath(lua_State* L) {
    const std::string path = with_home(check_string(L, 1, "path"));
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (!std::filesystem::is_directory(path))
        fail_as<IoError>("cannot make the folder ", path, ": ", error ? error.message() : "a file has this name");
    return 0;
}

// _replace_file(path, text): the file has either its old or its new content, whatever happens meanwhile
int replace_file(lua_State* L) {
    Writer file(with_home(check_string(L, 1, "path")));
    file.write(check_string(L, 2, "text"));
    file.commit();
    return 0;
}

using TemporaryFile = std::unique_ptr<FILE, int (*)(FILE*)>;

TemporaryFile temporary_file() {
    TemporaryFile file(std::tmpfile(), std::fclose);
    if (!file) fail_as<IoError>("cannot make a temporary file: ", std::strerror(errno));
    return file;
}

std::string content(FILE* file) {
    std::string text;
    std::rewind(file);
    char piece[1 << 14];
    for (std::size_t n; (n = std::fread(piece, 1, sizeof piece, file)) > 0;) text.append(piece, n);
    return text;
}

// A program that was started; it ends with the object.
class Child {
public:
    explicit Child(pid_t id) : id_(id) {}
    ~Child() {
        if (id_ <= 0) return;
        kill(id_, SIGTERM);
        while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {}
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    // The exit status; 128 + signal where a signal ended it. A stopped computation ends the child.
    int wait() {
        while (!ended(0)) {}
        return exit_status();
    }

    // Likewise; every 100 ms calls the function of Lua at `index`.
    int wait_and_call(lua_State* L, int index) {
        while (!ended(WNOHANG)) {
            lua_pushvalue(L, index);
            lua_call(L, 0, 0);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        return exit_status();
    }

private:
    bool ended(int flags) {
        const pid_t id = waitpid(id_, &status_, flags);
        if (id < 0 && errno != EINTR) fail_as<SystemError>("cannot wait for a program: ", std::strerror(errno));
        if (id <= 0 && interrupt::requested()) kill(id_, SIGTERM);
        return id > 0;
    }

    int exit_status() {
        id_ = 0;
        return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    }

    pid_t id_;
    int status_ = 0;
};

// The environment of this process with the entries of the table at `index` in place of those with their names; as this
// process has it where there is no table.
std::vector<std::string> environment(lua_State* L, int index) {
    std::vector<std::string> out, names;
    if (lua_istable(L, index)) {
        for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
            names.push_back(check_string(L, -2, "environment") + "=");
            out.push_back(names.back() + check_string(L, -1, "environment"));
        }
    }
    for (char** entry = environ; *entry; ++entry) {
        const std::string_view text = *entry;
        const auto replaces = [&](const std::string& name) { return text.starts_with(name); };
        if (std::none_of(names.begin(), names.end(), replaces)) out.emplace_back(text);
    }
    return out;
}

// The pointers that the system wants, a null behind them.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (auto& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

// _run_program({name, argument, ...}, input[, {environment = {NAME = value}, waiting = function}]) -> exit status,
// output, error output; nil where there is no such program. The program reads `input` as its standard input; no shell
// is between. The function is called again and again while the program runs.
int run_program(lua_State* L) {
    std::vector<std::string> words = check_strings(L, 1, "program");
    if (words.empty()) fail("program: expected at least a name");
    const std::string input = check_string(L, 2, "input");

    // Files, not pipes: neither side can wait for the other.
    const TemporaryFile in = temporary_file(), out = temporary_file(), err = temporary_file();
    if (std::fwrite(input.data(), 1, input.size(), in.get()) != input.size() || std::fflush(in.get()) != 0)
        fail_as<IoError>("cannot write a temporary file: ", std::strerror(errno));
    std::rewind(in.get());

    const bool has_options = lua_istable(L, 3);
    lua_settop(L, 3);
    for (const char* field : {"environment", "waiting"}) {
        if (has_options) lua_getfield(L, 3, field);
        else lua_pushnil(L);
    }
    std::vector<std::string> entries = environment(L, 4);
    const std::vector<char*> arguments = pointers_to(words), variables = pointers_to(entries);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(in.get()), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(out.get()), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(err.get()), STDERR_FILENO);
    pid_t id = 0;
    const int fault = posix_spawnp(&id, arguments[0], &actions, nullptr, arguments.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    if (fault == ENOENT) {
        lua_pushnil(L);
        return 1;
    }
    if (fault != 0) fail_as<IoError>("cannot start ", words[0], ": ", std::strerror(fault));
    Child child(id);
    lua_pushinteger(L, lua_isfunction(L, 5) ? child.wait_and_call(L, 5) : child.wait());
    for (FILE* file : {out.get(), err.get()}) {
        const std::string text = content(file);
        push_text(L, text);
    }
    return 3;
}

// _bytes_below(folder) -> the bytes of all files in it and below
int bytes_below(lua_State* L) {
    namespace fs = std::filesystem;
    std::uintmax_t sum = 0;
    std::error_code error;
    fs::recursive_directory_iterator file(check_string(L, 1, "folder"), error);
    for (; !error && file != fs::recursive_directory_iterator(); file.increment(error)) {
        std::error_code vanished;
        if (const auto size = fs::is_regular_file(*file, vanished) ? file->file_size(vanished) : 0; !vanished)
            sum += size;
    }
    lua_pushinteger(L, static_cast<lua_Integer>(sum));
    return 1;
}

// _files_in(folder) -> the names of the files in it, sorted
int files_in(lua_State* L) {
    const std::string folder = check_string(L, 1, "folder");
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator file(folder, error);
    for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
        std::error_code vanished;
        if (file->is_regular_file(vanished)) names.push_back(file->path().filename());
    }
    if (error) fail_as<IoError>("cannot list the folder ", folder, ": ", error.message());
    std::sort(names.begin(), names.end());
    lua_createtable(L, static_cast<int>(names.size()), 0);
    for (std::size_t i = 0; i < names.size(); ++i) {
        push_text(L, names[i]);
        lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
    }
    return 1;
}

// The path of what is there that is meant by one of what is not: each part the nearest name in its folder; "" where one
// has none.
std::string near_path(const std::string& path) {
    namespace fs = std::filesystem;
    fs::path found;
    for (const fs::path& part : fs::path(path)) {
        std::error_code error;
        if (fs::exists(found / part, error)) {
            found /= part;
            continue;
        }
        std::vector<std::string> names;
        fs::directory_iterator entry(found.empty() ? "." : found, error);
        for (; !error && entry != fs::directory_iterator(); entry.increment(error))
            if (entry->path().filename() != part) names.push_back(entry->path().filename());  // a link to nowhere
        std::sort(names.begin(), names.end());
        const auto same = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
            return in_lower_case(name) == in_lower_case(part.string());
        });
        const std::string near = same != names.end() ? *same : closest(part.string(), names);
        if (near.empty()) return "";
        found /= near;
    }
    return found;
}

// _beside_program(path) -> such a path in a folder that the program lies in, the nearest first, as that of the sources
// it was built in; nil where none has it
int beside_program(lua_State* L) {
    namespace fs = std::filesystem;
    const std::string path = check_string(L, 1, "path");
    std::error_code error;
    for (fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();; folder = folder.parent_path()) {
        if (fs::exists(folder / path, error)) {
            push_text(L, (folder / path).string());
            return 1;
        }
        if (folder == folder.parent_path()) return 0;
    }
}

// _near_path(path) -> the path of the file or folder that may be meant by one that is not there, or ""
int near_path_of(lua_State* L) {
    const std::string near = near_path(with_home(check_string(L, 1, "path")));
    push_text(L, near);
    return 1;
}

// _path_kind(path) -> "file", "folder", or nil where there is neither
int path_kind(lua_State* L) {
    std::error_code error;
    const auto status = std::filesystem::status(with_home(check_string(L, 1, "path")), error);
    if (std::filesystem::is_directory(status)) lua_pushliteral(L, "folder");
    else if (std::filesystem::is_regular_file(status)) lua_pushliteral(L, "file");
    else lua_pushnil(L);
    return 1;
}

// _with_temporary_folder(path, f) -> what f(folder) returns: a new folder whose name begins with the path, which goes
// away with all that is in it, however the call ends: after Ctrl-C no Lua code runs that could remove it
int with_temporary_folder(lua_State* L) {
    struct Folder {
        std::string path;
        ~Folder() {
            std::error_code ignored;
            std::filesystem::remove_all(path, ignored);
        }
    };
    std::string pattern = check_string(L, 1, "path") + "XXXXXX";
    if (!mkdtemp(pattern.data())) fail_as<IoError>("cannot make the folder ", pattern, ": ", std::strerror(errno));
    const Folder folder{pattern};
    lua_settop(L, 2);
    lua_pushlstring(L, pattern.data(), pattern.size());
    lua_call(L, 1, LUA_MULTRET);
    return lua_gettop(L) - 1;
}

// _sha256(path) -> the sum of the file, 64 hexadecimal digits
int sha256(lua_State* L) {
    const std::string text = sha256_of_file(check_string(L, 1, "path"));
    lua_pushlstring(L, text.data(), text.size());
    return 1;
}

// _unpack(archive, ending, target, sum): the one member of the zip archive whose name ends so becomes the file
// `target`, whole or not at all; an error unless the bytes have this SHA-256
int unpack(lua_State* L) {
    const std::string path = check_string(L, 1, "archive"), ending = check_string(L, 2, "ending");
    const std::string target = check_string(L, 3, "target"), expected = check_string(L, 4, "sum");
    const Source archive(path);
    std::optional<zip::Member> found;
    for (const zip::Member& member : zip::members(archive))
        if (member.name.ends_with(ending)) found = member;
    if (!found) fail_as<IoError>(path, ": holds no file whose name ends in ", ending);
    const zip::Unpacked member(archive, *found, path + ": " + found->name);
    Writer out(target);
    Sha256 sum;
    std::vector<unsigned char> piece(std::size_t{1} << 20);
    for (std::uint64_t at = 0; at < found->size; at += piece.size()) {
        interrupt::check();
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), found->size - at));
        const std::span<unsigned char> part(piece.data(), size);
        member.read(at, part);
        sum.add(part);
        out.write(Bytes(part));
    }
    member.finish();
    if (sum.text() != expected)
        fail_as<IoError>(path, ": ", found->name, " has the SHA-256 ", sum.text(), ", expected ", expected);
    out.commit();
    return 0;
}

}  // namespace

void open_system(lua_State* L) {
    add_functions(L, {
                         {"mkpath", guarded<mkpath>},
                         {"_replace_file", guarded<replace_file>},
                         {"_run_program", guarded<run_program>},
                         {"_bytes_below", guarded<bytes_below>},
                         {"_files_in", guarded<files_in>},
                         {"_near_path", guarded<near_path_of>},
                         {"_beside_program", guarded<beside_program>},
                         {"_path_kind", guarded<path_kind>},
                         {"_with_temporary_folder", guarded<with_temporary_folder>},
                         {"_sha256", guarded<sha256>},
                         {"_unpack", guarded<unpack>},
                     });
}

}  // namespace causeway::lua
