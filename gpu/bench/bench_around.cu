// What stands around linear attention in models: gates made of a projection within the kernels of a gate per key
// channel, beside gates that a kernel of their own makes first, and rows divided by their lengths or normed and gated,
// beside the time to read and write them once at the copy bandwidth of the same run. Outputs are compared first.
//
//   bench_around
#include <cmath>

#include "gpu/around/decay_gate.hpp"
#include "gpu/around/norms.hpp"
#include "gpu/bench/compare.hpp"
#include "gpu/bench/gated_problem.hpp"
#include "gpu/gated/channels.hpp"
#include "gpu/tensor/elementwise.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::GatedProblem;
using bench::GatedTensors;
using std::int64_t;

namespace {

using gpu::Buffer;

constexpr double bound = 8e-3;  // of kernels on tensor cores, whose operands are BFloat16

// The largest difference beside the largest number, of the first head's outputs; not a number where one is not.
double apart(const Buffer& x, const Buffer& y, int64_t n) {
    const auto a = bench::numbers(x.data(), Type::BFloat16, 0, n), b = bench::numbers(y.data(), Type::BFloat16, 0, n);
    return bench::deviation(a, b).relative();
}

bool time_gates(cudaStream_t stream) {
    std::printf("%-28s %9s %9s %9s %9s %9s\n", "gates of a projection", "given", "within", "before", "making", "apart");
    bool all = true;
    for (const bool delta : {false, true}) {
        const GatedProblem p{
            delta ? "channels delta N=8192" : "channels N=8192", Type::BFloat16, 1, 32, 8192, 1, 128, 128, 128, delta};
        const GatedTensors t = bench::make(p, 5, stream);
        const auto heads = static_cast<std::size_t>(p.H), numbers = heads * 8192 * 128;
        const Buffer a(2 * numbers), A_log(4 * heads), bias(4 * heads * 128), g(4 * numbers), o(t.o.bytes());
        bench::fill_normal(a.data(), Type::BFloat16, numbers, 71, 1, stream);
        // As models begin: gates near 1, which forget within some hundred tokens.
        bench::fill_normal(A_log.data(), Type::Float32, heads, 72, 0.5, stream);
        fill(bias.as<float>(), static_cast<int64_t>(heads) * 128, -4, stream);
        const around::GateArgs gates{a.data(), p.type, A_log.as<float>(), bias.as<float>(), p.B, p.H, p.N, p.gates, 0};
        GatedArgs before = t.args, within = t.args;
        before.state = within.state = nullptr;
        const Buffer workspace(gated_channels_workspace(before));
        before.workspace = within.workspace = {workspace.data(), workspace.bytes()};
        before.g = g.as<float>(), before.o = o.data();
        within.g = nullptr;
        within.projection = {a.data(), p.type, A_log.as<float>(), bias.as<float>(), p.H, 0};
        const auto make = [&] { around::gates_in_float(gates, g.as<float>(), stream); };
        const auto ms = [&](auto&& call) { return bench::time([&](int) { call(); }, 1, 9, stream).median; };
        make(), gated_channels(before, stream), gated_channels(within, stream);
        check(cudaStreamSynchronize(stream), "running gated_channels");
        const double d = apart(t.o, o, p.N * p.dv);
        all = all && d <= bound;
        std::printf("%-28s %9.4f %9.4f %9.4f %9.4f %9.2e\n", p.name.c_str(),
                    ms([&] { gated_channels(before, stream); }), ms([&] { gated_channels(within, stream); }),
                    ms([&] { make(), gated_channels(before, stream); }), ms(make), d);
    }
    return all;
}

void time_norms(cudaStream_t stream) {
    const double bandwidth = bench::copy_bandwidth(std::size_t{1} << 30, stream);
    std::printf("%-28s %9s %9s %9s   floor: %.3f TB/s\n", "rows of BFloat16", "floor", "median", "ratio",
                bandwidth * 1e-12);
    const int64_t rows = 32 * 8192;
    for (const int width : {64, 120, 128, 256}) {  // rows of 120 are no whole pieces for a power of two of threads

        const auto bytes = static_cast<std::size_t>(rows * width) * 2;
        const Buffer x(bytes), gate(bytes), y(bytes), weight(static_cast<std::size_t>(width) * 4);
        bench::fill_normal(x.data(), Type::BFloat16, bytes / 2, 81, 1, stream);
        bench::fill_normal(gate.data(), Type::BFloat16, bytes / 2, 82, 1, stream);
        bench::fill_normal(weight.data(), Type::Float32, static_cast<std::size_t>(width), 83, 1, stream);
        around::NormArgs length{x.data(), Type::BFloat16, rows,    width,          1e-6f,
                                false,    nullptr,        nullptr, Type::BFloat16, true};
        around::NormArgs gated = length;
        gated.mean = true, gated.weight = weight.as<float>(), gated.gate = gate.data();
        const auto row = [&](const char* name, const around::NormArgs& a, double reads) {
            const double floor = (reads + 1) * static_cast<double>(bytes) / bandwidth * 1e3,
                         ms = bench::time([&](int) { around::norm(a, y.data(), stream); }, 1, 9, stream).median;
            char text[64];
            std::snprintf(text, sizeof text, "%s, width %d", name, width);
            std::printf("%-28s %9.4f %9.4f %9.2f\n", text, floor, ms, ms / floor);
        };
        row("l2norm", length, 1);
        row("rms_norm with gate", gated, 2);
    }
}

}  // namespace

int main() try {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was found stays known if the rest does not end
    if (!bench::on_gpu()) return 2;
    Stream stream;
    const bool ok = time_gates(stream);
    time_norms(stream);
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
