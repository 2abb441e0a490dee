// The words of --version and of the banner, from what core measures of the machine and the bindings of the GPU.
#include "lua/shell/about.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
#include "core/measure/machine.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

// The text in lines of at most `columns` bytes, each with its newline, broken at blanks where there are any.
std::string wrapped(std::string text, int columns) {
    const auto room = static_cast<std::size_t>(std::max(columns, 1));
    std::string lines;
    while (text.size() > room) {
        const std::size_t blank = text.rfind(' ', room);
        const std::size_t end = blank == std::string::npos || blank == 0 ? room : blank;
        lines += text.substr(0, end) + '\n';
        text.erase(0, end + (end == blank));
    }
    return lines + text + '\n';
}

}  // namespace

std::string version_text() {
    const Machine& here = machine();
    return sentence("causeway ", here.version, "\n", "compiler: ", here.compiler, "\n", "SIMD: ", here.simd, "\n",
                    "threads: ", threads(), "\n", gpu_text(), "\n");
}

std::string banner_text(int columns, bool colour) {
    const std::string name = sentence("causeway ", machine().version);
    const std::string workers = sentence(threads(), threads() == 1 ? " thread" : " threads");
    std::string text;
    for (const std::string& line :
         {name + "  causal linear attention: exact, fast, measured",
          sentence(workers, ", ", machine().simd, ", ", gpu_text()),
          std::string("Lua 5.4. Type ? for an overview of help, ?name for a function, Ctrl-D to leave.")})
        text += wrapped(line, columns);
    return colour ? "\033[1m" + text.insert(name.size(), "\033[0m") : text;
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

}  // namespace causeway::lua
