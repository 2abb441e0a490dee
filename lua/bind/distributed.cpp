// Tree and ring decoding over shards of the keys and values, on threads, MPI and modelled clusters.
#include <algorithm>
#include <cmath>

#include "core/distributed/decode.hpp"
#include "core/distributed/mpi.hpp"
#include "lua/bind/attention_args.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"
#ifdef CAUSEWAY_GPU
#include "gpu/engine/engine.hpp"
#endif

namespace causeway::lua {
namespace {

using distributed::Cluster;
using distributed::Held;
using distributed::Link;
using distributed::Memory;
using distributed::Traffic;

void set_traffic(lua_State* L, const Traffic& t) {
    set_field(L, "messages", t.messages);
    set_field(L, "elements", t.elements);
    set_field(L, "bytes", t.bytes);
    set_field(L, "rounds", t.rounds);
}

// The report as a table that lua/lib/distributed.lua shows.
void push_report(lua_State* L, const DecodeReport& r) {
    push_causeway(L);
    lua_getfield(L, -1, "_decode_report");
    lua_remove(L, -2);
    lua_newtable(L);
    set_field(L, "method", r.method);
    set_field(L, "engine", r.engine);
    set_field(L, "algorithm", r.algorithm);
    set_field(L, "topology", r.topology);
    set_field(L, "shards", static_cast<Index>(r.shards));
    set_field(L, "time", r.seconds);
    set_field(L, "element_bytes", r.element_bytes);
    set_field(L, "sum_bytes", r.sum_bytes);
    set_traffic(L, r.total());
    const Memory& most = r.largest();
    set_field(L, "memory", most.peak_bytes);
    lua_newtable(L);
    set_field(L, "shard", most.most(Held::shard));
    set_field(L, "incoming", most.most(Held::incoming));
    set_field(L, "query", most.most(Held::query));
    set_field(L, "partial", most.most(Held::partial));
    set_field(L, "work", most.most(Held::work));
    set_field(L, "total", most.peak_total);
    lua_setfield(L, -2, "held");
    lua_newtable(L);
    for (std::size_t i = 0; i < r.traffic.size(); ++i) {
        lua_newtable(L);
        set_traffic(L, r.traffic[i]);
        set_field(L, "memory", r.memory[i].peak_bytes);
        lua_seti(L, -2, static_cast<lua_Integer>(i + 1));
    }
    lua_setfield(L, -2, "workers");
    lua_call(L, 1, 1);
}

int shards_option(const Options& options, int most) {
    if (!options.has("shards")) return 0;
    const Index p = options.integer("shards", 0);
    if (p < 1 || p > most) fail("shards: ", p, ", expected from 1 to ", most);
    return static_cast<int>(p);
}

std::vector<Index> sizes_option(lua_State* L, const Options& options) {
    std::vector<Index> sizes;
    const int type = options.push("sizes");
    if (type == LUA_TTABLE) {
        const auto n = static_cast<lua_Integer>(lua_rawlen(L, -1));
        for (lua_Integer i = 1; i <= n; ++i) {
            lua_geti(L, -1, i);
            sizes.push_back(check_integer(L, -1, "sizes"));
            lua_pop(L, 1);
        }
        if (sizes.empty()) fail("sizes: no lengths, expected one for each shard");
    } else if (type != LUA_TNIL) {
        fail("sizes: expected a list of lengths, got a ", type_name(L, -1));
    }
    lua_pop(L, 1);
    return sizes;
}

void tree_options(const Options& options, DecodeOptions& o) {
    o.topology = options.string("topology", o.topology);
    if (options.has("algorithm")) {
        const Index algorithm = options.integer("algorithm", 0);
        if (algorithm < 1 || algorithm > 3) fail("algorithm: ", algorithm, ", expected 1, 2, 3 or none");
        o.algorithm = static_cast<int>(algorithm);
    }
}

void ring_options(const Options& options, DecodeOptions& o) {
    o.overlap = options.boolean("overlap", o.overlap);
    o.home = options.boolean("home", o.home);
}

int per_node_option(const Options& options, int otherwise) {
    const Index n = options.integer("per_node", otherwise);
    if (n < 1 || n > 4096) fail("per_node: ", n, ", expected from 1 to 4096");
    return static_cast<int>(n);
}

int decode(lua_State* L, bool is_tree) {
    static const CallForm tree{
        "tree_decode",
        3,
        {"q", "k", "v"},
        {"shards", "sizes", "engine", "causal", "scale", "return_lse", "topology", "algorithm", "per_node"}};
    static const CallForm ring{"ring_decode",
                               3,
                               {"q", "k", "v"},
                               {"shards", "sizes", "engine", "causal", "scale", "return_lse", "overlap", "home"}};
    const Arguments given(L, is_tree ? tree : ring);
    const Tensor q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v");
    const Options options = given.options();
    DecodeOptions o;
    o.shards = shards_option(options, 1024);
    o.sizes = sizes_option(L, options);
    o.engine = options.string("engine", distributed::mpi_size() > 1 ? "mpi" : o.engine);
    o.causal = options.boolean("causal", false);
    if (options.has("scale")) o.scale = options.number("scale", 1);
    if (is_tree) {
        tree_options(options, o);
        o.per_node = per_node_option(options, o.per_node);
    } else {
        ring_options(options, o);
    }
    const bool return_lse = options.boolean("return_lse", false);
    refuse_counting(is_tree ? "tree_decode" : "ring_decode", "softmax_attention");
    const DecodeResult result = is_tree ? tree_decode(q, k, v, o) : ring_decode(q, k, v, o);
    push(L, result.O);
    push_report(L, result.report);
    if (!return_lse) return 2;
    push(L, result.lse);
    return 3;
}

// tree_decode(q, k, v, options) -> output, report, lse
int tree_decode_(lua_State* L) { return decode(L, true); }
int ring_decode_(lua_State* L) { return decode(L, false); }

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

// decode_model{method =, ...} -> report
int decode_model_(lua_State* L) {
    const Options options(
        L, 1, "decode_model",
        {"method", "cluster", "shards",      "sizes",     "length",    "batch",        "heads", "query_heads",
         "dim",    "queries", "causal",      "topology",  "algorithm", "overlap",      "home",  "per_node",
         "within", "between", "memory_rate", "flop_rate", "start",     "element_bytes"});
    Cluster machine = distributed::cluster(options.string("cluster", "h100"));
    machine.per_node = per_node_option(options, machine.per_node);
    machine.within = link_option(L, options, "within", machine.within);
    machine.between = link_option(L, options, "between", machine.between);
    machine.memory_rate = options.number("memory_rate", machine.memory_rate);
    machine.flop_rate = options.number("flop_rate", machine.flop_rate);
    machine.start = options.number("start", machine.start);
    if (!(machine.memory_rate > 0)) fail("memory_rate: ", machine.memory_rate, ", expected a number > 0");
    if (!(machine.flop_rate > 0)) fail("flop_rate: ", machine.flop_rate, ", expected a number > 0");
    if (!(machine.start >= 0 && std::isfinite(machine.start)))
        fail("start: ", machine.start, ", expected a finite number >= 0");
    const auto positive = [&](const char* key, Index otherwise) {
        const Index n = options.integer(key, otherwise);
        if (n < 1 || n > Index{1} << 40) fail(key, ": ", n, ", expected from 1 to 2^40");
        return n;
    };
    distributed::Sizes z;
    machine.element_bytes = positive("element_bytes", machine.element_bytes);
    z.batch = positive("batch", 1);
    z.heads = positive("heads", 16);
    z.query_heads = positive("query_heads", z.heads);
    z.N = positive("queries", 1);
    z.M = positive("length", 80000);
    z.dk = z.dv = positive("dim", 128);
    z.causal = options.boolean("causal", false);
    if (z.query_heads % z.heads != 0) fail("query_heads: ", z.query_heads, ", expected a multiple of heads, ", z.heads);
    DecodeOptions o;
    o.shards = shards_option(options, 4096);
    o.sizes = sizes_option(L, options);
    tree_options(options, o);
    ring_options(options, o);
    push_report(L, decode_model(options.choice("method", "tree", {"tree", "ring"}), z, machine, o));
    return 1;
}

// link_speed(engine, ranks, bytes) -> {latency, rate}
int link_speed_(lua_State* L) {
    const std::string engine = lua_isnoneornil(L, 1) ? "threads" : check_string(L, 1, "engine");
    const Index ranks = lua_isnoneornil(L, 2) ? 2 : check_integer(L, 2, "ranks");
    const Index bytes = lua_isnoneornil(L, 3) ? Index{1} << 22 : check_integer(L, 3, "bytes");
    if (ranks < 2 || ranks > 1 << 20) fail("ranks: ", ranks, ", expected 2 or more, and no more than the engine has");
    const Link link = measured_link(engine, static_cast<int>(ranks), bytes);
    lua_newtable(L);
    set_field(L, "latency", link.latency);
    set_field(L, "rate", link.rate);
    return 1;
}

int mpi_rank_(lua_State* L) {
    lua_pushinteger(L, distributed::mpi_rank());
    return 1;
}

int mpi_size_(lua_State* L) {
    lua_pushinteger(L, distributed::mpi_size());
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
    gpu::enter_nccl();
#endif
    add_functions(L, {
                         {"tree_decode", guarded<tree_decode_>},
                         {"ring_decode", guarded<ring_decode_>},
                         {"decode_model", guarded<decode_model_>},
                         {"link_speed", guarded<link_speed_>},
                         {"mpi_rank", guarded<mpi_rank_>},
                         {"mpi_size", guarded<mpi_size_>},
                         {"_mpi_built", guarded<mpi_built_>},
                     });
}

}  // namespace causeway::lua
