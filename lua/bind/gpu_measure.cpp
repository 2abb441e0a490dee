// What GPU there is; time, memory and random numbers on it.
#include "lua/bind/gpu.hpp"

#include "lua/bind/families.hpp"
#include "lua/bind/result.hpp"

namespace causeway::lua {

std::string gpu_text() {
    std::string why;
    return gpu_available(&why) ? gpu_name() : "no GPU: " + why;
}

namespace {

// has_gpu() -> true and its name, or false and why not
int has_gpu(lua_State* L) {
    std::string why;
    const bool available = gpu_available(&why);
    const std::string text = available ? gpu_name() : why;
    lua_pushboolean(L, available);
    push_text(L, text);
    return 2;
}

}  // namespace
}  // namespace causeway::lua

#ifdef CAUSEWAY_GPU

#include <algorithm>
#include <cmath>

#include "gpu/base/choose_device.hpp"
#include "gpu/base/device.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/base/wait.hpp"
#include "gpu/measure/copy_bandwidth.hpp"
#include "gpu/tensor/random.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

void need_gpu(const char* function) {
    if (std::string why; !gpu_available(&why)) fail_as<SystemError>(function, ": no GPU: ", why);
}

// Garbage is collected when asked for, and not by itself until the heap is ten times as large: that would come in the
// middle of what is timed, and the GPU would wait for it.
class TidyTimes {
public:
    explicit TidyTimes(lua_State* L) : L_(L), pause_(lua_gc(L, LUA_GCSETPAUSE, tenfold)) { collect(); }
    ~TidyTimes() { lua_gc(L_, LUA_GCSETPAUSE, pause_); }
    TidyTimes(const TidyTimes&) = delete;
    TidyTimes& operator=(const TidyTimes&) = delete;

    // Collects results of before that take much of the GPU's memory, and tells whether it did.
    bool between_times() {
        constexpr std::size_t much = std::size_t{1} << 28;
        if (gpu::bytes_in_use() <= in_use_ + much) return false;
        collect();
        return true;
    }

private:
    static constexpr int tenfold = 1000;

    void collect() {
        lua_gc(L_, LUA_GCCOLLECT);
        in_use_ = gpu::bytes_in_use();
    }

    lua_State* L_;
    int pause_;
    std::size_t in_use_ = 0;
};

// gpu_time(f, {repeats = 21, calls = 1}) -> seconds, the median of `repeats` times between events around `calls` calls,
// for one
int gpu_time(lua_State* L) {
    if (!lua_isfunction(L, 1)) fail("gpu_time: expected a function, got a ", type_name(L, 1));
    const Options options(L, 2, "gpu_time");
    const Index repeats = options.integer("repeats", 21), calls = options.integer("calls", 1);
    if (repeats < 1 || calls < 1)
        fail(repeats < 1 ? "repeats" : "calls", ": ", std::min(repeats, calls), ", expected 1 or more");
    need_gpu("gpu_time");
    const auto run = [&](Index times) {
        for (Index i = 0; i < times; ++i) {
            lua_pushvalue(L, 1);
            lua_call(L, 0, 0);
        }
    };
    const GpuWaits unwaited(false);
    TidyTimes tidy(L);
    run(calls);
    gpu::wait_for(nullptr, "running kernels");
    gpu::Event start, stop;
    std::vector<double> seconds;
    for (Index i = 0; i < repeats; ++i) {
        // A call behind a collection finds the caches of the CPU empty and is launched microseconds later: where that
        // matters it is not a timed one.
        constexpr double long_enough = 0.01;
        if (tidy.between_times() && !seconds.empty() && seconds.back() * static_cast<double>(calls) < long_enough) {
            run(1);
            gpu::wait_for(nullptr, "running kernels");
        }
        start.record(nullptr);
        run(calls);
        stop.record(nullptr);
        gpu::wait_for(nullptr, "running kernels");
        seconds.push_back(static_cast<double>(stop.since(start)) * 1e-3 / static_cast<double>(calls));
    }
    std::sort(seconds.begin(), seconds.end());
    lua_pushnumber(L, seconds[seconds.size() / 2]);
    return 1;
}

// gpu_copy_rate(bytes) -> bytes read and written a second
int gpu_copy_rate(lua_State* L) {
    need_gpu("gpu_copy_rate");
    const Index bytes = lua_isnoneornil(L, 1) ? Index{1} << 30 : check_integer(L, 1, "bytes");
    if (bytes < 1 << 20) fail("bytes: ", bytes, ", expected at least ", 1 << 20);
    lua_pushnumber(L, gpu::copy_bandwidth(static_cast<std::size_t>(bytes), nullptr));
    return 1;
}

// gpu_memory() -> {used, peak, free, total} in bytes; gpu_memory("reset") starts the peak again
int gpu_memory(lua_State* L) {
    need_gpu("gpu_memory");
    if (!lua_isnoneornil(L, 1)) {
        if (check_string(L, 1, "gpu_memory") != "reset") fail("gpu_memory: expected \"reset\" or nothing");
        gpu::reset_peak();
    }
    gpu::enter_chosen_device();
    std::size_t free = 0, total = 0;
    gpu::check(cudaMemGetInfo(&free, &total), "asking for the free memory");
    lua_createtable(L, 0, 4);
    set_field(L, "used", static_cast<double>(gpu::bytes_in_use()));
    set_field(L, "peak", static_cast<double>(gpu::bytes_peak()));
    set_field(L, "free", static_cast<double>(free));
    set_field(L, "total", static_cast<double>(total));
    make_result(L, "the memory of a GPU");
    return 1;
}

// gpu_randn(dims..., [type or {dtype = type}]) -> normal numbers, made on the GPU
int gpu_randn(lua_State* L) {
    static Index next_seed = 0;
    const Wanted wanted = check_dims(L, 1, "gpu_randn");
    need_gpu("gpu_randn");
    gpu::Tensor out(wanted.type.value_or(DType::f32), wanted.shape);
    gpu::fill_normal(out.data(), out.type(), static_cast<std::size_t>(out.size()),
                     static_cast<std::uint64_t>(++next_seed), 1.0, nullptr);
    push(L, out);
    return 1;
}

}  // namespace

void open_gpu_measure(lua_State* L) {
    add_functions(L, {{"has_gpu", guarded<has_gpu>},
                      {"gpu_time", guarded<gpu_time>},
                      {"gpu_copy_rate", guarded<gpu_copy_rate>},
                      {"gpu_memory", guarded<gpu_memory>},
                      {"gpu_randn", guarded<gpu_randn>}});
}

}  // namespace causeway::lua

#else

namespace causeway::lua {
namespace {

template <const char* const* function>
int no_gpu(lua_State*) {
    std::string why;
    gpu_available(&why);
    fail_as<SystemError>(*function, ": no GPU: ", why);
}

constexpr const char *time_name = "gpu_time", *rate_name = "gpu_copy_rate", *memory_name = "gpu_memory",
                     *randn_name = "gpu_randn";

}  // namespace

void open_gpu_measure(lua_State* L) {
    add_functions(L, {{"has_gpu", guarded<has_gpu>},
                      {time_name, guarded<no_gpu<&time_name> >},
                      {rate_name, guarded<no_gpu<&rate_name> >},
                      {memory_name, guarded<no_gpu<&memory_name> >},
                      {randn_name, guarded<no_gpu<&randn_name> >}});
}

}  // namespace causeway::lua

#endif
