// Folders, files that are replaced whole, and child programs.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/file.hpp"
#include "core/base/interrupt.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

extern char** environ;

namespace causeway::lua {
namespace {

// mkpath(path): makes a folder, with those above it
int mkpath(lua_State* L) {
    const std::string path = check_string(L, 1, "path");
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (!std::filesystem::is_directory(path))
        fail_as<IoError>("cannot make the folder ", path, ": ", error ? error.message() : "a file has this name");
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

// The exit status of the child; 128 + signal where a signal ended it. A stopped computation ends the child.
int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) fail_as<SystemError>("cannot wait for a program: ", std::strerror(errno));
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
        fail_as<IoError>("cannot write a temporary file: ", std::strerror(errno));
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
        push_text(L, text);
    }
    return 3;
}

}  // namespace

void open_system(lua_State* L) {
    add_functions(L, {
                         {"mkpath", guarded<mkpath>},
                         {"_replace_file", guarded<replace_file>},
                         {"_run_program", guarded<run_program>},
                     });
}

}  // namespace causeway::lua
