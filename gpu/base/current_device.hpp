// The device that a thread works on.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/base/choose_device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"

namespace causeway::gpu {

// While alive, another device is the thread's current one. Where it was the first one to be used, the device of this
// process is current afterwards.
class CurrentDevice {
public:
    explicit CurrentDevice(int device) {
        enter_chosen_device();
        check(cudaGetDevice(&before_), "asking for the device");
        check(cudaSetDevice(device), "going to another device");
    }
    CurrentDevice(const CurrentDevice&) = delete;
    CurrentDevice& operator=(const CurrentDevice&) = delete;
    ~CurrentDevice() { succeeded(cudaSetDevice(before_)); }

private:
    int before_ = 0;
};

}  // namespace causeway::gpu
