#include "core/base/mapping.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.hpp"

namespace causeway {

// What the handler of SIGBUS knows of a mapping. Ranges are reused and never freed, so the handler can walk them
// whatever the interrupted thread, or another, is doing to a mapping.
struct Range {
    std::atomic<std::uintptr_t> begin{0}, end{0};
    std::atomic<bool> cut_off{false};
    bool in_use = false;          // guarded by `ranges_mutex`
    const Mapping* of = nullptr;  // likewise
    Range* next = nullptr;        // written before the range can be reached
};

namespace {

std::mutex ranges_mutex;
std::atomic<Range*> ranges{nullptr};
std::atomic<int> cut_off_count{0};
std::uintptr_t page = 4096;
struct sigaction before {};

// Calls nothing but system calls that are safe in a handler.
void on_missing_page(int, siginfo_t* info, void*) {
    const int cause = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (Range* r = ranges.load(); r; r = r->next) {
        const std::uintptr_t end = r->end.load();
        if (address < r->begin.load() || address >= end) continue;
        // All that follows is missing as well: one mapping of zeros for the rest, not a fault a page.
        const std::uintptr_t from = address / page * page;
        void* const zeros = ::mmap(reinterpret_cast<void*>(from), end - from, PROT_READ,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (zeros == MAP_FAILED) break;
        if (!r->cut_off.exchange(true)) cut_off_count.fetch_add(1);
        errno = cause;
        return;
    }
    // Not ours: the instruction runs again, and faults under the handler that was there before.
    ::sigaction(SIGBUS, &before, nullptr);
    errno = cause;
}

void install_handler() {
    static const bool once = [] {
        page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        struct sigaction action {};
        action.sa_sigaction = on_missing_page;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigemptyset(&action.sa_mask);
        return ::sigaction(SIGBUS, &action, &before) == 0;
    }();
    (void)once;
}

Range* take_range(const Mapping* of, Bytes bytes) {
    const std::lock_guard lock(ranges_mutex);
    Range* free = ranges.load();
    while (free && free->in_use) free = free->next;
    if (!free) {
        free = new Range;
        free->next = ranges.load();
        ranges.store(free);
    }
    free->in_use = true;
    free->of = of;
    free->begin.store(reinterpret_cast<std::uintptr_t>(bytes.data()));
    free->end.store(reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()));
    return free;
}

void give_back(Range* range) {
    const std::lock_guard lock(ranges_mutex);
    range->end.store(0);
    range->begin.store(0);
    if (range->cut_off.exchange(false)) cut_off_count.fetch_sub(1);
    range->of = nullptr;
    range->in_use = false;
}

std::int64_t changed_at(const struct stat& info) {
    return std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

[[noreturn]] void fail_cut_off(const std::string& name) { fail_as<IoError>(name, ": was cut off while it was in use"); }

}  // namespace

Mapping::Mapping(const std::string& path) : name_(path), file_(open_regular(path, O_RDONLY, "read")) {
    struct stat info {};
    void* at = nullptr;
    bool mapped = ::fstat(file_, &info) == 0;
    if (mapped && info.st_size > 0) {
        at = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file_, 0);
        mapped = at != MAP_FAILED;
    }
    if (!mapped) {
        const int cause = errno;
        ::close(file_);
        fail_as<IoError>(path, ": cannot be mapped: ", std::strerror(cause));
    }
    changed_at_ = changed_at(info);
    if (!at) return;  // an empty file
    bytes_ = {static_cast<const unsigned char*>(at), static_cast<std::size_t>(info.st_size)};
    install_handler();
    range_ = take_range(this, bytes_);
}

Mapping::~Mapping() {
    if (range_) {
        give_back(range_);
        ::munmap(const_cast<unsigned char*>(bytes_.data()), bytes_.size());
    }
    ::close(file_);
}

void Mapping::check() const {
    if (range_ && range_->cut_off.load()) fail_cut_off(name_);
    struct stat info {};
    if (::fstat(file_, &info) != 0) fail_as<IoError>(name_, ": cannot be read: ", std::strerror(errno));
    if (static_cast<std::uint64_t>(info.st_size) < bytes_.size()) fail_cut_off(name_);
    if (changed_at(info) != changed_at_ || static_cast<std::uint64_t>(info.st_size) != bytes_.size())
        fail_as<IoError>(name_, ": was changed while it was in use");
}

void check_mapped(const void* address) {
    if (cut_off_count.load(std::memory_order_relaxed) == 0) return;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::lock_guard lock(ranges_mutex);
    for (const Range* r = ranges.load(); r; r = r->next)
        if (r->of && r->cut_off.load() && at >= r->begin.load() && at < r->end.load()) fail_cut_off(r->of->name());
}

}  // namespace causeway
