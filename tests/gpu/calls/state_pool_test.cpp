// Pools of states in 8 bits on the GPU: the numbers and scales of those on the CPU.
#include "gpu/tensor/state_pool.hpp"

#include <cmath>

#include "core/kit/state_pool.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gradient/problems.hpp"
#include "tests/gpu/device.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;

TEST_CASE("states of a pool in 8 bits on the GPU are those of one on the CPU", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 8000;
    for (const auto& [dk, dv] : {std::pair<Index, Index>{1, 1}, {5, 3}, {64, 40}, {128, 128}}) {
        for (const double size : {1.0, 1e-42, 1e-30, 1e30, 3e38}) {
            for (const DType type : {DType::f32, DType::bf16}) {
                if (size == 1e-42 && type == DType::bf16) continue;
                CAPTURE(dk, dv, size, name(type));
                Tensor x = random_tensor({3, 2, dk, dv}, ++seed).to(DType::f32);
                double largest = 0;
                for (Index i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x.get(i)));
                for (Index i = 0; i < x.size(); ++i) x.set(i, x.get(i) / largest * size);
                const Tensor given = x.to(type);
                kit::StatePool on_cpu(6, 2, dk, dv);
                gpu::StatePool on_gpu(6, 2, dk, dv);
                CHECK(on_gpu.bytes() == on_cpu.bytes());
                on_cpu.put(given, {4, 0, 5});
                on_gpu.put(gpu::Tensor(given), {4, 0, 5});
                CHECK(same_bits(on_gpu.states({0, 1, 5, 4, 4}).cpu(), on_cpu.states({0, 1, 5, 4, 4})));
            }
        }
    }
}

TEST_CASE("a head that is not finite comes out of a pool on the GPU as NaN, the others as they were",
          "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    for (const double value : {double{INFINITY}, -double{INFINITY}, double{NAN}}) {
        Tensor x = random_tensor({2, 2, 8, 4}, 8500).to(DType::f32);
        gpu::StatePool pool(2, 2, 8, 4);
        pool.put(gpu::Tensor(x), {0, 1});
        const Tensor clean = pool.states({0, 1}).cpu();
        x.set(37, value);
        pool.put(gpu::Tensor(x), {0, 1});
        const Tensor got = pool.states({0, 1}).cpu();
        for (Index i = 0; i < x.size(); ++i) {
            if (i / 32 == 1) REQUIRE(std::isnan(got.get(i)));
            else REQUIRE(got.get(i) == clean.get(i));
        }
    }
}

TEST_CASE("a pool in 8 bits on the GPU refuses what one on the CPU refuses", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    gpu::StatePool pool(4, 2, 5, 3);
    CHECK(testing::message_of([&] {
              pool.states({0, 4});
          }) == "state_indices: a slot outside the pool in place 2, expected one of its 4");
    CHECK(testing::message_of([&] {
              pool.put(gpu::Tensor::zeros(DType::f32, {2, 2, 5, 3}), {1, 1});
          }).find("state_indices: places 1 and 2 have the same slot") == 0);
    CHECK(testing::message_of([&] {
              pool.put(gpu::Tensor::zeros(DType::f32, {2, 2, 5, 3}), {1});
          }) == "states: 2×2×5×3, expected 1×2×5×3");
}
