#include "gpu/sharded/linear_attention.hpp"

#include <atomic>

#include "core/kit/check.hpp"
#include "core/sharded/route.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/sharded/forward.hpp"
#include "gpu/sharded/given.hpp"
#include "gpu/sharded/heads.hpp"
#include "gpu/sharded/moves.hpp"
#include "gpu/sharded/parts.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu {
namespace {

using causeway::sharded::shares_of;
using distributed::Held;
using sharded::Gates;
using sharded::head_strides;
using sharded::HeadTokens;
using sharded::Local;
using sharded::SharedSequences;
using sharded::Span;
using sharded::Starts;
using sharded::unit;
using sharded::whole;
using sharded::Whole;
using sharded::Workers;

// What linear_attention is given, in parts that are computed in steps or not.
struct Chosen {
    std::string exchange;
    bool gives_way;  // the scan, where most heads forget
};
Chosen chosen_for(const Sharding& o, bool in_steps, bool gates) {
    if (o.exchange == "auto" && in_steps) return {"all-scan", gates};
    return {sharded::exchange_of(o), false};
}

// The states before the first tokens, as given, and after the last ones, on the GPU of the caller's tensors: ranks read
// the one and write the other at the same time.
struct States {
    Index size;  // elements of one
    int device;
    std::optional<Tensor> before;
    Tensor after;

    States(const std::optional<Tensor>& given, const Shape& shape, cudaStream_t stream)
        : size(shape[2] * shape[3]),
          device(sharded::current_device()),
          after(Tensor::zeros(DType::f32, shape, stream)) {
        if (given) before = given->to(DType::f32, stream);
    }
    Whole whole(const Tensor& x) const {
        return {x.data(), size > 0 ? x.size() / size : 0, 1, size, sizeof(float), device};
    }
};
// Those of a rank, on its GPU.
class LocalStates {
public:
    LocalStates(QueuedCommunicator& comm, const States& of, const SharedSequences& sequences, const Starts& starts)
        : comm_(comm), of_(of), after_(comm, Held::state, of.whole(of.after), 0, 1, false) {
        const auto owned = [&](bool last) { return sharded::owned_by(comm.rank(), sequences.owners(starts, last)); };
        ends_ = owned(true);
        if (of.before) before_.emplace(comm, Held::state, of.whole(*of.before), 0, 1, !owned(false).empty());
    }
    const float* first() const { return before_ ? static_cast<const float*>(before_->data()) : nullptr; }
    float* last() const { return static_cast<float*>(after_.data()); }
    void give_back() const {
        for (const Span& s : ends_) sharded::give_states(comm_, after_, of_.whole(of_.after), s);
    }

private:
    QueuedCommunicator& comm_;
    const States& of_;
    std::optional<Local> before_;
    Local after_;
    std::vector<Span> ends_;
};

// The states after the last tokens to all processes.
void share_states(QueuedCommunicator& comm, const States& of, const SharedSequences& sequences, const Starts& starts) {
    sharded::share_states(comm, of.whole(of.after), sequences.owners(starts, true));
}

constexpr const char* several = "a call on several GPUs";

// The rank's share of a call by an exchange of heads: compute(q, k, v) of its heads gives O and the states after the
// last tokens.
template <class Compute>
double compute_by_heads(HeadTokens& heads, const Tensor& q, const Tensor& k, const Tensor& v, const Starts& starts,
                        const Tensor& O, const Tensor& states, Compute&& compute) {
    const Tensor Q = heads.bring(Held::query, q, starts), K = heads.bring(Held::shard, k, starts),
                 V = heads.bring(Held::shard, v, starts);
    heads.is_brought();
    decltype(compute(Q, K, V)) mine;
    if (heads.any()) mine = compute(Q, K, V);
    heads.is_computed();
    heads.give(mine.O, O, starts), heads.give_states(mine.state, states);
    return heads.is_given();
}

double linear_by_heads(QueuedCommunicator& comm, HeadTokens heads, const Tensor& q, const Tensor& k, const Tensor& v,
                       const gated::Call& call, const LinearOptions& o, const Starts& starts, const States& states,
                       const Tensor& O) {
    heads.begins();
    const LinearOptions own = sharded::of_heads(heads, call, o, states.before, starts, comm.stream());
    return compute_by_heads(
        heads, q, k, v, starts, O, states.after,
        [&](const Tensor& Q, const Tensor& K, const Tensor& V) { return linear_attention(Q, K, V, own); });
}

// Heads whose decay is not forgotten within the parts.
Index kept_heads(Index heads, const std::vector<double>& gamma, Type type, Index tokens_each) {
    Index kept = 0;
    for (Index h = 0; h < heads; ++h)
        kept += sharded::CausalTokens::reach_of(gamma.empty() ? 1 : gamma[static_cast<std::size_t>(h)], type,
                                                tokens_each / 4) < 0;
    return kept;
}

std::vector<distributed::Given> given_of(const causeway::exact::Dimensions& n, const std::vector<double>& gamma,
                                         const CausalOptions& o, const Sharding& sharding, const Workers& workers) {
    std::vector<distributed::Given> out{
        sharded::given_type("B:", n.dtype),
        {"V: batch", n.batch},
        {"V: heads", n.heads},
        {"B: width", n.r},
        {"V: width", n.d},
        sharded::given_number("scale:", o.scale),
        {"normalize:", o.normalize, distributed::truth},
        {"state: given", o.state.has_value(), distributed::truth},
        {"block:", o.block.value_or(0)},
        {"decay: values with the checksum", distributed::checksum(gamma.data(), static_cast<Index>(gamma.size()))},
        sharded::given_text("method: with the checksum", o.method)};
    sharded::add_sharding(out, sharding, workers, n.N);
    return out;
}

// Parts of equal lengths, or such that ranks finish together that wait for the states of others.
Starts causal_starts(const causeway::exact::Dimensions& n, int p, Index kept, const std::string& exchange,
                     bool in_steps, const Sharding& sharding) {
    if (!sharding.sizes.empty()) return causeway::sharded::starts_of(sharding, n.N, p, unit);
    if (exchange == "all-scan" && in_steps) return sharded::scanned_starts(n.N, p, unit);
    if (exchange != "ring") return causeway::sharded::starts_of(sharding, n.N, p, unit);
    return sharded::waiting_starts(n.N, p, unit, n.batch * n.heads, n.batch * kept);
}

// causal_linear_attention by an exchange of heads, once the ranks have compared the call.
ShardedCausalResult causal_by_heads(const Tensor& B, const Tensor& C, const Tensor& V,
                                    const causeway::exact::Dimensions& n, const std::vector<double>& gamma,
                                    const Shape& state_shape, const CausalOptions& o, const Workers& workers,
                                    const Sharding& sharding) {
    const int home = sharded::current_device();
    const Starts starts = sharded::starts_of(workers, sharding, n.N, unit);
    ShardedCausalResult out;
    out.O = Tensor(V.dtype(), V.shape(), o.stream);
    const Tensor states = Tensor::zeros(DType::f32, state_shape, o.stream);
    const auto of_rank = [&](QueuedCommunicator& comm) { return HeadTokens(comm, workers, home, n.heads); };
    const auto program = [&](QueuedCommunicator& comm) {
        HeadTokens heads = of_rank(comm);
        heads.begins();
        CausalOptions own = o;
        own.stream = comm.stream(), own.return_state = true;
        const kit::Span here = heads.here(n.heads);
        if (o.decay.size() > 1) own.decay.assign(gamma.begin() + here.first, gamma.begin() + here.first + here.n);
        if (o.state) own.state = heads.bring_states(o.state->reshape(state_shape));
        return compute_by_heads(
            heads, B, C, V, starts, out.O, states,
            [&](const Tensor& q, const Tensor& k, const Tensor& v) { return causal_linear_attention(q, k, v, own); });
    };
    const auto share = [&](QueuedCommunicator& comm) {
        of_rank(comm).share(states);
        if (workers.share()) of_rank(comm).share(out.O);
    };
    out.report = sharded::run("causal_linear_attention", "heads", static_cast<Index>(size_of(B.dtype())), workers,
                              o.stream, program, share);
    if (o.return_state) out.state = states;
    return out;
}

ShardedLinearResult linear_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o,
                                    const Sharding& sharding) {
    refuse_pool(o.state_indices, several);
    refuse_in_place(o.inplace, several);
    refuse_checkpoints(o.checkpoint_every, several);
    refuse_prefix(o.deterministic, several);
    calls::refuse_around(o, several);
    const Workers workers = sharded::workers_of(sharding);
    const gated::Call call =
        gated::check(q, k, v, sharded::own_options(workers, distributed::Call::gpu_linear, o, q, k));
    if (o.qk_l2norm) {
        const gated::UnitRows normed = gated::unit_rows(q, k, o);
        return linear_attention_sharded(normed.q, normed.k, v, calls::without_l2norm(o), sharding);
    }
    const auto& n = call.sizes;
    const bool by_heads = sharded::exchange_of(sharding) == "heads";
    if (!by_heads) sharded::refuse_shared(n);
    if (gated::is_causal(call.args, n, o)) {
        CausalOptions plain;
        plain.scale = o.scale, plain.cu_seqlens = o.cu_seqlens;
        if (o.state) plain.state = o.state->to(DType::f32, o.stream).reshape(n.state_shape);
        plain.return_state = true;
        plain.stream = o.stream;
        ShardedCausalResult result = causal_linear_attention_sharded(q, k, v, plain, sharding);
        ShardedLinearResult out;
        out.O = result.O, out.state = result.state, out.report = std::move(result.report);
        return out;
    }
    const int home = sharded::current_device();
    sharded::agree(workers, distributed::Call::gpu_linear, o.cu_seqlens, sharded::given_of(n, o, sharding, workers),
                   sharded::compared(q, k, v, call, o), sharding.sizes, o.stream);
    // What all processes know is asked first.
    const bool in_steps = !by_heads && o.cu_seqlens.empty() && causeway::gated::has_delta(n.update) &&
                          q.dtype() != DType::f32 &&
                          sharded::on_all(workers, n.N == 0 || sharded::GatedTokens::has_steps(o.mode, call.args));
    const Chosen chosen = chosen_for(sharding, in_steps, n.gates > 0);
    const Starts starts = sharded::starts_of(workers, sharding, n.N, unit);
    const SharedSequences sequences(o.cu_seqlens, n.batch, n.heads, starts.back());
    const causeway::sharded::Exchange exchange = causeway::sharded::exchanges()[chosen.exchange].exchange;
    std::atomic<bool> went_round{false};  // a scan
    const Tensor O(q.dtype(), n.output, o.stream);
    const States states(o.state, n.state_shape, o.stream);
    const Index rows = n.batch * n.heads, queries = rows * n.group;
    const auto heads = [&](QueuedCommunicator& comm) { return HeadTokens(comm, workers, home, sharded::groups_of(n)); };
    const auto program = [&](QueuedCommunicator& comm) {
        if (by_heads) return linear_by_heads(comm, heads(comm), q, k, v, call, o, starts, states, O);
        const auto [first, tokens] = workers.tokens(starts, comm.rank());
        const Local mine_q(comm, Held::query, whole(q, queries, n.N, home), first, tokens, true),
            mine_k(comm, Held::shard, whole(k, rows, n.N, home), first, tokens, true),
            mine_v(comm, Held::shard, whole(v, rows, n.N, home), first, tokens, true),
            mine_o(comm, Held::partial, whole(O, queries, n.N, home), first, tokens, false);
        std::optional<Gates> g, beta;
        // Where there are no tokens there are gates all the same: without them it would be another rule.
        if (n.gates > 0) g.emplace(comm, whole(call.log_decay, rows, n.N, home), first, tokens);
        if (causeway::gated::has_delta(n.update)) beta.emplace(comm, whole(call.beta, rows, n.N, home), first, tokens);
        GatedArgs a = call.args;
        a.q = mine_q.data(), a.k = mine_k.data(), a.v = mine_v.data(), a.o = mine_o.data();
        a.N = tokens;
        a.g = g ? g->data() : nullptr, a.beta = beta ? beta->data() : nullptr;
        a.q_stride = head_strides(n.heads * n.group, mine_q.row(), n.dk),
        a.k_stride = head_strides(n.heads, mine_k.row(), n.dk);
        a.v_stride = head_strides(n.heads, mine_v.row(), n.dv),
        a.o_stride = head_strides(n.heads * n.group, mine_o.row(), n.dv);
        const LocalStates mine(comm, states, sequences, starts);
        sharded::GatedTokens part(a, o.mode, comm.stream(), sequences.of_rank(starts, comm.rank()), in_steps);
        if (sharded::forward(comm, sequences, starts, part, exchange, mine.first(), mine.last(), chosen.gives_way) ==
            causeway::sharded::Exchange::ring)
            went_round = true;
        const double seconds = comm.settle();
        mine_o.give_back(), mine.give_back();
        return seconds;
    };
    const auto share = [&](QueuedCommunicator& comm) {
        if (by_heads) {
            heads(comm).share(states.after);
            if (workers.share()) heads(comm).share(O);
            return;
        }
        share_states(comm, states, sequences, starts);
        if (workers.share()) sharded::gather_tokens(comm, shares_of(starts), whole(O, queries, n.N, home));
    };
    // Not in nested braces: g++ 12 destroys what stands in the first of them twice where what comes after it throws.
    ShardedLinearResult out;
    out.report = sharded::run("linear_attention", chosen.exchange, static_cast<Index>(size_of(q.dtype())), workers,
                              o.stream, program, share);
    if (went_round) out.report.algorithm = "ring";
    out.O = O, out.state = states.after;
    return out;
}

ShardedCausalResult causal_on_ranks(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o,
                                    const Sharding& sharding) {
    refuse_pool(o.state_indices, several);
    refuse_in_place(o.inplace, several);
    refuse_checkpoints(o.checkpoint_every, several);
    refuse_prefix(o.deterministic, several);
    const auto n = causeway::exact::check_inputs(B.form(), C.form(), V.form());
    const auto gamma = causeway::exact::check_decay(o.decay, n.heads);
    causeway::kit::check_scale(o.scale, n.dtype);
    if (n.dtype == DType::f16 && (o.normalize || o.scale != 1)) {
        // Sums above 65504 would be Inf in the output before it is divided or scaled.
        const auto wide = [&](const Tensor& x) { return x.to(DType::f32, o.stream); };
        ShardedCausalResult out = causal_linear_attention_sharded(wide(B), wide(C), wide(V), o, sharding);
        out.O = out.O.to(DType::f16, o.stream);
        return out;
    }
    const CausalMethod& method = method_for(o.method, o.block);
    if (!method.state) fail("method: \"", method.name, "\" carries no state, expected one that does with shards");
    const Workers workers = sharded::workers_of(sharding);
    check_states(n, sharded::own_options(workers, distributed::Call::gpu_causal, o, B, C));
    const bool packed = !o.cu_seqlens.empty();
    const Index entries = packed ? static_cast<Index>(o.cu_seqlens.size()) - 1 : n.batch;
    const Shape state_shape{entries, n.heads, n.r, n.d};
    const int p = workers.p, home = sharded::current_device();
    sharded::agree(
        workers, distributed::Call::gpu_causal, o.cu_seqlens, given_of(n, gamma, o, sharding, workers),
        {{"B: values with the checksum", &B}, {"C: values with the checksum", &C}, {"V: values with the checksum", &V}},
        sharding.sizes, o.stream);
    if (sharded::exchange_of(sharding) == "heads")
        return causal_by_heads(B, C, V, n, gamma, {entries, n.heads, n.r, n.d + (o.normalize ? 1 : 0)}, o, workers,
                               sharding);
    ShardedCausalResult out;
    out.O = Tensor(V.dtype(), V.shape(), o.stream);
    std::optional<NormalStates> normal;
    if (o.normalize && o.state) normal = split_states(*o.state, o.stream);
    const std::optional<Tensor> none;
    const States states(normal ? std::optional(normal->sums) : o.state, state_shape, o.stream),
        keys(normal ? std::optional(normal->keys) : none, {entries, n.heads, n.r, o.normalize ? 1 : 0}, o.stream);
    CausalArgs all = causal_args(B, C, V, n, gamma, o.precision);
    all.block = o.block.value_or(0);
    const bool in_steps = sharded::on_all(workers, method.steps && (n.N == 0 || method.steps->possible(all)));
    const Starts parts = workers.parts ? sharded::starts_of(workers, sharding, n.N, unit) : Starts{0, n.N};
    const Index kept = kept_heads(n.heads, gamma, B.type(), parts.back() / p);
    // Where maps cost a pass over k and v, which the outputs do not make again, they beat the ring, unless all heads
    // forget.
    const std::string exchange =
        sharding.exchange == "auto" && in_steps && kept > 0 && !packed ? "all-scan" : sharded::exchange_of(sharding);
    const Starts starts = workers.parts ? parts
                          : packed      ? causeway::sharded::starts_of(sharding, n.N, p, unit)
                                        : causal_starts(n, p, kept, exchange, in_steps, sharding);
    const SharedSequences sequences(o.cu_seqlens, n.batch, n.heads, starts.back());
    const Index rows = n.batch * n.heads;
    const auto program = [&](QueuedCommunicator& comm) {
        const auto [first, tokens] = workers.tokens(starts, comm.rank());
        const Local q(comm, Held::query, whole(B, rows, n.N, home), first, tokens, true),
            k(comm, Held::shard, whole(C, rows, n.N, home), first, tokens, true),
            v(comm, Held::shard, whole(V, rows, n.N, home), first, tokens, true),
            mine_o(comm, Held::partial, whole(out.O, rows, n.N, home), first, tokens, false);
        CausalArgs a = all;
        a.q = q.data(), a.k = k.data(), a.v = v.data(), a.o = mine_o.data();
        a.N = tokens;
        a.q_stride = head_strides(n.heads, q.row(), n.r), a.k_stride = head_strides(n.heads, k.row(), n.r);
        a.v_stride = head_strides(n.heads, v.row(), n.d), a.o_stride = head_strides(n.heads, mine_o.row(), n.d);
        const LocalStates mine(comm, states, sequences, starts);
        const std::vector<Span> here = sequences.of_rank(starts, comm.rank());
        sharded::CausalTokens part(a, method, comm.stream(), here);
        sharded::forward(comm, sequences, starts, part, causeway::sharded::exchanges()[exchange].exchange, mine.first(),
                         mine.last());
        double seconds = comm.settle();
        if (o.normalize) {
            const LocalStates mine_keys(comm, keys, sequences, starts);
            sharded::KeyTokens divisors(a, comm.stream(), here);
            sharded::forward(comm, sequences, starts, divisors, causeway::sharded::Exchange::all_scan,
                             mine_keys.first(), mine_keys.last());
            seconds += comm.settle();
            mine_keys.give_back();
        }
        mine_o.give_back(), mine.give_back();
        return seconds;
    };
    const auto share = [&](QueuedCommunicator& comm) {
        share_states(comm, states, sequences, starts);
        if (o.normalize) share_states(comm, keys, sequences, starts);
        if (workers.share()) sharded::gather_tokens(comm, shares_of(starts), whole(out.O, rows, n.N, home));
    };
    out.report = sharded::run("causal_linear_attention", exchange, static_cast<Index>(size_of(B.dtype())), workers,
                              o.stream, program, share);
    if (o.scale != 1 && !o.normalize)
        scale_by(out.O.data(), out.O.type(), out.O.size(), static_cast<float>(o.scale), o.stream);
    if (o.return_state) out.state = o.normalize ? joined_states(states.after, keys.after, o.stream) : states.after;
    return out;
}

}  // namespace

ShardedLinearResult linear_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o,
                                             const Sharding& sharding) {
    return distributed::shared_call(distributed::mpi_size() > 1, [&] { return linear_on_ranks(q, k, v, o, sharding); });
}

ShardedCausalResult causal_linear_attention_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                    const CausalOptions& o, const Sharding& sharding) {
    return distributed::shared_call(distributed::mpi_size() > 1, [&] { return causal_on_ranks(B, C, V, o, sharding); });
}

}  // namespace causeway::gpu
