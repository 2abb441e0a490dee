// A limit on the time of a call, for C++ and for Lua that it runs.
#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/interrupt.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

void stop_when_asked(lua_State* L, lua_Debug*) {
    Told told;
    try {
        interrupt::check();
        return;
    } catch (const std::exception& error) {
        told = told_of(L, error);
    }
    lua_sethook(L, stop_when_asked, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT,
                1);  // code that catches the error is stopped again
    raise_in_hook(L, told.message, told.kind);
}

// A deadline for C++ loops and, through a hook, for Lua loops; both as before when it ends, in whatever way.
class TimeLimit {
public:
    TimeLimit(lua_State* L, double seconds)
        : L_(L),
          hook_(lua_gethook(L)),
          mask_(lua_gethookmask(L)),
          count_(lua_gethookcount(L)),
          start_(steady_seconds()) {
        left_ = interrupt::set_deadline(seconds);
        if (left_ != 0 && left_ < seconds) interrupt::set_deadline(std::max(left_, shortest));  // the nearer one holds
        lua_sethook(L_, stop_when_asked, LUA_MASKCOUNT, instructions);
    }
    ~TimeLimit() {
        if (lua_gethook(L_) == stop_when_asked) lua_sethook(L_, hook_, mask_, count_);  // else Ctrl-C has set its own
        interrupt::set_deadline(left_ == 0 ? 0 : std::max(left_ - (steady_seconds() - start_), shortest));
    }
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;

private:
    static constexpr int instructions = 10000;
    static constexpr double shortest = 1e-9;  // 0 would mean no limit

    lua_State* L_;
    lua_Hook hook_;
    int mask_, count_;
    double start_, left_ = 0;
};

// _with_timeout(seconds, f, ...) -> what f(...) returns; the error "the time limit was reached" past the limit
int with_timeout(lua_State* L) {
    const double seconds = check_number(L, 1, "timeout");
    if (!(seconds > 0)) fail("timeout: ", seconds, ", expected a number of seconds above 0");
    const TimeLimit limit(L, std::min(seconds, 1e9));
    lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
    return lua_gettop(L) - 1;
}

// _stops() -> whether Ctrl-C or a time limit ends what runs
int stops(lua_State* L) {
    bool asked = false;
    try {
        interrupt::check();
    } catch (const Error&) {
        asked = true;
    }
    lua_pushboolean(L, asked);
    return 1;
}

}  // namespace

void open_time_limit(lua_State* L) {
    add_functions(L, {{"_with_timeout", guarded<with_timeout>}, {"_stops", guarded<stops>}});
}

}  // namespace causeway::lua
