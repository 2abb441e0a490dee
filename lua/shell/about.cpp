// The words of --version and of the banner, from what core measures of the machine and the bindings of the GPU.
#include "lua/shell/about.hpp"

#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
#include "core/measure/machine.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {

std::string threads_text() { return sentence(threads(), threads() == 1 ? " thread" : " threads"); }

std::string version_text() {
    const Machine& here = machine();
    return sentence("causeway ", here.version, "\n", "compiler: ", here.compiler, "\n", "SIMD: ", here.simd, "\n",
                    "threads: ", threads(), "\n", gpu_text(), "\n");
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
