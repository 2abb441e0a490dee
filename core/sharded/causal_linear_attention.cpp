#include "core/sharded/causal_linear_attention.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "core/base/parallel.hpp"
#include "core/distributed/mpi.hpp"
#include "core/kit/packed.hpp"
#include "core/kit/pool.hpp"
#include "core/sharded/all_to_all.hpp"
#include "core/sharded/causal_parts.hpp"
#include "core/sharded/exchange.hpp"
#include "core/sharded/run.hpp"

namespace causeway {
namespace {

using distributed::Held;
using distributed::truth;
using sharded::causal_chunk;
using sharded::CausalGradPart;
using sharded::CausalPart;
using sharded::CausalSizes;
using sharded::Communicator;
using sharded::Given;
using sharded::HeadExchange;
using sharded::HeadTensor;
using sharded::Piece;
using sharded::pieces_of;
using sharded::Starts;
using sharded::Team;
using sharded::unit_of;

distributed::Call call_of(bool gradient) {
    return gradient ? distributed::Call::causal_grad : distributed::Call::causal;
}

// A method, or "auto", by its place among all.
Given given_method(const std::string& name) {
    const auto& all = exact::methods();
    const auto at = std::find_if(all.begin(), all.end(), [&](const exact::Method& m) { return m.name == name; });
    return {"method:", at == all.end() ? -1 : std::distance(all.begin(), at),
            [](std::int64_t x) { return in_quotes(x < 0 ? "auto" : std::next(exact::methods().begin(), x)->name); }};
}

// What ranks compare. dO: of a call whose gradient is wanted, else null.
void agree_on_all(Communicator& comm, const Team& team, const Tensor& B, const Tensor& C, const Tensor& V,
                  const Tensor* dO, const CausalOptions& o, const std::string& method, const std::string& exchange,
                  bool may_forget, const std::vector<Index>& sizes) {
    const exact::Dimensions n = exact::check_inputs(B, C, V);
    std::vector<Given> mine{sharded::given_type("V:", n.dtype),
                            {"V: batch", n.batch},
                            {"V: heads", n.heads},
                            {"B: width", n.r},
                            {"V: width", n.d},
                            given_method(method),
                            {"block:", o.block.value_or(0)},
                            {"normalize:", o.normalize, truth},
                            sharded::given_number("scale:", o.scale),
                            {"decay: number of values", static_cast<std::int64_t>(o.decay.size())},
                            {"state: given", o.state ? 1 : 0, truth},
                            sharded::given_exchange(exchange),
                            {"exchange: left to the call", may_forget, truth},
                            {"sizes: number of lengths", static_cast<std::int64_t>(sizes.size())}};
    if (!team.parts) mine.push_back({"B: length", n.N});
    agree(comm, mine);
    std::vector<Given> decays;
    for (const double gamma : o.decay) decays.push_back(sharded::given_number("decay:", gamma));
    agree(comm, decays);
    agree(comm, sharded::given_offsets(o.cu_seqlens));
    agree(comm, sharded::given_sizes(sizes));
    if (team.parts) return;
    sharded::Named values{
        {"B: values with the checksum", &B}, {"C: values with the checksum", &C}, {"V: values with the checksum", &V}};
    if (o.state) values.emplace_back("state: values with the checksum", &*o.state);
    if (dO) values.emplace_back("dO: values with the checksum", dO);
    agree(comm, sharded::sampled(values));
}

void refuse(const CausalOptions& o) {
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but workers that share a sequence keep no states");
}

// The call with the states of packed sequences out of it: it is computed as one sequence, by a runner that knows the
// others' boundaries and has the states.
CausalOptions as_one_sequence(const CausalOptions& o, const std::string& method) {
    CausalOptions one = o;
    one.method = method;
    one.cu_seqlens.clear(), one.state.reset(), one.state_indices.clear();
    one.inplace = one.return_state = false;
    return one;
}

// The way of the states.
template <class T>
sharded::Route route(Communicator& comm, const Team& team, const CausalSizes<T>& sizes,
                     const std::vector<gated::Sequence>& whole, const Starts& starts, int most_together) {
    sharded::Route z = sharded::route_of(whole, sizes.heads, starts, comm.rank());
    z.elements = sizes.elements(), z.rows = sizes.r, z.carry = 1;
    z.together = team.mpi ? threads() : 1, z.most_together = most_together;
    return z;
}

// Whose the states after the last token of all sequences are, or those before the first.
template <class T>
std::vector<int> owners(Communicator& comm, const Team& team, const CausalSizes<T>& sizes,
                        const std::vector<gated::Sequence>& whole, const Starts& starts, bool by_heads, bool last) {
    if (by_heads)
        return HeadExchange(comm, starts, !team.parts, sizes.heads)
            .owners(static_cast<Index>(sizes.sequences.size()), sizes.heads);
    return sharded::owners_of(whole, sizes.heads, starts, last);
}

// All tokens of every sequence, on one rank.
std::vector<Piece> whole_pieces(const std::vector<gated::Sequence>& sequences) {
    std::vector<Piece> out;
    for (const gated::Sequence& s : sequences) out.push_back({0, s.n, false, false, true});
    return out;
}

// Sizes of the rank's heads over all tokens.
template <class T>
CausalSizes<T> own_sizes(const HeadExchange& by, const CausalSizes<T>& sizes, const T* C, const T* V,
                         const std::vector<Index>& cu_seqlens) {
    CausalSizes<T> own = sizes;
    const kit::Span heads = by.heads_here(sizes.heads);
    own.heads = heads.n, own.N = by.tokens(), own.C = C, own.V = V;
    own.sequences = sharded::whole_sequences(cu_seqlens, 1, own.N);
    own.decay = [&sizes, heads](Index i) { return sizes.decay(heads.first + i % heads.n); };
    return own;
}

template <class T>
void causal_by_heads(Communicator& comm, HeadExchange by, const exact::Method& method, const exact::Problem<T>& p,
                     const CausalSizes<T>& sizes, T* states, const CausalOptions& o) {
    HeadTensor<T> B(comm, by, Held::query, p.batch, p.heads, p.r), C(comm, by, Held::shard, p.batch, p.heads, p.r),
        V(comm, by, Held::shard, p.batch, p.heads, p.d), O(comm, by, Held::partial, p.batch, p.heads, p.d);
    sharded::HeadStates<T> S(comm, by, static_cast<Index>(sizes.sequences.size()), p.heads, sizes.elements());
    comm.begin();
    exact::Problem<T> own = p;
    own.heads = by.heads_here(p.heads).n, own.N = by.tokens();
    if (p.block > 0) own.block = std::min(o.block.value_or(method.block), std::max<Index>(own.N, 1));
    own.B = B.brought(p.B), own.C = C.brought(p.C), own.V = V.brought(p.V), own.O = O.data();
    own.state = S.brought(states);
    if (p.gamma) own.gamma = p.gamma + by.heads_here(p.heads).first;
    if (own.heads > 0 && o.cu_seqlens.empty()) {
        exact::run(method, own);
    } else if (own.heads > 0) {
        const CausalSizes<T> here = own_sizes(by, sizes, own.C, own.V, o.cu_seqlens);
        CausalPart<T> part(method, own, here, whole_pieces(here.sequences), own.state, false);
        parallel_for(here.states(), [&](Index i) { part.run(i, own.state + i * here.elements()); });
    }
    O.give(p.O);
    S.give(states);
}

template <class T>
void causal_grad_by_heads(Communicator& comm, HeadExchange by, const gradient::GradProblem<T>& p,
                          const CausalSizes<T>& sizes, const T* states, T* gradients, const CausalOptions& o) {
    const gated::Problem<T>& in = p.in;
    const auto tensor = [&](Held held, Index columns) {
        return HeadTensor<T>(comm, by, held, in.batch, in.heads, columns);
    };
    const auto count = static_cast<Index>(sizes.sequences.size());
    HeadTensor<T> q = tensor(Held::query, in.dk), k = tensor(Held::shard, in.dk), v = tensor(Held::shard, in.dv),
                  g = tensor(Held::shard, in.gates), dO = tensor(Held::query, in.dv), dq = tensor(Held::partial, in.dk),
                  dk = tensor(Held::partial, in.dk), dv = tensor(Held::partial, in.dv),
                  dg = tensor(Held::partial, p.dg ? in.gates : 0);
    sharded::HeadStates<T> S(comm, by, count, in.heads, sizes.elements()),
        dS(comm, by, count, in.heads, sizes.elements());
    comm.begin();
    gradient::GradProblem<T> own = p;
    own.in.heads = by.heads_here(in.heads).n, own.in.N = by.tokens();
    own.in.chunk = std::min(o.block.value_or(causal_chunk), std::max<Index>(own.in.N, 1));
    own.in.q = q.brought(in.q), own.in.k = k.brought(in.k), own.in.v = v.brought(in.v), own.in.g = g.brought(in.g);
    own.dO = dO.brought(p.dO);
    own.dq = dq.data(), own.dk = dk.data(), own.dv = dv.data(), own.dg = dg.data();
    own.in.S = S.brought(states), own.dS = dS.brought(gradients);
    if (own.in.heads > 0 && o.cu_seqlens.empty()) {
        gradient::run_causal_grad(own, sizes.normalize);
    } else if (own.in.heads > 0) {
        const CausalSizes<T> here = own_sizes(by, sizes, own.in.k, own.in.v, o.cu_seqlens);
        CausalGradPart<T> part(own, here, whole_pieces(here.sequences), own.in.S, own.dS, false);
        parallel_for(here.states(),
                     [&](Index i) { part.back(i, own.in.S + i * here.elements(), own.dS + i * here.elements()); });
    }
    dq.give(p.dq), dk.give(p.dk), dv.give(p.dv), dg.give(p.dg);
    dS.give(gradients);
}

ShardedCausalResult forward_on_ranks(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o,
                                     const Sharding& sharding) {
    const exact::Dimensions n = exact::check_inputs(B, C, V);
    const Team team = sharded::team_of(sharding);
    refuse(o);
    const bool packed = !o.cu_seqlens.empty();
    const CausalOptions here = sharded::own_options(team, call_of(false), o, B, C);
    CausalOptions own = here;
    own.return_state = true;
    if (own.method == "auto" && team.mpi) own.deterministic = own.deterministic.empty() ? "run" : own.deterministic;
    const exact::Method& method = causal_method(B, C, V, own);
    const DType compute = n.dtype == DType::f64 ? DType::f64 : DType::f32;
    const Index count = packed ? static_cast<Index>(o.cu_seqlens.size()) - 1 : n.batch;
    const bool same_bits = calls::asks_for_bits_of_one(o.deterministic);
    const bool may_forget = sharded::may_forget(sharding, same_bits) && !o.decay.empty();
    const sharded::Agreed agreed = sharded::agreed_exchange(
        team, sharding, same_bits, count * n.heads, call_of(false), o.cu_seqlens,
        [&](Communicator& comm, const std::string& chosen) {
            agree_on_all(comm, team, B, C, V, nullptr, o, method.name, chosen, may_forget, sharding.sizes);
        });
    const std::string& exchange = agreed.exchange;
    ShardReport report = sharded::report_of(team, "causal_linear_attention", exchange, compute);
    Tensor states;  // of packed sequences
    if (packed) {
        if (o.inplace && !o.state) fail("inplace: true, but no state is given, expected one to write to");
        states = o.state ? exact::states_of(n, here).copy()
                         : Tensor::zeros(compute, {count, n.heads, n.r, n.d + (o.normalize ? 1 : 0)});
        own = as_one_sequence(o, method.name);
    }
    const bool by_heads = exchange == "heads";
    const sharded::Exchange form = sharded::exchanges()[exchange].exchange;
    const auto on_team = [&]<class T>(const exact::Method& chosen, const exact::Problem<T>& p) {
        const auto decay = [&](Index i) { return p.decay_of(i); };
        const CausalSizes<T> sizes{p.heads,
                                   p.N,
                                   p.r,
                                   p.d,
                                   p.normalize,
                                   decay,
                                   p.C,
                                   p.V,
                                   sharded::whole_sequences(here.cu_seqlens, p.batch, p.N),
                                   causal_chunk,
                                   o.block.value_or(unit_of(p.block))};
        T* const all = packed ? states.data<T>() : p.state;
        Starts starts;
        std::atomic<bool> went_round = false;  // by the ring, whatever was chosen
        const auto program = [&](Communicator& comm) {
            const Starts mine = sharded::starts_of(comm, team, sharding, p.N, by_heads ? 1 : sizes.unit);
            if (team.mpi) starts = mine;
            if (by_heads) return causal_by_heads(comm, {comm, mine, !team.parts, p.heads}, chosen, p, sizes, all, o);
            const auto whole = sharded::whole_sequences(o.cu_seqlens, p.batch, mine.back());
            const sharded::Route z = route(comm, team, sizes, whole, mine, agreed.most_together);
            CausalPart<T> part(chosen, p, sizes, pieces_of(team, whole, mine, comm.rank()), all, may_forget);
            if (sharded::forward(comm, z, part, form, may_forget) == sharded::Exchange::ring) went_round = true;
        };
        const auto share = [&](Communicator& comm) {
            const auto whole = sharded::whole_sequences(o.cu_seqlens, p.batch, starts.back());
            sharded::gather_owned(comm, owners(comm, team, sizes, whole, starts, by_heads, true), all,
                                  sizes.elements());
            if (!team.parts) sharded::gather_parts(comm, starts, p.O, p.all_heads(), p.d);
        };
        sharded::run(team, program, share, report);
        if (went_round) report.algorithm = "ring";
    };
    ShardedCausalResult result{exact::causal_linear_attention_by({on_team, on_team}, B, C, V, own), report};
    if (packed && o.inplace) {
        result.state = *o.state;
        if (o.state_indices.empty()) kit::copy_to(states, result.state);
        else kit::to_slots(states, o.state_indices, result.state);
    } else if (packed) {
        result.state = states;
    }
    if (!o.return_state && !o.inplace) result.state = Tensor();
    return result;
}

ShardedCausalGradient gradient_on_ranks(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                        const CausalOptions& o, const Sharding& sharding) {
    const exact::Dimensions n = exact::check_inputs(B, C, V);
    const Team team = sharded::team_of(sharding);
    refuse(o);
    const bool packed = !o.cu_seqlens.empty();
    const CausalOptions here = sharded::own_options(team, call_of(true), o, B, C);
    const bool same_bits = calls::asks_for_bits_of_one(o.deterministic);
    const Index sequences = packed ? static_cast<Index>(o.cu_seqlens.size()) - 1 : n.batch;
    const bool may_forget = sharded::may_forget(sharding, same_bits) && !o.decay.empty() && !o.normalize;
    gradient::check_causal_grad(B, C, V, dO, here);
    const sharded::Agreed agreed = sharded::agreed_exchange(
        team, sharding, same_bits, sequences * n.heads, call_of(true), o.cu_seqlens,
        [&](Communicator& comm, const std::string& chosen) {
            agree_on_all(comm, team, B, C, V, &dO, o, o.method, chosen, may_forget, sharding.sizes);
        });
    const std::string& exchange = agreed.exchange;
    const bool by_heads = exchange == "heads";
    const DType compute = n.dtype == DType::f64 ? DType::f64 : DType::f32;
    ShardReport report = sharded::report_of(team, "causal_linear_attention_grad", exchange, compute);
    Tensor states, dstates;  // of packed sequences
    if (packed) {
        const auto count = static_cast<Index>(kit::packed_spans(here.cu_seqlens, n.batch, n.N).size());
        if (o.state) exact::check_states(n, here);
        dstates = Tensor::zeros(compute, {count, n.heads, n.r, n.d + (o.normalize ? 1 : 0)});
        states = o.state ? exact::states_of(n, here) : Tensor::zeros(compute, dstates.shape());
    }
    const std::vector<double> gamma = exact::check_decay(o.decay, n.heads);
    const auto on_team = [&]<class T>(const gradient::GradProblem<T>& p, bool normalize) {
        const auto decay = [&](Index h) {
            return gamma.empty() ? 1.0 : gamma[static_cast<std::size_t>(h % p.in.heads)];
        };
        const CausalSizes<T> sizes{p.in.heads, p.in.N,    p.in.dk,
                                   p.in.dv,    normalize, decay,
                                   p.in.k,     p.in.v,    sharded::whole_sequences(here.cu_seqlens, p.in.batch, p.in.N),
                                   p.in.chunk, p.in.chunk};
        const T* const before = packed ? states.data<T>() : p.in.S;
        T* const gradients = packed ? dstates.data<T>() : p.dS;
        Starts starts;
        std::atomic<bool> went_round = false;  // by the ring, whatever was chosen
        const auto program = [&](Communicator& comm) {
            const Starts mine = sharded::starts_of(comm, team, sharding, p.in.N, by_heads ? 1 : sizes.unit);
            if (team.mpi) starts = mine;
            if (by_heads)
                return causal_grad_by_heads(comm, {comm, mine, !team.parts, p.in.heads}, p, sizes, before, gradients,
                                            o);
            const auto whole = sharded::whole_sequences(o.cu_seqlens, p.in.batch, mine.back());
            const sharded::Route z = route(comm, team, sizes, whole, mine, agreed.most_together);
            CausalGradPart<T> part(p, sizes, pieces_of(team, whole, mine, comm.rank()), before, gradients, may_forget);
            const sharded::Exchange chosen = sharded::exchanges()[exchange].exchange;
            if (sharded::backward(comm, z, part, chosen) == sharded::Exchange::ring) went_round = true;
        };
        const auto share = [&](Communicator& comm) {
            const auto whole = sharded::whole_sequences(o.cu_seqlens, p.in.batch, starts.back());
            sharded::gather_owned(comm, owners(comm, team, sizes, whole, starts, by_heads, false), gradients,
                                  sizes.elements());
            if (team.parts) return;
            const Index rows = p.in.batch * p.in.heads;
            sharded::gather_parts(comm, starts, p.dq, rows, p.in.dk);
            sharded::gather_parts(comm, starts, p.dk, rows, p.in.dk);
            sharded::gather_parts(comm, starts, p.dv, rows, p.in.dv);
            if (p.dg) sharded::gather_parts(comm, starts, p.dg, rows, Index{1});
        };
        sharded::run(team, program, share, report);
        if (went_round) report.algorithm = "ring";
    };
    const CausalOptions own = packed ? as_one_sequence(o, o.method) : o;
    ShardedCausalGradient out{gradient::causal_linear_attention_grad_by({on_team, on_team}, B, C, V, dO, own), report};
    if (packed && o.state)
        out.dstate =
            o.state_indices.empty() ? dstates : kit::gradient_of_slots(dstates, o.state_indices, o.state->shape()[0]);
    if (team.parts && !out.ddecay.empty())  // every rank has added up its own tokens
        distributed::run_mpi([&](Communicator& comm) {
            const auto count = static_cast<Index>(out.ddecay.size());
            std::vector<double> all(static_cast<std::size_t>(count * comm.size()));
            all_gather(comm, all_ranks(comm), out.ddecay.data(), count, all.data());
            std::fill(out.ddecay.begin(), out.ddecay.end(), 0.0);
            for (std::size_t i = 0; i < all.size(); ++i) out.ddecay[i % out.ddecay.size()] += all[i];
        });
    return out;
}

}  // namespace

ShardedCausalResult causal_linear_attention_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                    const CausalOptions& o, const Sharding& sharding) {
    return distributed::shared_call(sharded::on_mpi(sharding), [&] { return forward_on_ranks(B, C, V, o, sharding); });
}

ShardedCausalGradient causal_linear_attention_grad_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                           const Tensor& dO, const CausalOptions& o,
                                                           const Sharding& sharding) {
    return distributed::shared_call(sharded::on_mpi(sharding),
                                    [&] { return gradient_on_ranks(B, C, V, dO, o, sharding); });
}

}  // namespace causeway
