#include "lua/bind/state_pool.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "core/kit/state_pool.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"

#ifdef CAUSEWAY_GPU
#include "gpu/tensor/state_pool.hpp"
#endif

namespace causeway::lua {
namespace {

constexpr const char* pool_type = "causeway.StatePool";

// A pool, wherever its states are.
class AnyPool {
public:
    virtual ~AnyPool() = default;
    virtual const Shape& shape() const = 0;
    virtual std::size_t bytes() const = 0;
    virtual bool on_gpu() const = 0;
    virtual void push_states(lua_State* L, const std::vector<Index>& slots) const = 0;
    // Puts the Tensor at `index`.
    virtual void put(lua_State* L, int index, const std::vector<Index>& slots, const char* argument) = 0;
};

class CpuPool : public AnyPool {
public:
    explicit CpuPool(const Shape& s) : pool_(s[0], s[1], s[2], s[3]) {}
    const Shape& shape() const override { return pool_.shape(); }
    std::size_t bytes() const override { return pool_.bytes(); }
    bool on_gpu() const override { return false; }
    void push_states(lua_State* L, const std::vector<Index>& slots) const override { push(L, pool_.states(slots)); }
    void put(lua_State* L, int index, const std::vector<Index>& slots, const char* argument) override {
        pool_.put(check_tensor(L, index, argument), slots);
    }

private:
    kit::StatePool pool_;
};

#ifdef CAUSEWAY_GPU
class GpuPool : public AnyPool {
public:
    explicit GpuPool(const Shape& s) : pool_(s[0], s[1], s[2], s[3]) {}
    const Shape& shape() const override { return pool_.shape(); }
    std::size_t bytes() const override { return pool_.bytes(); }
    bool on_gpu() const override { return true; }
    void push_states(lua_State* L, const std::vector<Index>& slots) const override { push(L, pool_.states(slots)); }
    void put(lua_State* L, int index, const std::vector<Index>& slots, const char* argument) override {
        pool_.put(check_gpu_tensor(L, index, argument), slots);
    }

private:
    gpu::StatePool pool_;
};
#endif

std::unique_ptr<AnyPool> made_pool(const Shape& s, [[maybe_unused]] bool on_gpu) {
#ifdef CAUSEWAY_GPU
    if (on_gpu) return std::make_unique<GpuPool>(s);
#endif
    return std::make_unique<CpuPool>(s);
}

bool is_pool(lua_State* L, int index) { return luaL_testudata(L, index, pool_type) != nullptr; }

AnyPool& pool_at(lua_State* L, int index) { return **static_cast<std::unique_ptr<AnyPool>*>(lua_touserdata(L, index)); }

AnyPool& check_pool(lua_State* L, int index, const char* function) {
    if (!is_pool(L, index)) fail(function, ": expected a StatePool, got a ", type_name(L, index));
    return pool_at(L, index);
}

void push_pool(lua_State* L, std::unique_ptr<AnyPool> pool) {
    new (lua_newuserdatauv(L, sizeof(pool), 0)) std::unique_ptr<AnyPool>(std::move(pool));
    luaL_setmetatable(L, pool_type);
}

int collect_pool(lua_State* L) {
    static_cast<std::unique_ptr<AnyPool>*>(lua_touserdata(L, 1))->reset();
    return 0;
}

// The slots at `index`, a list that counts from 1, or a Tensor; all of them where nothing is there.
std::vector<Index> slots_at(lua_State* L, int index, const AnyPool& pool, const char* argument) {
    std::vector<Index> slots;
    if (lua_isnoneornil(L, index)) {
        for (Index i = 0; i < pool.shape()[0]; ++i) slots.push_back(i);
    } else if (is_tensor(L, index)) {
        const Tensor& A = check_tensor(L, index, argument);
        for (Index i = 0; i < A.size(); ++i) slots.push_back(static_cast<Index>(A.get(i)) - 1);
    } else if (lua_istable(L, index)) {
        for (lua_Integer i = 1; i <= static_cast<lua_Integer>(lua_rawlen(L, index)); ++i) {
            lua_geti(L, index, i);
            slots.push_back(check_integer(L, -1, argument) - 1);
            lua_pop(L, 1);
        }
    } else {
        fail(argument, ": expected a list of slots, got a ", type_name(L, index));
    }
    return slots;
}

// state_pool(slots, h, d_k, d_v) -> a pool of zeros; state_pool(states) -> one that holds these [slots, h, d_k, d_v],
// where they are
int state_pool(lua_State* L) {
    const bool on_gpu = is_gpu_tensor(L, 1);
    if (on_gpu || is_tensor(L, 1)) {
        if (lua_gettop(L) > 1) fail("state_pool: ", lua_gettop(L), " arguments, expected the states alone, or 4 sizes");
        const Shape s = check_form(L, 1, "states").shape();
        if (s.ndim() != 4) fail("states: ", s.text(), ", expected slots×h×d_k×d_v");
        auto pool = made_pool(s, on_gpu);
        pool->put(L, 1, slots_at(L, 2, *pool, "slots"), "states");
        push_pool(L, std::move(pool));
        return 1;
    }
    Index sizes[4];
    constexpr const char* names[] = {"state_pool: slots", "state_pool: h", "state_pool: d_k", "state_pool: d_v"};
    for (int i = 0; i < 4; ++i) {
        sizes[i] = check_integer(L, i + 1, names[i]);
        if (sizes[i] < 1) fail(names[i], ": ", sizes[i], ", expected 1 or more");
    }
    if (lua_gettop(L) > 4) fail("state_pool: ", lua_gettop(L), " arguments, expected 4");
    push_pool(L, made_pool({sizes[0], sizes[1], sizes[2], sizes[3]}, false));
    return 1;
}

// pool:states(slots) -> the states in Float32
int states_of_pool(lua_State* L) {
    const AnyPool& pool = check_pool(L, 1, "states");
    pool.push_states(L, slots_at(L, 2, pool, "states: slots"));
    return 1;
}

// pool:put(slots, states) -> the pool
int put_into_pool(lua_State* L) {
    AnyPool& pool = check_pool(L, 1, "put");
    pool.put(L, 3, slots_at(L, 2, pool, "put: slots"), "put: states");
    lua_settop(L, 1);
    return 1;
}

// pool:bytes() -> what it takes in memory
int bytes_of_pool(lua_State* L) {
    lua_pushinteger(L, static_cast<lua_Integer>(check_pool(L, 1, "bytes").bytes()));
    return 1;
}

// pool:size() -> slots, h, d_k, d_v
int size_of_pool(lua_State* L) {
    const Shape& s = check_pool(L, 1, "size").shape();
    for (int i = 0; i < 4; ++i) lua_pushinteger(L, s[i]);
    return 4;
}

int pool_text(lua_State* L) {
    const AnyPool& pool = check_pool(L, 1, "tostring");
    push_text(
        L, pool.shape().text() + (pool.on_gpu() ? " gpu" : "") + " StatePool{8 bits, a scale for each slot and head}");
    return 1;
}

int pool_method(lua_State* L) { return method_named(L, "StatePool"); }

int no_fields_of_pool(lua_State*) {
    fail("a StatePool has no fields to set: pool:put(slots, states) changes its states");
}

// The call on the stack as it is made again: its arguments copied, the options in a table of their own.
class PooledCall {
public:
    PooledCall(lua_State* L, const std::vector<calls::Argument>& arguments)
        : L_(L),
          count_(lua_gettop(L)),
          named_(count_ == 1 && lua_istable(L, 1)),
          options_(named_ ? 1 : static_cast<int>(arguments.size()) + 1) {
        for (std::size_t i = 0; i < arguments.size() && !named_; ++i)
            if (std::string_view(arguments[i].name) == "state") state_ = static_cast<int>(i) + 1;
    }

    // Pushes the pool that is the state; pushes nothing where it is none.
    bool push_pool() const {
        if (state_ > 0 && state_ <= count_) lua_pushvalue(L_, state_);
        else push_option("state");
        if (is_pool(L_, lua_gettop(L_))) return true;
        lua_pop(L_, 1);
        return false;
    }

    void push_option(const char* name) const {
        if (options_ <= count_ && lua_istable(L_, options_)) lua_getfield(L_, options_, name);
        else lua_pushnil(L_);
    }

    bool flag(const char* name) const {
        push_option(name);
        const bool on = lua_toboolean(L_, -1) != 0;
        lua_pop(L_, 1);
        return on;
    }

    // Pushes the arguments, with the states at `own` and without slots. Returns how many there are.
    int push_arguments(int own, bool written) const {
        const int n = named_ ? 1 : std::max(count_, options_);
        for (int i = 1; i <= n; ++i) {
            if (i == options_) push_options(own, written);
            else if (i == state_) lua_pushvalue(L_, own);
            else lua_pushvalue(L_, i);
        }
        return n;
    }

private:
    void push_options(int own, bool written) const {
        lua_newtable(L_);
        if (options_ <= count_ && lua_istable(L_, options_)) {
            for (lua_pushnil(L_); lua_next(L_, options_);) {
                lua_pushvalue(L_, -2);
                lua_insert(L_, -2);
                lua_rawset(L_, -4);
            }
        }
        for (const char* name : {"state_indices", "inplace"}) {
            lua_pushnil(L_);
            lua_setfield(L_, -2, name);
        }
        if (state_ == 0) {
            lua_pushvalue(L_, own);
            lua_setfield(L_, -2, "state");
        }
        if (written && returns_state_on_request_) set_field(L_, "return_state", true);
    }

    lua_State* L_;
    int count_;
    bool named_;
    int options_, state_ = 0;  // their places on the stack; state_ 0: it is an option
    bool returns_state_on_request_ = false;

public:
    void return_state_on_request() { returns_state_on_request_ = true; }
};

}  // namespace

bool is_gpu_pool(lua_State* L, int index) { return is_pool(L, index) && pool_at(L, index).on_gpu(); }

int with_state_pool(lua_State* L, const char* function, const std::vector<calls::Argument>& arguments,
                    lua_CFunction again) {
    PooledCall call(L, arguments);
    if (!call.push_pool()) return -1;
    const int place = lua_gettop(L);
    AnyPool& pool = check_pool(L, place, function);
    call.push_option("state_indices");
    if (lua_isnil(L, -1))
        fail("state_indices: missing, expected the slots of the pool that the sequences have, as the state is a pool");
    const std::vector<Index> slots = slots_at(L, lua_gettop(L), pool, "state_indices");
    const bool written = call.flag("inplace"), on_request = std::string_view(function) == "causal_linear_attention";
    const bool wanted = !on_request || call.flag("return_state");
    if (on_request) call.return_state_on_request();
    lua_settop(L, place);
    luaL_checkstack(L, LUA_MINSTACK + 8, "too many arguments");
    pool.push_states(L, slots);
    lua_pushcfunction(L, again);
    const int given = call.push_arguments(place + 1, written);
    lua_call(L, given, LUA_MULTRET);
    lua_remove(L, place + 1);
    const int state = place + 2;  // behind the output
    if (written) {
        pool.put(L, state, slots, "state");
        lua_pushvalue(L, place);
        lua_replace(L, state);
        if (!wanted) lua_remove(L, state);
    }
    return lua_gettop(L) - place;
}

void open_state_pool(lua_State* L) {
    luaL_newmetatable(L, pool_type);
    const luaL_Reg metamethods[] = {{"__gc", collect_pool},
                                    {"__tostring", guarded<pool_text>},
                                    {"__newindex", guarded<no_fields_of_pool>},
                                    {nullptr, nullptr}};
    luaL_setfuncs(L, metamethods, 0);
    lua_newtable(L);
    const luaL_Reg methods[] = {{"states", guarded<states_of_pool>},
                                {"put", guarded<put_into_pool>},
                                {"bytes", guarded<bytes_of_pool>},
                                {"size", guarded<size_of_pool>},
                                {nullptr, nullptr}};
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__methods");
    lua_pushcclosure(L, guarded<pool_method>, 1);
    lua_setfield(L, -2, "__index");
    seal(L, "StatePool");
    lua_pop(L, 1);
    add_functions(L, {{"state_pool", guarded<state_pool>}});
}

}  // namespace causeway::lua
