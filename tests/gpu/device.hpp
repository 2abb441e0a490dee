// For tests of the GPU: whether there is one, inputs, and errors.
#pragma once

#include <cstdio>
#include <string>

#include "gpu/base/device.hpp"
#include "tests/catch.hpp"

namespace causeway::test {

// False where no GPU can be used: the test returns at once, having said why once for all of them.
inline bool on_gpu() {
    static const bool available = [] {
        std::string why;
        const bool yes = gpu::device_available(&why);
        if (!yes) std::printf("tests of the GPU are skipped: %s\n", why.c_str());
        return yes;
    }();
    return available;
}

}  // namespace causeway::test
