// One token of the gated and delta-rule family: checked against Float64 first, then timed against the floor: the time
// to read the states, q, k and v and to write the states and o once at the copy bandwidth measured in the same run.
//
//   bench_step [check | time]
#include <algorithm>

#include "gpu/bench/gated_problem.hpp"
#include "gpu/gated/step.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::GatedProblem;
using bench::GatedTensors;

namespace {

constexpr bool narrow[] = {false, true};  // the shapes of a block; -1 stands for the one that gated_step chooses

bool right(const GatedProblem& p, int shape, std::uint64_t seed, cudaStream_t stream, bench::GatedErrors* seen) {
    bench::GatedErrors e;
    try {
        const GatedTensors t = bench::make(p, seed, stream);
        if (shape < 0) gated_step(t.args, stream);
        else gated_step_shaped(t.args, narrow[shape], stream);
        check(cudaStreamSynchronize(stream), "gated_step");
        e = bench::errors_of(p, t, 6);
    } catch (const Error& error) {
        std::printf("FAILED %s: %s\n", p.text().c_str(), error.what());
        return false;
    }
    seen->outputs = std::max(seen->outputs, e.outputs), seen->state = std::max(seen->state, e.state);
    // Of a single token few numbers are rounded to the output's type, perhaps all of them by the most.
    const double bound = p.type == Type::Float32 ? 6e-6 : p.type == Type::BFloat16 ? 4e-3 : 5e-4;
    const bool ok = e.outputs <= bound && e.state <= 4e-6;
    if (!ok)
        std::printf("WRONG shape %d %s: outputs %.3e (bound %.1e), state %.3e\n", shape, p.text().c_str(), e.outputs,
                    bound, e.state);
    return ok;
}

bool check_all(cudaStream_t stream) {
    bench::Tally tally;
    const auto run = [&](const GatedProblem& p) {
        for (int shape = -1; shape < 2; ++shape, ++tally.count) {
            bench::GatedErrors seen;
            tally.wrong += !right(p, shape, static_cast<std::uint64_t>(tally.count), stream, &seen);
            tally.add(p.type, seen.outputs, seen.state);
        }
    };
    const std::pair<int, int> sizes[] = {{128, 128}, {64, 64}, {256, 256}, {96, 80},
                                         {3, 5},     {8, 4},   {200, 33},  {17, 130}};
    for (const Type type : {Type::Float32, Type::BFloat16, Type::Float16}) {
        for (const bool delta : {false, true}) {
            for (const int gates : {0, 1, 2}) {
                for (const auto& [dk, dv] : sizes) {
                    const int g = gates == 2 ? dk : gates;
                    run({"step", type, 2, 3, 1, 1, dk, dv, g, delta, 0.3, 0.05});
                    run({"step group", type, 2, 2, 1, dk == 96 ? 19 : 3, dk, dv, g, delta, 0.3, 0, true, true, 3, 0.5});
                }
            }
        }
    }
    return tally.report();
}

void time_all(cudaStream_t stream) {
    const double bandwidth = bench::copy_bandwidth(std::size_t{1} << 30, stream);
    std::printf("floor: everything read and written once at %.3f TB/s\n", bandwidth * 1e-12);
    std::printf("%-28s %7s %9s %9s %9s %9s %8s %8s\n", "case", "shape", "floor us", "median", "best", "call", "GB/s",
                "of copy");
    const Type bf16 = Type::BFloat16;
    const GatedProblem cases[] = {
        {"linear B·h=2048", bf16, 64, 32, 1},
        {"gated B·h=2048", bf16, 64, 32, 1, 1, 128, 128, 1},
        {"gated delta B·h=2048", bf16, 64, 32, 1, 1, 128, 128, 1, true},
        {"channels delta B·h=2048", bf16, 64, 32, 1, 1, 128, 128, 128, true},
        {"gated delta B·h=512 group 4", bf16, 64, 8, 1, 4, 128, 128, 1, true},
        {"gated d=64 B·h=8192", bf16, 256, 32, 1, 1, 64, 64, 1, true},
        {"gated d=256 B·h=512", bf16, 16, 32, 1, 1, 256, 256, 1, true},
        {"gated-delta B·h=256", bf16, 8, 32, 1, 1, 128, 128, 1, true},
        {"gated delta B·h=32", bf16, 1, 32, 1, 1, 128, 128, 1, true},
    };
    for (const GatedProblem& p : cases) {
        const double bytes =
            static_cast<double>(p.B * p.H) * (8.0 * p.dk * p.dv + (p.group + 1.0) * (p.dk + p.dv) * bytes_of(p.type) +
                                              4.0 * p.gates + (p.delta ? 4.0 : 0.0));
        // Enough sets of states that none is still in the cache when its turn comes again.
        const int sets = static_cast<int>(std::clamp(1e9 / bytes, 2.0, 64.0));
        std::vector<GatedTensors> t;
        for (int i = 0; i < sets; ++i) t.push_back(bench::make(p, 100 + static_cast<std::uint64_t>(i), stream));
        for (int shape = -1; shape < 2; ++shape) {
            if (shape >= 0 && (p.name.find("gated delta") == std::string::npos || p.group > 1)) continue;
            const auto call = [&](int i) {
                if (shape < 0) gated_step(t[static_cast<std::size_t>(i)].args, stream);
                else gated_step_shaped(t[static_cast<std::size_t>(i)].args, narrow[shape], stream);
            };
            const bench::Times ms = bench::time(call, sets, 11, stream);
            char name[16] = "chosen";
            if (shape >= 0) std::snprintf(name, sizeof name, "%d", narrow[shape] ? 32 : 64);
            std::printf("%-28s %7s %9.2f %9.2f %9.2f %9.2f %8.0f %7.1f%%\n", p.name.c_str(), name,
                        bytes / bandwidth * 1e6, ms.median * 1e3, ms.best * 1e3, ms.call * 1e3,
                        bytes / ms.median * 1e-6, bytes / ms.median * 1e3 / bandwidth * 100);
        }
        std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "";
    Stream stream;
    bool ok = true;
    if (what != "time") ok = check_all(stream);
    if (what != "check") time_all(stream);
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
