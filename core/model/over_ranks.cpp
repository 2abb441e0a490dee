#include "core/model/over_ranks.hpp"

#include <cmath>

#include "core/base/text.hpp"
#include "core/distributed/agree.hpp"
#include "core/distributed/local.hpp"
#include "core/distributed/mpi.hpp"
#include "core/distributed/plan.hpp"

namespace causeway::model {

using distributed::Communicator;
using distributed::Shard;

namespace {

// Token t of heads [batch, heads, n, width].
Tensor token_of(const Tensor& x, Index t) {
    const Index n = x.shape()[2], width = x.shape()[3];
    if (n == 1) return x;
    Tensor out(DType::f32, {x.shape()[0], x.shape()[1], 1, width});
    for (Index h = 0; h < out.size() / width; ++h)
        std::copy_n(x.data<float>() + (h * n + t) * width, width, out.data<float>() + h * width);
    return out;
}

// Ranks have the same queries up to rounding: what came out of the layers before may differ in its last bits.
void check_queries(Communicator& comm, const Tensor& q) {
    double mine = 0;
    for (Index i = 0; i < q.size(); ++i) mine += std::pow(static_cast<double>(q.data<float>()[i]), 2);
    std::vector<double> all(static_cast<std::size_t>(comm.size()));
    distributed::all_gather(comm, distributed::all_ranks(comm), &mine, Index(1), all.data());
    for (std::size_t r = 1; r < all.size(); ++r)
        if (!(std::abs(all[r] - all[0]) <= 1e-2 * all[0]))
            fail("a model over ranks: queries of the length ", number_text(std::sqrt(all[r])), " on rank ", r,
                 ", expected ", number_text(std::sqrt(all[0])),
                 " like rank 0; every rank has to run the same model on the same text");
}

void share_out(Communicator& comm, Index length, const Heads& h, LayerState& state) {
    const auto& q = h.q.shape();
    distributed::agree(comm, {{"a model over ranks: batch", q[0]},
                              {"a model over ranks: heads", q[1]},
                              {"a model over ranks: length", length}});
    check_queries(comm, h.q);
    const int p = comm.size();
    const Index first = comm.rank() * length / p, n = (comm.rank() + 1) * length / p - first;
    state.k.keep(first, n), state.v.keep(first, n);
    state.shared = length;
}

// The result of one token, whose key is in the share already.
Tensor attend(Communicator& comm, const distributed::Plan& plan, const Tensor& q, const LayerState& state, Index length,
              const distributed::Sizes& sizes) {
    Tensor o(DType::f32, {sizes.batch, sizes.query_heads, 1, sizes.dv});
    distributed::OnCpu<float> local(q.data<float>());
    std::vector<Index> starts{0};
    for (const Index n : shares_of(*state.shared, length, comm.size())) starts.push_back(starts.back() + n);
    const Shard<float> shard{state.k.head(0),
                             state.v.head(0),
                             state.k.head_step(),
                             state.v.head_step(),
                             starts[static_cast<std::size_t>(comm.rank())],
                             state.k.length()};
    const distributed::Task<float> task{sizes, &local, shard, o.data<float>(), nullptr};
    distributed::run_worker(comm, plan, task, starts);
    return o;
}

}  // namespace

std::vector<Index> shares_of(Index together, Index length, int p) {
    std::vector<Index> out;
    for (Index r = 0; r < p; ++r) {
        const auto up_to = [&](Index tokens) { return (tokens + p - 1 - r) / p; };  // t < tokens with t % p = r
        out.push_back((r + 1) * together / p - r * together / p + up_to(length) - up_to(together));
    }
    return out;
}

Tensor attend_over_ranks(Ranks how, const Chunk& chunk, const Heads& h, LayerState& state, double scale) {
    const auto &q = h.q.shape(), &v = h.v.shape();
    Tensor out(DType::f32, {q[0], q[1], chunk.n, v[3]});
    const distributed::Plan plan{how == Ranks::tree, {}, {}};
    distributed::run_mpi([&](Communicator& comm) {
        if (!state.shared) share_out(comm, chunk.position, h, state);
        for (Index t = 0; t < chunk.n; ++t) {
            const Index position = chunk.position + t;
            if (position % comm.size() == comm.rank())
                state.k.append(token_of(h.k, t)), state.v.append(token_of(h.v, t));
            const distributed::Sizes sizes{q[0], q[1], v[1], 1, position + 1, q[3], v[3], false, scale};
            const Tensor o = attend(comm, plan, token_of(h.q, t), state, position + 1, sizes);
            for (Index i = 0; i < q[0] * q[1]; ++i)
                std::copy_n(o.data<float>() + i * v[3], v[3], out.data<float>() + (i * chunk.n + t) * v[3]);
        }
    });
    return out;
}

}  // namespace causeway::model
