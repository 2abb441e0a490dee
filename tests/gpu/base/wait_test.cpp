// An interrupt while the GPU works.
#include "gpu/base/wait.hpp"

#include <chrono>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "gpu/tensor/tensor.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;

TEST_CASE("GPU: an interrupt ends the wait for kernels, and later calls find them done", "[gpu][gpu-wait]") {
    if (!test::on_gpu()) return;
    using Clock = std::chrono::steady_clock;
    gpu::Tensor x(DType::f32, Shape{Index{1} << 28});  // 1 GiB: a second or so for all passes over it
    for (int pass = 0; pass < 800; ++pass)
        gpu::check(cudaMemsetAsync(x.data(), pass == 799 ? 0 : 1, x.bytes(), nullptr), "filling a tensor");
    interrupt::clear();
    interrupt::request();
    const auto begun = Clock::now();
    CHECK_THROWS_AS(gpu::wait_for(nullptr, "running kernels"), Interrupted);
    CHECK(Clock::now() - begun < std::chrono::milliseconds(50));
    CHECK_THROWS_AS(x.cpu(), Interrupted);
    interrupt::clear();
    CHECK_NOTHROW(gpu::wait_for(nullptr, "running kernels"));
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(x.reshape(Shape{x.size()}).cpu().get(12345) == 0);
}
