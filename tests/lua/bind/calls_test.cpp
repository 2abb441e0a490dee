// The described calls (core/calls) in both directions: what Tab offers is accepted, and what is accepted is offered and
// documented, on the CPU by the calls themselves and for the GPU by their parser.
#include "core/calls/description.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/calls/causal_linear_attention.hpp"
#include "core/calls/linear_attention.hpp"
#include "core/calls/softmax_attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/shell/complete.hpp"
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using namespace causeway;
using causeway::testing::Shell;
using State = std::unique_ptr<lua_State, void (*)(lua_State*)>;
using Words = std::set<std::string>;

namespace {

State fresh_state() { return {lua::new_state(), lua_close}; }

Words offered(lua_State* L, const std::string& text) {
    const auto words = lua::complete(L, text).words;
    return {words.begin(), words.end()};
}

// A call of every function that accepts its options, as text: what stands before the options, and what an option needs
// besides itself.
const std::map<std::string, std::string> arguments{
    {"causal_linear_attention", "x, x, x"},
    {"causal_linear_attention_grad", "x, x, x, x"},
    {"linear_attention", "x, x, x"},
    {"linear_attention_step", "t, t, t, S"},
    {"linear_attention_grad", "x, x, x, x"},
    {"general_linear_attention", "x, x, x"},
    {"general_linear_attention_step", "t, t, t, S"},
    {"general_linear_attention_grad", "x, x, x, x"},
    {"softmax_attention", "x, x, x"},
    {"softmax_attention_grad", "x, x, x, x"},
    {"energy", "x, x, x, nil"},
    {"energy_grad", "x, x, x, nil"},
    {"energy_hessian", "t, x, x, nil"},
    {"tree_decode", "t, x, x"},
    {"ring_decode", "t, x, x"},
    {"decode_model", ""},
    {"linear_model", ""},
    {"lowrank", "'skeinformer', x, x"},
    {"lowrank_error", "x, x, x, x"},
    {"scan", ""},
    {"short_convolution", "r, w"},
    {"l2norm", "x"},
    {"rms_norm", "x"},
    {"decay_gate", "a, A"},
};

// A value that the option takes, by its name; a choice is put in its place.
const std::map<std::string, std::string> values{
    {"decay", "0.5"},
    {"normalize", "true"},
    {"block", "4"},
    {"scale", "0.5"},
    {"qk_l2norm", "true"},
    {"state", "S"},
    {"return_state", "true"},
    {"ddecay", "false"},
    {"log_decay", "-g"},
    {"beta", "g"},
    {"a", "g"},
    {"u", "x"},
    {"w", "x"},
    {"chunk", "4"},
    {"inplace", "true"},
    {"dstate", "S"},
    {"causal", "false"},
    {"return_lse", "true"},
    {"O", "x"},
    {"lse", "g"},
    {"shards", "2"},
    {"sizes", "{3, 5}"},
    {"sharded", "false"},
    {"timeout", "60"},
    {"algorithm", "1"},
    {"per_node", "2"},
    {"overlap", "false"},
    {"home", "true"},
    {"rank", "3"},
    {"seed", "1"},
    {"v", "x"},
    {"mask", "false"},
    {"extras", "{}"},
    {"tolerance", "1e-3"},
    {"length", "100"},
    {"batch", "2"},
    {"heads", "4"},
    {"query_heads", "32"},
    {"dim", "8"},
    {"queries", "2"},
    {"per_channel", "true"},
    {"forgets", "true"},
    {"together", "2"},
    {"token_time", "1e-9"},
    {"within", "{latency = 1e-6}"},
    {"between", "{rate = 1e9}"},
    {"memory_rate", "1e12"},
    {"flop_rate", "1e12"},
    {"start", "0"},
    {"element_bytes", "4"},
    {"iterations", "5"},
    {"step", "keep"},
    {"inputs", "{x = x}"},
    {"reverse", "true"},
    {"cu_seqlens", "{0, 3, 8}"},
    {"checkpoint_every", "3"},
    {"state_indices", "{1}"},
    {"bias", "A"},
    {"weight", "u"},
    {"gate", "x"},
    {"eps", "1e-5"},
    {"dt_bias", "A"},
    {"A_log", "A2"},
    {"norm_weight", "u"},
    {"norm_gate", "x"},
    {"norm_eps", "1e-5"},
    {"lower_bound", "-5"},
    {"keep_states", "true"},
};

std::string needs(const std::string& call, const std::string& option, const std::string& choice) {
    if (call == "scan") return "step = keep, inputs = {x = x}, state = S, ";
    if (call == "linear_model") return option == "per_channel" || option == "forgets" ? "update = 'gated', " : "";
    const std::string g = call == "linear_attention_step" ? "h" : "g";
    if (call.rfind("linear_attention", 0) == 0) {
        const std::string projection = "update = 'gated', log_decay = " + g + ", ";
        if (option == "A_log") return projection;
        if (option == "dt_bias" || option == "lower_bound") return projection + "A_log = A2, ";
        if (option == "norm_activation") return call == "linear_attention_step" ? "norm_gate = t, " : "norm_gate = x, ";
        if (option == "norm_eps") return "norm_weight = u, ";
    }
    if (option == "log_decay") return "update = 'gated', ";
    if (option == "beta") return "update = 'delta', ";
    if (option == "u") return call == "general_linear_attention_step" ? "w = t, " : "w = x, ";
    if (option == "w") return call == "general_linear_attention_step" ? "u = t, " : "u = x, ";
    if (choice == "gated") return "log_decay = -" + g + ", ";
    if (choice == "delta") return "beta = " + g + ", ";
    if (choice == "gated_delta") return "log_decay = -" + g + ", beta = " + g + ", ";
    if (option == "timeout") return "shards = 2, ";
    if (option == "sizes" && call == "decode_model") return "length = 8, ";
    if (option == "O") return "lse = g, ";
    if (option == "lse") return "O = x, ";
    if (option == "state" && call == "causal_linear_attention") return "method = 'row-based', ";
    if (option == "state_indices" || option == "inplace") {
        if (call == "linear_attention_step" || call == "general_linear_attention_step") return "";
        return call == "causal_linear_attention" ? "method = 'row-based', state = S, " : "state = S, ";
    }
    if (option == "return_state") return "method = 'row-based', ";
    if (option == "block" && call == "causal_linear_attention") return "method = 'hybrid', ";
    return "";
}

// What cannot be had on every machine.
bool needs_a_machine(const std::string& option, const std::string& choice) {
    return (option == "device" && choice == "gpu") || (option == "engine" && choice != "threads");
}

std::string run(Shell& lua, const std::string& call, const std::string& option, const std::string& value,
                const std::string& choice = "") {
    const bool one_token = call == "linear_attention_step" || call == "general_linear_attention_step";
    const std::string given = call == "short_convolution" && option == "state" ? "zeros(1, 2, 4)"
                              : call != "decay_gate" && option == "dt_bias"    ? "A2"
                              : !one_token                                     ? value
                              : value == "g"                                   ? "h"
                              : value == "-g"                                  ? "-h"
                              : value == "x"                                   ? "t"
                                                                               : value;
    const std::string before = arguments.at(call) == "" ? "" : arguments.at(call) + ", ";
    const std::string order =
        choice == "bnhd" ? "local x, t = permutedims(x, 1, 3, 2, 4), permutedims(t, 1, 3, 2, 4) " : "";
    return lua(order + "local ok, message = pcall(" + call + ", " + before + "{" + needs(call, option, choice) +
               option + " = " + given + "}) return ok and 'accepted' or message");
}

}  // namespace

TEST_CASE("what Tab offers is what is described, and the page of the call documents it", "[lua][calls][complete]") {
    const State L = fresh_state();
    Shell lua;
    for (const auto& call : calls::descriptions()) {
        CAPTURE(call.name);
        Words names;
        for (const auto& option : call.options) names.insert(option.name);
        CHECK(names.size() == call.options.size());
        Words tab = offered(L.get(), call.name + "{");
        if (call.name == "lowrank")  // Tab offers those of every factorisation too
            CHECK(std::includes(tab.begin(), tab.end(), names.begin(), names.end()));
        else CHECK(tab == names);
        const std::string page =
            lua("local page causeway._present = function(rich) page = rich.text end causeway._help('" + call.name +
                "') return page");
        for (const auto& option : call.options) {
            CAPTURE(option.name, page);
            CHECK(page.find("\n    " + option.name + " ") != std::string::npos);
            CHECK(!option.text.empty());
            CHECK(!option.type.empty());
            CHECK(!option.standard.empty());
            if (!option.choices) continue;
            const auto choices = option.choices();
            CHECK(offered(L.get(), call.name + "{" + option.name + " = '") == Words(choices.begin(), choices.end()));
            if (!option.listed_by.empty()) continue;
            for (const auto& choice : choices) CHECK(page.find('"' + choice + '"') != std::string::npos);
        }
    }
}

TEST_CASE("no line of the page of a described call is wider than the terminal", "[lua][calls][help]") {
    Shell lua;
    for (const auto& call : calls::descriptions()) {
        CAPTURE(call.name);
        CHECK(lua("local page causeway._present = function(rich) page = rich.text end causeway._help('" + call.name +
                  "') local options = page:match('\\n  options\\n(.-)\\n\\n') or '' local widest = 0 "
                  "for line in (options .. '\\n'):gmatch('(.-)\\n') do widest = math.max(widest, utf8.len(line)) end "
                  "return widest > 0 and widest <= 80") == "true");
    }
}

TEST_CASE("what is described is accepted by the calls on the CPU", "[lua][calls]") {
    Shell lua;
    lua("x, t, S = randn(1, 2, 8, 4), randn(1, 2, 1, 4), zeros(1, 2, 4, 4) g, h = rand(1, 2, 8), rand(1, 2, 1) "
        "r, w, a, A, u, A2 = randn(1, 8, 4), randn(4, 3), randn(1, 4, 8), randn(4), rand(4), randn(2) "
        "function keep(S, x) return nil, S end");
    for (const auto& call : calls::descriptions()) {
        for (const auto& option : call.options) {
            CAPTURE(call.name, option.name);
            if (!option.choices) {
                REQUIRE(values.count(option.name) == 1);
                CHECK(run(lua, call.name, option.name, values.at(option.name)) == "accepted");
                continue;
            }
            for (const auto& choice : option.choices()) {
                CAPTURE(choice);
                if (!needs_a_machine(option.name, choice))
                    CHECK(run(lua, call.name, option.name, "'" + choice + "'", choice) == "accepted");
            }
        }
        CHECK(run(lua, call.name, "nothing", "1").find("unknown option \"nothing\"") != std::string::npos);
    }
}

// The parser of the GPU's calls is this template; it needs no GPU to say what it takes.
template <class S>
std::string read_for_gpu(lua_State* L, const calls::Call<S>& call, const std::string& table, S& out) {
    lua_settop(L, 0);
    REQUIRE(luaL_dostring(L, ("return " + table).c_str()) == LUA_OK);
    try {
        const lua::Options given(L, 1, call.name, lua::names_of(call.options));
        lua::read_options(L, given, call.options, calls::Device::gpu, out);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

template <class S>
void check_parser(lua_State* L, const calls::Call<S>& call) {
    for (const auto& option : call.options) {
        CAPTURE(call.name, option.name);
        const auto read = [&](const std::string& value) {
            S out;
            const std::string beside = option.name == std::string_view("timeout") ? "shards = 2, " : "";
            return read_for_gpu(L, call, "{" + beside + option.name + " = " + value + "}", out);
        };
        if (!option.choices) {
            const std::string message = read(values.at(option.name));
            CHECK((message == "accepted") == (option.gpu != calls::Effect::refused));
            continue;
        }
        for (const auto& choice : option.choices()) {
            CAPTURE(choice);
            const bool taken =
                option.gpu != calls::Effect::refused && (!option.cpu_choice || choice != option.cpu_choice);
            CHECK((read("'" + choice + "'") == "accepted") == taken);
        }
    }
}

TEST_CASE("the parser of the GPU's calls takes every option that is described", "[lua][calls]") {
    const State L = fresh_state();
    REQUIRE(luaL_dostring(L.get(), "x, S, g = randn(1, 2, 8, 4), zeros(1, 2, 4, 4), rand(1, 2, 8)") == LUA_OK);
    check_parser(L.get(), calls::causal_linear_attention<Tensor>());
    check_parser(L.get(), calls::causal_linear_attention_grad<Tensor>());
    check_parser(L.get(), calls::linear_attention<Tensor>());
    check_parser(L.get(), calls::linear_attention_step<Tensor>());
    check_parser(L.get(), calls::linear_attention_grad<Tensor>());
    check_parser(L.get(), calls::softmax_attention<Tensor>());
    check_parser(L.get(), calls::softmax_attention_grad<Tensor>());
}

TEST_CASE("the parser of the GPU's calls sets what is given and refuses what the GPU has not", "[lua][calls]") {
    const State L = fresh_state();
    calls::CausalCallOptions<Tensor> o;
    const auto& call = calls::causal_linear_attention<Tensor>();
    CHECK(o.precision == Precision::bf16x3);
    CHECK(read_for_gpu(L.get(), call, "{precision = 'tf32', decay = {0.5, 1}, block = 3, normalize = true}", o) ==
          "accepted");
    CHECK(o.precision == Precision::tf32);
    CHECK(o.decay == std::vector<double>{0.5, 1});
    CHECK(o.block == Index{3});
    CHECK(o.normalize);
    CHECK(read_for_gpu(L.get(), call, "{precision = 'tf23'}", o) ==
          "precision: \"tf23\", expected one of \"exact\", \"bf16x3\", \"tf32\" (did you mean \"tf32\"?)");
    CHECK(read_for_gpu(L.get(), call, "{device = 'tpu'}", o).find("device: \"tpu\", expected one of") == 0);

    calls::CausalGradOptions<Tensor> grad;
    CHECK(read_for_gpu(L.get(), calls::causal_linear_attention_grad<Tensor>(), "{block = 3}", grad) ==
          "block: given, but on the GPU the chunks of the gradient have one length");
    calls::SoftmaxCallOptions<Tensor> softmax;
    CHECK(read_for_gpu(L.get(), calls::softmax_attention<Tensor>(), "{method = 'flash'}", softmax) == "accepted");
    CHECK(read_for_gpu(L.get(), calls::softmax_attention<Tensor>(), "{method = 'standard'}", softmax) ==
          "method: \"standard\" does not run on the GPU, expected \"flash\"");
}
