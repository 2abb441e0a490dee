#include "gpu/base/wait.hpp"

#include <chrono>
#include <thread>

#include "core/base/interrupt.hpp"
#include "gpu/base/error.hpp"

namespace causeway::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// A call of less is timed to the microsecond; of a longer one a pause, with what the system adds to it, is less than a
// hundredth.
constexpr std::chrono::milliseconds without_pauses{20};
constexpr std::chrono::microseconds pause{50};

}  // namespace

void wait_for(cudaStream_t stream, const char* doing) {
    cudaError_t code = cudaStreamQuery(stream);
    if (code == cudaErrorNotReady) {
        const auto begun = Clock::now();
        do {
            cudaGetLastError();  // "not ready" is no error to be found by others
            interrupt::check();
            if (Clock::now() - begun > without_pauses) std::this_thread::sleep_for(pause);
            code = cudaStreamQuery(stream);
        } while (code == cudaErrorNotReady);
    }
    check(code, doing);
}

}  // namespace causeway::gpu
