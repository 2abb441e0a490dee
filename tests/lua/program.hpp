// Runs the program and keeps what it prints.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/paths.hpp"
#include "tests/temporary.hpp"

namespace causeway::testing {

struct Output {
    int status;  // 128 + the signal where one ended the program, as in the system's shell
    std::string out, err;
};

// Seconds until the system's alarm ends a program of a test, far beyond what any takes: one that hangs fails its test
// with status 142, and the other tests still run.
constexpr unsigned longest_run = 300;

// How long a program may take to show or to make something, on a machine that has other work too.
constexpr std::chrono::minutes patience{1};

inline int shell_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

// The command line of causeway with these arguments, which must stay.
inline std::vector<char*> command_line(std::vector<std::string>& arguments,
                                       const std::string& program = program_path()) {
    arguments.emplace(arguments.begin(), program);
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    return argv;
}

// In a child: becomes causeway in `folder`, which is HOME too, away from a person's settings. `environment` holds
// "NAME=value".
[[noreturn]] inline void become_program(const std::string& folder, const std::vector<char*>& argv,
                                        std::vector<std::string> environment = {}) {
    if (chdir(folder.c_str()) != 0) _exit(127);
    setenv("HOME", folder.c_str(), 1);
    for (const char* name : {"XDG_STATE_HOME", "INPUTRC", "NO_COLOR", "COLUMNS", "LINES"}) unsetenv(name);
    for (auto& variable : environment) putenv(variable.data());
    alarm(longest_run);
    execv(argv[0], argv.data());
    _exit(127);
}

// Starts causeway with these arguments in `folder`, which is HOME too. Standard input, output and error are the files
// in, out and err there. Returns its process.
inline pid_t start_program(const TemporaryFolder& folder, std::vector<std::string> arguments,
                           const std::string& input = "") {
    write_bytes(folder / "in", input);
    const auto argv = command_line(arguments);
    const pid_t child = fork();
    if (child != 0) return child;
    dup2(open((folder / "in").c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    become_program(folder.path(), argv);
}

// Waits until a program has made this file. False when it has not in time.
inline bool wait_for_file(const std::string& path) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (!std::filesystem::exists(path)) {
        if (std::chrono::steady_clock::now() >= limit) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

inline Output wait_for_program(const TemporaryFolder& folder, pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return {shell_status(status), read_bytes(folder / "out"), read_bytes(folder / "err")};
}

// Runs it to its end in a folder where it may have run before.
inline Output run_in(const TemporaryFolder& folder, std::vector<std::string> arguments) {
    std::filesystem::remove(folder / "out");
    std::filesystem::remove(folder / "err");
    return wait_for_program(folder, start_program(folder, std::move(arguments)));
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Every run of blanks and ends of lines as one blank: pages and notes are wrapped.
inline std::string squeezed(const std::string& text) {
    std::string out;
    for (const char c : text) {
        const bool blank = c == ' ' || c == '\n';
        if (!blank || (!out.empty() && out.back() != ' ')) out += blank ? ' ' : c;
    }
    return out;
}

// How often the part is in the text.
inline int count(const std::string& text, const std::string& part) {
    int n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

inline Output run_program(const std::vector<std::string>& arguments, const std::string& input = "") {
    const TemporaryFolder folder;
    return wait_for_program(folder, start_program(folder, arguments, input));
}

}  // namespace causeway::testing
