#include "gpu/sharded/linear_attention_grad.hpp"

#include <atomic>

#include "core/distributed/collectives.hpp"
#include "core/sharded/exchange.hpp"
#include "core/sharded/route.hpp"
#include "gpu/base/error.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gradient/quotient.hpp"
#include "gpu/sharded/given.hpp"
#include "gpu/sharded/gradient.hpp"
#include "gpu/sharded/heads.hpp"
#include "gpu/sharded/linear_attention.hpp"
#include "gpu/sharded/moves.hpp"
#include "gpu/sharded/parts.hpp"

namespace causeway::gpu {
namespace {

using distributed::Held;
using sharded::Gates;
using sharded::head_strides;
using sharded::Local;
using sharded::Starts;
using sharded::whole;
using sharded::Whole;
using sharded::Workers;

// A call, and where its gradients go: of every rank a part of them.
struct GradientCall {
    const Tensor &q, &k, &v, &dO;
    const gated::Call& call;
    const Workers& workers;
    int home;  // the GPU that has the tensors
    std::string mode;
    causeway::sharded::Exchange exchange;
    sharded::SharedSequences sequences;
    Starts starts{};
    std::optional<Tensor> state{}, last{};  // before the first token; the gradient that arrives after the last one
    Tensor dg{}, dbeta{};                   // [batch, heads, N, columns]
    ShardedLinearGradient out{};
    std::atomic<bool> went_round{false};  // by the ring

    const causeway::gated::Sizes& sizes() const { return call.sizes; }
    Index rows() const { return sizes().batch * sizes().heads; }
    Index queries() const { return rows() * sizes().group; }
    bool gates() const { return sizes().gates > 0; }
    bool steps() const { return causeway::gated::has_delta(sizes().update); }
    Whole states(const Tensor& x) const { return whole(x, sizes().state_shape[0] * sizes().state_shape[1], 1, home); }
    // The ranks that have the first token of every state.
    std::vector<int> owners() const { return sequences.owners(starts, false); }

    void make_results(cudaStream_t stream) {
        const auto like = [&](const Tensor& x) { return Tensor(x.dtype(), x.shape(), stream); };
        const auto columns = [&](Index width) {
            return Tensor(DType::f32, {sizes().batch, sizes().heads, sizes().N, width}, stream);
        };
        out.dq = like(q), out.dk = like(k), out.dv = like(v);
        out.dstate = Tensor::zeros(DType::f32, sizes().state_shape, stream);
        if (gates()) dg = columns(sizes().gates);
        if (steps()) dbeta = columns(1);
    }
    Whole all_tokens(const Tensor& x, Index of_rows) const { return whole(x, of_rows, sizes().N, home); }
    sharded::HeadTokens heads(QueuedCommunicator& comm) const {
        return {comm, workers, home, sharded::groups_of(sizes())};
    }
    // What a rank does; its seconds.
    double compute(QueuedCommunicator& comm);
    double compute_by_heads(QueuedCommunicator& comm, const LinearOptions& o) const;
    // What it has made to the other processes.
    void share_heads(QueuedCommunicator& comm) const {
        heads(comm).share(out.dstate);
        for (const Tensor* x : {&out.dq, &out.dk, &out.dv, gates() ? &dg : nullptr, steps() ? &dbeta : nullptr})
            if (x && workers.share()) heads(comm).share(*x);
    }
    void share(QueuedCommunicator& comm) const {
        sharded::share_states(comm, states(out.dstate), owners());
        if (!workers.share()) return;
        const auto gather = [&](const Tensor& x, Index of_rows) {
            sharded::gather_tokens(comm, causeway::sharded::shares_of(starts), all_tokens(x, of_rows));
        };
        gather(out.dq, queries()), gather(out.dk, rows()), gather(out.dv, rows());
        if (gates()) gather(dg, rows());
        if (steps()) gather(dbeta, rows());
    }
};

double GradientCall::compute_by_heads(QueuedCommunicator& comm, const LinearOptions& o) const {
    sharded::HeadTokens mine = heads(comm);
    mine.begins();
    const LinearOptions own = sharded::of_heads(mine, call, o, state, starts, comm.stream());
    std::optional<Tensor> dlast;
    if (last) dlast = mine.bring_states(*last);
    const Tensor Q = mine.bring(Held::query, q, starts), K = mine.bring(Held::shard, k, starts),
                 V = mine.bring(Held::shard, v, starts), upstream = mine.bring(Held::query, dO, starts);
    mine.is_brought();
    LinearGradient g;
    if (mine.any()) g = linear_attention_grad(Q, K, V, upstream, own, dlast);
    mine.is_computed();
    mine.give(g.dq, out.dq, starts), mine.give(g.dk, out.dk, starts), mine.give(g.dv, out.dv, starts);
    if (gates()) mine.give(g.dlog_decay.value_or(Tensor()), dg, starts);
    if (steps()) mine.give(g.dbeta.value_or(Tensor()), dbeta, starts);
    mine.give_states(g.dstate, out.dstate);
    return mine.is_given();
}

double GradientCall::compute(QueuedCommunicator& comm) {
    const auto& n = sizes();
    const kit::Span here = workers.tokens(starts, comm.rank());
    const auto part = [&](Held held, const Tensor& x, Index of_rows, bool in) {
        return Local(comm, held, all_tokens(x, of_rows), here.first, here.n, in);
    };
    const Local mine_q = part(Held::query, q, queries(), true), mine_k = part(Held::shard, k, rows(), true),
                mine_v = part(Held::shard, v, rows(), true), mine_dO = part(Held::query, dO, queries(), true),
                mine_dq = part(Held::partial, out.dq, queries(), false),
                mine_dk = part(Held::partial, out.dk, rows(), false),
                mine_dv = part(Held::partial, out.dv, rows(), false);
    std::optional<Gates> g, beta;
    Buffer mine_dg, mine_dbeta;
    const auto room = [&](Index width) {
        return Buffer(static_cast<std::size_t>(rows() * here.n * width) * sizeof(float), comm.stream());
    };
    if (gates()) g.emplace(comm, all_tokens(call.log_decay, rows()), here.first, here.n), mine_dg = room(n.gates);
    if (steps()) beta.emplace(comm, all_tokens(call.beta, rows()), here.first, here.n), mine_dbeta = room(1);
    GatedGradArgs a;
    a.in = call.args;
    a.in.N = here.n;
    a.in.g = g ? g->data() : nullptr, a.in.beta = beta ? beta->data() : nullptr;
    a.in.q = mine_q.data(), a.in.k = mine_k.data(), a.in.v = mine_v.data();
    a.in.q_stride = head_strides(n.heads * n.group, mine_q.row(), n.dk);
    a.in.k_stride = head_strides(n.heads, mine_k.row(), n.dk);
    a.in.v_stride = head_strides(n.heads, mine_v.row(), n.dv);
    a.in.o_stride = head_strides(n.heads * n.group, mine_dO.row(), n.dv);
    a.dO = mine_dO.data(), a.dq = mine_dq.data(), a.dk = mine_dk.data(), a.dv = mine_dv.data();
    a.dg = mine_dg.as<float>(), a.dbeta = mine_dbeta.as<float>();
    std::optional<Local> before, after;
    if (state) before.emplace(comm, Held::state, states(*state), 0, 1, true);
    if (last) after.emplace(comm, Held::state, states(*last), 0, 1, true);
    const Local mine_dstate(comm, Held::state, states(out.dstate), 0, 1, false);
    sharded::GatedGradTokens grads(a, mode, comm.stream(), sequences.of_rank(starts, comm.rank()));
    const auto given = [](const std::optional<Local>& x) { return x ? static_cast<const float*>(x->data()) : nullptr; };
    if (sharded::backward(comm, sequences, starts, grads, exchange, given(before), given(after),
                          static_cast<float*>(mine_dstate.data())) == causeway::sharded::Exchange::ring)
        went_round = true;
    const double seconds = comm.settle();
    for (const sharded::Span& s : sharded::owned_by(comm.rank(), owners()))
        sharded::give_states(comm, mine_dstate, states(out.dstate), s);
    for (const Local* x : {&mine_dq, &mine_dk, &mine_dv}) x->give_back();
    if (a.dg) sharded::give_rows(comm, a.dg, all_tokens(dg, rows()), here.first, here.n);
    if (a.dbeta) sharded::give_rows(comm, a.dbeta, all_tokens(dbeta, rows()), here.first, here.n);
    return seconds;
}

// Of outputs that are divided by their sums, which V with a column of ones has as its last column: in Float32, first
// that forward pass, whose quotient is differentiated token by token, then the gradient of it.
ShardedLinearGradient normalized_gradient(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                          const LinearOptions& o, const Sharding& sharding) {
    const cudaStream_t stream = o.stream;
    const auto in_float = [&](const Tensor& x) { return x.to(DType::f32, stream); };
    const Index d = V.shape()[3], rows = d > 0 ? V.size() / d : 0;
    const Tensor q = in_float(B), k = in_float(C), v = in_float(V), upstream = in_float(dO);
    const Tensor with_ones(DType::f32, {V.shape()[0], V.shape()[1], V.shape()[2], d + 1}, stream);
    append_ones(v.as<float>(), with_ones.as<float>(), rows, d, stream);
    const Tensor sums = linear_attention_sharded(q, k, with_ones, o, sharding).O;
    quotient_gradient(upstream.as<float>(), sums.as<float>(), rows, d, stream);
    ShardedLinearGradient g = linear_attention_grad_sharded(q, k, with_ones, sums, o, std::nullopt, sharding);
    const Tensor dV(DType::f32, V.shape(), stream);
    drop_last(g.dv.as<float>(), dV.as<float>(), rows, d, stream);
    g.dq = g.dq.to(B.dtype(), stream), g.dk = g.dk.to(C.dtype(), stream), g.dv = dV.to(V.dtype(), stream);
    return g;
}

// Where every process has added up its own tokens.
Tensor sum_of_parts(const Sharding& sharding, const Tensor& x, cudaStream_t stream) {
    const Workers workers = sharded::workers_of(sharding);
    if (!workers.processes || !workers.parts) return x;
    causeway::Tensor sum = x.cpu(stream);
    sharded::meet([&](distributed::Communicator& comm) {
        const Index n = sum.size();
        std::vector<float> all(static_cast<std::size_t>(n * comm.size()));
        distributed::all_gather(comm, distributed::all_ranks(comm), sum.data<float>(), n, all.data());
        std::fill_n(sum.data<float>(), n, 0.0f);
        for (std::size_t i = 0; i < all.size(); ++i) sum.data<float>()[i % static_cast<std::size_t>(n)] += all[i];
    });
    return Tensor(sum, stream);
}

// Whether the backward pass has the states after the last tokens (gated_gradient_has_state), as far as every process
// knows it before the call.
bool has_states(const Tensor& q, const causeway::gated::Sizes& n, const LinearOptions& o) {
    return q.dtype() == DType::bf16 && causeway::gated::has_delta(n.update) && n.gates <= 1 && o.cu_seqlens.empty();
}

ShardedLinearGradient linear_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                      const LinearOptions& o, const std::optional<Tensor>& dstate,
                                      const Sharding& sharding) {
    check_gradient(o.mode);
    refuse_pool(o.state_indices, "a gradient on several GPUs");
    refuse_prefix(o.deterministic, "a gradient on several GPUs");
    calls::refuse_around(o, "a gradient on several GPUs");
    const Workers workers = sharded::workers_of(sharding);
    const gated::Call call =
        gated::check(q, k, v, sharded::own_options(workers, distributed::Call::gpu_linear_grad, o, q, k));
    if (o.qk_l2norm) {
        const gated::UnitRows normed = gated::unit_rows(q, k, o);
        auto out = linear_attention_grad_sharded(normed.q, normed.k, v, dO, calls::without_l2norm(o), dstate, sharding);
        gated::gradient_of_unit_rows(q, k, out, o);
        return out;
    }
    const auto& n = call.sizes;
    gated::check_gradients(n, v, dO, dstate);
    const bool by_heads = sharding.exchange == "heads";
    if (!by_heads) sharded::refuse_shared(n);
    const std::string name = sharded::exchange_of(sharding);
    std::vector<distributed::Given> given = sharded::given_of(n, o, sharding, workers);
    given.push_back({"dstate: given", dstate.has_value(), distributed::truth});
    auto values = sharded::compared(q, k, v, call, o);
    values.emplace_back("dO: values with the checksum", &dO);
    sharded::agree(workers, distributed::Call::gpu_linear_grad, o.cu_seqlens, given, values, sharding.sizes, o.stream);
    const bool given_parts = workers.parts || !sharding.sizes.empty();
    const Starts starts = given_parts || name != "ring"
                              ? sharded::starts_of(workers, sharding, n.N, sharded::unit)
                              : sharded::backward_starts(n.N, workers.p, sharded::unit, has_states(q, n, o));
    GradientCall x{q,
                   k,
                   v,
                   dO,
                   call,
                   workers,
                   sharded::current_device(),
                   o.mode,
                   causeway::sharded::exchanges()[name].exchange,
                   {o.cu_seqlens, n.batch, n.heads, starts.back()},
                   starts};
    x.make_results(o.stream);
    if (o.state) x.state = o.state->to(DType::f32, o.stream);
    if (dstate) x.last = dstate->to(DType::f32, o.stream).reshape(n.state_shape);
    x.out.report = sharded::run(
        "linear_attention_grad", name, static_cast<Index>(size_of(q.dtype())), workers, o.stream,
        [&](QueuedCommunicator& comm) { return by_heads ? x.compute_by_heads(comm, o) : x.compute(comm); },
        [&](QueuedCommunicator& comm) { by_heads ? x.share_heads(comm) : x.share(comm); });
    if (x.went_round) x.out.report.algorithm = "ring";
    if (x.gates()) x.out.dlog_decay = gated::as_given(x.dg, *o.log_decay, o.stream);
    if (x.steps()) x.out.dbeta = gated::as_given(x.dbeta, *o.beta, o.stream);
    return std::move(x.out);
}

ShardedCausalGradient causal_on_ranks(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                      const CausalOptions& o, bool decay_too, const Sharding& sharding) {
    refuse_pool(o.state_indices, "a gradient on several GPUs");
    const auto n = causeway::exact::check_inputs(B.form(), C.form(), V.form());
    const Workers workers = sharded::workers_of(sharding);
    check_causal_gradient(n, V, dO, sharded::own_options(workers, distributed::Call::gpu_causal_grad, o, B, C));
    if (V.ndim() < 4) {  // gates and columns of ones have their places in four dimensions
        const auto four = [](const Tensor& x) { return sharded::in_four(x); };
        ShardedCausalGradient out =
            causal_linear_attention_grad_sharded(four(B), four(C), four(V), four(dO), o, decay_too, sharding);
        out.dB = out.dB.reshape(B.shape()), out.dC = out.dC.reshape(C.shape()), out.dV = out.dV.reshape(V.shape());
        return out;
    }
    sharded::agree(
        workers, distributed::Call::gpu_causal_grad, o.cu_seqlens,
        {{"decay: number of values", static_cast<std::int64_t>(o.decay.size())},
         {"decay: values with the checksum", distributed::checksum(o.decay.data(), static_cast<Index>(o.decay.size()))},
         {"normalize:", o.normalize, distributed::truth},
         {"ddecay:", decay_too, distributed::truth}},
        {}, {}, o.stream);
    const bool gates = !o.decay.empty();
    LinearOptions as_gated;
    as_gated.update = gates ? "gated" : "linear", as_gated.stream = o.stream;
    as_gated.scale = o.normalize ? 1 : o.scale;  // which the quotient does not have
    as_gated.state = o.state, as_gated.check_gates = false, as_gated.cu_seqlens = o.cu_seqlens;
    if (gates) as_gated.log_decay = constant_gates(o.decay, n.batch, n.heads, n.N, o.stream);
    ShardedLinearGradient g = o.normalize
                                  ? normalized_gradient(B, C, V, dO, as_gated, sharding)
                                  : linear_attention_grad_sharded(B, C, V, dO, as_gated, std::nullopt, sharding);
    ShardedCausalGradient out;
    out.dB = g.dq, out.dC = g.dk, out.dV = g.dv;
    if (gates && decay_too)
        out.ddecay = sum_of_parts(
            sharding, gradient_of_decays(*g.dlog_decay, *as_gated.log_decay, o.decay.size(), o.stream), o.stream);
    if (o.state) out.dstate = g.dstate;
    out.report = std::move(g.report);
    out.report.method = "causal_linear_attention_grad";
    return out;
}

}  // namespace

ShardedLinearGradient linear_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                                    const LinearOptions& o, const std::optional<Tensor>& dstate,
                                                    const Sharding& sharding) {
    return distributed::shared_call(distributed::mpi_size() > 1,
                                    [&] { return linear_on_ranks(q, k, v, dO, o, dstate, sharding); });
}

ShardedCausalGradient causal_linear_attention_grad_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                           const Tensor& dO, const CausalOptions& o, bool decay_too,
                                                           const Sharding& sharding) {
    return distributed::shared_call(distributed::mpi_size() > 1,
                                    [&] { return causal_on_ranks(B, C, V, dO, o, decay_too, sharding); });
}

}  // namespace causeway::gpu
