// A session without sockets: what cells send, and the contents of replies.
#include "lua/notebook/session.hpp"

#include <cstdio>
#include <string>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"

using namespace causeway::lua;
using causeway::testing::contains;
using Json = nlohmann::json;

namespace {

// Writes down what it is sent, a word a message: "stdout:text", "show:text", "result:text" ...
struct Recorder : Outlet {
    std::string log;
    Json last;
    void note(const std::string& what, const std::string& text) { log += what + ":" + text + "|"; }
    void note(const std::string& what, const Json& bundle) {
        last = bundle;
        note(what, bundle["text/plain"].get<std::string>());
    }
    void stream(const std::string& name, const std::string& text) override { note(name, text); }
    void show(const Json& bundle, const std::string& id) override { note(id.empty() ? "show" : "status", bundle); }
    void update(const Json& bundle, const std::string&) override { note("update", bundle); }
    void result(int count, const Json& bundle) override { note("result" + std::to_string(count), bundle); }
    void error(const std::string& name, const std::string&, const std::vector<std::string>& lines) override {
        note(name, lines.at(0));
    }
    void clear(bool wait) override { note("clear", std::string(wait ? "wait" : "now")); }
    void open_comm(const std::string& id, const std::string& target, const Json& data, const Json&) override {
        note("open", target + " " + data["state"]["_model_name"].get<std::string>());
        opened.push_back({id, data["state"]});
    }
    void send_comm(const std::string&, const Json& data) override {
        note("send", data["method"].get<std::string>());
        sent = data;
    }
    std::string ask(const std::string& prompt) override {
        note("ask", prompt);
        return answer;
    }

    struct Opened {
        std::string id;
        Json state;
    };
    std::vector<Opened> opened;
    Json sent;
    std::string answer;
};

// Cells of one session. Catch2 prints nothing while it lives: standard output is the session's.
class Notebook {
public:
    std::string operator()(const std::string& code, bool silent = false) {
        recorder_.log.clear();
        reply = session_.execute(code, ++count_, silent, Json::object(), may_ask);
        return recorder_.log;
    }
    // A message to the widget with this model's name.
    std::string receive(const std::string& model, const Json& data) {
        recorder_.log.clear();
        session_.receive(id_of(model), data);
        return recorder_.log;
    }
    std::string id_of(const std::string& model) const {
        for (const auto& one : recorder_.opened) {
            if (one.state["_model_name"] == model) return one.id;
        }
        return "no such model";
    }
    Recorder& recorder() { return recorder_; }
    bool may_ask = true;
    Json bundle() const { return recorder_.last; }
    Session& session() { return session_; }
    Json reply;

private:
    Recorder recorder_;
    Session session_{recorder_};
    int count_ = 0;
};

}  // namespace

TEST_CASE("a cell sends what it shows in order, and its last value as its result", "[lua][notebook]") {
    std::string several, hidden, silent, after, cleared, waits, failed, status, kind;
    {
        Notebook cell;
        several = cell("print('a')\n1\nio.stderr:write('b');\n2");
        hidden = cell("1;");
        silent = cell("3", true);
        after = cell("4\nprint('c')");
        cleared = cell("clear_output()");
        waits = cell("clear_output(true)");
        failed = cell("5\nrandn(-1)");
        kind = cell.reply["ename"];
        status = cell("causeway._status('half') causeway._status()\n6");
    }
    CHECK(several == "stdout:a\n|show:1|stderr:b|result1:2|");
    CHECK(hidden.empty());
    CHECK(silent.empty());
    CHECK(after == "show:4|stdout:c\n|");
    CHECK(cleared == "clear:now|");
    CHECK(waits == "clear:wait|");
    CHECK(contains(failed, "show:5|bad argument:"));
    CHECK(kind == "bad argument");
    CHECK(status == "status:half|update:|result8:6|");
}

TEST_CASE("values of a cell come in the forms that a front end shows", "[lua][notebook]") {
    Json tensor, table, broken;
    std::string html;
    Json payload;
    {
        Notebook cell;
        cell("tensor{{1, -2}, {3, 4}}");
        tensor = cell.bundle();
        cell("text_table({{word = 'x', number = 1}})");
        table = cell.bundle();
        cell(
            "setmetatable({}, {__rich = function() return setmetatable({text = 'as text'}, {__index = function(_, "
            "name) "
            "if name == 'svg' then error('no gnuplot', 0) end end}) end})");
        broken = cell.bundle();
        cell("?randn");
        payload = cell.reply["payload"];
    }
    html = tensor["text/html"];
    CHECK(contains(html, "<td style=\"text-align:right;background:rgba(33,102,172,0.23)\">-2.0</td>"));
    CHECK(contains(html, "<td style=\"text-align:right;background:rgba(214,96,77,0.45)\">4.0</td>"));
    CHECK(contains(table["text/html"], "<td style=\"text-align:left\">x</td>"));
    CHECK(contains(table["text/html"], "<td style=\"text-align:right\">1</td>"));
    CHECK(contains(table["text/html"], "<thead><tr>"));
    CHECK(broken["text/plain"] == "as text\n(no svg: no gnuplot)");
    CHECK_FALSE(broken.contains("image/svg+xml"));
    REQUIRE(payload.size() == 1);
    CHECK(payload[0]["source"] == "page");
    CHECK(contains(payload[0]["data"]["text/html"], "<pre>  randn("));
    CHECK(contains(payload[0]["data"]["text/html"], "<p><b>example</b></p>"));
}

TEST_CASE("a session completes, inspects and tells what is complete", "[lua][notebook]") {
    Json second_line, behind_letters, command, page, inner, variable, nothing;
    std::string complete, incomplete, invalid;
    {
        Notebook cell;
        Session& session = cell.session();
        cell("mine = 42");
        second_line = session.complete("x = 1\n?softmax_attention_g", -1);
        behind_letters = session.complete("s = \"γγ\" .. softmax_attention_g", -1);
        command = session.complete("for i = 1, 2 do\n  softmax_attention_gr)", 37);
        page = session.inspect("softmax_attention(q, k, v)", 3);
        inner = session.inspect("softmax_attention({}, {causal = true, ", -1);
        variable = session.inspect("1 + mine", -1);
        nothing = session.inspect("1 + ", -1);
        complete = session.is_complete("local a = 1\na + 1")["status"];
        incomplete = session.is_complete("f(1,")["status"];
        invalid = session.is_complete("1 +* 2")["status"];
    }
    CHECK(second_line["matches"] == Json::array({"softmax_attention_grad"}));
    CHECK(second_line["cursor_start"] == 7);
    CHECK(behind_letters["cursor_start"] == 12);
    CHECK(command["matches"] == Json::array({"softmax_attention_grad"}));
    CHECK(contains(page["data"]["text/plain"], "softmax_attention(q, k, v"));
    CHECK(contains(inner["data"]["text/plain"], "softmax_attention(q, k, v"));
    CHECK(contains(variable["data"]["text/plain"], "42"));
    CHECK(nothing["found"] == false);
    CHECK(complete == "complete");
    CHECK(incomplete == "incomplete");
    CHECK(invalid == "invalid");
}

TEST_CASE("interact opens widgets and shows the result, which changes in place", "[lua][notebook][interact]") {
    std::string first, moved, same, by_code, failed, silent_after, state_asked, all_asked, nested;
    Json view, several, slider, menu, failure, states;
    {
        Notebook cell;
        first = cell(
            "panel = interact(function(p) return p.method .. p.gamma end, "
            "{gamma = {0.5, 1, 0.25}, method = {'fleet', 'recursion'}})\npanel");
        view = cell.recorder().last;
        for (const auto& one : cell.recorder().opened) {
            if (one.state["_model_name"] == "FloatSliderModel") slider = one.state;
            if (one.state["_model_name"] == "DropdownModel") menu = one.state;
        }
        moved = cell.receive("FloatSliderModel", {{"method", "update"}, {"state", {{"value", 1}}}});
        same = cell.receive("FloatSliderModel", {{"method", "update"}, {"state", {{"value", 1.0}}}});
        by_code = cell("panel{method = 'recursion'};");
        state_asked = cell.receive("DropdownModel", {{"method", "request_state"}});
        menu["asked"] = cell.recorder().sent["state"]["index"];
        all_asked = cell.receive("DropdownModel", {{"method", "request_states"}});
        states = cell.recorder().sent["states"];
        cell(
            "q = interact(function(p) print('n is') display(tensor{p.n}) if p.n > 1 then (nil)() end "
            "return p.n end, {n = {0, 2}})");
        several = cell.bundle();
        failed = cell.receive("IntSliderModel", {{"method", "update"}, {"state", {{"value", 2}}}});
        failure = cell.bundle();
        silent_after = cell("print('out')");
        nested = cell("interact(function() interact(function() end, {a = 1}) end, {b = 2})");
    }
    CHECK(first ==
          "open:jupyter.widget LayoutModel|open:jupyter.widget SliderStyleModel|"
          "open:jupyter.widget FloatSliderModel|open:jupyter.widget DescriptionStyleModel|"
          "open:jupyter.widget DropdownModel|open:jupyter.widget VBoxModel|"
          "show:gamma = 0.75   method = fleet\n(no sliders here: JupyterLab shows them where "
          "jupyterlab_widgets is installed; the result of interact, called with {name = value}, sets values "
          "too)|status:\"fleet0.75\"|result1:interact: gamma = 0.75   method = fleet|");
    CHECK(slider["min"] == 0.5);
    CHECK(slider["max"] == 1);
    CHECK(slider["step"] == 0.25);
    CHECK(slider["value"] == 0.75);
    CHECK(slider["readout_format"] == ".2f");
    CHECK(menu["_options_labels"] == Json::array({"fleet", "recursion"}));
    CHECK(moved == "update:\"fleet1.0\"|");
    CHECK(same.empty());
    CHECK(by_code == "send:update|update:\"recursion1.0\"|");
    CHECK(state_asked == "send:update|");
    CHECK(menu["asked"] == 1);
    CHECK(all_asked == "send:update_states|");
    CHECK(states.size() == 6);
    CHECK(several["text/plain"] == "n is\n1-element Tensor{Float32}:\n 1.0\n1");
    CHECK(contains(several["text/html"], "<pre>n is\n</pre>\n<div>"));
    CHECK(contains(failed, "update:n is\n"));
    CHECK(contains(failed, "error: input[3]:1: attempt to call a nil value"));
    CHECK(contains(failure["text/html"], "<details><summary>where it came from</summary><pre>input[3]:1: in "));
    CHECK(silent_after == "stdout:out\n|");
    CHECK(contains(nested, "expected one at a time"));
}

TEST_CASE("the trace of an error is folded below its sentence", "[lua][notebook]") {
    std::string deep, flat;
    Json folded;
    {
        Notebook cell;
        cell("function f() return randn(-1) end");
        deep = cell("f()");
        folded = cell.bundle();
        flat = cell("randn(-1)");
    }
    CHECK(contains(deep, "bad argument:"));
    CHECK(contains(deep, "|show:input[1]:1: in function 'f'"));
    CHECK(contains(folded["text/html"], "<details><summary>"));
    CHECK_FALSE(contains(flat, "show:"));
    CHECK(contains(flat, "bad argument:"));
}

TEST_CASE("a session asks the user where the front end lets it", "[lua][notebook][input]") {
    std::string asked, read, number, refused;
    {
        Notebook cell;
        cell.recorder().answer = "17 apples";
        asked = cell("input('how many? ')");
        read = cell("io.read()");
        number = cell("n, rest = io.read('n', 'l'); n, rest");
        cell.may_ask = false;
        refused = cell("input()");
    }
    CHECK(asked == "ask:how many? |result1:\"17 apples\"|");
    CHECK(read == "ask:|result2:\"17 apples\"|");
    CHECK(number == "ask:|show:17|result3:\" apples\"|");
    CHECK(contains(refused, "error"));
}
