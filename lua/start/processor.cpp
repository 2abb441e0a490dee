// Runs before all else, and is compiled for every processor of its kind whatever the rest is compiled for: a program of
// a package goes on as the one beside it that was built for this processor, and one whose instructions this processor
// lacks ends with a sentence. Only C, so that no function of a header is taken from a file compiled otherwise.
#include "lua/start/needed.hpp"

#if defined(__x86_64__)

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace {

struct Known {
    const char* name;
    bool here;
};

constexpr int known_count = 15;
Known known[known_count];

void ask_the_processor() {
    __builtin_cpu_init();
    const Known answers[known_count] = {{"SSE3", __builtin_cpu_supports("sse3") != 0},
                                        {"SSSE3", __builtin_cpu_supports("ssse3") != 0},
                                        {"SSE4.1", __builtin_cpu_supports("sse4.1") != 0},
                                        {"SSE4.2", __builtin_cpu_supports("sse4.2") != 0},
                                        {"POPCNT", __builtin_cpu_supports("popcnt") != 0},
                                        {"AVX", __builtin_cpu_supports("avx") != 0},
                                        {"AVX2", __builtin_cpu_supports("avx2") != 0},
                                        {"FMA", __builtin_cpu_supports("fma") != 0},
                                        {"BMI", __builtin_cpu_supports("bmi") != 0},
                                        {"BMI2", __builtin_cpu_supports("bmi2") != 0},
                                        {"AVX-512F", __builtin_cpu_supports("avx512f") != 0},
                                        {"AVX-512CD", __builtin_cpu_supports("avx512cd") != 0},
                                        {"AVX-512DQ", __builtin_cpu_supports("avx512dq") != 0},
                                        {"AVX-512BW", __builtin_cpu_supports("avx512bw") != 0},
                                        {"AVX-512VL", __builtin_cpu_supports("avx512vl") != 0}};
    memcpy(known, answers, sizeof known);
}

bool here(const char* name) {
    for (const Known& each : known)
        if (strcmp(each.name, name) == 0) return each.here;
    return true;
}

bool needed(const char* name) {
    for (const char* const* each = causeway::lua::needed_instructions; *each; ++each)
        if (strcmp(*each, name) == 0) return true;
    return false;
}

// The levels of the psABI that a package has programs for, the best first, by what tells them from the level below.
struct Level {
    const char* name;
    const char* instructions[6];
};
constexpr Level levels[] = {{"x86-64-v4", {"AVX-512F", "AVX-512CD", "AVX-512DQ", "AVX-512BW", "AVX-512VL", nullptr}},
                            {"x86-64-v3", {"AVX2", "FMA", "BMI", "BMI2", nullptr}}};

bool runs(const Level& level) {
    for (const Level& each : levels) {
        for (const char* const* name = each.instructions; *name; ++name)
            if (!here(*name) && &each >= &level) return false;
    }
    return true;
}

// PREFIX/bin/NAME goes on as PREFIX/libexec/causeway/LEVEL/NAME, where that is there.
void become_the_best(char** argv) {
    char self[PATH_MAX], path[PATH_MAX + 64];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return;
    self[n] = '\0';
    char* const name = strrchr(self, '/');
    if (!name) return;
    *name = '\0';
    for (const Level& level : levels) {
        if (!runs(level)) continue;
        snprintf(path, sizeof path, "%s/../libexec/causeway/%s/%s", self, level.name, name + 1);
        execv(path, argv);
    }
}

__attribute__((constructor(101))) void start(int, char** argv, char**) {
    ask_the_processor();
    for (const char* const* each = causeway::lua::needed_instructions; *each; ++each) {
        if (here(*each)) continue;
        fprintf(stderr,
                "causeway: this program was built for a processor with %s, which this one lacks; build it here, or "
                "with -DCAUSEWAY_ARCH=x86-64\n",
                *each);
        _exit(1);
    }
    if (!needed("AVX2")) become_the_best(argv);
}

}  // namespace

#endif
