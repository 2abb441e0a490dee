// Calls the CUDA library of a prefix from outside, held to the library of the CPU. Where there is no GPU, the call says
// so in one sentence that begins with "gpu: "; the status is then 77, which is to be counted as skipped.
#include <cmath>
#include <cstdio>
#include <string>

#include "core/base/error.hpp"
#include "core/tensor/random.hpp"
#include "gpu/base/device.hpp"
#include "gpu/exact/causal_linear_attention.hpp"

int main() {
    using namespace causeway;
    const auto normal = [] { return random::normal(DType::f32, {1, 2, 200, 32}); };
    const Tensor B = normal(), C = normal(), V = normal();
    gpu::CausalOptions options;
    options.decay = {0.9};
    Tensor O;
    try {
        O = gpu::causal_linear_attention(gpu::Tensor(B), gpu::Tensor(C), gpu::Tensor(V), options).O.cpu();
    } catch (const SystemError& e) {
        std::string why;
        if (gpu::device_available(&why) || e.what() != "gpu: " + why || why.find('\n') != std::string::npos) throw;
        std::printf("%s\n", e.what());
        return 77;
    }
    const Tensor expected = causal_linear_attention(B, C, V, {.decay = {0.9}}).O;
    double error = 0, norm = 0;
    for (Index i = 0; i < O.size(); ++i) {
        error += std::pow(O.get(i) - expected.get(i), 2);
        norm += std::pow(expected.get(i), 2);
    }
    std::printf("relative error on a GPU from another project: %.1e\n", std::sqrt(error / norm));
    return error <= 1e-8 * norm ? 0 : 1;
}
