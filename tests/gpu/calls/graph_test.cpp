// Calls that a CUDA graph captures, packed sequences too: replays have the bits of plain calls, although what said
// which sequences there are is gone, and read what lies in their inputs then.
#include "gpu/base/graph.hpp"
#include "gpu/around/short_convolution.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/calls/general_linear_attention.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/tensor/random.hpp"
#include "tests/gpu/sequences.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::sequences;

namespace {

using Results = std::vector<gpu::Tensor>;

// call(stream, offsets), one of whose inputs is `input`: captured, it gives the bits of plain calls, before and after
// that has changed.
template <class Call>
void check_replays(const std::vector<Index>& offsets, const gpu::Tensor& input, Call&& call) {
    const gpu::Stream stream;
    settle();
    std::vector<Tensor> want, then;
    const auto plain = [&](std::vector<Tensor>& to) {
        for (const gpu::Tensor& x : call(stream, offsets)) to.push_back(x.cpu(stream));
    };
    plain(want);
    Results kept;
    for (const Tensor& x : want) kept.emplace_back(x.dtype(), x.shape(), stream);
    auto* given = new std::vector<Index>(offsets);
    const gpu::Graph graph(stream, [&] {
        const Results out = call(stream, *given);
        for (std::size_t i = 0; i < out.size(); ++i) {
            gpu::check(cudaMemcpyAsync(kept[i].data(), out[i].data(), out[i].bytes(), cudaMemcpyDeviceToDevice, stream),
                       "copying the result");
        }
    });
    std::fill(given->begin(), given->end(), -1);
    delete given;
    const auto replayed = [&](const std::vector<Tensor>& as) {
        graph.launch(stream);
        for (std::size_t i = 0; i < kept.size(); ++i) {
            CAPTURE(i);
            CHECK(same_bits(kept[i].cpu(stream), as[i]));
        }
    };
    replayed(want);
    replayed(want);
    static std::uint64_t seed = 99;  // another one each time: calls share inputs
    gpu::fill_normal(input.data(), input.type(), static_cast<std::size_t>(input.size()), ++seed, 0.3, stream);
    plain(then);
    CHECK(!same_bits(then[0], want[0]));
    replayed(then);
}

const std::vector<Index> lengths{0, 1, 63, 64, 200, 0, 700, 129};

void check_linear(const char* update, bool channels, DType type, const std::vector<Index>& offsets, bool gradient,
                  const char* deterministic = "run", const char* mode = "chunkwise") {
    CAPTURE(update, channels, name(type), offsets.size(), gradient, deterministic, mode);
    const auto states = static_cast<Index>(offsets.size()) - 1;
    const Problem c = make(update, channels, {2, 2, 4}, offsets.back(), 64, 128, type, 5, 1, states);
    const gpu::Tensor q = moved(c.q, type), k = moved(c.k, type), v = moved(c.v, type);
    gpu::LinearOptions o = c.on_gpu();
    o.check_gates = false, o.deterministic = deterministic, o.mode = mode;
    check_replays(offsets, v, [&](cudaStream_t stream, const std::vector<Index>& sequences) -> Results {
        gpu::LinearOptions with = o;
        with.stream = stream;
        if (states > 1) {
            with.cu_seqlens = sequences;
            for (Index slot = states; slot-- > 0;) with.state_indices.push_back(slot);
        }
        if (!gradient) {
            const gpu::LinearResult out = gpu::linear_attention(q, k, v, with);
            return {out.O, out.state};
        }
        const gpu::LinearGradient out = gpu::linear_attention_grad(q, k, v, v, with);
        Results all{out.dq, out.dk, out.dv, out.dstate};
        if (out.dlog_decay) all.push_back(*out.dlog_decay);
        if (out.dbeta) all.push_back(*out.dbeta);
        return all;
    });
}

}  // namespace

TEST_CASE("linear attention in a graph, packed sequences too", "[gpu][gpu-packed][gpu-graph]") {
    if (!on_gpu()) return;
    for (const std::vector<Index>& offsets : {offsets_of({700}), offsets_of(lengths)}) {
        for (const char* update : updates) check_linear(update, false, DType::bf16, offsets, false);
        check_linear("gated_delta", false, DType::bf16, offsets, false, "prefix");
        for (const char* update : {"gated", "gated_delta"}) {
            check_linear(update, true, DType::bf16, offsets, false);
            check_linear(update, true, DType::f32, offsets, false);
        }
        check_linear("gated_delta", false, DType::f32, offsets, false, "run", "recurrent");
    }
}

TEST_CASE("gradients of linear attention in a graph, packed sequences too", "[gpu][gpu-packed][gpu-graph]") {
    if (!on_gpu()) return;
    for (const std::vector<Index>& offsets : {offsets_of({700}), offsets_of(lengths)}) {
        for (const char* update : updates) check_linear(update, false, DType::bf16, offsets, true);
        check_linear("gated_delta", true, DType::bf16, offsets, true);
        check_linear("gated_delta", false, DType::f32, offsets, true);
    }
}

TEST_CASE("more packed sequences in a graph than fit among the arguments of some kernels",
          "[gpu][gpu-packed][gpu-graph]") {
    if (!on_gpu()) return;
    check_linear("gated_delta", false, DType::bf16, offsets_of(std::vector<Index>(3001, 2)), false);
}

TEST_CASE("the general rule and short convolutions in a graph, packed sequences too", "[gpu][gpu-packed][gpu-graph]") {
    if (!on_gpu()) return;
    const std::vector<Index> offsets = offsets_of(lengths);
    const Index N = offsets.back();
    const auto drawn = [&](const Shape& shape, DType type, std::uint64_t seed) {
        const gpu::Tensor x(type, shape);
        gpu::fill_normal(x.data(), x.type(), static_cast<std::size_t>(x.size()), seed, 0.2, nullptr);
        return x;
    };
    const gpu::Tensor q = drawn({1, 2, N, 64}, DType::bf16, 1), k = drawn(q.shape(), DType::bf16, 2),
                      v = drawn(q.shape(), DType::bf16, 3), u = drawn(q.shape(), DType::bf16, 4);
    for (const char* mode : {"recurrent", "chunkwise"}) {
        CAPTURE(mode);
        check_replays(offsets, v, [&](cudaStream_t stream, const std::vector<Index>& sequences) -> Results {
            gpu::GeneralOptions o;
            o.mode = mode, o.u = u, o.w = u, o.cu_seqlens = sequences, o.stream = stream;
            const gpu::LinearResult out = gpu::general_linear_attention(q, k, v, o);
            return {out.O, out.state};
        });
    }
    const gpu::Tensor x = drawn({1, N, 48}, DType::bf16, 5), weight = drawn({48, 4}, DType::f32, 6);
    check_replays(offsets, x, [&](cudaStream_t stream, const std::vector<Index>& sequences) -> Results {
        gpu::ConvolutionOptions o;
        o.cu_seqlens = sequences, o.stream = stream;
        const gpu::ConvolutionResult out = gpu::short_convolution(x, weight, o);
        const gpu::ConvolutionGradient back = gpu::short_convolution_grad(x, weight, x, o);
        return {out.y, out.state, back.dx, back.dweight};
    });
}
