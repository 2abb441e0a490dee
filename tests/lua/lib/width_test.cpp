// Whatever the shell shows is no wider than its terminal, and no tensor pushes its own header off the screen.
#include "tests/lua/width.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/interrupt.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/about.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/evaluate.hpp"
#include "lua/shell/state.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway::lua;
using causeway::testing::too_wide;

namespace {

// A terminal of a given size that keeps what is shown.
class Screen : public Display {
public:
    Screen(int columns, int rows) : columns_(columns), rows_(rows) {}
    void show(const Rich& value) override { shown += value.text + "\n"; }
    void status(std::string_view) override {}
    int columns() const override { return columns_; }
    int rows() const override { return rows_; }
    bool colour() const override { return false; }
    std::string shown;

private:
    int columns_, rows_;
};

class Sized {
public:
    explicit Sized(int columns, int rows = 24) : screen_(columns, rows), L_(new_state(), lua_close) {
        set_display(L_.get(), screen_);
        lua_pushstring(L_.get(), (folder_ / "").c_str());
        lua_setglobal(L_.get(), "dir");
    }
    // All that an entry at the prompt shows.
    std::string operator()(const std::string& entry) {
        screen_.shown.clear();
        const Failure failure = evaluate(L_.get(), entry, "entry");
        CAPTURE(entry, failure.traceback);
        CHECK(failure.message == "");
        return screen_.shown;
    }
    std::string value(const std::string& name) {
        lua_getglobal(L_.get(), name.c_str());
        const std::string text = lua_tostring(L_.get(), -1) ? lua_tostring(L_.get(), -1) : "";
        lua_pop(L_.get(), 1);
        return text;
    }

private:
    causeway::testing::TemporaryFolder folder_;
    Screen screen_;
    std::unique_ptr<lua_State, decltype(&lua_close)> L_;
};

std::vector<std::string> words(const std::string& text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
}

const std::vector<int> widths{80, 120};

// What shows a page, a table, a tensor or a picture.
const std::vector<const char*> entries{
    "methods()",
    "lowrank_methods()",
    "machine()",
    "benchmark_method{lengths = {8, 16, 32, 64}, heads = 1, rank = 2, repeats = 2}",
    "benchmark_method{lengths = {8, 9, 10, 11, 12, 13, 14, 15}, heads = 1, rank = 2, repeats = 1, methods "
    "= "
    "{'fleet'}}",
    "q = randn(1, 2, 40, 8); benchmark_method{inputs = {q, q, q}, repeats = 2}",
    "benchmark_update{lengths = {8, 16, 32, 64}, heads = 1, rank = 2, repeats = 2}",
    "sweep{grid = {N = {8, 16}, method = {'fleet', 'outer-product-blockwise'}}, save = dir .. 'a', run = "
    "function(p) return btime(function() return ones(p.N, p.N) end, {samples = 2, show = false}) end}",
    "sweep{grid = {a = {1}, b = {1}}, run = function() local t = {} for i = 1, 30 do t['name' .. i] = i / "
    "7 "
    "end return t end}",
    "q, k, v = randn(1, 2, 40, 8), randn(1, 2, 40, 8), randn(1, 2, 40, 8); B, C = lowrank('favor+', q, k, "
    "{rank = 16})",
    "lowrank_error(q, k, B, C, {v = v})",
    "lowrank_error(q, k, B, C, {v = v}):table()",
    "{w = 1000 / 3 * ones(3, 3), one_more_name_that_is_long = -ones(9) / 3, {a = -ones(3, 3) / 3}}",
    "check_bound()",
    "check_bound('H11')",
    "check_bound('B7', {B = q, C = k, V = v})",
    "check_bound('A1', randn(4, 4) / 0)",
    "randn(2, 4, 256, 64)",
    "randn(1000, 1000)",
    "heatmap(randn(300, 300), {title = ('a long title '):rep(20)})",
    "plot{{x = {1, 2}, y = {1, 2}, label = ('label '):rep(9)}, {x = {1, 2}, y = {2, 1}, label = 'other'}, "
    "title = ('a long title '):rep(20), ylabel = ('a long label '):rep(20)}",
    "?",
    "?no_such_name_but_a_long_one_that_nobody_would_ever_give_to_a_function_of_theirs",
    "?math",
    "?collectgarbage",
    "?? length",
};

}  // namespace

TEST_CASE("what the shell shows keeps to 80 columns, and to 120", "[lua][width]") {
    for (const int columns : widths) {
        Sized shell(columns);
        CAPTURE(columns);
        CHECK(too_wide(banner_text(columns, true), columns) == "");
        for (const char* entry : entries) {
            CAPTURE(entry);
            const std::string shown = shell(entry);
            CHECK((shown != "" || entry[0] == 'q'));
            CHECK(too_wide(shown, columns) == "");
        }
    }
}

TEST_CASE("what the shell shows ends in a terminal of any width", "[lua][width]") {
    // Where an entry does not end, and takes ever more memory, it is interrupted, and the test fails.
    std::mutex mutex;
    std::condition_variable done;
    bool ended = false;
    std::thread watcher([&] {
        std::unique_lock lock(mutex);
        if (!done.wait_for(lock, std::chrono::minutes(2), [&] { return ended; })) causeway::interrupt::request();
    });
    for (int columns = 0; columns < 14; ++columns) {
        Sized shell(columns);
        CAPTURE(columns);
        for (const char* entry : entries)
            if (std::string(entry).find("benchmark") == std::string::npos)
                CHECK((shell(entry) != "" || entry[0] == 'q'));
    }
    {
        const std::lock_guard lock(mutex);
        ended = true;
    }
    done.notify_all();
    watcher.join();
    causeway::interrupt::clear();
}

TEST_CASE("every page of help, and the way to it, keeps to 80 columns, and to 120", "[lua][width]") {
    for (const int columns : widths) {
        Sized shell(columns);
        shell(
            "list = {} for _, names in ipairs{causeway._page_names(), causeway._elsewhere} do for name in pairs(names) "
            "do list[#list + 1] = name end end list = table.concat(list, ' ')");
        const auto names = words(shell.value("list"));
        REQUIRE(names.size() > 300);
        for (const std::string& name : names) {
            CAPTURE(columns, name);
            CHECK(too_wide(shell("?" + name), columns) == "");
        }
    }
}

TEST_CASE("the topics of help fit one screen", "[lua][width]") {
    Sized shell(80);
    const std::string shown = shell("?");
    CHECK(std::count(shown.begin(), shown.end(), '\n') + 2 <= 24);  // what was typed, and the next prompt
}

TEST_CASE("the header of a tensor stays on the screen", "[lua][width]") {
    for (const int rows : {24, 30, 40}) {
        Sized shell(80, rows);
        for (const char* shape : {"2, 4, 256, 64", "3, 5, 5", "6, 2, 3, 3", "400, 3"}) {
            CAPTURE(rows, shape);
            const std::string shown = shell("randn(" + std::string(shape) + ")");
            // What was typed, an empty line and the next prompt take three rows more.
            CHECK(std::count(shown.begin(), shown.end(), '\n') + 3 <= rows);
        }
    }
}
