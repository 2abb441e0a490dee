// The gradients on the GPU: checked against Float64 on the CPU first, then timed with the forward pass. The floor is
// the time to move at the copy bandwidth measured in the same run what must be moved: forward q, k, v and o; backward
// q, k, v, dO, dq, dk and dv.
//
//   bench_gradient                 checks, then times
//   bench_gradient check | time    one of them

#include <cmath>
#include <limits>
#include <string>
#include <thread>

#include "gpu/bench/reference.hpp"
#include "gpu/exact/lightning.hpp"
#include "gpu/gradient/lightning.hpp"

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
    int stretches = 0;
};

struct Tensors {
    Buffer q, k, v, o, dO, dq, dk, dv, workspace;
    CausalArgs args;

    void forward(cudaStream_t stream) const { lightning_attention_2(args, stream); }
    void backward(cudaStream_t stream) const {
        lightning_grad(args, dO.data(), dq.data(), dk.data(), dv.data(), stream);
    }
};

Tensors make(const Problem& p, std::uint64_t seed, cudaStream_t stream) {
    Tensors t;
    const std::size_t q_count = static_cast<std::size_t>(p.B * p.H * p.N * p.r),
                      v_count = static_cast<std::size_t>(p.B * p.H * p.N * p.d);
    const std::size_t bytes = static_cast<std::size_t>(bytes_of(p.type));
    for (Buffer* x : {&t.q, &t.k, &t.dq, &t.dk}) *x = Buffer(q_count * bytes);
    for (Buffer* x : {&t.v, &t.o, &t.dO, &t.dv}) *x = Buffer(v_count * bytes);
    bench::fill_normal(t.q.data(), p.type, q_count, 4 * seed, 1.0 / std::sqrt(p.r), stream);
    bench::fill_normal(t.k.data(), p.type, q_count, 4 * seed + 1, 1.0, stream);
    bench::fill_normal(t.v.data(), p.type, v_count, 4 * seed + 2, 1.0, stream);
    bench::fill_normal(t.dO.data(), p.type, v_count, 4 * seed + 3, 1.0, stream);
    for (const Buffer* x : {&t.o, &t.dq, &t.dk, &t.dv})
        check(cudaMemsetAsync(x->data(), 0xFF, x->bytes(), stream), "poisoning outputs");
    CausalArgs& a = t.args;
    a.q = t.q.data(), a.k = t.k.data(), a.v = t.v.data(), a.o = t.o.data();
    a.type = p.type, a.B = p.B, a.H = p.H, a.N = p.N, a.r = p.r, a.d = p.d;
    a.q_stride = a.k_stride = contiguous(p.H, p.N, p.r), a.v_stride = a.o_stride = contiguous(p.H, p.N, p.d);
    a.gamma = p.gamma.empty() ? nullptr : p.gamma.data();
    a.splits = p.stretches;
    t.workspace = Buffer(std::max(lightning_workspace(a), lightning_grad_workspace(a)));
    a.workspace = {t.workspace.data(), t.workspace.bytes()};
    return t;
}

double bound(const Problem& p) {
    const double few = p.N * p.B * p.H * std::min(p.r, p.d) < 4096 ? 2.2 : 1;
    return few * (p.type == Type::BFloat16 ? 3.5e-3 : p.type == Type::Float16 ? 4.5e-4 : 1e-5);
}

// The largest relative error of dq, dk and dv over up to `heads` heads; prints what is wrong.
bool right(const Problem& p, int heads, cudaStream_t stream, double* worst_seen, std::uint64_t seed) {
    double worst[3] = {};
    bool clean = true;
    try {
        const Tensors t = make(p, seed, stream);
        t.backward(stream);
        check(cudaStreamSynchronize(stream), "running lightning_grad");
        const int64_t all = p.B * p.H;
        const Strides sq = t.args.q_stride, sv = t.args.v_stride;
        for (int64_t i = 0; i < std::min<int64_t>(heads, all); ++i) {
            const int64_t line = heads >= all ? i : i * (all - 1) / std::max(1, heads - 1), b = line / p.H,
                          h = line % p.H;
            const auto read = [&](const Buffer& x, Strides s, int width) {
                return rows(x.data(), p.type, s, b, h, p.N, width);
            };
            const auto q = read(t.q, sq, p.r), k = read(t.k, sq, p.r), v = read(t.v, sv, p.d), dO = read(t.dO, sv, p.d);
            const auto dq = read(t.dq, sq, p.r), dk = read(t.dk, sq, p.r), dv = read(t.dv, sv, p.d);
            const double gamma = p.gamma.empty() ? 1.0 : p.gamma[static_cast<std::size_t>(h)];
            Deviation result[3];
            std::thread first([&] { result[0] = bench::deviation(dO, v, k, dq, p.N, p.d, p.r, gamma); });
            std::thread second([&] { result[1] = bench::deviation(v, dO, q, dk, p.N, p.d, p.r, gamma, true); });
            result[2] = bench::deviation(k, q, dO, dv, p.N, p.r, p.d, gamma, true);
            first.join(), second.join();
            for (int j = 0; j < 3; ++j) {
                const Deviation& x = result[j];
                clean = clean && x.clean;
                const double norm = std::max(x.norm, x.size);
                worst[j] = std::max(worst[j], norm > 0      ? std::sqrt(x.error / norm)
                                              : x.error > 0 ? std::numeric_limits<double>::infinity()
                                                            : 0);
            }
        }
    } catch (const Error& error) {
        std::printf("FAILED %s: %s\n", p.name.c_str(), error.what());
        return false;
    }
    const double most = std::max({worst[0], worst[1], worst[2]});
    if (worst_seen) *worst_seen = std::max(*worst_seen, most);
    const bool ok = clean && most <= bound(p);
    if (!ok) {
        std::printf(
            "WRONG %s type=%d B=%lld H=%lld N=%lld r=%d d=%d stretches=%d: errors dq %.3e dk %.3e dv %.3e, bound "
            "%.1e%s\n",
            p.name.c_str(), int(p.type), (long long)p.B, (long long)p.H, (long long)p.N, p.r, p.d, p.stretches,
            worst[0], worst[1], worst[2], bound(p), clean ? "" : ", NaN or Inf");
    }
    return ok;
}

bool check_all(cudaStream_t stream) {
    int count = 0, wrong = 0;
    double worst[3] = {};
    const auto run = [&](const Problem& p) {
        ++count;
        if (!right(p, 6, stream, &worst[int(p.type)], static_cast<std::uint64_t>(count))) ++wrong;
    };
    for (const Type type : {Type::BFloat16, Type::Float16, Type::Float32}) {
        for (const int64_t N : {1, 2, 17, 63, 64, 65, 97, 128, 1000}) {
            run({"mask", type, 1, 1, N});
            run({"decay", type, 1, 5, N, 128, 128, {0.9, 1.0, 0.5, 1 - 1.0 / 256, 1e-4}});
            run({"three stretches", type, 2, 3, N, 128, 128, {0.999, 0.5, 1.0}, 3});
        }
        for (const auto& [r, d] : {std::pair{64, 64}, {64, 128}, {128, 64}, {96, 80}, {8, 16}, {3, 5}, {130, 40}}) {
            for (const int64_t N : {65, 1000}) run({"shape", type, 2, 3, N, r, d, {0.99, 1.0, 0.2}});
        }
        run({"many heads", type, 1, 11, 3000});
        run({"many heads", type, 1, 20, 2000, 64, 64});
    }
    std::printf("checks: %d, wrong: %d; worst error bf16 %.3e, f16 %.3e, f32 %.3e\n", count, wrong, worst[1], worst[2],
                worst[0]);
    return wrong == 0;
}

bool time_all(const std::vector<Problem>& cases, cudaStream_t stream) {
    const double bandwidth = bench::copy_bandwidth(std::size_t{3} << 29, stream);
    std::printf("copy bandwidth %.3f TB/s\n", bandwidth * 1e-12);
    std::printf("%-30s %10s %10s %10s %10s %10s %7s %9s\n", "case (times in ms)", "floor", "forward", "backward",
                "both", "single", "ratio", "error");
    bool all = true;
    for (const Problem& p : cases) {
        double error = 0;
        all = right(p, 2, stream, &error, 77) && all;
        const double tensor = static_cast<double>(p.B * p.H * p.N) * (p.r + p.d) * bytes_of(p.type),
                     floor = tensor * (2 + 3.5) / bandwidth * 1e3;
        const int sets = static_cast<int>(std::clamp(1e9 / tensor, 1.0, 4.0));
        std::vector<Tensors> t;
        for (int i = 0; i < sets; ++i) t.push_back(make(p, 100 + static_cast<std::uint64_t>(i), stream));
        const auto timed = [&](bool forward, bool backward) {
            return bench::time(
                [&](int i) {
                    const Tensors& x = t[static_cast<std::size_t>(i % sets)];
                    if (forward) x.forward(stream);
                    if (backward) x.backward(stream);
                },
                sets, 31, stream);
        };
        const bench::Times forward = timed(true, false), backward = timed(false, true), both = timed(true, true);
        std::printf("%-30s %10.4f %10.4f %10.4f %10.4f %10.4f %7.3f %9.2e  workspace %.1f MB\n", p.name.c_str(), floor,
                    forward.median, backward.median, both.median, both.call, both.median / floor, error,
                    static_cast<double>(t[0].workspace.bytes()) * 1e-6);
        std::fflush(stdout);
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "";
    Stream stream;
    bool ok = true;
    if (what != "time") ok = check_all(stream);
    if (what != "check") {
        const Type bf16 = Type::BFloat16;
        const std::vector<Problem> cases = {
            {"decay N=25600", bf16, 1, 32, 25600, 128, 128, alibi(32)},
            {"mask N=25600", bf16, 1, 32, 25600},
            {"decay N=8192", bf16, 1, 32, 8192, 128, 128, alibi(32)},
            {"f16 decay N=25600", Type::Float16, 1, 32, 25600, 128, 128, alibi(32)},
            {"f32 decay N=25600", Type::Float32, 1, 32, 25600, 128, 128, alibi(32)},
        };
        ok = time_all(cases, stream) && ok;
    }
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
