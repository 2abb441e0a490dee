// Linear attention of one sequence on several GPUs against one GPU and the definition. The exchanges of states are also
// run by ranks that share one GPU (ranks.hpp).
#include <cmath>
#include <random>
#include <string>

#include "core/distributed/threads.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/sharded/exchange.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/sharded/forward.hpp"
#include "gpu/sharded/linear_attention.hpp"
#include "gpu/sharded/linear_attention_grad.hpp"
#include "tests/gpu/distributed/ranks.hpp"
#include "tests/gpu/gated.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::distributed::Communicator;
using causeway::gpu::sharded::Starts;

namespace {

// The gates of a part, which are copied; the rest is read in place. Of a part without tokens they are not null either.
gpu::Tensor gates_of_part(const Tensor& all, Index first, Index n) {
    if (n == 0) return gpu::Tensor(DType::f32, {1});
    return gpu::Tensor(tokens(all, first, first + n).to(DType::f32));
}

// What p ranks on one GPU make of a call, in the call's own outputs and in `last`.
void on_one_gpu(const GatedInputs& in, GatedCall& call, int p, const Starts& starts, const std::string& exchange,
                gpu::Tensor& last) {
    settle();
    distributed::run_threads(p, [&](Communicator& thread) {
        gpu::check(cudaSetDevice(0), "choosing the device");
        const gpu::Stream stream;
        {
            SharedGpu comm(thread, stream);
            const auto r = static_cast<std::size_t>(comm.rank());
            const Index first = starts[r], n = starts[r + 1] - first;
            gpu::GatedArgs a = call.args;
            const auto move = [&](auto* data, Index elements) {
                using P = decltype(data);
                return static_cast<P>(
                    static_cast<std::conditional_t<std::is_const_v<std::remove_pointer_t<P>>, const char, char>*>(
                        data) +
                    elements * gpu::bytes_of(a.type));
            };
            a.q = move(a.q, first * a.q_stride.token), a.k = move(a.k, first * a.k_stride.token);
            a.v = move(a.v, first * a.v_stride.token), a.o = move(a.o, first * a.o_stride.token);
            a.N = n, a.state = nullptr;
            gpu::Tensor g, beta;
            if (a.g) g = gates_of_part(*in.options.log_decay, first, n), a.g = g.as<float>();
            if (a.beta) beta = gates_of_part(*in.options.beta, first, n), a.beta = beta.as<float>();
            settle();
            gpu::sharded::GatedTokens part(a, "chunkwise", stream);
            gpu::sharded::forward(comm, starts, part, causeway::sharded::exchanges()[exchange].exchange,
                                  call.args.state, last.as<float>());
            stream.wait();
        }
    });
}

Starts equal_parts(Index N, int p) {
    Starts starts;
    for (int r = 0; r <= p; ++r) starts.push_back(r * N / p);
    return starts;
}

const char* const exchanges[] = {"ring", "all-scan", "all-gather"};

double bound_of(DType type) { return type == DType::f32 ? 4e-6 : type == DType::f16 ? 2e-3 : 1e-2; }

void check_on_one_gpu(const GatedCase& c, int p, const Starts& starts, DType type, const char* exchange) {
    CAPTURE(c, p, starts, name(type), exchange);
    const GatedInputs in = rounded_to(gated_inputs(c), type);
    const LinearResult want = oracle(in);
    GatedCall call(in, type);
    gpu::Tensor last(want.state.to(DType::f32).copy());
    on_one_gpu(in, call, p, starts, exchange, last);
    CHECK(relative_error(gathered(call.o, c.N, c.dv), want.O) <= bound_of(type));
    CHECK(relative_error(last.cpu(), want.state) <= bound_of(type));
}

gpu::LinearOptions on_gpu_options(const GatedInputs& in) {
    gpu::LinearOptions o;
    o.update = in.options.update, o.scale = in.options.scale;
    if (in.options.log_decay) o.log_decay = gpu::Tensor(in.options.log_decay->to(DType::f32));
    if (in.options.beta) o.beta = gpu::Tensor(in.options.beta->to(DType::f32));
    if (in.options.state) o.state = gpu::Tensor(in.options.state->to(DType::f32));
    return o;
}

}  // namespace

TEST_CASE("gpu: ranks that share a GPU hand states on", "[gpu][sharded]") {
    if (!on_gpu()) return;
    for (const DType type : {DType::f32, DType::bf16})
        for (const char* exchange : exchanges)
            for (const int p : {1, 2, 3}) {
                for (const GatedCase& c :
                     each_update({.batch = 2, .heads = 3, .group = 2, .N = 300, .dk = 32, .dv = 40}))
                    check_on_one_gpu(c, p, equal_parts(c.N, p), type, exchange);
            }
}

TEST_CASE("gpu: ranks that share a GPU: empty parts, boundaries anywhere, long sequences", "[gpu][sharded]") {
    if (!on_gpu()) return;
    for (const char* exchange : exchanges) {
        for (const GatedCase& c : each_update({.heads = 2, .N = 67, .dk = 16, .dv = 8})) {
            check_on_one_gpu(c, 3, {0, 0, 67, 67}, DType::f32, exchange);
            check_on_one_gpu(c, 4, {0, 1, 1, 66, 67}, DType::f32, exchange);
        }
        for (const GatedCase& c : each_update({.heads = 4, .N = 5000, .dk = 128, .dv = 64}))
            check_on_one_gpu(c, 2, equal_parts(c.N, 2), DType::bf16, exchange);
    }
}

// Heads that forget, heads that do not and heads that one rank alone forgets: no two of the orders in which states
// arrive and go on are the same.
TEST_CASE("gpu: heads that forget are not waited for", "[gpu][sharded]") {
    if (!on_gpu()) return;
    for (const bool channels : {false, true})
        for (const char* update : {"gated", "gated_delta"})
            for (const DType type : {DType::f32, DType::bf16}) {
                GatedCase c{.update = update, .heads = 6, .N = 6144, .dk = 64, .dv = 64, .channels = channels};
                const int p = 3;
                const Index each = c.N / p;
                GatedInputs in = rounded_to(gated_inputs(c), type);
                Tensor& g = *in.options.log_decay;
                // Head h keeps everything on the ranks whose bit is set.
                const unsigned keeps[] = {0, 7, 1, 2, 4, 3};
                const Index columns = channels ? c.dk : 1;
                for (Index h = 0; h < c.heads; ++h)
                    for (Index t = 0; t < c.N; ++t)
                        if (keeps[h] >> (t / each) & 1)
                            for (Index e = 0; e < columns; ++e) g.set((h * c.N + t) * columns + e, 0);
                CAPTURE(update, channels, name(type));
                const LinearResult want = oracle(in);
                GatedCall call(in, type);
                gpu::Tensor last(want.state.to(DType::f32).copy());
                on_one_gpu(in, call, p, equal_parts(c.N, p), "ring", last);
                CHECK(relative_error(gathered(call.o, c.N, c.dv), want.O) <= bound_of(type));
                CHECK(relative_error(last.cpu(), want.state) <= bound_of(type));
                for (int r = 0; r < p; ++r) {
                    gpu::GatedArgs a = call.args;
                    const gpu::Tensor gates = gates_of_part(g, r * each, each);
                    a.g = gates.as<float>(), a.N = each;
                    gpu::sharded::GatedTokens part(a, "chunkwise", nullptr);
                    gpu::sharded::TokenPart<causeway::sharded::Part<float>> seen(part, nullptr, nullptr);
                    std::vector<causeway::sharded::Stop> stops;
                    for (Index h = 0; h < c.heads; ++h) stops.push_back({.state = h});
                    const std::vector<char> forgets = seen.forgets(stops);
                    for (Index h = 0; h < c.heads; ++h) {
                        CAPTURE(r, h);
                        CHECK((forgets[static_cast<std::size_t>(h)] != 0) == ((keeps[h] >> r & 1) == 0));
                    }
                }
            }
}

// A rank waits for the one before it, and has fewer tokens for that, but never none.
TEST_CASE("gpu: parts of ranks that wait", "[gpu][sharded]") {
    using gpu::sharded::waiting_starts;
    CHECK(waiting_starts(131072, 2, 64, 1, 1) == Starts{0, 87360, 131072});
    CHECK(waiting_starts(131072, 3, 64, 1, 1) == Starts{0, 74880, 112320, 131072});
    CHECK(waiting_starts(131072, 2, 64, 8, 8) == Starts{0, 74880, 131072});
    CHECK(waiting_starts(131072, 2, 64, 8, 0) == Starts{0, 65536, 131072});
    CHECK(waiting_starts(131072, 2, 64, 0, 0) == Starts{0, 65536, 131072});
}

TEST_CASE("gpu: linear attention on several GPUs over NCCL", "[gpu][nccl][sharded]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p)
        for (const DType type : {DType::f32, DType::bf16})
            for (const Index N : {1, 70, 600, 5000})
                for (const GatedCase& c : each_update({.batch = 2, .heads = 3, .group = 2, .N = N, .dk = 64, .dv = 48}))
                    for (const char* exchange : exchanges) {
                        CAPTURE(c, p, name(type), exchange);
                        const GatedInputs in = rounded_to(gated_inputs(c), type);
                        const LinearResult want = oracle(in);
                        const gpu::Tensor q(in.q.to(type)), k(in.k.to(type)), v(in.v.to(type));
                        const gpu::LinearOptions o = on_gpu_options(in);
                        Sharding sharding;
                        sharding.shards = p, sharding.exchange = exchange;
                        const auto got = gpu::linear_attention_sharded(q, k, v, o, sharding);
                        const auto one = gpu::linear_attention(q, k, v, o);
                        settle();
                        CHECK(relative_error(got.O.cpu().to(DType::f64), want.O) <= bound_of(type));
                        CHECK(relative_error(got.state.cpu().to(DType::f64), want.state) <= bound_of(type));
                        CHECK(relative_error(got.O.cpu().to(DType::f64), one.O.cpu().to(DType::f64)) <= bound_of(type));
                        CHECK(got.report.engine == "nccl");
                        CHECK(got.report.shards == p);
                        // N < 128 with chunks of 64: one rank has everything, and nothing is sent.
                        if (N > 128 && std::string(exchange) == "ring")
                            CHECK(got.report.total().elements == (p - 1) * 2 * 3 * 64 * 48);
                    }
}

TEST_CASE("gpu: causal linear attention on several GPUs over NCCL", "[gpu][nccl][sharded]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p)
        for (const DType type : {DType::f32, DType::bf16})
            for (const char* method : {"auto", "row-based", "block-based", "fleet"})
                for (const bool decays : {false, true}) {
                    CAPTURE(p, name(type), method, decays);
                    const GatedInputs in = rounded_to(
                        gated_inputs(
                            {.update = "linear", .batch = 2, .heads = 4, .N = 3000, .dk = 64, .dv = 64, .seed = 9}),
                        type);
                    CausalOptions exact;
                    exact.method = "row-based", exact.return_state = true, exact.state = in.options.state;
                    if (decays) exact.decay = {0.9, 0.97, 0.9999, 1};
                    const CausalResult want = causal_linear_attention(in.q, in.k, in.v, exact);
                    gpu::CausalOptions o;
                    o.method = method, o.return_state = true, o.decay = exact.decay;
                    o.state = gpu::Tensor(in.options.state->to(DType::f32));
                    Sharding sharding;
                    sharding.shards = p;
                    const auto got =
                        gpu::causal_linear_attention_sharded(gpu::Tensor(in.q.to(type)), gpu::Tensor(in.k.to(type)),
                                                             gpu::Tensor(in.v.to(type)), o, sharding);
                    settle();
                    const double bound = type == DType::f32 ? 3e-5 : bound_of(type);
                    CHECK(relative_error(got.O.cpu().to(DType::f64), want.O) <= bound);
                    CHECK(relative_error(got.state.cpu().to(DType::f64), want.state) <= bound);
                }
}

namespace {

void check_several(const GatedCase& c, DType type, const Sharding& sharding) {
    CAPTURE(c, name(type), sharding.exchange, sharding.sizes);
    const GatedInputs in = rounded_to(gated_inputs(c), type);
    const LinearResult want = oracle(in);
    const auto got = gpu::linear_attention_sharded(gpu::Tensor(in.q.to(type)), gpu::Tensor(in.k.to(type)),
                                                   gpu::Tensor(in.v.to(type)), on_gpu_options(in), sharding);
    settle();
    CHECK(relative_error(got.O.cpu().to(DType::f64), want.O) <= bound_of(type));
    CHECK(relative_error(got.state.cpu().to(DType::f64), want.state) <= bound_of(type));
}

}  // namespace

TEST_CASE("gpu: several GPUs without a state, with one head, in Float16 with a scale, and by sizes",
          "[gpu][nccl][sharded]") {
    if (!gpus(2)) return;
    for (const char* exchange : exchanges) {
        Sharding equal, sized;
        equal.shards = 2, equal.exchange = sized.exchange = exchange;
        sized.sizes = {437, 163};
        for (const GatedCase& c : each_update({.N = 600, .dk = 64, .dv = 48, .scale = 0.125, .state = false}))
            for (const DType type : {DType::f32, DType::bf16, DType::f16})
                for (const Sharding& sharding : {equal, sized}) check_several(c, type, sharding);
        sized.sizes = {0, 600};
        for (const GatedCase& c : each_update({.heads = 3, .N = 600, .dk = 64, .dv = 64, .scale = 0.125}))
            for (const DType type : {DType::bf16, DType::f16})
                for (const Sharding& sharding : {equal, sized}) check_several(c, type, sharding);
    }
}

// Before it is scaled the last output is 262144.
TEST_CASE("gpu: sums that Float16 has no room for before they are scaled, on several GPUs", "[gpu][nccl][sharded]") {
    if (!gpus(2)) return;
    const gpu::Tensor ones(Tensor::full(DType::f16, {1, 1, 4096, 64}, 1));
    Sharding sharding;
    sharding.shards = 2;
    gpu::LinearOptions linear;
    linear.scale = 0.125;
    gpu::CausalOptions causal;
    causal.scale = 0.125, causal.return_state = true;
    const auto check = [](const gpu::Tensor& O, const gpu::Tensor& state) {
        CHECK(O.dtype() == DType::f16);
        const Tensor outputs = O.cpu(), sums = state.cpu();
        for (const Index t : {0, 1, 2047, 2048, 4095}) {
            CAPTURE(t);
            const double expected = 8 * static_cast<double>(t + 1);  // rounded to 11 bits
            CHECK(std::abs(outputs.get(t * 64 + 5) - expected) <= 0x1p-11 * expected);
        }
        CHECK(sums.get(77) == 4096);
    };
    const auto whole = gpu::linear_attention_sharded(ones, ones, ones, linear, sharding);
    settle();
    check(whole.O, whole.state);
    const auto same = gpu::causal_linear_attention_sharded(ones, ones, ones, causal, sharding);
    settle();
    check(same.O, same.state);
}

TEST_CASE("gpu: one head on several GPUs is shared out, and a state of 16 bits is taken", "[gpu][nccl][sharded]") {
    if (!gpus(2)) return;
    const Index N = 4096;
    const GatedInputs in = rounded_to(gated_inputs({.update = "linear", .N = N, .dk = 64, .dv = 64}), DType::bf16);
    const gpu::Tensor q(in.q.to(DType::bf16)), k(in.k.to(DType::bf16)), v(in.v.to(DType::bf16));
    CausalOptions exact;
    exact.method = "row-based", exact.state = in.options.state->to(DType::bf16).to(DType::f64);
    const CausalResult want = causal_linear_attention(in.q, in.k, in.v, exact);
    gpu::CausalOptions o;
    o.state = gpu::Tensor(in.options.state->to(DType::bf16));
    for (const char* exchange : exchanges) {
        CAPTURE(exchange);
        Sharding sharding;
        sharding.shards = 2, sharding.exchange = exchange;
        const auto got = gpu::causal_linear_attention_sharded(q, k, v, o, sharding);
        settle();
        CHECK(relative_error(got.O.cpu().to(DType::f64), want.O) <= bound_of(DType::bf16));
        // In the ring the second rank waits, and has a third; otherwise both have a half.
        const bool ring = std::string(exchange) == "ring";
        CHECK(got.report.memory[0].peak_of(distributed::Held::query) == (ring ? 2752 : 2048) * 64);
        CHECK(got.report.memory[1].peak_of(distributed::Held::query) == (ring ? 1344 : 2048) * 64);
    }
}

TEST_CASE("gpu: calls on several GPUs name what they cannot use", "[gpu][nccl][sharded]") {
    const int most = gpus(1);
    if (!most) return;
    const gpu::Tensor x(Tensor::zeros(DType::f32, {1, 2, 70, 16}));
    const auto message = [&](Sharding s, gpu::CausalOptions o = {}) {
        return message_of([&] { gpu::causal_linear_attention_sharded(x, x, x, o, s); });
    };
    Sharding s;
    s.shards = most + 1;
    CHECK(message(s) == "shards: " + std::to_string(most + 1) + ", expected at most " + std::to_string(most) +
                            ", the number of GPUs");
    s.shards = 1, s.engine = "threads";
    CHECK(message(s) == "engine: \"threads\", expected \"nccl\" for tensors on the GPU");
    s.engine = "nccl", s.exchange = "heads";
    CHECK(message(s) ==
          "exchange: \"heads\", expected \"ring\", \"all-scan\" or \"all-gather\": on GPUs heads are not exchanged");
    s.exchange = "auto", s.timeout = 5;
    CHECK(message(s) == "timeout: 5, expected none: one process has all GPUs and waits for no other");
    s.timeout = 0;
    gpu::CausalOptions o;
    o.normalize = true;
    CHECK(message(s, o) == "normalize: true, but on several GPUs outputs are not divided by their sums");
    o.normalize = false, o.method = "vanilla";
    CHECK(message(s, o) == "method: \"vanilla\" carries no state, expected one that does with shards");
}

namespace {

Tensor drawn_like(const Tensor& a, unsigned seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(DType::f64, a.shape());
    for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(normal(generator)));
    return out;
}

}  // namespace

TEST_CASE("gpu: gradients of linear attention on several GPUs over NCCL", "[gpu][nccl][sharded]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p)
        for (const DType type : {DType::f32, DType::bf16})
            for (const Index N : {50, 700})
                for (const GatedCase& c :
                     each_update({.batch = 2, .heads = 3, .group = 2, .N = N, .dk = 32, .dv = 48})) {
                    CAPTURE(c, p, name(type));
                    const GatedInputs in = rounded_to(gated_inputs(c), type);
                    const LinearResult forward = oracle(in);
                    const Tensor dO = drawn_like(forward.O, 3).to(type).to(DType::f64),
                                 dstate = drawn_like(forward.state, 4);
                    const LinearGradient want = linear_attention_grad(in.q, in.k, in.v, dO, in.options, dstate);
                    Sharding sharding;
                    sharding.shards = p;
                    const auto got = gpu::linear_attention_grad_sharded(
                        gpu::Tensor(in.q.to(type)), gpu::Tensor(in.k.to(type)), gpu::Tensor(in.v.to(type)),
                        gpu::Tensor(dO.to(type)), on_gpu_options(in), gpu::Tensor(dstate.to(DType::f32)), sharding);
                    settle();
                    const double bound = type == DType::f32 ? 3e-5 : 2e-2;
                    const auto check = [&](const gpu::Tensor& x, const Tensor& y) {
                        CHECK(relative_error(x.cpu().to(DType::f64), y) <= bound);
                    };
                    check(got.dq, want.dq), check(got.dk, want.dk), check(got.dv, want.dv);
                    check(got.dstate, want.dstate);
                    if (want.dlog_decay) check(*got.dlog_decay, *want.dlog_decay);
                    if (want.dbeta) check(*got.dbeta, *want.dbeta);
                    CHECK(got.report.method == "linear_attention_grad");
                }
}
