#include "tests/faults/snapshots.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "tests/faults/hooks.hpp"

namespace causeway::faults {
namespace {

// The folder of a copy, beside that of the process: what it writes is not there for the process and later copies.
constexpr const char* folder_of_copy = "../copy";

struct Watch {
    Places* places = nullptr;
    Report* report = nullptr;
    pthread_t thread{};
    long tasks = 0;
    int descriptors = 0;
    const Place* here = nullptr;
};

Watch watched;

// Threads of this process. The system counts them as folders.
long tasks() {
    struct stat all {};
    return stat("/proc/self/task", &all) == 0 ? static_cast<long>(all.st_nlink) : -1;
}

// The pool computes, and its threads are started and ended, only while a mutex is held by the thread that calls it.
bool can_copy() {
    return pthread_equal(watched.thread, pthread_self()) && mutexes_held() == 0 && tasks() == watched.tasks &&
           open_descriptors() == watched.descriptors;
}

void enter_folder_of_copy() {
    std::filesystem::copy(".", folder_of_copy, std::filesystem::copy_options::recursive);
    std::filesystem::current_path(folder_of_copy);
}

}  // namespace

std::string text_of(const Place& p) { return std::to_string(p.at) + (p.lasting ? " and all later" : ""); }

bool in_copy(const Place& place, Report& report) {
    const long refused = report.refused;
    alarm(0);
    const pid_t copy = fork();
    if (copy == 0) {
        alarm(patience);
        enter_folder_of_copy();
        return true;
    }
    int status = 0;
    if (copy > 0) waitpid(copy, &status, 0);
    alarm(patience);
    std::filesystem::remove_all(folder_of_copy);
    ++report.tried;
    if (copy < 0) {
        report.fault(text_of(place) + ": no copy of the process could be made");
    } else if (!ended_well(status)) {
        report.fault(text_of(place) + ": " + death(status));
        ++report.deaths;
        report.refused = refused + 1;
    }
    return false;
}

void watch(Places& places, Report& report) {
    watched = {&places, &report, pthread_self(), tasks(), open_descriptors(), nullptr};
}

void look(long number) noexcept {
    auto& [all, tried] = *watched.places;
    auto place = std::lower_bound(all.begin(), all.end(), number, [](const Place& p, long at) { return p.at < at; });
    if (place == all.end() || place->at != number || !can_copy()) return;
    for (; place != all.end() && place->at == number; ++place) {
        tried[static_cast<std::size_t>(place - all.begin())] = 1;
        if (!in_copy(*place, *watched.report)) continue;
        watched.here = &*place;
        return refuse_from(number, place->lasting);
    }
}

const Place* place_of_copy() { return watched.here; }

int open_descriptors() {
    constexpr int most = 64;  // more than are open in any example
    int open = 0;
    for (int descriptor = 0; descriptor < most; ++descriptor) open += fcntl(descriptor, F_GETFD) >= 0;
    return open;
}

}  // namespace causeway::faults
