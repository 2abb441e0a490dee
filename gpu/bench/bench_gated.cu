// The gated and delta-rule family in Float32, and with a gate per key channel on tensor cores: checked against the
// recurrence in Float64 first, then timed against two floors: the time to read q, k, v, g, beta and write o once at the
// copy bandwidth of the same run, and N·dk·dv multiply-adds (for what is written, for each query and for what the delta
// rule reads) at the rate of the FMA units.
//
//   bench_gated                 checks, then times
//   bench_gated check | time    one of them; a second argument picks the cases whose name contains it
#include <algorithm>

#include "gpu/bench/gated_problem.hpp"
#include "gpu/gated/channels.hpp"
#include "gpu/gated/portable.hpp"
#include "gpu/gated/recurrent.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::GatedProblem;
using bench::GatedTensors;
using std::int64_t;

namespace {

struct Form {
    const char* name;
    std::size_t (*workspace)(const GatedArgs&);
    void (*run)(const GatedArgs&, cudaStream_t);
    bool (*takes)(const GatedArgs&);
    bool tensor_cores;
};
bool any(const GatedArgs&) { return true; }
constexpr Form forms[] = {{"chunks", gated_portable_workspace, gated_portable, any, false},
                          {"channels", gated_channels_workspace, gated_channels, gated_channels_takes, true},
                          {"recurrent", gated_recurrent_workspace, gated_recurrent, any, false}};

GatedTensors make(const GatedProblem& p, const Form& form, std::uint64_t seed, cudaStream_t stream) {
    GatedTensors t = bench::make(p, seed, stream);
    t.give_workspace(form.workspace(t.args), stream);
    return t;
}

bool takes(const Form& form, const GatedProblem& p) {
    GatedArgs a;
    a.type = p.type, a.gates = p.gates, a.dk = p.dk, a.dv = p.dv;
    return form.takes(a);
}

// Tensor cores round the state and what is between to BFloat16.
constexpr double tensor_core_bound = 8e-3;

double bound(const GatedProblem& p, const Form& form) {
    if (form.tensor_cores) return tensor_core_bound;
    return p.type == Type::Float32 ? 2e-6 : (p.type == Type::BFloat16 ? 2.9e-3 : 3.6e-4);
}

bool right(const GatedProblem& p, const Form& form, int heads, std::uint64_t seed, cudaStream_t stream,
           bench::GatedErrors* seen = nullptr) {
    bench::GatedErrors e;
    try {
        const GatedTensors t = make(p, form, seed, stream);
        form.run(t.args, stream);
        check(cudaStreamSynchronize(stream), form.name);
        e = bench::errors_of(p, t, heads);
    } catch (const Error& error) {
        std::printf("FAILED %s %s: %s\n", form.name, p.text().c_str(), error.what());
        return false;
    }
    if (seen) seen->outputs = std::max(seen->outputs, e.outputs), seen->state = std::max(seen->state, e.state);
    const bool ok = e.outputs <= bound(p, form) && e.state <= (form.tensor_cores ? tensor_core_bound : 4e-6);
    if (!ok)
        std::printf("WRONG %s %s: outputs %.3e (bound %.1e), state %.3e\n", form.name, p.text().c_str(), e.outputs,
                    bound(p, form), e.state);
    return ok;
}

bool check_all(const std::string& only, cudaStream_t stream) {
    bool all = true;
    for (const Form& form : forms) {
        bench::Tally tally;
        const auto run = [&](const GatedProblem& p) {
            if (p.name.find(only) == std::string::npos || !takes(form, p)) return;
            ++tally.count;
            bench::GatedErrors seen;
            tally.wrong += !right(p, form, 6, static_cast<std::uint64_t>(tally.count), stream, &seen);
            tally.add(p.type, seen.outputs, seen.state);
        };
        const std::pair<int, int> shapes[] = {{128, 128}, {64, 64}, {256, 256}, {64, 128},
                                              {96, 80},   {3, 5},   {200, 33},  {130, 40}};
        for (const Type type : {Type::Float32, Type::BFloat16, Type::Float16}) {
            for (const bool delta : {false, true}) {
                for (const int gates : {0, 1, 128}) {
                    for (const int64_t N : {1, 2, 17, 63, 64, 65, 97})
                        run({"length", type, 2, 2, N, 1, 128, 128, gates, delta});
                    run({"strong", type, 1, 2, 300, 1, 128, 64, gates, delta, 20.0});
                    run({"reset", type, 1, 2, 300, 2, 128, 64, gates, delta, 0.3, 0.1});
                    if (type == Type::Float32) run({"long", type, 1, 2, 2500, 1, 128, 64, gates, delta, 0.02});
                    if (type == Type::Float32)
                        run({"no state", type, 1, 2, 2500, 1, 128, 64, gates, delta, 0.02, 0, false});
                    for (const auto& [dk, dv] : shapes) {
                        run({"shape", type, 1, 2, 100, 1, dk, dv, gates > 1 ? dk : gates, delta});
                        run({"group", type, 2, 2, 70, 3, dk, dv, gates > 1 ? dk : gates, delta, 0.1, 0, true, true, 0,
                             0.3});
                        run({"strides", type, 1, 2, 50, 2, dk, dv, gates > 1 ? dk : gates, delta, 0.1, 0, true, true,
                             5});
                    }
                }
            }
        }
        all = tally.report(form.name) && all;
    }
    return all;
}

bool time_all(const std::string& only, cudaStream_t stream) {
    const double bandwidth = bench::copy_bandwidth(std::size_t{1} << 30, stream);
    cudaDeviceProp properties;
    int clock = 0, at = 0;
    check(cudaGetDevice(&at), "asking for the device");
    check(cudaGetDeviceProperties(&properties, at), "asking for the device's properties");
    check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, at), "asking for the clock");
    const double rate = 128.0 * properties.multiProcessorCount * clock * 1e3;  // multiply-adds a second
    std::printf("floors: %.3f TB/s; %.1f T multiply-adds/s (128 a clock and multiprocessor, %.2f GHz)\n",
                bandwidth * 1e-12, rate * 1e-12, clock * 1e-6);
    std::printf("%-34s %-10s %9s %9s %9s %9s %8s %9s %9s %10s\n", "case", "form", "bytes ms", "FMA ms", "median",
                "call", "ratio", "error", "state", "workspace");
    const Type bf16 = Type::BFloat16, f32 = Type::Float32;
    const GatedProblem cases[] = {
        {"linear N=8192", bf16, 1, 32, 8192},
        {"gated N=8192", bf16, 1, 32, 8192, 1, 128, 128, 1},
        {"channels N=8192", bf16, 1, 32, 8192, 1, 128, 128, 128},
        {"delta N=8192", bf16, 1, 32, 8192, 1, 128, 128, 0, true},
        {"gated delta N=8192", bf16, 1, 32, 8192, 1, 128, 128, 1, true},
        {"channels delta N=8192", bf16, 1, 32, 8192, 1, 128, 128, 128, true},
        {"f32 gated delta N=8192", f32, 1, 32, 8192, 1, 128, 128, 1, true},
        {"gated delta h=128 N=2048", bf16, 1, 128, 2048, 1, 128, 128, 1, true},
        {"gated delta group=4 N=8192", bf16, 1, 8, 8192, 4, 128, 128, 1, true},
        {"gated delta d=64 N=8192", bf16, 1, 32, 8192, 1, 64, 64, 1, true},
        {"gated delta d=64 h=256 N=2048", bf16, 1, 256, 2048, 1, 64, 64, 1, true},
        {"gated delta d=256 N=8192", bf16, 1, 16, 8192, 1, 256, 256, 1, true},
    };
    bool all = true;
    for (const GatedProblem& p : cases) {
        if (p.name.find(only) == std::string::npos) continue;
        for (const Form& form : forms) {
            if (!takes(form, p)) continue;
            if (!form.tensor_cores && &form != forms && p.name != "gated delta N=8192" && p.name != "gated N=8192")
                continue;
            bench::GatedErrors e;
            all = right(p, form, 3, 77, stream, &e) && all;
            const GatedTensors t = make(p, form, 100, stream);
            const bench::Times ms = bench::time([&](int) { form.run(t.args, stream); }, 1, 7, stream);
            const double tokens = static_cast<double>(p.B * p.H * p.N);
            const double bytes =
                tokens * ((p.group + 1.0) * (p.dk + p.dv) * bytes_of(p.type) + 4.0 * p.gates + (p.delta ? 4.0 : 0.0));
            const double products = tokens * p.dk * p.dv * (1.0 + p.group + (p.delta ? 1.0 : 0.0));
            std::printf("%-34s %-10s %9.4f %9.4f %9.4f %9.4f %8.2f %9.2e %9.2e %7.1f MB\n", p.name.c_str(), form.name,
                        bytes / bandwidth * 1e3, products / rate * 1e3, ms.median, ms.call,
                        ms.median / (products / rate * 1e3), e.outputs, e.state,
                        static_cast<double>(t.workspace.bytes()) * 1e-6);
            std::fflush(stdout);
        }
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "", only = argc > 2 ? argv[2] : "";
    Stream stream;
    bool ok = true;
    if (what != "time") ok = check_all(what == "check" ? only : "", stream);
    if (what != "check") ok = time_all(only, stream) && ok;
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
