#include "gpu/sharded/linear_attention_grad.hpp"

#include "core/distributed/collectives.hpp"
#include "core/sharded/route.hpp"
#include "gpu/base/error.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gradient/quotient.hpp"
#include "gpu/sharded/given.hpp"
#include "gpu/sharded/gradient.hpp"
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
    Starts starts{};
    std::optional<Tensor> state{}, last{};  // before the first token; the gradient that arrives after the last one
    Tensor dg{}, dbeta{};                   // [batch, heads, N, columns]
    ShardedLinearGradient out{};

    const causeway::gated::Sizes& sizes() const { return call.sizes; }
    Index rows() const { return sizes().batch * sizes().heads; }
    Index queries() const { return rows() * sizes().group; }
    bool gates() const { return sizes().gates > 0; }
    bool steps() const { return causeway::gated::has_delta(sizes().update); }
    int begins() const { return causeway::sharded::owners_of({{0, 0, starts.back()}}, 1, starts, false)[0]; }

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
    // What a rank does; its seconds.
    double compute(QueuedCommunicator& comm) const;
    // What it has made to the other processes.
    void share(QueuedCommunicator& comm) const {
        sharded::give_to_all(comm, begins(), out.dstate.data(), out.dstate.bytes());
        if (!workers.share()) return;
        const auto gather = [&](const Tensor& x, Index of_rows) {
            sharded::gather_tokens(comm, causeway::sharded::shares_of(starts), all_tokens(x, of_rows));
        };
        gather(out.dq, queries()), gather(out.dk, rows()), gather(out.dv, rows());
        if (gates()) gather(dg, rows());
        if (steps()) gather(dbeta, rows());
    }
};

double GradientCall::compute(QueuedCommunicator& comm) const {
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
    if (state) before.emplace(comm, Held::state, whole(*state, rows(), 1, home), 0, 1, true);
    if (last) after.emplace(comm, Held::state, whole(*last, rows(), 1, home), 0, 1, true);
    const Local mine_dstate(comm, Held::state, whole(out.dstate, rows(), 1, home), 0, 1, false);
    sharded::GatedGradTokens grads(a, mode, comm.stream());
    sharded::backward(comm, starts, grads, before ? static_cast<const float*>(before->data()) : nullptr,
                      after ? static_cast<const float*>(after->data()) : nullptr,
                      static_cast<float*>(mine_dstate.data()));
    const double seconds = comm.settle();
    if (comm.rank() == begins()) mine_dstate.give_back();
    for (const Local* x : {&mine_dq, &mine_dk, &mine_dv}) x->give_back();
    if (a.dg) sharded::give_rows(comm, a.dg, all_tokens(dg, rows()), here.first, here.n);
    if (a.dbeta) sharded::give_rows(comm, a.dbeta, all_tokens(dbeta, rows()), here.first, here.n);
    return seconds;
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

}  // namespace

ShardedLinearGradient linear_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                                    const LinearOptions& o, const std::optional<Tensor>& dstate,
                                                    const Sharding& sharding) {
    check_gradient(o.mode);
    refuse_packed(o.cu_seqlens, "a gradient on several GPUs");
    refuse_pool(o.state_indices, "a gradient on several GPUs");
    refuse_prefix(o.deterministic, "a gradient on several GPUs");
    calls::refuse_around(o, "a gradient on several GPUs");
    const gated::Call call = gated::check(q, k, v, o);
    if (o.qk_l2norm) {
        const gated::UnitRows unit = gated::unit_rows(q, k, o);
        auto out = linear_attention_grad_sharded(unit.q, unit.k, v, dO, calls::without_l2norm(o), dstate, sharding);
        gated::gradient_of_unit_rows(q, k, out, o);
        return out;
    }
    const auto& n = call.sizes;
    sharded::refuse_shared(n);
    gated::check_gradients(n, v, dO, dstate);
    if (sharding.exchange != "auto" && sharding.exchange != "ring")
        fail("exchange: \"", sharding.exchange, "\", expected \"ring\" in gradients on GPUs");
    const Workers workers = sharded::workers_of(sharding);
    std::vector<distributed::Given> given = sharded::given_of(n, o, sharding, workers);
    given.push_back({"dstate: given", dstate.has_value(), distributed::truth});
    auto values = sharded::compared(q, k, v, call, o);
    values.emplace_back("dO: values with the checksum", &dO);
    sharded::agree(workers, distributed::Call::gpu_linear_grad, given, values, sharding.sizes, o.stream);
    const bool given_parts = workers.parts || !sharding.sizes.empty();
    GradientCall x{q, k, v, dO, call, workers, sharded::current_device(), o.mode};
    x.starts = given_parts ? sharded::starts_of(workers, sharding, n.N, sharded::unit)
                           : sharded::backward_starts(n.N, workers.p, sharded::unit);
    x.make_results(o.stream);
    if (o.state) x.state = o.state->to(DType::f32, o.stream);
    if (dstate) x.last = dstate->to(DType::f32, o.stream).reshape(n.state_shape);
    x.out.report = sharded::run(
        "linear_attention_grad", "ring", static_cast<Index>(size_of(q.dtype())), workers, o.stream,
        [&](QueuedCommunicator& comm) { return x.compute(comm); }, [&](QueuedCommunicator& comm) { x.share(comm); });
    if (x.gates()) x.out.dlog_decay = gated::as_given(x.dg, *o.log_decay, o.stream);
    if (x.steps()) x.out.dbeta = gated::as_given(x.dbeta, *o.beta, o.stream);
    return std::move(x.out);
}

ShardedCausalGradient causal_linear_attention_grad_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                           const Tensor& dO, const CausalOptions& o, bool decay_too,
                                                           const Sharding& sharding) {
    constexpr const char* several = "a gradient on several GPUs";
    refuse_packed(o.cu_seqlens, several);
    refuse_pool(o.state_indices, several);
    const auto n = causeway::exact::check_inputs(B.form(), C.form(), V.form());
    check_causal_gradient(n, V, dO, o);
    if (o.normalize) fail("normalize: true, but on several GPUs there is no gradient of outputs divided by their sums");
    sharded::agree(
        sharded::workers_of(sharding), distributed::Call::gpu_causal_grad,
        {{"decay: number of values", static_cast<std::int64_t>(o.decay.size())},
         {"decay: values with the checksum", distributed::checksum(o.decay.data(), static_cast<Index>(o.decay.size()))},
         {"ddecay:", decay_too, distributed::truth}},
        {}, {}, o.stream);
    const bool gates = !o.decay.empty();
    LinearOptions as_gated;
    as_gated.update = gates ? "gated" : "linear", as_gated.scale = o.scale, as_gated.stream = o.stream;
    as_gated.state = o.state, as_gated.check_gates = false;
    if (gates) as_gated.log_decay = constant_gates(o.decay, n.batch, n.heads, n.N, o.stream);
    ShardedLinearGradient g = linear_attention_grad_sharded(B, C, V, dO, as_gated, std::nullopt, sharding);
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

}  // namespace causeway::gpu
