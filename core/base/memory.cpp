#include "core/base/memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "core/base/error.hpp"

namespace causeway::memory {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t header = alignment;         // holds the size; keeps the block aligned
constexpr std::size_t always_allowed = 64u << 20; // smaller requests do not ask the system first

std::atomic<std::size_t> held{0};
std::atomic<std::size_t> most{0};
std::atomic<bool> poisoned{false};

std::size_t read_number(const char* path, std::size_t otherwise) {
    std::ifstream in(path);
    std::size_t value = 0;
    return in >> value ? value : otherwise;
}

std::string readable(std::size_t bytes) {
    const double gib = static_cast<double>(bytes) / (1u << 30);
    std::ostringstream out;
    out.precision(3);
    if (gib >= 0.1) out << gib << " GiB"; else out << static_cast<double>(bytes) / (1u << 20) << " MiB";
    return out.str();
}

}  // namespace

std::size_t available() {
    constexpr auto unlimited = std::numeric_limits<std::size_t>::max();
    std::size_t bytes = unlimited;
    std::ifstream info("/proc/meminfo");
    for (std::string key; info >> key;) {
        std::size_t kib = 0;
        if (key == "MemAvailable:" && info >> kib) bytes = kib * 1024;
        info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    const std::size_t limit = read_number("/sys/fs/cgroup/memory.max", unlimited);
    const std::size_t used = read_number("/sys/fs/cgroup/memory.current", 0);
    if (limit != unlimited) bytes = std::min(bytes, limit > used ? limit - used : 0);
    return bytes;
}

void* allocate(std::size_t bytes) {
    if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw OutOfMemory("out of memory: the size asked for is not a possible size");
    if (bytes > always_allowed) {
        const std::size_t left = available();
        if (bytes > left) {
            throw OutOfMemory(sentence("out of memory: ", readable(bytes), " were asked for and ", readable(left), " are available"));
        }
    }
    const std::size_t total = (bytes + header + alignment - 1) / alignment * alignment;
    auto* base = static_cast<unsigned char*>(std::aligned_alloc(alignment, total));
    if (!base) throw OutOfMemory(sentence("out of memory: ", readable(bytes), " were asked for"));
    std::memcpy(base, &bytes, sizeof bytes);
    if (poisoned.load(std::memory_order_relaxed)) std::memset(base + header, 0xFF, total - header);
    const std::size_t now = held.fetch_add(bytes) + bytes;
    for (std::size_t seen = most.load(); now > seen && !most.compare_exchange_weak(seen, now);) {}
    return base + header;
}

void release(void* block) noexcept {
    if (!block) return;
    auto* base = static_cast<unsigned char*>(block) - header;
    std::size_t bytes = 0;
    std::memcpy(&bytes, base, sizeof bytes);
    held.fetch_sub(bytes);
    std::free(base);
}

std::size_t current() noexcept { return held.load(); }
std::size_t peak() noexcept { return most.load(); }
void reset_peak() noexcept { most.store(held.load()); }
void set_poison(bool on) noexcept { poisoned.store(on); }

}  // namespace causeway::memory
