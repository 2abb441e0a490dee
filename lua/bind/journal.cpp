// The journal that sweep keeps its rows in (core/base/journal.hpp). For lua/lib/sweep.lua alone.
#include "core/base/journal.hpp"

#include <poll.h>

#include "core/base/file.hpp"
#include "core/base/interrupt.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

constexpr const char* journal_type = "causeway.Journal";

// What Lua holds: nothing once with_journal has ended.
Journal& check_journal(lua_State* L) {
    auto* journal = *static_cast<Journal**>(luaL_checkudata(L, 1, journal_type));
    if (!journal) fail("the journal is closed");
    return *journal;
}

// Closes the journal, which releases its locks, however the call ends: after Ctrl-C no Lua code runs that could.
class Handle {
public:
    Handle(lua_State* L, Journal& journal) : place_(static_cast<Journal**>(lua_newuserdatauv(L, sizeof(Journal*), 0))) {
        *place_ = &journal;
        luaL_setmetatable(L, journal_type);
    }
    ~Handle() { *place_ = nullptr; }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

private:
    Journal** place_;  // on the stack of Lua below the call, so it is not collected
};

// _with_journal(path, "read" or "write", f) -> what f(journal) returns
int with_journal(lua_State* L) {
    const bool writes = check_string(L, 2, "access") == "write";
    Journal journal(check_string(L, 1, "path"), writes ? Journal::Access::write : Journal::Access::read);
    lua_settop(L, 3);
    const Handle handle(L, journal);
    lua_pushvalue(L, 3);
    lua_pushvalue(L, 4);
    lua_call(L, 1, LUA_MULTRET);
    return lua_gettop(L) - 4;
}

int read_lines(lua_State* L) {
    const std::string text = check_journal(L).read();
    push_text(L, text);
    return 1;
}

int append_lines(lua_State* L) {
    check_journal(L).append(check_string(L, 2, "text"));
    return 0;
}

int claim(lua_State* L) {
    lua_pushboolean(L, check_journal(L).claim(check_string(L, 2, "key")));
    return 1;
}

int empty_alone(lua_State* L) {
    lua_pushboolean(L, check_journal(L).empty_alone());
    return 1;
}

template <void (Journal::*F)()>
int call_method(lua_State* L) {
    (check_journal(L).*F)();
    return 0;
}

// _remove_parts(path): what writers of this file left when they were killed
int remove_parts_of(lua_State* L) {
    remove_parts(check_string(L, 1, "path"));
    return 0;
}

// _sleep(seconds): less where a signal comes
int sleep_for(lua_State* L) {
    interrupt::check();
    ::poll(nullptr, 0, static_cast<int>(1000 * check_number(L, 1, "seconds")));
    interrupt::check();
    return 0;
}

}  // namespace

void open_journal(lua_State* L) {
    luaL_newmetatable(L, journal_type);
    const luaL_Reg methods[] = {{"read", guarded<read_lines>},
                                {"append", guarded<append_lines>},
                                {"claim", guarded<claim>},
                                {"release", guarded<call_method<&Journal::release>>},
                                {"lock", guarded<call_method<&Journal::lock>>},
                                {"unlock", guarded<call_method<&Journal::unlock>>},
                                {"rewind", guarded<call_method<&Journal::rewind>>},
                                {"join", guarded<call_method<&Journal::join>>},
                                {"empty_alone", guarded<empty_alone>},
                                {nullptr, nullptr}};
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    add_functions(L, {{"_with_journal", guarded<with_journal>},
                      {"_remove_parts", guarded<remove_parts_of>},
                      {"_sleep", guarded<sleep_for>}});
}

}  // namespace causeway::lua
