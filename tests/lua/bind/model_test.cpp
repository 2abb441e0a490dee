// Models in Lua, on the two small ones of experiments/data: what the methods return, and the sentence of every refusal.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/lua/mpi.hpp"
#include "tests/lua/shell.hpp"
#include "tests/lua/width.hpp"
#include "tests/temporary.hpp"

using causeway::Tensor;
using causeway::testing::no_mpi;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_mpi_script;
using causeway::testing::Shell;
using causeway::testing::TemporaryFolder;
using causeway::testing::write_bytes;

namespace {

const std::string data = "/experiments/data/";

// A shell with both models and a text that they have not seen.
struct Models : Shell {
    Models() {
        set("llama_path", source_dir() + data + "tiny-llama");
        set("transnormer_path", source_dir() + data + "tiny-transnormer");
        set("heldout", read_bytes(source_dir() + data + "heldout.txt"));
        REQUIRE((*this)("m = model(llama_path)") == "");
    }
};

double number(const std::string& text) { return std::stod(text); }

}  // namespace

TEST_CASE("texts become ids and come back", "[lua][model]") {
    Models lua;
    CHECK(lua("return #m:tokens('hello'), m:tokens('hello')[1], m:text(m:tokens('hello'))") == "5 104 hello");
    CHECK(lua("return m:text(m:tokens('\\xff\\0\\xc3')) == '\\xff\\0\\xc3'") == "true");
    CHECK(lua("return m:text(104), m:text{}, m:text(tensor{104, 105})") == "h  hi");
    CHECK(lua("return select('#', m:tokens('hello'))") == "1");  // no second result: nothing was lost
    CHECK(lua("m:text({256})") == "user:1: ids: got 256, expected 0 to 255");
    CHECK(lua("m:text({-1})") == "user:1: ids: got -1, expected ids of the vocabulary, from 0 on");
    CHECK(lua("m:text({1.5})") == "user:1: ids: 1.5, expected a whole number");
    CHECK(lua("m:text('x')") == "user:1: ids: expected a list of ids, got a string");
    CHECK(lua("m:tokens()") == "user:1: text: expected a string, got nothing");
    CHECK(lua("m.tokens(3, 'x')") == "user:1: model: expected a model, as in m:layers(), got a number");
    CHECK(lua("m:tokens('x', {specal = true})") ==
          "user:1: tokens: unknown option \"specal\" (did you mean \"special\"?)");
}

TEST_CASE("logits of a text, of ids and of several", "[lua][model]") {
    Models lua;
    lua("one, two = m:logits('hello'), m:logits(m:tokens('hello'))");
    CHECK(lua("return size(one)") == "5 256");
    CHECK(lua("return one == two") == "true");
    CHECK(lua("both = m:logits{'hello', {104, 101, 108, 108, 111}} return size(both)") == "2 5 256");
    CHECK(number(lua("return maximum(abs(reshape(both(1), 5, 256) - one))")) < 1e-3);
    CHECK(lua("last = m:logits('hello', {last = true}) return size(last)") == "1 256");
    CHECK(number(lua("return maximum(abs(last - one({5, 5})))")) < 1e-3);
    CHECK(lua("return size(m:logits({'hello', 'hallo'}, {last = true}))") == "2 1 256");
    CHECK(lua("m:logits('hello', {lst = true})") == "user:1: logits: unknown option \"lst\" (did you mean \"last\"?)");
    CHECK(lua("m:logits()") == "user:1: text: nothing, expected a text or a list of ids");
    CHECK(lua("m:logits{300}") == "user:1: ids: has 300, expected token ids from 0 to 255");
}

TEST_CASE("bits per byte are the stored ones, also in windows", "[lua][model]") {
    Models lua;
    for (const std::string name : {"llama", "transnormer"}) {
        const auto expected =
            nlohmann::json::parse(read_bytes(source_dir() + data + "tiny-" + name + "/expected.json"));
        lua("m = model(" + name + "_path) text = heldout:sub(20001, 22048)");
        CHECK(number(lua("return m:bits_per_byte(text)")) ==
              Approx(expected.at("bits_per_byte").get<double>()).margin(1e-3));
    }
    // Two windows are two texts; what they predict is added.
    CHECK(lua("a, b = m:predict(text:sub(1, 100)), m:predict(text:sub(101, 150)) "
              "c = m:predict(text:sub(1, 150), {window = 100}) "
              "return a.tokens, b.tokens, c.tokens, c.bytes, math.abs(a.bits + b.bits - c.bits) < 1e-6 * c.bits") ==
          "99 49 148 148 true");
    CHECK(lua("return c.accuracy > 0.3 and c.accuracy < 1, c.perplexity == 2 ^ c.bits_per_token, "
              "c.bits_per_byte == c.bits / c.bytes") == "true true true");
    CHECK(lua("m:bits_per_byte('ab', {window = 1})") == "user:1: window: 1, expected 2 tokens or more");
    CHECK(lua("m:predict('a')") ==
          "user:1: ids: of length 1, expected at least two tokens, of which the first is given");
}

TEST_CASE("a text beyond what the model was trained on is noted", "[lua][model]") {
    // The small model with a context of 128 tokens in the place of its 4096, which take a sanitizer two minutes.
    TemporaryFolder home;
    const std::string folder = home.path() + "/short", config = folder + "/config.json";
    std::filesystem::copy(source_dir() + data + "tiny-llama", folder);
    std::string text = read_bytes(config);
    const auto at = text.find("4096");
    REQUIRE(at != std::string::npos);
    write_bytes(config, text.replace(at, 4, "128"));
    Models lua;
    lua.set("short_path", folder);
    lua("notes = {} causeway._note = function(text) notes[#notes + 1] = text end m = model(short_path)");
    CHECK(lua("context = m:about().context return context") == "128");
    lua("long = heldout:sub(1, context + 10) m:predict(long) m:generate('In the', {tokens = 2})");
    CHECK(lua("return #notes") == "0");
    lua("m:predict(long, {window = context + 10})");
    CHECK(lua("return notes[1]") ==
          "138 tokens; texts of at most 128, its context, are what this model was trained "
          "on, and what it makes of longer ones may be worth nothing");
    lua("m:generate(heldout:sub(1, context), {tokens = 2, stream = false})");
    CHECK(lua("return #notes") == "2");
}

TEST_CASE("a text that is measured and is the path of a file is noted", "[lua][model]") {
    Models lua;
    lua("notes = {} causeway._note = function(text) notes[#notes + 1] = text end path = dir .. 'a.txt' "
        "local f = io.open(path, 'w') f:write('some text') f:close()");
    CHECK(lua("m:bits_per_byte(path) return #notes") == "1");
    CHECK(lua("m:predict(path) return notes[2] == '\"' .. path .. '\" is measured as a text of ' .. #path .. "
              "' characters; that of the file of this name is io.open(\"' .. path .. '\"):read(\"a\")'") == "true");
    // Neither a path of nothing nor a text is one.
    CHECK(lua("m:predict(dir .. 'b.txt') m:predict('A text. And another.') m:predict{1, 2, 3} m:predict(dir) "
              "m:predict(io.open(path):read('a')) return #notes") == "2");
}

TEST_CASE("a function in the place of attention that looks ahead is noted", "[lua][model]") {
    Models lua;
    lua("notes = {} causeway._note = function(text) notes[#notes + 1] = text end");
    CHECK(
        lua("m:attention{layers = 2, with = function(q, k, v, scale) return softmax_attention(q, k, v, {scale = scale, "
            "causal = false}) end} return #notes, notes[1]") ==
        "1 with: the function's output at a token depends on later tokens: m:bits_per_byte, m:predict and m:logits see "
        "what is to be predicted");
    CHECK(lua("m:attention{with = function(q, k, v) return v(':', ':', {range(8, 1, {step = -1})}, ':') end} "
              "return #notes") == "2");
    // What is causal is not noted, random features among it.
    for (const std::string body :
         {"return softmax_attention(q, k, v, {scale = scale})", "return causal_linear_attention(relu(q), relu(k), v)",
          "local w = randn(size(q, 4), 8) return causal_linear_attention(exp(q * w), exp(k * w), v)"}) {
        CAPTURE(body);
        CHECK(lua("m:attention{layers = 2, with = function(q, k, v, scale) " + body + " end} return #notes") == "2");
    }
    // What fails on a few tokens is noted and replaces attention all the same: it may be made for longer texts.
    const std::pair<std::string, std::string> failing[] = {
        {"function(q, k, v) assert(size(q, 3) > 60) return v end", "assertion failed!"},
        {"function() error('mine') end", "mine"},
        {"function() end", "it returned nothing, expected o as 1×"},
        {"function(q, k, v) return v(':', {1, 1}, ':', ':') end", "it returned 1×1×8×"},
        {"softmax_attention", "softmax_attention: options: expected a table"},
    };
    for (const auto& [function, said] : failing) {
        CAPTURE(function);
        CHECK(lua("notes = {} m:attention{layers = 2, with = " + function +
                  "} return #notes, m:layers()[2].replaced, notes[1]")
                  .starts_with("1 a function with: the function fails on the 8 tokens on which it is tried: " + said));
    }
    // It is tried on a copy: neither variables, plain tables and globals nor the random numbers that follow notice.
    CHECK(lua("m:reset() local n, list = 0, {} count, all = 0, {} seed(5) local first = randn(1)(1) seed(5) "
              "m:attention{layers = 2, with = function(q, k, v, scale) n, count = n + 1, count + 1 "
              "list[#list + 1], all[#all + 1] = q, k print('never') randn(3) return v end} "
              "return n, #list, count, #all, first == randn(1)(1)") == "0 0 0 0 true");
    CHECK(lua("m:logits('ab') return count, #all") == "1 1");
}

TEST_CASE("a text goes on, the same for the same seed", "[lua][model]") {
    Models lua;
    lua("prompt = 'In the beginning'");
    CHECK(lua("a = m:generate(prompt, {tokens = 20, stream = false}) return #a, select('#', m:generate(prompt, "
              "{tokens = 1}))") == "20 1");
    CHECK(lua("return a == m:generate(m:tokens(prompt), {tokens = 20, temperature = 0})") == "true");
    CHECK(lua("f = function(seed) return m:generate(prompt, {tokens = 20, temperature = 2, seed = seed}) end "
              "return f(1) == f(1), f(1) == f(2)") == "true false");
    CHECK(lua("return a == m:generate(prompt, {tokens = 20, temperature = 2, top_k = 1})") == "true");
    CHECK(lua("return m:generate(prompt, {tokens = 0})") == "");
    CHECK(lua("m:generate(prompt, 12)") ==
          "user:1: generate: options: 12, expected a table: m:generate(text, {tokens = 12})");
    CHECK(lua("m:generate(5)") == "user:1: text: a number, expected a text or a list of ids");
    CHECK(lua("m:generate('')") == "user:1: prompt: no tokens, expected at least one");
    CHECK(lua("m:generate('a', {tokens = -1})") == "user:1: tokens: -1, expected 0 or more");
    CHECK(lua("m:generate('a', {seed = -1})") == "user:1: seed: -1, expected 0 or more");
    CHECK(lua("m:generate('a', {token = 3})") ==
          "user:1: generate: unknown option \"token\" (did you mean \"tokens\"?)");
}

TEST_CASE("the pieces of a text come as it grows, and a text can end it", "[lua][model]") {
    Models lua;
    lua("prompt, pieces = 'In the beginning', {} "
        "whole = m:generate(prompt, {tokens = 20, stream = function(piece) pieces[#pieces + 1] = piece end})");
    CHECK(lua("return #pieces, table.concat(pieces) == whole") == "20 true");
    // The text ends before the first place of what ends it, and no piece goes beyond.
    lua("stop, pieces = whole:sub(8, 10), {} "
        "short = m:generate(prompt, {tokens = 20, stop = {'no such text', stop}, stream = function(piece) "
        "pieces[#pieces + 1] = piece end})");
    CHECK(lua("return short == whole:sub(1, whole:find(stop, 1, true) - 1), table.concat(pieces) == short") ==
          "true true");
    // Characters come whole: none begins in one piece and goes on in the next.
    CHECK(lua("r, pieces = model{arch = 'llama', size = 'tiny', weights = 'random'}, {} "
              "r:generate('a', {tokens = 600, temperature = 9, stream = function(piece) pieces[#pieces + 1] = piece "
              "end}) "
              "local several, broken = 0, 0 for i = 1, #pieces - 1 do "
              "if utf8.len(pieces[i]) == 1 and #pieces[i] > 1 then several = several + 1 end "
              "if pieces[i]:find('[\\xc3-\\xf4]$') and pieces[i + 1]:find('^[\\x80-\\xbf]') then broken = broken + 1 "
              "end end return several > 3, broken") == "true 0");
    CHECK(lua("m:generate('a', {stream = function() error('enough') end})") == "user:1: enough");
    CHECK(lua("m:generate('a', {stream = 3})") ==
          "user:1: stream: expected true, false or a function that gets the pieces, got a number");
    CHECK(lua("m:generate('a', {stop = ''})") == "user:1: stop: an empty text, expected a text that ends the answer");
}

TEST_CASE("a text that is written on a terminal is broken between words, wherever its pieces end", "[lua][model]") {
    Models lua;
    lua("function written(text, n) local out = '' "
        "local take, finish = causeway._in_whole_words(10, function(part) out = out .. part end) "
        "for i = 1, #text, n do take(text:sub(i, i + n - 1)) end finish() return out end "
        "function by(text) local one = written(text, 1) assert(one == written(text, 3)) "
        "assert(one == written(text, 99)) return one end");
    CHECK(lua("return by('one two three four')") == "one two\nthree four");
    CHECK(lua("return by('one two  threes')") == "one two\nthrees");
    CHECK(lua("return by('  one\\n\\ntwo three four\\n')") == "  one\n\ntwo three\nfour\n");
    CHECK(lua("return by('abcdefghijklmn op')") == "abcdefghijklmn\nop");
    // A word that no line has room for stays where it stands, and is not held to its end.
    CHECK(lua("return by('a bcdefghijklmn op')") == "a bcdefghijklmn\nop");
    CHECK(lua("local out = '' causeway._in_whole_words(3, function(part) out = out .. part end)('abcde') return out") ==
          "abcde");
    // Columns are counted, not bytes.
    CHECK(lua("return written('éé éé éé éé', 99)") == "éé éé éé\néé");
}

TEST_CASE("choices are scored behind a prompt", "[lua][model]") {
    Models lua;
    lua("s = m:score('And God sa', {'id', 'xq', 'w'})");
    CHECK(lua("return #s, s.best, s[1].choice, s[1].tokens, s[1].log_probability > s[2].log_probability") ==
          "3 1 id 2 true");
    CHECK(lua("return s[1].per_token == s[1].log_probability / 2, s[1].per_byte == s[1].log_probability / 2") ==
          "true true");
    // By the logits: the choice's first byte behind the prompt.
    CHECK(lua("l = m:logits('And God sa') p = l({10, 10}) - log(sum(exp(l({10, 10})))) "
              "return math.abs(p(1, 120) - m:score('And God sa', {'w'})[1].log_probability) < 1e-3") == "true");
    CHECK(lua("return tostring(s):find('xq') ~= nil") == "true");
    CHECK(lua("m:score('a', {})") == "user:1: choices: an empty list, expected at least one text");
    CHECK(lua("m:score('a')") == "user:1: choices: expected a list of strings, got nothing");
    CHECK(lua("m:score('', {'a'})") == "user:1: prompt: no tokens, expected at least one");
}

TEST_CASE("a layer can be looked at", "[lua][model]") {
    Models lua;
    CHECK(lua("x = m:capture{text = 'hello', layer = 2, what = 'q, scores,hidden'} return size(x.q)") == "1 4 5 64");
    CHECK(lua("return size(x.scores)") == "1 4 5 5");
    CHECK(lua("return size(x.hidden)") == "1 5 256");
    CHECK(lua("y = m:capture('hello', {layer = 2}) return y.q == x.q, y.k ~= nil, y.v ~= nil, y.scores") ==
          "true true true nil");
    // Without a text: the one that ran last.
    CHECK(lua("m:logits('hello') return m:capture{layer = 2, what = {'q'}}.q == x.q") == "true");
    CHECK(lua("model(llama_path):capture{layer = 1}") ==
          "user:1: text: nothing has run through the model yet, expected a text, as in m:capture{text = \"...\"}");
    CHECK(lua("m:capture('a')") ==
          "user:1: layer: nothing, expected a layer from 1 to 6, as in m:capture(\"a text\", {layer = 1})");
    CHECK(lua("m:capture{text = 'a', layer = 7}") == "user:1: layers: has 7, expected layers from 1 to 6");
    CHECK(lua("m:capture{text = 'a', layer = 1, what = 'qq'}").find("user:1: what: \"qq\", expected \"q\", ") == 0);
}

TEST_CASE("attention is replaced and comes back", "[lua][model]") {
    Models lua;
    lua("text = heldout:sub(1, 60) before = m:logits(text)");
    // The same sums in another way: no more than roundings.
    CHECK(lua("m:attention{layers = {1, 6}, with = function(q, k, v, scale) return softmax_attention(q, k, v, {scale = "
              "scale}) end} return m:layers()[1].replaced, m:layers()[2].replaced, m:layers()[6].replaced") ==
          "a function nil a function");
    CHECK(number(lua("return maximum(abs(m:logits(text) - before))")) < 1e-2);
    CHECK(number(lua("m:attention{with = 'flash'} return maximum(abs(m:logits(text) - before))")) < 1e-2);
    // Another attention: other logits, the same for the same seed.
    lua("m:attention{layers = 2, with = 'favor+', options = {rank = 16, seed = 5}} other = m:logits(text)");
    CHECK(number(lua("return maximum(abs(other - before))")) > 1e-2);
    CHECK(lua("m:attention{layers = 2, with = 'favor+', options = {rank = 16, seed = 5}} return m:logits(text) == "
              "other") == "true");
    // Without a seed it is 0, as ?replace_attention and m:layers() say, whatever was drawn before.
    CHECK(lua("m:attention{layers = 2, with = 'favor+', options = {rank = 16}} randn(3) local once = m:logits(text) "
              "local again = m:logits(text) "
              "m:attention{layers = 2, with = 'favor+', options = {rank = 16, seed = 0}} "
              "return again == once, m:logits(text) == once") == "true true");
    CHECK(lua("m:attention{layers = 2, with = 'hyper', options = {block = 8}} return m:layers()[2].replaced") ==
          "hyper");
    CHECK(lua("m:attention{layers = 2, with = 'fleet', options = {features = 'taylor', block = 8}} "
              "return m:layers()[2].replaced") == "fleet");
    CHECK(lua("m:reset(2) return m:layers()[2].replaced, m:layers()[1].replaced") == "nil flash");
    CHECK(lua("return m:reset():logits(text) == before") == "true");
    CHECK(lua("m:attention{layers = 'all', with = 'flash'} return m:layers()[1].replaced, m:layers()[6].replaced") ==
          "flash flash");
    lua("m:reset()");

    // In a layer that is linear already an exact method loses nothing.
    lua("t = model(transnormer_path) before = t:logits(text)");
    CHECK(number(lua("t:attention{with = 'fleet'} return maximum(abs(t:logits(text) - before))")) < 1e-2);
}

TEST_CASE("what stands in the place of attention says its settings, defaults among them", "[lua][model]") {
    Models lua;
    const auto settings = [&](const std::string& arguments) {
        return lua("m:attention{layers = 2, " + arguments + "} return m:layers()[2].settings");
    };
    CHECK(settings("with = 'favor+'") == "rank 256, seed 0, masked product by fleet, rows over their sums");
    CHECK(settings("with = 'hyper', options = {rank = 8, block = 8, method = 'vanilla'}") ==
          "rank 8, seed 0, block 8, masked product by vanilla, rows over their sums");
    CHECK(settings("with = 'fleet', options = {features = 'none', normalize = false, block = 16}") ==
          "q and k as they are, rows not over their sums, block 16");
    CHECK(settings("with = 'gated', options = {log_decay = -0.5}") ==
          "features favor+, rank 256, seed 0, log_decay -0.5, rows over their sums");
    CHECK(
        settings("with = 'gated_delta', options = {rank = 16, seed = 3, beta = 0.5, chunk = 8}") ==
        "features favor+, rank 16, seed 3, log_decay 0, beta 0.5, keys of length 1, chunk 8, rows not over their sums");
    CHECK(settings("with = 'tree'") == "as many shards as threads");
    CHECK(settings("with = 'ring', options = {shards = 3}") == "shards 3");
    CHECK(settings("with = 'flash'") == "nil");
    lua("m:attention{layers = {2, 3}, with = 'gated'}");
    for (const std::string shown : {"tostring(m)", "tostring(m:layers())"}) {
        const std::string text = lua("return " + shown);
        CAPTURE(text);
        CHECK(text.find("gated: features") != std::string::npos);
        CHECK(causeway::testing::too_wide(text, 80) == "");
    }
}

TEST_CASE("what others call a method of a model is told what it is here", "[lua][model]") {
    Models lua;
    CHECK(lua("return m.forward") ==
          "user:1: a model has no \"forward\": m:logits(text) runs it: row i of the result is for the token after i");
    CHECK(lua("m:parameters()").find("m:about().parameters is their number") != std::string::npos);
    CHECK(lua("return m.config").find("m:about() has the sizes as a table") != std::string::npos);
    CHECK(lua("m('a text')").find("user:1: a model is not called: m:logits(text) runs it") == 0);
    CHECK(lua("m:generate('a', {max_new_tokens = 3})") ==
          "user:1: generate: unknown option \"max_new_tokens\" (it is called \"tokens\" here, see ?generate)");
    CHECK(lua("m:chat('a', {max_tokens = 3})").find("it is called \"tokens\" here") != std::string::npos);
    CHECK(lua("m:attention{with = 'favor+', rank = 64}") ==
          "user:1: attention: unknown option \"rank\" (it stands in options: options = {rank = ...})");
    CHECK(lua("m:attention{method = 'favor+'}").find("with = ...; see ?replace_attention") != std::string::npos);
    CHECK(lua("m:attention{with = 'performr'}").find("(did you mean \"performer\", here \"favor+\"?)") !=
          std::string::npos);
}

TEST_CASE("what cannot stand in the place of attention is refused", "[lua][model]") {
    Models lua;
    CHECK(lua("m:attention{layers = 'last', with = 'flash'}") ==
          "user:1: layers: \"last\", expected a list of numbers from 1, such as {1, 2}, or \"all\"");
    CHECK(lua("m:attention()") ==
          "user:1: attention: expected a table, as in m:attention{layers = {1, 2}, with = \"favor+\"}, got nothing");
    CHECK(lua("register_method{name = 'mine', forward = function(B, C, V) return V end} m:attention{with = 'mine'}") ==
          "user:1: with: the method \"mine\" is written in Lua, expected a built-in one or a function(q, k, v, scale), "
          "which may call it");
    CHECK(lua("m:attention{}") == "user:1: with: nothing, expected a name or a function(q, k, v, scale)");
    CHECK(lua("m:attention{layers = {7}, with = 'flash'}") == "user:1: layers: has 7, expected layers from 1 to 6");
    CHECK(lua("m:attention{layers = {}, with = 'flash'}") ==
          "user:1: layers: an empty list, expected at least one layer");
    CHECK(
        lua("m:attention{with = 'favo'}") ==
        "user:1: with: nothing is named \"favo\", expected a method, a factorisation, an update or a function(q, k, v, "
        "scale) (did you mean \"favor+\"?)");
    CHECK(lua("m:attention{with = 'rwkv7'}").find("(it is a call of its own: rwkv7(...), see ?rwkv7)") !=
          std::string::npos);
    CHECK(lua("m:attention{with = 'performer'}").find("(it is called \"favor+\" here, see ?performer)") !=
          std::string::npos);
    CHECK(lua("m:attention{with = 'flash', options = {rank = 3}}") ==
          "user:1: attention: unknown option \"rank\" (see ?rank)");
    CHECK(lua("m:attention{with = 'favor+', options = {rnk = 3}}") ==
          "user:1: attention: unknown option \"rnk\" (did you mean \"rank\"?)");
    CHECK(lua("m:attention{with = 'tree', options = {engine = 'nccl'}}") ==
          "user:1: engine: \"nccl\", expected \"threads\" or \"mpi\"");
    CHECK(lua("m:attention{with = print, options = {}}") ==
          "user:1: options: a table, expected none beside a function, which has what it needs");
    CHECK(lua("m:attention{with = function() return 3 end} m:logits('abc')") ==
          "user:1: with: the function returned a number, expected the output, a Tensor like v");
    CHECK(lua("m:attention{with = function() error('mine') end} m:logits('abc')") == "user:1: mine");
    CHECK(lua("m:reset() m:reset{9}") == "user:1: layers: has 9, expected layers from 1 to 6");
}

// The first part of the text runs at once, the rest token by token: every process keeps its share of keys and values.
TEST_CASE("a model whose keys and values are spread over processes generates its text", "[lua][model]") {
    if (no_mpi()) return;
    for (const int ranks : {1, 2, 3}) {
        const Output output = run_mpi_script(ranks, R"(
            m = model{arch = "llama", size = "tiny", layers = 3, weights = "random"}
            qwen = model{arch = "qwen3_next", size = "tiny", layers = 3, weights = "random"}
            local function texts(m)
                return m:generate({5, 9, 200, 7, 31, 8, 77}, {tokens = 12}) .. m:generate({3}, {tokens = 9})
            end
            local own, qwens = texts(m), texts(qwen)
            for _, with in ipairs{"tree", "ring"} do
                m:attention{with = with, options = {engine = "mpi"}}
                assert(#own == 21 and texts(m) == own, with)
                qwen:attention{layers = {3}, with = with, options = {engine = "mpi", shards = mpi_size()}}
                assert(texts(qwen) == qwens, with)
            end
            print(m:layers()[1].settings, select(2, pcall(m.attention, m, {with = "tree", options = {engine = "mpi",
                shards = 7}})))
        )");
        CAPTURE(ranks, output.out, output.err);
        CHECK(output.status == 0);
        const std::string p = std::to_string(ranks);
        CHECK(output.out.find("shards " + p + ", ranks of MPI\t") == 0);
        CHECK(output.out.find("shards: 7, expected " + p + ", the number of MPI ranks, or none\n") !=
              std::string::npos);
    }
}

TEST_CASE("errors of a factorisation stay within the bound, layer by layer", "[lua][model]") {
    Models lua;
    lua("e = m:attention_errors(heldout:sub(1, 60), {layers = {2, 5}, with = 'nystrom', options = {rank = 16}})");
    CHECK(lua("return #e, e[1].layer, e[2].layer, e[1].with") == "2 2 5 nystrom");
    CHECK(lua("for _, x in ipairs(e) do assert(x.operator.masked <= x.operator.bound and x.output > 0 and "
              "x.frobenius.masked <= x.frobenius.unmasked) end") == "");
    CHECK(lua("local now = m:predict(heldout:sub(1, 60)) m:attention{layers = {2, 5}, with = 'nystrom', options = "
              "{rank = "
              "16}} local later = m:predict(heldout:sub(1, 60)) m:reset() return "
              "math.abs(e.before.bits - now.bits) < 1e-3, math.abs(e.after.bits - later.bits) < 1e-3") == "true true");
    CHECK(lua("return tostring(e):find('nystrom') ~= nil, e:markdown():find('|') ~= nil") == "true true");
    lua("notes = {} causeway._note = function(text) notes[#notes + 1] = text end");
    CHECK(lua("m:attention{layers = {2}, with = 'favor+', options = {rank = 16}} local none = #notes "
              "m:attention{layers = {2}, with = 'svd', options = {rank = 16}} "
              "m:attention{layers = {2}, with = 'svd', options = {rank = 8}} m:reset() "
              "return none, #notes, notes[1]:match('^[^:]*: its rows depend on later tokens')") ==
          "0 1 svd: its rows depend on later tokens");
    CHECK(lua("return #m:attention_errors(heldout:sub(1, 60), {with = 'nystrom', options = {rank = 16}})") == "6");
    CHECK(lua("return m:attention_errors{text = heldout:sub(1, 60), layers = {2}, with = 'nystrom', options = {rank = "
              "16}}[1].layer") == "2");
    CHECK(lua("m:attention_errors('abc')") == "user:1: with: nothing, expected the name of a factorisation");
}

TEST_CASE("a conversation needs a template", "[lua][model]") {
    Models lua;
    CHECK(lua("m:chat('Hi')") ==
          "user:1: chat: the checkpoint has no chat template, expected a model that was trained on conversations: "
          "m:generate(text) continues any text");
    const std::string folder = lua.path("talker");
    std::filesystem::copy(source_dir() + data + "tiny-llama", folder);
    write_bytes(folder + "/tokenizer_config.json",
                "{\"chat_template\": \"{{ '<|im_start|>' + message['role'] + message['content'] }}\"}");
    lua("m = model(dir .. 'talker')");
    CHECK(lua("return m:prompt('Hi')") == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    CHECK(lua("return m:prompt({{role = 'user', content = 'Hi'}}, {system = 'Short.'})") ==
          "<|im_start|>system\nShort.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    CHECK(lua("mine = {{role = 'user', content = 'Hi'}} a, talk = m:chat(mine, {tokens = 4}) "
              "return #mine, #talk, talk[2].role, talk[2].content == a") == "1 2 assistant true");
    CHECK(lua("return a == m:generate(m:prompt('Hi'), {tokens = 4})") == "true");
    CHECK(lua("m:chat{{role = 'robot', content = 'x'}}") ==
          "user:1: messages: the role \"robot\", expected \"system\", \"user\" or \"assistant\"");
    CHECK(lua("m:chat{3}") ==
          "user:1: messages: a number, expected a table, as in {role = \"user\", content = \"Hi\"}");
    CHECK(lua("m:chat('Hi', {system = 3})") == "user:1: system: expected a text, got a number");
}

TEST_CASE("a model says what it is within a line of a terminal", "[lua][model]") {
    Models lua;
    lua("m:attention{layers = 3, with = 'favor+'}");
    for (const std::string what :
         {"tostring(m)", "tostring(m:layers())", "tostring(model(transnormer_path):layers())"}) {
        const std::string shown = lua("return " + what);
        INFO(shown);
        CHECK(causeway::testing::too_wide(shown, 80) == "");
    }
    CHECK(lua("return (tostring(m):match('[^\\n]*'))") == "Model, layout llama: 6 layers of width 256, heads 4 of 64");
    CHECK(lua("return tostring(m):find('4.66 M parameters in F16, 8.9 MiB; vocabulary 256, context 4096', 1, true) ~= "
              "nil") == "true");
    CHECK(lua("return tostring(m):find('attention replaced in 1 of 6 layers', 1, true) ~= nil") == "true");
    lua("m:attention{layers = {1, 2, 4}, with = 'svd', options = {rank = 8}} several = tostring(m) "
        "m:reset({1, 2, 4})");
    CHECK(lua("return several:match('layers 1 to 2, 4, svd') ~= nil, several:match('layer 3, favor') ~= nil") ==
          "true true");
    CHECK(lua("local a = m:about() return a.layout, a.layers, a.width, a.vocabulary, a.context, a.parameters") ==
          "llama 6 256 256 4096 4656384");
    CHECK(lua("return m.genrate") == "user:1: a model has no method \"genrate\" (did you mean \"generate\"?)");
    CHECK(lua("m:save('x')") == "user:1: a model has no \"save\": a model is only read, its file stays as it is");
    CHECK(lua("return m.foo").starts_with("user:1: a model has no method \"foo\": it has about, attention, "));
    CHECK(lua("m:choices('a', {'b'})").ends_with("m:score(prompt, choices) says how likely each is"));
    CHECK(lua("return m.heads") == "user:1: a model has no \"heads\": m:layers()[1].heads is that of a layer");
    CHECK(lua("return m[1]") == "user:1: a model has methods and no elements: ?model");
    CHECK(lua("m.x = 3") == "user:1: a model has no fields to set: its methods are in ?model");
}

TEST_CASE("a model that no tokenizer is known of takes ids", "[lua][model]") {
    Models lua;
    const std::string folder = lua.path("ids");
    std::filesystem::copy(source_dir() + data + "tiny-llama", folder);
    write_bytes(folder + "/tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}");
    lua("m = model(dir .. 'ids')");
    CHECK(lua("return size(m:logits{104, 105})") == "2 256");
    CHECK(lua("m:logits('hi')")
              .find("user:1: text: the model has no tokenizer, expected a list of ids such as {1, 2, 3} (") == 0);
    CHECK(lua("return #m:generate({104, 105}, {tokens = 3})") == "3");
}
