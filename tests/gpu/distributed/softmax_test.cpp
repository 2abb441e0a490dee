// Softmax attention round a ring of GPUs and decoding against a cache on several, against the definition; the ring also
// on ranks that share one GPU (ranks.hpp).
#include <random>

#include "core/distributed/threads.hpp"
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/softmax/softmax_attention.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/sharded/merge.hpp"
#include "gpu/sharded/softmax_attention.hpp"
#include "gpu/sharded/softmax_ring.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/gpu/device.hpp"
#include "tests/gpu/distributed/ranks.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::distributed::Communicator;
using causeway::gpu::sharded::SoftmaxRing;

namespace {

struct Texts {
    Tensor q, k, v;  // Float64, of numbers that the type has
};

Texts texts(Index batch, Index heads, Index group, Index N, Index M, Index d, Index dv, DType type, double spread = 1) {
    std::mt19937_64 generator(static_cast<unsigned>(N + 31 * M + 7 * d));
    std::normal_distribution<double> normal;
    const auto drawn = [&](const Shape& shape, double size) {
        Tensor out(DType::f64, shape);
        for (Index i = 0; i < out.size(); ++i) out.set(i, size * normal(generator));
        return out.to(type).to(DType::f64);
    };
    return {drawn({batch, heads * group, N, d}, spread), drawn({batch, heads, M, d}, 1),
            drawn({batch, heads, M, dv}, 1)};
}

// Of outputs, and of log-sum-exps that are near 0 too.
double bound_of(DType type) { return type == DType::f32 ? 4e-6 : type == DType::f16 ? 1e-3 : 8e-3; }
double lse_error(const Tensor& got, const Tensor& want) {
    double worst = 0;
    for (Index i = 0; i < want.size(); ++i) {
        const double off = std::abs(got.get(i) - want.get(i)) / (1 + std::abs(want.get(i)));
        if (!(off <= worst)) worst = off;
    }
    return worst;
}

void check_result(const gpu::Tensor& O, const gpu::Tensor& lse, const SoftmaxResult& want, DType type) {
    CHECK(O.dtype() == type);
    CHECK(relative_error(O.cpu().to(DType::f64), want.O) <= bound_of(type));
    CHECK(lse_error(lse.cpu(), want.lse) <= 4e-6);
}

SoftmaxResult definition(const Texts& x, bool causal) {
    SoftmaxOptions o;
    o.method = "standard", o.causal = causal;
    return softmax_attention(x.q, x.k, x.v, o);
}

// p ranks on one GPU, whose queries and keys are those of the shares.
void check_on_one_gpu(const Texts& x, bool causal, const causeway::sharded::Shares& queries,
                      const causeway::sharded::Shares& keys, DType type) {
    const int p = static_cast<int>(queries.size());
    const Shape &qs = x.q.shape(), &ks = x.k.shape();
    CAPTURE(p, causal, qs.text(), ks.text(), name(type));
    const gpu::Tensor q(x.q.to(type)), k(x.k.to(type)), v(x.v.to(type));
    const Index dv = x.v.shape()[3], N = qs[2], M = ks[2], rows = qs[0] * qs[1];
    const gpu::Tensor O(type, {qs[0], qs[1], N, dv});
    Tensor lse(DType::f32, {qs[0], qs[1], N});
    SoftmaxRing z;
    z.batch = qs[0], z.heads = ks[1], z.group = qs[1] / ks[1], z.d = qs[3], z.dv = dv, z.causal = causal;
    z.scale = 1 / std::sqrt(static_cast<double>(qs[3]));
    z.queries = queries, z.keys = keys;
    settle();
    distributed::run_threads(p, [&](Communicator& thread) {
        gpu::check(cudaSetDevice(0), "choosing the device");
        const gpu::Stream stream;
        SharedGpu comm(thread, stream);
        gpu::sharded::RingTensors mine;
        mine.type = q.type();
        const auto at = [&](const gpu::Tensor& y, Index token, Index width) {
            return static_cast<void*>(y.as<char>() + token * width * static_cast<Index>(size_of(type)));
        };
        const auto strides = [&](Index heads, Index length, Index width) {
            return gpu::contiguous(heads, length, static_cast<int>(width));
        };
        std::vector<gpu::Tensor> sums;
        for (const kit::Span& t : z.queries_of(comm.rank())) {
            sums.emplace_back(DType::f32, Shape{rows, t.n});
            mine.queries.push_back({at(q, t.first, qs[3]), at(O, t.first, dv), strides(qs[1], N, qs[3]),
                                    strides(qs[1], N, dv), sums.back().as<float>()});
        }
        for (const kit::Span& t : z.keys_of(comm.rank()))
            mine.keys.push_back(
                {at(k, t.first, ks[3]), at(v, t.first, dv), strides(ks[1], M, ks[3]), strides(ks[1], M, dv)});
        settle();
        gpu::sharded::softmax_ring(comm, z, mine, stream);
        stream.wait();
        for (std::size_t i = 0; i < sums.size(); ++i) {
            const Tensor part = sums[i].cpu();
            const kit::Span t = z.queries_of(comm.rank())[i];
            for (Index row = 0; row < rows; ++row)
                for (Index j = 0; j < t.n; ++j) lse.set(row * N + t.first + j, part.get(row * t.n + j));
        }
        comm.barrier();
    });
    check_result(O, gpu::Tensor(lse), definition(x, causal), type);
}

const DType types[] = {DType::f32, DType::bf16, DType::f16};

}  // namespace

TEST_CASE("gpu: ranks that share a GPU pass keys round a ring", "[gpu][sharded]") {
    if (!on_gpu()) return;
    for (const DType type : types)
        for (const int p : {1, 2, 3, 5}) {
            for (const Index N : {1, 7, 64, 257, 1000}) {
                const auto shares = causeway::sharded::zigzag(N, p);
                check_on_one_gpu(texts(1, 2, 1, N, N, 64, 64, type), true, shares, shares, type);
            }
            const auto shares = causeway::sharded::zigzag(300, p);
            check_on_one_gpu(texts(2, 2, 3, 300, 300, 128, 128, type), true, shares, shares, type);
            check_on_one_gpu(texts(2, 2, 1, 300, 300, 40, 24, type, 30), true, shares, shares, type);
            const auto parts = [&](Index N) {
                causeway::sharded::Starts starts;
                for (int r = 0; r <= p; ++r) starts.push_back(r * N / p);
                return causeway::sharded::shares_of(starts);
            };
            check_on_one_gpu(texts(1, 2, 2, 90, 333, 64, 64, type), false, parts(90), parts(333), type);
            check_on_one_gpu(texts(1, 1, 1, 333, 2, 64, 64, type), false, parts(333), parts(2), type);
            check_on_one_gpu(texts(1, 2, 1, 333, 333, 64, 64, type), true, parts(333), parts(333), type);
        }
}

TEST_CASE("gpu: softmax attention on several GPUs over NCCL", "[gpu][nccl][sharded]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p)
        for (const DType type : types)
            for (const bool causal : {true, false})
                for (const Index N : {1, 130, 1000}) {
                    CAPTURE(p, name(type), causal, N);
                    const Texts x = texts(2, 2, 2, N, N, 64, 64, type);
                    gpu::SoftmaxOptions o;
                    o.causal = causal;
                    Sharding sharding;
                    sharding.shards = p, sharding.exchange = "ring";
                    const auto got = gpu::softmax_attention_sharded(
                        gpu::Tensor(x.q.to(type)), gpu::Tensor(x.k.to(type)), gpu::Tensor(x.v.to(type)), o, sharding);
                    settle();
                    check_result(got.O, got.lse, definition(x, causal), type);
                    CHECK(got.report.engine == "nccl");
                    // Every key and value goes to every other rank.
                    CHECK(got.report.total().elements == (p - 1) * 2 * 2 * N * 128);
                }
}

TEST_CASE("gpu: gradients of softmax attention on several GPUs over NCCL", "[gpu][nccl][sharded]") {
    const int most = gpus(2);
    for (int p = 2; p <= most; ++p)
        for (const DType type : types)
            for (const bool causal : {true, false})
                for (const Index N : {1, 130, 700}) {
                    CAPTURE(p, name(type), causal, N);
                    const Texts x = texts(2, 2, 2, N, N, 64, 64, type);
                    const Tensor dO = texts(2, 2, 2, N, N + 1, 64, 64, type).q;
                    SoftmaxOptions exact;
                    exact.causal = causal;
                    const SoftmaxGradient want = softmax_attention_grad(x.q, x.k, x.v, dO, exact);
                    gpu::SoftmaxOptions o;
                    o.causal = causal;
                    Sharding sharding;
                    sharding.shards = p, sharding.exchange = "ring";
                    const auto got = gpu::softmax_attention_grad_sharded(
                        gpu::Tensor(x.q.to(type)), gpu::Tensor(x.k.to(type)), gpu::Tensor(x.v.to(type)),
                        gpu::Tensor(dO.to(type)), o, {}, sharding);
                    settle();
                    const double bound = type == DType::f32 ? 1e-5 : type == DType::f16 ? 3e-3 : 2e-2;
                    const auto check = [&](const gpu::Tensor& a, const Tensor& b) {
                        CHECK(relative_error(a.cpu().to(DType::f64), b) <= bound);
                    };
                    // Of one key both are 0, of which there is no relative error.
                    const auto check_small = [](const gpu::Tensor& a) {
                        const Tensor numbers = a.cpu();
                        for (Index i = 0; i < numbers.size(); ++i) REQUIRE(std::abs(numbers.get(i)) <= 1e-4);
                    };
                    if (N > 1) check(got.dq, want.dq), check(got.dk, want.dk);
                    else check_small(got.dq), check_small(got.dk);
                    check(got.dv, want.dv);
                }
}

TEST_CASE("gpu: sums of more heads than a grid has rows of blocks", "[gpu][sharded]") {
    if (!on_gpu()) return;
    const Index heads = 70000, width = 3;
    Tensor numbers(DType::bf16, {heads, 1, width});
    for (Index i = 0; i < numbers.size(); ++i) numbers.set(i, static_cast<double>(i % 100));
    const gpu::Tensor x(numbers), sum = gpu::Tensor::zeros(DType::f32, {heads, 1, width}),
                                  out(DType::bf16, {heads, width});
    gpu::sharded::SummedRows rows;
    rows.heads = heads, rows.n = 1, rows.width = static_cast<int>(width);
    rows.sum = sum.as<float>(), rows.sum_head = width;
    for (int time = 0; time < 2; ++time) gpu::sharded::add_rows(rows, x.data(), width, nullptr);
    gpu::sharded::round_rows(rows, 2, out.data(), gpu::contiguous(heads / 2, 1, static_cast<int>(width)), nullptr);
    const Tensor got = out.cpu();
    Index wrong = 0;
    for (Index i = 0; i < got.size(); ++i) wrong += !(got.get(i) == 2 * numbers.get(i));
    CHECK(wrong == 0);
}

TEST_CASE("gpu: decoding merged on the GPUs", "[gpu][nccl][sharded]") {
    const int most = gpus(1);
    for (int p = 1; p <= most; ++p)
        for (const DType type : types)
            for (const Index group : {1, 4})
                for (const Index N : {1, 3})
                    for (const Index M : {1, 5, 2001}) {
                        CAPTURE(p, name(type), group, N, M);
                        const Texts x = texts(2, 2, group, N, M, 128, 128, type);
                        DecodeOptions o;
                        o.engine = "nccl", o.shards = p;
                        const auto got = gpu::tree_decode(gpu::Tensor(x.q.to(type)), gpu::Tensor(x.k.to(type)),
                                                          gpu::Tensor(x.v.to(type)), o);
                        settle();
                        check_result(got.O, got.lse, definition(x, false), type);
                        CHECK(got.report.topology == "all-gather");
                    }
}
