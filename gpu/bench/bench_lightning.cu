// Lightning Attention-2 on the GPU: checked against Float64 on the CPU first, then timed against the floor: the time to
// read q, k, v and write o once at the copy bandwidth measured in the same run.
//
//   bench_lightning                 checks, then times
//   bench_lightning check | time    one of them; a second argument picks the cases whose name contains it

#include <cmath>
#include <limits>
#include <string>
#include <thread>

#include "gpu/bench/reference.hpp"
#include "gpu/exact/lightning.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::alibi;
using bench::Deviation;
using bench::rows;
using std::int64_t;

namespace {

struct Problem {
    std::string name;
    Type type = Type::BFloat16;
    int64_t B = 1, H = 1, N = 1;
    int r = 128, d = 128;
    std::vector<double> gamma = {};  // empty: the 0-1 mask
    bool token_major = false;        // [B, N, H, width] instead of [B, H, N, width]
    int pad = 0;                     // unused columns between the rows of all tensors
    int stretches = 0;
    double v_scale = 1;
};

Strides strides(const Problem& p, int width) {
    const int64_t w = width + p.pad;
    if (p.token_major) return {p.N * p.H * w, w, p.H * w};
    return {p.H * p.N * w, p.N * w, w};
}

struct Tensors {
    Buffer q, k, v, o, workspace;
    CausalArgs args;
    std::size_t q_count = 0, v_count = 0;
};

Tensors make(const Problem& p, std::uint64_t seed, cudaStream_t stream) {
    Tensors t;
    t.q_count = static_cast<std::size_t>(p.B * p.H * p.N * (p.r + p.pad)),
    t.v_count = static_cast<std::size_t>(p.B * p.H * p.N * (p.d + p.pad));
    const std::size_t bytes = static_cast<std::size_t>(bytes_of(p.type));
    t.q = Buffer(t.q_count * bytes), t.k = Buffer(t.q_count * bytes), t.v = Buffer(t.v_count * bytes),
    t.o = Buffer(t.v_count * bytes);
    bench::fill_normal(t.q.data(), p.type, t.q_count, 3 * seed, 1.0 / std::sqrt(p.r), stream);
    bench::fill_normal(t.k.data(), p.type, t.q_count, 3 * seed + 1, 1.0, stream);
    bench::fill_normal(t.v.data(), p.type, t.v_count, 3 * seed + 2, p.v_scale, stream);
    check(cudaMemsetAsync(t.o.data(), 0xFF, t.o.bytes(), stream), "poisoning o");
    CausalArgs& a = t.args;
    a.q = t.q.data(), a.k = t.k.data(), a.v = t.v.data(), a.o = t.o.data();
    a.type = p.type, a.B = p.B, a.H = p.H, a.N = p.N, a.r = p.r, a.d = p.d;
    a.q_stride = a.k_stride = strides(p, p.r), a.v_stride = a.o_stride = strides(p, p.d);
    a.gamma = p.gamma.empty() ? nullptr : p.gamma.data();
    a.splits = p.stretches;
    t.workspace = Buffer(lightning_workspace(a));
    a.workspace.data = t.workspace.data(), a.workspace.bytes = t.workspace.bytes();
    return t;
}

// Of the relative Frobenius error; Float16 has eight times BFloat16's precision. A few numbers may all be rounded by
// the most, once as a score and once as an output; over many it is the root mean square that counts.
double bound(const Problem& p) {
    const double few = p.N * p.B * p.H * std::min(p.r, p.d) < 4096 ? 2.2 : 1;
    return few * (p.type == Type::BFloat16 ? 3.5e-3 : p.type == Type::Float16 ? 4.5e-4 : 1e-5);
}

std::string describe(const Problem& p) {
    char line[160];
    const char* types[] = {"f32", "bf16", "f16"};
    std::snprintf(line, sizeof line, "%s %s B=%lld H=%lld N=%lld r=%d d=%d%s pad=%d stretches=%d gamma[0]=%g",
                  p.name.c_str(), types[int(p.type)], (long long)p.B, (long long)p.H, (long long)p.N, p.r, p.d,
                  p.token_major ? " token-major" : "", p.pad, p.stretches, p.gamma.empty() ? 1.0 : p.gamma[0]);
    return line;
}

// Runs once on poisoned output and compares up to `heads` heads; prints what is wrong, or the worst error when asked.
bool right(const Problem& p, int heads, cudaStream_t stream, double* worst_seen = nullptr, std::uint64_t seed = 1) {
    double worst = 0;
    bool clean = true, padding = true;
    try {
        const Tensors t = make(p, seed, stream);
        lightning_attention_2(t.args, stream);
        check(cudaStreamSynchronize(stream), "running lightning_attention_2");
        const int64_t all = p.B * p.H;
        std::vector<int64_t> chosen;
        for (int64_t i = 0; i < std::min<int64_t>(heads, all); ++i)
            chosen.push_back(heads >= all ? i : i * (all - 1) / std::max(1, heads - 1));
        std::vector<Deviation> result(chosen.size());
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const int64_t b = chosen[i] / p.H, h = chosen[i] % p.H;
            auto q = rows(t.args.q, p.type, t.args.q_stride, b, h, p.N, p.r),
                 k = rows(t.args.k, p.type, t.args.k_stride, b, h, p.N, p.r);
            auto v = rows(t.args.v, p.type, t.args.v_stride, b, h, p.N, p.d),
                 o = rows(t.args.o, p.type, t.args.o_stride, b, h, p.N, p.d);
            const double gamma = p.gamma.empty() ? 1.0 : p.gamma[static_cast<std::size_t>(h)];
            threads.emplace_back([&, i, gamma, q = std::move(q), k = std::move(k), v = std::move(v), o = std::move(o)] {
                result[i] = bench::deviation(q, k, v, o, p.N, p.r, p.d, gamma);
            });
        }
        for (auto& thread : threads) thread.join();
        for (const Deviation& x : result) {
            clean = clean && x.clean;
            const double norm = std::max(x.norm, x.size);  // a single score may cancel to almost nothing
            worst = std::max(worst, norm > 0      ? std::sqrt(x.error / norm)
                                    : x.error > 0 ? std::numeric_limits<double>::infinity()
                                                  : 0);
        }
        if (p.pad > 0) {
            std::vector<unsigned char> raw(t.o.bytes());
            check(cudaMemcpy(raw.data(), t.o.data(), raw.size(), cudaMemcpyDeviceToHost), "copying from the GPU");
            const std::size_t e = static_cast<std::size_t>(bytes_of(p.type)),
                              line = static_cast<std::size_t>(p.d + p.pad) * e;
            for (std::size_t i = 0; i < raw.size(); ++i) padding = padding && (i % line < p.d * e || raw[i] == 0xFF);
        }
    } catch (const Error& error) {
        std::printf("FAILED %s: %s\n", describe(p).c_str(), error.what());
        return false;
    }
    if (worst_seen) *worst_seen = std::max(*worst_seen, worst);
    const bool ok = clean && padding && worst <= bound(p);
    if (!ok) {
        std::printf("WRONG %s: error %.3e, bound %.1e%s%s\n", describe(p).c_str(), worst, bound(p),
                    clean ? "" : ", NaN or Inf in o", padding ? "" : ", wrote outside o");
    }
    return ok;
}

bool check_all(const std::vector<Type>& types, const std::string& only, cudaStream_t stream) {
    int count = 0, wrong = 0;
    double worst[3] = {};
    const auto run = [&](const Problem& p) {
        if (p.name.find(only) == std::string::npos) return;
        ++count;
        if (!right(p, 6, stream, &worst[int(p.type)], static_cast<std::uint64_t>(count))) ++wrong;
    };
    const std::vector<double> mixed = {0.9, 1.0, 0.5, 1 - 1.0 / 256, 1e-4};
    const std::pair<int, int> shapes[] = {{128, 128}, {64, 64},  {64, 128}, {128, 64},  {96, 80},
                                          {8, 16},    {72, 120}, {3, 5},    {256, 192}, {130, 40}};
    for (const Type type : types) {
        for (const int64_t N : {1, 2, 17, 63, 64, 65, 97, 127, 128, 129, 1000, 4099}) {
            run({"mask", type, 1, 1, N});
            run({"decay", type, 1, 5, N, 128, 128, mixed});
            run({"one stretch", type, 1, 3, N, 128, 128, {}, false, 0, 1});
            run({"two stretches", type, 2, 3, N, 128, 128, {0.999, 0.5, 1.0}, false, 0, 2});
            run({"seven stretches", type, 2, 2, N, 128, 128, {}, true, 0, 7});
        }
        for (const auto& [r, d] : shapes) {
            for (const int64_t N : {1, 65, 1000}) {
                run({"shape", type, 2, 3, N, r, d, {0.99, 1.0, 0.2}});
                run({"strides", type, 2, 3, N, r, d, {0.99, 1.0, 0.2}, true, 8, 5});
            }
        }
        run({"zeros", type, 1, 2, 300, 128, 128, {}, false, 0, 0, 0.0});
        run({"long", type, 1, 2, 65536, 128, 128, {1.0, 0.9999}});
        // Heads of several stretches, as planned.
        for (const auto& [r, d] : shapes) run({"many heads", type, 1, 40, 1500, r, d});
        run({"many heads", type, 1, 32, 8192});
        run({"many heads", type, 2, 20, 3000});
        run({"many heads", type, 1, 32, 8192, 128, 128, alibi(32)});
        run({"many heads", type, 1, 16, 3001, 128, 128, {1, 1, 1, 1, 0.9, 0.99, 0.999, 0.5, 1, 1, 1, 1, 1, 1, 1, 1}});
    }
    std::printf("checks: %d, wrong: %d; worst error bf16 %.3e, f16 %.3e, f32 %.3e\n", count, wrong, worst[1], worst[2],
                worst[0]);
    return wrong == 0;
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
    bool all = true;
    for (const Case& c : cases) {
        const Problem& p = c.problem;
        if (p.name.find(only) == std::string::npos) continue;
        double error = 0;
        all = right(p, 4, stream, &error, 77) && all;
        const double bytes = static_cast<double>(p.B * p.H * p.N) * 2.0 * (p.r + p.d) * bytes_of(p.type);
        // Enough sets of tensors that none is still in the cache when its turn comes again.
        const int sets = static_cast<int>(std::clamp(1e9 / bytes, 1.0, 8.0));
        std::vector<Tensors> t;
        for (int i = 0; i < sets; ++i) t.push_back(make(p, 100 + static_cast<std::uint64_t>(i), stream));
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
