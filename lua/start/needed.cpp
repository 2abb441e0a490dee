// What this program was built for. Data alone, which no instruction makes: processor.cpp reads it before anything runs
// that the processor might not know.
#include "lua/start/needed.hpp"

namespace causeway::lua {

extern const char* const needed_instructions[] = {
#ifdef __SSE3__
    "SSE3",
#endif
#ifdef __SSSE3__
    "SSSE3",
#endif
#ifdef __SSE4_1__
    "SSE4.1",
#endif
#ifdef __SSE4_2__
    "SSE4.2",
#endif
#ifdef __POPCNT__
    "POPCNT",
#endif
#ifdef __AVX__
    "AVX",
#endif
#ifdef __AVX2__
    "AVX2",
#endif
#ifdef __FMA__
    "FMA",
#endif
#ifdef __BMI__
    "BMI",
#endif
#ifdef __BMI2__
    "BMI2",
#endif
#ifdef __AVX512F__
    "AVX-512F",
#endif
#ifdef __AVX512CD__
    "AVX-512CD",
#endif
#ifdef __AVX512DQ__
    "AVX-512DQ",
#endif
#ifdef __AVX512BW__
    "AVX-512BW",
#endif
#ifdef __AVX512VL__
    "AVX-512VL",
#endif
    nullptr};

}  // namespace causeway::lua
