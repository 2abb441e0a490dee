#include "core/sharded/softmax_attention.hpp"

#include <limits>

#include "core/base/text.hpp"
#include "core/distributed/mpi.hpp"
#include "core/gradient/registry.hpp"
#include "core/sharded/all_to_all.hpp"
#include "core/sharded/exchange.hpp"
#include "core/sharded/run.hpp"
#include "core/sharded/softmax_ring.hpp"

namespace causeway {
namespace {

using attention::Sizes;
using distributed::Held;
using distributed::truth;
using sharded::Communicator;
using sharded::Given;
using sharded::HeadExchange;
using sharded::HeadTensor;
using sharded::Shares;
using sharded::SoftmaxRing;
using sharded::SoftmaxTensors;
using sharded::Starts;
using sharded::Team;

distributed::Call call_of(bool gradient) {
    return gradient ? distributed::Call::softmax_grad : distributed::Call::softmax;
}

// dO: of a call whose gradient is wanted, else null; has_forward: whether that call's results are given.
void agree_on_call(Communicator& comm, const Team& team, const Sizes& c, const Tensor& q, const Tensor& k,
                   const Tensor& v, const Tensor* dO, bool has_forward, const SoftmaxOptions& o,
                   const std::string& exchange, const std::vector<Index>& sizes) {
    sharded::agree_on_call(comm, team.parts, call_of(dO != nullptr), o.cu_seqlens);
    std::vector<Given> mine{sharded::given_type("q:", c.dtype),
                            {"q: batch", c.batch},
                            {"k: heads", c.heads},
                            {"q: heads", c.heads * c.group},
                            {"q: width", c.d},
                            {"v: width", c.dv},
                            {"causal:", c.causal, truth},
                            {"method:", c.method - &*attention::methods().begin(),
                             [](std::int64_t x) { return in_quotes((&*attention::methods().begin() + x)->name); }},
                            sharded::given_number("scale:", c.scale),
                            {"exchange: \"heads\",", exchange == "heads", truth},
                            {"O and lse: given", has_forward, truth},
                            {"sizes: number of lengths", static_cast<std::int64_t>(sizes.size())}};
    if (!team.parts) mine.push_back({"q: length", c.N}), mine.push_back({"k: length", c.M});
    agree(comm, mine);
    agree(comm, sharded::given_offsets(o.cu_seqlens));
    agree(comm, sharded::given_sizes(sizes));
    if (team.parts) return;
    sharded::Named values{
        {"q: values with the checksum", &q}, {"k: values with the checksum", &k}, {"v: values with the checksum", &v}};
    if (dO) values.emplace_back("dO: values with the checksum", dO);
    agree(comm, sharded::sampled(values));
}

void check_sharded(const Sizes& c, const Sharding& sharding) {
    if (c.causal && c.N != c.M)
        fail("q: length ", c.N, ", expected ", c.M,
             " like k, with causal = true and shards; tree_decode and ring_decode spread a cache over workers");
    if (!c.causal && !sharding.sizes.empty() && c.N != c.M)
        fail("sizes: given for ", c.N, " queries and ", c.M, " keys, expected as many of both");
}

// Who has which queries and keys while they are computed with, and who has which in the callers' tensors: all of them,
// or those of the ranks' own, `parts`, which with causal do other work than they are given, for all to have the same.
// In an exchange of heads those of the callers' are computed with.
struct Cut {
    SoftmaxRing ring;
    Shares query_parts, key_parts;
    Starts queries, keys;
    std::vector<kit::Span> packed;  // the sequences, where there are several
};
Cut cut(Communicator& comm, const Team& team, const Sharding& sharding, const Sizes& c, const SoftmaxOptions& o,
        bool by_heads) {
    Cut out;
    SoftmaxRing& z = out.ring;
    z.batch = c.batch, z.heads = c.heads, z.group = c.group, z.d = c.d, z.dv = c.dv;
    z.causal = c.causal, z.scale = c.scale;
    out.queries = sharded::starts_of(comm, team, sharding, c.N, 1);
    out.keys = sharded::starts_of(comm, team, sharding, c.M, 1);
    z.queries = sharded::shares_of(out.queries), z.keys = sharded::shares_of(out.keys);
    if (!o.cu_seqlens.empty()) out.packed = kit::packed_spans(o.cu_seqlens, c.batch, out.queries.back());
    if (by_heads) return out;
    if (team.parts) out.query_parts = z.queries, out.key_parts = z.keys;
    const bool in_zigzag = c.causal && sharding.sizes.empty() && comm.size() > 1;
    if (!out.packed.empty()) {
        z.pieces_of_one = in_zigzag ? 2 : 1;
        z.queries = in_zigzag ? sharded::packed_zigzag(out.packed, comm.size())
                              : sharded::packed_shares(out.packed, out.queries);
        z.keys = z.queries;
        return out;
    }
    if (in_zigzag) z.queries = z.keys = sharded::zigzag(out.queries.back(), comm.size());
    return out;
}

// What the rank computes with and on: the caller's tensors, or where every rank has its part a copy of its own, laid
// out by the cut.
template <class T>
class Local {
public:
    Local(Communicator& comm, const Cut& by, const SoftmaxTensors<T>& given) : comm_(comm), by_(by), x_(given) {
        if (by.query_parts.empty()) return;
        x_.own_queries = &by.ring.queries_of(comm.rank()), x_.own_keys = &by.ring.keys_of(comm.rank());
        x_.N = sharded::length_of(*x_.own_queries), x_.M = sharded::length_of(*x_.own_keys);
    }

    SoftmaxTensors<T>& tensors() { return x_; }
    // Inputs [.., tokens, width] of queries, or of keys.
    void bring_queries(const T*& x, Index width) {
        bring(x, query_rows(), width, by_.query_parts, by_.ring.queries, x_.N);
    }
    void bring_queries(T*& x, Index width) {
        const T* from = x;
        bring_queries(from, width);
        x = const_cast<T*>(from);
    }
    void bring_keys(const T*& x, Index width) {
        bring(x, by_.ring.all_heads(), width, by_.key_parts, by_.ring.keys, x_.M);
    }
    // Room for outputs, which `to` gets when they are there.
    void make_queries(T*& x, Index width) { make(x, query_rows() * x_.N * width); }
    void make_keys(T*& x, Index width) { make(x, by_.ring.all_heads() * x_.M * width); }
    void return_queries(const T* x, Index width, T* to) {
        if (!by_.query_parts.empty())
            sharded::redistribute(comm_, query_rows(), width, by_.ring.queries, x, by_.query_parts, to);
    }
    void return_keys(const T* x, Index width, T* to) {
        if (!by_.query_parts.empty())
            sharded::redistribute(comm_, by_.ring.all_heads(), width, by_.ring.keys, x, by_.key_parts, to);
    }

private:
    Index query_rows() const { return by_.ring.all_heads() * by_.ring.group; }
    void bring(const T*& x, Index rows, Index width, const Shares& from, const Shares& to, Index n) {
        if (by_.query_parts.empty()) return;
        copies_.emplace_back(rows * n * width);
        sharded::redistribute(comm_, rows, width, from, x, to, copies_.back().data());
        x = copies_.back().data();
    }
    void make(T*& x, Index n) {
        if (by_.query_parts.empty()) return;
        copies_.emplace_back(n);
        x = copies_.back().data();
    }

    Communicator& comm_;
    const Cut& by_;
    SoftmaxTensors<T> x_;
    std::vector<Buffer<T>> copies_;
};

// Queries that weigh no key although they see some, having scores of -Inf alone, have no output, as on one worker.
template <class T>
void divide_by_nothing(Tensor& O, const Tensor& l, Index M, Index dv) {
    const T* weights = l.data<T>();
    for (Index i = 0; i < l.size() && M > 0; ++i)
        if (weights[i] == T(0)) std::fill_n(O.data<T>() + i * dv, dv, std::numeric_limits<T>::quiet_NaN());
}

// O, m and l of all queries.
struct Forward {
    Tensor O, m, l;
};

template <class T>
SoftmaxTensors<T> tensors_of(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v, Forward& out) {
    SoftmaxTensors<T> x;
    x.q = q.data<T>(), x.k = k.data<T>(), x.v = v.data<T>();
    x.O = out.O.data<T>(), x.m = out.m.data<T>(), x.l = out.l.data<T>();
    x.N = c.N, x.M = c.M;
    return x;
}

// The rank's heads over all tokens.
template <class T>
struct OwnHeads {
    OwnHeads(Communicator& comm, const Team& team, const Cut& by)
        : z(by.ring),
          queries(comm, by.queries, !team.parts, z.heads),
          keys(comm, by.keys, !team.parts, z.heads),
          q(comm, queries, Held::query, z.batch, z.heads * z.group, z.d),
          k(comm, keys, Held::shard, z.batch, z.heads, z.d),
          v(comm, keys, Held::shard, z.batch, z.heads, z.dv),
          O(comm, queries, Held::partial, z.batch, z.heads * z.group, z.dv),
          m(comm, queries, Held::partial, z.batch, z.heads * z.group, 1),
          l(comm, queries, Held::partial, z.batch, z.heads * z.group, 1) {}

    attention::Problem<T> brought(const SoftmaxTensors<T>& x) {
        attention::Problem<T> p;
        p.batch = z.batch, p.heads = keys.heads_here(z.heads).n, p.group = z.group;
        p.N = queries.tokens(), p.M = keys.tokens(), p.d = z.d, p.dv = z.dv;
        p.causal = z.causal, p.scale = static_cast<T>(z.scale);
        p.q = q.brought(x.q), p.k = k.brought(x.k), p.v = v.brought(x.v);
        p.O = O.data(), p.m = m.data(), p.l = l.data();
        return p;
    }

    const SoftmaxRing& z;
    HeadExchange queries, keys;
    HeadTensor<T> q, k, v, O, m, l;
};

// The tokens of a sequence in rows of all tokens, cut out and put back: a problem has its rows one after the other.
template <class T>
class CutOut {
public:
    CutOut(Index rows, Index N, Index width, kit::Span t)
        : rows_(rows), N_(N), width_(width), t_(t), own_(rows * t.n * width) {}
    T* of(const T* x) {
        sharded::detail::pack(x, rows_, N_, width_, t_, own_.data());
        return own_.data();
    }
    T* data() { return own_.data(); }
    void put(T* x) const { sharded::detail::unpack(x, rows_, N_, width_, t_, own_.data()); }

private:
    Index rows_, N_, width_;
    kit::Span t_;
    Buffer<T> own_;
};

// run(problem), or of packed sequences that of each.
template <class T, class Run>
void each_sequence(const Cut& by, const attention::Problem<T>& p, Run&& run) {
    if (by.packed.empty()) return run(p);
    const Index keys = p.batch * p.heads, queries = keys * p.group;
    for (const kit::Span& t : by.packed) {
        if (t.n == 0) continue;
        CutOut<T> q(queries, p.N, p.d, t), k(keys, p.M, p.d, t), v(keys, p.M, p.dv, t), O(queries, p.N, p.dv, t),
            m(queries, p.N, 1, t), l(queries, p.N, 1, t);
        attention::Problem<T> one = p;
        one.N = one.M = t.n;
        one.q = q.of(p.q), one.k = k.of(p.k), one.v = v.of(p.v);
        one.O = O.data(), one.m = m.data(), one.l = l.data();
        run(one);
        O.put(p.O), m.put(p.m), l.put(p.l);
    }
}
template <class T, class Back>
void each_sequence_back(const Cut& by, const gradient::SoftmaxGradProblem<T>& g, Back&& back) {
    if (by.packed.empty()) return back(g);
    const attention::Problem<T>& p = g.in;
    const Index keys = p.batch * p.heads, queries = keys * p.group;
    for (const kit::Span& t : by.packed) {
        if (t.n == 0) continue;
        CutOut<T> q(queries, p.N, p.d, t), k(keys, p.M, p.d, t), v(keys, p.M, p.dv, t), O(queries, p.N, p.dv, t),
            m(queries, p.N, 1, t), l(queries, p.N, 1, t), dO(queries, p.N, p.dv, t), dq(queries, p.N, p.d, t),
            dk(keys, p.M, p.d, t), dv(keys, p.M, p.dv, t);
        gradient::SoftmaxGradProblem<T> one = g;
        one.in.N = one.in.M = t.n;
        one.in.q = q.of(p.q), one.in.k = k.of(p.k), one.in.v = v.of(p.v);
        one.in.O = O.of(p.O), one.in.m = m.of(p.m), one.in.l = l.of(p.l), one.dO = dO.of(g.dO);
        one.dq = dq.data(), one.dk = dk.data(), one.dv = dv.data();
        back(one);
        dq.put(g.dq), dk.put(g.dk), dv.put(g.dv);
    }
}

template <class T, class Run>
void softmax_by_heads(Communicator& comm, const Team& team, const Cut& by, const SoftmaxTensors<T>& x, Run&& run) {
    OwnHeads<T> heads(comm, team, by);
    comm.begin();
    const attention::Problem<T> own = heads.brought(x);
    if (own.heads > 0) each_sequence(by, own, run);
    heads.O.give(x.O), heads.m.give(x.m), heads.l.give(x.l);
}

template <class T, class Back>
void softmax_grad_by_heads(Communicator& comm, const Team& team, const Cut& by, const SoftmaxTensors<T>& x,
                           Back&& back) {
    const SoftmaxRing& z = by.ring;
    OwnHeads<T> heads(comm, team, by);
    HeadTensor<T> dO(comm, heads.queries, Held::query, z.batch, z.heads * z.group, z.dv),
        dq(comm, heads.queries, Held::partial, z.batch, z.heads * z.group, z.d),
        dk(comm, heads.keys, Held::partial, z.batch, z.heads, z.d),
        dv(comm, heads.keys, Held::partial, z.batch, z.heads, z.dv);
    comm.begin();
    gradient::SoftmaxGradProblem<T> own;
    own.in = heads.brought(x);
    heads.O.brought(x.O), heads.m.brought(x.m), heads.l.brought(x.l);
    own.dO = dO.brought(x.dO);
    own.dq = dq.data(), own.dk = dk.data(), own.dv = dv.data();
    if (own.in.heads > 0) each_sequence_back(by, own, back);
    dq.give(x.dq), dk.give(x.dk), dv.give(x.dv);
}

template <class T>
void share_rows(Communicator& comm, const Cut& by, const SoftmaxTensors<T>& x) {
    const Index rows = by.ring.all_heads() * by.ring.group;
    sharded::gather_shares(comm, by.ring.queries, x.O, rows, x.N, by.ring.dv);
    sharded::gather_shares(comm, by.ring.queries, x.m, rows, x.N, Index{1});
    sharded::gather_shares(comm, by.ring.queries, x.l, rows, x.N, Index{1});
}

template <class T>
Forward forward_of(const Team& team, const Sharding& sharding, const Sizes& c, const SoftmaxOptions& o, const Tensor& q,
                   const Tensor& k, const Tensor& v, ShardReport& report) {
    const bool by_heads = report.algorithm == "heads";
    const auto run = kit::computing_in<T>(*c.method);
    Forward out{Tensor(dtype_of<T>, c.output), Tensor(dtype_of<T>, c.rows), Tensor(dtype_of<T>, c.rows)};
    Cut kept;
    const auto program = [&](Communicator& comm) {
        const Cut by = cut(comm, team, sharding, c, o, by_heads);
        if (team.mpi) kept = by;
        const SoftmaxTensors<T> given = tensors_of<T>(c, q, k, v, out);
        if (by_heads) return softmax_by_heads(comm, team, by, given, run);
        Local<T> local(comm, by, given);
        SoftmaxTensors<T>& x = local.tensors();
        comm.begin();
        local.bring_queries(x.q, c.d), local.bring_keys(x.k, c.d), local.bring_keys(x.v, c.dv);
        local.make_queries(x.O, c.dv), local.make_queries(x.m, 1), local.make_queries(x.l, 1);
        sharded::softmax_forward<T>(comm, by.ring, x, run);
        local.return_queries(x.O, c.dv, given.O), local.return_queries(x.m, 1, given.m);
        local.return_queries(x.l, 1, given.l);
    };
    const auto share = [&](Communicator& comm) {
        if (!team.parts) share_rows(comm, kept, tensors_of<T>(c, q, k, v, out));
    };
    sharded::run(team, program, share, report);
    divide_by_nothing<T>(out.O, out.l, c.M, c.dv);
    return out;
}

template <class T>
SoftmaxGradient gradient_of(const Team& team, const Sharding& sharding, const Sizes& c, const SoftmaxOptions& o,
                            const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO, Forward forward,
                            ShardReport& report) {
    constexpr DType type = dtype_of<T>;
    const bool by_heads = report.algorithm == "heads";
    const auto back = kit::computing_in<T>(gradient::softmax_forms()["flash"]);
    SoftmaxGradient out{Tensor(type, q.shape()), Tensor(type, k.shape()), Tensor(type, v.shape())};
    Cut kept;
    const auto tensors = [&] {
        SoftmaxTensors<T> x = tensors_of<T>(c, q, k, v, forward);
        x.dO = dO.data<T>();
        x.dq = out.dq.template data<T>(), x.dk = out.dk.template data<T>(), x.dv = out.dv.template data<T>();
        return x;
    };
    const auto program = [&](Communicator& comm) {
        const Cut by = cut(comm, team, sharding, c, o, by_heads);
        if (team.mpi) kept = by;
        const SoftmaxTensors<T> given = tensors();
        if (by_heads) return softmax_grad_by_heads(comm, team, by, given, back);
        Local<T> local(comm, by, given);
        SoftmaxTensors<T>& x = local.tensors();
        comm.begin();
        local.bring_queries(x.q, c.d), local.bring_keys(x.k, c.d), local.bring_keys(x.v, c.dv);
        local.bring_queries(x.dO, c.dv), local.bring_queries(x.O, c.dv);
        local.bring_queries(x.m, 1), local.bring_queries(x.l, 1);
        local.make_queries(x.dq, c.d), local.make_keys(x.dk, c.d), local.make_keys(x.dv, c.dv);
        sharded::softmax_backward<T>(comm, by.ring, x, back);
        local.return_queries(x.dq, c.d, given.dq);
        local.return_keys(x.dk, c.d, given.dk), local.return_keys(x.dv, c.dv, given.dv);
    };
    const auto share = [&](Communicator& comm) {
        if (team.parts) return;
        const SoftmaxTensors<T> x = tensors();
        const SoftmaxRing& z = kept.ring;
        sharded::gather_shares(comm, z.queries, x.dq, z.all_heads() * z.group, x.N, z.d);
        sharded::gather_shares(comm, z.keys, x.dk, z.all_heads(), x.M, z.d);
        sharded::gather_shares(comm, z.keys, x.dv, z.all_heads(), x.M, z.dv);
    };
    sharded::run(team, program, share, report);
    return out;
}

ShardedSoftmaxResult forward_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o,
                                      const Sharding& sharding) {
    const Team team = sharded::team_of(sharding);
    const Sizes c = attention::check(q, k, v, sharded::own_options(team, call_of(false), o, q, k));
    check_sharded(c, sharding);
    const std::string exchange = sharded::chosen_softmax_exchange(sharding, c.causal, c.heads, team.ranks);
    ShardReport report = sharded::report_of(team, "softmax_attention", exchange, c.compute);
    if (team.mpi)
        distributed::run_mpi([&](Communicator& comm) {
            agree_on_call(comm, team, c, q, k, v, nullptr, false, o, exchange, sharding.sizes);
        });
    const Tensor in_q = q.to(c.compute), in_k = k.to(c.compute), in_v = v.to(c.compute);
    const Forward out = c.compute == DType::f64 ? forward_of<double>(team, sharding, c, o, in_q, in_k, in_v, report)
                                                : forward_of<float>(team, sharding, c, o, in_q, in_k, in_v, report);
    return {{out.O.to(c.dtype), attention::log_sum_exp(out.m, out.l)}, std::move(report)};
}

ShardedSoftmaxGradient gradient_on_ranks(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                         const SoftmaxOptions& o, const std::optional<SoftmaxResult>& forward,
                                         const Sharding& sharding) {
    const Team team = sharded::team_of(sharding);
    const Sizes c =
        gradient::check_softmax_grad(q, k, v, dO, sharded::own_options(team, call_of(true), o, q, k), forward);
    if (o.method != "flash") fail("method: ", in_quotes(o.method), ", expected \"flash\" with shards");
    check_sharded(c, sharding);
    const std::string exchange = sharded::chosen_softmax_exchange(sharding, c.causal, c.heads, team.ranks);
    ShardReport report = sharded::report_of(team, "softmax_attention_grad", exchange, c.compute);
    if (team.mpi)
        distributed::run_mpi([&](Communicator& comm) {
            agree_on_call(comm, team, c, q, k, v, &dO, forward.has_value(), o, exchange, sharding.sizes);
        });
    const Tensor in_q = q.to(c.compute), in_k = k.to(c.compute), in_v = v.to(c.compute), in_dO = dO.to(c.compute);
    const auto compute = [&]<class T>(T) {
        Forward given;
        if (forward) {  // from the log-sum-exp F the weights are e^{s - F}: m = F, l = 1
            given = {forward->O.to(c.compute), forward->lse.to(c.compute), Tensor::full(c.compute, c.rows, 1)};
        } else {
            ShardReport unused = report;
            given = forward_of<T>(team, sharding, c, o, in_q, in_k, in_v, unused);
        }
        return gradient_of<T>(team, sharding, c, o, in_q, in_k, in_v, in_dO, given, report);
    };
    const SoftmaxGradient g = c.compute == DType::f64 ? compute(double{}) : compute(float{});
    return {{g.dq.to(c.dtype), g.dk.to(c.dtype), g.dv.to(c.dtype)}, std::move(report)};
}

}  // namespace

ShardedSoftmaxResult softmax_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v,
                                               const SoftmaxOptions& o, const Sharding& sharding) {
    return distributed::shared_call(sharded::on_mpi(sharding), [&] { return forward_on_ranks(q, k, v, o, sharding); });
}

ShardedSoftmaxGradient softmax_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& dO, const SoftmaxOptions& o,
                                                      const std::optional<SoftmaxResult>& forward,
                                                      const Sharding& sharding) {
    return distributed::shared_call(sharded::on_mpi(sharding),
                                    [&] { return gradient_on_ranks(q, k, v, dO, o, forward, sharding); });
}

}  // namespace causeway
