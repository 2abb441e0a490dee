// Every method of causal linear attention on the GPU: checked against Float64 on the CPU first, then timed against the
// floor (q, k, v read and o written once at the copy bandwidth of the same run) and against the rate of products of
// Float32 matrices by cuBLAS.
//
//   bench_exact                     checks of many sizes, then times
//   bench_exact check | time        one of them; further arguments: the only methods
//   bench_exact forms               times of the four forms of the tpu document, N = 8192 and 32768
//   bench_exact once                one call of every method at N = 8192, for a profiler

#include <string>

#include "core/exact/registry.hpp"
#include "gpu/base/blas.hpp"
#include "gpu/bench/linear_problem.hpp"
#include "gpu/exact/normalize.hpp"
#include "gpu/exact/registry.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::alibi;
using bench::LinearReference;
using bench::LinearTensors;
using bench::Numbers;
using std::int64_t;

namespace {

using gpu::Buffer;  // not core's
using Problem = bench::LinearProblem;

// Runs the method on poisoned outputs and compares; the worse of the errors of outputs and states, over heads the
// worst.
double error_of(const CausalMethod& m, const Problem& p, LinearTensors& t, const LinearReference& x,
                cudaStream_t stream) {
    const Buffer start(t.state.bytes());
    const auto copy_state = [&](const Buffer& to, const Buffer& from) {
        if (p.state)
            check(cudaMemcpy(to.data(), from.data(), to.bytes(), cudaMemcpyDeviceToDevice), "copying the state");
    };
    copy_state(start, t.state);
    bench::poison(t.o, stream);
    t.give_workspace(m.workspace(t.args), stream);
    m.run(t.args, stream);
    check(cudaStreamSynchronize(stream), m.name.c_str());
    const double error = bench::error_of(p, t, x);
    copy_state(t.state, start);  // as it was, for the next method
    return error;
}

// Of the relative Frobenius error: 7 of the note on kernels; of a few numbers all may be rounded by the most.
double bound(const CausalMethod& m, const Problem& p) {
    const bool few = p.N * p.d * std::min<int64_t>(p.B * p.H, 6) < 4096;
    if (p.type == Type::BFloat16) return few ? 8e-3 : 3.5e-3;
    if (p.type == Type::Float16) return few ? 1e-3 : 6e-4;
    return m.f32_error;
}

using Names = std::vector<std::string>;
bool chosen(const Names& only, const std::string& name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

bool check_all(const Names& only, cudaStream_t stream) {
    std::vector<Problem> problems;
    const Numbers mixed = {0.9, 1.0, 0.5, 1 - 1.0 / 256, 1e-4, 1e-30};
    for (const Type type : {Type::Float32, Type::BFloat16, Type::Float16}) {
        for (const int64_t N : {1, 2, 17, 63, 64, 65, 97, 1000}) {
            problems.push_back({"", type, 1, 1, N});
            problems.push_back({"", type, 1, 6, N, 128, 128, mixed});
            problems.push_back({"", type, 2, 6, N, 40, 72, mixed, N % 2 == 0, 0, 0, 1, true});
            problems.push_back({"", type, 1, 6, N, 128, 64, mixed, false, 4, 3, 1, true});
        }
        for (const auto& [r, d] : std::vector<std::pair<int, int>>{
                 {1, 1}, {3, 5}, {16, 128}, {64, 64}, {96, 80}, {128, 33}, {130, 40}, {256, 192}, {31, 256}}) {
            problems.push_back({"", type, 2, 3, 200, r, d, {0.99, 1.0, 0.2}, true, 1, 4, 1, true});
        }
        problems.push_back({"", type, 1, 2, 300, 128, 128, {}, false, 0, 0, 0.0, true});
        problems.push_back({"", type, 1, 300, 20, 16, 8, {}, false, 0, 0, 1, true});
        problems.push_back({"", type, 1, 2, 20000, 128, 128, {1.0, 0.99999}, false, 0, 0, 1, true});
    }
    std::vector<double> worst(causal_methods().size() * 3);
    int count = 0, wrong = 0;
    for (std::size_t i = 0; i < problems.size(); ++i) {
        const Problem& p = problems[i];
        LinearTensors t = bench::make(p, i + 1, stream);
        const LinearReference x = bench::reference(p, t, 6);
        for (std::size_t j = 0; j < causal_methods().size(); ++j) {
            const CausalMethod& m = causal_methods()[j];
            if (!chosen(only, m.name) || (p.state && !m.state) || p.H > m.max_heads) continue;
            ++count;
            try {
                const double e = error_of(m, p, t, x, stream);
                double& w = worst[3 * j + static_cast<std::size_t>(p.type)];
                w = std::max(w, e);
                if (e <= bound(m, p)) continue;
                std::printf("WRONG %s: %s: error %.3e, bound %.1e\n", m.name.c_str(), p.text().c_str(), e, bound(m, p));
            } catch (const Error& error) {
                std::printf("FAILED %s: %s: %s\n", m.name.c_str(), p.text().c_str(), error.what());
            }
            ++wrong;
        }
    }
    std::printf("checks: %d, wrong: %d\n%-24s %9s %9s %9s\n", count, wrong, "worst error", "f32", "bf16", "f16");
    for (std::size_t j = 0; j < causal_methods().size(); ++j) {
        if (chosen(only, causal_methods()[j].name))
            std::printf("%-24s %9.2e %9.2e %9.2e\n", causal_methods()[j].name.c_str(), worst[3 * j], worst[3 * j + 1],
                        worst[3 * j + 2]);
    }
    return wrong == 0;
}

// Whether it ends in a reasonable time, by its multiply-adds, and has no bench of its own.
bool fits(const CausalMethod& m, const Problem& p) {
    const auto work = exact::cost(exact::method(m.name), {p.N, p.r, p.d}).operations.adds;
    return !m.own_bench && static_cast<double>(work) * static_cast<double>(p.B * p.H) <= 4.5e12;
}

// Multiply-adds of Float32 matrices in a second, by cuBLAS.
double matrix_rate(cudaStream_t stream) {
    constexpr int64_t n = 8192;
    const Buffer a(4 * n * n), b(4 * n * n), c(4 * n * n), workspace(blas_workspace);
    bench::fill_normal(a.data(), Type::Float32, n * n, 1, 1.0, stream);
    bench::fill_normal(b.data(), Type::Float32, n * n, 2, 1.0, stream);
    const double ms = bench::time(
                          [&](int) {
                              multiply(blas(stream, workspace.data()), false, n, n, n, {a.as<float>(), n, 0},
                                       {b.as<float>(), n, 0}, 0, c.as<float>(), n, 0, 1);
                          },
                          1, 5, stream)
                          .median;
    return static_cast<double>(n) * n * n / (ms * 1e-3);
}

std::vector<Problem> main_problems() {
    std::vector<Problem> problems;
    for (const int64_t N : {100000, 8192}) {
        for (const bool decays : {true, false})
            problems.push_back({"", Type::Float32, 1, 32, N, 128, 128, decays ? alibi(32) : Numbers{}});
    }
    problems.push_back({"", Type::Float32, 1, 32, 100000, 32, 128, alibi(32)});
    problems.push_back({"", Type::BFloat16, 1, 32, 100000, 128, 128, alibi(32)});
    problems.push_back({"", Type::Float32, 1, 8, 100000, 128, 128, alibi(8)});
    problems.push_back({"", Type::Float32, 1, 8, 100000, 128, 128});
    problems.push_back({"", Type::Float32, 16, 32, 8192, 128, 128, alibi(32)});
    return problems;
}

bool time_all(const Names& only, const std::vector<Problem>& problems, cudaStream_t stream) {
    const double bandwidth = bench::copy_bandwidth(std::size_t{3} << 29, stream), rate = matrix_rate(stream);
    std::printf("copies at %.3f TB/s, products of Float32 matrices at %.1f TFLOP/s\n", bandwidth * 1e-12,
                2 * rate * 1e-12);
    std::printf("%-24s %-44s %9s %9s %9s %8s %9s %9s %9s  %s\n", "method", "case", "floor ms", "median", "call",
                "x floor", "TFLOP/s", "of SGEMM", "error", "workspace MB");
    bool all = true;
    for (const Problem& p : problems) {
        LinearTensors t = bench::make(p, 77, stream);
        const LinearReference x = bench::reference(p, t, 3);
        for (const CausalMethod& m : causal_methods()) {
            if (!chosen(only, m.name) || !fits(m, p)) continue;
            try {
                const double error = error_of(m, p, t, x, stream);
                const bool right = error <= 2 * bound(m, p);
                all = all && right;
                const double bytes = p.bytes(), floor = bytes / bandwidth * 1e3;
                const bench::Times ms = bench::time([&](int) { m.run(t.args, stream); }, 1, 7, stream);
                const double work = static_cast<double>(p.B * p.H * p.N) * 2.0 * p.r * p.d;
                std::printf("%-24s %-44s %9.4f %9.4f %9.4f %8.2f %9.1f %9.2f %9.2e  %.1f%s\n", m.name.c_str(),
                            p.text().c_str(), floor, ms.median, ms.call, ms.median / floor, 2 * work / ms.median * 1e-9,
                            work / (ms.median * 1e-3) / rate, error, static_cast<double>(t.workspace.bytes()) * 1e-6,
                            right ? "" : " WRONG");
            } catch (const Error& e) {
                std::printf("%-24s %-44s %s\n", m.name.c_str(), p.text().c_str(), e.what());
            }
            std::fflush(stdout);
        }
        if (!chosen(only, "normalize")) continue;
        // The division alone: k read twice, q once, o read and written. What it divides has been checked by the tests.
        t.workspace = Buffer(normalize_workspace(t.args));
        t.args.workspace = {t.workspace.data(), t.workspace.bytes()};
        check(cudaMemsetAsync(t.o.data(), 0, t.o.bytes(), stream), "clearing o");
        const double bytes = static_cast<double>(p.B * p.H * p.N) * (3.0 * p.r + 2.0 * p.d) * bytes_of(p.type);
        const bench::Times ms = bench::time([&](int) { normalize(t.args, stream); }, 1, 7, stream);
        std::printf("%-24s %-44s %9.4f %9.4f %9.4f %8.2f %9s %9s %9s  %.1f\n", "normalize", p.text().c_str(),
                    bytes / bandwidth * 1e3, ms.median, ms.call, ms.median / (bytes / bandwidth * 1e3), "", "", "",
                    static_cast<double>(t.workspace.bytes()) * 1e-6);
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "";
    const Names only(argv + std::min(argc, 2), argv + argc);
    Stream stream;
    bool ok = true;
    if (what == "once") {
        const Problem p{"", Type::Float32, 1, 32, 8192, 128, 128, alibi(32)};
        LinearTensors t = bench::make(p, 1, stream);
        for (const CausalMethod& m : causal_methods())
            if (chosen(only, m.name)) error_of(m, p, t, {}, stream);
        return 0;
    }
    if (what == "forms") {
        const Numbers decay = alibi(32);
        const std::vector<Problem> problems = {{"", Type::Float32, 1, 32, 8192, 128, 128, decay},
                                               {"", Type::Float32, 1, 32, 32768, 128, 128, decay}};
        return time_all(
                   only.empty() ? Names{"inner-product", "outer-product", "outer-product-blockwise", "hybrid"} : only,
                   problems, stream)
                   ? 0
                   : 1;
    }
    if (what != "time") ok = check_all(only, stream);
    if (what != "check") ok = time_all(only, main_problems(), stream) && ok;
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
