// Random calls on the GPU, of every family, form, type and awkward shape: each ten times with the same bits, and within
// its bound of the CPU's definition in Float64. Found faults are printed with the number of their case.
//
//     causeway-gpu-tests "[gpu-shapes]"        some of them
//     causeway-gpu-tests "[.gpu-shapes-long]"  CAUSEWAY_SHAPES_CASES of them (2000) from CAUSEWAY_SHAPES_CASE (0) on
//
// The second ends with a line that has their number.
//
// For tools under which a call takes long: CAUSEWAY_SHAPES_REPEATS of each (10), with at most CAUSEWAY_SHAPES_LENGTH
// tokens.
#include <cmath>
#include <cstdlib>
#include <random>

#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/general/general_linear_attention.hpp"
#include "core/gated/registry.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/softmax/softmax_attention.hpp"
#include "gpu/calls/general_linear_attention.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "gpu/softmax/softmax_attention.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

using Tensors = std::vector<std::pair<std::string, Tensor>>;  // what a call returns, by name

long number_in(const char* variable, long otherwise) {
    const char* const text = std::getenv(variable);
    return text ? std::strtol(text, nullptr, 10) : otherwise;
}

class Draw {
public:
    explicit Draw(std::uint64_t seed) : generator_(seed) {}

    Index among(Index least, Index most) { return std::uniform_int_distribution<Index>(least, most)(generator_); }
    bool one_in(Index n) { return among(1, n) == 1; }
    template <class T>
    T of(std::initializer_list<T> list) {
        return list.begin()[among(0, static_cast<Index>(list.size()) - 1)];
    }
    double normal() { return std::normal_distribution<double>()(generator_); }

    // Numbers that `type` has exactly.
    Tensor tensor(const Shape& shape, DType type, double size = 1) {
        Tensor x(type, shape);
        for (Index i = 0; i < x.size(); ++i) x.set(i, size * normal());
        return x.to(DType::f64);
    }
    // Rows of length 1, as the delta rule wants its keys, and rounded.
    Tensor unit_rows(const Shape& shape, DType type) {
        Tensor x = tensor(shape, DType::f64);
        const Index width = shape.back();
        for (Index r = 0; r < x.size() / std::max<Index>(width, 1); ++r) {
            double sum = 0;
            for (Index c = 0; c < width; ++c) sum += x.get(r * width + c) * x.get(r * width + c);
            for (Index c = 0; c < width; ++c) x.set(r * width + c, x.get(r * width + c) / std::sqrt(sum));
        }
        return x.to(type).to(DType::f64);
    }
    DType type() { return of({DType::f32, DType::bf16, DType::f16}); }
    // A width that kernels are made for, or any.
    Index width(Index most) { return one_in(2) ? std::min<Index>(of<Index>({32, 64, 128}), most) : among(1, most); }
    Index length(Index most) {
        const Index drawn = one_in(6) ? most : one_in(3) ? of<Index>({1, 63, 64, 65, 128}) : among(1, 300);
        return std::min<Index>(drawn, number_in("CAUSEWAY_SHAPES_LENGTH", most));
    }

private:
    std::mt19937_64 generator_;
};

gpu::Tensor on_device(const Tensor& x, DType type) { return gpu::Tensor(x.to(type)); }

// How far `got` may be from `want`: sums of few numbers may all be rounded by the most, and cancel.
double allowed(DType type, bool gradient, Index elements) {
    const double few = elements < 4096 ? 4 : 1;
    const double own = type == DType::f32 ? 5e-5 : type == DType::bf16 ? 1.2e-2 : 2.5e-3;
    return few * (gradient ? 3 : 1) * own;
}

// Of all |x|; NaN where one is.
double largest_of(const Tensor& x) {
    double most = 0;
    for (Index i = 0; i < x.size(); ++i) {
        if (std::isnan(x.get(i))) return NAN;
        most = std::max(most, std::abs(x.get(i)));
    }
    return most;
}

// What is wrong with a call; empty where nothing is. run() computes on the GPU.
template <class Run>
std::string fault_of(const Tensors& want, DType type, bool gradient, Run&& run) {
    const Tensors first = run();
    for (long repeat = 1; repeat < number_in("CAUSEWAY_SHAPES_REPEATS", 10); ++repeat) {
        const Tensors again = run();
        for (std::size_t i = 0; i < first.size(); ++i)
            if (!same_bits(first[i].second, again[i].second)) return first[i].first + " has other bits in another run";
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
        const auto& [name, x] = want[i];
        double size = 0;
        for (Index e = 0; e < x.size(); ++e) size += x.get(e) * x.get(e);
        if (x.size() == 0) continue;
        const double most = allowed(type, gradient, x.size());
        if (std::sqrt(size) < 1e-25) {  // nothing to be relative to: of inputs of about 1, as much as of an output of 1
            const double largest = largest_of(first[i].second);
            if (!(largest <= most)) return sentence(name, ": up to ", largest, ", expected 0 to within ", most);
            continue;
        }
        const double error = relative_error(first[i].second.to(DType::f64), x);
        if (!(error <= most)) return sentence(name, ": error ", error, ", expected at most ", most);
    }
    return {};
}

// One of the gated and delta-rule family, forwards or backwards.
std::string gated_case(Draw& draw, std::string& text) {
    const std::string update = draw.of<std::string>({"linear", "gated", "delta", "gated_delta"});
    const bool gate = gated::has_gate(gated::updates()[update].update), gradient = draw.one_in(3),
               channels = gate && draw.one_in(2);
    const std::string mode = gradient   ? "chunkwise"
                             : channels ? draw.of<std::string>({"chunkwise", "recurrent"})
                                        : draw.of<std::string>({"chunkwise", "chunkwise", "recurrent", "parallel"});
    const DType type = draw.type();
    const Index dk = draw.width(draw.one_in(8) && !gradient ? 256 : 128), dv = draw.width(128);
    const Index keys = draw.among(1, 3), shared = draw.of<Index>({1, 1, 2, 3}), h = keys * shared,
                queries = shared > 1 && draw.one_in(2) ? keys : h * draw.of<Index>({1, 1, 2}),
                batch = draw.one_in(3) ? 2 : 1, N = draw.length(mode == "parallel" ? 700 : 2600);
    LinearOptions o;
    o.update = update, o.mode = mode;
    o.scale = draw.of({1.0, 0.25}), o.qk_l2norm = !gradient && draw.one_in(4);
    const Tensor q = draw.unit_rows({batch, queries, N, dk}, type), k = draw.unit_rows({batch, keys, N, dk}, type),
                 v = draw.tensor({batch, h, N, dv}, type);
    const double size = draw.of({0.0, 1e-4, 0.05, 3.0, 60.0});
    if (gate) {
        Tensor g = draw.tensor(channels ? Shape{batch, h, N, dk} : Shape{batch, h, N}, DType::f32, size);
        for (Index i = 0; i < g.size(); ++i) g.set(i, draw.one_in(200) ? -INFINITY : -std::abs(g.get(i)));
        o.log_decay = g;
    }
    if (gated::has_delta(gated::updates()[update].update)) {
        Tensor beta = draw.tensor({batch, h, N}, DType::f32);
        for (Index i = 0; i < beta.size(); ++i)
            beta.set(i, draw.one_in(40) ? 0.0 : static_cast<float>(1 / (1 + std::exp(-beta.get(i)))));
        o.beta = beta;
    }
    Index sequences = batch;
    if (batch == 1 && draw.one_in(3)) {
        o.cu_seqlens = {0, draw.among(0, N), N};
        sequences = 2;
    }
    if (draw.one_in(2)) o.state = draw.tensor({sequences, h, dk, dv}, DType::f32, 0.3);
    text = sentence(update, gradient ? " gradient " : " ", mode, " ", name(type), " batch ", batch, " heads ", queries,
                    " ", keys, " ", h, " N ", N, " dk ", dk, " dv ", dv, channels ? " channels" : "", " gate ", size,
                    o.state ? " state" : "", o.cu_seqlens.empty() ? "" : " packed", o.qk_l2norm ? " qk_l2norm" : "");
    gpu::LinearOptions there;
    there.update = update, there.mode = mode, there.scale = o.scale, there.cu_seqlens = o.cu_seqlens;
    there.qk_l2norm = o.qk_l2norm;
    if (N % 2 == 1) there.deterministic = "run";  // packed sequences are cut together
    if (o.log_decay) there.log_decay = on_device(*o.log_decay, DType::f32);
    if (o.beta) there.beta = on_device(*o.beta, DType::f32);
    if (o.state) there.state = on_device(*o.state, DType::f32);
    const gpu::Tensor Q = on_device(q, type), K = on_device(k, type), V = on_device(v, type);
    LinearOptions exact = o;
    exact.mode = gradient ? "chunkwise" : "recurrent";
    if (!gradient) {
        const LinearResult want = linear_attention(q, k, v, exact);
        return fault_of({{"O", want.O}, {"state", want.state}}, type, false, [&]() -> Tensors {
            const gpu::LinearResult got = gpu::linear_attention(Q, K, V, there);
            return {{"O", got.O.cpu()}, {"state", got.state.cpu()}};
        });
    }
    const Tensor dO = draw.tensor({batch, std::max(queries, h), N, dv}, type);
    const gpu::Tensor upstream = on_device(dO, type);
    const LinearGradient want = linear_attention_grad(q, k, v, dO, exact);
    Tensors expected{{"dq", want.dq}, {"dk", want.dk}, {"dv", want.dv}, {"dstate", want.dstate}};
    if (want.dlog_decay) expected.emplace_back("dlog_decay", *want.dlog_decay);
    if (want.dbeta) expected.emplace_back("dbeta", *want.dbeta);
    return fault_of(expected, type, true, [&]() -> Tensors {
        const gpu::LinearGradient got = gpu::linear_attention_grad(Q, K, V, upstream, there);
        Tensors out{{"dq", got.dq.cpu()}, {"dk", got.dk.cpu()}, {"dv", got.dv.cpu()}, {"dstate", got.dstate.cpu()}};
        if (got.dlog_decay) out.emplace_back("dlog_decay", got.dlog_decay->cpu());
        if (got.dbeta) out.emplace_back("dbeta", got.dbeta->cpu());
        return out;
    });
}

// The general rule.
std::string general_case(Draw& draw, std::string& text) {
    const std::string mode = draw.of<std::string>({"chunkwise", "chunkwise", "recurrent"});
    const DType type = draw.type(), type_of_u = draw.one_in(2) ? type : DType::f32;
    const Index dk = draw.width(draw.one_in(8) ? 256 : 128), dv = draw.width(128);
    const Index keys = draw.among(1, 3), shared = draw.of<Index>({1, 1, 2, 3}), h = keys * shared,
                queries = shared > 1 && draw.one_in(2) ? keys : h * draw.of<Index>({1, 1, 2}),
                batch = draw.one_in(3) ? 2 : 1, N = draw.length(1500);
    GeneralOptions o;
    o.scale = draw.of({1.0, 0.25}), o.mode = "recurrent";
    const Tensor q = draw.unit_rows({batch, queries, N, dk}, type), k = draw.unit_rows({batch, keys, N, dk}, type),
                 v = draw.tensor({batch, h, N, dv}, type);
    const Index gates = draw.among(0, 2);
    const double size = draw.of({0.0, 1e-4, 0.05, 3.0, 60.0});
    if (gates > 0) {
        Tensor a = draw.tensor(gates == 1 ? Shape{batch, h, N} : Shape{batch, keys, N, dk}, DType::f64);
        for (Index i = 0; i < a.size(); ++i)
            a.set(i, draw.one_in(200) ? 0.0 : static_cast<float>(std::exp(-size * std::abs(a.get(i)))));
        o.a = a;
    }
    if (!draw.one_in(4)) {  // u = β w, w of length 1: such matrices enlarge nothing
        o.w = draw.unit_rows({batch, keys, N, dk}, type_of_u);
        Tensor u = o.w->copy();
        for (Index r = 0; r < u.size() / dk; ++r) {
            const double beta = gates == 2 ? 0.5 : draw.of({0.0, 0.25, 0.5, 1.0});
            for (Index c = 0; c < dk; ++c) u.set(r * dk + c, beta * u.get(r * dk + c));
        }
        o.u = u;
    }
    Index sequences = batch;
    if (batch == 1 && draw.one_in(3)) {
        o.cu_seqlens = {0, draw.among(0, N), N};
        sequences = 2;
    }
    if (draw.one_in(2)) o.state = draw.tensor({sequences, h, dk, dv}, DType::f32, 0.3);
    text = sentence("general ", mode, " ", name(type), " batch ", batch, " heads ", queries, " ", keys, " ", h, " N ",
                    N, " dk ", dk, " dv ", dv, " gates ", gates, " of ", size, o.u ? " erases" : "",
                    o.state ? " state" : "", o.cu_seqlens.empty() ? "" : " packed");
    gpu::GeneralOptions there;
    there.mode = mode, there.scale = o.scale, there.cu_seqlens = o.cu_seqlens;
    if (o.a) there.a = on_device(*o.a, DType::f32);
    if (o.u) there.u = on_device(*o.u, type_of_u), there.w = on_device(*o.w, type_of_u);
    if (o.state) there.state = on_device(*o.state, DType::f32);
    const gpu::Tensor Q = on_device(q, type), K = on_device(k, type), V = on_device(v, type);
    const LinearResult want = general_linear_attention(q, k, v, o);
    return fault_of({{"O", want.O}, {"state", want.state}}, type, false, [&]() -> Tensors {
        const gpu::LinearResult got = gpu::general_linear_attention(Q, K, V, there);
        return {{"O", got.O.cpu()}, {"state", got.state.cpu()}};
    });
}

std::string causal_case(Draw& draw, std::string& text) {
    const auto& methods = gpu::causal_methods();
    const auto& method = methods[static_cast<std::size_t>(draw.among(0, static_cast<Index>(methods.size()) - 1))];
    const DType type = draw.type();
    const Index batch = draw.among(1, 2), h = draw.among(1, 4), N = draw.length(1500), r = draw.width(160),
                d = draw.width(128);
    CausalOptions o;
    o.method = "row-based", o.normalize = draw.one_in(3), o.return_state = method.state;
    const Index decays = draw.among(0, 2);
    if (decays == 1) o.decay = {draw.of({0.5, 0.99, 1.0})};
    if (decays == 2)
        for (Index i = 0; i < h; ++i) o.decay.push_back(draw.of({1.0, 0.999, 0.9, 0.3, 1e-4}));
    const auto drawn = [&](Index width) {
        Tensor x = draw.tensor({batch, h, N, width}, type);
        for (Index i = 0; o.normalize && i < x.size(); ++i) x.set(i, std::abs(x.get(i)));  // sums do not cancel
        return x;
    };
    const Tensor B = drawn(r), C = drawn(r), V = drawn(d);
    text = sentence(method.name, " ", name(type), " batch ", batch, " heads ", h, " N ", N, " r ", r, " d ", d,
                    " decays ", decays, o.normalize ? " normalize" : "");
    const CausalResult want = causal_linear_attention(B, C, V, o);
    gpu::CausalOptions there;
    there.method = method.name, there.normalize = o.normalize, there.return_state = o.return_state;
    there.decay = o.decay;
    const gpu::Tensor b = on_device(B, type), c = on_device(C, type), v = on_device(V, type);
    Tensors expected{{"O", want.O}};
    if (o.return_state) expected.emplace_back("state", want.state);
    return fault_of(expected, type, false, [&]() -> Tensors {
        const gpu::CausalResult got = gpu::causal_linear_attention(b, c, v, there);
        Tensors out{{"O", got.O.cpu()}};
        if (o.return_state) out.emplace_back("state", got.state.cpu());
        return out;
    });
}

std::string softmax_case(Draw& draw, std::string& text) {
    const DType type = draw.type();
    const bool gradient = draw.one_in(2), causal = draw.one_in(2);
    const Index batch = draw.among(1, 2), h = draw.among(1, 3), group = draw.of<Index>({1, 1, 2, 3}),
                M = draw.length(1200), N = causal ? draw.among(1, M) : draw.among(1, 300), d = draw.width(128),
                dv = draw.width(128);
    SoftmaxOptions o;
    o.causal = causal, o.method = "standard";
    const Tensor q = draw.tensor({batch, h * group, N, d}, type), k = draw.tensor({batch, h, M, d}, type),
                 v = draw.tensor({batch, h, M, dv}, type), dO = draw.tensor({batch, h * group, N, dv}, type);
    text = sentence("softmax ", name(type), gradient ? " gradient" : "", causal ? " causal" : "", " batch ", batch,
                    " heads ", h * group, " ", h, " N ", N, " M ", M, " d ", d, " dv ", dv);
    gpu::SoftmaxOptions there;
    there.causal = causal;
    const gpu::Tensor Q = on_device(q, type), K = on_device(k, type), V = on_device(v, type), D = on_device(dO, type);
    if (!gradient) {
        const SoftmaxResult want = softmax_attention(q, k, v, o);
        return fault_of({{"O", want.O}, {"lse", want.lse}}, type, false, [&]() -> Tensors {
            const gpu::SoftmaxResult got = gpu::softmax_attention(Q, K, V, there);
            return {{"O", got.O.cpu()}, {"lse", got.lse.cpu()}};
        });
    }
    const SoftmaxGradient want = softmax_attention_grad(q, k, v, dO, o);
    return fault_of({{"dq", want.dq}, {"dk", want.dk}, {"dv", want.dv}}, type, true, [&]() -> Tensors {
        const gpu::SoftmaxGradient got = gpu::softmax_attention_grad(Q, K, V, D, there);
        return {{"dq", got.dq.cpu()}, {"dk", got.dk.cpu()}, {"dv", got.dv.cpu()}};
    });
}

// How many of the cases from `first` on have a fault; each is drawn from its number alone.
long faults(long first, long count) {
    const Poison poison;
    long found = 0;
    for (long i = first; i < first + count; ++i) {
        Draw draw(static_cast<std::uint64_t>(i));
        std::string text, fault;
        try {
            const Index kind = draw.among(0, 6);
            fault = kind < 3   ? gated_case(draw, text)
                    : kind < 5 ? causal_case(draw, text)
                    : kind < 6 ? softmax_case(draw, text)
                               : general_case(draw, text);
        } catch (const Error& error) {
            fault = error.what();
        }
        if (fault.empty()) continue;
        ++found;
        std::printf("case %ld, %s: %s\n", i, text.c_str(), fault.c_str());
    }
    return found;
}

}  // namespace

TEST_CASE("random calls on the GPU: the same bits ten times, and right", "[gpu][gpu-shapes]") {
    if (!on_gpu()) return;
    CHECK(faults(0, 60) == 0);
}

TEST_CASE("random calls on the GPU: the same bits ten times, and right, for long", "[.gpu-shapes-long]") {
    if (!on_gpu()) return;
    const long count = number_in("CAUSEWAY_SHAPES_CASES", 2000);
    const long found = faults(number_in("CAUSEWAY_SHAPES_CASE", 0), count);
    std::printf("gpu-shapes: %ld cases, ten times each, %ld faults\n", count, found);
    CHECK(found == 0);
}
