// A program that calls causeway_gpu.h on memory that it allocated on a GPU itself: results are held to those of the
// same calls of causeway.h, and to the bit to those of simpler calls. Ends with status 77 where there is no GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "causeway_gpu.h"

namespace {

int failures = 0;

void check(bool right, const std::string& what) {
    if (right) return;
    ++failures;
    std::printf("%s does not hold (last error: %s)\n", what.c_str(), causeway_last_error());
}

void succeeds(causeway_status status, const std::string& what) {
    if (status == CAUSEWAY_OK) return;
    std::printf("%s: status %d, %s\n", what.c_str(), static_cast<int>(status), causeway_last_error());
    std::exit(1);
}

void refuses(causeway_status status, const std::string& sentence) {
    check(status == CAUSEWAY_BAD_ARGUMENT && std::strstr(causeway_last_error(), sentence.c_str()),
          "the refusal \"" + sentence + "\"");
}

void cuda(cudaError_t error) {
    if (error == cudaSuccess) return;
    std::printf("CUDA: %s\n", cudaGetErrorString(error));
    std::exit(1);
}

// Where a call runs: on the host, or on a stream of its own of the GPU.
struct Side {
    bool gpu;
    cudaStream_t stream = nullptr;
};

// Runs a call of causeway.h, or the one of causeway_gpu.h beside it.
template <class OnCpu, class OnGpu, class... Arguments>
void run(const char* what, const Side& side, OnCpu on_cpu, OnGpu on_gpu, Arguments... arguments) {
    succeeds(side.gpu ? on_gpu(arguments..., static_cast<void*>(side.stream)) : on_cpu(arguments...), what);
}
#define RUN(side, name, ...) run(#name, side, causeway_##name, causeway_gpu_##name, __VA_ARGS__)

std::size_t size_of(std::int32_t type) { return type == CAUSEWAY_FLOAT32 ? 4 : 2; }  // or BFloat16

float widened(const unsigned char* at, std::int32_t type) {
    std::uint32_t bits = 0;
    if (type == CAUSEWAY_FLOAT32) {
        std::memcpy(&bits, at, 4);
    } else {
        std::uint16_t half;
        std::memcpy(&half, at, 2);
        bits = std::uint32_t{half} << 16;
    }
    float number;
    std::memcpy(&number, &bits, 4);
    return number;
}

std::int64_t elements(const causeway_tensor& t) {
    std::int64_t n = 1;
    for (int i = 0; i < t.ndim; ++i) n *= t.shape[i];
    return n;
}

// The numbers of an array, wherever it lies, after all work of the side.
std::vector<float> numbers(const Side& side, const causeway_tensor& t) {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(elements(t)) * size_of(t.type));
    if (side.gpu) cuda(cudaStreamSynchronize(side.stream));
    if (!bytes.empty()) cuda(cudaMemcpy(bytes.data(), t.data, bytes.size(), cudaMemcpyDefault));
    std::vector<float> out;
    for (std::size_t i = 0; i < bytes.size(); i += size_of(t.type)) out.push_back(widened(bytes.data() + i, t.type));
    return out;
}

// An array of the caller's with the same numbers on both sides.
class Input {
public:
    // Numbers map(x), x between -1 and 1 and the same for a seed.
    template <std::invocable<double> Map>
    Input(const Side& side, std::vector<std::int64_t> shape, std::uint64_t seed, Map&& map,
          std::int32_t type = CAUSEWAY_FLOAT32)
        : side_(side) {
        array = causeway_contiguous(nullptr, type, static_cast<std::int32_t>(shape.size()), shape.data());
        bytes_.resize(static_cast<std::size_t>(elements(array)) * size_of(type));
        for (std::size_t i = 0; i < bytes_.size(); i += size_of(type)) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            const float x = static_cast<float>(map(static_cast<double>(seed >> 11) / 4503599627370496.0 - 1));
            std::uint32_t bits;
            std::memcpy(&bits, &x, 4);
            const auto half = static_cast<std::uint16_t>(bits >> 16);  // without rounding
            if (type == CAUSEWAY_FLOAT32) std::memcpy(bytes_.data() + i, &bits, 4);
            else std::memcpy(bytes_.data() + i, &half, 2);
        }
        array.data = bytes_.data();
        if (!side.gpu) return;
        cuda(cudaMalloc(&array.data, bytes_.size() + 1));
        cuda(cudaMemcpy(array.data, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice));
    }
    Input(const Side& side, std::vector<std::int64_t> shape, std::uint64_t seed, double scale = 1,
          std::int32_t type = CAUSEWAY_FLOAT32)
        : Input(
              side, std::move(shape), seed, [scale](double x) { return scale * x; }, type) {}
    Input(const Input&) = delete;
    ~Input() {
        if (side_.gpu) cudaFree(array.data);
    }
    std::vector<float> now() const { return numbers(side_, array); }

    causeway_tensor array;

private:
    const Side& side_;
    std::vector<unsigned char> bytes_;
};

// What calls returned, by name; memory of the library's goes back at once.
class Results {
public:
    explicit Results(const Side& side) : side_(side) {}
    void take(const char* name, causeway_tensor& t) {
        found.emplace_back(name, numbers(side_, t));
        causeway_release(&t);
    }
    std::vector<std::pair<std::string, std::vector<float>>> found;

private:
    const Side& side_;
};

// f on the host and on the GPU: as many results, each near the other.
template <class F>
void same_on_both(const std::string& what, const Side& gpu, double tolerance, F&& f) {
    const Side host{false};
    const auto expected = f(host).found, got = f(gpu).found;
    check(expected.size() == got.size() && !got.empty(), what + ": as many results");
    for (std::size_t i = 0; i < got.size(); ++i) {
        const std::vector<float>&x = got[i].second, &y = expected[i].second;
        check(x.size() == y.size() && !x.empty(), what + ": the size of " + got[i].first);
        double difference = 0, length = 0;
        for (std::size_t j = 0; j < std::min(x.size(), y.size()); ++j)
            difference += std::pow(x[j] - y[j], 2), length += std::pow(y[j], 2);
        const double error = std::sqrt(difference / length);
        check(error <= tolerance, what + ": " + got[i].first + " with a relative error of " + std::to_string(error));
    }
}

constexpr std::int64_t h = 2, N = 300, dk = 32, dv = 48;
const std::vector<std::int64_t> offsets{0, 70, 71, 71, 300}, slots{4, 0, 2, 5};
const double per_key = 1 / std::sqrt(static_cast<double>(dk) / 3);

double forgets(double x) { return -0.05 * (1 + x); }
double writes(double x) { return 0.5 + 0.5 * x; }

template <class Options>
Options of_size() {
    Options options = {};
    options.size = sizeof options;
    return options;
}
template <class Options>
void set_packed(Options& o) {
    o.cu_seqlens = offsets.data(), o.cu_seqlens_count = static_cast<std::int64_t>(offsets.size());
}
template <class Options>
void set_pool(Options& o, const causeway_tensor& pool) {
    o.state = &pool;
    o.state_indices = slots.data(), o.state_indices_count = static_cast<std::int64_t>(slots.size());
    o.inplace = 1;
}

// q, k, v and gates of n tokens, from the token on, of one long text.
struct Text {
    Input q, k, v, g, beta;
    causeway_linear_options options = of_size<causeway_linear_options>();

    explicit Text(const Side& side, std::int32_t type = CAUSEWAY_FLOAT32, std::int64_t n = N)
        : q(side, {1, h, n, dk}, 1, per_key, type),
          k(side, {1, h, n, dk}, 2, per_key, type),
          v(side, {1, h, n, dv}, 3, 1, type),
          g(side, {1, h, n}, 4, forgets),
          beta(side, {1, h, n}, 5, writes) {
        options.update = "gated_delta", options.log_decay = &g.array, options.beta = &beta.array;
    }
};

void linear_attention(const Side& gpu) {
    for (const std::int32_t type : {CAUSEWAY_FLOAT32, CAUSEWAY_BFLOAT16}) {
        const double tolerance = type == CAUSEWAY_FLOAT32 ? 2e-5 : 2e-2;
        same_on_both("packed sequences in a pool, in place", gpu, tolerance, [type](const Side& side) {
            Text t(side, type);
            Input pool(side, {6, h, dk, dv}, 6, 0.3);
            const auto before = pool.now();
            causeway_tensor O = {}, state = {};
            set_packed(t.options), set_pool(t.options, pool.array);
            RUN(side, linear_attention, &t.q.array, &t.k.array, &t.v.array, &t.options, &O, &state);
            Results r(side);
            r.take("O", O);
            const auto after = pool.now();
            const std::size_t one = h * dk * dv;
            for (const std::size_t unused : {1u, 3u})
                check(std::equal(before.begin() + unused * one, before.begin() + (unused + 1) * one,
                                 after.begin() + unused * one),
                      "a slot that no sequence has is as it was");
            check(state.owner && numbers(side, state) == after, "a state beside one in place is a copy of it");
            causeway_release(&state);
            r.found.emplace_back("pool", after);
            return r;
        });
    }
    same_on_both("checkpoints", gpu, 2e-5, [](const Side& side) {
        Text t(side);
        causeway_tensor O = {}, state = {}, checkpoints = {};
        set_packed(t.options);
        t.options.checkpoint_every = 32, t.options.checkpoints = &checkpoints;
        RUN(side, linear_attention, &t.q.array, &t.k.array, &t.v.array, &t.options, &O, &state);
        check(checkpoints.ndim == 4 && checkpoints.shape[0] == 2 + 7, "nine checkpoints");
        Results r(side);
        r.take("O", O), r.take("state", state), r.take("checkpoints", checkpoints);
        return r;
    });
    same_on_both("the gradient of packed sequences", gpu, 5e-5, [](const Side& side) {
        Text t(side);
        Input dO(side, {1, h, N, dv}, 7), first(side, {4, h, dk, dv}, 8, 0.3), arriving(side, {4, h, dk, dv}, 9);
        set_packed(t.options);
        t.options.state = &first.array;
        causeway_tensor d[6] = {};
        causeway_linear_gradients wanted = {sizeof wanted, d, d + 1, d + 2, d + 3, d + 4, d + 5};
        RUN(side, linear_attention_grad, &t.q.array, &t.k.array, &t.v.array, &dO.array, &arriving.array, &t.options,
            &wanted);
        Results r(side);
        const char* const names[] = {"dq", "dk", "dv", "dlog_decay", "dbeta", "dinitial"};
        for (int i = 0; i < 6; ++i) r.take(names[i], d[i]);
        return r;
    });
    same_on_both("a step of three tokens in a pool", gpu, 2e-5, [](const Side& side) {
        Input q(side, {4, h, 3, dk}, 10, per_key), k(side, {4, h, 3, dk}, 11, per_key), v(side, {4, h, 3, dv}, 12);
        Input pool(side, {6, h, dk, dv}, 13, 0.3);
        auto o = of_size<causeway_linear_options>();
        o.state_indices = slots.data(), o.state_indices_count = 4;
        causeway_tensor O = {};
        RUN(side, linear_attention_step, &q.array, &k.array, &v.array, &o, &pool.array, &O);
        Results r(side);
        r.take("O", O), r.found.emplace_back("pool", pool.now());
        return r;
    });
}

// O and the state of a call, from library memory.
std::pair<std::vector<float>, std::vector<float>> outputs_of(const Side& side, const Text& t) {
    causeway_tensor O = {}, state = {};
    RUN(side, linear_attention, &t.q.array, &t.k.array, &t.v.array, &t.options, &O, &state);
    Results r(side);
    r.take("O", O), r.take("state", state);
    return {r.found[0].second, r.found[1].second};
}

void bits(const Side& gpu) {
    // Inputs are drawn row by row of a head, so that one head of a longer text begins with the shorter one.
    const auto one_head = [&](std::int64_t n, const char* promise) {
        Input q(gpu, {1, 1, n, dk}, 1, per_key, CAUSEWAY_BFLOAT16),
            k(gpu, {1, 1, n, dk}, 2, per_key, CAUSEWAY_BFLOAT16);
        Input v(gpu, {1, 1, n, dv}, 3, 1, CAUSEWAY_BFLOAT16), beta(gpu, {1, 1, n}, 5, writes);
        auto o = of_size<causeway_linear_options>();
        o.update = "delta", o.beta = &beta.array, o.deterministic = promise;
        causeway_tensor O = {};
        RUN(gpu, linear_attention, &q.array, &k.array, &v.array, &o, &O, nullptr);
        Results r(gpu);
        r.take("O", O);
        return r.found[0].second;
    };
    const auto shorter = one_head(1000, "prefix"), longer = one_head(3000, "prefix");
    check(std::equal(shorter.begin(), shorter.end(), longer.begin()), "\"prefix\": no later token changes a bit");

    Text whole(gpu);
    const std::int64_t cuts[] = {0, N};
    whole.options.cu_seqlens = cuts, whole.options.cu_seqlens_count = 2;
    const auto packed = outputs_of(gpu, whole), alone = outputs_of(gpu, Text(gpu));
    check(packed == alone, "a packed sequence has the bits of a call of its own");

    // Outputs in memory of the caller's, and the state to where it came from.
    Text t(gpu);
    Input first(gpu, {1, h, dk, dv}, 6, 0.3), place(gpu, {1, h, N, dv}, 30);
    t.options.state = &first.array;
    const auto expected = outputs_of(gpu, t);
    t.options.inplace = 1;
    RUN(gpu, linear_attention, &t.q.array, &t.k.array, &t.v.array, &t.options, &place.array, &first.array);
    check(place.now() == expected.first && first.now() == expected.second, "outputs in memory of the caller's");
}

void causal_linear_attention(const Side& gpu) {
    const double decay[] = {0.9, 0.99};
    same_on_both("causal attention of packed sequences, in a pool, with checkpoints", gpu, 2e-5, [&](const Side& side) {
        Text t(side);
        Input pool(side, {6, h, dk, dv}, 6, 0.3);
        causeway_tensor O = {}, checkpoints = {};
        auto o = of_size<causeway_causal_options>();
        o.method = "causal-dot-product", o.decay = decay, o.decay_count = 2;
        o.checkpoint_every = 100, o.checkpoints = &checkpoints;
        set_packed(o), set_pool(o, pool.array);
        RUN(side, causal_linear_attention, &t.q.array, &t.k.array, &t.v.array, &o, &O, nullptr);
        Results r(side);
        r.take("O", O), r.take("checkpoints", checkpoints), r.found.emplace_back("pool", pool.now());
        return r;
    });
    same_on_both("causal attention of four heads of queries on two of keys and values", gpu, 2e-5,
                 [](const Side& side) {
                     Input q(side, {1, 2 * h, N, dk}, 40, per_key), k(side, {1, h, N, dk}, 41, per_key),
                         v(side, {1, h, N, dv}, 42);
                     causeway_tensor O = {}, state = {};
                     const auto o = of_size<causeway_causal_options>();
                     RUN(side, causal_linear_attention, &q.array, &k.array, &v.array, &o, &O, &state);
                     Results r(side);
                     r.take("O", O), r.take("state", state);
                     return r;
                 });
}

void softmax_attention(const Side& gpu) {
    same_on_both("softmax attention of packed sequences, with its gradient", gpu, 5e-5, [](const Side& side) {
        Text t(side);
        Input dO(side, {1, h, N, dv}, 7);
        auto o = of_size<causeway_softmax_options>();
        set_packed(o);
        causeway_tensor O = {}, lse = {}, dq = {}, dk_ = {}, dv_ = {};
        RUN(side, softmax_attention, &t.q.array, &t.k.array, &t.v.array, &o, &O, &lse);
        RUN(side, softmax_attention_grad, &t.q.array, &t.k.array, &t.v.array, &dO.array, &O, &lse, &o, &dq, &dk_, &dv_);
        Results r(side);
        r.take("dq", dq), r.take("dk", dk_), r.take("dv", dv_), r.take("O", O), r.take("lse", lse);
        return r;
    });
}

void general_rule(const Side& gpu) {
    same_on_both("the general rule of packed sequences, its gradient and a step", gpu, 5e-5, [](const Side& side) {
        Text t(side);
        Input a(side, {1, h, N, dk}, 14, [](double x) { return 0.95 + 0.05 * x; });
        Input u(side, {1, h, N, dk}, 15, per_key / 2), w(side, {1, h, N, dk}, 16, per_key / 2);
        Input dO(side, {1, h, N, dv}, 7), first(side, {4, h, dk, dv}, 8, 0.3);
        auto o = of_size<causeway_general_options>();
        o.a = &a.array, o.u = &u.array, o.w = &w.array, o.state = &first.array;
        set_packed(o);
        causeway_tensor O = {}, state = {}, d[7] = {};
        RUN(side, general_linear_attention, &t.q.array, &t.k.array, &t.v.array, &o, &O, &state);
        causeway_general_gradients wanted = {sizeof wanted, d, d + 1, d + 2, d + 3, d + 4, d + 5, d + 6};
        RUN(side, general_linear_attention_grad, &t.q.array, &t.k.array, &t.v.array, &dO.array, nullptr, &o, &wanted);
        Results r(side);
        r.take("O", O), r.take("state", state);
        const char* const names[] = {"dq", "dk", "dv", "da", "du", "dw", "dinitial"};
        for (int i = 0; i < 7; ++i) r.take(names[i], d[i]);

        Input q(side, {1, h, 2, dk}, 17), k(side, {1, h, 2, dk}, 18), v(side, {1, h, 2, dv}, 19);
        Input now(side, {1, h, dk, dv}, 20);
        const auto plain = of_size<causeway_general_options>();
        RUN(side, general_linear_attention_step, &q.array, &k.array, &v.array, &plain, &now.array, &O);
        r.take("O of a step", O), r.found.emplace_back("its state", now.now());
        return r;
    });
}

void around(const Side& gpu) {
    same_on_both("a short convolution", gpu, 2e-5, [](const Side& side) {
        Input x(side, {1, N, 20}, 21), weight(side, {20, 4}, 22), bias(side, {20}, 23), before(side, {4, 3, 20}, 24);
        Input dy(side, {1, N, 20}, 25);
        const auto count = static_cast<std::int64_t>(offsets.size());
        causeway_tensor y = {}, state = {}, d[4] = {};
        RUN(side, short_convolution, &x.array, &weight.array, &bias.array, &before.array, "silu", offsets.data(), count,
            &y, &state);
        RUN(side, short_convolution_grad, &x.array, &weight.array, &bias.array, &before.array, "silu", offsets.data(),
            count, &dy.array, nullptr, d, d + 1, d + 2, d + 3);
        Results r(side);
        r.take("y", y), r.take("state", state);
        for (causeway_tensor& one : d) r.take("a gradient", one);
        return r;
    });
    same_on_both("norms", gpu, 2e-5, [](const Side& side) {
        Input x(side, {3, N, 40}, 21), weight(side, {40}, 22), gate(side, {3, N, 40}, 23), dy(side, {3, N, 40}, 24);
        causeway_tensor y[4] = {}, d[2] = {};
        RUN(side, l2norm, &x.array, nullptr, y);
        RUN(side, l2norm_grad, &x.array, nullptr, &dy.array, y + 1);
        RUN(side, rms_norm, &x.array, &weight.array, &gate.array, "sigmoid", nullptr, y + 2);
        RUN(side, rms_norm_grad, &x.array, &weight.array, &gate.array, "sigmoid", nullptr, &dy.array, y + 3, d, d + 1);
        Results r(side);
        for (causeway_tensor& one : y) r.take("a norm, or what arrives before it", one);
        for (causeway_tensor& one : d) r.take("a gradient", one);
        return r;
    });
    same_on_both("a decay gate", gpu, 2e-5, [](const Side& side) {
        Input a(side, {2, h, N}, 21), rate(side, {h}, 22), bias(side, {h}, 23), dg(side, {2, h, N}, 24);
        causeway_tensor g = {}, d[3] = {};
        RUN(side, decay_gate, &a.array, &rate.array, &bias.array, nullptr, &g);
        RUN(side, decay_gate_grad, &a.array, &rate.array, &bias.array, nullptr, &dg.array, d, d + 1, d + 2);
        Results r(side);
        r.take("g", g);
        for (causeway_tensor& one : d) r.take("a gradient", one);
        return r;
    });
}

// What is refused leaves everything as it was.
void refusals(const Side& gpu) {
    Text t(gpu);
    Input pool(gpu, {6, h, dk, dv}, 6, 0.3), dO(gpu, {1, h, N, dv}, 7), small(gpu, {1, h, N, dk}, 8);
    const auto before = pool.now();
    causeway_tensor O = {};
    set_packed(t.options), set_pool(t.options, pool.array);
    refuses(causeway_gpu_linear_attention(&t.q.array, &t.k.array, &t.v.array, &t.options, &small.array, nullptr,
                                          gpu.stream),
            "O: 1×2×300×32, expected 1×2×300×48");
    const std::int64_t twice[] = {4, 0, 4, 5};
    t.options.state_indices = twice;
    refuses(causeway_gpu_linear_attention(&t.q.array, &t.k.array, &t.v.array, &t.options, &O, nullptr, gpu.stream),
            "state_indices");
    t.options.state_indices = slots.data();
    std::vector<float> host(static_cast<std::size_t>(6 * h * dk * dv));
    causeway_tensor elsewhere = pool.array;
    elsewhere.data = host.data();
    t.options.state = &elsewhere;
    refuses(causeway_gpu_linear_attention(&t.q.array, &t.k.array, &t.v.array, &t.options, &O, nullptr, gpu.stream),
            "state: not in the memory of a GPU");
    t.options.state = &pool.array;
    auto wanted = of_size<causeway_linear_gradients>();
    const auto gradient = [&] {
        return causeway_gpu_linear_attention_grad(&t.q.array, &t.k.array, &t.v.array, &dO.array, nullptr, &t.options,
                                                  &wanted, gpu.stream);
    };
    refuses(gradient(), "inplace: true, but a gradient leaves the state as it is");
    t.options.state_indices_count = 0, t.options.state = nullptr, t.options.inplace = 0;
    causeway_tensor checkpoints = {};
    t.options.checkpoint_every = 10, t.options.checkpoints = &checkpoints;
    refuses(gradient(), "checkpoint_every: given, but a gradient returns no states");
    auto causal = of_size<causeway_causal_options>();
    causal.deterministic = "prefix";
    refuses(causeway_gpu_causal_linear_attention(&t.q.array, &t.k.array, &t.v.array, &causal, &O, nullptr, gpu.stream),
            "deterministic: \"prefix\"");
    check(pool.now() == before && !O.data, "what is refused leaves all as it was");
}

}  // namespace

int main() {
    if (causeway_gpu_devices() == 0) {
        std::printf("there is no GPU here\n");
        return 77;
    }
    Side gpu{true};
    cuda(cudaStreamCreate(&gpu.stream));
    linear_attention(gpu);
    bits(gpu);
    causal_linear_attention(gpu);
    softmax_attention(gpu);
    general_rule(gpu);
    around(gpu);
    refusals(gpu);
    cuda(cudaStreamDestroy(gpu.stream));
    if (failures == 0) std::printf("the C interface holds on a GPU\n");
    return failures == 0 ? 0 : 1;
}
