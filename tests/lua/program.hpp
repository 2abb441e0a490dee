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

#include "tests/temporary.hpp"

namespace causeway::testing {

struct Output {
    int status;  // 128 + the signal where one ended the program, as in the system's shell
    std::string out, err;
};

// Seconds until the system's alarm ends a program of a test, far beyond what any takes: one that hangs fails its test with
// status 142, and the other tests still run.
constexpr unsigned longest_run = 300;

inline int shell_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

// Starts causeway with these arguments in `folder`, which is HOME too. Standard input, output and error are the files
// in, out and err there. Returns its process.
inline pid_t start_program(const TemporaryFolder& folder, std::vector<std::string> arguments, const std::string& input = "") {
    write_bytes(folder / "in", input);
    arguments.insert(arguments.begin(), CAUSEWAY_PROGRAM);
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(folder.path().c_str()) != 0) _exit(127);
    setenv("HOME", folder.path().c_str(), 1);
    for (const char* name : {"XDG_STATE_HOME", "COLUMNS", "LINES"}) unsetenv(name);
    dup2(open("in", O_RDONLY), STDIN_FILENO);
    dup2(open("out", O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open("err", O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    alarm(longest_run);
    execv(argv[0], argv.data());
    _exit(127);
}

// Waits until a program has made this file there. False when it has not within a minute.
inline bool wait_for_file(const std::string& path) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
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

inline Output run_program(const std::vector<std::string>& arguments, const std::string& input = "") {
    const TemporaryFolder folder;
    return wait_for_program(folder, start_program(folder, arguments, input));
}

}  // namespace causeway::testing
