// Whether there is a GPU to compute on, and what it is.
#pragma once

#include <string>

namespace causeway::gpu {

struct Device {
    std::string name;
    int multiprocessors = 0, compute = 0;          // compute: 90 for compute capability 9.0
    std::size_t memory = 0, l2 = 0;                // bytes
    std::size_t shared = 0;                        // bytes of shared memory that a thread block may have
    bool hopper() const { return compute == 90; }  // runs the sm_90a kernels
};

// True when the current device can run this library; otherwise `why`, if given, gets one sentence.
bool device_available(std::string* why = nullptr);

// The current device; throws Error with that sentence where there is none. Asked once per device, then remembered.
const Device& device();

}  // namespace causeway::gpu
