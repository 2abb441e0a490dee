// The gradients on the GPU: checked against Float64 on the CPU first, then timed with the forward pass. The floor is
// the time to move at the copy bandwidth measured in the same run what must be moved: forward q, k, v and o; backward
// q, k, v, dO, dq, dk and dv.
//
//   bench_gradient                 checks, then times
//   bench_gradient check | time    one of them

#include "gpu/bench/linear_problem.hpp"
#include "gpu/exact/lightning.hpp"
#include "gpu/gradient/lightning.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::alibi;
using bench::rows;
using std::int64_t;

namespace {

using Problem = bench::LinearProblem;

struct Tensors : bench::LinearTensors {
    Buffer dO, dq, dk, dv;

    void forward(cudaStream_t stream) const { lightning_attention_2(args, stream); }
    void backward(cudaStream_t stream) const {
        lightning_grad(args, dO.data(), dq.data(), dk.data(), dv.data(), stream);
    }
};

Tensors prepared(const Problem& p, std::uint64_t seed, cudaStream_t stream) {
    Tensors t{bench::make(p, seed, stream), {}, {}, {}, {}};
    t.dO = Buffer(t.o.bytes()), t.dq = Buffer(t.q.bytes()), t.dk = Buffer(t.k.bytes()), t.dv = Buffer(t.v.bytes());
    bench::fill_normal(t.dO.data(), p.type, t.dO.bytes() / static_cast<std::size_t>(bytes_of(p.type)), 4 * seed + 3,
                       1.0, stream);
    for (const Buffer* x : {&t.dq, &t.dk, &t.dv}) bench::poison(*x, stream);
    t.give_workspace(std::max(lightning_workspace(t.args), lightning_grad_workspace(t.args)), stream);
    return t;
}

double bound(const Problem& p) {
    const double few = p.N * p.B * p.H * std::min(p.r, p.d) < 4096 ? 2.2 : 1;
    return few * (p.type == Type::BFloat16 ? 3.5e-3 : p.type == Type::Float16 ? 4.5e-4 : 1e-5);
}

// The largest relative error of dq, dk and dv over up to `heads` heads; prints what is wrong.
bool right(const Problem& p, int heads, cudaStream_t stream, double* worst_seen, std::uint64_t seed) {
    double worst[3] = {};
    try {
        const Tensors t = prepared(p, seed, stream);
        t.backward(stream);
        check(cudaStreamSynchronize(stream), "running lightning_grad");
        const Strides sq = t.args.q_stride, sv = t.args.v_stride;
        for (const int64_t head : bench::chosen_heads(p.B * p.H, heads)) {
            const auto read = [&](const Buffer& x, Strides s, int width) {
                return rows(x.data(), p.type, s, head / p.H, head % p.H, p.N, width);
            };
            const auto q = read(t.q, sq, p.r), k = read(t.k, sq, p.r), v = read(t.v, sv, p.d), dO = read(t.dO, sv, p.d);
            const double gamma = p.decay(head % p.H);
            bench::on_threads(3, [&](std::size_t j) {
                const bench::Recurrence want = j == 0   ? bench::recurrence(dO, v, k, p.N, p.d, p.r, gamma)
                                               : j == 1 ? bench::recurrence(v, dO, q, p.N, p.d, p.r, gamma, true)
                                                        : bench::recurrence(k, q, dO, p.N, p.r, p.d, gamma, true);
                const auto got = j == 0 ? read(t.dq, sq, p.r) : j == 1 ? read(t.dk, sq, p.r) : read(t.dv, sv, p.d);
                worst[j] = std::max(worst[j], bench::deviation(got, want.o, want.size).relative());
            });
        }
    } catch (const Error& error) {
        std::printf("FAILED %s: %s\n", p.text().c_str(), error.what());
        return false;
    }
    const double most = std::max({worst[0], worst[1], worst[2]});
    *worst_seen = std::max(*worst_seen, most);
    const bool ok = most <= bound(p);
    if (!ok)
        std::printf("WRONG %s: errors dq %.3e dk %.3e dv %.3e, bound %.1e\n", p.text().c_str(), worst[0], worst[1],
                    worst[2], bound(p));
    return ok;
}

bool check_all(cudaStream_t stream) {
    bench::Tally tally;
    const auto run = [&](const Problem& p) {
        ++tally.count;
        tally.wrong += !right(p, 6, stream, &tally.outputs[int(p.type)], static_cast<std::uint64_t>(tally.count));
    };
    for (const Type type : {Type::BFloat16, Type::Float16, Type::Float32}) {
        for (const int64_t N : {1, 2, 17, 63, 64, 65, 97, 128, 1000}) {
            run({"mask", type, 1, 1, N});
            run({"decay", type, 1, 5, N, 128, 128, {0.9, 1.0, 0.5, 1 - 1.0 / 256, 1e-4}});
            run({"three splits", type, 2, 3, N, 128, 128, {0.999, 0.5, 1.0}, false, 0, 3});
            run({"states handed on", type, 2, 3, N, 128, 128, {0.999, 0.5, 1.0}, false, 0, 4});
        }
        for (const auto& [r, d] : {std::pair{64, 64}, {64, 128}, {128, 64}, {96, 80}, {8, 16}, {3, 5}, {130, 40}}) {
            for (const int64_t N : {65, 1000}) run({"shape", type, 2, 3, N, r, d, {0.99, 1.0, 0.2}});
        }
        run({"many heads", type, 1, 11, 3000});
        run({"many heads", type, 1, 20, 2000, 64, 64});
    }
    return tally.report();
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
        for (int i = 0; i < sets; ++i) t.push_back(prepared(p, 100 + static_cast<std::uint64_t>(i), stream));
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
