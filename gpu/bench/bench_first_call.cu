// How long the first call of a kernel takes in a process that has a context: code is loaded then, and nothing compiled.
//
//   bench_first_call                lightning; one case to a process
//   bench_first_call NAME           one of lightning, lightning-f32, mask, delta, flash

#include <chrono>
#include <string>

#include "gpu/bench/bench.hpp"
#include "gpu/exact/lightning.hpp"
#include "gpu/gated/delta.hpp"
#include "gpu/softmax/flash.hpp"

using namespace causeway::gpu;
using std::int64_t;

namespace {

constexpr int64_t H = 8, N = 1000;
constexpr int width = 128;
constexpr double must_ms = 50;

double timed(const std::function<void()>& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    check(cudaDeviceSynchronize(), "running the kernel");
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "lightning";
    check(cudaFree(nullptr), "creating the context");
    const Stream stream;
    const Type type = what == "lightning-f32" ? Type::Float32 : Type::BFloat16;
    const auto count = static_cast<std::size_t>(H * N * width);
    const std::size_t bytes = count * static_cast<std::size_t>(bytes_of(type));
    const Buffer q(bytes), k(bytes), v(bytes), o(bytes), beta(static_cast<std::size_t>(H * N) * 4);
    for (const Buffer* x : {&q, &k, &v, &beta}) check(cudaMemset(x->data(), 0, x->bytes()), "filling the inputs");
    const Strides strides = contiguous(H, N, width);
    const auto fill = [&](auto& a) {
        a.q = q.data(), a.k = k.data(), a.v = v.data(), a.o = o.data(), a.type = type, a.N = N;
        a.q_stride = a.k_stride = a.v_stride = a.o_stride = strides;
    };
    const std::vector<double> gamma(H, 0.99);
    std::function<void()> call;
    Buffer workspace;
    if (what == "delta") {
        GatedArgs a;
        fill(a), a.H = H, a.dk = a.dv = width, a.beta = beta.as<float>();
        workspace = Buffer(delta_hopper_workspace(a));
        a.workspace = {workspace.data(), workspace.bytes()};
        call = [a, &stream] { delta_hopper(a, stream); };
    } else if (what == "flash") {
        SoftmaxArgs a;
        fill(a), a.heads = H, a.M = N, a.d = a.dv = width;
        workspace = Buffer(flash_attention_workspace(a));
        a.workspace = {workspace.data(), workspace.bytes()};
        call = [a, &stream] { flash_attention(a, stream); };
    } else if (what == "lightning" || what == "lightning-f32" || what == "mask") {
        CausalArgs a;
        fill(a), a.H = H, a.r = a.d = width, a.gamma = what == "mask" ? nullptr : gamma.data();
        workspace = Buffer(lightning_workspace(a));
        a.workspace = {workspace.data(), workspace.bytes()};
        call = [a, &stream] { lightning_attention_2(a, stream); };
    } else {
        std::printf("bench_first_call: no case named %s\n", what.c_str());
        return 1;
    }
    check(cudaDeviceSynchronize(), "filling the inputs");
    const double first = timed(call), second = timed(call);
    std::printf("%-14s first call %.2f ms (must be below %.0f), second %.3f ms\n", what.c_str(), first, must_ms,
                second);
    return first < must_ms ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
