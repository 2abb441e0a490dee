#include "gpu/sharded/softmax_attention.hpp"

#include <deque>

#include "core/distributed/plan.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/sharded/decode.hpp"
#include "gpu/sharded/parts.hpp"
#include "gpu/sharded/softmax_ring.hpp"

namespace causeway::gpu {
namespace {

using causeway::sharded::Shares;
using causeway::sharded::SoftmaxRing;
using distributed::Held;
using sharded::head_strides;
using sharded::Local;
using sharded::whole;

SoftmaxRing ring_of(const attention::Sizes& n, const Sharding& sharding, int p) {
    if (sharding.exchange != "auto" && sharding.exchange != "ring")
        fail("exchange: \"", sharding.exchange, "\", expected \"ring\": on GPUs heads are not exchanged");
    if (n.causal && n.N != n.M)
        fail("q: length ", n.N, ", expected ", n.M,
             " like k, with causal = true and shards; tree_decode and ring_decode spread a cache over workers");
    if (!n.causal && !sharding.sizes.empty() && n.N != n.M)
        fail("sizes: given for ", n.N, " queries and ", n.M, " keys, expected as many of both");
    SoftmaxRing z;
    z.batch = n.batch, z.heads = n.heads, z.group = n.group, z.d = n.d, z.dv = n.dv;
    z.causal = n.causal, z.scale = n.scale;
    if (n.causal && sharding.sizes.empty()) {
        z.queries = z.keys = causeway::sharded::zigzag(n.N, p);
    } else {
        z.queries = causeway::sharded::shares_of(causeway::sharded::starts_of(sharding, n.N, p, 1));
        z.keys = causeway::sharded::shares_of(causeway::sharded::starts_of(sharding, n.M, p, 1));
    }
    return z;
}

}  // namespace

ShardedSoftmaxResult softmax_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v,
                                               const SoftmaxOptions& o, const Sharding& sharding) {
    refuse_packed(o.cu_seqlens, "a call on several GPUs");
    const softmax::CheckedCall call = softmax::check(q, k, v, o);
    const auto& n = call.sizes;
    const int p = sharded::ranks_of(sharding), home = sharded::current_device();
    const SoftmaxRing z = ring_of(n, sharding, p);
    if (n.d == 0 || n.M == 0 || call.args.empty() || n.dv == 0)
        return {softmax_attention(q, k, v, o), sharded::idle_report("softmax_attention", "ring", q.dtype(), p)};
    ShardedSoftmaxResult out;
    out.O = Tensor(q.dtype(), n.output, o.stream), out.lse = Tensor(DType::f32, n.rows, o.stream);
    const Index rows = n.batch * n.heads, queries = rows * n.group;
    const auto program = [&](QueuedCommunicator& comm) {
        sharded::RingTensors x;
        x.type = q.type();
        std::deque<Local> mine_q, mine_o, mine_k, mine_v;
        std::deque<Buffer> lse;
        for (const kit::Span& t : z.queries_of(comm.rank())) {
            mine_q.emplace_back(comm, Held::query, whole(q, queries, n.N, home), t.first, t.n, true);
            mine_o.emplace_back(comm, Held::partial, whole(out.O, queries, n.N, home), t.first, t.n, false);
            lse.emplace_back(static_cast<std::size_t>(queries * t.n) * sizeof(float), comm.stream());
            x.queries.push_back({mine_q.back().data(), mine_o.back().data(),
                                 head_strides(n.heads * n.group, mine_q.back().row(), n.d),
                                 head_strides(n.heads * n.group, mine_o.back().row(), n.dv), lse.back().as<float>()});
        }
        for (const kit::Span& t : z.keys_of(comm.rank())) {
            mine_k.emplace_back(comm, Held::shard, whole(k, rows, n.M, home), t.first, t.n, true);
            mine_v.emplace_back(comm, Held::shard, whole(v, rows, n.M, home), t.first, t.n, true);
            x.keys.push_back({mine_k.back().data(), mine_v.back().data(),
                              head_strides(n.heads, mine_k.back().row(), n.d),
                              head_strides(n.heads, mine_v.back().row(), n.dv)});
        }
        comm.begin();
        sharded::softmax_ring(comm, z, x, comm.stream());
        const double seconds = comm.settle();
        for (std::size_t i = 0; i < mine_o.size(); ++i) {
            mine_o[i].give_back();
            const kit::Span t = z.queries_of(comm.rank())[i];
            sharded::give_rows(comm, lse[i].data(), whole(out.lse, queries, n.N, home), t.first, t.n);
        }
        return seconds;
    };
    out.report =
        sharded::run("softmax_attention", "ring", static_cast<Index>(size_of(q.dtype())), p, o.stream, program);
    return out;
}

ShardedSoftmaxGradient softmax_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& dO, const SoftmaxOptions& o,
                                                      const std::optional<SoftmaxResult>& forward,
                                                      const Sharding& sharding) {
    refuse_packed(o.cu_seqlens, "a call on several GPUs");
    const softmax::CheckedCall call = softmax::check(q, k, v, o);
    const auto& n = call.sizes;
    softmax::check_gradients(n, dO, forward);
    const int p = sharded::ranks_of(sharding), home = sharded::current_device();
    const SoftmaxRing z = ring_of(n, sharding, p);
    if (n.d == 0 || n.M == 0 || call.args.empty() || n.dv == 0)
        return {softmax_attention_grad(q, k, v, dO, o, forward),
                sharded::idle_report("softmax_attention_grad", "ring", q.dtype(), p)};
    const SoftmaxResult there = forward ? *forward : SoftmaxResult(softmax_attention_sharded(q, k, v, o, sharding));
    const auto like = [&](const Tensor& x) { return Tensor::zeros(x.dtype(), x.shape(), o.stream); };
    ShardedSoftmaxGradient out;
    out.dq = like(q), out.dk = like(k), out.dv = like(v);
    const Index rows = n.batch * n.heads, queries = rows * n.group;
    const auto program = [&](QueuedCommunicator& comm) {
        std::deque<Local> tensors;
        const auto part = [&](Held held, const Tensor& x, Index all, Index length, const kit::Span& t,
                              bool in) -> Local& {
            return tensors.emplace_back(comm, held, whole(x, all, length, home), t.first, t.n, in);
        };
        sharded::RingGradTensors x;
        x.type = q.type();
        std::vector<const Local*> results;
        std::deque<Buffer> lse;
        for (const kit::Span& t : z.queries_of(comm.rank())) {
            const Local &mine_q = part(Held::query, q, queries, n.N, t, true),
                        &mine_O = part(Held::query, there.O, queries, n.N, t, true),
                        &mine_dO = part(Held::query, dO, queries, n.N, t, true),
                        &mine_lse = part(Held::query, there.lse, queries, n.N, t, true),
                        &mine_dq = part(Held::partial, out.dq, queries, n.N, t, false);
            results.push_back(&mine_dq);
            // Contiguous, which those of the caller's GPU are not.
            const Buffer& own =
                lse.emplace_back(static_cast<std::size_t>(queries * t.n) * sizeof(float), comm.stream());
            sharded::take_rows(comm, own.data(), mine_lse, queries, t.n, sizeof(float));
            x.queries.push_back({mine_q.data(), mine_O.data(), mine_dO.data(), mine_dq.data(),
                                 head_strides(n.heads * n.group, mine_q.row(), n.d),
                                 head_strides(n.heads * n.group, mine_O.row(), n.dv), own.as<float>()});
        }
        for (const kit::Span& t : z.keys_of(comm.rank())) {
            const Local &mine_k = part(Held::shard, k, rows, n.M, t, true),
                        &mine_v = part(Held::shard, v, rows, n.M, t, true),
                        &mine_dk = part(Held::partial, out.dk, rows, n.M, t, false),
                        &mine_dv = part(Held::partial, out.dv, rows, n.M, t, false);
            results.push_back(&mine_dk), results.push_back(&mine_dv);
            x.keys.push_back({mine_k.data(), mine_v.data(), head_strides(n.heads, mine_k.row(), n.d),
                              head_strides(n.heads, mine_v.row(), n.dv)});
            x.dk.push_back(mine_dk.data()), x.dv.push_back(mine_dv.data());
        }
        comm.begin();
        sharded::softmax_ring_back(comm, z, x, comm.stream());
        const double seconds = comm.settle();
        for (const Local* result : results) result->give_back();
        return seconds;
    };
    out.report =
        sharded::run("softmax_attention_grad", "ring", static_cast<Index>(size_of(q.dtype())), p, o.stream, program);
    return out;
}

ShardedSoftmaxResult tree_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    SoftmaxOptions forms;
    forms.causal = false, forms.scale = o.scale;
    const softmax::CheckedCall call = softmax::check(q, k, v, forms);
    const auto& n = call.sizes;
    if (o.engine != "nccl") fail("engine: \"", o.engine, "\", expected \"nccl\" for tensors on the GPU");
    if (o.causal && n.N > 1)
        fail("causal: true with ", n.N, " queries, expected one query for tensors on the GPU (move them with :cpu())");
    if (o.algorithm != 0 || (o.topology != "auto" && o.topology != "all-gather"))
        fail("topology: ", o.topology, ", algorithm ", o.algorithm,
             ", expected neither for tensors on the GPU: partial results are gathered by NCCL");
    if (n.M < 1) fail("k: length 0, expected at least one key");
    Sharding sharding;
    sharding.shards = o.shards, sharding.sizes = o.sizes, sharding.timeout = o.timeout;
    const int p = sharded::ranks_of(sharding), home = sharded::current_device();
    const std::vector<Index> starts = distributed::starts_of(o, n.M, p);
    ShardedSoftmaxResult out;
    out.O = Tensor(q.dtype(), n.output, nullptr), out.lse = Tensor(DType::f32, n.rows, nullptr);
    if (out.lse.size() == 0 || n.dv == 0) {
        out.report = sharded::idle_report("tree", "packed", q.dtype(), p);
        return out;
    }
    const Index rows = n.batch * n.heads, queries = rows * n.group;
    const auto program = [&](QueuedCommunicator& comm) {
        const auto r = static_cast<std::size_t>(comm.rank());
        const Index first = starts[r], length = starts[r + 1] - first;
        const Local mine_q(comm, Held::query, whole(q, queries, n.N, home), 0, n.N, true),
            mine_k(comm, Held::shard, whole(k, rows, n.M, home), first, length, true),
            mine_v(comm, Held::shard, whole(v, rows, n.M, home), first, length, true);
        const Buffer result(out.O.bytes(), comm.stream()), lse(out.lse.bytes(), comm.stream());
        SoftmaxArgs a = call.args;
        a.q = mine_q.data(), a.k = mine_k.data(), a.v = mine_v.data();
        a.M = length;
        a.k_stride = head_strides(n.heads, mine_k.row(), n.d), a.v_stride = head_strides(n.heads, mine_v.row(), n.dv);
        sharded::ShardedDecode decode(comm, a, result.data(), lse.as<float>());
        const sharded::Holding blocks(comm, Held::work, static_cast<Index>(decode.block_bytes()) * comm.size(), 1);
        comm.begin();
        comm.count_gather<char>(static_cast<Index>(decode.block_bytes()));
        decode.queue();
        const double seconds = comm.settle();
        if (comm.rank() == 0) {
            const auto copy = [&](const Tensor& to, const Buffer& from) {
                check(cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyDefault, comm.stream()),
                      "copying the result");
            };
            copy(out.O, result), copy(out.lse, lse);
        }
        comm.settle();
        return seconds;
    };
    out.report = sharded::run("tree", "packed", static_cast<Index>(size_of(q.dtype())), p, nullptr, program);
    out.report.topology = "all-gather";
    return out;
}

}  // namespace causeway::gpu
