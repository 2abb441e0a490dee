// interact without a front end: calls, what they are given, and what is refused.
#include <string>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway::testing;

TEST_CASE("interact calls its function with first values, and with those that are set", "[lua][interact]") {
    Shell lua;
    lua("seen = {} function keep(p) seen[#seen + 1] = p return p end");
    CHECK(lua("p = interact(keep, {gamma = {0.5, 1, 0.01}, n = {1, 10}, word = {'a', 'b'}, on = true, text = 'x', "
              "k = 10, size = {choices = {64, 128, 256}}, x = {0, 1, value = 0.25}}) "
              "local s = seen[1] return s.gamma, s.n, s.word, s.on, s.text, s.k, s.size, s.x") ==
          "0.75 5 a true x 10 64 0.25");
    CHECK(lua("p{gamma = 0.9031, word = 'b', size = 256} local s = seen[2] return s.gamma, s.word, s.size, s.n") ==
          "0.9 b 256 5");
    CHECK(lua("p.n = 7 return #seen, seen[3].n, p.n, p.gamma, p.none") == "3 7 7 0.9 nil");
    CHECK(lua("seen[3].n = 100 return p.n, tostring(interact(keep, {b = 1, a = 2}, {order = {'b'}}))") ==
          "7 interact: b = 1   a = 2");
    CHECK(lua("return math.type(p.n), math.type(p.gamma), math.type(p.k)") == "integer float integer");
    CHECK(lua("q = interact(keep, {z = 0, y = 2.0, w = {1, 2}}) q{z = 1, y = -2} return q.z, q.y, q.w") == "1 -2.0 1");
}

TEST_CASE("interact says what it does not take", "[lua][interact]") {
    Shell lua;
    lua("f = function(p) return 1 end p = interact(f, {gamma = {0.5, 1, 0.01}, word = {'a', 'b'}, on = true})");
    const auto message = [&](const std::string& code) {
        return lua("return select(2, pcall(function() " + code + " end))");
    };
    CHECK(contains(message("interact(1, {a = 1})"), "interact: expected a function, got a number"));
    CHECK(contains(message("interact(f)"), "interact: expected what the function takes"));
    CHECK(contains(message("interact(f, {1, 2})"), "interact: expected names, as in {gamma = {0.5, 1, 0.01}}, got 1"));
    CHECK(contains(message("interact(f, {a = f})"), "interact: a: expected {min, max, step}, a list of choices"));
    CHECK(contains(message("interact(f, {a = {2, 1}})"), "interact: a: from 2 to 1, expected a range"));
    CHECK(contains(message("interact(f, {a = {64, 128, 256}})"), "for a choice among numbers give {choices = {...}}"));
    CHECK(contains(message("interact(f, {a = {0, 0/0}})"), "expected a range"));
    CHECK(contains(message("interact(f, {a = {}})"), "interact: a: got no choices"));
    CHECK(contains(message("interact(f, {a = {0, 1, value = 2}})"), "interact: a: 2, expected a number from 0 to 1"));
    CHECK(contains(message("interact(f, {a = 1}, {order = {'b'}})"), "interact: order: \"b\" is not among the names"));
    CHECK(contains(message("interact(f, {a = 1}, {ordr = {'b'}})"), "did you mean \"order\"?"));
    CHECK(contains(message("p{gamma = 2}"), "interact: gamma: 2, expected a number from 0.5 to 1"));
    CHECK(contains(message("p{gamma = 0/0}"), "interact: gamma: NaN, expected a number"));
    CHECK(contains(message("p{word = 'c'}"), "interact: word: \"c\", expected \"a\", \"b\""));
    CHECK(contains(message("p{on = 1}"), "interact: on: 1, expected a boolean"));
    CHECK(contains(message("p{gama = 1}"), "interact: unknown name \"gama\", expected gamma, on, word"));
    CHECK(contains(message("p(3)"), "interact: expected {name = value}, got a number"));
    CHECK(contains(message("input(3)"), "input: prompt: expected a string, got a number"));
}
