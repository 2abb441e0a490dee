// Copies of rows, near one another and farther apart than CUDA's own copy takes.
#include "gpu/base/copy.hpp"

#include <vector>

#include "gpu/base/buffer.hpp"
#include "gpu/base/current_device.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;

namespace {

constexpr std::size_t width = 48, rows = 3;

// Rows that are `pitch` bytes apart on one device, to rows side by side on another and back to other places there.
void check_pitch(std::size_t pitch, int far_device, int near_device) {
    CAPTURE(pitch, far_device, near_device);
    std::vector<unsigned char> numbers(rows * width), got(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<unsigned char>(i + 1);
    gpu::Buffer far, near;
    {
        const gpu::CurrentDevice there(far_device);
        far = gpu::Buffer((rows - 1) * pitch + 2 * width);
    }
    const gpu::CurrentDevice here(near_device);
    near = gpu::Buffer(numbers.size());
    gpu::copy_rows({far.data(), pitch, numbers.data(), width, width, rows}, nullptr, "copying to the GPU");
    gpu::check(cudaDeviceSynchronize(), "copying");
    gpu::copy_rows({near.data(), width, far.data(), pitch, width, rows}, near_device, far_device, nullptr, "there");
    gpu::copy_rows({far.as<char>() + width, pitch, near.data(), width, width, rows}, far_device, near_device, nullptr,
                   "back");
    gpu::check(cudaDeviceSynchronize(), "copying");
    gpu::copy_rows({got.data(), width, far.as<char>() + width, pitch, width, rows}, nullptr, "copying from the GPU");
    gpu::check(cudaDeviceSynchronize(), "copying");
    CHECK(got == numbers);
}

}  // namespace

TEST_CASE("GPU: rows of any distance are copied, on a GPU and between two", "[gpu][gpu-copy]") {
    if (!test::on_gpu()) return;
    int devices = 0;
    gpu::check(cudaGetDeviceCount(&devices), "counting");
    for (const std::size_t pitch : {width, 2 * width + 16, (std::size_t{1} << 31) + 4096}) {
        check_pitch(pitch, 0, 0);
        if (devices > 1) check_pitch(pitch, 0, 1);
    }
    gpu::copy_rows({nullptr, 1, nullptr, 1, 0, 5}, nullptr, "nothing");
    gpu::copy_rows({nullptr, 1, nullptr, 1, 5, 0}, 0, devices - 1, nullptr, "nothing");
}
