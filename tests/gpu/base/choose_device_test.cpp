// The GPU of a process that is one of several.
#include "gpu/base/choose_device.hpp"

#include "gpu/base/current_device.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/tensor/tensor.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;

TEST_CASE("GPU: the device of a process becomes current with the first memory that is taken", "[gpu][gpu-device]") {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) cudaGetLastError();
    if (devices < 2) {
        test::skip("tests of the GPU of a process", "they need two GPUs");
        return;
    }
    const auto current = [] {
        int device = -1;
        gpu::check(cudaGetDevice(&device), "asking for the device");
        return device;
    };
    const gpu::CurrentDevice afterwards(0);  // puts back what was current
    gpu::choose_device(devices + 1);
    CHECK(current() == 0);
    const gpu::Tensor x(DType::f32, Shape{4});
    CHECK(current() == 1);
    gpu::check(cudaSetDevice(0), "going back");
    const gpu::Tensor y(DType::f32, Shape{4});  // it is done once
    CHECK(current() == 0);
}

TEST_CASE("GPU: work on another device first leaves the device of the process current", "[gpu][gpu-device]") {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) cudaGetLastError();
    if (devices < 2) {
        test::skip("tests of the GPU of a process", "they need two GPUs");
        return;
    }
    const gpu::CurrentDevice afterwards(0);  // puts back what was current
    const auto current = [] {
        int device = -1;
        gpu::check(cudaGetDevice(&device), "asking for the device");
        return device;
    };
    gpu::choose_device(1);
    {
        const gpu::CurrentDevice there(0);
        const gpu::Stream stream;  // of the device that was gone to
        CHECK(current() == 0);
    }
    CHECK(current() == 1);
}
