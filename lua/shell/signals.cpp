// The handler of Ctrl-C sets a flag of core/base/interrupt, which C++ looks at in its loops, and a hook, which stops
// Lua.
#include "lua/shell/signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "lua/bind/bind.hpp"

namespace causeway::lua {
namespace {

constexpr int status_of_interrupt = 130;  // 128 + SIGINT, as shells report it
constexpr int poll_every = 1000;          // instructions of a coroutine between two looks

pthread_t lua_thread;
Patience patience_with_code = Patience::script;
std::atomic<lua_State*> running{nullptr};
std::atomic<int> presses{0};
std::atomic<long> counted_press{0};  // when, in milliseconds
static_assert(std::atomic<lua_State*>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<long>::is_always_lock_free);

// Counts a press of Ctrl-C during a step, at the prompt one every quarter of a second: a key that is held down is no
// wish to leave.
int count_press() {
    constexpr long held_down_ms = 250;
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);  // a handler may call it
    const long now = time.tv_sec * 1000 + time.tv_nsec / 1000000;
    const bool counts = patience_with_code != Patience::shell || presses == 0 || now - counted_press >= held_down_ms;
    if (!counts) return 0;
    counted_press = now;
    return ++presses;
}

void stop(lua_State* L, lua_Debug* event);

void stop_at_once(lua_State* L) { lua_sethook(L, stop, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1); }
void look_now_and_then(lua_State* coroutine) { lua_sethook(coroutine, stop, LUA_MASKCOUNT, poll_every); }

// The hook stays set, so code that catches errors in a loop is stopped as well.
void stop(lua_State* L, lua_Debug*) {
    Told told;
    try {
        interrupt::check();
    } catch (const std::exception& error) {
        told = told_of(L, error);
    }
    if (!told.message.empty()) {
        stop_at_once(L);
        raise_in_hook(L, told.message, told.kind);
    }
    look_now_and_then(L);  // a coroutine that outlived an earlier Ctrl-C
}

void on_interrupt(int signal) {
    const int saved = errno;
    if (!pthread_equal(pthread_self(), lua_thread)) {
        pthread_kill(lua_thread, signal);  // lua_sethook may interrupt Lua, but not run beside it
        errno = saved;
        return;
    }
    interrupt::request();
    if (lua_State* L = running.load()) {
        stop_at_once(L);
        const int n = count_press();
        const bool waits = patience_with_code == Patience::notebook;
        if (!waits && n >= (patience_with_code == Patience::script ? 2 : 5)) _exit(status_of_interrupt);
        if (!waits && n == 3) {
            constexpr char warning[] =
                "\nthis step cannot be stopped; Ctrl-C twice more leaves causeway and loses the session\n";
            [[maybe_unused]] const auto written = write(STDERR_FILENO, warning, sizeof warning - 1);
        }
    }
    errno = saved;
}

// A handler that does nothing, unlike SIG_IGN, is not inherited by the programs that the shell starts.
void only_return(int) {}

// Without SA_RESTART reading from a terminal ends with the signal.
void set_handler(int signal, void (*handler)(int), int flags = 0) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
}

// coroutine.create of Lua is the first upvalue.
int create(lua_State* L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    look_now_and_then(lua_tothread(L, -1));
    return 1;
}

}  // namespace

void handle_signals(Patience patience) {
    lua_thread = pthread_self();
    patience_with_code = patience;
    set_handler(SIGINT, on_interrupt);
    set_handler(SIGPIPE, patience == Patience::script ? SIG_DFL : only_return);
    // Ctrl-\ would end a session without a word; Ctrl-C is what stops things in it.
    if (patience == Patience::shell) set_handler(SIGQUIT, only_return, SA_RESTART);
    set_handler(SIGXFSZ, only_return);  // a file beyond the limit of its size is an error of writing it
}

void leave_interrupts_to_the_system() { set_handler(SIGINT, SIG_DFL); }

Stoppable::Stoppable(lua_State* L) {
    interrupt::clear();
    presses = 0;
    running = L;
}

Stoppable::~Stoppable() {
    if (lua_State* L = running.exchange(nullptr); L && interrupt::requested()) {
        lua_sethook(L, nullptr, 0, 0);
        std::clearerr(stdout);  // a write that the signal cut short
        std::clearerr(stdin);
    }
}

void make_coroutines_stoppable(lua_State* L) {
    lua_getglobal(L, "coroutine");
    lua_getfield(L, -1, "create");
    lua_pushcclosure(L, create, 1);
    lua_setfield(L, -2, "create");
    lua_pop(L, 1);
}

}  // namespace causeway::lua
