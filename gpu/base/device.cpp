#include "gpu/base/device.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "gpu/base/choose_device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"

namespace causeway::gpu {

namespace {

constexpr int oldest_compute = 80;

// Devices that have been found to be usable, a bit for each: every call of the shell asks.
std::atomic<std::uint64_t> usable{0};

std::string why_unavailable() {
    if (forked_after_use()) return not_in_forked_child;
    int driver = 0, count = 0, current = 0;
    const auto bit = [&] { return current < 64 ? std::uint64_t{1} << current : 0; };
    cudaError_t code = cudaGetDevice(&current);
    if (succeeded(code) && (usable & bit())) return {};
    const auto cannot_start = [](cudaError_t why) { return sentence("CUDA cannot start: ", cudaGetErrorString(why)); };
    if (const cudaError_t asked = cudaDriverGetVersion(&driver); !succeeded(asked)) return cannot_start(asked);
    if (driver == 0) return "no NVIDIA driver is installed";
    if (const cudaError_t asked = cudaGetDeviceCount(&count); !succeeded(asked)) return cannot_start(asked);
    if (count == 0) return "no CUDA device is present";
    int major = 0, minor = 0;
    if (code == cudaSuccess) code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, current);
    if (code == cudaSuccess) code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, current);
    if (!succeeded(code)) return sentence("the CUDA device cannot be used: ", cudaGetErrorString(code));
    if (10 * major + minor < oldest_compute) {
        return sentence("the device has compute capability ", major, ".", minor, ", at least 8.0 is needed");
    }
    usable |= bit();
    return {};
}

}  // namespace

bool device_available(std::string* why) {
    const std::string reason = why_unavailable();
    if (why) *why = reason;
    return reason.empty();
}

const Device& device() {
    static std::mutex guard;
    static std::map<int, Device> known;
    if (forked_after_use()) fail_as<SystemError>("gpu: ", not_in_forked_child);  // before the mutex, which was copied
    enter_chosen_device();
    int current = 0;
    const cudaError_t code = cudaGetDevice(&current);
    const std::lock_guard lock(guard);
    if (succeeded(code)) {
        if (const auto it = known.find(current); it != known.end()) return it->second;
    }
    if (const std::string reason = why_unavailable(); !reason.empty()) fail_as<SystemError>("gpu: ", reason);
    check(code, "asking for the device");
    cudaDeviceProp p;
    check(cudaGetDeviceProperties(&p, current), "asking for the device's properties");
    note_use();
    Device d;
    d.name = p.name;
    d.multiprocessors = p.multiProcessorCount;
    d.compute = 10 * p.major + p.minor;
    d.memory = p.totalGlobalMem;
    d.shared = p.sharedMemPerBlockOptin;
    d.l2 = static_cast<std::size_t>(p.l2CacheSize);
    return known.emplace(current, d).first->second;
}

}  // namespace causeway::gpu
