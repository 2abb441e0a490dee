#include "core/base/memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/base/system_file.hpp"

namespace causeway::memory {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t header = alignment;         // holds a Header; keeps the block aligned
constexpr std::size_t always_allowed = 8u << 20;  // smaller requests do not ask the system first
constexpr std::size_t margin = 128u << 20;        // left to the rest of the system

struct Header {
    std::size_t bytes;  // asked for
    std::size_t total;  // of the block, header included
};
static_assert(sizeof(Header) <= header);

std::atomic<std::size_t> held{0};
std::atomic<std::size_t> largest{0};
std::atomic<bool> poisoned{false};

// Large blocks that were released, for the next request of about their size. Fresh pages cost more than the fastest
// methods take to fill them: at N = 8192, h = 8, d = 128 the output of one call alone was 8192 page faults, 7 of 31 ms.
// At most an eighth of the machine's memory waits here; all of it is given back before a request is refused.
class Recycler {
public:
    static constexpr std::size_t smallest = 1u << 20;

    // A block of at least `total` bytes and at most half as much again, or null.
    unsigned char* take(std::size_t& total) {
        std::lock_guard lock(mutex_);
        auto best = blocks_.end();
        for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
            if (it->total >= total && it->total <= total + total / 2 &&
                (best == blocks_.end() || it->total < best->total))
                best = it;
        }
        if (best == blocks_.end()) return nullptr;
        unsigned char* base = best->base;
        total = best->total;
        kept_ -= total;
        blocks_.erase(best);
        return base;
    }

    // False where there is no room for it; the caller frees it then.
    bool keep(unsigned char* base, std::size_t total) noexcept {
        if (total > limit_) return false;
        std::lock_guard lock(mutex_);
        while (kept_ + total > limit_ || blocks_.size() == max_blocks) drop_oldest();
        blocks_.push_back({base, total});
        kept_ += total;
        return true;
    }

    void clear() noexcept {
        std::lock_guard lock(mutex_);
        while (!blocks_.empty()) drop_oldest();
    }

    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

private:
    static constexpr std::size_t max_blocks = 64;

    struct Block {
        unsigned char* base;
        std::size_t total;
    };

    void drop_oldest() noexcept {
        std::free(blocks_.front().base);
        kept_ -= blocks_.front().total;
        blocks_.erase(blocks_.begin());
    }

    std::mutex mutex_;
    std::vector<Block> blocks_ = [] {
        std::vector<Block> room;
        room.reserve(max_blocks);  // so that keep() allocates nothing
        return room;
    }();
    std::size_t kept_ = 0;
#if defined(__SANITIZE_ADDRESS__)
    const std::size_t limit_ = 0;  // every block is fresh, so that its misuse is seen
#else
    const std::size_t limit_ =
        static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) / 8 * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
#endif
};

std::mutex large_requests;  // one large request after the other, so that each sees those before it

// Never destroyed: tensors of other static objects may be released later. A forked child gets it whole. Made where the
// first large block is asked for: releasing one must not allocate.
Recycler& recycler() {
    static auto& one = *[] {
        auto made = std::make_unique<Recycler>();
        process::around_fork(
            [] {
                large_requests.lock();
                recycler().lock();
            },
            [] {
                recycler().unlock();
                large_requests.unlock();
            });
        return made.release();
    }();
    return one;
}

// A new block of `total` bytes, in huge pages where it is large.
unsigned char* fresh_block(std::size_t& total) {
    constexpr std::size_t huge = 2u << 20;
    if (total < 2 * huge) return static_cast<unsigned char*>(std::aligned_alloc(alignment, total));
    total = (total + huge - 1) / huge * huge;
    auto* base = static_cast<unsigned char*>(std::aligned_alloc(huge, total));
    if (base) ::madvise(base, total, MADV_HUGEPAGE);  // advice: where it is not taken, nothing is lost
    return base;
}

std::string readable(std::size_t bytes) {
    const double gib = static_cast<double>(bytes) / (1u << 30);
    std::ostringstream out;
    out.precision(3);
    if (gib >= 0.1) out << gib << " GiB";
    else out << static_cast<double>(bytes) / (1u << 20) << " MiB";
    return out.str();
}

// What a control group allows, a number or "max", and what of it is taken: of version 2, then 1.
struct Group {
    const char *limit, *used;
};
constexpr Group groups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};

}  // namespace

std::size_t total() {
    struct sysinfo machine {};
    std::size_t bytes = std::numeric_limits<std::size_t>::max();
    if (::sysinfo(&machine) == 0) bytes = static_cast<std::size_t>(machine.totalram) * machine.mem_unit;
    for (const Group& group : groups) bytes = std::min(bytes, SystemFile(group.limit).number().value_or(bytes));
    return bytes;
}

std::size_t available() {
    const auto kib = SystemFile("/proc/meminfo").number("MemAvailable:");
    std::size_t bytes = kib ? *kib * 1024 : total();
    for (const Group& group : groups) {
        if (const auto most = SystemFile(group.limit).number())
            bytes = std::min(bytes, *most - std::min(*most, SystemFile(group.used).number().value_or(0)));
    }
    return bytes;
}

namespace {

// Bytes that can still be had when what was handed out and not yet touched is.
std::size_t unpromised() {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t resident = page * SystemFile("/proc/self/statm").number(" ").value_or(0);  // the second number
    const std::size_t promised = held.load() > resident ? held.load() - resident : 0;
    const std::size_t left = available();
    return left > promised ? left - promised : 0;
}

}  // namespace

void* allocate(std::size_t bytes) {
    if (bytes > std::numeric_limits<std::size_t>::max() / 2)
        throw OutOfMemory("out of memory: the size asked for is not a possible size");
    // At least one byte, so that the address returned lies inside the block.
    std::size_t total = (std::max<std::size_t>(bytes, 1) + header + alignment - 1) / alignment * alignment;
    unsigned char* base = total >= Recycler::smallest ? recycler().take(total) : nullptr;
    std::unique_lock<std::mutex> turn(large_requests, std::defer_lock);
    if (!base && bytes > always_allowed) {
        turn.lock();
        if (bytes + margin > unpromised()) recycler().clear();
        const std::size_t left = unpromised();
        if (bytes + margin > left) {
            throw OutOfMemory(
                sentence("out of memory: ", readable(bytes), " were asked for and ", readable(left), " are available"));
        }
    }
    if (!base) base = fresh_block(total);
    if (!base) throw OutOfMemory(sentence("out of memory: ", readable(bytes), " were asked for"));
    const Header note{bytes, total};
    std::memcpy(base, &note, sizeof note);
    if (poison()) std::memset(base + header, 0xFF, bytes);
    const std::size_t now = held.fetch_add(bytes) + bytes;
    for (std::size_t seen = largest.load(); now > seen && !largest.compare_exchange_weak(seen, now);) {}
    return base + header;
}

namespace {

struct Range {
    const unsigned char *begin, *end;
};

struct Kept {
    std::mutex mutex;  // guards the ranges
    std::vector<Range> ranges;
    bool all = false;  // as there was no memory to note one
};
std::atomic<bool> any_kept;

Kept& kept() {
    alignas(Kept) static unsigned char place[sizeof(Kept)];
    static auto& one = *new (place) Kept;  // never destroyed, and made without memory
    return one;
}

bool is_kept(const unsigned char* begin, std::size_t bytes) {
    const std::lock_guard lock(kept().mutex);
    return kept().all || std::any_of(kept().ranges.begin(), kept().ranges.end(),
                                     [&](const Range& r) { return r.begin < begin + bytes && begin < r.end; });
}

}  // namespace

void keep_for_ever(const void* data, std::size_t bytes) noexcept {
    const auto* begin = static_cast<const unsigned char*>(data);
    const std::lock_guard lock(kept().mutex);
    try {
        kept().ranges.push_back({begin, begin + bytes});
    } catch (const std::bad_alloc&) {
        kept().all = true;
    }
    any_kept = true;
}

void release(void* block) noexcept {
    if (!block) return;
    auto* base = static_cast<unsigned char*>(block) - header;
    Header note;
    std::memcpy(&note, base, sizeof note);
    if (any_kept.load(std::memory_order_relaxed) && is_kept(base + header, note.bytes)) return;
    held.fetch_sub(note.bytes);
    if (note.total < Recycler::smallest || !recycler().keep(base, note.total)) std::free(base);
}

std::size_t current() noexcept { return held.load(); }
std::size_t peak() noexcept { return largest.load(); }
void reset_peak() noexcept { largest.store(held.load()); }
void set_poison(bool on) noexcept { poisoned.store(on); }
bool poison() noexcept { return poisoned.load(std::memory_order_relaxed); }

}  // namespace causeway::memory
