// Every public function has help, and every example in it runs as it stands.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>

#include "lua/bind/bind.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/evaluate.hpp"
#include "lua/shell/state.hpp"
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"
#include "tests/lua/width.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::lua;
using causeway::testing::TemporaryFolder;

namespace {

using State = std::unique_ptr<lua_State, void (*)(lua_State*)>;
State fresh_state() { return {new_state(), lua_close}; }

struct ManualEntry {
    std::string call, text, example, topic;
};

std::map<std::string, ManualEntry> read_manual(lua_State* L) {
    std::map<std::string, ManualEntry> manual;
    push_causeway(L);
    lua_getfield(L, -1, "manual");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        ManualEntry& entry = manual[lua_tostring(L, -2)];
        const auto field = [&](const char* name) {
            std::string text = lua_getfield(L, -1, name) == LUA_TSTRING ? lua_tostring(L, -1) : "";
            lua_pop(L, 1);
            return text;
        };
        entry = {field("call"), field("text"), field("example"), field("topic")};
    }
    lua_pop(L, 2);
    return manual;
}

// A display that keeps what it is to show.
struct Silent : Display {
    void show(const Rich& value) override { shown += value.text + "\n"; }
    void status(std::string_view) override {}
    int columns() const override { return 80; }
    int rows() const override { return 24; }
    bool colour() const override { return false; }
    std::string shown;
};

// In a folder of its own and without output, while it lives.
class Quietly {
public:
    Quietly() : before_(std::filesystem::current_path()), out_(dup(STDOUT_FILENO)), err_(dup(STDERR_FILENO)) {
        std::fflush(stdout);
        const int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDOUT_FILENO);
        dup2(nothing, STDERR_FILENO);
        close(nothing);
        std::filesystem::current_path(folder_.path());
    }
    ~Quietly() {
        std::fflush(stdout);
        dup2(out_, STDOUT_FILENO);
        dup2(err_, STDERR_FILENO);
        close(out_);
        close(err_);
        std::filesystem::current_path(before_);
    }
    Quietly(const Quietly&) = delete;
    Quietly& operator=(const Quietly&) = delete;

private:
    TemporaryFolder folder_;
    std::filesystem::path before_;
    int out_, err_;
};

}  // namespace

TEST_CASE("every public function has an entry in the manual", "[lua][help]") {
    const State L = fresh_state();
    const auto manual = read_manual(L.get());
    push_causeway(L.get());
    for (lua_pushnil(L.get()); lua_next(L.get(), -2); lua_pop(L.get(), 1)) {
        const std::string name = lua_tostring(L.get(), -2);
        if (!lua_isfunction(L.get(), -1) || name[0] == '_') continue;
        INFO(name);
        CHECK(manual.count(name) == 1);
    }
}

TEST_CASE("every entry says how to call, what it does, and shows an example", "[lua][help]") {
    const State L = fresh_state();
    for (const auto& [name, entry] : read_manual(L.get())) {
        INFO(name);
        CHECK(entry.call != "");
        CHECK(entry.text != "");
        CHECK(entry.topic != "");
        CHECK(entry.example != "");
    }
}

TEST_CASE("every example runs as it stands in a fresh shell", "[lua][help]") {
    Silent silent;
    const auto manual = read_manual(fresh_state().get());
    for (const auto& [name, entry] : manual) {
        Failure failure;
        {
            const Quietly quietly;
            const State L = fresh_state();
            set_display(L.get(), silent);
            failure = evaluate(L.get(), entry.example, "example");
        }
        INFO(name << ": " << entry.example << "\n" << failure.traceback);
        CHECK(failure.message == "");
        CHECK(causeway::testing::too_wide(silent.shown, silent.columns()) == "");
        silent.shown.clear();
    }
}

TEST_CASE("every entry can be shown", "[lua][help]") {
    Silent silent;
    const State L = fresh_state();
    set_display(L.get(), silent);
    for (const auto& [name, entry] : read_manual(L.get())) {
        INFO(name << ": " << entry.call);
        CHECK(evaluate(L.get(), "?" + name, "help").message == "");
    }
}

TEST_CASE("the words that an option takes are a list of the caller's own", "[lua][help]") {
    causeway::testing::Shell shell;
    CHECK(shell("return table.concat(choices('linear_attention', 'update'), ' ')") == "linear gated delta gated_delta");
    CHECK(shell("choices('linear_attention', 'update')[1] = 'x' return choices('linear_attention', 'update')[1]") ==
          "linear");
    CHECK(shell("choices('none', 'update')") == "user:1: choices: \"none\" is no function with options");
    CHECK(shell("choices('linear_attention', 'none')") ==
          "user:1: choices: the option \"none\" of linear_attention has no list of words");
}
