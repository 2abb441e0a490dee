#include "core/sharded/linear_model.hpp"

#include <algorithm>
#include <cmath>

#include "core/sharded/all_to_all.hpp"
#include "core/sharded/exchange.hpp"
#include "core/sharded/route.hpp"

namespace causeway {
namespace {

using distributed::Cluster;
using distributed::Held;
using sharded::Communicator;
using sharded::Exchange;
using sharded::Stops;
using sharded::Work;

constexpr Index state_bytes = 4;

// A problem without data, for what the parts of the family say of their work.
gated::Problem<float> problem_of(const LinearModelSizes& z) {
    static const float there = 0;
    gated::Problem<float> p;
    p.batch = z.batch, p.heads = z.heads, p.N = z.N, p.dk = z.dk, p.dv = z.dv, p.gates = z.gates, p.chunk = z.chunk;
    p.beta = z.delta ? &there : nullptr;
    return p;
}

// A rank's part of which only the work is known: a dry communicator asks for nothing else.
class ModelPart final : public sharded::Part<float> {
public:
    ModelPart(const LinearModelSizes& z, const Cluster& machine, const gated::Problem<float>& p,
              const sharded::Starts& starts, int rank)
        : z_(z), machine_(machine), piece_(p, {}, starts, rank) {}

    void firsts(Stops, float*) const override {}
    void lasts(Stops, const float*) override {}
    void runs(Stops, float*) override {}
    void advances(Stops, float*) const override {}
    void maps(Stops, float*) const override {}
    void clear(float*, Index) const override {}
    void copy(const float*, Index, float*) const override {}
    void applies(const sharded::Route&, Index, const float*, const float*, const float*, float*) const override {}

    bool may_forget() const override { return z_.forgets; }
    std::vector<char> forgets(Stops stops) override { return std::vector<char>(stops.size(), 1); }

    Work run_work(Index i) const override { return timed(i, piece_.work(i, 1)); }
    Work advance_work(Index i) const override { return timed(i, piece_.work(i, 0)); }
    Work map_work(Index i) const override { return timed(i, piece_.map_work(i)); }

private:
    // In the time that was measured, where there is one; else the elements, of the tokens' size, as so many of states.
    Work timed(Index i, Work work) const {
        const Work outputs = piece_.work(i, 1);
        if (z_.token_time > 0 && outputs.operations > 0) {
            const double seconds = z_.token_time * static_cast<double>(piece_.piece(i).n);
            return {work.operations / outputs.operations * seconds * machine_.flop_rate, 0, work.starts};
        }
        work.elements *= static_cast<double>(machine_.element_bytes) / static_cast<double>(state_bytes);
        return work;
    }

    const LinearModelSizes& z_;
    const Cluster& machine_;
    sharded::StatePiece<float> piece_;
};

void by_states(Communicator& comm, const LinearModelSizes& z, const Cluster& machine, const sharded::Starts& starts,
               Exchange exchange) {
    const gated::Problem<float> p = problem_of(z);
    sharded::Route route = sharded::route_of(sharded::sequences_of(p), p.heads, starts, comm.rank());
    route.elements = z.dk * z.dv, route.rows = z.dk, route.carry = sharded::carry_of(p);
    route.together = static_cast<int>(z.together > 0 ? std::min(z.together, z.batch * z.heads) : z.batch * z.heads);
    route.most_together = route.together;
    ModelPart part(z, machine, p, starts, comm.rank());
    sharded::forward(comm, route, part, exchange);
}

// All tokens of some heads, and back: the tokens travel, in the type that they have.
void by_heads(Communicator& comm, const LinearModelSizes& z, const Cluster& machine, const sharded::Starts& starts) {
    sharded::HeadExchange by(comm, starts, false, z.heads);
    const auto tensor = [&](Held held, Index width) {
        return sharded::HeadTensor<float>(comm, by, held, z.batch, z.heads, width);
    };
    sharded::HeadTensor<float> q = tensor(Held::query, z.dk), k = tensor(Held::shard, z.dk),
                               v = tensor(Held::shard, z.dv), g = tensor(Held::shard, z.gates),
                               beta = tensor(Held::shard, z.delta ? 1 : 0), O = tensor(Held::partial, z.dv);
    comm.begin();
    for (auto* x : {&q, &k, &v, &g, &beta}) x->brought(nullptr);
    LinearModelSizes own = z;
    own.heads = by.heads_here(z.heads).n;
    if (own.heads > 0) {
        const gated::Problem<float> p = problem_of(own);
        const ModelPart part(own, machine, p, {0, z.N}, 0);
        Work sum = part.run_work(0);
        const auto states = static_cast<double>(own.batch * own.heads);
        sum.operations *= states, sum.elements *= states;
        comm.work(sum);
    }
    O.give(nullptr);
}

void check(const LinearModelSizes& z, const Cluster& machine, int p) {
    const auto positive = [](const char* name, Index n) {
        if (n < 1) fail(name, ": ", n, ", expected 1 or more");
    };
    positive("batch", z.batch), positive("heads", z.heads), positive("length", z.N), positive("dim", z.dk);
    positive("dim", z.dv), positive("chunk", z.chunk), positive("element_bytes", machine.element_bytes);
    if (z.together < 0) fail("together: ", z.together, ", expected 1 or more, or 0 for all");
    if (!(z.token_time >= 0 && std::isfinite(z.token_time)))
        fail("token_time: ", z.token_time, ", expected a finite number >= 0");
    if (z.gates != 0 && z.gates != 1 && z.gates != z.dk)
        fail("gates: ", z.gates, " columns, expected none, 1 or ", z.dk, ", the width of a key");
    if (z.forgets && z.gates == 0) fail("forgets: true without gates, expected an update that has them");
    const double states = static_cast<double>(z.batch) * static_cast<double>(z.heads);
    if (states > 0x1p16) fail("batch, heads: ", states, " states, expected at most 2^16");
    // Whatever is counted must fit: all maps at every rank, and all tokens.
    const double width = static_cast<double>(z.dk) + static_cast<double>(z.dv) + 2;
    const double bytes = states * p *
                         (width * static_cast<double>(z.dk) * p * state_bytes +
                          3 * width * static_cast<double>(z.N) * static_cast<double>(machine.element_bytes));
    if (bytes > 0x1p62)
        fail("length, heads, batch, dim, shards, element_bytes: up to ", bytes, " bytes sent, expected less than 2^62");
}

}  // namespace

ShardReport linear_model(const std::string& exchange, const LinearModelSizes& z, const Cluster& machine, int p) {
    const sharded::ExchangeForm& form = sharded::exchanges()[exchange];
    if (p < 1 || p > 4096) fail("shards: ", p, ", expected from 1 to 4096");
    check(z, machine, p);
    const bool heads = form.exchange == Exchange::heads;
    if (z.forgets && form.exchange != Exchange::ring)
        fail("forgets: true with exchange = \"", form.name, "\", expected \"ring\"");
    Cluster wire = machine;  // every element that travels or is held has the size of a state's or of a token's
    wire.element_bytes = heads ? machine.element_bytes : state_bytes;
    const sharded::Starts starts = sharded::starts_of(Sharding{}, z.N, p, heads ? 1 : z.chunk);
    const distributed::Simulated run = distributed::run_simulated(wire, p, true, [&](Communicator& comm) {
        if (heads) by_heads(comm, z, wire, starts);
        else by_states(comm, z, machine, starts, form.exchange);
    });
    ShardReport report;
    report.method = "linear_attention", report.engine = machine.name, report.algorithm = form.name;
    report.shards = p;
    report.element_bytes = machine.element_bytes, report.sum_bytes = wire.element_bytes;
    report.seconds = run.seconds;
    report.traffic = run.traffic, report.memory = run.memory, report.waited = run.waited;
    report.communication = *std::max_element(run.waited.begin(), run.waited.end());
    return report;
}

}  // namespace causeway
