#include "core/sharded/causal_linear_attention.hpp"

#include <bit>
#include <cmath>
#include <memory>

#include "core/base/parallel.hpp"
#include "core/base/text.hpp"
#include "core/distributed/mpi.hpp"
#include "core/gated/forms.hpp"
#include "core/gradient/chunk_passes.hpp"
#include "core/sharded/all_to_all.hpp"
#include "core/sharded/exchange.hpp"
#include "core/sharded/route.hpp"
#include "core/sharded/run.hpp"

namespace causeway {
namespace {

using distributed::Held;
using distributed::truth;
using sharded::Communicator;
using sharded::Given;
using sharded::HeadExchange;
using sharded::HeadTensor;
using sharded::Piece;
using sharded::Starts;
using sharded::Team;

// Chunks of passes over keys and values alone, and of splits for methods without a block of that size.
constexpr Index chunk = 64;

// What all heads of a call have in common, in the terms of core/exact/problem.hpp.
template <class T>
struct Sizes {
    Index heads = 1, N = 0, r = 0, d = 0;  // heads: of all entries of the batch
    bool normalize = false;
    std::function<double(Index)> decay;  // of a head
    const T *C = nullptr, *V = nullptr;

    Index width() const { return d + (normalize ? 1 : 0); }
    Index elements() const { return r * width(); }

    // S <- γ^n S + Σ_j γ^(n-j) c_jᵀ v_j over the tokens of a piece.
    void advance(Index head, const Piece& piece, T* S) const {
        if (piece.n == 0) return;
        const Index row = head * N + piece.offset, w = width();
        gated::Problem<T> one;
        one.N = piece.n, one.dk = r, one.dv = w, one.group = 0, one.chunk = std::min(chunk, piece.n);
        one.k = C + row * r, one.v = V + row * d, one.S = S;
        Buffer<T> wide(normalize ? piece.n * w : 0), gates;
        for (Index t = 0; t < piece.n && normalize; ++t) {
            std::copy_n(V + (row + t) * d, d, wide.data() + t * w);
            wide[t * w + d] = T(1);
        }
        if (normalize) one.v = wide.data();
        if (const double gamma = decay(head); gamma != 1) {
            gates = Buffer<T>(piece.n);
            std::fill_n(gates.data(), piece.n, static_cast<T>(std::log(gamma)));
            one.gates = 1, one.g = gates.data();
        }
        gated::run_chunkwise(one);
    }
    sharded::Work work(const Piece& piece, double products) const {
        const auto n = static_cast<double>(piece.n), key = static_cast<double>(r), value = static_cast<double>(d);
        return {2 * n * (key * value * products + static_cast<double>(chunk) / 2 * (key + value) * (products - 1)),
                n * (key + value) * products, 1};
    }
};

Piece piece_of(const Starts& starts, Index N, int rank) { return sharded::piece_of({0, 0, N}, starts, rank); }

template <class T>
class CausalPart final : public sharded::ByState<T> {
public:
    CausalPart(const exact::Method& method, const exact::Problem<T>& p, const Sizes<T>& sizes, const Piece& piece)
        : sharded::ByState<T>(sizes.elements(), 1), method_(method), p_(p), sizes_(sizes), piece_(piece) {}

    void first(Index i, T* S) const override { std::copy_n(p_.state_of(i), sizes_.elements(), S); }
    void last(Index i, const T* S) override { std::copy_n(S, sizes_.elements(), p_.state_of(i)); }
    void run(Index i, T* S) override {
        if (piece_.n == 0) return;
        const Index row = i * p_.N + piece_.offset;
        const double gamma = p_.decay_of(i);
        exact::Problem<T> one = p_;
        one.batch = one.heads = 1, one.N = piece_.n;
        one.B += row * p_.r, one.C += row * p_.r, one.V += row * p_.d, one.O += row * p_.d;
        one.gamma = p_.gamma ? &gamma : nullptr;
        one.block = std::min(p_.block, piece_.n);
        one.state = S;
        exact::run(method_, one);
    }
    void advance(Index i, T* S) const override { sizes_.advance(i, piece_, S); }
    void map(Index i, T* A) const override {
        A[0] = static_cast<T>(std::pow(sizes_.decay(i), static_cast<double>(piece_.n)));
    }
    sharded::Work run_work(Index) const override { return sizes_.work(piece_, 2); }
    sharded::Work advance_work(Index) const override { return sizes_.work(piece_, 1); }

private:
    const exact::Method& method_;
    const exact::Problem<T>& p_;
    const Sizes<T>& sizes_;
    Piece piece_;
};

template <class T>
class CausalGradPart final : public sharded::GradByState<T> {
public:
    CausalGradPart(const gradient::GradProblem<T>& p, const Sizes<T>& sizes, const Piece& piece)
        : sharded::GradByState<T>(sizes.elements(), 1),
          p_(p),
          sizes_(sizes),
          piece_(piece),
          passes_(static_cast<std::size_t>(sizes.heads)) {}

    void first(Index i, T* S) const override { std::copy_n(p_.in.S + i * sizes_.elements(), sizes_.elements(), S); }
    void last(Index, const T*) override {}
    void run(Index i, T* S) override { advance(i, S); }
    void advance(Index i, T* S) const override { sizes_.advance(i, piece_, S); }
    void map(Index, T*) const override {}
    void last_gradient(Index i, T* dS) const override {
        std::copy_n(p_.dS + i * sizes_.elements(), sizes_.elements(), dS);
    }
    void first_gradient(Index i, const T* dS) override {
        std::copy_n(dS, sizes_.elements(), p_.dS + i * sizes_.elements());
    }
    void forth(Index i, const T* S, T* dS) override {
        std::copy_n(S, sizes_.elements(), dS);
        if (sizes_.normalize || piece_.n == 0) return advance(i, dS);
        auto& passes = passes_[static_cast<std::size_t>(i)];
        const gradient::GradProblem<T> one = tokens(i, S, dS);
        passes = std::make_unique<gradient::ChunkPasses<T>>(one.head(0), one.in.chunk);
        passes->forward(dS);
    }
    void back(Index i, const T* S, T* dS) override {
        if (piece_.n == 0) return;
        auto& passes = passes_[static_cast<std::size_t>(i)];
        if (!passes) return gradient::run_causal_grad(tokens(i, S, dS), sizes_.normalize);
        passes->backward();
        passes.reset();
    }
    Index kept(Index) const override {
        if (sizes_.normalize || piece_.n == 0 || !p_.in.g) return 0;
        const Index c = std::min(p_.in.chunk, piece_.n);
        return (piece_.n + c - 1) / c * sizes_.elements();
    }
    sharded::Work run_work(Index) const override { return sizes_.work(piece_, 1); }
    sharded::Work advance_work(Index) const override { return sizes_.work(piece_, 1); }
    sharded::Work forth_work(Index) const override { return sizes_.work(piece_, 1); }
    sharded::Work back_work(Index) const override { return sizes_.work(piece_, 5); }

private:
    // The rank's tokens of head i as a problem of their own.
    gradient::GradProblem<T> tokens(Index i, const T* S, T* dS) const {
        const Index row = i * p_.in.N + piece_.offset, r = p_.in.dk, d = p_.in.dv;
        gradient::GradProblem<T> one = p_;
        one.in.batch = one.in.heads = 1, one.in.N = piece_.n;
        one.in.chunk = std::min(p_.in.chunk, piece_.n);
        one.in.q += row * r, one.in.k += row * r, one.in.v += row * d;
        if (one.in.g) one.in.g += row, one.dg += row;
        one.in.S = const_cast<T*>(S);  // the backward pass does not change it
        one.dO += row * d, one.dq += row * r, one.dk += row * r, one.dv += row * d;
        one.dS = dS;
        return one;
    }

    const gradient::GradProblem<T>& p_;
    const Sizes<T>& sizes_;
    Piece piece_;
    std::vector<std::unique_ptr<gradient::ChunkPasses<T>>> passes_;  // of the heads whose first pass is done
};

void agree_on_call(Communicator& comm, const Team& team, bool gradient, const Tensor& B, const Tensor& C,
                   const Tensor& V, const CausalOptions& o, const std::string& method, const std::string& exchange,
                   Index sizes) {
    distributed::agree_on_call(comm, gradient ? distributed::Call::causal_grad : distributed::Call::causal);
    const exact::Dimensions n = exact::check_inputs(B, C, V);
    std::vector<Given> mine{
        {"V:", static_cast<std::int64_t>(n.dtype),
         [](std::int64_t x) -> std::string { return name(static_cast<DType>(x)); }},
        {"V: batch", n.batch},
        {"V: heads", n.heads},
        {"B: width", n.r},
        {"V: width", n.d},
        {"method: a name with the checksum",
         distributed::checksum(std::vector<float>(method.begin(), method.end()).data(),
                               static_cast<Index>(method.size()))},
        {"block:", o.block.value_or(0)},
        {"normalize:", o.normalize, truth},
        {"scale:", std::bit_cast<std::int64_t>(o.scale),
         [](std::int64_t x) { return number_text(std::bit_cast<double>(x)); }},
        {"decay: number of values", static_cast<std::int64_t>(o.decay.size())},
        {"decay: values with the checksum", distributed::checksum(o.decay.data(), static_cast<Index>(o.decay.size()))},
        {"state: given", o.state ? 1 : 0, truth},
        {"sharded:", team.parts, truth},
        {"exchange: number", static_cast<std::int64_t>(sharded::exchanges()[exchange].exchange)},
        {"sizes: number of lengths", sizes}};
    if (!team.parts) mine.push_back({"B: length", n.N});
    agree(comm, mine);
    if (!team.parts)
        agree(comm, sharded::sampled({{"B: values with the checksum", &B},
                                      {"C: values with the checksum", &C},
                                      {"V: values with the checksum", &V}}));
}

void refuse(const CausalOptions& o) {
    if (!o.cu_seqlens.empty())
        fail("cu_seqlens: given with shards, expected one sequence; linear_attention spreads packed ones over workers");
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but workers that share a sequence keep no states");
}

Index unit_of(Index block) { return block >= 1 && block <= 256 ? block : chunk; }

// The rank's tokens among those of its own tensors, and the way of the states.
template <class T>
sharded::Route route(Communicator& comm, const Team& team, const Sizes<T>& sizes, const Starts& starts, Index batch) {
    const Index N = starts.back();
    sharded::Route z = sharded::route_of(std::vector<gated::Sequence>(static_cast<std::size_t>(batch), {0, 0, N}),
                                         sizes.heads / std::max<Index>(batch, 1), starts, comm.rank());
    z.elements = sizes.elements(), z.rows = sizes.r, z.carry = 1;
    z.together = team.mpi ? threads() : 1;
    return z;
}

// Whose the states after the last token of all heads are, or those before the first.
std::vector<int> owners(Communicator& comm, const Team& team, Index batch, Index heads, const Starts& starts,
                        bool by_heads, bool last) {
    if (by_heads) return HeadExchange(comm, starts, !team.parts, heads).owners(batch, heads);
    const std::vector<gated::Sequence> whole(static_cast<std::size_t>(batch), {0, 0, starts.back()});
    return sharded::owners_of(whole, heads, starts, last);
}

Piece own_piece(const Team& team, const Starts& starts, int rank) {
    Piece piece = piece_of(starts, starts.back(), rank);
    if (team.parts) piece.offset = 0;
    return piece;
}

template <class T>
void causal_by_heads(Communicator& comm, HeadExchange by, const exact::Method& method, const exact::Problem<T>& p,
                     const CausalOptions& o) {
    HeadTensor<T> B(comm, by, Held::query, p.batch, p.heads, p.r), C(comm, by, Held::shard, p.batch, p.heads, p.r),
        V(comm, by, Held::shard, p.batch, p.heads, p.d), O(comm, by, Held::partial, p.batch, p.heads, p.d);
    sharded::HeadStates<T> S(comm, by, p.batch, p.heads, p.r * p.state_width());
    comm.begin();
    exact::Problem<T> own = p;
    own.heads = by.heads_here(p.heads).n, own.N = by.tokens();
    if (p.block > 0) own.block = std::min(o.block.value_or(method.block), std::max<Index>(own.N, 1));
    own.B = B.brought(p.B), own.C = C.brought(p.C), own.V = V.brought(p.V), own.O = O.data();
    own.state = S.brought(p.state);
    if (p.gamma) own.gamma = p.gamma + by.heads_here(p.heads).first;
    if (own.heads > 0) exact::run(method, own);
    O.give(p.O);
    S.give(p.state);
}

template <class T>
void causal_grad_by_heads(Communicator& comm, HeadExchange by, const gradient::GradProblem<T>& p, bool normalize,
                          Index width, Index block) {
    const gated::Problem<T>& in = p.in;
    const auto tensor = [&](Held held, Index columns) {
        return HeadTensor<T>(comm, by, held, in.batch, in.heads, columns);
    };
    HeadTensor<T> q = tensor(Held::query, in.dk), k = tensor(Held::shard, in.dk), v = tensor(Held::shard, in.dv),
                  g = tensor(Held::shard, in.gates), dO = tensor(Held::query, in.dv), dq = tensor(Held::partial, in.dk),
                  dk = tensor(Held::partial, in.dk), dv = tensor(Held::partial, in.dv),
                  dg = tensor(Held::partial, p.dg ? in.gates : 0);
    sharded::HeadStates<T> S(comm, by, in.batch, in.heads, in.dk * width),
        dS(comm, by, in.batch, in.heads, in.dk * width);
    comm.begin();
    gradient::GradProblem<T> own = p;
    own.in.heads = by.heads_here(in.heads).n, own.in.N = by.tokens();
    own.in.chunk = std::min(block, std::max<Index>(own.in.N, 1));
    own.in.q = q.brought(in.q), own.in.k = k.brought(in.k), own.in.v = v.brought(in.v), own.in.g = g.brought(in.g);
    own.dO = dO.brought(p.dO);
    own.dq = dq.data(), own.dk = dk.data(), own.dv = dv.data(), own.dg = dg.data();
    own.in.S = S.brought(in.S), own.dS = dS.brought(p.dS);
    if (own.in.heads > 0) gradient::run_causal_grad(own, normalize);
    dq.give(p.dq), dk.give(p.dk), dv.give(p.dv), dg.give(p.dg);
    dS.give(p.dS);
}

}  // namespace

ShardedCausalResult causal_linear_attention_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                    const CausalOptions& o, const Sharding& sharding) {
    const exact::Dimensions n = exact::check_inputs(B, C, V);
    const Team team = sharded::team_of(sharding);
    refuse(o);
    CausalOptions own = o;
    own.return_state = true;
    if (own.method == "auto" && team.mpi) own.deterministic = own.deterministic.empty() ? "run" : own.deterministic;
    const exact::Method& method = causal_method(B, C, V, own);
    const std::string exchange = sharded::chosen_exchange(sharding.exchange, o.deterministic == "prefix",
                                                          n.batch * n.heads, team.ranks, team.mpi ? threads() : 1);
    ShardReport report =
        sharded::report_of(team, "causal_linear_attention", exchange, n.dtype == DType::f64 ? DType::f64 : DType::f32);
    if (team.mpi)
        distributed::run_mpi([&](Communicator& comm) {
            agree_on_call(comm, team, false, B, C, V, o, method.name, exchange,
                          static_cast<Index>(sharding.sizes.size()));
        });
    const bool by_heads = exchange == "heads";
    const auto on_team = [&]<class T>(const exact::Method& chosen, const exact::Problem<T>& p) {
        const Sizes<T> sizes{p.all_heads(), p.N, p.r, p.d, p.normalize, [&](Index h) { return p.decay_of(h); },
                             p.C,           p.V};
        Starts starts;
        const auto program = [&](Communicator& comm) {
            const Starts mine = sharded::starts_of(comm, team, sharding, p.N, by_heads ? 1 : unit_of(p.block));
            if (team.mpi) starts = mine;
            if (by_heads) return causal_by_heads(comm, {comm, mine, !team.parts, p.heads}, chosen, p, o);
            const sharded::Route z = route(comm, team, sizes, mine, p.batch);
            CausalPart<T> part(chosen, p, sizes, own_piece(team, mine, comm.rank()));
            sharded::forward(comm, z, part, sharded::exchanges()[exchange].exchange);
        };
        const auto share = [&](Communicator& comm) {
            sharded::gather_owned(comm, owners(comm, team, p.batch, p.heads, starts, by_heads, true), p.state,
                                  sizes.elements());
            if (!team.parts) sharded::gather_parts(comm, starts, p.O, p.all_heads(), p.d);
        };
        sharded::run(team, program, share, report);
    };
    ShardedCausalResult result{exact::causal_linear_attention_by({on_team, on_team}, B, C, V, own), report};
    if (!o.return_state && !o.inplace) result.state = Tensor();
    return result;
}

ShardedCausalGradient causal_linear_attention_grad_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                           const Tensor& dO, const CausalOptions& o,
                                                           const Sharding& sharding) {
    const exact::Dimensions n = exact::check_inputs(B, C, V);
    const Team team = sharded::team_of(sharding);
    refuse(o);
    const std::string exchange = sharded::chosen_ring(sharding.exchange);
    const bool by_heads = exchange == "heads";
    ShardReport report = sharded::report_of(team, "causal_linear_attention_grad", exchange,
                                            n.dtype == DType::f64 ? DType::f64 : DType::f32);
    if (team.mpi)
        distributed::run_mpi([&](Communicator& comm) {
            agree_on_call(comm, team, true, B, C, V, o, o.method, exchange, static_cast<Index>(sharding.sizes.size()));
        });
    const std::vector<double> gamma = exact::check_decay(o.decay, n.heads);
    const auto on_team = [&]<class T>(const gradient::GradProblem<T>& p, bool normalize) {
        const auto decay = [&](Index h) {
            return gamma.empty() ? 1.0 : gamma[static_cast<std::size_t>(h % p.in.heads)];
        };
        const Sizes<T> sizes{p.in.batch * p.in.heads, p.in.N, p.in.dk, p.in.dv, normalize, decay, p.in.k, p.in.v};
        Starts starts;
        const auto program = [&](Communicator& comm) {
            const Starts mine = sharded::starts_of(comm, team, sharding, p.in.N, by_heads ? 1 : unit_of(p.in.chunk));
            if (team.mpi) starts = mine;
            if (by_heads)
                return causal_grad_by_heads(comm, {comm, mine, !team.parts, p.in.heads}, p, normalize, sizes.width(),
                                            o.block.value_or(chunk));
            const sharded::Route z = route(comm, team, sizes, mine, p.in.batch);
            CausalGradPart<T> part(p, sizes, own_piece(team, mine, comm.rank()));
            sharded::backward(comm, z, part);
        };
        const auto share = [&](Communicator& comm) {
            sharded::gather_owned(comm, owners(comm, team, p.in.batch, p.in.heads, starts, by_heads, false), p.dS,
                                  sizes.elements());
            if (team.parts) return;
            sharded::gather_parts(comm, starts, p.dq, sizes.heads, p.in.dk);
            sharded::gather_parts(comm, starts, p.dk, sizes.heads, p.in.dk);
            sharded::gather_parts(comm, starts, p.dv, sizes.heads, p.in.dv);
            if (p.dg) sharded::gather_parts(comm, starts, p.dg, sizes.heads, Index{1});
        };
        sharded::run(team, program, share, report);
    };
    ShardedCausalGradient out{gradient::causal_linear_attention_grad_by({on_team, on_team}, B, C, V, dO, o), report};
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

}  // namespace causeway
