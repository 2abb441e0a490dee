// A host of plugins: what it set up for itself must be as it was after a plugin has computed, and it unloads the plugin
// whose worker threads still wait for work.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

int failures = 0;

void check(bool right, const char* what) {
    if (right) return;
    ++failures;
    std::fprintf(stderr, "host: %s\n", what);
}

// What belongs to the process as a whole.
struct Surroundings {
    std::string handlers, locale, folder;
    int rounding = 0;
    unsigned control = 0;  // of SSE: rounding, flushing of denormal numbers, exceptions
    mode_t mask = 0;
    off_t written = 0;  // to standard output, which is a file here

    bool operator==(const Surroundings&) const = default;
};

Surroundings now() {
    Surroundings s;
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction action;
        std::memset(&action, 0, sizeof action);
        if (sigaction(signal, nullptr, &action) != 0) continue;
        s.handlers.append(reinterpret_cast<const char*>(&action.sa_handler), sizeof action.sa_handler);
        s.handlers += std::to_string(action.sa_flags) + ";";
    }
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    for (int signal = 1; signal < NSIG; ++signal) s.handlers += sigismember(&blocked, signal) == 1 ? '1' : '0';
    s.locale = std::setlocale(LC_ALL, nullptr);
    char folder[4096];
    s.folder = getcwd(folder, sizeof folder) ? folder : "";
    s.rounding = std::fegetround();
#if defined(__x86_64__)
    s.control = _mm_getcsr() & ~0x3Fu;  // without the flags of what has happened
#endif
    s.mask = umask(0);
    umask(s.mask);
    std::fflush(stdout);
    struct stat info;
    if (fstat(STDOUT_FILENO, &info) == 0) s.written = info.st_size;
    return s;
}

// Of this process.
int threads() {
    int count = 0;
    FILE* const status = std::fopen("/proc/self/status", "r");
    char line[256];
    while (status && std::fgets(line, sizeof line, status))
        if (std::sscanf(line, "Threads: %d", &count) == 1) break;
    if (status) std::fclose(status);
    return count;
}

using Compute = double (*)();
using Refuses = bool (*)();

struct Plugin {
    void* handle = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    Compute compute = handle ? reinterpret_cast<Compute>(dlsym(handle, "plugin_compute")) : nullptr;
    Refuses refuses = handle ? reinterpret_cast<Refuses>(dlsym(handle, "plugin_refuses")) : nullptr;
};

}  // namespace

int main() {
    alarm(300);
    // A host with settings of its own, which are not the usual ones.
    std::setlocale(LC_ALL, "C.UTF-8");
    signal(SIGINT, SIG_IGN);
    signal(SIGFPE, [](int) {});
    FILE* const out = std::tmpfile();
    check(out && dup2(fileno(out), STDOUT_FILENO) >= 0, "no file for standard output");

    const Surroundings before = now();
    double first = 0;
    int workers = 0;
    for (int round = 0; round < 5; ++round) {
        const Plugin plugin;
        if (!plugin.compute || !plugin.refuses) {
            std::fprintf(stderr, "host: %s\n", dlerror());
            return 1;
        }
        const double sum = plugin.compute();
        if (round == 0) first = sum, workers = threads();
        check(sum == first, "another result than before the plugin was unloaded");
        check(plugin.refuses(), "a wrong argument was not refused");
        check(now() == before, "the plugin has changed what belongs to the host");
        // A child that forks from here computes too.
        const pid_t child = fork();
        if (child == 0) _exit(plugin.compute() == first ? 0 : 1);
        int status = -1;
        waitpid(child, &status, 0);
        check(status == 0, "a forked child did not compute the same");
        check(dlclose(plugin.handle) == 0, "the plugin could not be unloaded");
        usleep(20000);  // a worker whose code were gone would die of its next step
        // Nobody could reach those that the plugin had left, and it would start others.
        check(threads() == workers, "every round of the plugin leaves more threads behind");
    }
    // With rounding towards zero and denormal numbers flushed, as some hosts have it, the modes stay too.
    std::fesetround(FE_TOWARDZERO);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
    const Surroundings unusual = now();
    {
        const Plugin plugin;
        plugin.compute();
        check(now() == unusual, "the plugin has changed the rounding mode of the host");
        dlclose(plugin.handle);
    }
    std::fesetround(FE_TONEAREST);
    if (failures == 0) std::fprintf(stderr, "a host that loads, forks and unloads a plugin finds itself as it was\n");
    return failures == 0 ? 0 : 1;
}
