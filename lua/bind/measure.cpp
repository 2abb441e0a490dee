// Clock, threads, counted memory, statistics and the machine. Names that start with an underscore serve
// the Lua files of lua/lib.
#include <algorithm>
#include <cmath>

#include "core/base/clock.hpp"
#include "core/base/parallel.hpp"
#include "core/measure/copy_rate.hpp"
#include "core/measure/machine.hpp"
#include "core/measure/product_rate.hpp"
#include "core/measure/statistics.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/numbers.hpp"

namespace causeway::lua {
namespace {

std::span<const double> span_of(const Buffer<double>& numbers) {
    return {numbers.data(), static_cast<std::size_t>(numbers.size())};
}

// clock() -> seconds on a clock that never goes back
int clock(lua_State* L) {
    lua_pushnumber(L, steady_seconds());
    return 1;
}

// threads([n]) -> the number of worker threads, after setting it to n
int threads_in_use(lua_State* L) {
    if (!lua_isnoneornil(L, 1)) {
        const Index n = check_integer(L, 1, "threads");
        if (n != static_cast<int>(n)) fail("threads: ", n, ", expected a number from 1 to 1024");
        set_threads(static_cast<int>(n));
    }
    lua_pushinteger(L, threads());
    return 1;
}

// _memory() -> bytes held now, most bytes held since _reset_peak()
int memory_held(lua_State* L) {
    lua_pushinteger(L, static_cast<lua_Integer>(memory::current()));
    lua_pushinteger(L, static_cast<lua_Integer>(memory::peak()));
    return 2;
}

int reset_peak(lua_State*) {
    memory::reset_peak();
    return 0;
}

// _machine() -> {processor, cores, threads, simd, memory, system, compiler, eigen, lua, causeway}
int machine_table(lua_State* L) {
    const Machine& m = machine();
    lua_createtable(L, 0, 10);
    set_field(L, "processor", m.processor);
    set_field(L, "cores", Index{m.cores});
    set_field(L, "threads", Index{threads()});
    set_field(L, "simd", m.simd);
    set_field(L, "memory", static_cast<Index>(m.memory));
    set_field(L, "system", m.system);
    set_field(L, "compiler", m.compiler);
    set_field(L, "eigen", m.eigen);
    set_field(L, "lua", LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE);
    set_field(L, "causeway", m.version);
    return 1;
}

// copy_rate(bytes[, {seconds = 0.3}]) -> bytes read and written a second
int rate_of_copies(lua_State* L) {
    const Options options(L, 2, "copy_rate");
    lua_pushnumber(L, copy_rate(check_integer(L, 1, "bytes"), options.number("seconds", 0.3)));
    return 1;
}

// read_rate(bytes[, {seconds = 0.3}]) -> bytes read a second
int rate_of_reads(lua_State* L) {
    const Options options(L, 2, "read_rate");
    lua_pushnumber(L, read_rate(check_integer(L, 1, "bytes"), options.number("seconds", 0.3)));
    return 1;
}

// product_rate([n[, {dtype = "Float64", seconds = 0.25}]]) -> floating-point operations a second
int rate_of_products(lua_State* L) {
    const Index n = lua_isnoneornil(L, 1) ? 512 : check_integer(L, 1, "n");
    const Options options(L, 2, "product_rate");
    const bool wide = options.choice("dtype", "Float32", {"Float32", "Float64", "f32", "f64"}).back() == '4';
    lua_pushnumber(L, product_rate(n, wide ? DType::f64 : DType::f32, options.number("seconds", product_rate_seconds)));
    return 1;
}

// _summary(values) -> {count, minimum, median, mean, std, maximum}
int summary_table(lua_State* L) {
    const Summary s = summarize(span_of(check_numbers(L, 1, "values")));
    lua_createtable(L, 0, 6);
    set_field(L, "count", s.count);
    set_field(L, "minimum", s.minimum);
    set_field(L, "median", s.median);
    set_field(L, "mean", s.mean);
    set_field(L, "std", s.std);
    set_field(L, "maximum", s.maximum);
    return 1;
}

// growth_exponent(N, time) -> the p of time ≈ constant · N^p
int exponent(lua_State* L) {
    const Buffer<double> n = check_numbers(L, 1, "N"), seconds = check_numbers(L, 2, "time");
    lua_pushnumber(L, growth_exponent(span_of(n), span_of(seconds)));
    return 1;
}

}  // namespace

void open_measure(lua_State* L) {
    add_functions(L, {
                         {"clock", guarded<clock>},
                         {"threads", guarded<threads_in_use>},
                         {"copy_rate", guarded<rate_of_copies>},
                         {"read_rate", guarded<rate_of_reads>},
                         {"product_rate", guarded<rate_of_products>},
                         {"growth_exponent", guarded<exponent>},
                         {"_machine", guarded<machine_table>},
                         {"_memory", guarded<memory_held>},
                         {"_reset_peak", guarded<reset_peak>},
                         {"_summary", guarded<summary_table>},
                     });
}

}  // namespace causeway::lua
