#include "gpu/sharded/linear_attention.hpp"

#include "core/kit/check.hpp"
#include "core/sharded/route.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/sharded/forward.hpp"
#include "gpu/sharded/given.hpp"
#include "gpu/sharded/moves.hpp"
#include "gpu/sharded/parts.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu {
namespace {

using causeway::sharded::shares_of;
using distributed::Held;
using sharded::Gates;
using sharded::head_strides;
using sharded::Local;
using sharded::Starts;
using sharded::unit;
using sharded::whole;
using sharded::Whole;
using sharded::Workers;

std::string exchange_of(const Sharding& o) {
    if (o.exchange == "heads")
        fail("exchange: \"heads\", expected \"ring\", \"all-scan\" or \"all-gather\": on GPUs heads are not exchanged");
    return o.exchange == "auto" ? "ring" : causeway::sharded::exchanges()[o.exchange].name;
}

// The states before the first token, as given, and after the last one, on the GPU of the caller's tensors: ranks read
// the one and write the other at the same time.
struct States {
    Index all, size;  // states, and elements of one
    int device;
    std::optional<Tensor> before;
    Tensor after;

    States(const std::optional<Tensor>& given, const Shape& shape, cudaStream_t stream)
        : all(shape[0] * shape[1]),
          size(shape[2] * shape[3]),
          device(sharded::current_device()),
          after(Tensor::zeros(DType::f32, shape, stream)) {
        if (given) before = given->to(DType::f32, stream);
    }
};
// Those of a rank, on its GPU.
class LocalStates {
public:
    LocalStates(QueuedCommunicator& comm, const States& of, const Starts& starts)
        : after_(comm, Held::state, {of.after.data(), of.all, 1, of.size, sizeof(float), of.device}, 0, 1, false),
          ends_(comm.rank() == causeway::sharded::owners_of({{0, 0, starts.back()}}, 1, starts, true)[0]) {
        if (of.before)
            before_.emplace(comm, Held::state, Whole{of.before->data(), of.all, 1, of.size, sizeof(float), of.device},
                            0, 1,
                            comm.rank() == causeway::sharded::owners_of({{0, 0, starts.back()}}, 1, starts, false)[0]);
    }
    const float* first() const { return before_ ? static_cast<const float*>(before_->data()) : nullptr; }
    float* last() const { return static_cast<float*>(after_.data()); }
    void give_back() const {
        if (ends_) after_.give_back();
    }

private:
    std::optional<Local> before_;
    Local after_;
    bool ends_;
};

// The states after the last token to all processes.
void share_states(QueuedCommunicator& comm, const States& of, const Starts& starts) {
    const int owner = causeway::sharded::owners_of({{0, 0, starts.back()}}, 1, starts, true)[0];
    sharded::give_to_all(comm, owner, of.after.data(), of.after.bytes());
}

constexpr const char* several = "a call on several GPUs";

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

}  // namespace

ShardedLinearResult linear_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o,
                                             const Sharding& sharding) {
    refuse_packed(o.cu_seqlens, several);
    refuse_pool(o.state_indices, several);
    refuse_in_place(o.inplace, several);
    refuse_checkpoints(o.checkpoint_every, several);
    refuse_prefix(o.deterministic, several);
    calls::refuse_around(o, several);
    const gated::Call call = gated::check(q, k, v, o);
    if (o.qk_l2norm) {
        const gated::UnitRows unit = gated::unit_rows(q, k, o);
        return linear_attention_sharded(unit.q, unit.k, v, calls::without_l2norm(o), sharding);
    }
    const auto& n = call.sizes;
    sharded::refuse_shared(n);
    if (gated::is_causal(call.args, n, o)) {
        CausalOptions plain;
        plain.scale = o.scale;
        if (o.state) plain.state = o.state->to(DType::f32, o.stream).reshape(n.state_shape);
        plain.return_state = true;
        plain.stream = o.stream;
        ShardedCausalResult result = causal_linear_attention_sharded(q, k, v, plain, sharding);
        ShardedLinearResult out;
        out.O = result.O, out.state = result.state, out.report = std::move(result.report);
        return out;
    }
    const Workers workers = sharded::workers_of(sharding);
    const int home = sharded::current_device();
    const std::string exchange = exchange_of(sharding);
    sharded::agree(workers, distributed::Call::gpu_linear, sharded::given_of(n, o, sharding, workers),
                   sharded::compared(q, k, v, call, o), sharding.sizes, o.stream);
    const Starts starts = sharded::starts_of(workers, sharding, n.N, unit);
    const Tensor O(q.dtype(), n.output, o.stream);
    const States states(o.state, n.state_shape, o.stream);
    const Index rows = n.batch * n.heads, queries = rows * n.group;
    const auto program = [&](QueuedCommunicator& comm) {
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
        const LocalStates mine(comm, states, starts);
        sharded::GatedTokens part(a, o.mode, comm.stream());
        sharded::forward(comm, starts, part, causeway::sharded::exchanges()[exchange].exchange, mine.first(),
                         mine.last());
        const double seconds = comm.settle();
        mine_o.give_back(), mine.give_back();
        return seconds;
    };
    const auto share = [&](QueuedCommunicator& comm) {
        share_states(comm, states, starts);
        if (workers.share()) sharded::gather_tokens(comm, shares_of(starts), whole(O, queries, n.N, home));
    };
    // Not in nested braces: g++ 12 destroys what stands in the first of them twice where what comes after it throws.
    ShardedLinearResult out;
    out.report = sharded::run("linear_attention", exchange, static_cast<Index>(size_of(q.dtype())), workers, o.stream,
                              program, share);
    out.O = O, out.state = states.after;
    return out;
}

ShardedCausalResult causal_linear_attention_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                    const CausalOptions& o, const Sharding& sharding) {
    refuse_packed(o.cu_seqlens, several);
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
    const Shape state_shape{n.batch, n.heads, n.r, n.d};
    if (o.state) {
        causeway::CausalOptions forms;
        forms.state = o.state->form(), forms.normalize = o.normalize;
        causeway::exact::check_states(n, forms);
    }
    const Workers workers = sharded::workers_of(sharding);
    const int p = workers.p, home = sharded::current_device();
    ShardedCausalResult out;
    out.O = Tensor(V.dtype(), V.shape(), o.stream);
    std::optional<NormalStates> normal;
    if (o.normalize && o.state) normal = split_states(*o.state, o.stream);
    const std::optional<Tensor> none;
    const States states(normal ? std::optional(normal->sums) : o.state, state_shape, o.stream),
        keys(normal ? std::optional(normal->keys) : none, {n.batch, n.heads, n.r, o.normalize ? 1 : 0}, o.stream);
    CausalArgs all = causal_args(B, C, V, n, gamma, o.precision);
    all.block = o.block.value_or(0);
    sharded::agree(
        workers, distributed::Call::gpu_causal, given_of(n, gamma, o, sharding, workers),
        {{"B: values with the checksum", &B}, {"C: values with the checksum", &C}, {"V: values with the checksum", &V}},
        sharding.sizes, o.stream);
    const bool in_steps = sharded::on_all(workers, method.steps && (n.N == 0 || method.steps->possible(all)));
    const Starts parts = workers.parts ? sharded::starts_of(workers, sharding, n.N, unit) : Starts{0, n.N};
    const Index kept = kept_heads(n.heads, gamma, B.type(), parts.back() / p);
    // Where maps cost a pass over k and v, which the outputs do not make again, they beat the ring, unless all heads
    // forget.
    const std::string exchange =
        sharding.exchange == "auto" && in_steps && kept > 0 ? "all-scan" : exchange_of(sharding);
    const Starts starts = workers.parts ? parts : causal_starts(n, p, kept, exchange, in_steps, sharding);
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
        const LocalStates mine(comm, states, starts);
        sharded::CausalTokens part(a, method, comm.stream());
        sharded::forward(comm, starts, part, causeway::sharded::exchanges()[exchange].exchange, mine.first(),
                         mine.last());
        double seconds = comm.settle();
        if (o.normalize) {
            const LocalStates mine_keys(comm, keys, starts);
            sharded::KeyTokens divisors(a, comm.stream());
            sharded::forward(comm, starts, divisors, causeway::sharded::Exchange::all_scan, mine_keys.first(),
                             mine_keys.last());
            seconds += comm.settle();
            mine_keys.give_back();
        }
        mine_o.give_back(), mine.give_back();
        return seconds;
    };
    const auto share = [&](QueuedCommunicator& comm) {
        share_states(comm, states, starts);
        if (o.normalize) share_states(comm, keys, starts);
        if (workers.share()) sharded::gather_tokens(comm, shares_of(starts), whole(out.O, rows, n.N, home));
    };
    out.report = sharded::run("causal_linear_attention", exchange, static_cast<Index>(size_of(B.dtype())), workers,
                              o.stream, program, share);
    if (o.scale != 1 && !o.normalize)
        scale_by(out.O.data(), out.O.type(), out.O.size(), static_cast<float>(o.scale), o.stream);
    if (o.return_state) out.state = o.normalize ? joined_states(states.after, keys.after, o.stream) : states.after;
    return out;
}

}  // namespace causeway::gpu
