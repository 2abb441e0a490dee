// Softmax attention on the GPU: every case is checked on a few rows against Float64 on the CPU, then timed.
// Flash-decoding against the time to read k and v once at the read bandwidth measured in the same run, flash attention
// in FLOP/s.
//
//   bench_flash                     decoding, then attention
//   bench_flash decode | flash      one of them; a second argument picks the cases whose name contains it
//   bench_flash arrange CASE        one case of decoding under several numbers of splits

#include "gpu/bench/compare.hpp"
#include "gpu/gradient/softmax.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/softmax/flash.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::numbers;
using std::int64_t;

namespace {

template <int each>
__global__ __launch_bounds__(256) void read_kernel(const uint4* __restrict__ from, std::size_t n, unsigned* never) {
    const std::size_t base = std::size_t{blockIdx.x} * each * 256 + threadIdx.x;
    uint4 x[each];
#pragma unroll
    for (int i = 0; i < each; ++i) x[i] = base + i * 256 < n ? __ldcs(from + base + i * 256) : make_uint4(0, 0, 0, 0);
    unsigned all = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) all += x[i].x ^ x[i].y ^ x[i].z ^ x[i].w;
    if (all == 0x9E3779B9) *never = all;
}

// The same bytes read by blocks that stay, each its own split.
template <int each>
__global__ __launch_bounds__(512) void read_split_kernel(const uint4* __restrict__ from, std::size_t n,
                                                         unsigned* never) {
    const std::size_t share = (n + gridDim.x - 1) / gridDim.x, first = blockIdx.x * share, last = min(n, first + share);
    unsigned all = 0;
    for (std::size_t at = first + threadIdx.x; at < last; at += each * 512) {
        uint4 x[each];
#pragma unroll
        for (int i = 0; i < each; ++i)
            x[i] = at + i * 512 < last ? __ldcs(from + at + i * 512) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < each; ++i) all += x[i].x ^ x[i].y ^ x[i].z ^ x[i].w;
    }
    if (all == 0x9E3779B9) *never = all;
}

// Bytes read per second by the best of a few kernels that do nothing else.
double read_bandwidth(std::size_t bytes, cudaStream_t stream) {
    const Buffer from(bytes), never(4);
    bench::fill_normal(from.data(), Type::Float32, bytes / 4, 1, 1.0, stream);
    const std::size_t n = bytes / 16;
    const auto blocks = [&](int each) { return static_cast<unsigned>((n + 256 * each - 1) / (256 * each)); };
    const auto stay = static_cast<unsigned>(4 * device().multiprocessors);
    const double ms[] = {
        bench::time(
            [&](int) { read_kernel<4><<<blocks(4), 256, 0, stream>>>(from.as<uint4>(), n, never.as<unsigned>()); }, 1,
            9, stream)
            .median,
        bench::time(
            [&](int) { read_kernel<8><<<blocks(8), 256, 0, stream>>>(from.as<uint4>(), n, never.as<unsigned>()); }, 1,
            9, stream)
            .median,
        bench::time(
            [&](int) { read_kernel<16><<<blocks(16), 256, 0, stream>>>(from.as<uint4>(), n, never.as<unsigned>()); }, 1,
            9, stream)
            .median,
        bench::time(
            [&](int) { read_split_kernel<4><<<stay, 512, 0, stream>>>(from.as<uint4>(), n, never.as<unsigned>()); }, 1,
            9, stream)
            .median,
        bench::time(
            [&](int) { read_split_kernel<8><<<stay / 2, 512, 0, stream>>>(from.as<uint4>(), n, never.as<unsigned>()); },
            1, 9, stream)
            .median,
    };
    check_launch("reading");
    std::printf("reading %.2f GB: 4, 8, 16 loads in flight %.4f, %.4f, %.4f ms; blocks that stay %.4f, %.4f ms\n",
                bytes * 1e-9, ms[0], ms[1], ms[2], ms[3], ms[4]);
    return static_cast<double>(bytes) / (*std::min_element(std::begin(ms), std::end(ms)) * 1e-3);
}

struct Problem {
    std::string name;
    Type type = Type::BFloat16;
    int64_t batch = 1, heads = 16, N = 1, M = 1;
    int group = 1, d = 128, dv = 128;
    bool causal = true;
};

struct Tensors {
    Buffer q, k, v, o, lse, workspace;
    SoftmaxArgs args;
};

Tensors make(const Problem& p, std::uint64_t seed, cudaStream_t stream) {
    Tensors t;
    const auto bytes = static_cast<std::size_t>(bytes_of(p.type));
    const auto n = [](int64_t x) { return static_cast<std::size_t>(x); };
    const std::size_t q = n(p.batch * p.heads * p.group * p.N * p.d), k = n(p.batch * p.heads * p.M * p.d),
                      v = n(p.batch * p.heads * p.M * p.dv), o = n(p.batch * p.heads * p.group * p.N * p.dv);
    t.q = Buffer(q * bytes), t.k = Buffer(k * bytes), t.v = Buffer(v * bytes), t.o = Buffer(o * bytes),
    t.lse = Buffer(q / n(p.d) * 4);
    bench::fill_normal(t.q.data(), p.type, q, 3 * seed, 2.0, stream);
    bench::fill_normal(t.k.data(), p.type, k, 3 * seed + 1, 1.0, stream);
    bench::fill_normal(t.v.data(), p.type, v, 3 * seed + 2, 1.0, stream);
    bench::poison(t.o, stream);
    SoftmaxArgs& a = t.args;
    a.q = t.q.data(), a.k = t.k.data(), a.v = t.v.data(), a.o = t.o.data(), a.lse = t.lse.as<float>();
    a.type = p.type, a.batch = p.batch, a.heads = p.heads, a.N = p.N, a.M = p.M, a.group = p.group, a.d = p.d,
    a.dv = p.dv, a.causal = p.causal;
    a.scale = static_cast<float>(1 / std::sqrt(p.d));
    a.q_stride = contiguous(p.heads * p.group, p.N, p.d), a.k_stride = contiguous(p.heads, p.M, p.d),
    a.v_stride = contiguous(p.heads, p.M, p.dv);
    a.o_stride = contiguous(p.heads * p.group, p.N, p.dv);
    return t;
}

// A few rows of the first and the last head of q in Float64.
struct Row {
    int64_t index;  // of all rows of o
    double lse;
    std::vector<double> o;
};

std::vector<Row> reference(const Problem& p, const Tensors& t) {
    std::vector<Row> rows;
    for (const int64_t head : {int64_t{0}, p.batch * p.heads * p.group - 1}) {
        const int64_t bh = head / p.group;
        const auto k = numbers(t.k.data(), p.type, bh * p.M * p.d, p.M * p.d),
                   v = numbers(t.v.data(), p.type, bh * p.M * p.dv, p.M * p.dv);
        for (const int64_t i : p.N > 1 ? std::vector<int64_t>{0, p.N / 3, p.N - 1} : std::vector<int64_t>{0}) {
            const int64_t n = p.causal ? p.M - p.N + i + 1 : p.M;
            Row row{head * p.N + i, -INFINITY, std::vector<double>(static_cast<std::size_t>(p.dv))};
            const auto q = numbers(t.q.data(), p.type, row.index * p.d, p.d);
            std::vector<double> s(static_cast<std::size_t>(n));
            double most = -INFINITY, l = 0;
            for (int64_t j = 0; j < n; ++j) {
                double dot = 0;
                for (int e = 0; e < p.d; ++e) dot += q[e] * k[j * p.d + e];
                s[j] = dot * t.args.scale, most = std::max(most, s[j]);
            }
            for (int64_t j = 0; j < n; ++j) {
                const double w = std::exp(s[j] - most);
                l += w;
                for (int e = 0; e < p.dv; ++e) row.o[e] += w * v[j * p.dv + e];
            }
            for (double& x : row.o) x /= l;
            row.lse = most + std::log(l);
            rows.push_back(row);
        }
    }
    return rows;
}

// Relative error of these rows; the largest error of their log-sum-exp in *lse_error.
double error_of(const Problem& p, const Tensors& t, const std::vector<Row>& rows, double* lse_error) {
    bench::Deviation x;
    *lse_error = 0;
    for (const Row& row : rows) {
        const auto o = numbers(t.o.data(), p.type, row.index * p.dv, p.dv);
        const double off = std::abs(numbers(t.lse.data(), Type::Float32, row.index, 1)[0] - row.lse);
        if (!(off <= *lse_error)) *lse_error = off;
        for (int e = 0; e < p.dv; ++e) x.add(o[static_cast<std::size_t>(e)], row.o[static_cast<std::size_t>(e)]);
    }
    return x.relative();
}

// NaN is not within it.
bool within(const Problem& p, double error, double lse_error) {
    return error <= (p.type == Type::Float32 ? 1e-5 : p.type == Type::Float16 ? 1e-3 : 5e-3) && lse_error <= 1e-4;
}

double bytes_read(const Problem& p) {
    return static_cast<double>(p.batch * p.heads * p.M) * (p.d + p.dv) * bytes_of(p.type);
}

bool time_decoding(const std::string& only, bool arrangements, cudaStream_t stream) {
    const double bandwidth = read_bandwidth(std::size_t{5} << 30, stream);
    std::printf("floor: k and v read once at %.3f TB/s\n", bandwidth * 1e-12);
    std::printf("%-44s %9s %9s %9s %9s %7s %8s %9s %9s\n", "decoding", "floor ms", "median", "best", "call", "ratio",
                "GB/s", "error", "lse error");
    const Type bf16 = Type::BFloat16, f16 = Type::Float16, f32 = Type::Float32;
    const std::vector<Problem> cases = {
        {"bf16 M=640000", bf16, 1, 16, 1, 640000},
        {"bf16 M=80000", bf16, 1, 16, 1, 80000},
        {"bf16 M=8192", bf16, 1, 16, 1, 8192},
        {"bf16 B=64 M=8192", bf16, 64, 16, 1, 8192},
        {"bf16 M=640000 group=4", bf16, 1, 4, 1, 640000, 4},
        {"bf16 M=640000 group=8", bf16, 1, 8, 1, 640000, 8},
        {"bf16 M=640000 N=4", bf16, 1, 16, 4, 640000},
        {"bf16 M=640000 N=16", bf16, 1, 16, 16, 640000},
        {"f16 M=640000", f16, 1, 16, 1, 640000},
        {"f32 M=320000", f32, 1, 16, 1, 320000},
        {"bf16 d=64 M=640000", bf16, 1, 16, 1, 640000, 1, 64, 64},
        {"bf16 d=256 M=320000", bf16, 1, 16, 1, 320000, 1, 256, 256},
    };
    bool all = true;
    for (const Problem& p : cases) {
        if (p.name.find(only) == std::string::npos || (arrangements && p.name != only)) continue;
        const int sets = static_cast<int>(std::clamp(1e9 / bytes_read(p), 1.0, 16.0));
        std::vector<Tensors> t;
        for (int i = 0; i < sets; ++i) t.push_back(make(p, 100 + static_cast<std::uint64_t>(i), stream));
        check(cudaStreamSynchronize(stream), "making inputs");
        const std::vector<Row> rows = reference(p, t[0]);
        const auto measure = [&](const std::string& name, std::size_t workspace, auto&& call) {
            for (Tensors& x : t) {
                x.workspace = Buffer(workspace), x.args.workspace = {x.workspace.data(), x.workspace.bytes()};
                bench::poison(x.o, stream);
            }
            call(t[0].args);
            check(cudaStreamSynchronize(stream), "running decoding");
            double lse_error = 0;
            const double error = error_of(p, t[0], rows, &lse_error);
            const bool ok = within(p, error, lse_error);
            all = all && ok;
            const bench::Times ms = bench::time([&](int i) { call(t[static_cast<std::size_t>(i % sets)].args); }, sets,
                                                bytes_read(p) > 1e9 ? 15 : 41, stream);
            const double floor = bytes_read(p) / bandwidth * 1e3;
            std::printf("%-44s %9.4f %9.4f %9.4f %9.4f %7.3f %8.0f %9.2e %9.2e%s\n", name.c_str(), floor, ms.median,
                        ms.best, ms.call, ms.median / floor, bytes_read(p) / ms.median * 1e-6, error, lse_error,
                        ok ? "" : "  WRONG");
            std::fflush(stdout);
        };
        measure(p.name, flash_decoding_workspace(t[0].args), [&](const SoftmaxArgs& a) { flash_decoding(a, stream); });
        if (!arrangements) continue;
        for (const int splits : {8, 16, 33, 66, 99, 132}) {
            if (p.N * p.group <= softmax::max_decoded_rows(p.type)) {
                measure("  FMA units, " + std::to_string(splits) + " splits",
                        softmax::decode_workspace(t[0].args, splits),
                        [&](const SoftmaxArgs& a) { softmax::decode(a, splits, stream); });
            }
            measure("  tiles, " + std::to_string(splits) + " splits",
                    softmax::flash_portable_workspace(t[0].args, splits),
                    [&](const SoftmaxArgs& a) { softmax::flash_portable(a, splits, stream); });
        }
    }
    return all;
}

// Two identities in Float64 for the first head of keys: O is linear in v, and scores know q and k by their products
// alone, so <v, dv> = <o, dO> and <q, dq> = <k, dk>. Both differences together, relative to the size of such a sum of
// products with random signs; agreement element by element is the tests' part.
double gradient_error(const Problem& p, const Tensors& t, const Buffer& dO, const SoftmaxGradArgs& g) {
    const auto inner = [&](const void* x, const void* y, int64_t n) {
        const auto a = numbers(x, p.type, 0, n), b = numbers(y, p.type, 0, n);
        double sum = 0, a2 = 0, b2 = 0;
        for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i], a2 += a[i] * a[i], b2 += b[i] * b[i];
        return std::pair(sum, std::sqrt(a2 * b2 / static_cast<double>(n)));
    };
    const int64_t queries = p.group * p.N;
    const auto [values, value_size] = inner(t.v.data(), g.dv, p.M * p.dv);
    const auto [outputs, output_size] = inner(t.o.data(), dO.data(), queries * p.dv);
    const auto [keys, key_size] = inner(t.k.data(), g.dk, p.M * p.d);
    const auto [scores, score_size] = inner(t.q.data(), g.dq, queries * p.d);
    const double first = std::abs(values - outputs) / std::max(value_size, output_size),
                 second = std::abs(scores - keys) / std::max(key_size, score_size);
    return first + second;  // a NaN in either stays
}

// Checks, then times the gradient; `flop` of the forward pass.
bool time_gradient(const Problem& p, const Tensors& t, double flop, cudaStream_t stream) {
    const Buffer dO(t.o.bytes()), dq(t.q.bytes()), dk(t.k.bytes()), dv(t.v.bytes());
    bench::fill_normal(dO.data(), p.type, t.o.bytes() / static_cast<std::size_t>(bytes_of(p.type)), 9, 1.0, stream);
    SoftmaxGradArgs g{t.args, dO.data(), dq.data(), dk.data(), dv.data()};
    const Buffer workspace(flash_attention_grad_workspace(g));
    g.in.workspace = {workspace.data(), workspace.bytes()};
    bool all = true;
    const auto measure = [&](const char* name, void (*run)(const SoftmaxGradArgs&, cudaStream_t)) {
        for (const Buffer* x : {&dq, &dk, &dv}) bench::poison(*x, stream);
        run(g, stream);
        check(cudaStreamSynchronize(stream), "running the gradient");
        const double error = gradient_error(p, t, dO, g);
        const bool ok = error <= (p.type == Type::Float32 ? 1e-4 : 2e-2);
        all = all && ok;
        const bench::Times ms = bench::time([&](int) { run(g, stream); }, 1, 9, stream);
        std::printf("%-44s %9.4f %9.4f %9.4f %9.1f %9.2e%s\n", name, ms.median, ms.best, ms.call,
                    2.5 * flop / ms.median * 1e-9, error, ok ? "" : "  WRONG");
    };
    measure("  gradient (5 products counted, 7 made)", flash_attention_grad);
    if (p.type != Type::Float32) measure("  the same, portable", softmax::gradient_portable);
    return all;
}

bool time_attention(const std::string& only, cudaStream_t stream) {
    std::printf("%-44s %9s %9s %9s %9s %9s %9s\n", "attention", "median ms", "best", "call", "TFLOP/s", "error",
                "lse error");
    const Type bf16 = Type::BFloat16, f16 = Type::Float16, f32 = Type::Float32;
    const std::vector<Problem> cases = {
        {"bf16 causal N=128", bf16, 1, 16, 128, 128},
        {"bf16 causal N=1024", bf16, 1, 16, 1024, 1024},
        {"bf16 causal N=4096", bf16, 1, 16, 4096, 4096},
        {"bf16 causal N=8192", bf16, 1, 16, 8192, 8192},
        {"bf16 causal N=16384", bf16, 1, 16, 16384, 16384},
        {"bf16 N=8192", bf16, 1, 16, 8192, 8192, 1, 128, 128, false},
        {"bf16 N=16384", bf16, 1, 16, 16384, 16384, 1, 128, 128, false},
        {"bf16 causal N=16384 group=4", bf16, 1, 4, 16384, 16384, 4},
        {"f16 causal N=16384", f16, 1, 16, 16384, 16384},
        {"bf16 causal N=8192 d=64", bf16, 1, 16, 8192, 8192, 1, 64, 64},
        {"bf16 causal N=16384 d=64", bf16, 1, 16, 16384, 16384, 1, 64, 64},
        {"bf16 causal N=8192 d=256", bf16, 1, 16, 8192, 8192, 1, 256, 256},
        {"f32 causal N=4096", f32, 1, 16, 4096, 4096},
        {"f32 causal N=4096 d=64", f32, 1, 16, 4096, 4096, 1, 64, 64},
    };
    bool all = true;
    for (const Problem& p : cases) {
        if (p.name.find(only) == std::string::npos) continue;
        Tensors t = make(p, 7, stream);
        const double pairs = p.causal ? static_cast<double>(p.N) * static_cast<double>(p.M - p.N) +
                                            0.5 * static_cast<double>(p.N) * static_cast<double>(p.N + 1)
                                      : static_cast<double>(p.N) * static_cast<double>(p.M);
        const double flop = 2.0 * static_cast<double>(p.batch * p.heads * p.group) * pairs * (p.d + p.dv);
        check(cudaStreamSynchronize(stream), "making inputs");
        const std::vector<Row> rows = reference(p, t);
        const auto measure = [&](const std::string& name, std::size_t workspace, auto&& call) {
            t.workspace = Buffer(workspace), t.args.workspace = {t.workspace.data(), t.workspace.bytes()};
            bench::poison(t.o, stream);
            call();
            check(cudaStreamSynchronize(stream), "running attention");
            double lse_error = 0;
            const double error = error_of(p, t, rows, &lse_error);
            const bool ok = within(p, error, lse_error);
            all = all && ok;
            const bench::Times ms = bench::time([&](int) { call(); }, 1, 11, stream);
            std::printf("%-44s %9.4f %9.4f %9.4f %9.1f %9.2e %9.2e%s\n", name.c_str(), ms.median, ms.best, ms.call,
                        flop / ms.median * 1e-9, error, lse_error, ok ? "" : "  WRONG");
            std::fflush(stdout);
        };
        measure(p.name, flash_attention_workspace(t.args), [&] { flash_attention(t.args, stream); });
        all = time_gradient(p, t, flop, stream) && all;
        if (p.type != f32)
            measure("  portable", softmax::flash_portable_workspace(t.args),
                    [&] { softmax::flash_portable(t.args, 0, stream); });
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "", only = argc > 2 ? argv[2] : "";
    Stream stream;
    bool ok = true;
    if (what != "flash") ok = time_decoding(only, what == "arrange", stream);
    if (what == "" || what == "flash") ok = time_attention(only, stream) && ok;
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
