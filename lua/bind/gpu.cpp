#include "lua/bind/gpu.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "core/base/text.hpp"
#include "core/calls/description.hpp"
#include "core/tensor/rearrange.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/state_pool.hpp"
#include "lua/bind/tensor_args.hpp"
#ifdef CAUSEWAY_GPU
#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/tensor/elementwise.hpp"
#endif

namespace causeway::lua {
namespace {

enum class Place { cpu, gpu };

#ifdef CAUSEWAY_GPU

constexpr const char* gpu_tensor_type = "causeway.GpuTensor";
constexpr std::size_t least_growth = std::size_t{1} << 30;
std::size_t next_collection = least_growth;

// Pushes the tensor at `index` as it is there. A result goes where it can be: the GPU has no Float64.
void push_moved(lua_State* L, int index, Place to, bool result = false) {
    const bool stays = result && is_tensor(L, index) && check_tensor(L, index, "tensor").dtype() == DType::f64;
    if (is_tensor(L, index) && to == Place::gpu && !stays) push(L, gpu::Tensor(check_tensor(L, index, "tensor")));
    else if (is_gpu_tensor(L, index) && to == Place::cpu) push(L, check_gpu_tensor(L, index, "tensor").cpu());
    else lua_pushvalue(L, index);
}

int collect(lua_State* L) {
    static_cast<gpu::Tensor*>(luaL_checkudata(L, 1, gpu_tensor_type))->~Tensor();
    lua_pushnil(L);
    lua_setmetatable(L, 1);
    return 0;
}

int to_string(lua_State* L) {
    const std::string text = sentence(check_gpu_tensor(L, 1, "tostring").summary(), " on ", gpu::device().name);
    push_text(L, text);
    return 1;
}

int element_count(lua_State* L) {
    lua_pushinteger(L, check_gpu_tensor(L, 1, "#").size());
    return 1;
}

// a == b, as of tensors on the CPU: the same type, shape and elements.
int equal(lua_State* L) {
    bool same = false;
    if (is_gpu_tensor(L, 1) && is_gpu_tensor(L, 2)) {
        const gpu::Tensor &a = check_gpu_tensor(L, 1, "=="), &b = check_gpu_tensor(L, 2, "==");
        same = a.dtype() == b.dtype() && a.shape() == b.shape() && identical(a.cpu(), b.cpu());
    }
    lua_pushboolean(L, same);
    return 1;
}

int copy(lua_State* L) {
    push(L, check_gpu_tensor(L, 1, "copy").copy());
    return 1;
}

template <DType type>
int to_type(lua_State* L) {
    push(L, check_gpu_tensor(L, 1, "tensor").to(type));
    return 1;
}

int reshape(lua_State* L) {
    const gpu::Tensor& a = check_gpu_tensor(L, 1, "reshape");
    push(L, a.reshape(check_new_shape(L, a.form())));
    return 1;
}

// A:scaled(x): every element times x
int scaled(lua_State* L) {
    gpu::Tensor out = check_gpu_tensor(L, 1, "scaled").copy();
    gpu::scale_by(out.data(), out.type(), out.size(), static_cast<float>(check_number(L, 2, "scaled: factor")),
                  nullptr);
    push(L, out);
    return 1;
}

int cpu(lua_State* L) {
    push_moved(L, 1, Place::cpu);
    return 1;
}

int on_the_gpu(lua_State* L) {
    lua_pushliteral(L, "gpu");
    return 1;
}

int index(lua_State* L) { return method_named(L, "a Tensor on the GPU", ", A:cpu() has those of Tensor"); }

int elements_stay(lua_State*) {
    fail("elements of a Tensor on the GPU are not reached one by one: take a copy with A:cpu()");
}

#else

void push_moved(lua_State* L, int index, Place, bool = false) { lua_pushvalue(L, index); }

#endif

// The same table with its tensors moved, but for the options of the call that are read as numbers wherever they are.
void push_moved_table(lua_State* L, int index, Place to, const calls::Description* call) {
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, index);) {
        const auto* option = call && lua_type(L, -2) == LUA_TSTRING ? call->option(lua_tostring(L, -2)) : nullptr;
        lua_pushvalue(L, -2);
        if (option && option->on_host) lua_pushvalue(L, -2);
        else push_moved(L, lua_gettop(L) - 1, to, !call);
        lua_settable(L, -5);
        lua_pop(L, 1);
    }
}

// Of an argument of the call, or of a result, where `call` is null.
void push_all_moved(lua_State* L, int index, Place to, const calls::Description* call) {
    if (lua_istable(L, index)) push_moved_table(L, index, to, call);
    else push_moved(L, index, to, !call);
}

// Where the tensors of a call are.
struct Found {
    int cpu = 0, gpu = 0;                                // an argument there, counted from 1
    std::string device;                                  // the option
    const calls::OptionDescription* in_place = nullptr;  // the option that was true and overwrites an argument
    Place overwritten = Place::cpu;                      // where that argument is

    Found(lua_State* L, int arguments, const calls::Description& call) : call_(call) {
        for (const auto& option : call.options)
            if (!option.in_place.empty()) may_overwrite_ = &option;
        for (int i = 1; i <= arguments; ++i) {
            note(L, i, i);
            if (static_cast<std::size_t>(i) <= call.arguments.size())
                note_overwritten(L, i, call.arguments[i - 1].name);
            if (!lua_istable(L, i)) continue;
            for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1))
                if (lua_type(L, -2) == LUA_TSTRING) note_field(L, lua_tostring(L, -2), i);
        }
    }

private:
    static bool is_there(lua_State* L, int index) { return is_gpu_tensor(L, index) || is_gpu_pool(L, index); }

    void note(lua_State* L, int index, int argument) {
        if (is_tensor(L, index) && cpu == 0) cpu = argument;
        if (is_there(L, index) && gpu == 0) gpu = argument;
    }

    void note_overwritten(lua_State* L, int index, std::string_view name) {
        if (may_overwrite_ && may_overwrite_->in_place == name && is_there(L, index)) overwritten = Place::gpu;
    }

    // Of the value at the top, in the table that is `argument`.
    void note_field(lua_State* L, std::string_view key, int argument) {
        const auto* option = call_.option(key);
        if (key == "device" && lua_type(L, -1) == LUA_TSTRING) device = lua_tostring(L, -1);
        if (option && option == may_overwrite_ && lua_toboolean(L, -1)) in_place = option;
        note_overwritten(L, lua_gettop(L), key);
        if (!option || !option->on_host) note(L, lua_gettop(L), argument);
    }

    const calls::Description& call_;
    const calls::OptionDescription* may_overwrite_ = nullptr;
};

int call_where_tensors_are(lua_State* L, const calls::Description& call) {
    const int arguments = lua_gettop(L);
    luaL_checkstack(L, arguments + LUA_MINSTACK, "too many arguments");
    const Found found(L, arguments, call);
    const bool chosen = found.device == "cpu" || found.device == "gpu";  // another word is the function's to refuse
    if (found.cpu && found.gpu && !chosen) {
        fail("device: argument ", found.cpu, " has a Tensor on the CPU and argument ", found.gpu,
             " one on the GPU, expected all in one place (move with :gpu() or :cpu()), or the option device");
    }
    const Place home = found.gpu ? Place::gpu : Place::cpu;
    const Place target = chosen ? (found.device == "gpu" ? Place::gpu : Place::cpu) : home;
    const bool has_gpu_call = !lua_isnil(L, lua_upvalueindex(2));
    if (target == Place::gpu) {
        if (std::string why; !gpu_available(&why)) fail_as<SystemError>("device: \"gpu\" cannot be used, ", gpu_text());
        if (!has_gpu_call) fail("device: \"gpu\", expected \"cpu\": this function runs on the CPU alone");
        if (counting)
            fail("opcount: a call on the GPU, expected tensors on the CPU: their definitions are what is counted");
    }
    const bool moves = home != target || (found.cpu && found.gpu);
    if (found.in_place && found.overwritten != target) {
        fail(found.in_place->name, ": true, but the ", found.in_place->in_place, " would be copied to the ",
             found.device, ", expected it there (move with :gpu() or :cpu())");
    }
    lua_pushvalue(L, lua_upvalueindex(target == Place::gpu ? 2 : 1));
    for (int i = 1; i <= arguments; ++i) {
        if (moves) push_all_moved(L, i, target, &call);
        else lua_pushvalue(L, i);
    }
    lua_call(L, arguments, LUA_MULTRET);
    const int last = lua_gettop(L);
    if (home == target) return last - arguments;
    for (int i = arguments + 1; i <= last; ++i) push_all_moved(L, i, home, nullptr);
    return last - arguments;
}

// Upvalues: the function for tensors of the CPU, that for the GPU or nil, the description of the call.
int where_tensors_are(lua_State* L) {
    const auto& call = *static_cast<const calls::Description*>(lua_touserdata(L, lua_upvalueindex(3)));
    return distributed::shared_call(shared_by_ranks(L, call), [&] { return call_where_tensors_are(L, call); });
}

// A:gpu()
int gpu_(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "gpu");
    if (!gpu_available()) fail_as<SystemError>("gpu: ", gpu_text());
#ifdef CAUSEWAY_GPU
    push(L, gpu::Tensor(a));
    return 1;
#else
    static_cast<void>(a);
    return 0;
#endif
}

int itself(lua_State* L) {
    if (!is_gpu_tensor(L, 1)) check_tensor(L, 1, "A");
    lua_settop(L, 1);
    return 1;
}

int on_the_cpu(lua_State* L) {
    lua_pushliteral(L, "cpu");
    return 1;
}

}  // namespace

void push_on_cpu(lua_State* L, int index) { push_moved(L, index, Place::cpu); }

void add_functions_by_device(lua_State* L, std::initializer_list<Entry> entries) {
    push_causeway(L);
    for (const Entry& entry : entries) {
        const calls::Description* call = calls::description(entry.name);
        if (!call) fail(entry.name, ": core/calls does not describe it");
        lua_pushcfunction(L, entry.function);
        if (const lua_CFunction on_gpu = gpu_call(entry.name)) lua_pushcfunction(L, on_gpu);
        else lua_pushnil(L);
        lua_pushlightuserdata(L, const_cast<calls::Description*>(call));
        lua_pushcclosure(L, guarded<where_tensors_are>, 3);
        lua_setfield(L, -2, entry.name);
    }
    lua_pop(L, 1);
}

#ifdef CAUSEWAY_GPU

std::size_t gpu_bytes() { return gpu::bytes_in_use(); }

bool gpu_available(std::string* why) { return gpu::device_available(why); }

std::string gpu_name() { return gpu::device().name; }

bool runs_on_gpu(const std::string& method) { return gpu::find_causal_method(method) != nullptr; }

void push(lua_State* L, gpu::Tensor value) {
    void* place = lua_newuserdatauv(L, sizeof(gpu::Tensor), 0);
    new (place) gpu::Tensor(std::move(value));
    luaL_setmetatable(L, gpu_tensor_type);
    if (gpu_bytes() > next_collection) {  // the collector sees only the few bytes of the handle
        lua_gc(L, LUA_GCCOLLECT);
        // Half as much again, but never most of what the device has left: a call that finds no room waits and maps
        // memory anew.
        const std::size_t used = gpu_bytes(), left = gpu::device().memory - std::min(gpu::device().memory, used);
        next_collection = used + std::max(least_growth, std::min(used, left) / 2);
    }
}

void set_field(lua_State* L, const char* key, const gpu::Tensor& value) {
    push(L, value);
    lua_setfield(L, -2, key);
}

bool is_gpu_tensor(lua_State* L, int index) { return luaL_testudata(L, index, gpu_tensor_type) != nullptr; }

Tensor check_form(lua_State* L, int index, const char* argument) {
    return is_gpu_tensor(L, index) ? check_gpu_tensor(L, index, argument).form() : check_tensor(L, index, argument);
}

gpu::Tensor& check_gpu_tensor(lua_State* L, int index, const char* argument) {
    if (!is_gpu_tensor(L, index)) {
        const std::string came = type_name(L, index);
        fail(argument, ": expected a Tensor on the GPU, got ", came == "nil" ? "nothing" : "a " + came,
             is_tensor(L, index) ? " on the CPU" : "");
    }
    return *static_cast<gpu::Tensor*>(lua_touserdata(L, index));
}

void open_gpu(lua_State* L) {
    luaL_newmetatable(L, gpu_tensor_type);
    const luaL_Reg metamethods[] = {
        {"__gc", collect},        {"__tostring", guarded<to_string>}, {"__len", guarded<element_count>},
        {"__eq", guarded<equal>}, {"__call", guarded<elements_stay>}, {"__newindex", guarded<elements_stay>},
        {nullptr, nullptr}};
    luaL_setfuncs(L, metamethods, 0);
    lua_newtable(L);
    const luaL_Reg methods[] = {{"copy", guarded<copy>},
                                {"f32", guarded<to_type<DType::f32>>},
                                {"f16", guarded<to_type<DType::f16>>},
                                {"bf16", guarded<to_type<DType::bf16>>},
                                {"reshape", guarded<reshape>},
                                {"scaled", guarded<scaled>},
                                {"cpu", guarded<cpu>},
                                {"gpu", guarded<itself>},
                                {"device", on_the_gpu},
                                {nullptr, nullptr}};
    luaL_setfuncs(L, methods, 0);
    push_causeway(L);
    for (const char* of_both : {"eltype", "size", "length", "ndims"}) {
        lua_getfield(L, -1, of_both);
        lua_setfield(L, -3, of_both);
    }
    lua_pop(L, 1);
    lua_pushcclosure(L, guarded<index>, 1);
    lua_setfield(L, -2, "__index");
    seal(L, "Tensor on the GPU");
    lua_pop(L, 1);
    add_methods(L, {{"gpu", guarded<gpu_>}, {"cpu", guarded<itself>}, {"device", on_the_cpu}});
}

#else

std::size_t gpu_bytes() { return 0; }

bool gpu_available(std::string* why) {
    if (why) *why = "built without CUDA (./lab build gpu adds it)";
    return false;
}

std::string gpu_name() { return {}; }

bool runs_on_gpu(const std::string&) { return false; }

bool is_gpu_tensor(lua_State*, int) { return false; }

Tensor check_form(lua_State* L, int index, const char* argument) { return check_tensor(L, index, argument); }

lua_CFunction gpu_call(const char*) { return nullptr; }

void open_gpu(lua_State* L) {
    add_methods(L, {{"gpu", guarded<gpu_>}, {"cpu", guarded<itself>}, {"device", on_the_cpu}});
}

#endif

}  // namespace causeway::lua
