#include "lua/bind/report.hpp"

#include "lua/bind/result.hpp"

namespace causeway::lua {
namespace {

using distributed::Held;
using distributed::Memory;
using distributed::Traffic;

void set_traffic(lua_State* L, const Traffic& t) {
    set_field(L, "messages", t.messages);
    set_field(L, "elements", t.elements);
    set_field(L, "bytes", t.bytes);
    set_field(L, "rounds", t.rounds);
}

}  // namespace

void push_report(lua_State* L, const ShardReport& r) {
    push_causeway(L);
    lua_getfield(L, -1, "_shard_report");
    lua_remove(L, -2);
    lua_newtable(L);
    set_field(L, "method", r.method);
    set_field(L, "engine", r.engine);
    set_field(L, "algorithm", r.algorithm);
    set_field(L, "topology", r.topology);
    set_field(L, "shards", static_cast<Index>(r.shards));
    set_field(L, "time", r.seconds);
    set_field(L, "communication", r.communication);
    set_field(L, "element_bytes", r.element_bytes);
    set_field(L, "sum_bytes", r.sum_bytes);
    set_traffic(L, r.total());
    const Memory& most = r.largest();
    set_field(L, "memory", most.peak_bytes);
    lua_newtable(L);
    set_field(L, "shard", most.peak_of(Held::shard));
    set_field(L, "incoming", most.peak_of(Held::incoming));
    set_field(L, "query", most.peak_of(Held::query));
    set_field(L, "partial", most.peak_of(Held::partial));
    set_field(L, "work", most.peak_of(Held::work));
    set_field(L, "state", most.peak_of(Held::state));
    set_field(L, "total", most.peak_total);
    make_result(L, "what a worker holds");
    lua_setfield(L, -2, "held");
    lua_newtable(L);
    for (std::size_t i = 0; i < r.traffic.size(); ++i) {
        lua_newtable(L);
        set_traffic(L, r.traffic[i]);
        set_field(L, "memory", r.memory[i].peak_bytes);
        set_field(L, "communication", r.waited[i]);
        make_result(L, "a worker");
        lua_seti(L, -2, static_cast<lua_Integer>(i + 1));
    }
    lua_setfield(L, -2, "workers");
    lua_call(L, 1, 1);
}

}  // namespace causeway::lua
