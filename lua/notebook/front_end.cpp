// What the library may ask of a front end, as the functions of causeway._front_end. Where that is nil there is none.
#include <vector>

#include "lua/bind/bind.hpp"
#include "lua/notebook/session.hpp"

namespace causeway::lua {
namespace {

using Json = nlohmann::json;

Session& session(lua_State* L) { return *static_cast<Session*>(lua_touserdata(L, lua_upvalueindex(1))); }

Json json_argument(lua_State* L, int index, const char* name) { return Json::parse(check_string(L, index, name)); }

// open(comm, target, data, metadata): the last two as JSON.
int open(lua_State* L) {
    session(L).outlet().open_comm(check_string(L, 1, "comm"), check_string(L, 2, "target"), json_argument(L, 3, "data"),
                                  json_argument(L, 4, "metadata"));
    return 0;
}

// send(comm, data)
int send(lua_State* L) {
    session(L).outlet().send_comm(check_string(L, 1, "comm"), json_argument(L, 2, "data"));
    return 0;
}

// show(bundle): one display, a MIME type each form.
int show(lua_State* L) {
    session(L).display().show(json_argument(L, 1, "bundle"));
    return 0;
}

// begin_keeping(id, in_place): what is shown from now on becomes one display with this id.
int begin_keeping(lua_State* L) {
    session(L).display().begin_keeping(check_string(L, 1, "id"), lua_toboolean(L, 2));
    return 0;
}

// end_keeping(value, ...): with these values at its end.
int end_keeping(lua_State* L) {
    CellDisplay& display = session(L).display();
    std::vector<Rich> values;
    for (int i = 1; i <= lua_gettop(L); ++i) {
        if (!shown_in_entry(L, i)) values.push_back(rich(L, i));
    }
    for (const Rich& value : values) display.result(value);
    display.end_keeping();
    return 0;
}

// ask(prompt) -> the line that the user typed
int ask(lua_State* L) {
    if (!session(L).may_ask()) fail("the front end takes no questions to the user here, and there is no other input");
    const std::string prompt = check_string(L, 1, "prompt");
    session(L).display().drain();  // what is asked may have been printed
    push_text(L, session(L).outlet().ask(prompt));
    return 1;
}

}  // namespace

void open_front_end(lua_State* L, Session& session) {
    push_causeway(L);
    lua_newtable(L);
    for (const Entry& entry : {Entry{"open", guarded<open>}, Entry{"send", guarded<send>}, Entry{"show", guarded<show>},
                               Entry{"begin_keeping", guarded<begin_keeping>},
                               Entry{"end_keeping", guarded<end_keeping>}, Entry{"ask", guarded<ask>}}) {
        lua_pushlightuserdata(L, &session);
        lua_pushcclosure(L, entry.function, 1);
        lua_setfield(L, -2, entry.name);
    }
    lua_setfield(L, -2, "_front_end");
    lua_getfield(L, -1, "_read_from_front_end");
    if (call(L, 0, 0)) throw Error("internal error: io.read was not replaced");
    lua_pop(L, 1);
}

}  // namespace causeway::lua
