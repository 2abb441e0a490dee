#include "core/measure/machine.hpp"

#include <sys/utsname.h>

#include <fstream>

#include "core/base/eigen.hpp"  // its version
#include "core/base/error.hpp"
#include "core/base/memory.hpp"
#include "core/base/processors.hpp"

namespace causeway {
namespace {

// The text after `key`, `separator` and blanks in the first line of the file that starts with `key`.
std::string value_of(const char* path, const std::string& key, char separator) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        if (line.compare(0, key.size(), key) != 0) continue;
        const auto at = line.find(separator);
        if (at == std::string::npos) continue;
        const auto from = line.find_first_not_of(" \t\"", at + 1);
        const auto to = line.find_last_not_of(" \t\"");
        if (from != std::string::npos && to >= from) return line.substr(from, to - from + 1);
    }
    return "";
}

std::string processor() {
    for (const char* key : {"model name", "Hardware", "cpu model", "cpu"}) {
        if (std::string name = value_of("/proc/cpuinfo", key, ':'); !name.empty()) return name;
    }
    return "unknown";
}

std::string simd() {
#if defined(__AVX512F__)
    return "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
    return "AVX2 with FMA";
#elif defined(__AVX__)
    return "AVX";
#elif defined(__SSE2__)
    return "SSE2";
#elif defined(__ARM_NEON)
    return "NEON";
#else
    return "none";
#endif
}

std::string system_name() {
    std::string name = value_of("/etc/os-release", "PRETTY_NAME", '=');
    utsname kernel{};
    if (uname(&kernel) == 0)
        name += sentence(name.empty() ? "" : ", ", kernel.sysname, " ", kernel.release, " ", kernel.machine);
    return name.empty() ? "unknown" : name;
}

std::string compiler() {
#if defined(__clang__)
    return sentence("Clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#elif defined(__GNUC__)
    return sentence("GCC ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#else
    return "unknown";
#endif
}

}  // namespace

const Machine& machine() {
    static const auto& answer =
        *new Machine{processor(),
                     processors(),
                     simd(),
                     memory::total(),
                     system_name(),
                     compiler(),
                     sentence(EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION),
                     CAUSEWAY_VERSION};
    return answer;
}

const char* missing_instructions() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
#ifdef __AVX512F__
    if (!__builtin_cpu_supports("avx512f")) return "AVX-512F";
#endif
#ifdef __AVX512DQ__
    if (!__builtin_cpu_supports("avx512dq")) return "AVX-512DQ";
#endif
#ifdef __AVX512BW__
    if (!__builtin_cpu_supports("avx512bw")) return "AVX-512BW";
#endif
#ifdef __AVX512VL__
    if (!__builtin_cpu_supports("avx512vl")) return "AVX-512VL";
#endif
#ifdef __AVX2__
    if (!__builtin_cpu_supports("avx2")) return "AVX2";
#endif
#ifdef __FMA__
    if (!__builtin_cpu_supports("fma")) return "FMA";
#endif
#ifdef __BMI2__
    if (!__builtin_cpu_supports("bmi2")) return "BMI2";
#endif
#ifdef __AVX__
    if (!__builtin_cpu_supports("avx")) return "AVX";
#endif
#ifdef __SSE4_2__
    if (!__builtin_cpu_supports("sse4.2")) return "SSE4.2";
#endif
#endif
    return nullptr;
}

}  // namespace causeway
