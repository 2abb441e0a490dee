#include "gpu/sharded/softmax_attention.hpp"

#include <deque>

#include "core/distributed/plan.hpp"
#include "core/sharded/exchange.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/sharded/decode.hpp"
#include "gpu/sharded/given.hpp"
#include "gpu/sharded/heads.hpp"
#include "gpu/sharded/moves.hpp"
#include "gpu/sharded/parts.hpp"
#include "gpu/sharded/softmax_ring.hpp"

namespace causeway::gpu {
namespace {

using causeway::sharded::Shares;
using causeway::sharded::SoftmaxRing;
using distributed::Held;
using sharded::head_strides;
using sharded::HeadTokens;
using sharded::Local;
using sharded::whole;
using sharded::Whole;
using sharded::Workers;

// Who has which queries and keys while they are computed with, and, where processes have parts of their own, who has
// which in the callers' tensors.
struct Cut {
    SoftmaxRing ring;
    Shares query_parts, key_parts;
    sharded::Starts queries, keys;
    bool by_heads = false;
    bool empty = false;  // nothing is to be computed, on any rank

    std::string exchange() const { return by_heads ? "heads" : "ring"; }
};

// The same on all ranks before any work.
Cut cut_of(const attention::Sizes& n, const std::vector<Index>& cu_seqlens, const Sharding& sharding,
           const Workers& workers) {
    const bool by_heads =
        sharding.exchange == "heads" || causeway::sharded::heads_are_shorter(sharding, n.causal, n.heads, workers.p);
    if (!by_heads && sharding.exchange != "auto" && sharding.exchange != "ring")
        fail("exchange: \"", sharding.exchange, "\", expected \"ring\" or \"heads\" for softmax attention");
    if (n.causal && n.N != n.M)
        fail("q: length ", n.N, ", expected ", n.M,
             " like k, with causal = true and shards; tree_decode and ring_decode spread a cache over workers");
    if (!n.causal && !sharding.sizes.empty() && n.N != n.M)
        fail("sizes: given for ", n.N, " queries and ", n.M, " keys, expected as many of both");
    Cut out;
    SoftmaxRing& z = out.ring;
    z.batch = n.batch, z.heads = n.heads, z.group = n.group, z.d = n.d, z.dv = n.dv;
    z.causal = n.causal, z.scale = n.scale;
    out.by_heads = by_heads;
    out.queries = sharded::starts_of(workers, sharding, n.N, 1);
    out.keys = sharded::starts_of(workers, sharding, n.M, 1);
    out.empty = n.batch * n.heads * n.group == 0 || out.queries.back() == 0 || out.keys.back() == 0;
    z.queries = causeway::sharded::shares_of(out.queries), z.keys = causeway::sharded::shares_of(out.keys);
    if (workers.parts) out.query_parts = z.queries, out.key_parts = z.keys;
    const bool in_zigzag = n.causal && sharding.sizes.empty() && workers.p > 1;
    if (!cu_seqlens.empty()) {
        const auto packed = causeway::kit::packed_spans(cu_seqlens, n.batch, out.queries.back());
        z.pieces_of_one = in_zigzag ? 2 : 1;
        z.queries = z.keys = in_zigzag ? causeway::sharded::packed_zigzag(packed, workers.p)
                                       : causeway::sharded::packed_shares(packed, out.queries);
    } else if (in_zigzag) {
        z.queries = z.keys = causeway::sharded::zigzag(out.queries.back(), workers.p);
    }
    return out;
}

void agree(const Workers& workers, distributed::Call call, const attention::Sizes& n,
           const std::vector<Index>& cu_seqlens, const Sharding& sharding,
           const std::vector<std::pair<const char*, const Tensor*>>& values, cudaStream_t stream) {
    std::vector<distributed::Given> given{sharded::given_type("q:", n.dtype),
                                          {"q: batch", n.batch},
                                          {"k: heads", n.heads},
                                          {"q: heads", n.heads * n.group},
                                          {"q: width", n.d},
                                          {"v: width", n.dv},
                                          {"causal:", n.causal, distributed::truth},
                                          sharded::given_number("scale:", n.scale)};
    sharded::add_sharding(given, sharding, workers, n.N);
    if (!workers.parts) given.push_back({"k: length", n.M});
    sharded::agree(workers, call, cu_seqlens, given, values, sharding.sizes, stream);
}

// Tokens of queries or keys as a rank computes with them: places of the caller's tensors, or of copies of the rank's
// own, which other ranks bring and to which the results go back.
class RingTokens {
public:
    RingTokens(QueuedCommunicator& comm, const Shares& used, const Shares& parts, Index rows, Index N, int home)
        : comm_(comm), used_(used), parts_(parts), rows_(rows), N_(N), home_(home) {
        Index place = 0;
        for (const kit::Span& t : used[static_cast<std::size_t>(comm.rank())]) {
            places_.push_back({own() ? place : t.first, t.n});
            place += t.n;
        }
        length_ = place;
    }

    const std::vector<kit::Span>& places() const { return places_; }
    Whole bring(const Tensor& x, Index width) { return own() ? brought(x, width) : given(x, width); }
    // Room for a result, which give_back() puts in its place.
    Whole make(const Tensor& x, Index width) { return own() ? room(x, width) : given(x, width); }
    void give_back(const Whole& mine, const Tensor& to) const {
        if (own()) sharded::redistribute(comm_, used_, mine, parts_, given(to, mine.width));
    }

private:
    bool own() const { return !parts_.empty(); }
    Whole given(const Tensor& x, Index width) const { return {x.data(), rows_, N_, width, size_of(x.dtype()), home_}; }
    Whole room(const Tensor& x, Index width) {
        Whole out = given(x, width);
        const std::size_t token = static_cast<std::size_t>(width) * out.element;
        out.N = length_;
        out.data = copies_.emplace_back(static_cast<std::size_t>(rows_ * length_) * token, comm_.stream()).data();
        return out;
    }
    Whole brought(const Tensor& x, Index width) {
        const Whole out = room(x, width);
        sharded::redistribute(comm_, parts_, given(x, width), used_, out);
        return out;
    }

    QueuedCommunicator& comm_;
    const Shares &used_, &parts_;
    Index rows_, N_;
    int home_;
    Index length_ = 0;
    std::vector<kit::Span> places_;
    std::deque<Buffer> copies_;
};

// The rank's share of a call by an exchange of heads.
double softmax_by_heads(QueuedCommunicator& comm, HeadTokens heads, const Cut& cut, const Tensor& q, const Tensor& k,
                        const Tensor& v, const SoftmaxOptions& o, const SoftmaxResult& out) {
    heads.begins();
    SoftmaxOptions own = o;
    own.stream = comm.stream();
    const Tensor Q = heads.bring(Held::query, q, cut.queries), K = heads.bring(Held::shard, k, cut.keys),
                 V = heads.bring(Held::shard, v, cut.keys);
    heads.is_brought();
    SoftmaxResult mine;
    if (heads.any()) mine = softmax_attention(Q, K, V, own);
    heads.is_computed();
    heads.give(mine.O, out.O, cut.queries), heads.give(mine.lse, out.lse, cut.queries, false);
    return heads.is_given();
}

double softmax_grad_by_heads(QueuedCommunicator& comm, HeadTokens heads, const Cut& cut, const Tensor& q,
                             const Tensor& k, const Tensor& v, const Tensor& dO, const SoftmaxOptions& o,
                             const SoftmaxResult& there, const SoftmaxGradient& out) {
    heads.begins();
    SoftmaxOptions own = o;
    own.stream = comm.stream();
    const Tensor Q = heads.bring(Held::query, q, cut.queries), K = heads.bring(Held::shard, k, cut.keys),
                 V = heads.bring(Held::shard, v, cut.keys), upstream = heads.bring(Held::query, dO, cut.queries),
                 lse = heads.bring(Held::query, there.lse, cut.queries, false);
    const Shape& rows = lse.shape();
    const SoftmaxResult forward{heads.bring(Held::query, there.O, cut.queries),
                                lse.reshape({rows[0], rows[1], rows[2]})};
    heads.is_brought();
    SoftmaxGradient mine;
    if (heads.any()) mine = softmax_attention_grad(Q, K, V, upstream, own, forward);
    heads.is_computed();
    heads.give(mine.dq, out.dq, cut.queries), heads.give(mine.dk, out.dk, cut.keys);
    heads.give(mine.dv, out.dv, cut.keys);
    return heads.is_given();
}

ShardedSoftmaxResult forward_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o,
                                      const Sharding& sharding) {
    const Workers workers = sharded::workers_of(sharding);
    const SoftmaxOptions here = sharded::own_options(workers, distributed::Call::gpu_softmax, o, q, k);
    const softmax::CheckedCall call = softmax::check(q, k, v, here);
    const auto& n = call.sizes;
    const int home = sharded::current_device();
    agree(
        workers, distributed::Call::gpu_softmax, n, o.cu_seqlens, sharding,
        {{"q: values with the checksum", &q}, {"k: values with the checksum", &k}, {"v: values with the checksum", &v}},
        o.stream);
    const Cut cut = cut_of(n, o.cu_seqlens, sharding, workers);
    const SoftmaxRing& z = cut.ring;
    if (cut.empty)
        return {softmax_attention(q, k, v, here),
                sharded::idle_report("softmax_attention", cut.exchange(), q.dtype(), workers)};
    ShardedSoftmaxResult out;
    out.O = Tensor(q.dtype(), n.output, o.stream), out.lse = Tensor(DType::f32, n.rows, o.stream);
    const Index rows = n.batch * n.heads, queries = rows * n.group;
    const auto heads = [&](QueuedCommunicator& comm) { return HeadTokens(comm, workers, home, n.heads); };
    const auto program = [&](QueuedCommunicator& comm) {
        if (cut.by_heads) return softmax_by_heads(comm, heads(comm), cut, q, k, v, o, out);
        sharded::RingTensors x;
        x.type = q.type();
        RingTokens of_queries(comm, z.queries, cut.query_parts, queries, n.N, home),
            of_keys(comm, z.keys, cut.key_parts, rows, n.M, home);
        comm.begin();
        const Whole all_q = of_queries.bring(q, n.d), all_k = of_keys.bring(k, n.d), all_v = of_keys.bring(v, n.dv),
                    all_O = of_queries.make(out.O, n.dv), all_lse = of_queries.make(out.lse, 1);
        std::deque<Local> mine_q, mine_o, mine_k, mine_v;
        std::deque<Buffer> lse;
        for (const kit::Span& t : of_queries.places()) {
            mine_q.emplace_back(comm, Held::query, all_q, t.first, t.n, true);
            mine_o.emplace_back(comm, Held::partial, all_O, t.first, t.n, false);
            lse.emplace_back(static_cast<std::size_t>(queries * t.n) * sizeof(float), comm.stream());
            x.queries.push_back({mine_q.back().data(), mine_o.back().data(),
                                 head_strides(n.heads * n.group, mine_q.back().row(), n.d),
                                 head_strides(n.heads * n.group, mine_o.back().row(), n.dv), lse.back().as<float>()});
        }
        for (const kit::Span& t : of_keys.places()) {
            mine_k.emplace_back(comm, Held::shard, all_k, t.first, t.n, true);
            mine_v.emplace_back(comm, Held::shard, all_v, t.first, t.n, true);
            x.keys.push_back({mine_k.back().data(), mine_v.back().data(),
                              head_strides(n.heads, mine_k.back().row(), n.d),
                              head_strides(n.heads, mine_v.back().row(), n.dv)});
        }
        if (!workers.processes) comm.begin();  // the copies of the other GPUs are there
        sharded::softmax_ring(comm, z, x, comm.stream());
        double seconds = workers.parts ? 0 : comm.settle();
        for (std::size_t i = 0; i < mine_o.size(); ++i) {
            mine_o[i].give_back();
            const kit::Span t = of_queries.places()[i];
            sharded::give_rows(comm, lse[i].data(), all_lse, t.first, t.n);
        }
        of_queries.give_back(all_O, out.O), of_queries.give_back(all_lse, out.lse);
        if (workers.parts) seconds = comm.settle();
        return seconds;
    };
    const auto share = [&](QueuedCommunicator& comm) {
        if (!workers.share()) return;
        if (cut.by_heads) return heads(comm).share(out.O), heads(comm).share(out.lse, false);
        sharded::gather_tokens(comm, z.queries, whole(out.O, queries, n.N, home));
        sharded::gather_tokens(comm, z.queries, whole(out.lse, queries, n.N, home));
    };
    out.report = sharded::run("softmax_attention", cut.exchange(), static_cast<Index>(size_of(q.dtype())), workers,
                              o.stream, program, share);
    return out;
}

ShardedSoftmaxGradient gradient_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                         const SoftmaxOptions& o, const std::optional<SoftmaxResult>& forward,
                                         const Sharding& sharding) {
    const Workers workers = sharded::workers_of(sharding);
    const SoftmaxOptions here = sharded::own_options(workers, distributed::Call::gpu_softmax_grad, o, q, k);
    const softmax::CheckedCall call = softmax::check(q, k, v, here);
    const auto& n = call.sizes;
    softmax::check_gradients(n, dO, forward);
    const int home = sharded::current_device();
    agree(workers, distributed::Call::gpu_softmax_grad, n, o.cu_seqlens, sharding,
          {{"q: values with the checksum", &q},
           {"k: values with the checksum", &k},
           {"v: values with the checksum", &v},
           {"dO: values with the checksum", &dO}},
          o.stream);
    const Cut cut = cut_of(n, o.cu_seqlens, sharding, workers);
    const SoftmaxRing& z = cut.ring;
    if (cut.empty)
        return {softmax_attention_grad(q, k, v, dO, here, forward),
                sharded::idle_report("softmax_attention_grad", cut.exchange(), q.dtype(), workers)};
    const SoftmaxResult there = sharded::on_all(workers, forward.has_value())
                                    ? *forward
                                    : SoftmaxResult(softmax_attention_sharded(q, k, v, o, sharding));
    const auto like = [&](const Tensor& x) { return Tensor::zeros(x.dtype(), x.shape(), o.stream); };
    ShardedSoftmaxGradient out;
    out.dq = like(q), out.dk = like(k), out.dv = like(v);
    const Index rows = n.batch * n.heads, queries = rows * n.group;
    const auto heads = [&](QueuedCommunicator& comm) { return HeadTokens(comm, workers, home, n.heads); };
    const auto program = [&](QueuedCommunicator& comm) {
        if (cut.by_heads) return softmax_grad_by_heads(comm, heads(comm), cut, q, k, v, dO, o, there, out);
        std::deque<Local> tensors;
        const auto part = [&](Held held, const Whole& x, const kit::Span& t, bool in) -> Local& {
            return tensors.emplace_back(comm, held, x, t.first, t.n, in);
        };
        RingTokens of_queries(comm, z.queries, cut.query_parts, queries, n.N, home),
            of_keys(comm, z.keys, cut.key_parts, rows, n.M, home);
        comm.begin();
        const Whole all_q = of_queries.bring(q, n.d), all_O = of_queries.bring(there.O, n.dv),
                    all_dO = of_queries.bring(dO, n.dv), all_lse = of_queries.bring(there.lse, 1),
                    all_k = of_keys.bring(k, n.d), all_v = of_keys.bring(v, n.dv),
                    all_dq = of_queries.make(out.dq, n.d), all_dk = of_keys.make(out.dk, n.d),
                    all_dv = of_keys.make(out.dv, n.dv);
        sharded::RingGradTensors x;
        x.type = q.type();
        std::vector<const Local*> results;
        std::deque<Buffer> lse;
        for (const kit::Span& t : of_queries.places()) {
            const Local &mine_q = part(Held::query, all_q, t, true), &mine_O = part(Held::query, all_O, t, true),
                        &mine_dO = part(Held::query, all_dO, t, true), &mine_lse = part(Held::query, all_lse, t, true),
                        &mine_dq = part(Held::partial, all_dq, t, false);
            results.push_back(&mine_dq);
            // Contiguous, which those of the caller's GPU are not.
            const Buffer& own =
                lse.emplace_back(static_cast<std::size_t>(queries * t.n) * sizeof(float), comm.stream());
            sharded::take_rows(comm, own.data(), mine_lse, queries, t.n, sizeof(float));
            x.queries.push_back({mine_q.data(), mine_O.data(), mine_dO.data(), mine_dq.data(),
                                 head_strides(n.heads * n.group, mine_q.row(), n.d),
                                 head_strides(n.heads * n.group, mine_O.row(), n.dv), own.as<float>()});
        }
        for (const kit::Span& t : of_keys.places()) {
            const Local &mine_k = part(Held::shard, all_k, t, true), &mine_v = part(Held::shard, all_v, t, true),
                        &mine_dk = part(Held::partial, all_dk, t, false),
                        &mine_dv = part(Held::partial, all_dv, t, false);
            results.push_back(&mine_dk), results.push_back(&mine_dv);
            x.keys.push_back({mine_k.data(), mine_v.data(), head_strides(n.heads, mine_k.row(), n.d),
                              head_strides(n.heads, mine_v.row(), n.dv)});
            x.dk.push_back(mine_dk.data()), x.dv.push_back(mine_dv.data());
        }
        if (!workers.processes) comm.begin();  // the copies of the other GPUs are there
        sharded::softmax_ring_back(comm, z, x, comm.stream());
        double seconds = workers.parts ? 0 : comm.settle();
        for (const Local* result : results) result->give_back();
        of_queries.give_back(all_dq, out.dq), of_keys.give_back(all_dk, out.dk), of_keys.give_back(all_dv, out.dv);
        if (workers.parts) seconds = comm.settle();
        return seconds;
    };
    const auto share = [&](QueuedCommunicator& comm) {
        if (!workers.share()) return;
        if (cut.by_heads) {
            for (const Tensor* x : {&out.dq, &out.dk, &out.dv}) heads(comm).share(*x);
            return;
        }
        sharded::gather_tokens(comm, z.queries, whole(out.dq, queries, n.N, home));
        sharded::gather_tokens(comm, z.keys, whole(out.dk, rows, n.M, home));
        sharded::gather_tokens(comm, z.keys, whole(out.dv, rows, n.M, home));
    };
    out.report = sharded::run("softmax_attention_grad", cut.exchange(), static_cast<Index>(size_of(q.dtype())), workers,
                              o.stream, program, share);
    return out;
}

ShardedSoftmaxResult decode_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
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
    const Workers workers = sharded::workers_of(sharding);
    const int home = sharded::current_device();
    agree(
        workers, distributed::Call::gpu_tree, n, {}, sharding,
        {{"q: values with the checksum", &q}, {"k: values with the checksum", &k}, {"v: values with the checksum", &v}},
        nullptr);
    const std::vector<Index> starts = distributed::starts_of(o, n.M, workers.p);
    ShardedSoftmaxResult out;
    out.O = Tensor(q.dtype(), n.output, nullptr), out.lse = Tensor(DType::f32, n.rows, nullptr);
    if (out.lse.size() == 0 || n.dv == 0) {
        out.report = sharded::idle_report("tree", "packed", q.dtype(), workers);
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
        if (comm.rank() == 0 || workers.processes) {  // all have made it
            const auto copy = [&](const Tensor& to, const Buffer& from) {
                check(cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyDefault, comm.stream()),
                      "copying the result");
            };
            copy(out.O, result), copy(out.lse, lse);
        }
        comm.settle();
        return seconds;
    };
    const auto share = [](QueuedCommunicator&) {};
    out.report =
        sharded::run("tree", "packed", static_cast<Index>(size_of(q.dtype())), workers, nullptr, program, share);
    out.report.topology = "all-gather";
    return out;
}

}  // namespace

ShardedSoftmaxResult softmax_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v,
                                               const SoftmaxOptions& o, const Sharding& sharding) {
    return distributed::shared_call(distributed::mpi_size() > 1,
                                    [&] { return forward_on_ranks(q, k, v, o, sharding); });
}

ShardedSoftmaxGradient softmax_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& dO, const SoftmaxOptions& o,
                                                      const std::optional<SoftmaxResult>& forward,
                                                      const Sharding& sharding) {
    return distributed::shared_call(distributed::mpi_size() > 1,
                                    [&] { return gradient_on_ranks(q, k, v, dO, o, forward, sharding); });
}

ShardedSoftmaxResult tree_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    return distributed::shared_call(distributed::mpi_size() > 1, [&] { return decode_on_ranks(q, k, v, o); });
}

}  // namespace causeway::gpu
