// What the programs that refuse calls of the system share: cases run in a process of their own, which may die of them.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace causeway::faults {

constexpr unsigned patience = 120;  // seconds for one call; one that takes longer hangs
constexpr int run_again_every = 8;  // refused calls between two runs of the example with none refused

// What the process that runs cases tells the one that waits for it, in memory that both see.
struct Report {
    std::size_t next;  // place in the list of those to try
    long tried, refused;
    int faults, deaths;  // of processes, where each case has one of its own
    char text[1 << 14];  // one line for each of the first faults

    void fault(const std::string& what) {
        ++faults;
        const std::size_t used = std::strlen(text);
        std::snprintf(text + used, sizeof text - used, "    %s\n", what.c_str());
    }
};

// A T of zeros that this process and its children see.
template <class T>
T& shared() {
    void* place = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) {
        std::perror("mmap");
        std::exit(2);
    }
    return *static_cast<T*>(place);
}

// Calls f in a process of its own. The status that waitpid tells.
template <class F>
int in_child(F f) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        f();
        std::fflush(nullptr);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

inline bool ended_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

// "the process died of Segmentation fault"
inline std::string death(int status) {
    return "the process died" + (WIFSIGNALED(status) ? std::string(" of ") + strsignal(WTERMSIG(status)) : "");
}

// Answers an option that the program does not have, or --help, by all that it has. The exit status.
inline int told_usage(const char* program, const std::string& option, const char* usage) {
    const bool asked = option == "--help";
    if (!asked) std::fprintf(stderr, "%s: %s: unknown, expected one of these options:\n\n", program, option.c_str());
    std::fputs(usage, asked ? stdout : stderr);
    return asked ? 0 : 2;
}

}  // namespace causeway::faults
