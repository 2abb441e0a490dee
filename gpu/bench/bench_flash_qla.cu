// The gated delta rule on the 171 forward and 32 backward configurations of FlashQLA's benchmark (QwenLM/FlashQLA,
// benchmark/bench_gated_delta_rule.py, MIT), through the public calls: BFloat16, widths of 128, a state in and out,
// heads of v that share heads of q and k, packed sequences, no gate in every fourth head. Each row is compared first
// with the same call in Float32 (outputs and states: token by token), of which the tests hold small sizes
// to the definition in Float64. experiments/peers/flash_qla.py runs the peers on the same rows, in the same job.
//
// Forward calls have deterministic = "run", which cuts packed sequences by the load of all of them, and "prefix".
// Times are those of calls in a queue, launches and allocations included, and of replays of a CUDA graph of the call.
//
//   bench_flash_qla                      all rows
//   bench_flash_qla forward | backward   these; a second argument picks the rows whose name contains it
#include "gpu/base/graph.hpp"
#include "gpu/bench/compare.hpp"
#include "gpu/bench/delta_inputs.cuh"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"

namespace causeway::gpu {
namespace {

constexpr Index d = 128;

struct Heads {
    const char* name;
    Index keys, values;
};
struct Lengths {
    const char* name;
    std::vector<Index> each;
};

const Heads forward_heads[] = {{"397B/122B TP8", 2, 8},   {"397B/122B TP4", 4, 16},  {"397B/122B TP2", 8, 32},
                               {"397B/122B TP1", 16, 64}, {"35B/9B/4B TP1", 16, 32}, {"27B TP2", 8, 24},
                               {"27B TP1", 16, 48},       {"2B/0.8B TP1", 16, 16},   {"Sym h32", 32, 32}};
const Lengths forward_lengths[] = {{"1x32768", {32768}},
                                   {"1x16384", {16384}},
                                   {"1x8192", {8192}},
                                   {"1x4096", {4096}},
                                   {"1x2048", {2048}},
                                   {"28672+4096", {28672, 4096}},
                                   {"24576+8192", {24576, 8192}},
                                   {"16384+16384", {16384, 16384}},
                                   {"8192+24576", {8192, 24576}},
                                   {"4096+28672", {4096, 28672}},
                                   {"12288+4096", {12288, 4096}},
                                   {"6144+2048", {6144, 2048}},
                                   {"4096+4096", {4096, 4096}},
                                   {"2048+6144", {2048, 6144}},
                                   {"1024+7168", {1024, 7168}},
                                   {"8192x4", {8192, 8192, 8192, 8192}},
                                   {"4096x8", {4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096}},
                                   {"2048x4", {2048, 2048, 2048, 2048}},
                                   {"1024x8", {1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024}}};
const Heads backward_heads[] = {{"hk16_hv32", 16, 32}, {"hk8_hv16", 8, 16}, {"hk4_hv8", 4, 8}, {"hk2_hv4", 2, 4}};
// What PyTorch draws from the seed 42 that the benchmark gives it.
const Lengths backward_lengths[] = {{"8k_1seq", {8192}},
                                    {"8k_2seq", {7053, 1139}},
                                    {"8k_4seq", {5809, 1244, 406, 733}},
                                    {"8k_8seq", {161, 1928, 3157, 563, 1244, 229, 177, 733}},
                                    {"32k_1seq", {32768}},
                                    {"32k_2seq", {7212, 25556}},
                                    {"32k_4seq", {7212, 7072, 13725, 4759}},
                                    {"32k_8seq", {3274, 1029, 2909, 5061, 2011, 3793, 9932, 4759}}};

Tensor normal(const Shape& shape, std::uint64_t seed, DType type = DType::bf16, double scale = 1) {
    const Tensor x(type, shape);
    fill_normal(x.data(), x.type(), static_cast<std::size_t>(x.size()), seed, scale, nullptr);
    return x;
}

struct Problem {
    Tensor q, k, v, dO, dstate;
    LinearOptions options;
    Stream stream;  // of what is timed: the default stream cannot be captured

    Problem(const Heads& heads, const Lengths& lengths) {
        Index N = 0;
        std::vector<Index> offsets{0};
        for (const Index n : lengths.each) offsets.push_back(N += n);
        const auto count = static_cast<Index>(lengths.each.size());
        const auto unit = [&](std::uint64_t seed) {
            const Tensor x = normal({1, heads.keys, N, d}, seed, DType::bf16, 1 / std::sqrt(d));
            const Index rows = heads.keys * N;
            bench::unit_rows<<<static_cast<unsigned>((rows + 7) / 8), 256>>>(x.as<__nv_bfloat16>(), rows,
                                                                             static_cast<int>(d), d, false, seed);
            return x;
        };
        q = unit(1), k = unit(2), v = normal({1, heads.values, N, d}, 3), dO = normal(v.shape(), 4);
        dstate = normal({count, heads.values, d, d}, 5, DType::f32, 0.125);
        const Tensor log_decay(DType::f32, {1, heads.values, N}), beta(DType::f32, {1, heads.values, N});
        const Index rows = heads.values * N;
        const auto blocks = static_cast<unsigned>((rows + 255) / 256);
        bench::fill_gates<<<blocks, 256>>>(log_decay.as<float>(), rows, N, bench::Gates::quarter, 6);
        bench::fill_beta<<<blocks, 256>>>(beta.as<float>(), rows, 0, 1, 7);
        check_launch("filling the inputs");
        options.update = "gated_delta", options.scale = 1 / std::sqrt(static_cast<double>(d));
        options.log_decay = log_decay, options.beta = beta;
        options.state = normal({count, heads.values, d, d}, 8, DType::f32);
        if (count > 1) options.cu_seqlens = offsets;
        options.check_gates = false;
    }
    LinearOptions with(const char* mode, const char* deterministic) const {
        LinearOptions o = options;
        o.mode = mode, o.deterministic = deterministic;
        return o;
    }
};

// Of the first head, which forgets, and the last, which does not: the relative error of x against the other.
double error_of(const Tensor& x, const Tensor& exact) {
    const Index row = x.size() / (x.shape()[0] * x.shape()[1]);
    double most = 0;
    for (const Index head : {Index{0}, x.shape()[1] - 1}) {
        const auto got = bench::numbers(x.data(), x.type(), head * row, row),
                   want = bench::numbers(exact.data(), exact.type(), head * row, row);
        most = std::max(most, bench::deviation(got, want).relative());
    }
    return most;
}

// Milliseconds of a call in a queue of several: the median of such queues.
double each_of(cudaStream_t stream, const std::function<void()>& call) {
    constexpr int calls = 10, queues = 7;
    Event start, stop;
    std::vector<double> ms;
    for (int i = 0; i <= queues; ++i) {
        start.record(stream);
        for (int j = 0; j < calls; ++j) call();
        stop.record(stream);
        if (i > 0) ms.push_back(stop.since(start) / calls);  // the first warms up
    }
    std::nth_element(ms.begin(), ms.begin() + queues / 2, ms.end());
    return ms[queues / 2];
}

// Plain calls, and replays of a graph of one.
struct QueueTimes {
    double plain = 0, replay = 0;

    QueueTimes() = default;
    QueueTimes(cudaStream_t stream, const std::function<void()>& call) {
        check(cudaDeviceSynchronize(), "making the inputs");
        plain = each_of(stream, call);
        const Graph graph(stream, call);
        replay = each_of(stream, [&] { graph.launch(stream); });
    }
};

Tensor wide(const Tensor& x) { return x.to(DType::f32); }

constexpr double bound = 8e-3, gradient_bound = 2e-2;

bool print(const char* pass, const Heads& heads, const Lengths& lengths, const QueueTimes& usual,
           const QueueTimes& prefix, double error, double most) {
    const bool right = error <= most;  // not where it is NaN
    const auto text = [](double x) { return x > 0 ? std::to_string(x) : std::string("-"); };
    std::string tokens;
    for (const Index n : lengths.each) tokens += (tokens.empty() ? "" : " ") + std::to_string(n);
    std::printf("%s,%s,%s,%lld,%lld,%s,%s,%s,%s,%s,%.2e%s\n", pass, heads.name, lengths.name,
                static_cast<long long>(heads.keys), static_cast<long long>(heads.values), tokens.c_str(),
                text(usual.plain).c_str(), text(prefix.plain).c_str(), text(usual.replay).c_str(),
                text(prefix.replay).c_str(), error, right ? "" : ",WRONG");
    return right;
}

bool forward(const Heads& heads, const Lengths& lengths) {
    const Problem p(heads, lengths);
    const LinearOptions usual = p.with("chunkwise", "run"), prefix = p.with("chunkwise", "prefix");
    const LinearResult exact = linear_attention(wide(p.q), wide(p.k), wide(p.v), p.with("recurrent", "run"));
    double error = 0;
    for (const LinearOptions& o : {usual, prefix}) {
        const LinearResult x = linear_attention(p.q, p.k, p.v, o);
        error = std::max({error, error_of(x.O, exact.O), error_of(x.state, exact.state)});
    }
    const auto time = [&](LinearOptions o) {
        o.stream = p.stream;
        return QueueTimes(o.stream, [&] { linear_attention(p.q, p.k, p.v, o); });
    };
    return print("forward", heads, lengths, time(usual), time(prefix), error, bound);
}

bool backward(const Heads& heads, const Lengths& lengths) {
    const Problem p(heads, lengths);
    LinearOptions o = p.options;
    const auto run = [&] { return linear_attention_grad(p.q, p.k, p.v, p.dO, o, p.dstate); };
    double error = 0;
    {
        const LinearGradient x = run(), exact = linear_attention_grad(wide(p.q), wide(p.k), wide(p.v), wide(p.dO),
                                                                      p.options, p.dstate);
        error = std::max({error_of(x.dq, exact.dq), error_of(x.dk, exact.dk), error_of(x.dv, exact.dv),
                          error_of(*x.dlog_decay, *exact.dlog_decay), error_of(*x.dbeta, *exact.dbeta),
                          error_of(x.dstate, exact.dstate)});
    }
    o.stream = p.stream;
    return print("backward", heads, lengths, QueueTimes(p.stream, run), {}, error, gradient_bound);
}

template <class Run>
bool run_all(const std::string& only, const auto& all_heads, const auto& all_lengths, Run&& run) {
    bool ok = true;
    for (const Heads& heads : all_heads) {
        for (const Lengths& lengths : all_lengths) {
            const std::string name = std::string(heads.name) + " " + lengths.name;
            if (name.find(only) != std::string::npos) ok = run(heads, lengths) && ok;
        }
    }
    return ok;
}

}  // namespace
}  // namespace causeway::gpu

int main(int argc, char** argv) try {
    using namespace causeway::gpu;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "", only = argc > 2 ? argv[2] : "";
    std::printf("pass,model,lengths,heads of k,heads of v,tokens,ms,prefix ms,replay ms,prefix replay ms,error\n");
    bool ok = true;
    if (what != "backward") ok = run_all(only, forward_heads, forward_lengths, forward);
    if (what != "forward") ok = run_all(only, backward_heads, backward_lengths, backward) && ok;
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
