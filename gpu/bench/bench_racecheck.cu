// What racecheck of compute-sanitizer follows: a ring of one stage, which a warp or a bulk copy fills and another warp
// reads, eight times.
//
//   compute-sanitizer --tool racecheck bench_racecheck FORM     FORM: 0 to 5, see below
//
// All of them are ordered: __syncwarp orders what the lanes of a warp did before the arrival of one of them. A form of
// which hazards are reported shows what the tool does not know.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <string>

#include "gpu/base/buffer.hpp"
#include "gpu/base/error.hpp"
#include "gpu/kit/ptx.cuh"

using namespace causeway::gpu;

namespace {

constexpr int rounds = 8, stage_bytes = 2048;

struct Form {
    bool bulk;              // filled by a bulk copy, or by the stores of a warp
    bool writers, readers;  // every lane arrives, or one after __syncwarp; a bulk copy is one thread's
    const char* what;
};
constexpr Form forms[] = {
    {false, true, true, "stores; every lane of both warps arrives"},
    {false, false, true, "stores; one lane of the warp that writes arrives"},
    {false, true, false, "stores; one lane of the warp that reads arrives"},
    {false, false, false, "stores; one lane of each arrives"},
    {true, true, true, "a bulk copy; every lane of the warp that reads arrives"},
    {true, true, false, "a bulk copy; one lane of the warp that reads arrives"},
};

__device__ void arrive(uint32_t bar, bool every, uint32_t lane) {
    if (!every) __syncwarp();
    if (every || lane == 0) ptx::mbarrier_arrive(bar);
}

template <int form>
__global__ void ring(const float4* in, float* out) {
    constexpr Form f = forms[form];
    constexpr uint32_t pieces = stage_bytes / sizeof(float4);
    __shared__ alignas(128) float4 stage[pieces];
    __shared__ uint64_t barriers[2];
    const uint32_t full = ptx::shared_address(&barriers[0]), empty = ptx::shared_address(&barriers[1]),
                   lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(full, !f.bulk && f.writers ? 32 : 1);
        ptx::mbarrier_init(empty, f.readers ? 32 : 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (uint32_t n = 0; n < rounds && (!f.bulk || lane == 0); ++n) {
            ptx::mbarrier_wait(empty, n % 2 ^ 1);
            if (f.bulk) {
                ptx::mbarrier_arrive_expect_tx(full, stage_bytes);
                ptx::bulk_load(ptx::shared_address(stage), in, stage_bytes, full);
                continue;
            }
            for (uint32_t i = lane; i < pieces; i += 32) stage[i] = in[i];
            arrive(full, f.writers, lane);
        }
        return;
    }
    float sum = 0;
    for (uint32_t n = 0; n < rounds; ++n) {
        ptx::mbarrier_wait(full, n % 2);
        for (uint32_t i = lane; i < pieces; i += 32) sum += stage[(i + 7) % pieces].x;
        arrive(empty, f.readers, lane);
    }
    out[lane] = sum;
}

template <int form = 0>
void run(int wanted, const float4* in, float* out) {
    if constexpr (form < std::size(forms)) {
        if (form != wanted) return run<form + 1>(wanted, in, out);
        std::printf("%s\n", forms[form].what);
        ring<form><<<1, 64>>>(in, out);
        check(cudaGetLastError(), "launching ring");
    } else {
        throw std::invalid_argument("form: expected 0 to " + std::to_string(std::size(forms) - 1));
    }
}

}  // namespace

int main(int argc, char** argv) try {
    const Buffer in(stage_bytes, nullptr), out(32 * sizeof(float), nullptr);
    check(cudaMemset(in.data(), 0, stage_bytes), "making zeros");
    run(argc > 1 ? std::atoi(argv[1]) : -1, in.as<const float4>(), out.as<float>());
    check(cudaDeviceSynchronize(), "running ring");
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
