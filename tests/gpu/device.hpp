// For tests of the GPU: whether there is one, inputs, and errors.
#pragma once

#include <string>

#include "gpu/base/device.hpp"
#include "tests/catch.hpp"

namespace causeway::test {

// False where no GPU can be used: the test returns at once, and is counted as skipped. Asked once in a test.
inline bool on_gpu() {
    std::string why;
    if (gpu::device_available(&why)) return true;
    skip("tests of the GPU", why);
    return false;
}

}  // namespace causeway::test
