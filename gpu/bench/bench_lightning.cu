// Lightning Attention-2 on the GPU: checked against Float64 on the CPU first, then timed against the floor: the time to
// read q, k, v and write o once at the copy bandwidth measured in the same run.
//
//   bench_lightning                 checks, then times
//   bench_lightning check | time    one of them; a second argument picks the cases whose name contains it

#include "gpu/bench/linear_problem.hpp"
#include "gpu/exact/lightning.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::alibi;
using bench::LinearTensors;
using std::int64_t;

namespace {

using Problem = bench::LinearProblem;

LinearTensors prepared(const Problem& p, std::uint64_t seed, cudaStream_t stream) {
    LinearTensors t = bench::make(p, seed, stream);
    t.give_workspace(lightning_workspace(t.args), stream);
    return t;
}

// Of the relative Frobenius error; Float16 has eight times BFloat16's precision. A few numbers may all be rounded by
// the most, once as a score and once as an output; over many it is the root mean square that counts.
double bound(const Problem& p) {
    const double few = p.N * p.B * p.H * std::min(p.r, p.d) < 4096 ? 2.2 : 1;
    return few * (p.type == Type::BFloat16 ? 3.5e-3 : p.type == Type::Float16 ? 4.5e-4 : 1e-5);
}

// Runs once on poisoned output and compares up to `heads` heads; prints what is wrong.
bool right(const Problem& p, int heads, cudaStream_t stream, double* seen, std::uint64_t seed) {
    double worst = 0;
    try {
        const LinearTensors t = prepared(p, seed, stream);
        const auto want = bench::reference(p, t, heads);
        lightning_attention_2(t.args, stream);
        check(cudaStreamSynchronize(stream), "running lightning_attention_2");
        worst = bench::error_of(p, t, want);
    } catch (const Error& error) {
        std::printf("FAILED %s: %s\n", p.text().c_str(), error.what());
        return false;
    }
    *seen = std::max(*seen, worst);
    const bool ok = worst <= bound(p);
    if (!ok) std::printf("WRONG %s: error %.3e, bound %.1e\n", p.text().c_str(), worst, bound(p));
    return ok;
}

bool check_all(const std::vector<Type>& types, const std::string& only, cudaStream_t stream) {
    bench::Tally tally;
    const auto run = [&](const Problem& p) {
        if (p.name.find(only) == std::string::npos) return;
        ++tally.count;
        tally.wrong += !right(p, 6, stream, &tally.outputs[int(p.type)], static_cast<std::uint64_t>(tally.count));
    };
    const std::vector<double> mixed = {0.9, 1.0, 0.5, 1 - 1.0 / 256, 1e-4};
    const std::pair<int, int> shapes[] = {{128, 128}, {64, 64},  {64, 128}, {128, 64},  {96, 80},
                                          {8, 16},    {72, 120}, {3, 5},    {256, 192}, {130, 40}};
    for (const Type type : types) {
        for (const int64_t N : {1, 2, 17, 63, 64, 65, 97, 127, 128, 129, 1000, 4099}) {
            run({"mask", type, 1, 1, N});
            run({"decay", type, 1, 5, N, 128, 128, mixed});
            run({"one split", type, 1, 3, N, 128, 128, {}, false, 0, 1});
            run({"two splits", type, 2, 3, N, 128, 128, {0.999, 0.5, 1.0}, false, 0, 2});
            run({"seven splits", type, 2, 2, N, 128, 128, {}, true, 0, 7});
        }
        for (const auto& [r, d] : shapes) {
            for (const int64_t N : {1, 65, 1000}) {
                run({"shape", type, 2, 3, N, r, d, {0.99, 1.0, 0.2}});
                run({"strides", type, 2, 3, N, r, d, {0.99, 1.0, 0.2}, true, 8, 5});
            }
        }
        run({"zeros", type, 1, 2, 300, 128, 128, {}, false, 0, 0, 0.0});
        run({"long", type, 1, 2, 65536, 128, 128, {1.0, 0.9999}});
        // Heads of several splits, as planned.
        for (const auto& [r, d] : shapes) run({"many heads", type, 1, 40, 1500, r, d});
        run({"many heads", type, 1, 32, 8192});
        run({"many heads", type, 2, 20, 3000});
        run({"many heads", type, 1, 32, 8192, 128, 128, alibi(32)});
        run({"many heads", type, 1, 16, 3001, 128, 128, {1, 1, 1, 1, 0.9, 0.99, 0.999, 0.5, 1, 1, 1, 1, 1, 1, 1, 1}});
    }
    return tally.report();
}

struct Case {
    Problem problem;
    double must, aim;
};

bool time_all(const std::vector<Case>& cases, const std::string& only, cudaStream_t stream) {
    const double bandwidth = bench::copy_bandwidth(std::size_t{3} << 29, stream);
    std::printf("floor: q, k, v read and o written once at %.3f TB/s\n", bandwidth * 1e-12);
    std::printf("%-34s %9s %9s %9s %9s %7s %7s %7s %8s %8s %9s\n", "case", "floor ms", "median", "best", "call",
                "ratio", "must", "aim", "GB/s", "TFLOP/s", "error");
    // As in a program, whose other tensors were written before the call: their lines fill most of the second-level
    // cache.
    const Buffer others(std::size_t{40} << 20);
    bool all = true;
    for (const Case& c : cases) {
        const Problem& p = c.problem;
        if (p.name.find(only) == std::string::npos) continue;
        double error = 0;
        all = right(p, 4, stream, &error, 77) && all;
        const double bytes = p.bytes();
        // Enough sets of tensors that none is still in the cache when its turn comes again.
        const int sets = static_cast<int>(std::clamp(1e9 / bytes, 1.0, 8.0));
        std::vector<LinearTensors> t;
        for (int i = 0; i < sets; ++i) t.push_back(prepared(p, 100 + static_cast<std::uint64_t>(i), stream));
        bench::poison(others, stream);
        const bench::Times ms =
            bench::time([&](int i) { lightning_attention_2(t[static_cast<std::size_t>(i % sets)].args, stream); }, sets,
                        bytes > 1e9 ? 21 : 61, stream);
        const double floor = bytes / bandwidth * 1e3;
        const double flop = static_cast<double>(p.B * p.H * p.N) * (64.0 * 2 * (p.r + p.d) + 4.0 * p.r * p.d);
        std::printf("%-34s %9.4f %9.4f %9.4f %9.4f %7.3f %7.2f %7.2f %8.0f %8.1f %9.2e  workspace %.1f MB\n",
                    p.name.c_str(), floor, ms.median, ms.best, ms.call, ms.median / floor, c.must, c.aim,
                    bytes / ms.median * 1e-6, flop / ms.median * 1e-9, error,
                    static_cast<double>(t[0].workspace.bytes()) * 1e-6);
        std::fflush(stdout);
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "", only = argc > 2 ? argv[2] : "";
    Stream stream;
    bool ok = true;
    if (what != "time")
        ok = check_all({Type::BFloat16, Type::Float16, Type::Float32}, what == "check" ? only : "", stream);
    if (what != "check") {
        const Type bf16 = Type::BFloat16;
        const std::vector<Case> cases = {
            {{"decay N=100000", bf16, 1, 32, 100000, 128, 128, alibi(32)}, 1.45, 1.15},
            {{"mask N=100000", bf16, 1, 32, 100000}, 1.6, 1.3},
            {{"decay N=8192", bf16, 1, 32, 8192, 128, 128, alibi(32)}, 1.8, 1.35},
            {{"mask N=8192", bf16, 1, 32, 8192}, 1.8, 1.35},
            {{"decay B=16 N=8192", bf16, 16, 32, 8192, 128, 128, alibi(32)}, 1.3, 1.1},
            {{"mask B=16 N=8192", bf16, 16, 32, 8192}, 1.3, 1.1},
            {{"decay h=8 N=100000", bf16, 1, 8, 100000, 128, 128, alibi(8)}, 1.8, 1.3},
            {{"mask h=8 N=100000", bf16, 1, 8, 100000}, 1.8, 1.3},
            {{"f32 decay N=100000", Type::Float32, 1, 32, 100000, 128, 128, alibi(32)}, 1.6, 1.3},
            {{"f32 mask N=100000", Type::Float32, 1, 32, 100000}, 1.6, 1.3},
            {{"f32 decay N=8192", Type::Float32, 1, 32, 8192, 128, 128, alibi(32)}, 1.6, 1.3},
            {{"f16 decay N=100000", Type::Float16, 1, 32, 100000, 128, 128, alibi(32)}, 1.45, 1.15},
            {{"d=64 decay N=100000", bf16, 1, 32, 100000, 64, 64, alibi(32)}, 1.45, 1.15},
            {{"decay token-major N=100000", bf16, 1, 32, 100000, 128, 128, alibi(32), true}, 1.45, 1.15},
        };
        ok = time_all(cases, only, stream) && ok;
    }
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
