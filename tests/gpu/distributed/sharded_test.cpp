// Linear attention of one sequence on several GPUs against one GPU and the definition. The exchanges of states are also
// run by ranks that share one GPU (ranks.hpp).
#include <cmath>
#include <random>
#include <string>

#include "core/distributed/threads.hpp"
#include "core/gradient/causal_linear_attention_grad.hpp"
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
            const bool in_steps =
                exchange == "all-scan" && gpu::sharded::GatedTokens::has_steps("chunkwise", call.args);
            gpu::sharded::GatedTokens part(a, "chunkwise", stream, {}, in_steps);
            const gpu::sharded::SharedSequences sequences({}, in.v.shape()[0], in.v.shape()[1], starts.back());
            gpu::sharded::forward(comm, sequences, starts, part, causeway::sharded::exchanges()[exchange].exchange,
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

namespace {

// |x|: sums of weights are then far from 0.
Tensor positive(const Tensor& x) {
    Tensor out = x.copy();
    for (Index i = 0; i < out.size(); ++i) out.set(i, std::abs(out.get(i)));
    return out;
}

// Inputs of normalised attention, with states of one more column.
GatedInputs normal_inputs(GatedInputs in) {
    in.q = positive(in.q), in.k = positive(in.k);
    const Shape& s = in.options.state->shape();
    Tensor wide(in.options.state->dtype(), {s[0], s[1], s[2], s[3] + 1});
    for (Index i = 0; i < wide.size(); ++i) {
        const Index row = i / (s[3] + 1), column = i % (s[3] + 1);
        wide.set(
            i, column == s[3] ? 1 + 0.125 * static_cast<double>(row % 5) : in.options.state->get(row * s[3] + column));
    }
    in.options.state = wide;
    return in;
}

// Causal linear attention of ranks that share one GPU, by a method and an exchange.
void check_causal_on_one_gpu(DType type, const char* method, const char* exchange, const std::vector<double>& decay,
                             const Starts& starts, bool normalize) {
    CAPTURE(name(type), method, exchange, decay, starts, normalize);
    const GatedCase c{.update = "linear", .batch = 2, .heads = 4, .N = starts.back(), .dk = 64, .dv = 128, .seed = 5};
    const GatedInputs given = rounded_to(gated_inputs(c), type), in = normalize ? normal_inputs(given) : given;
    CausalOptions exact;
    exact.method = "row-based", exact.return_state = true, exact.state = in.options.state, exact.decay = decay;
    exact.normalize = normalize;
    const CausalResult want = causal_linear_attention(in.q, in.k, in.v, exact);
    const gpu::Tensor q(in.q.to(type)), k(in.k.to(type)), v(in.v.to(type)), state(in.options.state->to(DType::f32)),
        O(Tensor::full(type, in.v.shape(), std::nan("")));
    const gpu::NormalStates before =
        normalize ? gpu::split_states(state, nullptr) : gpu::NormalStates{state, gpu::Tensor()};
    const auto nan_like = [](const Shape& shape) { return gpu::Tensor(Tensor::full(DType::f32, shape, std::nan(""))); };
    const gpu::Tensor last = nan_like(before.sums.shape()), last_keys = nan_like({c.batch, c.heads, c.dk});
    settle();
    distributed::run_threads(static_cast<int>(starts.size()) - 1, [&](Communicator& thread) {
        gpu::check(cudaSetDevice(0), "choosing the device");
        const gpu::Stream stream;
        SharedGpu comm(thread, stream);
        const auto r = static_cast<std::size_t>(comm.rank());
        const auto at = [&](const gpu::Tensor& x, Index width) {
            return static_cast<char*>(x.data()) + static_cast<std::size_t>(starts[r] * width) * size_of(type);
        };
        gpu::CausalArgs a;
        a.type = q.type(), a.B = c.batch, a.H = c.heads, a.N = starts[r + 1] - starts[r];
        a.r = static_cast<int>(c.dk), a.d = static_cast<int>(c.dv);
        a.q = at(q, c.dk), a.k = at(k, c.dk), a.v = at(v, c.dv), a.o = at(O, c.dv);
        a.q_stride = a.k_stride = gpu::contiguous(c.heads, c.N, c.dk);
        a.v_stride = a.o_stride = gpu::contiguous(c.heads, c.N, c.dv);
        a.gamma = decay.empty() ? nullptr : decay.data();
        const gpu::sharded::SharedSequences sequences({}, c.batch, c.heads, c.N);
        {
            gpu::sharded::CausalTokens part(a, gpu::causal_method(method), stream);
            gpu::sharded::forward(comm, sequences, starts, part, causeway::sharded::exchanges()[exchange].exchange,
                                  before.sums.as<float>(), last.as<float>());
        }
        if (normalize) {
            gpu::sharded::KeyTokens divisors(a, stream);
            gpu::sharded::forward(comm, sequences, starts, divisors, causeway::sharded::Exchange::all_scan,
                                  before.keys.as<float>(), last_keys.as<float>());
        }
        stream.wait();
    });
    const double bound = type == DType::f32 ? 3e-5 : bound_of(type);
    const gpu::Tensor after = normalize ? gpu::joined_states(last, last_keys, nullptr) : last;
    CHECK(relative_error(O.cpu().to(DType::f64), want.O) <= bound);
    CHECK(relative_error(after.cpu().to(DType::f64), want.state) <= bound);
}

}  // namespace

// Parts whose states are made before their outputs, in the steps of a method that has them, and parts where they
// cannot.
TEST_CASE("gpu: ranks that share a GPU hand states of causal linear attention on", "[gpu][sharded][steps]") {
    if (!on_gpu()) return;
    for (const DType type : {DType::f32, DType::bf16})
        for (const char* method : {"lightning-attention-2", "fleet"})
            for (const char* exchange : exchanges)
                for (const std::vector<double>& decay : {std::vector<double>{}, {0.9, 0.97, 0.9999, 1}})
                    for (const Starts& starts :
                         {Starts{0, 3000}, {0, 1344, 3000}, {0, 1000, 3000}, {0, 64, 64, 1024, 3000}})
                        for (const bool normalize : {false, true})
                            check_causal_on_one_gpu(type, method, exchange, decay, starts, normalize);
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
                    for (Index h = 0; h < c.heads; ++h) stops.push_back({.state = h, .after = true});
                    const std::vector<char> forgets = seen.forgets(stops);
                    for (Index h = 0; h < c.heads; ++h) {
                        CAPTURE(r, h);
                        CHECK((forgets[static_cast<std::size_t>(h)] != 0) == ((keeps[h] >> r & 1) == 0));
                    }
                }
            }
}

namespace {

// Every row within bound times its own largest, however large others are; what is not finite at the same places.
void check_rows(const Tensor& got, const Tensor& want, double bound) {
    REQUIRE(got.shape() == want.shape());
    const Index columns = want.shape().back();
    Index wrong = -1;
    for (Index row = 0; row < want.size() / columns && wrong < 0; ++row) {
        double largest = 0;
        for (Index i = row * columns; i < (row + 1) * columns; ++i)
            if (std::isfinite(want.get(i))) largest = std::max(largest, std::abs(want.get(i)));
        for (Index i = row * columns; i < (row + 1) * columns && wrong < 0; ++i) {
            const double a = got.get(i), b = want.get(i);
            const bool close = std::isfinite(b) ? std::abs(a - b) <= bound * largest : !std::isfinite(a);
            if (!close) wrong = i;
        }
    }
    CAPTURE(wrong, wrong < 0 ? 0 : got.get(wrong), wrong < 0 ? 0 : want.get(wrong));
    CHECK(wrong < 0);
}

// Heads that forget soon, whose values are `first` times as large up to token `until`, and tiny from there on; or one
// of the first that is no finite number.
GatedInputs large_before_small(const GatedCase& c, double first, Index until, DType type) {
    GatedInputs in = gated_inputs(c);
    for (Index i = 0; i < in.v.size(); ++i)
        in.v.set(i, in.v.get(i) * (std::isfinite(first) && i / c.dv % c.N < until ? first : 1e-6));
    if (!std::isfinite(first)) in.v.set(5 * c.dv + 3, first);
    return rounded_to(in, type);
}

constexpr double too_large[] = {1e12, 1e30, NAN, INFINITY};

// Kernels for one gate a head in 16 bits leave out of a text what they take to be forgotten themselves.
bool sees_all(DType type, bool channels) { return type == DType::f32 || channels; }

}  // namespace

TEST_CASE("gpu: a state that is large, or no number, is not forgotten by its gates alone", "[gpu][sharded]") {
    if (!on_gpu()) return;
    for (const bool channels : {false, true})
        for (const char* update : {"gated", "gated_delta"})
            for (const DType type : {DType::f32, DType::bf16})
                for (const double first : too_large) {
                    if (!sees_all(type, channels)) continue;
                    CAPTURE(update, channels, name(type), first);
                    const int p = 3;
                    const GatedCase c{
                        .update = update, .heads = 2, .group = 2, .N = 6144, .dk = 64, .dv = 48, .channels = channels};
                    const GatedInputs in = large_before_small(c, first, c.N / p * (p - 1), type);
                    const LinearResult want = oracle(in);
                    GatedCall call(in, type);
                    gpu::Tensor last(want.state.to(DType::f32).copy());
                    on_one_gpu(in, call, p, equal_parts(c.N, p), "ring", last);
                    const double bound = type == DType::f32 ? 1e-3 : 0.1;
                    check_rows(gathered(call.o, c.N, c.dv), want.O, bound);
                    check_rows(last.cpu(), want.state, bound);
                }
}

TEST_CASE("gpu: ordinary states are those that were handed on where heads forget", "[gpu][sharded]") {
    if (!on_gpu()) return;
    for (const bool channels : {false, true})
        for (const char* update : {"gated", "gated_delta"})
            for (const DType type : {DType::f32, DType::bf16, DType::f16})
                for (const Index N : {2048, 2085})
                    for (const double large : {1.0, 1e20}) {
                        CAPTURE(update, channels, name(type), N, large);
                        const GatedCase c{
                            .update = update, .batch = 2, .heads = 3, .N = N, .dk = 64, .dv = 48, .channels = channels};
                        GatedInputs in = rounded_to(gated_inputs(c), type);
                        const Index size = c.dk * c.dv, second = 4;  // the state that is large, or not
                        for (Index i = 0; i < size; ++i)
                            in.options.state->set(second * size + i, in.options.state->get(second * size + i) * large);
                        GatedCall call(in, type);
                        gpu::GatedArgs a = call.args;
                        a.state = nullptr;
                        gpu::sharded::GatedTokens tokens_here(a, "chunkwise", nullptr);
                        gpu::sharded::TokenPart<causeway::sharded::Part<float>> part(tokens_here, nullptr, nullptr);
                        std::vector<causeway::sharded::Stop> stops;
                        for (Index i = 0; i < c.batch * c.heads; ++i) stops.push_back({.state = i, .after = true});
                        const std::vector<char> none(stops.size(), 0);
                        CHECK(part.remains(stops) == none);
                        CHECK(part.forgets(stops) == std::vector<char>(stops.size(), 1));
                        const gpu::Tensor after(call.state.cpu()), handed(call.state.cpu());
                        part.last_tokens(stops, handed.as<float>());
                        part.runs(stops, after.as<float>());
                        CHECK(part.differ(stops, after.as<float>(), handed.as<float>()) == none);
                        CHECK(part.remains(stops) == none);
                        const Tensor got = handed.cpu(), want = after.cpu();
                        CHECK(relative_error(got, want) <= bound_of(type));
                        // One that is another, at one place.
                        const Index at = second * size + 77;
                        Tensor other = want.copy();
                        other.set(at, want.get(at) + large);
                        const gpu::Tensor moved(other);
                        part.differ(stops, after.as<float>(), moved.as<float>());
                        std::vector<char> expected = none;
                        expected[static_cast<std::size_t>(second)] = 1;
                        CHECK(part.remains(stops) == expected);
                    }
}

// Number for number.
TEST_CASE("gpu: whether a state is the one that was handed on", "[gpu][sharded]") {
    if (!on_gpu()) return;
    const Index rows = 40, columns = 70, size = rows * columns;
    struct Look {
        double handed, S;          // at one place
        double in_row, in_column;  // elsewhere in both states
        bool differs, differs_mixed;
    };
    const double share = 0x1p-12, more = 1.5 * share;
    const Look looks[] = {
        {0, 0, 0, 0, false, false},         {1, 1, 0, 0, false, false},
        {1 + share, 1, 0, 0, false, false}, {1 + more, 1, 0, 0, true, true},
        {1 - more, 1, 0, 0, true, true},    {more, 0, 2, 2, false, false},
        {more, 0, 1, 2, true, false},       {more, 0, 2, 1, true, true},
        {1e-37, 0, 0, 0, true, true},       {1e30, -1e30, 1e38, 1e38, false, false},
        {1e30, INFINITY, 1, 1, true, true}, {INFINITY, INFINITY, 1, 1, true, true},
        {INFINITY, 1, 1, 1, true, true},    {NAN, 1, 1, 1, true, true},
        {1, NAN, 1, 1, true, true},         {NAN, NAN, 1, 1, true, true},
    };
    for (const bool mixes : {false, true}) {
        const auto n = static_cast<Index>(std::size(looks));
        Tensor S = Tensor::zeros(DType::f32, {n, rows, columns}), handed = S.copy();
        for (Index i = 0; i < n; ++i) {
            const Look& look = looks[i];
            const Index row = i * 7 % (rows - 1), column = i * 13 % (columns - 1),
                        at = i * size + row * columns + column;
            handed.set(at, look.handed), S.set(at, look.S);
            for (Tensor* x : {&S, &handed}) {
                x->set(i * size + row * columns + columns - 1, look.in_row);
                x->set(i * size + (rows - 1) * columns + column, look.in_column);
            }
        }
        const gpu::Tensor on_S(S), on_handed(handed);
        const gpu::Buffer differs(static_cast<std::size_t>(n) * sizeof(std::int32_t));
        gpu::check(cudaMemset(differs.data(), 0, differs.bytes()), "clearing");
        gpu::sharded::find_differing(n, rows, columns, mixes, static_cast<float>(share), on_S.as<float>(),
                                     on_handed.as<float>(), differs.as<std::int32_t>(), nullptr);
        std::vector<std::int32_t> got(static_cast<std::size_t>(n));
        gpu::check(cudaMemcpy(got.data(), differs.data(), differs.bytes(), cudaMemcpyDeviceToHost), "reading");
        for (Index i = 0; i < n; ++i) {
            CAPTURE(mixes, i);
            CHECK((got[static_cast<std::size_t>(i)] != 0) == (mixes ? looks[i].differs_mixed : looks[i].differs));
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

TEST_CASE("gpu: a state that is large, or no number, goes round several GPUs", "[gpu][nccl][sharded]") {
    if (!gpus(2)) return;
    Sharding sharding;
    sharding.shards = 2;
    for (const bool channels : {false, true})
        for (const char* update : {"gated", "gated_delta"})
            for (const DType type : {DType::f32, DType::bf16})
                for (const double first : {1.0, 1e12, 1e30, double{NAN}, double{INFINITY}}) {
                    if (!sees_all(type, channels)) continue;
                    CAPTURE(update, channels, name(type), first);
                    const GatedCase c{
                        .update = update, .heads = 3, .group = 2, .N = 4096, .dk = 64, .dv = 48, .channels = channels};
                    const Index state = 3 * c.dk * c.dv;
                    // Large, and then too few tokens for their gates to make up for it; what is handed on is of those.
                    GatedInputs in = large_before_small(c, first, c.N / 2 - 768, type);
                    if (first == 1) in = rounded_to(gated_inputs(c), type);
                    const gpu::Tensor q(in.q.to(type)), k(in.k.to(type)), v(in.v.to(type));
                    const gpu::LinearOptions o = on_gpu_options(in);
                    const auto got = gpu::linear_attention_sharded(q, k, v, o, sharding);
                    const auto one = gpu::linear_attention(q, k, v, o);
                    settle();
                    const double bound = type == DType::f32 ? 1e-3 : 0.1;
                    check_rows(got.O.cpu().to(DType::f64), one.O.cpu().to(DType::f64), bound);
                    check_rows(got.state.cpu(), one.state.cpu(), bound);
                    if (first == 1) CHECK(got.report.total().elements == state);
                    // One head has what is no number, and goes round.
                    if (!std::isfinite(first)) CHECK(got.report.total().elements == state + state / 3);
                    if (first == 1e30 && !channels) CHECK(got.report.total().elements == 2 * state);
                }
}

TEST_CASE("gpu: a state that is large, or no number, is not forgotten by decay alone on several GPUs",
          "[gpu][nccl][sharded]") {
    if (!gpus(2)) return;
    Sharding sharding;
    sharding.sizes = {4096, 4096};
    const GatedCase c{.update = "linear", .heads = 4, .N = 8192, .dk = 64, .dv = 64, .state = false};
    for (const double first : too_large) {
        CAPTURE(first);
        const GatedInputs in = large_before_small(c, first, 4096, DType::f32);
        const gpu::Tensor q(in.q.to(DType::f32)), k(in.k.to(DType::f32)), v(in.v.to(DType::f32));
        gpu::CausalOptions o;
        o.method = "row-based", o.return_state = true, o.decay = {0.9, 0.97, 0.9999, 1};
        const auto got = gpu::causal_linear_attention_sharded(q, k, v, o, sharding);
        CausalOptions exact;
        exact.method = "row-based", exact.return_state = true, exact.decay = o.decay;
        const CausalResult want = causal_linear_attention(in.q, in.k, in.v, exact);
        settle();
        check_rows(got.O.cpu(), want.O, 1e-2);
        check_rows(got.state.cpu(), want.state, 1e-2);
    }
}

TEST_CASE("gpu: causal linear attention on several GPUs over NCCL", "[gpu][nccl][sharded]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p)
        for (const DType type : {DType::f32, DType::bf16})
            for (const char* method : {"auto", "row-based", "block-based", "fleet"})
                for (const int options : {0, 1, 2, 3}) {
                    const bool decays = options & 1, normalize = options & 2;
                    CAPTURE(p, name(type), method, decays, normalize);
                    const GatedInputs given = rounded_to(
                        gated_inputs(
                            {.update = "linear", .batch = 2, .heads = 4, .N = 3000, .dk = 64, .dv = 64, .seed = 9}),
                        type);
                    const GatedInputs in = normalize ? normal_inputs(given) : given;
                    CausalOptions exact;
                    exact.normalize = normalize;
                    exact.method = "row-based", exact.return_state = true, exact.state = in.options.state;
                    if (decays) exact.decay = {0.9, 0.97, 0.9999, 1};
                    const CausalResult want = causal_linear_attention(in.q, in.k, in.v, exact);
                    gpu::CausalOptions o;
                    o.method = method, o.return_state = true, o.decay = exact.decay, o.normalize = normalize;
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

TEST_CASE("gpu: the gradient of causal linear attention on several GPUs over NCCL", "[gpu][nccl][sharded]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p)
        for (const DType type : {DType::f32, DType::bf16})
            for (const std::vector<double>& decay : {std::vector<double>{}, {0.97}, {0.9, 0.97, 0.9999, 1}})
                for (const bool state : {false, true}) {
                    CAPTURE(p, name(type), decay, state);
                    const GatedInputs in = rounded_to(
                        gated_inputs(
                            {.update = "linear", .batch = 2, .heads = 4, .N = 1500, .dk = 64, .dv = 64, .seed = 11}),
                        type);
                    const Tensor dO = in.v;
                    CausalOptions exact;
                    exact.decay = decay, exact.scale = 0.125;
                    gpu::CausalOptions o;
                    o.decay = decay, o.scale = exact.scale;
                    if (state) exact.state = in.options.state, o.state = gpu::Tensor(in.options.state->to(DType::f32));
                    const CausalGradient want = causal_linear_attention_grad(in.q, in.k, in.v, dO, exact);
                    Sharding sharding;
                    sharding.shards = p;
                    const auto laid = [&](const Tensor& x) { return gpu::Tensor(x.to(type)); };
                    const auto got = gpu::causal_linear_attention_grad_sharded(laid(in.q), laid(in.k), laid(in.v),
                                                                               laid(dO), o, true, sharding);
                    settle();
                    const double bound = type == DType::f32 ? 3e-5 : bound_of(type);
                    const auto close = [&](const gpu::Tensor& x, const Tensor& y) {
                        CHECK(relative_error(x.cpu().to(DType::f64), y) <= bound);
                    };
                    close(got.dB, want.dB), close(got.dC, want.dC), close(got.dV, want.dV);
                    REQUIRE(got.ddecay.has_value() == !decay.empty());
                    if (got.ddecay) {
                        Tensor ddecay(DType::f64, {static_cast<Index>(want.ddecay.size())});
                        for (Index i = 0; i < ddecay.size(); ++i)
                            ddecay.set(i, want.ddecay[static_cast<std::size_t>(i)]);
                        close(*got.ddecay, ddecay);
                    }
                    REQUIRE(got.dstate.has_value() == state);
                    if (state) close(*got.dstate, *want.dstate);
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
        // In the ring the second rank waits, and has a third; in the scan it makes no map, and has more; else both have
        // a half.
        const Index first = std::string(exchange) == "ring" ? 2752 : std::string(exchange) == "all-scan" ? 1856 : 2048;
        CHECK(got.report.memory[0].peak_of(distributed::Held::query) == first * 64);
        CHECK(got.report.memory[1].peak_of(distributed::Held::query) == (4096 - first) * 64);
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
    s.engine = "nccl", s.sharded = true, s.shards = 2;
    CHECK(message(s) ==
          "sharded: true with shards = 2, expected false: one process has all GPUs and the whole tensors; under mpirun "
          "each has its part");
    s.shards = 0, s.sizes = {70};
    CHECK(message(s) == "sizes: given with sharded = true, expected none: every rank's part is as long as its tensors");
    s.sharded = false, s.sizes = {}, s.shards = 1;
    gpu::CausalOptions o;
    o.method = "vanilla";
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
                    const GatedInputs in = rounded_to(gated_inputs(c), type);
                    const LinearResult forward = oracle(in);
                    const Tensor dO = drawn_like(forward.O, 3).to(type).to(DType::f64),
                                 dstate = drawn_like(forward.state, 4);
                    const LinearGradient want = linear_attention_grad(in.q, in.k, in.v, dO, in.options, dstate);
                    for (const char* exchange : exchanges) {
                        CAPTURE(c, p, name(type), exchange);
                        Sharding sharding;
                        sharding.shards = p, sharding.exchange = exchange;
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
                        if (!in.options.log_decay) CHECK(got.report.algorithm == exchange);
                    }
                }
}

// Heads that forget both ways, one way and on some ranks; or whose gradients or values are large where they are taken
// to be forgotten.
TEST_CASE("gpu: gradients of heads that forget on several GPUs", "[gpu][nccl][sharded]") {
    if (!gpus(2)) return;
    enum Kind { ordinary, some_keep, large_gradients, large_values };
    for (const bool channels : {false, true})
        for (const char* update : {"gated", "gated_delta"})
            for (const DType type : {DType::f32, DType::bf16})
                for (const Kind kind : {ordinary, some_keep, large_gradients, large_values}) {
                    const bool large = kind == large_gradients || kind == large_values;
                    if (large && !sees_all(type, channels)) continue;
                    CAPTURE(update, channels, name(type), kind);
                    const GatedCase c{.update = update,
                                      .batch = 2,
                                      .heads = 4,
                                      .group = 2,
                                      .N = 4096,
                                      .dk = 32,
                                      .dv = 24,
                                      .channels = channels};
                    const Index half = c.N / 2, state = c.batch * c.heads * c.dk * c.dv;
                    GatedInputs in = kind == large_values ? large_before_small(c, 1e30, half - 768, type)
                                                          : rounded_to(gated_inputs(c), type);
                    // Head h of the first batch keeps everything on the ranks whose bit is set: between such heads are
                    // others.
                    const unsigned keeps[] = {0, 3, 0, 1};
                    const Index columns = channels ? c.dk : 1;
                    for (Index h = 0; h < c.heads && kind == some_keep; ++h)
                        for (Index t = 0; t < c.N; ++t)
                            if (keeps[h] >> (t / half) & 1)
                                for (Index e = 0; e < columns; ++e)
                                    in.options.log_decay->set((h * c.N + t) * columns + e, 0);
                    const LinearResult forward = oracle(in);
                    Tensor dO = drawn_like(forward.O, 3).to(type).to(DType::f64);
                    if (kind == large_gradients)
                        for (Index i = 0; i < dO.size(); ++i)
                            dO.set(i, dO.get(i) * (i / c.dv % c.N < half + 768 ? 1e-6 : 1e30));
                    dO = dO.to(type).to(DType::f64);
                    const Tensor dstate = drawn_like(forward.state, 4);
                    const LinearGradient want = linear_attention_grad(in.q, in.k, in.v, dO, in.options, dstate);
                    Sharding sharding;
                    sharding.sizes = {half, half};
                    const auto got = gpu::linear_attention_grad_sharded(
                        gpu::Tensor(in.q.to(type)), gpu::Tensor(in.k.to(type)), gpu::Tensor(in.v.to(type)),
                        gpu::Tensor(dO.to(type)), on_gpu_options(in), gpu::Tensor(dstate.to(DType::f32)), sharding);
                    settle();
                    // Of what the delta rule leaves of large numbers, of which most cancels, a row of one GPU is off by
                    // 0.36 of its largest number in BFloat16; what is not handed on at all is off by 1.
                    const double rounded = c.delta() ? 0.75 : 0.2, bound = large ? (type == DType::f32 ? 1e-3 : rounded)
                                                                           : type == DType::f32 ? 3e-5
                                                                                                : 3e-2;
                    const auto check = [&](const gpu::Tensor& x, const Tensor& y) {
                        const Tensor wide = x.cpu().to(DType::f64);
                        if (large) check_rows(wide, y, bound);
                        else CHECK(relative_error(wide, y) <= bound);
                    };
                    check(got.dq, want.dq), check(got.dk, want.dk), check(got.dv, want.dv);
                    check(got.dstate, want.dstate);
                    // A number each is not compared by its own size where others cancel in it.
                    if (!large) check(*got.dlog_decay, *want.dlog_decay);
                    if (!large && want.dbeta) check(*got.dbeta, *want.dbeta);
                    const Index sent = got.report.total().elements;
                    if (kind == ordinary) CHECK(sent == 2 * state);
                    if (large) CHECK(sent == 4 * state);  // and all of it round, once more
                }
}
