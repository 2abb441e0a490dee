// Every method of causal linear attention on the GPU: checked against Float64 on the CPU first, then timed against the
// floor (q, k, v read and o written once at the copy bandwidth of the same run) and against the rate of products of
// Float32 matrices by cuBLAS.
//
//   bench_exact                     checks of many sizes, then times
//   bench_exact check | time        one of them; further arguments: the only methods
//   bench_exact forms               times of the four forms of the tpu document, N = 8192 and 32768
//   bench_exact once                one call of every method at N = 8192, for a profiler

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "core/exact/registry.hpp"
#include "gpu/base/blas.hpp"
#include "gpu/bench/bench.hpp"
#include "gpu/exact/normalize.hpp"
#include "gpu/exact/registry.hpp"

using namespace causeway;
using namespace causeway::gpu;
using std::int64_t;

namespace {

using gpu::Buffer;  // not core's
using Numbers = std::vector<double>;

struct Problem {
    Type type = Type::Float32;
    int64_t B = 1, H = 1, N = 1;
    int r = 128, d = 128;
    Numbers gamma = {};        // empty: the 0-1 mask
    bool token_major = false;  // [B, N, H, width] instead of [B, H, N, width]
    int pad = 0;               // unused columns between the rows of all tensors
    bool state = false;
    int stretches = 0;
    double v_scale = 1;
    Precision precision = Precision::bf16x3;

    double decay(int64_t h) const { return gamma.empty() ? 1 : gamma[static_cast<std::size_t>(h)]; }
};

std::string describe(const Problem& p) {
    static const char* const types[] = {"f32", "bf16", "f16"};
    std::string s = std::string(types[int(p.type)]) + " B=" + std::to_string(p.B) + " h=" + std::to_string(p.H) +
                    " N=" + std::to_string(p.N) + " r=" + std::to_string(p.r) + " d=" + std::to_string(p.d) +
                    (p.gamma.empty() ? " mask" : " decay");
    if (p.token_major) s += " token-major";
    if (p.pad) s += " pad";
    if (p.state) s += " state";
    if (p.stretches) s += " stretches=" + std::to_string(p.stretches);
    return s;
}

Strides strides(const Problem& p, int width) {
    const int64_t w = width + p.pad;
    if (p.token_major) return {p.N * p.H * w, w, p.H * w};
    return {p.H * p.N * w, p.N * w, w};
}

Numbers to_host(const void* data, Type type, std::size_t n) {
    const std::size_t bytes = static_cast<std::size_t>(bytes_of(type));
    std::vector<unsigned char> raw(n * bytes);
    check(cudaMemcpy(raw.data(), data, raw.size(), cudaMemcpyDeviceToHost), "copying from the GPU");
    Numbers x(n);
    for (std::size_t i = 0; i < n; ++i) {
        uint16_t bits = 0;
        float y = 0;
        if (type == Type::Float32) std::memcpy(&y, raw.data() + 4 * i, 4);
        else std::memcpy(&bits, raw.data() + 2 * i, 2);
        if (type == Type::Float16) y = __half2float(__half(__half_raw{bits}));
        if (type == Type::BFloat16) y = __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{bits}));
        x[i] = y;
    }
    return x;
}

// Rows of one head.
Numbers rows(const void* data, Type type, Strides s, int64_t b, int64_t h, int64_t N, int width) {
    const int64_t bytes = bytes_of(type);
    Buffer packed(static_cast<std::size_t>(N * width * bytes));
    check(
        cudaMemcpy2D(packed.data(), width * bytes, static_cast<const char*>(data) + (b * s.batch + h * s.head) * bytes,
                     s.token * bytes, width * bytes, N, cudaMemcpyDeviceToDevice),
        "copying on the GPU");
    return to_host(packed.data(), type, static_cast<std::size_t>(N * width));
}

struct Tensors {
    Buffer q, k, v, o, state, workspace;
    CausalArgs args;
};

Tensors make(const Problem& p, std::uint64_t seed, cudaStream_t stream) {
    Tensors t;
    const auto count = [&](int width) { return static_cast<std::size_t>(p.B * p.H * p.N * (width + p.pad)); };
    const std::size_t bytes = static_cast<std::size_t>(bytes_of(p.type));
    t.q = Buffer(count(p.r) * bytes), t.k = Buffer(count(p.r) * bytes), t.v = Buffer(count(p.d) * bytes),
    t.o = Buffer(count(p.d) * bytes);
    bench::fill_normal(t.q.data(), p.type, count(p.r), 4 * seed, 1.0 / std::sqrt(p.r), stream);
    bench::fill_normal(t.k.data(), p.type, count(p.r), 4 * seed + 1, 1.0, stream);
    bench::fill_normal(t.v.data(), p.type, count(p.d), 4 * seed + 2, p.v_scale, stream);
    if (p.state) {
        const std::size_t n = static_cast<std::size_t>(p.B * p.H * p.r * p.d);
        t.state = Buffer(4 * n);
        bench::fill_normal(t.state.data(), Type::Float32, n, 4 * seed + 3, 1.0, stream);
    }
    CausalArgs& a = t.args;
    a.q = t.q.data(), a.k = t.k.data(), a.v = t.v.data(), a.o = t.o.data();
    a.type = p.type, a.B = p.B, a.H = p.H, a.N = p.N, a.r = p.r, a.d = p.d;
    a.q_stride = a.k_stride = strides(p, p.r), a.v_stride = a.o_stride = strides(p, p.d);
    a.gamma = p.gamma.empty() ? nullptr : p.gamma.data();
    a.state = static_cast<float*>(t.state.data());
    a.stretches = p.stretches, a.precision = p.precision;
    check(cudaStreamSynchronize(stream), "filling with random numbers");
    return t;
}

// Outputs of some heads and their states by the recurrence S ← γ S + kᵀ v, o = q S in Float64; and Σ ‖q‖²‖k‖²‖v‖² / r,
// what a row's own term has of it where its score is neither large nor small.
struct Reference {
    std::vector<int64_t> lines;
    std::vector<Numbers> o, state;
    std::vector<double> size, state_size;  // state_size: ‖state‖² where its terms neither cancel nor agree
};

Reference reference(const Problem& p, const Tensors& t, int64_t most_heads) {
    Reference x;
    const int64_t all = p.B * p.H;
    for (int64_t i = 0; i < std::min(all, most_heads); ++i)
        x.lines.push_back(i * (all - 1) / std::max<int64_t>(std::min(all, most_heads) - 1, 1));
    x.o.resize(x.lines.size()), x.state.resize(x.lines.size()), x.size.resize(x.lines.size()),
        x.state_size.resize(x.lines.size());
    std::vector<std::thread> pool;
    for (std::size_t i = 0; i < x.lines.size(); ++i) {
        const int64_t line = x.lines[i], b = line / p.H, h = line % p.H;
        const auto in = [&](const void* data, Strides s, int width) { return rows(data, p.type, s, b, h, p.N, width); };
        Numbers q = in(t.q.data(), t.args.q_stride, p.r), k = in(t.k.data(), t.args.k_stride, p.r),
                v = in(t.v.data(), t.args.v_stride, p.d);
        x.state[i] = Numbers(static_cast<std::size_t>(p.r) * static_cast<std::size_t>(p.d));
        if (p.state) x.state[i] = to_host(t.state.as<float>() + line * p.r * p.d, Type::Float32, x.state[i].size());
        pool.emplace_back([&, i, h, q = std::move(q), k = std::move(k), v = std::move(v)] {
            Numbers& S = x.state[i];
            Numbers& o = x.o[i];
            o.assign(static_cast<std::size_t>(p.N * p.d), 0.0);
            const double gamma = p.decay(h);
            for (int64_t n = 0; n < p.N; ++n) {
                double q2 = 0, k2 = 0, v2 = 0, *row = o.data() + n * p.d;
                const double* vn = v.data() + n * p.d;
                for (int j = 0; j < p.d; ++j) v2 += vn[j] * vn[j];
                for (int e = 0; e < p.r; ++e) {
                    const double qe = q[n * p.r + e], ke = k[n * p.r + e];
                    double* s = S.data() + static_cast<std::size_t>(e) * p.d;
                    q2 += qe * qe, k2 += ke * ke;
                    for (int j = 0; j < p.d; ++j) {
                        s[j] = gamma * s[j] + ke * vn[j];
                        row[j] += qe * s[j];
                    }
                }
                x.size[i] += q2 * k2 * v2 / p.r;
                x.state_size[i] = gamma * gamma * x.state_size[i] + k2 * v2;
            }
        });
        if (pool.size() >= 8) {
            for (auto& thread : pool) thread.join();
            pool.clear();
        }
    }
    for (auto& thread : pool) thread.join();
    return x;
}

double deviation(const Numbers& got, const Numbers& want, double least) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
        error += (got[i] - want[i]) * (got[i] - want[i]), norm += want[i] * want[i];
    }
    norm = std::max(norm, least);  // a single score may cancel to almost nothing
    return norm > 0 ? std::sqrt(error / norm) : error > 0 ? std::numeric_limits<double>::infinity() : 0;
}

// Runs the method on poisoned outputs and compares; the worse of the errors of outputs and states, over heads the
// worst.
double error_of(const CausalMethod& m, const Problem& p, Tensors& t, const Reference& x, cudaStream_t stream) {
    const Numbers start = p.state ? to_host(t.state.data(), Type::Float32, t.state.bytes() / 4) : Numbers{};
    check(cudaMemsetAsync(t.o.data(), 0xFF, t.o.bytes(), stream), "poisoning o");
    t.workspace = Buffer(m.workspace(t.args));
    if (t.workspace.bytes() > 0)
        check(cudaMemsetAsync(t.workspace.data(), 0xFF, t.workspace.bytes(), stream), "poisoning the workspace");
    t.args.workspace = {t.workspace.data(), t.workspace.bytes()};
    m.run(t.args, stream);
    check(cudaStreamSynchronize(stream), m.name.c_str());
    double worst = 0;
    for (std::size_t i = 0; i < x.lines.size(); ++i) {
        const int64_t line = x.lines[i];
        worst = std::max(worst, deviation(rows(t.o.data(), p.type, t.args.o_stride, line / p.H, line % p.H, p.N, p.d),
                                          x.o[i], x.size[i]));
        if (!p.state) continue;
        const Numbers S = to_host(t.state.as<float>() + line * p.r * p.d, Type::Float32, x.state[i].size());
        worst = std::max(worst, deviation(S, x.state[i], x.state_size[i]));
    }
    if (p.pad > 0) {
        std::vector<unsigned char> raw(t.o.bytes());
        check(cudaMemcpy(raw.data(), t.o.data(), raw.size(), cudaMemcpyDeviceToHost), "copying from the GPU");
        const std::size_t e = static_cast<std::size_t>(bytes_of(p.type)),
                          line = static_cast<std::size_t>(p.d + p.pad) * e;
        for (std::size_t i = 0; i < raw.size(); ++i)
            if (i % line >= p.d * e && raw[i] != 0xFF) worst = std::numeric_limits<double>::infinity();
    }
    if (p.state) {  // as it was, for the next method
        std::vector<float> back(start.begin(), start.end());
        check(cudaMemcpy(t.state.data(), back.data(), t.state.bytes(), cudaMemcpyHostToDevice), "copying to the GPU");
    }
    return worst;
}

// Of the relative Frobenius error: 7 of the note on kernels; of a few numbers all may be rounded by the most.
double bound(const CausalMethod& m, const Problem& p) {
    const bool few = p.N * p.d * std::min<int64_t>(p.B * p.H, 6) < 4096;
    if (p.type == Type::BFloat16) return few ? 8e-3 : 3.5e-3;
    if (p.type == Type::Float16) return few ? 1e-3 : 6e-4;
    return m.f32_error;
}

Numbers alibi(int64_t H) {  // exp(-2^(-8 (h+1) / H)): Press et al. 2022
    Numbers gamma;
    for (int64_t h = 0; h < H; ++h)
        gamma.push_back(std::exp(-std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(H))));
    return gamma;
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
            problems.push_back({type, 1, 1, N});
            problems.push_back({type, 1, 6, N, 128, 128, mixed});
            problems.push_back({type, 2, 6, N, 40, 72, mixed, N % 2 == 0, 0, true});
            problems.push_back({type, 1, 6, N, 128, 64, mixed, false, 4, true, 3});
        }
        for (const auto& [r, d] : std::vector<std::pair<int, int>>{
                 {1, 1}, {3, 5}, {16, 128}, {64, 64}, {96, 80}, {128, 33}, {130, 40}, {256, 192}, {31, 256}}) {
            problems.push_back({type, 2, 3, 200, r, d, {0.99, 1.0, 0.2}, true, 1, true, 4});
        }
        problems.push_back({type, 1, 2, 300, 128, 128, {}, false, 0, true, 0, 0.0});
        problems.push_back({type, 1, 300, 20, 16, 8, {}, false, 0, true});
        problems.push_back({type, 1, 2, 20000, 128, 128, {1.0, 0.99999}, false, 0, true});
    }
    std::vector<double> worst(causal_methods().size() * 3);
    int count = 0, wrong = 0;
    for (std::size_t i = 0; i < problems.size(); ++i) {
        const Problem& p = problems[i];
        Tensors t = make(p, i + 1, stream);
        const Reference x = reference(p, t, 6);
        for (std::size_t j = 0; j < causal_methods().size(); ++j) {
            const CausalMethod& m = causal_methods()[j];
            if (!chosen(only, m.name) || (p.state && !m.state) || p.H > m.max_heads) continue;
            ++count;
            try {
                const double e = error_of(m, p, t, x, stream);
                double& w = worst[3 * j + static_cast<std::size_t>(p.type)];
                w = std::max(w, e);
                if (e <= bound(m, p)) continue;
                std::printf("WRONG %s: %s: error %.3e, bound %.1e\n", m.name.c_str(), describe(p).c_str(), e,
                            bound(m, p));
            } catch (const Error& error) {
                std::printf("FAILED %s: %s: %s\n", m.name.c_str(), describe(p).c_str(), error.what());
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
            problems.push_back({Type::Float32, 1, 32, N, 128, 128, decays ? alibi(32) : Numbers{}});
    }
    problems.push_back({Type::Float32, 1, 32, 100000, 32, 128, alibi(32)});
    problems.push_back({Type::BFloat16, 1, 32, 100000, 128, 128, alibi(32)});
    problems.push_back({Type::Float32, 1, 8, 100000, 128, 128, alibi(8)});
    problems.push_back({Type::Float32, 1, 8, 100000, 128, 128});
    problems.push_back({Type::Float32, 16, 32, 8192, 128, 128, alibi(32)});
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
        Tensors t = make(p, 77, stream);
        const Reference x = reference(p, t, 3);
        for (const CausalMethod& m : causal_methods()) {
            if (!chosen(only, m.name) || !fits(m, p)) continue;
            try {
                const double error = error_of(m, p, t, x, stream);
                const bool right = error <= 2 * bound(m, p);
                all = all && right;
                const double bytes = static_cast<double>(p.B * p.H * p.N) * 2.0 * (p.r + p.d) * bytes_of(p.type),
                             floor = bytes / bandwidth * 1e3;
                const bench::Times ms = bench::time([&](int) { m.run(t.args, stream); }, 1, 7, stream);
                const double work = static_cast<double>(p.B * p.H * p.N) * 2.0 * p.r * p.d;
                std::printf("%-24s %-44s %9.4f %9.4f %9.4f %8.2f %9.1f %9.2f %9.2e  %.1f%s\n", m.name.c_str(),
                            describe(p).c_str(), floor, ms.median, ms.call, ms.median / floor,
                            2 * work / ms.median * 1e-9, work / (ms.median * 1e-3) / rate, error,
                            static_cast<double>(t.workspace.bytes()) * 1e-6, right ? "" : " WRONG");
            } catch (const Error& e) {
                std::printf("%-24s %-44s %s\n", m.name.c_str(), describe(p).c_str(), e.what());
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
        std::printf("%-24s %-44s %9.4f %9.4f %9.4f %8.2f %9s %9s %9s  %.1f\n", "normalize", describe(p).c_str(),
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
        const Problem p{Type::Float32, 1, 32, 8192, 128, 128, alibi(32)};
        Tensors t = make(p, 1, stream);
        for (const CausalMethod& m : causal_methods())
            if (chosen(only, m.name)) error_of(m, p, t, {}, stream);
        return 0;
    }
    if (what == "forms") {
        const Numbers decay = alibi(32);
        const std::vector<Problem> problems = {{Type::Float32, 1, 32, 8192, 128, 128, decay},
                                               {Type::Float32, 1, 32, 32768, 128, 128, decay}};
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
