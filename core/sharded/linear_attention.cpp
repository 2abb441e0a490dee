#include "core/sharded/linear_attention.hpp"

#include <atomic>
#include <numeric>

#include "core/base/parallel.hpp"
#include "core/base/text.hpp"
#include "core/distributed/mpi.hpp"
#include "core/gradient/registry.hpp"
#include "core/sharded/all_to_all.hpp"
#include "core/sharded/exchange.hpp"
#include "core/sharded/linear_parts.hpp"
#include "core/sharded/run.hpp"

namespace causeway {
namespace {

using distributed::Held;
using distributed::truth;
using sharded::Communicator;
using sharded::Given;
using sharded::HeadExchange;
using sharded::HeadTensor;
using sharded::LinearGradPart;
using sharded::LinearPart;
using sharded::Starts;
using sharded::Team;

distributed::Call call_of(bool gradient) {
    return gradient ? distributed::Call::linear_grad : distributed::Call::linear;
}

// What arrives at the outputs of a call whose gradient is wanted.
struct Arriving {
    const Tensor* dO = nullptr;
    const Tensor* dstate = nullptr;
};

// What ranks compare: everything that the result depends on and every rank should have alike. o: with the offsets of
// all tokens, of which z is not.
void agree_on_all(Communicator& comm, const Team& team, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Arriving& arriving, const gated::Sizes& z, const LinearOptions& o, const std::string& exchange,
                  bool may_forget, const std::vector<Index>& sizes) {
    std::vector<Given> mine{sharded::given_type("q:", z.dtype),
                            {"v: batch", z.batch},
                            {"v: heads", z.heads},
                            {"q: heads", z.heads * z.group / z.shared_queries},
                            {"k: heads", z.heads / z.shared_keys},
                            {"q: width", z.dk},
                            {"v: width", z.dv},
                            {"log_decay: columns", z.gates},
                            {"update:", static_cast<std::int64_t>(z.update),
                             [](std::int64_t x) {
                                 for (const gated::Rule& rule : gated::updates())
                                     if (rule.update == static_cast<gated::Update>(x)) return in_quotes(rule.name);
                                 return std::string("unknown");
                             }},
                            {"mode:", z.mode - &*gated::modes().begin(),
                             [](std::int64_t x) { return in_quotes((&*gated::modes().begin() + x)->name); }},
                            {"chunk:", o.chunk},
                            sharded::given_number("scale:", o.scale),
                            {"qk_l2norm:", o.qk_l2norm, truth},
                            {"state: given", o.state ? 1 : 0, truth},
                            {"dstate: given", arriving.dstate ? 1 : 0, truth},
                            sharded::given_exchange(exchange),
                            {"exchange: left to the call", may_forget, truth},
                            {"sizes: number of lengths", static_cast<std::int64_t>(sizes.size())}};
    if (!team.parts) mine.push_back({"q: length", z.N});
    agree(comm, mine);
    agree(comm, sharded::given_offsets(o.cu_seqlens));
    agree(comm, sharded::given_sizes(sizes));
    if (team.parts) return;
    sharded::Named values{
        {"q: values with the checksum", &q}, {"k: values with the checksum", &k}, {"v: values with the checksum", &v}};
    if (o.log_decay) values.emplace_back("log_decay: values with the checksum", &*o.log_decay);
    if (o.beta) values.emplace_back("beta: values with the checksum", &*o.beta);
    if (o.state) values.emplace_back("state: values with the checksum", &*o.state);
    if (arriving.dO) values.emplace_back("dO: values with the checksum", arriving.dO);
    if (arriving.dstate) values.emplace_back("dstate: values with the checksum", arriving.dstate);
    agree(comm, sharded::sampled(values));
}

void refuse(const LinearOptions& o) {
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but workers that share a sequence keep no states");
    calls::refuse_around(o, "a call on several workers");
}

// Of the rank's own tensors, where its part begins: at their first token.
Starts local(const Starts& starts, const Team& team, int rank) {
    if (!team.parts) return starts;
    Starts mine = starts;
    for (Index& start : mine)
        start = std::clamp<Index>(start - starts[static_cast<std::size_t>(rank)], 0,
                                  starts[static_cast<std::size_t>(rank) + 1] - starts[static_cast<std::size_t>(rank)]);
    return mine;
}

template <class T>
sharded::Route route(Communicator& comm, const Team& team, const gated::Problem<T>& p,
                     const std::vector<gated::Sequence>& whole, const Starts& starts, int most_together) {
    sharded::Route z = sharded::route_of(whole, p.heads, starts, comm.rank());
    z.elements = p.dk * p.dv, z.rows = p.dk, z.carry = sharded::carry_of(p);
    z.together = team.mpi ? threads() : 1, z.most_together = most_together;
    return z;
}

// The heads of states that stay together in an exchange of heads: those that share a head of keys or of queries.
template <class T>
Index groups_of(const gated::Problem<T>& p) {
    return p.heads / std::lcm(p.shared_queries, p.shared_keys);
}

// Whose the states after the last tokens of all sequences are, or those before the first.
template <class T>
std::vector<int> owners(Communicator& comm, const Team& team, const gated::Problem<T>& p,
                        const std::vector<Index>& cu_seqlens, const Starts& starts, bool by_heads, bool last) {
    if (by_heads) return HeadExchange(comm, starts, !team.parts, groups_of(p)).owners(p.all_sequences(), p.heads);
    const auto whole = sharded::whole_sequences(cu_seqlens, p.batch, starts.back());
    return sharded::owners_of(whole, p.heads, starts, last);
}

// The rank's heads of a problem, over all tokens.
template <class T>
class OwnHeads {
public:
    OwnHeads(Communicator& comm, HeadExchange& by, const gated::Problem<T>& p)
        : q_(comm, by, Held::query, p.batch, p.heads * p.group / p.shared_queries, p.dk),
          k_(comm, by, Held::shard, p.batch, p.heads / p.shared_keys, p.dk),
          v_(comm, by, Held::shard, p.batch, p.heads, p.dv),
          g_(comm, by, Held::shard, p.batch, p.heads, p.gates),
          beta_(comm, by, Held::shard, p.batch, p.heads, p.beta ? 1 : 0),
          S_(comm, by, p.all_sequences(), p.heads, p.dk * p.dv) {}

    gated::Problem<T> brought(const HeadExchange& by, const gated::Problem<T>& p, const LinearOptions& o) {
        gated::Problem<T> own = p;
        own.heads = by.heads_here(p.heads).n, own.N = by.tokens();
        own.chunk = std::min(o.chunk, std::max<Index>(own.N, 1));
        if (!o.cu_seqlens.empty()) own.sequences = sharded::whole_sequences(o.cu_seqlens, p.batch, own.N);
        own.q = q_.brought(p.q), own.k = k_.brought(p.k), own.v = v_.brought(p.v);
        own.g = g_.brought(p.g), own.beta = beta_.brought(p.beta);
        own.S = S_.brought(p.S);
        return own;
    }
    void give_states(T* S) { S_.give(S); }

private:
    HeadTensor<T> q_, k_, v_, g_, beta_;
    sharded::HeadStates<T> S_;
};

template <class T, class Run>
void linear_by_heads(Communicator& comm, HeadExchange by, const gated::Problem<T>& p, const LinearOptions& o,
                     Run&& run) {
    OwnHeads<T> heads(comm, by, p);
    HeadTensor<T> O(comm, by, Held::partial, p.batch, p.heads * p.group, p.dv);
    comm.begin();
    gated::Problem<T> own = heads.brought(by, p, o);
    own.O = O.data();
    if (own.heads > 0) run(own);
    O.give(p.O);
    heads.give_states(p.S);
}

template <class T, class Back>
void linear_grad_by_heads(Communicator& comm, HeadExchange by, const gradient::GradProblem<T>& p,
                          const LinearOptions& o, Back&& back) {
    const gated::Problem<T>& in = p.in;
    OwnHeads<T> heads(comm, by, in);
    HeadTensor<T> dO(comm, by, Held::query, in.batch, in.heads * in.group, in.dv),
        dq(comm, by, Held::partial, in.batch, in.heads * in.group, in.dk),
        dk(comm, by, Held::partial, in.batch, in.heads, in.dk), dv(comm, by, Held::partial, in.batch, in.heads, in.dv),
        dg(comm, by, Held::partial, in.batch, in.heads, p.dg ? in.gates : 0),
        dbeta(comm, by, Held::partial, in.batch, in.heads, p.dbeta ? 1 : 0);
    sharded::HeadStates<T> dS(comm, by, in.all_sequences(), in.heads, in.dk * in.dv);
    comm.begin();
    gradient::GradProblem<T> own;
    own.in = heads.brought(by, in, o);
    own.dO = dO.brought(p.dO);
    own.dq = dq.data(), own.dk = dk.data(), own.dv = dv.data(), own.dg = dg.data(), own.dbeta = dbeta.data();
    own.dS = dS.brought(p.dS);
    if (own.in.heads > 0) back(own);
    dq.give(p.dq), dk.give(p.dk), dv.give(p.dv), dg.give(p.dg), dbeta.give(p.dbeta);
    dS.give(p.dS);
}

ShardedLinearResult forward_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o,
                                     const Sharding& sharding) {
    const Team team = sharded::team_of(sharding);
    refuse(o);
    const LinearOptions own = sharded::own_options(team, call_of(false), o, q, k);
    const gated::Sizes size = gated::check_sizes(q, k, v, own);
    const bool same_bits = calls::asks_for_bits_of_one(o.deterministic);
    const bool may_forget = sharded::may_forget(sharding, same_bits) && size.gates > 0;
    const sharded::Agreed agreed =
        sharded::agreed_exchange(team, sharding, same_bits, size.state_shape[0] * size.heads, call_of(false),
                                 o.cu_seqlens, [&](Communicator& comm, const std::string& chosen) {
                                     agree_on_all(comm, team, q, k, v, {}, size, o, chosen, may_forget, sharding.sizes);
                                 });
    const std::string& exchange = agreed.exchange;
    ShardReport report = sharded::report_of(team, "linear_attention", exchange, size.compute);
    const bool by_heads = exchange == "heads";
    const sharded::Exchange form = sharded::exchanges()[exchange].exchange;
    const auto on_team = [&]<class T>(const gated::Problem<T>& p) {
        Starts starts;
        std::atomic<bool> went_round = false;  // by the ring, whatever was chosen
        const auto run = kit::computing_in<T>(*size.mode);
        const auto program = [&](Communicator& comm) {
            const Starts mine = sharded::starts_of(comm, team, sharding, p.N, by_heads ? 1 : p.chunk);
            if (team.mpi) starts = mine;
            if (by_heads) return linear_by_heads(comm, {comm, mine, !team.parts, groups_of(p)}, p, o, run);
            const auto whole = sharded::whole_sequences(o.cu_seqlens, p.batch, mine.back());
            const sharded::Route z = route(comm, team, p, whole, mine, agreed.most_together);
            LinearPart<T> part(p, run, local(mine, team, comm.rank()), comm.rank(), may_forget);
            if (sharded::forward(comm, z, part, form, may_forget) == sharded::Exchange::ring) went_round = true;
        };
        const auto share = [&](Communicator& comm) {
            sharded::gather_owned(comm, owners(comm, team, p, o.cu_seqlens, starts, by_heads, true), p.S, p.dk * p.dv);
            if (!team.parts) sharded::gather_parts(comm, starts, p.O, p.batch * p.heads * p.group, p.dv);
        };
        sharded::run(team, program, share, report);
        if (went_round) report.algorithm = "ring";
    };
    return {gated::linear_attention_by({on_team, on_team}, q, k, v, own), report};
}

ShardedLinearGradient gradient_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                        const LinearOptions& o, const std::optional<Tensor>& dstate,
                                        const Sharding& sharding) {
    const Team team = sharded::team_of(sharding);
    refuse(o);
    const LinearOptions own = sharded::own_options(team, call_of(true), o, q, k);
    const gated::Sizes size = gated::check_sizes(q, k, v, own);
    gradient::check_linear_grad(size, v, dO, own, dstate);
    const bool same_bits = calls::asks_for_bits_of_one(o.deterministic);
    const bool may_forget = sharded::may_forget(sharding, same_bits) && size.gates > 0;
    const sharded::Agreed agreed =
        sharded::agreed_exchange(team, sharding, same_bits, size.state_shape[0] * size.heads, call_of(true),
                                 o.cu_seqlens, [&](Communicator& comm, const std::string& chosen) {
                                     agree_on_all(comm, team, q, k, v, {&dO, dstate ? &*dstate : nullptr}, size, o,
                                                  chosen, may_forget, sharding.sizes);
                                 });
    const std::string& exchange = agreed.exchange;
    ShardReport report = sharded::report_of(team, "linear_attention_grad", exchange, size.compute);
    const gradient::LinearForm& form = gradient::linear_forms()[o.mode];
    const bool by_heads = exchange == "heads";
    const auto on_team = [&]<class T>(const gradient::GradProblem<T>& p) {
        Starts starts;
        std::atomic<bool> went_round = false;  // by the ring, whatever was chosen
        const auto back = kit::computing_in<T>(form);
        const auto program = [&](Communicator& comm) {
            const Starts mine = sharded::starts_of(comm, team, sharding, p.in.N, by_heads ? 1 : p.in.chunk);
            if (team.mpi) starts = mine;
            if (by_heads) return linear_grad_by_heads(comm, {comm, mine, !team.parts, groups_of(p.in)}, p, o, back);
            const auto whole = sharded::whole_sequences(o.cu_seqlens, p.in.batch, mine.back());
            const sharded::Route z = route(comm, team, p.in, whole, mine, agreed.most_together);
            LinearGradPart<T> part(p, kit::computing_in<T>(*size.mode), back,
                                   std::string_view(form.name) == "chunkwise", local(mine, team, comm.rank()),
                                   comm.rank(), may_forget);
            const sharded::Exchange chosen = sharded::exchanges()[exchange].exchange;
            if (sharded::backward(comm, z, part, chosen) == sharded::Exchange::ring) went_round = true;
        };
        const auto share = [&](Communicator& comm) {
            sharded::gather_owned(comm, owners(comm, team, p.in, o.cu_seqlens, starts, by_heads, false), p.dS,
                                  p.in.dk * p.in.dv);
            if (team.parts) return;
            const Index rows = p.in.batch * p.in.heads;
            sharded::gather_parts(comm, starts, p.dq, rows * p.in.group, p.in.dk);
            sharded::gather_parts(comm, starts, p.dk, rows, p.in.dk);
            sharded::gather_parts(comm, starts, p.dv, rows, p.in.dv);
            if (p.dg) sharded::gather_parts(comm, starts, p.dg, rows, p.in.gates);
            if (p.dbeta) sharded::gather_parts(comm, starts, p.dbeta, rows, Index{1});
        };
        sharded::run(team, program, share, report);
        if (went_round) report.algorithm = "ring";
    };
    return {gradient::linear_attention_grad_by({on_team, on_team}, q, k, v, dO, own, dstate), report};
}

}  // namespace

ShardedLinearResult linear_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o,
                                             const Sharding& sharding) {
    return distributed::shared_call(sharded::on_mpi(sharding), [&] { return forward_on_ranks(q, k, v, o, sharding); });
}

ShardedLinearGradient linear_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                                    const LinearOptions& o, const std::optional<Tensor>& dstate,
                                                    const Sharding& sharding) {
    return distributed::shared_call(sharded::on_mpi(sharding),
                                    [&] { return gradient_on_ranks(q, k, v, dO, o, dstate, sharding); });
}

}  // namespace causeway
