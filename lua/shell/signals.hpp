// Ctrl-C: stops what runs, C++ and Lua, and leaves the interpreter in a state to go on with.
#pragma once

struct lua_State;

namespace causeway::lua {

// What follows a Ctrl-C that the running function does not heed: a script ends at the second press; the shell, which
// has a session to lose, warns at the third and ends at the fifth; a notebook waits, since its front end can end it.
enum class Patience { script, shell, notebook };

// Installs the handlers, once, from the thread that runs Lua. In the shell and in a notebook a broken pipe is an
// ordinary error; in a script it ends the program quietly, as in other filters.
void handle_signals(Patience patience);

// From now on Ctrl-C ends the program at once.
void leave_interrupts_to_the_system();

// While it lives, Ctrl-C stops the Lua code that runs in L, again and again until the code has given up.
class Stoppable {
public:
    explicit Stoppable(lua_State* L);
    ~Stoppable();
    Stoppable(const Stoppable&) = delete;
    Stoppable& operator=(const Stoppable&) = delete;
};

// Makes coroutines created in L heed Ctrl-C too: the signal handler reaches only the main one.
void make_coroutines_stoppable(lua_State* L);

}  // namespace causeway::lua
