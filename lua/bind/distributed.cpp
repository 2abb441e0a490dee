// Tree and ring decoding over shards of the keys and values, on threads, MPI and modelled clusters.
#include <cmath>
#include <utility>

#include "core/calls/decode_model.hpp"
#include "core/calls/linear_model.hpp"
#include "core/distributed/decode.hpp"
#include "core/distributed/mpi.hpp"
#include "core/gated/registry.hpp"
#include "core/sharded/linear_model.hpp"
#include "core/sharded/parts.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"
#include "lua/bind/report.hpp"
#include "lua/bind/result.hpp"
#ifdef CAUSEWAY_GPU
#include "gpu/base/choose_device.hpp"
#include "gpu/engine/engine.hpp"
#include "gpu/sharded/shard.hpp"
#endif

namespace causeway::lua {
namespace {

using distributed::Cluster;
using distributed::Link;

int decode(lua_State* L, const calls::Call<calls::DecodeCallOptions>& call, bool is_tree) {
    const Arguments given(L, call);
    const auto [q, k, v] = given.tensors<Tensor, 3>();
    calls::DecodeCallOptions start;
    if (distributed::mpi_size() > 1) start.engine = "mpi";
    const auto o = given.read(call, start);
    refuse_counting(call.name, "softmax_attention");
    const DecodeResult result = is_tree ? tree_decode(q, k, v, o) : ring_decode(q, k, v, o);
    push(L, result.O);
    push_report(L, result.report);
    if (!o.return_lse) return 2;
    push(L, result.lse);
    return 3;
}

// tree_decode(q, k, v, options) -> output, report, lse
int tree_decode_(lua_State* L) { return decode(L, calls::tree_decode(), true); }
int ring_decode_(lua_State* L) {
    const auto& call = calls::ring_decode();
    return distributed::shared_call(shared_by_ranks(L, *calls::description(call.name)),
                                    [&] { return decode(L, call, false); });
}

Link link_option(lua_State* L, const Options& options, const char* key, Link link) {
    const int type = options.push(key);
    if (type == LUA_TTABLE) {
        const Options given(L, lua_gettop(L), key, {"latency", "rate"});
        link = {given.number("latency", link.latency), given.number("rate", link.rate)};
    } else if (type != LUA_TNIL) {
        fail(key, ": expected a table {latency = seconds, rate = bytes a second}, got a ", type_name(L, -1));
    }
    lua_pop(L, 1);
    if (!(link.latency >= 0 && std::isfinite(link.latency)) || !(link.rate > 0))
        fail(key, ": latency ", link.latency, " and rate ", link.rate,
             ", expected a finite latency >= 0 and a rate > 0");
    return link;
}

// The cluster that the call names, with what it gives in place of the cluster's figures.
Cluster machine_of(lua_State* L, const Options& given, const calls::ClusterOptions& o, int per_node) {
    Cluster machine = distributed::cluster(o.cluster);
    machine.per_node = per_node;
    machine.within = link_option(L, given, "within", machine.within);
    machine.between = link_option(L, given, "between", machine.between);
    machine.memory_rate = o.memory_rate.value_or(machine.memory_rate);
    machine.flop_rate = o.flop_rate.value_or(machine.flop_rate);
    machine.start = o.start.value_or(machine.start);
    machine.element_bytes = o.element_bytes.value_or(machine.element_bytes);
    if (!(machine.memory_rate > 0)) fail("memory_rate: ", machine.memory_rate, ", expected a number > 0");
    if (!(machine.flop_rate > 0)) fail("flop_rate: ", machine.flop_rate, ", expected a number > 0");
    if (!(machine.start >= 0 && std::isfinite(machine.start)))
        fail("start: ", machine.start, ", expected a finite number >= 0");
    return machine;
}

// The options of a call of a model, of whose nodes the cluster says how many devices they have, and the cluster.
template <class S>
std::pair<S, Cluster> modelled(lua_State* L, const calls::Call<S>& call) {
    const Arguments given(L, call);
    const Options options = given.options();
    S start;
    start.per_node = distributed::cluster(options.string("cluster", start.cluster)).per_node;
    S o = given.read(call, start);
    const Cluster machine = machine_of(L, options, o, o.per_node);
    return {std::move(o), machine};
}

// decode_model{method =, ...} -> report
int decode_model_(lua_State* L) {
    const auto [o, machine] = modelled(L, calls::decode_model());
    distributed::Sizes z;
    z.batch = o.batch;
    z.heads = o.heads;
    z.query_heads = o.query_heads.value_or(z.heads);
    z.N = o.queries;
    z.M = o.length;
    z.dk = z.dv = o.dim;
    z.causal = o.causal;
    if (z.query_heads % z.heads != 0) fail("query_heads: ", z.query_heads, ", expected a multiple of heads, ", z.heads);
    push_report(L, decode_model(o.method, z, machine, o));
    return 1;
}

// linear_model{exchange =, ...} -> report
int linear_model_(lua_State* L) {
    const auto [o, machine] = modelled(L, calls::linear_model());
    const gated::Rule& rule = gated::updates()[o.update];
    LinearModelSizes z;
    z.batch = o.batch, z.heads = o.heads, z.N = o.length, z.dk = z.dv = o.dim, z.chunk = o.chunk;
    z.delta = gated::has_delta(rule.update);
    if (o.per_channel && !gated::has_gate(rule.update))
        fail("per_channel: true with update = \"", o.update, "\", expected an update that has gates");
    z.gates = !gated::has_gate(rule.update) ? 0 : o.per_channel ? z.dk : 1;
    z.forgets = o.forgets;
    z.together = o.together.value_or(0), z.token_time = o.token_time.value_or(0);
    push_report(L, linear_model(o.exchange, z, machine, o.shards));
    return 1;
}

// link_speed(engine, ranks, bytes) -> {latency, rate}
int measure_link(lua_State* L) {
    const std::string engine = lua_isnoneornil(L, 1) ? "threads" : check_string(L, 1, "engine");
    const Index ranks = lua_isnoneornil(L, 2) ? 2 : check_integer(L, 2, "ranks");
    const Index bytes = lua_isnoneornil(L, 3) ? Index{1} << 22 : check_integer(L, 3, "bytes");
    if (ranks < 2 || ranks > 1 << 20) fail("ranks: ", ranks, ", expected 2 or more, and no more than the engine has");
    const Link link = measured_link(engine, static_cast<int>(ranks), bytes);
    lua_newtable(L);
    set_field(L, "latency", link.latency);
    set_field(L, "rate", link.rate);
    make_result(L, "a link");
    return 1;
}

int link_speed_(lua_State* L) {
    const bool shared = lua_type(L, 1) == LUA_TSTRING && lua_tostring(L, 1) == std::string_view("mpi");
    return distributed::shared_call(shared && distributed::mpi_size() > 1, [&] { return measure_link(L); });
}

// The dimension of the tokens: given, counted from 1, or the last but one, as in q, k and v. A tensor or a report is a
// further result of a call, as in unshard(linear_attention(...)).
int token_dimension(lua_State* L, int dimensions) {
    const int type = lua_type(L, 2);
    if (type > LUA_TNIL && type != LUA_TUSERDATA && type != LUA_TTABLE)
        return static_cast<int>(check_integer(L, 2, "dim")) - 1;
    return dimensions < 2 ? dimensions - 1 : dimensions - 2;
}

// shard(x, dim) -> this rank's part
int shard_(lua_State* L) {
#ifdef CAUSEWAY_GPU
    if (is_gpu_tensor(L, 1)) {
        const gpu::Tensor x = check_gpu_tensor(L, 1, "x");
        push(L, gpu::shard(x, token_dimension(L, x.ndim())));
        return 1;
    }
#endif
    const Tensor x = check_tensor(L, 1, "x");
    push(L, shard(x, token_dimension(L, x.ndim())));
    return 1;
}

// unshard(x, dim) -> the parts of all ranks as one tensor
int unshard_own(lua_State* L) {
#ifdef CAUSEWAY_GPU
    if (is_gpu_tensor(L, 1)) {
        const gpu::Tensor x = check_gpu_tensor(L, 1, "x");
        push(L, gpu::unshard(x, token_dimension(L, x.ndim())));
        return 1;
    }
#endif
    const Tensor x = check_tensor(L, 1, "x");
    push(L, unshard(x, token_dimension(L, x.ndim())));
    return 1;
}

int unshard_(lua_State* L) {
    return distributed::shared_call(distributed::mpi_size() > 1, [&] { return unshard_own(L); });
}

int mpi_rank_(lua_State* L) {
    lua_pushinteger(L, distributed::mpi_rank());
    return 1;
}

int mpi_size_(lua_State* L) {
    lua_pushinteger(L, distributed::mpi_size());
    return 1;
}

// _mpi_job() -> a text that the ranks of this job share and no other job has; nil for a process that is alone
int mpi_job_(lua_State* L) {
    if (distributed::mpi_size() > 1) lua_pushfstring(L, "%I:", static_cast<lua_Integer>(distributed::mpi_job()));
    else lua_pushnil(L);
    return 1;
}

int mpi_built_(lua_State* L) {
    lua_pushboolean(L, distributed::mpi_built());
    return 1;
}

}  // namespace

void open_distributed(lua_State* L) {
    // Under mpirun every process takes part, whatever its script does, so that each learns of another's end.
    if (distributed::mpi_built() && distributed::mpi_launched()) distributed::start_mpi();
#ifdef CAUSEWAY_GPU
    if (distributed::mpi_size() > 1) gpu::choose_device(distributed::mpi_local_rank());
    gpu::enter_nccl();
#endif
    add_functions_by_device(L, {{"tree_decode", guarded<tree_decode_>}});
    add_functions(L, {
                         {"ring_decode", guarded<ring_decode_>},
                         {"decode_model", guarded<decode_model_>},
                         {"linear_model", guarded<linear_model_>},
                         {"link_speed", guarded<link_speed_>},
                         {"shard", guarded<shard_>},
                         {"unshard", guarded<unshard_>},
                         {"mpi_rank", guarded<mpi_rank_>},
                         {"mpi_size", guarded<mpi_size_>},
                         {"_mpi_job", guarded<mpi_job_>},
                         {"has_mpi", guarded<mpi_built_>},
                     });
}

}  // namespace causeway::lua
