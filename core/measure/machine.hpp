// The machine and the build that made a number.
#pragma once

#include <cstddef>
#include <string>

namespace causeway {

struct Machine {
    std::string processor;  // "Intel(R) Xeon(R) Processor"
    int cores;              // that this process may run on, hyper-threads counted
    std::string simd;       // what this program was built for: "AVX-512", "AVX2", "NEON", ...
    std::size_t memory;     // bytes this process may use
    std::string system;     // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0 x86_64"
    std::string compiler;   // "GCC 12.2.0"
    std::string eigen;      // "3.4.0"
    std::string version;    // of causeway
};

// Asked once; the answer is kept. What the system does not tell is "unknown" or 0.
const Machine& machine();

// An instruction set that this code was built for and this processor lacks ("AVX-512F"), or null.
const char* missing_instructions();

}  // namespace causeway
