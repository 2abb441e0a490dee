// find, match, gmatch and gsub against Lua's own, on patterns drawn from the signs that mean something; and that they
// can be stopped.
#include <memory>
#include <string>

#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

// A state with Lua's own functions under `own` and those here in `string`.
struct Both {
    Both() : L(luaL_newstate(), lua_close) {
        luaL_openlibs(L.get());
        run("own = {find = string.find, match = string.match, gsub = string.gsub, gmatch = string.gmatch}");
        causeway::lua::open_patterns(L.get());
    }

    // What the code returns, as text.
    std::string run(const std::string& code) {
        if (luaL_dostring(L.get(), code.c_str()) != LUA_OK || lua_gettop(L.get()) > 0) {
            const char* text = luaL_tolstring(L.get(), -1, nullptr);
            std::string result = text;
            lua_settop(L.get(), 0);
            return result;
        }
        return "";
    }

    std::unique_ptr<lua_State, void (*)(lua_State*)> L;
};

// same(...) gives nil, or the first call that differs. Errors are compared too, but for what names the function.
const char* const compare = R"lua(
function told(...)
  local r = table.pack(...)
  for i = 1, r.n do r[i] = math.type(r[i]) == "integer" and "#" .. r[i] or tostring(r[i]) end
  return (own.gsub(table.concat(r, "|"), "^false|bad argument #(%d) to '[^']*'", "false|bad argument #%1"))
end
function all(gmatch, ...)
  local list = {}
  local next = gmatch(...)
  for i = 1, 60 do
    local found = table.pack(next())
    if found[1] == nil then break end
    for k = 1, found.n do list[#list + 1] = tostring(found[k]) end
    list[#list + 1] = ";"
  end
  return table.concat(list, ",")
end
function same(s, p, init, r)
  local calls = {
    {"find", s, p, init}, {"find", s, p, init, true}, {"match", s, p, init}, {"gsub", s, p, r},
    {"gsub", s, p, r, init}, {"gsub", s, p, function(a, b) return b or a end},
    {"gsub", s, p, {a = "1", b = 2, ab = false}}}
  for _, c in ipairs(calls) do
    local a = told(pcall(own[c[1]], table.unpack(c, 2, 5)))
    local b = told(pcall(string[c[1]], table.unpack(c, 2, 5)))
    if a ~= b then return string.format("%s(%q, %q, %s, %q): %s, Lua's own %s", c[1], s, p, init, r, b, a) end
  end
  local a, b = told(pcall(all, own.gmatch, s, p, init)), told(pcall(all, string.gmatch, s, p, init))
  if a ~= b then return string.format("gmatch(%q, %q, %s): %s, Lua's own %s", s, p, init, b, a) end
end
)lua";

}  // namespace

TEST_CASE("patterns give what Lua's own functions give", "[lua][patterns]") {
    Both lua;
    REQUIRE(lua.run(compare) == "");
    // Every kind of item and every error, with what stands around it.
    CHECK(lua.run(R"lua(
      local patterns = {"", "a", ".", "a*", "a+", "a-", "a?", "^a", "a$", "^", "$", "^$", "()", "(a)", "((a)(b))",
        "()b()", "(a", "a)", "(()", "%1", "(a)%1", "(a%1)", "()%1", "%0", "%2", "%", "a%", "[", "[]", "[]]", "[^]",
        "[^]]", "[a", "[%", "[%]", "[%a]", "[^%a]", "[a-c]", "[c-a]", "[a-]", "[-a]", "[a-%a]", "[%a-c]",
        "[^a-c-]", "[]-a]", "%b", "%b(", "%b()", "%bab", "%f", "%fa", "%f[a]", "%f[^a]", "%f[%z]", "%f[", "%a",
        "%A", "%c", "%d", "%D", "%g", "%l", "%p", "%s", "%S", "%u", "%w", "%x", "%z", "%Z", "%%", "%.", "%-",
        "a**", "a+-", "**", "*", "?", "-", "+", "a-$", "(.-)%s*$", "(%a*)(%d*)", "\0", "[\0]", "a\0", "%\0", "a^",
        "$a", "a$b", ".-b", "(.-)(b)", "%w+%s*=%s*%w+", ("(a)"):rep(33), ("()"):rep(32), ("(a"):rep(20),
        ("a?"):rep(30), ("(a?"):rep(10) .. (")"):rep(10), ("a"):rep(300), ("a-"):rep(201) .. "c"}
      local subjects = {"", "a", "b", "ab", "aab abb (a(b)) b", "a = 1, b= 22", "  x y  ", "aaa", "a\0b", "]^-%",
        "(()", "\n\t_Z9", ("a"):rep(250)}
      for _, p in ipairs(patterns) do
        for _, s in ipairs(subjects) do
          for _, init in ipairs {1, 2, 0, -2, -100, 5, math.mininteger, math.maxinteger} do
            for _, r in ipairs {"x", "%0%0", "<%1%2>", "%%", "%", "%a"} do
              local wrong = same(s, p, init, r)
              if wrong then return wrong end
            end
          end
        end
      end)lua") == "");
    // Drawn at random, 20000 of them.
    CHECK(lua.run(R"lua(
      math.randomseed(7)
      local signs = {"a", "b", "%", "[", "]", "(", ")", ".", "*", "+", "-", "?", "^", "$", "1", "f", " ", "%a",
        "%d", "()", "[^a]", "(a)", "%f[a]", "%b()", "%1"}
      local letters = {"a", "b", "1", " ", "(", ")", "-", "%", "]"}
      local function drawn(list, most)
        local t = {}
        for i = 1, math.random(0, most) do t[i] = list[math.random(#list)] end
        return table.concat(t)
      end
      for i = 1, 20000 do
        local wrong = same(drawn(letters, 9), drawn(signs, 7), math.random(-4, 8), drawn(signs, 3))
        if wrong then return wrong end
      end)lua") == "");
}

TEST_CASE("what patterns refuse is said as Lua says it", "[lua][patterns][errors]") {
    Shell lua;
    CHECK(lua("('a'):find()") == "user:1: bad argument #1 to 'find' (string expected, got no value)");
    CHECK(lua("string.gsub('a', 'a')") ==
          "user:1: bad argument #3 to 'gsub' (string/function/table expected, got no value)");
    CHECK(lua("('a'):gsub('a', function() return {} end)") == "user:1: invalid replacement value (a table)");
    CHECK(lua("('a'):match('[a')") == "user:1: malformed pattern (missing ']')");
    CHECK(lua("('a'):gsub('a', function() error('mine') end)") == "user:1: mine");
    CHECK(lua("return ('a b'):gsub('%a', {a = 1})") == "1 b 2");
}

TEST_CASE("a pattern that would never end is stopped", "[lua][patterns][interrupt]") {
    Shell lua;
    lua("s, p = ('a'):rep(60), ('a?'):rep(60) .. ('a'):rep(60) long = ('a'):rep(100000) "
        "open, plain, half = ('('):rep(200000), ('a'):rep(8000000), ('a'):rep(2000000) .. 'b'");
    for (const char* call : {"string.find, s, p", "string.match, s, p", "string.gsub, s, p, ''", "string.gmatch(s, p)",
                             "string.find, long, '.-.-.-b'", "string.find, open, '%b()'", "string.find, plain, half",
                             "string.find, plain, half, 1, true"}) {
        CAPTURE(call);
        CHECK(lua(std::string("local good, why = pcall(causeway._with_timeout, 0.05, ") + call +
                  ") return good, error_kind(why)") == "false timeout");
    }
    CHECK(lua("return s:find('a', 60)") == "60 60");
    // A plain text that lies across the pieces in which it is looked for.
    CHECK(lua("t = ('-'):rep(4194302) .. 'abcd' .. ('-'):rep(9) return t:find('abcd', 1, true)") == "4194303 4194306");
    CHECK(lua("return t:find('d-', 7, true), t:find('', 5, true), ('a'):find('ab', 1, true)") == "4194306 5 nil");
}
