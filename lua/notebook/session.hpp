// An interpreter as a notebook uses it: requests of Jupyter's protocol in, the contents of their replies out. What it
// does is the shell's; this file knows of no sockets.
#pragma once

#include <pthread.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "lua/notebook/cell_display.hpp"
#include "lua/notebook/outlet.hpp"
#include "lua/shell/script.hpp"

struct lua_State;

namespace causeway::lua {

class Session {
public:
    using Json = nlohmann::json;

    // Takes standard output and error over; the outlet must outlive it. Interrupts (SIGINT) stop cells and are dropped
    // between them.
    explicit Session(Outlet& outlet);
    ~Session();

    // Runs a cell and returns the content of an execute_reply. `count` is the number of the cell, `expressions` maps a
    // name to an expression whose value the reply has under it; `may_ask`: the front end takes questions to the user.
    Json execute(const std::string& code, int count, bool silent, const Json& expressions, bool may_ask);

    // A message through a channel of a widget.
    void receive(const std::string& comm, const Json& data);

    // Positions count characters, as the protocol does.
    Json complete(const std::string& code, int cursor);
    Json inspect(const std::string& code, int cursor);
    Json is_complete(const std::string& code);

    // Stops the cell that runs; from any thread.
    void stop();

    lua_State* state() const { return L_.get(); }

    // For the functions that the library calls: see front_end.cpp.
    CellDisplay& display() { return display_; }
    Outlet& outlet() { return outlet_; }
    bool may_ask() const { return may_ask_; }

private:
    Failure run(const std::function<Failure()>& work);
    Json values_of(const Json& expressions);
    Json value_of(const std::string& expression);
    void tell_hidden_names();

    Outlet& outlet_;
    CellDisplay display_;
    std::unique_ptr<lua_State, void (*)(lua_State*)> L_;
    pthread_t thread_ = pthread_self();
    std::set<std::string> told_names_;
    bool may_ask_ = false;
};

// Gives the library the functions by which it reaches the front end, causeway._front_end.
void open_front_end(lua_State* L, Session& session);

// What the kernel says of itself: the content of a kernel_info_reply but for the protocol's version.
nlohmann::json kernel_info();

}  // namespace causeway::lua
