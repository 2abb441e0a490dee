// Every public function, and whatever a registry lists, has help, and every example in it runs as it stands.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>

#include "core/calls/description.hpp"
#include "core/exact/registry.hpp"
#include "core/gated/registry.hpp"
#include "core/lowrank/registry.hpp"
#include "core/softmax/registry.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/complete.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/evaluate.hpp"
#include "lua/shell/state.hpp"
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"
#include "tests/lua/width.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::lua;
using causeway::testing::contains;
using causeway::testing::squeezed;
using causeway::testing::TemporaryFolder;

namespace {

using State = std::unique_ptr<lua_State, void (*)(lua_State*)>;
State fresh_state() { return {new_state(), lua_close}; }

// A section of a page: an entry of the manual, or one made from a registry.
struct Section {
    std::string name, call, text, example, topic;
};

std::vector<Section> read_sections(lua_State* L) {
    std::vector<Section> sections;
    push_causeway(L);
    lua_getfield(L, -1, "_sections");
    lua_call(L, 0, 1);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        for (lua_Integer i = 1; lua_geti(L, -1, i) == LUA_TTABLE; ++i, lua_pop(L, 1)) {
            const auto field = [&](const char* name) {
                std::string text = lua_getfield(L, -1, name) == LUA_TSTRING ? lua_tostring(L, -1) : "";
                lua_pop(L, 1);
                return text;
            };
            sections.push_back({lua_tostring(L, -3), field("call"), field("text"), field("example"), field("topic")});
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    return sections;
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

// Shows pages at a prompt of its own.
class Pages {
public:
    Pages() : L_(fresh_state()) { set_display(L_.get(), silent_); }
    lua_State* state() const { return L_.get(); }
    std::string operator()(const std::string& name) {
        silent_.shown.clear();
        CHECK(evaluate(L_.get(), "?" + name, "help").message == "");
        return squeezed(silent_.shown);
    }

private:
    Silent silent_;
    State L_;
};

// What a registry says of one of its entries stands on the page of its name.
template <class Entry>
void check_page(Pages& pages, const Entry& entry) {
    const std::string page = pages(entry.name);
    CAPTURE(entry.name, page);
    std::vector<std::string> told{entry.source, entry.text, entry.use};
    if constexpr (requires { entry.formula; }) told.push_back(entry.formula);
    if constexpr (requires { entry.time; }) told.push_back(entry.time);
    if constexpr (requires(Entry e) { e.memory.size(); }) told.push_back(entry.memory);
    for (const std::string& text : told) {
        CAPTURE(text);
        CHECK(text != "");
        CHECK(contains(page, squeezed(text)));
    }
}

}  // namespace

TEST_CASE("every public function has an entry in the manual", "[lua][help]") {
    const State L = fresh_state();
    push_causeway(L.get());
    lua_getfield(L.get(), -1, "manual");
    for (lua_pushnil(L.get()); lua_next(L.get(), -3); lua_pop(L.get(), 1)) {
        const std::string name = lua_tostring(L.get(), -2);
        if (!lua_isfunction(L.get(), -1) || name[0] == '_') continue;
        INFO(name);
        CHECK(lua_getfield(L.get(), -3, name.c_str()) == LUA_TTABLE);
        lua_pop(L.get(), 1);
    }
}

TEST_CASE("every section of help says how to call, what it does, and shows an example", "[lua][help]") {
    const State L = fresh_state();
    for (const auto& section : read_sections(L.get())) {
        INFO(section.name);
        CHECK(section.call != "");
        CHECK(section.text != "");
        CHECK(section.topic != "");
        CHECK(section.example != "");
    }
}

TEST_CASE("every example of help runs as it stands in a fresh shell", "[lua][help]") {
    Silent silent;
    const causeway::testing::TemporaryFolder folder;  // where examples that make files have them
    const std::string names = "os.tmpname = function() return '" + (folder / "temporary") + "' end";
    std::map<std::string, std::string> examples;  // those that options of one function share run once
    for (const auto& section : read_sections(fresh_state().get())) examples[section.example] = section.name;
    for (const auto& [example, name] : examples) {
        Failure failure;
        {
            const Quietly quietly;
            const State L = fresh_state();
            set_display(L.get(), silent);
            failure = evaluate(L.get(), names, "names");
            if (!failure) failure = evaluate(L.get(), example, "example");
        }
        INFO(name << ": " << example << "\n" << failure.traceback);
        CHECK(failure.message == "");
        CHECK(causeway::testing::too_wide(silent.shown, silent.columns()) == "");
        silent.shown.clear();
    }
}

TEST_CASE("every method, update, mode, factorisation and option has a page made from its registry", "[lua][help]") {
    Pages pages;
    for (const auto& m : exact::methods()) check_page(pages, m);
    for (const auto& u : gated::updates()) check_page(pages, u);
    for (const auto& m : gated::modes()) check_page(pages, m);
    for (const auto& m : attention::methods()) check_page(pages, m);
    for (const auto& m : lowrank::methods()) {
        check_page(pages, m);
        for (const auto& option : m.options) CHECK(contains(pages(option.name), squeezed(option.text)));
    }
    for (const auto& call : calls::descriptions()) {
        for (const auto& option : call.options) {
            const std::string page = pages(option.name);
            CAPTURE(call.name, option.name, page);
            CHECK(
                contains(page, squeezed(option.name == "layout" ? "an option of every attention call" : option.text)));
        }
    }
}

TEST_CASE("nystrom's page says when its error grows with the rank, and so it does", "[lua][help]") {
    Pages pages;
    CHECK(contains(pages("nystrom"), "the error grows with the rank"));
    causeway::testing::Shell lua;
    lua("seed(1) q, k = randn(1, 1, 256, 16), randn(1, 1, 256, 16) "
        "function of(rank) local e = lowrank_error(q, k, lowrank('nystrom', q, k, {rank = rank})) "
        "return e.frobenius.relative_masked end "
        "function singular(rank) local n = 256 // rank "
        "local function means(x) return f64(x):reshape(rank, n, 16):mean(2):reshape(rank, 16) end "
        "local U, S, V = svd(exp(means(q) * means(k):t() / 4)) return S(1) / S(rank) end");
    CHECK(lua("return of(16) < 1, of(32) > 2 * of(16), of(64) > 2 * of(32), of(64) > 1, of(256) < 1e-6") ==
          "true true true true true");
    CHECK(lua("return singular(8) < 1e3, singular(64) > 1e4") == "true true");
}

TEST_CASE("help of a method that is reached through a value", "[lua][help]") {
    Pages pages;
    evaluate(pages.state(), "q = randn(2, 2); r = sweep{grid = {N = {1}}, run = function(p) return 1 end}", "setup");
    CHECK(contains(pages("q.mean"), "The mean of all elements."));
    CHECK(contains(pages("r.pivot"), "results:pivot(a, b, name) a wide table"));
    CHECK(evaluate(pages.state(), "help(q.mean)", "help").message == "");
    CHECK(evaluate(pages.state(), "help(r.pivot)", "help").message == "");
    CHECK(evaluate(pages.state(), "help(function() end)", "help").message.find("expected a name") != std::string::npos);
}

TEST_CASE("a method written in Lua has a page at once", "[lua][help]") {
    Pages pages;
    CHECK(contains(pages("mine"), "no help for \"mine\""));
    CHECK(contains(pages("xyzzyxyzzy"), "? lists the topics"));
    evaluate(
        pages.state(),
        "register_method{name = 'mine', source = 'A. Author 2026', time = 'O(N)', normalize = false, decay = true, "
        "forward = function(B, C, V) return V end}",
        "register");
    const std::string page = pages("mine");
    CHECK(contains(page, "causal_linear_attention(q, k, v, {method = \"mine\"})"));
    CHECK(contains(page, "A. Author 2026"));
    CHECK(contains(page, "not normalize and state"));
    evaluate(pages.state(),
             "register_method{name = 'mine', source = 'B. Other 2027', forward = function(B, C, V) "
             "return V end}",
             "register");
    CHECK(contains(pages("mine"), "B. Other 2027"));
    CHECK_FALSE(contains(pages("mine"), "A. Author 2026"));
}

TEST_CASE("pages are made once for all names", "[lua][help]") {
    const State L = fresh_state();
    CHECK(evaluate(L.get(), "assert(causeway._sections() == causeway._sections());", "help").message == "");
}

TEST_CASE("sources name papers by authors and title, documents by their titles", "[lua][help]") {
    Pages pages;
    const std::string page = pages("lightning-attention-2");
    CHECK(contains(page,
                   "Qin et al. 2024: Z. Qin, W. Sun, D. Li, X. Shen, W. Sun, Y. Zhong, Lightning Attention-2: A "
                   "Free Lunch for Handling Unlimited Sequence Lengths in Large Language Models, 2024"));
    CHECK(contains(page, "leet: J. Wang, S. Zhang, Q.-C. He, Y. Chen, LeetDecoding: A PyTorch Library"));
    CHECK(contains(pages("tree_decode"), "tree: anonymous authors, Tree Attention: Topology-Aware Decoding"));
    // Whatever names a year is one of the references, and each of these is named somewhere.
    causeway::testing::Shell shell;
    CHECK(shell("local sources, unknown, used = {}, {}, {} "
                "for name, list in pairs(causeway._sections()) do for _, section in ipairs(list) do "
                "local source = causeway._source_of(section) "
                "sources[#sources + 1] = section.text .. ' ' .. (section.notes or '') .. ' ' .. source "
                "for part in (source .. ';'):gmatch('(.-);') do local known = not part:find('%f[%d]%d%d%d%d%f[%D]') "
                "for _, r in ipairs(causeway._references) do for _, key in ipairs(r) do "
                "known = known or part:find(key, 1, true) end end "
                "if not known then unknown[#unknown + 1] = name .. ': ' .. part end end end end "
                "for _, r in ipairs(causeway._references) do for _, key in ipairs(r) do "
                "for _, text in ipairs(sources) do if text:find(key, 1, true) then used[r] = true end end end "
                "if not used[r] then unknown[#unknown + 1] = r[1] end end "
                "return table.concat(unknown, '; ')") == "");
}

TEST_CASE("a document has one page with what is here of it, also where a method has its name", "[lua][help]") {
    Pages pages;
    const std::string fleet = pages("fleet");
    CHECK(contains(fleet, "fleet is a method of causal_linear_attention and a document."));
    CHECK(contains(fleet, "Efficient Decoding for Long Prompts via Low-Rank Attention"));
    CHECK(contains(fleet, "cumsum(diag(C^j) V)"));
    for (const char* name : {"leet", "gates", "tpu", "tree"}) CHECK(contains(pages(name), "what of it is here"));
    CHECK(contains(pages("tpu"), "hybrid inner-product outer-product outer-product-blockwise"));
    CHECK(contains(pages("svd"), "svd is a function and a factorisation of lowrank."));
}

TEST_CASE("names of the literature and of other libraries lead to the page here", "[lua][help]") {
    Pages pages;
    const auto called = [&](const std::string& name, const std::string& here, const std::string& page) {
        const std::string shown = pages(name);
        CAPTURE(name, shown);
        CHECK(contains(shown, squeezed(" " + name + " is called " + here + " here.").substr(1)));
        CHECK(contains(shown, page));
    };
    called("gla", "gated", "{update = \"gated\", ...}");
    called("kimi", "gated_delta", "Kimi Delta Attention");
    called("minimax", "lightning-attention-2", "alibi_slopes");
    called("csv", "load", "rows:column(");
    for (const std::string name : {"qwen", "qwen3_next"})
        CHECK(contains(pages(name), name + ": the nearest here is gated_delta."));
    for (const std::string name : {"granite", "nemotron", "bamba", "eagle", "finch", "wkv"})
        CHECK(contains(pages(name), name + ": the nearest here is gated."));
    CHECK(contains(pages("column"), "rows:column(\"gamma\")"));
    called("Gated DeltaNet", "gated_delta", "{update = \"gated_delta\", ...}");
    called("KDA", "gated_delta", "gate per key channel");
    called("mamba-2", "gated", "q = C, k = B");
    called("RetNet", "retnet_decay", "Retentive Network");
    called("compare", "benchmark_method", "Times a method");
    called("time", "btime", "btime(");
    called("performer", "favor+", "Rethinking Attention with Performers");
    called("LA", "lightning-attention-2", "Qin et al. 2024");
    called("flash_attention", "softmax_attention", "softmax(scale q kᵀ) v");
    called("F.scaled_dot_product_attention", "softmax_attention", "softmax(scale q kᵀ) v");
    CHECK(contains(pages("np.linspace"), "linspace(a, b, n) is range(a, b, {length = n})."));
    called("np.load", "load", "load(path)");
    called("UT transform", "chunkwise", "triangular system");
    CHECK(contains(pages("householder"), "the nearest here is delta."));
    CHECK(contains(pages("\"gated attention\""), "sigmoid(g)"));
    CHECK(contains(pages("split"), "parts of A are"));
    called("rwkv", "rwkv7", "rwkv7(r, k, v");
    called("fused_recurrent_gla", "gated", "log_decay = g");
    CHECK(contains(pages("GatedSlotAttention"), "the nearest here is scan."));
    called("proofs", "check_bound", "check_bound(claim, inputs)");
    called("BTHD", "layout", "layout = \"bnhd\"");
    // An option is not called by the name of a method of models, which takes it.
    CHECK(contains(pages("options"), " temperature"));
    CHECK_FALSE(contains(pages("options"), "m:generate An option"));
    CHECK(contains(pages("temperature"),
                   "Of m:generate: temperature = 0, the default, always takes the likeliest token"));
    CHECK_FALSE(contains(pages("temperature"), "What others call temperature"));
    CHECK(contains(pages("A"), "Of check_bound: of A9 [N, N], the matrix of attention"));
    // What is short, or may be several options, leads to the first that has a page.
    CHECK(contains(pages("chunk_size"),
                   "What others call chunk_size is the option chunk here, or ?block in other calls."));
    CHECK(contains(pages("softmax_scale"), "What others call softmax_scale is the option scale here."));
    called("torch.nn.functional.softmax", "softmax", "softmax(A)");
    called("gemm", "*", "A * B");
    called("Fleet", "fleet", "FleetAttention");
    CHECK(contains(pages("linspace(0, 1, 5)"), "linspace(a, b, n) is range(a, b, {length = n})."));
    CHECK(contains(pages("string.rep"), "A function of Lua"));
    CHECK(contains(pages("mul_"), "A:times_(...) is times in place."));
    CHECK(contains(pages("license"), "The MIT License"));
    CHECK(contains(pages("about"), "m:about()"));
    CHECK(contains(pages("loss"), "?mse_loss and ?cross_entropy have lines"));
    CHECK(contains(pages("cross_attention"), "the nearest here is softmax_attention"));
    CHECK(contains(pages("np.foo"), "no help for \"np.foo\"; ? lists"));
    CHECK_FALSE(contains(pages("block"), "do ... end"));

    causeway::testing::Shell shell;
    CHECK(shell("local pages, n, wrong = causeway._page_names(), 0, {} "
                "for name, alias in pairs(causeway._elsewhere) do n = n + 1 "
                "if alias.page and not pages[alias.page] then wrong[#wrong + 1] = name .. ' -> ' .. alias.page end "
                "for _, section in ipairs(causeway._sections()[name] or {}) do if section.what ~= 'an option' then "
                "wrong[#wrong + 1] = name .. ' has a page' end end end "
                "return n >= 60, table.concat(wrong, ', ')") == "true ");
}

TEST_CASE("of a name that leads to a method, an update or a factorisation the call is told, and runs", "[lua][help]") {
    causeway::testing::Shell shell;
    CHECK(shell("q, k, v = randn(1, 2, 16, 8), randn(1, 2, 16, 8), randn(1, 2, 16, 8) "
                "g, beta, r = -rand(1, 2, 16), rand(1, 2, 16), 4 local n, wrong = 0, {} "
                "for name, line in pairs(causeway._call_lines()) do n = n + 1 "
                "if causeway._meant_here(name) ~= 'it is ' .. line .. ', see ?' .. name or not pcall(load(line)) then "
                "wrong[#wrong + 1] = line end end return n > 30, table.concat(wrong, '; ')") == "true ");
    CHECK(shell("local lines, wrong = causeway._call_lines(), {} for name, alias in pairs(causeway._elsewhere) do "
                "if lines[alias.page] and not alias.said and #name > 2 and "
                "not causeway._meant_here(name):find(alias.line or lines[alias.page], 1, true) and not "
                "causeway._meant_here(name):find('linear_attention(from_fla{', 1, true) then "
                "wrong[#wrong + 1] = name end end return table.concat(wrong, '; ')") == "");
    const auto meant = [&](const std::string& name) { return shell("return causeway._meant_here('" + name + "')"); };
    CHECK(meant("gla") == "it is linear_attention(q, k, v, {update = \"gated\", log_decay = g}), see ?gla");
    CHECK(meant("delta") == "it is linear_attention(q, k, v, {update = \"delta\", beta = beta}), see ?delta");
    CHECK(meant("performer") == "it is lowrank(\"favor+\", q, k, {rank = r}), see ?performer");
    CHECK(meant("retention") == "it is causal_linear_attention(q, k, v, {decay = retnet_decay(h)}), see ?retention");
    CHECK(meant("fleet_untiled").starts_with("it is causal_linear_attention(q, k, v, {method = \"fleet-untiled\"})"));
    CHECK(meant("xlstm").starts_with("the nearest here is linear_attention(q, k, v, {update = \"gated\", "));
}

TEST_CASE("methods of models and of results lead to the pages that tell of them", "[lua][help]") {
    Pages pages;
    const std::string models = pages("models");
    for (const char* method :
         {"m:attention ", "m:capture ", "m:generate ", "m:bits_per_byte ", "m:score ", "m:tokens "})
        CHECK(contains(models, method));
    CHECK(contains(pages("m:attention"), "Puts something else in the place of the attention"));
    CHECK(contains(pages("m:attention{layers = 1}"), "Puts something else in the place of the attention"));
    CHECK(contains(pages("m:reset"), "Puts something else in the place of the attention"));
    CHECK(contains(pages("m:chat"), "What the model m writes after the text"));
    CHECK(contains(pages("m:layers"), "A language model: from"));
    // Options of other calls that have the name of such a method lead to it.
    CHECK(pages("chat").find("The method m:chat has a page: ?m:chat.") < 10);
    CHECK(!contains(pages("capture"), "The method m:capture has a page"));
    CHECK(!contains(pages("layers"), "m:layers() what each"));  // the option's page, not the list of methods in a text
    CHECK(contains(pages("m:tokens"), "The ids of a text"));
    evaluate(pages.state(), "lm = model{arch = 'llama', size = 'tiny', weights = 'random'}", "make");
    CHECK(contains(pages("lm:attention"), "Puts something else in the place of the attention"));
    CHECK(contains(pages("results:where"), "Runs a function for every combination"));
    CHECK(contains(pages("results:plot"), "Runs a function for every combination"));
    CHECK(contains(pages("p:plot"), "Draws curves"));
    CHECK(contains(pages("A:mean"), "mean("));
}

TEST_CASE("auto has a page, which says how to see what it chose", "[lua][help]") {
    Pages pages;
    const std::string page = pages("auto");
    CHECK(contains(page, "chosen_method(q, k, v, options)"));
    CHECK(contains(pages("causal_linear_attention"), "?auto"));
}

TEST_CASE("the scale of each attention call is told beside that of other libraries", "[lua][help]") {
    Pages pages;
    CHECK(contains(pages("causal_linear_attention"), "The scale is 1 by default"));
    CHECK(contains(pages("linear_attention"), "The scale is 1 by default; that of ONNX's operator"));
    CHECK(contains(pages("gla"), "scale = 1 / math.sqrt(d_k)"));
    for (const char* kernel : {"chunk_gla", "fused_recurrent_gla", "fla.ops.gla.chunk_gla", "chunk_delta_rule"}) {
        CAPTURE(kernel);
        CHECK(causeway::testing::count(pages(kernel), "scale is 1") == 1);  // once is enough
    }
    CHECK(contains(pages("softmax_attention"), "The scale is 1/sqrt(d) by default"));
}

TEST_CASE("the letters of a method's memory are explained on its page and below the table", "[lua][help]") {
    Pages pages;
    CHECK(contains(pages("fleet"), "Br and Bc the rows and columns of a tile (block = 64 by default)"));
    CHECK(contains(pages("recursion"), "t the length of a base case"));
    CHECK(contains(pages("block-based"), "b the length of a block (block = 128 by default)"));
    causeway::testing::Shell shell;
    CHECK(contains(squeezed(shell("return methods()")), "b, t, Br and Bc lengths of a block, a base case and a tile"));
}

TEST_CASE("what is not here says so, and what is nearest", "[lua][help]") {
    Pages pages;
    for (const char* name : {"rope", "titans", "paged attention", "sliding-window", "Hyena"}) {
        const std::string shown = pages(name);
        CAPTURE(name, shown);
        CHECK(contains(shown, std::string(name) + " Not here. "));
    }
    CHECK(contains(pages("rope"), "q = cat(times(q1, c) - times(q2, s), times(q1, s) + times(q2, c), 4)"));
    CHECK(contains(pages("cosformer"), "cosformer: the nearest here is causal_linear_attention."));
    CHECK(contains(pages("B7"), "check_bound(\"B7\", {B = B, C = C, V = V})"));
    // What a text calls a page is one.
    causeway::testing::Shell shell;
    CHECK(shell("local pages, wrong = causeway._page_names(), {} for name, entry in pairs(causeway._elsewhere) do "
                "for other in (entry.how or ''):gmatch('%?([%w_]+)') do if not (pages[other] or "
                "causeway._elsewhere[other]) then wrong[#wrong + 1] = name .. ' -> ' .. other end end end "
                "for short, list in pairs(causeway._short_names) do for _, option in ipairs(list) do "
                "if not pages[option] then wrong[#wrong + 1] = short .. ' -> ' .. option end end end "
                "return table.concat(wrong, ', ')") == "");
}

TEST_CASE("the line of a rule of the literature is its recurrence", "[lua][help]") {
    causeway::testing::Shell lua;
    lua(R"(
      seed(5)
      b, h, N, d, dv = 2, 3, 7, 4, 5
      local function drawn(...) return f64(randn(...)) end
      inputs = {
        b = b, h = h, N = N, q = drawn(b, h, N, d), k = drawn(b, h, N, d), v = drawn(b, h, N, dv),
        x = drawn(b, h, N, dv),
        B = drawn(b, h, N, d), C = drawn(b, h, N, d), A = -f64(rand(h, 1)), dt = f64(rand(b, h, N)),
        beta = f64(rand(b, h, N)), b_t = drawn(b, h, N), a = drawn(b, h, N), f = drawn(b, h, N, d), A_log = drawn(h),
        t = drawn(h), g = -f64(rand(b, h, N, d)),
      }
      local function unit(x, b, h, n)
        local square = 0
        for e = 1, d do square = square + x(b, h, n, e) ^ 2 end
        return function(e) return x(b, h, n, e) / math.sqrt(square + 1e-6) end
      end
      local function plain(x, b, h, n) return function(e) return x(b, h, n, e) end end
      local function softplus(x) return math.log(1 + math.exp(x)) end
      local function gate_of(a, h, t) return -math.exp(inputs.A_log(h)) * softplus(a + t) end
      local function sigmoid_of(x) return 1 / (1 + math.exp(-x)) end
      -- Token n of a head: the decay of channel e, the writing strength of the delta rule or nil, q, k and v.
      local i = inputs
      rules = {
        retnet = function(b, h, n) return function() return 1 - 2 ^ (-4 - h) end, nil, plain(i.q, b, h, n),
          plain(i.k, b, h, n), plain(i.v, b, h, n) end,
        lightning = function(b, h, n) return function() return math.exp(-alibi_slopes(3)(h)) end, nil,
          plain(i.q, b, h, n), plain(i.k, b, h, n), plain(i.v, b, h, n) end,
        gla = function(b, h, n) return function(e) return math.exp(i.g(b, h, n, e)) end, nil, plain(i.q, b, h, n),
          plain(i.k, b, h, n), plain(i.v, b, h, n) end,
        mamba2 = function(b, h, n) local dt = i.dt(b, h, n) return function() return math.exp(dt * i.A(h, 1)) end, nil,
          plain(i.C, b, h, n), plain(i.B, b, h, n), function(j) return dt * i.x(b, h, n, j) end end,
        deltanet = function(b, h, n) return function() return 1 end, i.beta(b, h, n), unit(i.q, b, h, n),
          unit(i.k, b, h, n), plain(i.v, b, h, n) end,
        gdn = function(b, h, n) return function() return math.exp(gate_of(i.a(b, h, n), h, i.t(h))) end,
          sigmoid_of(i.b_t(b, h, n)), unit(i.q, b, h, n), unit(i.k, b, h, n), plain(i.v, b, h, n) end,
        kda = function(b, h, n) return function(e) return math.exp(gate_of(i.f(b, h, n, e), h, i.t(h, e))) end,
          sigmoid_of(i.b_t(b, h, n)), unit(i.q, b, h, n), unit(i.k, b, h, n), plain(i.v, b, h, n) end,
      }
      function recurrence_of(rule)
        local out = zeros(b, h, N, dv, { dtype = "Float64" })
        for b = 1, b do for h = 1, h do
          local S = {}
          for e = 1, d do S[e] = {} for j = 1, dv do S[e][j] = 0 end end
          for n = 1, N do
            local decay, beta, q, k, v = rule(b, h, n)
            for j = 1, dv do
              local read = 0
              for e = 1, d do S[e][j] = decay(e) * S[e][j] read = read + S[e][j] * k(e) end
              local u, o = beta and beta * (v(j) - read) or v(j), 0
              for e = 1, d do S[e][j] = S[e][j] + k(e) * u o = o + q(e) * S[e][j] end
              out:set(o, b, h, n, j)
            end
          end
        end end
        return out
      end
      function worst(name)
        if name == "kda" then inputs.t = f64(randn(h, d)) end
        local f = load("return " .. causeway._rule_lines[name], name, "t", setmetatable(inputs, { __index = _G }))
        return relative_error((f()), recurrence_of(rules[name]))
      end)");
    for (const std::string rule : {"retnet", "lightning", "gla", "mamba2", "deltanet", "gdn", "kda"}) {
        INFO(rule);
        CHECK(lua("return worst('" + rule + "') < 1e-12") == "true");
    }
    CHECK(lua("local n = 0 for name in pairs(causeway._rule_lines) do assert(rules[name], name) n = n + 1 end return "
              "n") == "7");
    // What says that a line follows is followed by one.
    CHECK(lua("local wrong = {} for name, alias in pairs(causeway._elsewhere) do "
              "if (alias.how or ''):find(':$') and not alias.line then wrong[#wrong + 1] = name end end "
              "return table.concat(wrong, ' ')") == "");
    Pages pages;
    CHECK(contains(pages("retnet"), "causal_linear_attention(q, k, v, {decay = retnet_decay(h)})"));
    CHECK(contains(pages("kda"), "log_decay = decay_gate(f, A_log, {dt_bias = t}), beta = sigmoid(b_t)})"));
}

TEST_CASE("a kernel of flash-linear-attention is told with its own arguments and scale", "[lua][help]") {
    causeway::testing::Shell lua;
    const auto page = [&](const std::string& name) { return lua("return (causeway._page_of('" + name + "'))"); };
    for (const std::string name : {"chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "chunk_kda",
                                   "fla.ops.gated_delta_rule.chunk_gated_delta_rule"}) {
        CAPTURE(name);
        CHECK(page(name).find("have d_k^-0.5 where") != std::string::npos);
        CHECK(page(name).find("linear_attention(from_fla{q = q, k = k, v = v, g = g, beta = beta,") !=
              std::string::npos);
    }
    CHECK(page("chunk_gla").find("from_fla{q = q, k = k, v = v, g = g})") != std::string::npos);
    for (const std::string name : {"gated_deltanet", "chunk_retention", "mamba_chunk_scan_combined", "gla"}) {
        CAPTURE(name);
        CHECK(page(name).find("linear_attention(from_fla{q = q") == std::string::npos);
    }
    CHECK(page("attention_errors").starts_with("  m:attention_errors(text"));
    CHECK(page("load").find("of which tensor(x) makes one again") != std::string::npos);
}

TEST_CASE("what is said of a rule of the literature holds", "[lua][help]") {
    causeway::testing::Shell lua;
    lua("seed(4) N, d, dv = 6, 4, 3 q, k, v = f64(randn(1, 1, N, d)), f64(randn(1, 1, N, d)), f64(randn(1, 1, N, dv)) "
        "k = k / sqrt(sum(pow(k, 2), 4)) b, a, w = f64(rand(1, 1, N)), f64(rand(1, 1, N)), f64(rand(1, 1, N, d)) "
        "function S0() return zeros(1, 1, d, dv, {dtype = 'Float64'}) end "
        "function near(o, p) return relative_error(o, p) < 1e-12 end "
        "function wide(x) return reshape(x, 1, 1, N, 1) end");
    // Longhorn with one β a head.
    CHECK(lua("local s = sum(pow(k, 2), 4) local e = wide(b) / (times(wide(b), s) + 1) "
              "local o = scan{inputs = {q = q, k = k, v = v, e = reshape(e, 1, 1, N)}, state = S0(), step = "
              "function(S, x) "
              "S = diag(1 - times(x.k, x.k) * x.e) * S + outer(x.k, x.v) * x.e return x.q * S, S end} "
              "return near(linear_attention(q, times(k, e), v, {update = 'gated', log_decay = log(1 - times(e, pow(k, "
              "2)))}), o)") == "true");
    // cosFormer: the weights relu(q)·relu(k) cos(π (i - j) / 2N).
    CHECK(lua("local i = f64(range(1, N)) * (pi / (2 * N)) local c, s = wide(cos(i)), wide(sin(i)) "
              "local function features(x) return cat(times(relu(x), c), times(relu(x), s), 4) end "
              "local o = causal_linear_attention(features(q), features(k), v, {method = 'vanilla'}) "
              "local A = times(reshape(relu(q), N, d) * reshape(relu(k), N, d):t(), cos(reshape(i, N, 1) - reshape(i, "
              "1, N))) "
              "A = times(A, le(reshape(i, 1, N), reshape(i, N, 1))) "
              "return near(reshape(o, N, dv), A * reshape(v, N, dv))") == "true");
    // The line of ?rope runs.
    CHECK(lua("local r = f64(randn(1, 1, N, 2)) local c, s = cos(r), sin(r) local q1 = q(':', ':', ':', {1, d // 2}) "
              "local q2 = q(':', ':', ':', {d // 2 + 1, d}) "
              "local p = cat(times(q1, c) - times(q2, s), times(q1, s) + times(q2, c), 4) "
              "return math.abs(norm(p) / norm(q) - 1) < 1e-12") == "true");
    CHECK(lua("local o = scan{inputs = {k = k, f = f64(rand(1, 1, N, dv))}, state = S0(), step = function(S, x) "
              "S = S * diag(x.f) + outer(x.k, 1 - x.f) return x.k * S, S end} return size(o, 4)") == "3");
}

TEST_CASE("every topic lists its names, and Tab completes them all", "[lua][help]") {
    Pages pages;
    CHECK(contains(pages("attention"), " row-based Token by token"));
    CHECK(contains(pages("documents"), " fleet Efficient Decoding"));
    CHECK(contains(pages("lowrank"), "the topic lowrank favor+ hedgehog"));
    CHECK(contains(pages("options"), " isapprox atol, rtol "));
    CHECK(contains(pages("options"), " m:bits_per_byte window "));
    CHECK(complete(pages.state(), "?gated_delta").words == std::vector<std::string>{"gated_delta", "gated_delta_2"});
    CHECK(complete(pages.state(), "?docu").words == std::vector<std::string>{"documents"});
}

TEST_CASE("the words that an option takes are a list of the caller's own", "[lua][help]") {
    causeway::testing::Shell shell;
    CHECK(shell("return table.concat(choices('linear_attention', 'update'), ' ')") == "linear gated delta gated_delta");
    CHECK(shell("choices('linear_attention', 'update')[1] = 'x' return choices('linear_attention', 'update')[1]") ==
          "linear");
    CHECK(shell("choices(ones(2, 2))") ==
          "user:1: choices: expected the name of a function, got a 2×2 Tensor{Float32}");
    CHECK(shell("choices('none', 'update')") == "user:1: choices: \"none\" is no function with options");
    CHECK(shell("choices('linear_attention', 'none')") ==
          "user:1: choices: the option \"none\" of linear_attention has no list of words");
}

TEST_CASE("what a newcomer types first is told as a line", "[lua][help]") {
    causeway::testing::Shell lua;
    const auto page = [&](const std::string& name) { return lua("return (causeway._page_of('" + name + "'))"); };
    CHECK(page("..") == "  ..\n\n  \"a\" .. \"b\" joins texts; numbers become texts by it");
    CHECK(page("...") == "nil");
    for (const std::string sign : {"+", "-", "/"}) CHECK(page(sign).find("A + B, A - B and A / B") == 2);
    CHECK(page("%").find("a % b the remainder") != std::string::npos);
    CHECK(page("==").find("eq(A, B)") != std::string::npos);
    CHECK(page("<=").find("lt(A, B)") != std::string::npos);
    CHECK(page("gradient").find("What others call gradient is grad here: ?grad") != std::string::npos);
    CHECK(page("isempty").find("next(t) == nil whether a table is") != std::string::npos);
    // Modules of PyTorch, with and without what stands before them.
    const std::pair<std::string, std::string> modules[] = {
        {"nn.Linear", "x * W:t() + b"},
        {"torch.nn.Linear", "x * W:t() + b"},
        {"F.linear", "x * W:t() + b"},
        {"nn.Module", "A layer is a function of its parameters"},
        {"nn.Sequential", "A layer is a function of its parameters"},
        {"nn.Parameter", "g, value = grad(loss, {W = W})"},
        {"nn.Dropout", "drops a tenth of x"},
        {"nn.LayerNorm", "rms_norm"},
        {"nn.BatchNorm1d", "rms_norm"},
        {"nn.RMSNorm", "is called rms_norm here"},
        {"nn.Conv1d", "is called short_convolution here"},
        {"nn.Conv2d", "short_convolution"},
        {"nn.ReLU", "relu(A)"},
        {"nn.GELU", "times(x, sigmoid(x * 1.702))"},
        {"nn.Embedding", "W({ids})"},
        {"nn.MultiheadAttention", "is called softmax_attention here"},
        {"nn.TransformerEncoderLayer", "rms_norm"},
        {"nn.LSTM", "scan takes any step"},
        {"nn.CrossEntropyLoss", "-mean(log(sum(times(softmax(x), y), 2)))"},
        {"nn.KLDivLoss", "sum(times(p, log(p / q)))"},
        {"torch.optim.SGD", "sgd{params"},
        {"torch.utils.data.DataLoader", "p = randperm(n)"},
        {"DataLoader", "p = randperm(n)"},
        {"torch.nn.Module", "A layer is a function of its parameters"},
        {"torch.nn.functional.linear", "x * W:t() + b"},
    };
    CHECK(lua("return causeway._meant_here('torch.nn.functional.linear')").find("x * W:t() + b") != std::string::npos);
    CHECK(lua("return causeway._meant_here('nn.Module')") == "it is not here; ?nn.Module says what is nearest");
    // Names that anybody gives to variables lead nowhere.
    CHECK(lua("return causeway._meant_here('module'), causeway._meant_here('dataset'), "
              "(causeway._meant_here('parameter'))") == "nil nil nil");
    for (const auto& [name, told] : modules) {
        CAPTURE(name);
        CHECK(causeway::testing::squeezed(page(name)).find(told) != std::string::npos);
    }
    CHECK(page("PyTorch").find("is called tensor here") != std::string::npos);
    CHECK(page("normalise").find("is called l2norm here") != std::string::npos);
    CHECK(page("comment").find("-- begins a comment") != std::string::npos);
    CHECK(page("loop").find("for i = 1, 10 do") != std::string::npos);
    CHECK(page("ifelse").find("where(mask, a, b)") != std::string::npos);
    CHECK(lua("x = tensor{-3, 0, 2} return causeway._meant_here('logsigmoid')").starts_with("logsigmoid(x) is "));
    CHECK(lua("return maximum(abs(log(sigmoid(x)) + map(function(y) return math.log(1 + math.exp(-y)) end, x))) < "
              "1e-6") == "true");
    CHECK(lua("return causeway._meant_here('onehot')").find("eq(ids:reshape(N, 1), range(1, n):reshape(1, n))") !=
          std::string::npos);
    CHECK(lua("ids, N, n = tensor{2, 1}, 2, 3 return eq(ids:reshape(N, 1), range(1, n):reshape(1, n)) == "
              "tensor{{0, 1, 0}, {1, 0, 0}}") == "true");
    CHECK(lua("A = randn(3, 3, 'f64') A = A * A:t() + diag(ones(3)) b = randn(3, 1, 'f64') "
              "return relative_error(A * (inv(A) * b), b) < 1e-9, "
              "math.abs(2 * sum(log(diag(cholesky(A)))) - math.log(prod(eigvals(A)))) < 1e-9, "
              "relative_error(exp(range(0, 3, {length = 4}) * math.log(10)), tensor{1, 10, 100, 1000}) < 1e-5") ==
          "true true true");
    CHECK(lua("return causeway._meant_here('clip_grad_norm_')").find("math.min(1, most / norm(g.W))") !=
          std::string::npos);
    CHECK(
        lua("g, most = {W = tensor{3, 4}}, 1 return math.abs(norm(g.W * math.min(1, most / norm(g.W))) - 1) < 1e-6") ==
        "true");
    CHECK(lua("q = ones(1, 1, 4, 2) causal_linear_attention(q, q, q, {method = 'naive'})")
              .find("it is called \"vanilla\"") != std::string::npos);
}
