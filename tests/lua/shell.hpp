// An interpreter inside the test: runs chunks and tells what they return.
#pragma once

#include <memory>
#include <string>

#include "lua/bind/bind.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/state.hpp"
#include "tests/temporary.hpp"

namespace causeway::testing {

class Shell {
public:
    Shell() : L_(lua::new_state(), lua_close) {
        lua::set_display(L_.get(), silent_);
        set("dir", folder_ / "");  // a folder of its own, with a slash behind it
    }

    // A global variable.
    void set(const char* name, const std::string& value) {
        lua_pushlstring(L_.get(), value.data(), value.size());
        lua_setglobal(L_.get(), name);
    }

    // What the chunk returns, as text separated by blanks, or the message of its error.
    std::string operator()(const std::string& code) {
        lua_State* L = L_.get();
        lua_settop(L, 0);
        if (luaL_loadbuffer(L, code.data(), code.size(), "=user") == LUA_OK) lua_pcall(L, 0, LUA_MULTRET, 0);
        std::string out;
        const int n = lua_gettop(L);
        for (int i = 1; i <= n; ++i) {
            std::size_t size = 0;
            const char* text = luaL_tolstring(L, i, &size);
            if (i > 1) out += ' ';
            out.append(text, size);
            lua_pop(L, 1);
        }
        return out;
    }

    // The one Tensor that the chunk returns.
    Tensor tensor(const std::string& code) {
        (*this)(code);
        return lua::check_tensor(L_.get(), -1, "result");
    }

    std::string path(const std::string& name) const { return folder_ / name; }
    std::string file(const std::string& name) const { return read_bytes(path(name)); }

private:
    struct Silent : lua::Display {
        void show(const lua::Rich&) override {}
        void status(std::string_view) override {}
        int columns() const override { return 80; }
        int rows() const override { return 24; }
        bool colour() const override { return false; }
    };

    TemporaryFolder folder_;
    Silent silent_;
    std::unique_ptr<lua_State, decltype(&lua_close)> L_;
};

}  // namespace causeway::testing
