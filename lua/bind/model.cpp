// Language models: the userdata that model() of lua/lib/model.lua returns. What looks like a table is made of it there.
#include "core/model/model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/base/utf8.hpp"
#include "core/lowrank/lowrank.hpp"
#include "core/model/accelerator.hpp"
#include "core/model/chat.hpp"
#include "core/model/checkpoint.hpp"
#include "core/model/evaluate.hpp"
#include "core/model/known_sizes.hpp"
#include "core/model/tokenizer.hpp"
#include "core/tensor/random.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/called.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"
#include "lua/bind/notes.hpp"
#include "lua/bind/result.hpp"
#ifdef CAUSEWAY_GPU
#include "gpu/base/wait.hpp"
#include "gpu/model/model.hpp"
#include "gpu/model/swap.hpp"
#endif

namespace causeway::lua {
namespace {

using model::Ids;
using model::Model;
using model::Tokenizer;

constexpr const char* model_type = "causeway.Model";

// The thread of Lua that calls the model now: functions in the place of attention run in it.
using Caller = std::shared_ptr<lua_State*>;

// The beginning of a text that has run, for texts that go on from it.
struct Beginning {
    Ids ids;
    model::Session session;
};

struct Handle {
    Model model;
    std::optional<Tokenizer> tokenizer;
    std::string no_tokenizer;  // why there is none
    Ids last;                  // of the text that ran last, which capture looks at
    Caller caller = std::make_shared<lua_State*>(nullptr);
    std::optional<Beginning> begun = {};  // of the prompts that are scored, where they share one
};

Handle& check_model(lua_State* L, int index) {
    void* place = luaL_testudata(L, index, model_type);
    if (!place) fail("model: expected a model, as in m:layers(), got a ", type_name(L, index));
    Handle& handle = **static_cast<std::unique_ptr<Handle>*>(place);
    *handle.caller = L;
    return handle;
}

const Tokenizer& tokenizer_of(const Handle& handle) {
    if (!handle.tokenizer)
        fail("text: the model has no tokenizer, expected a list of ids such as {1, 2, 3} (", handle.no_tokenizer, ")");
    return *handle.tokenizer;
}

// ---- texts and ids ----

void push_ids(lua_State* L, const Ids& ids) {
    lua_createtable(L, static_cast<int>(ids.size()), 0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        lua_pushinteger(L, ids[i]);
        lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
    }
}

std::int32_t check_id(lua_State* L, int index) {
    const Index id = check_integer(L, index, "ids");
    if (id < 0 || id > INT32_MAX) fail("ids: got ", id, ", expected ids of the vocabulary, from 0 on");
    return static_cast<std::int32_t>(id);
}

// A list of ids, a tensor of them, or one.
Ids check_ids(lua_State* L, int index) {
    index = lua_absindex(L, index);
    Ids ids;
    if (lua_type(L, index) == LUA_TNUMBER) return {check_id(L, index)};
    if (is_tensor(L, index)) {
        const Tensor& A = check_tensor(L, index, "ids");
        for (Index i = 0; i < A.size(); ++i) {
            lua_pushnumber(L, A.get(i));
            ids.push_back(check_id(L, -1));
            lua_pop(L, 1);
        }
        return ids;
    }
    if (!lua_istable(L, index)) fail("ids: expected a list of ids, got a ", type_name(L, index));
    const auto n = static_cast<lua_Integer>(lua_rawlen(L, index));
    for (lua_Integer i = 1; i <= n; ++i) {
        lua_rawgeti(L, index, i);
        ids.push_back(check_id(L, -1));
        lua_pop(L, 1);
    }
    return ids;
}

// The ids of a text as the model reads it: behind the token that begins a text, where the model was trained with one.
Ids ids_of_text(const Handle& handle, std::string_view text, bool special, Index* lost) {
    const Tokenizer& tokenizer = tokenizer_of(handle);
    Ids ids = tokenizer.encode(text, special, lost);
    if (tokenizer.adds_bos()) ids.insert(ids.begin(), *tokenizer.bos());
    return ids;
}

// Likewise, of a text of which nothing may be lost.
Ids ids_of_whole_text(const Handle& handle, std::string_view text, bool special = true) {
    Index lost = 0;
    Ids ids = ids_of_text(handle, text, special, &lost);
    if (lost > 0)
        fail("text: ", lost, lost == 1 ? " of its bytes has" : " of its bytes have",
             " no token in the vocabulary, expected none: m:tokens(text) gives the ids of the others");
    return ids;
}

std::string_view text_at(lua_State* L, int index) {
    std::size_t size = 0;
    const char* text = lua_tolstring(L, index, &size);
    return {text, size};
}

// A text or its ids.
Ids ids_at(lua_State* L, int index, const Handle& handle) {
    if (lua_type(L, index) == LUA_TSTRING) return ids_of_whole_text(handle, text_at(L, index));
    if (lua_isnoneornil(L, index)) fail("text: nothing, expected a text or a list of ids");
    return check_ids(L, index);
}

// m:tokens(text, {special = true}) -> ids; and how many bytes of the text have no token, where there are such
int tokens(lua_State* L) {
    const Handle& handle = check_model(L, 1);
    const std::string text = check_string(L, 2, "text");
    const Options options(L, 3, "tokens");
    Index lost = 0;
    push_ids(L, ids_of_text(handle, text, options.boolean("special", true), &lost));
    if (lost == 0) return 1;
    lua_pushinteger(L, lost);
    return 2;
}

// m:text(ids) -> the text, byte for byte
int text(lua_State* L) {
    const Handle& handle = check_model(L, 1);
    const std::string bytes = tokenizer_of(handle).decode(check_ids(L, 2));
    lua_pushlstring(L, bytes.data(), bytes.size());
    return 1;
}

// ---- running ----

// A line that says how far a run is, from so many seconds on; it goes away with the object or with the next result.
class StatusLine {
public:
    StatusLine(lua_State* L, const char* what, double begins) : L_(L), what_(what), begins_(begins) {}

    model::RunOptions options() {
        model::RunOptions run;
        run.progress = [this](Index done, Index all) { show(done, all); };
        return run;
    }

    void clear() {
        if (std::exchange(shown_, false)) call("", 1, 1);
    }

private:
    static constexpr double between = 0.1;  // seconds

    void show(Index done, Index all) {
        const double now = steady_seconds() - start_;
        if (now < begins_ || (shown_ && now - last_ < between)) return;
        last_ = now, shown_ = true;
        call(what_, static_cast<double>(done) / static_cast<double>(std::max<Index>(all, 1)), now);
    }

    void call(const char* what, double share, double elapsed) {
        push_causeway(L_);
        lua_getfield(L_, -1, "_model_status");
        lua_pushstring(L_, what);
        lua_pushnumber(L_, share);
        lua_pushnumber(L_, elapsed);
        lua_call(L_, 3, 0);
        lua_pop(L_, 1);
    }

    lua_State* L_;
    const char* what_;
    double begins_;
    double start_ = steady_seconds(), last_ = 0;
    bool shown_ = false;
};

// f(run options), with a status line while it runs. What says little of how far it is has one from the beginning.
template <class F>
auto running(lua_State* L, const char* what, F&& f, double begins = 0.5) {
    StatusLine line(L, what, begins);
    try {
        auto result = f(line.options());
        line.clear();
        return result;
    } catch (const std::exception&) {
        line.clear();
        throw;
    }
}

// m:logits(text or ids, {last =}) -> [N, vocabulary]; a list of lists of ids -> [b, N, vocabulary]; N = 1 with last
int logits(lua_State* L) {
    Handle& handle = check_model(L, 1);
    lua_settop(L, 3);
    const Options options(L, 3, "logits");
    const bool last = options.boolean("last", false);
    bool batch = false;
    if (lua_istable(L, 2)) {
        lua_rawgeti(L, 2, 1);
        batch = lua_istable(L, -1) || lua_type(L, -1) == LUA_TSTRING;
        lua_pop(L, 1);
    }
    std::vector<Ids> texts(batch ? lua_rawlen(L, 2) : 1);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (batch) lua_rawgeti(L, 2, static_cast<lua_Integer>(i + 1));
        texts[i] = ids_at(L, batch ? lua_gettop(L) : 2, handle);
        if (batch) lua_pop(L, 1);
    }
    const auto rows = last ? model::Session::Rows::last : model::Session::Rows::all;
    Tensor out = running(L, "logits", [&](const auto& run) { return handle.model.logits(texts, run, rows); });
    const Index words = out.shape().back(), b = static_cast<Index>(texts.size()), n = out.size() / (b * words);
    out = batch ? out.reshape({b, n, words}) : out.reshape({n, words});
    if (!batch) handle.last = std::move(texts.front());
    return push_one(L, out);
}

// What a text that comes token by token has for its reader: bytes, whole characters at a time, up to a text that ends
// it.
class Stream {
public:
    Stream(lua_State* L, const Tokenizer* tokenizer, std::vector<std::string> stops, int function)
        : L_(L), tokenizer_(tokenizer), stops_(std::move(stops)), function_(function) {}

    // False: the text ends here.
    bool take(std::int32_t id) {
        if (!tokenizer_) return true;
        text_ += tokenizer_->decode(std::vector<std::int32_t>{id});
        for (const std::string& stop : stops_) {
            const std::size_t at = text_.find(stop, told_ < stop.size() ? 0 : told_ - stop.size());
            if (at == std::string::npos) continue;
            text_.resize(at);
            return false;
        }
        tell(std::min(whole_characters(), text_.size() - begun_stop()));
        return true;
    }

    std::string finish() {
        tell(text_.size());
        return std::move(text_);
    }

private:
    // The length of the text without a character of which only the beginning is there.
    std::size_t whole_characters() const {
        std::size_t end = text_.size();
        for (std::size_t back = 1; back <= std::min<std::size_t>(3, text_.size()); ++back) {
            const auto byte = static_cast<unsigned char>(text_[text_.size() - back]);
            if ((byte & 0xC0) == 0x80) continue;
            if (byte >= 0xC0 && utf8_character(std::string_view(text_).substr(text_.size() - back)) == 0)
                end = text_.size() - back;
            break;
        }
        return end;
    }

    // How much of the end of the text may be the beginning of what ends it.
    std::size_t begun_stop() const {
        std::size_t longest = 0;
        for (const std::string& stop : stops_) {
            for (std::size_t n = std::min(stop.size() - 1, text_.size()); n > longest; --n)
                if (text_.ends_with(std::string_view(stop).substr(0, n))) longest = n;
        }
        return longest;
    }

    void tell(std::size_t until) {
        if (function_ == 0 || until <= told_) return;
        lua_pushvalue(L_, function_);
        lua_pushlstring(L_, text_.data() + told_, until - told_);
        told_ = until;
        lua_call(L_, 1, 0);
    }

    lua_State* L_;
    const Tokenizer* tokenizer_;
    std::vector<std::string> stops_;
    int function_;  // of Lua, on the stack, which gets the pieces; 0: none
    std::string text_;
    std::size_t told_ = 0;
};

std::vector<std::string> stop_texts(lua_State* L, const Options& options) {
    std::vector<std::string> stops;
    const int type = options.push("stop");
    if (type == LUA_TSTRING) stops.push_back(check_string(L, -1, "stop"));
    else if (type != LUA_TNIL) stops = check_strings(L, lua_gettop(L), "stop");
    lua_pop(L, 1);
    for (const std::string& stop : stops)
        if (stop.empty()) fail("stop: an empty text, expected a text that ends the answer");
    return stops;
}

model::GenerateOptions generate_options(const Options& options, const Handle& handle) {
    model::GenerateOptions o;
    o.tokens = options.integer("tokens", o.tokens);
    o.temperature = options.number("temperature", o.temperature);
    o.top_k = options.integer("top_k", o.top_k);
    o.top_p = options.number("top_p", o.top_p);
    const Index seed = options.integer("seed", 0);
    if (seed < 0) fail("seed: ", seed, ", expected 0 or more");
    o.seed = static_cast<std::uint64_t>(seed);
    if (handle.tokenizer) o.stop = handle.tokenizer->ends();
    return o;
}

// _generate(m, text or ids, options, stream) -> the text, or ids where the model takes ids alone; stream: a function
// that gets the pieces, or nil
int generate(lua_State* L) {
    Handle& handle = check_model(L, 1);
    lua_settop(L, 4);
    const Options options(L, 3, "generate");
    const Ids prompt = ids_at(L, 2, handle);
    model::GenerateOptions o = generate_options(options, handle);
    const std::vector<std::string> stops = stop_texts(L, options);
    if (!handle.tokenizer && !stops.empty()) fail("stop: ", handle.no_tokenizer);
    Stream stream(L, handle.tokenizer ? &*handle.tokenizer : nullptr, stops, lua_isnil(L, 4) ? 0 : 4);
    o.token = [&](Index, std::int32_t id) { return stream.take(id); };
    const Ids out = running(L, "prompt", [&](const auto& run) {
        o.run = run;
        return handle.model.generate(prompt, o);
    });
    handle.last = prompt;
    handle.last.insert(handle.last.end(), out.begin(), out.end());
    const std::string answer = stream.finish();
    if (handle.tokenizer) lua_pushlstring(L, answer.data(), answer.size());
    else push_ids(L, out);
    return 1;
}

// ---- measuring ----

// Sums over windows of a text; each begins anew, and predicts its tokens but the first.
struct Predicted {
    model::Prediction sum;
    Index bytes = 0;
};

Predicted predict_windows(const Handle& handle, const Ids& ids, Index window, const model::RunOptions& run) {
    const auto all = static_cast<Index>(ids.size());
    Predicted out;
    for (Index at = 0; at < all; at += window) {
        const Ids part(ids.begin() + at, ids.begin() + std::min(all, at + window));
        if (part.size() < 2 && at > 0) break;
        const model::Prediction p = model::predict(handle.model, part, run);
        out.sum.bits += p.bits, out.sum.tokens += p.tokens, out.sum.right += p.right;
        const std::span<const std::int32_t> predicted = std::span(part).subspan(1);
        out.bytes += static_cast<Index>(tokenizer_of(handle).decode(predicted).size());
    }
    return out;
}

// Pushes what a prediction of a text came to; bits of a byte where the bytes are known.
void push_prediction(lua_State* L, const model::Prediction& p, Index bytes) {
    lua_createtable(L, 0, 7);
    set_field(L, "bits", p.bits);
    set_field(L, "tokens", p.tokens);
    set_field(L, "bits_per_token", p.per_token());
    set_field(L, "perplexity", std::exp2(p.per_token()));
    set_field(L, "accuracy", p.accuracy());
    if (bytes > 0) set_field(L, "bytes", bytes), set_field(L, "bits_per_byte", p.per_byte(bytes));
    make_result(L, "a prediction", "bytes bits_per_byte");
}

// m:predict(text, {window =}) -> {bits_per_byte, bits_per_token, perplexity, accuracy, tokens, bytes, bits}
int predict(lua_State* L) {
    Handle& handle = check_model(L, 1);
    const Options options(L, 3, "predict");
    const Ids ids = ids_at(L, 2, handle);
    const Index context = handle.model.about().context;
    const Index window = options.integer("window", context > 0 ? context : static_cast<Index>(ids.size()));
    if (options.has("window") && window < 2) fail("window: ", window, ", expected 2 tokens or more");
    const Predicted p = running(
        L, "predict", [&](const auto& run) { return predict_windows(handle, ids, std::max<Index>(window, 2), run); });
    handle.last = ids;
    if (p.bytes == 0) fail("text: its tokens but the first stand for no bytes, expected a longer text");
    push_prediction(L, p.sum, p.bytes);
    return 1;
}

// The ids of a choice behind a prompt: those that the text of both has more, where it begins with those of the prompt.
Ids ids_behind(const Handle& handle, const std::string& prompt, const Ids& prompt_ids, const std::string& choice) {
    const Ids both = ids_of_whole_text(handle, prompt + choice);
    const bool goes_on =
        both.size() > prompt_ids.size() && std::equal(prompt_ids.begin(), prompt_ids.end(), both.begin());
    if (goes_on) return Ids(both.begin() + static_cast<Index>(prompt_ids.size()), both.end());
    Index lost = 0;
    return tokenizer_of(handle).encode(choice, true, &lost);
}

// The scores of choices behind a prompt of which the first `shared` tokens begin the next prompts too: they run once,
// and are kept.
std::vector<model::Choice> scores_behind(Handle& handle, const Ids& prompt, std::size_t shared,
                                         const std::vector<Ids>& choices, const model::RunOptions& run) {
    if (shared == 0 || shared >= prompt.size() || !handle.model.runs_in_parts())
        return model::score(handle.model, prompt, choices, run);
    const Ids beginning(prompt.begin(), prompt.begin() + static_cast<Index>(shared));
    if (!handle.begun || handle.begun->ids != beginning) {
        handle.begun.reset();
        Beginning begun{beginning, model::Session(handle.model)};
        begun.session.hidden(beginning, run);
        handle.begun = std::move(begun);
    }
    return model::score(handle.begun->session, Ids(prompt.begin() + static_cast<Index>(shared), prompt.end()), choices,
                        run);
}

// _score(m, prompt, choices, shared) -> a list of {choice, log_probability, per_token, per_byte, tokens, greedy};
// shared: how many tokens of the prompt begin the next ones too, which run once; nil: none
int score(lua_State* L) {
    Handle& handle = check_model(L, 1);
    const std::string prompt = check_string(L, 2, "prompt");
    const std::vector<std::string> choices = check_strings(L, 3, "choices");
    if (choices.empty()) fail("choices: an empty list, expected at least one text");
    const Ids prompt_ids = ids_of_whole_text(handle, prompt);
    const Index shared = lua_isnoneornil(L, 4) ? 0 : std::max<Index>(0, check_integer(L, 4, "shared"));
    std::vector<Ids> ids;
    for (const std::string& choice : choices) ids.push_back(ids_behind(handle, prompt, prompt_ids, choice));
    const auto run = [&](const model::RunOptions& options) {
        return scores_behind(handle, prompt_ids, static_cast<std::size_t>(shared), ids, options);
    };
    const auto scores = lua_isnoneornil(L, 4) ? running(L, "score", run) : run({});
    lua_createtable(L, static_cast<int>(choices.size()), 0);
    for (std::size_t i = 0; i < choices.size(); ++i) {
        lua_createtable(L, 0, 6);
        set_field(L, "choice", choices[i]);
        set_field(L, "log_probability", scores[i].log_probability);
        set_field(L, "per_token", scores[i].per_token);
        set_field(L, "per_byte",
                  scores[i].log_probability / static_cast<double>(std::max<std::size_t>(1, choices[i].size())));
        set_field(L, "tokens", scores[i].tokens);
        set_field(L, "greedy", scores[i].greedy);
        make_result(L, "a score");
        lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
    }
    return 1;
}

// _forget(m): what the prompts that were scored share is kept no longer
int forget(lua_State* L) {
    check_model(L, 1).begun.reset();
    return 0;
}

// ---- looking at attention, and replacing it ----

// "q, k,v" or {"q", "k"}
std::vector<std::string> words_of(lua_State* L, int index, const char* argument) {
    if (lua_istable(L, index)) return check_strings(L, index, argument);
    const std::string text = check_string(L, index, argument);
    std::vector<std::string> words(1);
    for (const char c : text) {
        if (c == ',') words.emplace_back();
        else if (c != ' ') words.back() += c;
    }
    return words;
}

// m:capture{text =, layer =, what = "q,k,v"}; also m:capture(text, {...}) -> a table of tensors
int capture(lua_State* L) {
    Handle& handle = check_model(L, 1);
    const bool text_first = lua_type(L, 2) == LUA_TSTRING || lua_gettop(L) > 2;
    const Options options(L, text_first ? 3 : 2, "capture");
    Ids ids = handle.last;
    if (text_first) ids = ids_at(L, 2, handle);
    if (options.push("text") != LUA_TNIL) ids = ids_at(L, lua_gettop(L), handle);
    lua_pop(L, 1);
    if (ids.empty())
        fail("text: nothing has run through the model yet, expected a text, as in m:capture{text = \"...\"}");
    if (!options.has("layer"))
        fail("layer: nothing, expected a layer from 1 to ", handle.model.about().layers,
             ", as in m:capture(\"a text\", {layer = 1})");
    std::vector<std::string> what{"q", "k", "v"};
    if (options.push("what") != LUA_TNIL) what = words_of(L, lua_gettop(L), "what");
    lua_pop(L, 1);
    const Index layer = options.integer("layer", 1);
    const auto found =
        running(L, "capture", [&](const auto& run) { return handle.model.capture(ids, layer, what, run); });
    lua_createtable(L, 0, static_cast<int>(found.size()));
    for (const auto& [name, tensor] : found) set_field(L, name.c_str(), tensor);
    return 1;
}

// A list of layers, or one; none where nothing or "all" is given, which means all.
std::vector<Index> layers_at(lua_State* L, int index) {
    std::vector<Index> layers;
    if (lua_isnoneornil(L, index)) return layers;
    if (lua_type(L, index) == LUA_TNUMBER) return {check_integer(L, index, "layers")};
    if (lua_type(L, index) == LUA_TSTRING && text_at(L, index) == "all") return layers;
    if (!lua_istable(L, index)) {
        const std::string came =
            lua_type(L, index) == LUA_TSTRING ? in_quotes(text_at(L, index)) : "a " + type_name(L, index);
        fail("layers: ", came, ", expected a list of numbers from 1, such as {1, 2}, or \"all\"");
    }
    const auto n = static_cast<lua_Integer>(lua_rawlen(L, index));
    if (n == 0) fail("layers: an empty list, expected at least one layer");
    for (lua_Integer i = 1; i <= n; ++i) {
        lua_rawgeti(L, index, i);
        layers.push_back(check_integer(L, -1, "layers"));
        lua_pop(L, 1);
    }
    return layers;
}

// The factorisation whose options a replacement takes: itself, or that of its features; null where it has none.
const lowrank::Method* factorisation_of(const std::string& with, const std::string& features) {
    const auto is_one = [](const std::string& name) {
        const auto& all = lowrank::methods();
        return std::any_of(all.begin(), all.end(), [&](const auto& m) { return m.name == name; });
    };
    if (!model::is_exact_method(with) && is_one(with)) return &lowrank::method(with);
    const bool softmax = with == "flash" || with == "standard" || with == "tree" || with == "ring";
    return !softmax && is_one(features) ? &lowrank::method(features) : nullptr;
}

// The options of the replacement `with` in the table at `index`.
model::SwapOptions swap_options(lua_State* L, int index, const std::string& with) {
    model::SwapOptions o;
    std::vector<std::string> known{"features",  "normalize", "method", "block", "chunk",
                                   "log_decay", "beta",      "shards", "engine"};
    const std::size_t own = known.size();
    if (lua_istable(L, index)) {
        lua_getfield(L, index, "features");
        if (lua_type(L, -1) == LUA_TSTRING) o.features = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    const lowrank::Method* method = factorisation_of(with, o.features);
    if (method) {
        known.insert(known.end(), {"rank", "seed"});
        for (const auto& option : method->options) known.push_back(option.name);
    }
    const Options options(L, index, "attention", views_of(known));
    o.features = options.string("features", o.features);
    if (options.has("normalize")) o.normalize = options.boolean("normalize", true);
    o.method = options.string("method", o.method);
    o.log_decay = options.number("log_decay", o.log_decay);
    o.beta = options.number("beta", o.beta);
    o.shards = static_cast<int>(std::clamp<Index>(options.integer("shards", 0), -1, 1 << 20));
    o.engine = options.string("engine", o.engine);
    if (options.has("chunk")) o.chunk = options.integer("chunk", 0);
    if (!method) {
        if (options.has("block")) o.block = options.integer("block", 0);
        return o;
    }
    // What the factorisation takes, "block" among it where it has one, is read where lowrank's options are.
    lua_newtable(L);
    bool block_is_its_own = false;
    for (std::size_t i = own; i < known.size(); ++i) {
        block_is_its_own |= known[i] == "block";
        options.push(known[i].c_str());
        lua_setfield(L, -2, known[i].c_str());
    }
    o.lowrank = lowrank_options(L, lua_gettop(L), *method);
    lua_pop(L, 1);
    if (!block_is_its_own && options.has("block")) o.block = options.integer("block", 0);
    return o;
}

// A function of Lua, kept while a model may call it.
class Function {
public:
    Function(lua_State* L, int index, Caller caller) : caller_(std::move(caller)) {
        lua_pushvalue(L, index);
        reference_ = luaL_ref(L, LUA_REGISTRYINDEX);
        lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
        main_ = lua_tothread(L, -1);
        lua_pop(L, 1);
    }
    ~Function() { luaL_unref(main_, LUA_REGISTRYINDEX, reference_); }
    Function(const Function&) = delete;
    Function& operator=(const Function&) = delete;

    Tensor operator()(const Tensor& q, const Tensor& k, const Tensor& v, double scale) const {
        lua_State* L = call(q, k, v, scale);
        if (!is_tensor(L, -1))
            fail("with: the function returned a ", type_name(L, -1), ", expected the output, a Tensor like v");
        Tensor o = check_tensor(L, -1, "with");
        lua_pop(L, 1);
        return o;
    }

#ifdef CAUSEWAY_GPU
    // Of tensors on the GPU. Calls in Lua use no stream: what they get is copied there, and what they give back.
    gpu::Tensor operator()(const gpu::Tensor& q, const gpu::Tensor& k, const gpu::Tensor& v, double scale,
                           cudaStream_t stream) const {
        gpu::wait_for(stream, "running a model");
        lua_State* L = call(q.own(DType::f32), k.own(DType::f32), v.own(DType::f32), scale);
        if (!is_gpu_tensor(L, -1))
            fail("with: the function returned a ", type_name(L, -1),
                 ", expected the output, a tensor on the GPU like v");
        gpu::wait_for(nullptr, "running a function in the place of attention");
        const gpu::Tensor o = check_gpu_tensor(L, -1, "with").own(DType::f32, stream);
        gpu::wait_for(stream, "running a model");
        lua_pop(L, 1);
        return o;
    }
#endif

private:
    // The state with the result of the function on its stack.
    template <class T>
    lua_State* call(const T& q, const T& k, const T& v, double scale) const {
        lua_State* L = *caller_;
        luaL_checkstack(L, 8, "no room to call the function in the place of attention");
        lua_rawgeti(L, LUA_REGISTRYINDEX, reference_);
        for (const T* x : {&q, &k, &v}) push(L, *x);
        lua_pushnumber(L, scale);
        lua_call(L, 4, 1);
        return L;
    }

    Caller caller_;
    lua_State* main_;
    int reference_;
};

// What stands in `with`: a name or a function.
model::Replacement function_at(lua_State* L, int index, const Handle& handle) {
    auto function = std::make_shared<const Function>(L, index, handle.caller);
    model::Replacement made{"a function", [function](const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
                                return (*function)(q, k, v, scale);
                            }};
#ifdef CAUSEWAY_GPU
    if (handle.model.accelerator())
        made.elsewhere = std::make_shared<const gpu::Attention>(
            [function](const gpu::Tensor& q, const gpu::Tensor& k, const gpu::Tensor& v, double scale,
                       cudaStream_t stream) { return (*function)(q, k, v, scale, stream); });
#endif
    return made;
}

// The string in `with`, which has to be a name.
std::string name_at(lua_State* L, int index) {
    const std::string name = check_string(L, index, "with");
    std::vector<std::string> names = model::replacement_names();
    if (std::find(names.begin(), names.end(), name) != names.end() || model::is_exact_method(name)) return name;
    const std::vector<std::string> written = registered_names(L);
    if (std::find(written.begin(), written.end(), name) != written.end())
        fail("with: the method ", in_quotes(name),
             " is written in Lua, expected a built-in one or a function(q, k, v, scale), which may call it");
    fail("with: nothing is named ", in_quotes(name),
         ", expected a method, a factorisation, an update or a function(q, k, v, scale)",
         name == "elu" ? ", as function(q, k, v) return linear_attention(elu(q) + 1, elu(k) + 1, v) end"
                       : meant_among(L, name, names));
}

// Says so, once a session for each, where rows of a factorisation depend on later tokens, so that the model sees what
// it is to predict.
void note_future(lua_State* L, const std::string& name) {
    for (const lowrank::Method& method : lowrank::methods()) {
        if (method.name != name || !method.future) continue;
        note_once(L, ("causeway.future_noted." + name).c_str(),
                  name +
                      ": its rows depend on later tokens, masked or not: m:bits_per_byte, m:predict and m:logits see "
                      "what is to be predicted, m:attention_errors does not mind");
    }
}

// _without_draws(f, ...) -> what pcall(f, ...) returns; the random numbers that it took are drawn again afterwards, as
// those of a call that fails are.
int without_draws(lua_State* L) {
    struct Ended {};
    int status = LUA_OK;
    try {
        const random::Retaken drawn;
        status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
        throw Ended();
    } catch (const Ended&) {
        lua_pushboolean(L, status == LUA_OK);
        lua_insert(L, 1);
        return lua_gettop(L);
    }
}

// m:attention{layers =, with =, options =} -> m
int attention(lua_State* L) {
    Handle& handle = check_model(L, 1);
    lua_settop(L, 2);
    if (!lua_istable(L, 2))
        fail("attention: expected a table, as in m:attention{layers = {1, 2}, with = \"favor+\"}, got ",
             lua_isnil(L, 2) ? "nothing" : "a " + type_name(L, 2));
    const Options options(L, 2, "attention", {"layers", "with", "options"});
    handle.begun.reset();
    options.push("layers");
    const std::vector<Index> layers = layers_at(L, 3);
    const int with = options.push("with");
    const int given = options.push("options");
    if (given != LUA_TNIL && given != LUA_TTABLE) fail("options: expected a table, got a ", type_name(L, 5));
    if (with == LUA_TNIL) fail("with: nothing, expected a name or a function(q, k, v, scale)");
    if (with == LUA_TFUNCTION) {
        if (given != LUA_TNIL) fail("options: a table, expected none beside a function, which has what it needs");
        handle.model.attention(layers, function_at(L, 4, handle));
    } else {
        const std::string name = name_at(L, 4);
        handle.model.attention(layers, name, swap_options(L, 5, name));
        note_future(L, name);
    }
    lua_settop(L, 1);
    return 1;
}

// m:reset(layers) -> m
int reset(lua_State* L) {
    Handle& handle = check_model(L, 1);
    handle.begun.reset();
    handle.model.reset(layers_at(L, 2));
    lua_settop(L, 1);
    return 1;
}

void set_norms(lua_State* L, const char* key, const MaskedNorms& norms, double bound) {
    lua_createtable(L, 0, 5);
    set_field(L, "unmasked", norms.error);
    set_field(L, "masked", norms.error_masked);
    set_field(L, "relative", norms.error / norms.matrix);
    set_field(L, "relative_masked", norms.error_masked / norms.matrix_masked);
    set_field(L, "bound", bound * norms.error);
    make_result(L, "an error of a layer");
    lua_setfield(L, -2, key);
}

// _attention_errors(m, text or ids, {layers =, with =, options =, tolerance =}) -> a list with an entry a layer, and in
// before and after how well the model predicts the text
int attention_errors(lua_State* L) {
    Handle& handle = check_model(L, 1);
    lua_settop(L, 3);
    const Options options(L, 3, "attention_errors");
    const Ids ids = ids_at(L, 2, handle);
    options.push("layers");
    const std::vector<Index> layers = layers_at(L, 4);
    if (!options.has("with")) fail("with: nothing, expected the name of a factorisation");
    const std::string with = options.string("with", "");
    options.push("options");
    const model::SwapOptions swap = swap_options(L, 5, with);
    const double tolerance = options.number("tolerance", 1e-3);
    const auto errors = [&](const model::RunOptions& run) {
        return model::swap_report(handle.model, ids, layers, with, swap, tolerance, run);
    };
    const model::SwapReport report = running(L, "errors of the layers", errors, 0);
    lua_createtable(L, static_cast<int>(report.layers.size()), 2);
    for (std::size_t i = 0; i < report.layers.size(); ++i) {
        const model::LayerError& e = report.layers[i];
        lua_createtable(L, 0, 5);
        set_field(L, "layer", e.layer);
        set_field(L, "with", e.with);
        set_field(L, "output", e.output);
        set_norms(L, "frobenius", e.scores.frobenius, 1);
        set_norms(L, "operator", e.scores.operator_norm, e.scores.operator_constant);
        make_result(L, "an error of attention");
        lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
    }
    const std::span<const std::int32_t> predicted = std::span(ids).subspan(1);
    const Index bytes = handle.tokenizer ? static_cast<Index>(handle.tokenizer->decode(predicted).size()) : 0;
    push_prediction(L, report.before, bytes);
    lua_setfield(L, -2, "before");
    push_prediction(L, report.after, bytes);
    lua_setfield(L, -2, "after");
    return 1;
}

// ---- what the model is ----

// _layers(m) -> a list with an entry a layer
int layers(lua_State* L) {
    const auto all = check_model(L, 1).model.layers();
    lua_createtable(L, static_cast<int>(all.size()), 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const model::LayerInfo& layer = all[i];
        lua_createtable(L, 0, 10);
        set_field(L, "layer", static_cast<Index>(i + 1));
        set_field(L, "attention", layer.attention);
        set_field(L, "heads", layer.heads);
        set_field(L, "key_heads", layer.key_heads);
        set_field(L, "width", layer.width);
        set_field(L, "value_width", layer.value_width);
        set_field(L, "scale", layer.scale);
        if (!layer.replaced.empty()) set_field(L, "replaced", layer.replaced);
        if (!layer.settings.empty()) set_field(L, "settings", layer.settings);
        if (!layer.decay.empty()) {
            lua_createtable(L, static_cast<int>(layer.decay.size()), 0);
            for (std::size_t h = 0; h < layer.decay.size(); ++h) {
                lua_pushnumber(L, layer.decay[h]);
                lua_rawseti(L, -2, static_cast<lua_Integer>(h + 1));
            }
            lua_setfield(L, -2, "decay");
        }
        make_result(L, "a layer", "replaced settings decay");
        lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
    }
    return 1;
}

// The types of the weights, the one with most bytes first.
std::vector<std::string> weight_types(const model::Checkpoint& checkpoint) {
    std::map<std::string, std::size_t> bytes;
    for (const std::string& name : checkpoint.names()) {
        const model::Weight* weight = checkpoint.find(name);
        bytes[model::name(weight->type)] += weight->bytes();
    }
    std::vector<std::string> types;
    for (const auto& [type, size] : bytes) types.push_back(type);
    std::stable_sort(types.begin(), types.end(), [&](const auto& a, const auto& b) { return bytes[a] > bytes[b]; });
    return types;
}

// m:about() -> {path, layout, types, layers, width, vocabulary, context, parameters, bytes, device}
int about(lua_State* L) {
    const Handle& handle = check_model(L, 1);
    const model::Description& d = handle.model.about();
    lua_createtable(L, 0, 10);
    set_field(L, "path", d.path);
    set_field(L, "layout", d.layout);
    set_field(L, "layers", d.layers);
    set_field(L, "width", d.width);
    set_field(L, "vocabulary", d.vocabulary);
    if (d.context > 0) set_field(L, "context", d.context);
    set_field(L, "parameters", d.parameters);
    set_field(L, "bytes", d.bytes);
    const auto types = weight_types(*handle.model.checkpoint());
    lua_createtable(L, static_cast<int>(types.size()), 0);
    for (std::size_t i = 0; i < types.size(); ++i) {
        lua_pushstring(L, types[i].c_str());
        lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
    }
    lua_setfield(L, -2, "types");
    if (!handle.tokenizer) set_field(L, "no_tokenizer", handle.no_tokenizer);
    if (const model::Accelerator* accelerator = handle.model.accelerator()) {
        set_field(L, "device", "gpu");
        set_field(L, "device_text", accelerator->text());
        set_field(L, "device_bytes", static_cast<Index>(accelerator->bytes()));
    } else {
        set_field(L, "device", "cpu");
    }
    make_result(L, "a model's table", "context no_tokenizer device_text device_bytes");
    return 1;
}

// _chat_text(m, {{role =, content =}, ...}, answer) -> the text that the model continues
int chat_text(lua_State* L) {
    const Handle& handle = check_model(L, 1);
    if (!lua_istable(L, 2)) fail("messages: expected a list of {role =, content =}, got a ", type_name(L, 2));
    std::vector<model::Message> messages(lua_rawlen(L, 2));
    for (std::size_t i = 0; i < messages.size(); ++i) {
        lua_rawgeti(L, 2, static_cast<lua_Integer>(i + 1));
        if (!lua_istable(L, -1))
            fail("messages: a ", type_name(L, -1), ", expected a table, as in {role = \"user\", content = \"Hi\"}");
        lua_getfield(L, -1, "role");
        messages[i].role = check_string(L, -1, "messages: role");
        lua_getfield(L, -2, "content");
        messages[i].text = check_string(L, -1, "messages: content");
        lua_pop(L, 3);
    }
    const auto chat_template = model::chat_template_of(*handle.model.checkpoint());
    if (!chat_template)
        fail(
            "chat: the checkpoint has no chat template, expected a model that was trained on conversations: "
            "m:generate(text) continues any text");
    const std::string text = model::Chat(*chat_template).text(messages, lua_toboolean(L, 3) != 0);
    lua_pushlstring(L, text.data(), text.size());
    return 1;
}

// _replacement_names() -> the names that m:attention{with =} takes
int replacement_names(lua_State* L) {
    const std::vector<std::string> names = model::replacement_names();
    lua_createtable(L, static_cast<int>(names.size()), 0);
    for (std::size_t i = 0; i < names.size(); ++i) {
        lua_pushstring(L, names[i].c_str());
        lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
    }
    return 1;
}

int collect(lua_State* L) {
    using Place = std::unique_ptr<Handle>;
    static_cast<Place*>(luaL_checkudata(L, 1, model_type))->~Place();
    lua_pushnil(L);
    lua_setmetatable(L, 1);
    return 0;
}

int index(lua_State* L) {
    if (lua_type(L, 2) != LUA_TSTRING) fail("a model has methods and no elements: ?model");
    return method_named(L, "a model");
}

int new_index(lua_State*) { fail("a model has no fields to set: its methods are in ?model"); }

void push_model(lua_State* L, Model loaded) {
    auto handle = std::make_unique<Handle>(Handle{std::move(loaded), {}, {}, {}});
    try {
        handle->tokenizer = Tokenizer::of(*handle->model.checkpoint());
    } catch (const Error& error) {
        handle->no_tokenizer = error.what();
    }
    new (lua_newuserdatauv(L, sizeof(std::unique_ptr<Handle>), 0)) std::unique_ptr<Handle>(std::move(handle));
    luaL_setmetatable(L, model_type);
}

// The model of a checkpoint on "cpu" or on "gpu", where its weights have the type.
Model model_on(const std::string& device, std::shared_ptr<const model::Checkpoint> checkpoint,
               const std::string& type) {
    if (device == "cpu") return Model(std::move(checkpoint));
#ifdef CAUSEWAY_GPU
    const std::map<std::string, gpu::Type> types{
        {"f32", gpu::Type::Float32}, {"f16", gpu::Type::Float16}, {"bf16", gpu::Type::BFloat16}};
    if (!types.contains(type)) fail("type: ", in_quotes(type), ", expected \"f32\", \"f16\" or \"bf16\"");
    gpu::ModelOptions options;
    options.type = types.at(type);
    return Model(std::move(checkpoint), [&](const model::Network& network) { return gpu::on_gpu(network, options); });
#else
    fail_as<SystemError>("device: \"gpu\" with weights in ", type, ", expected \"cpu\": ", gpu_text());
#endif
}

// _load_model(path, "cpu" or "gpu", type of the weights on the GPU) -> the model
int load_model(lua_State* L) {
    const std::string path = with_home(check_string(L, 1, "path")), device = check_string(L, 2, "device"),
                      type = check_string(L, 3, "type");
    push_model(L, model_on(device, model::Checkpoint::open(path), type));
    return 1;
}

// _random_model(arch, size, "f32", "f16" or "bf16", seed, layers or nil, "cpu" or "gpu") -> the model
int random_model(lua_State* L) {
    const std::string arch = check_string(L, 1, "arch"), size = check_string(L, 2, "size");
    const std::string type = check_string(L, 3, "type");
    const std::map<std::string, model::WeightType> types{
        {"f32", model::WeightType::f32}, {"f16", model::WeightType::f16}, {"bf16", model::WeightType::bf16}};
    if (!types.contains(type)) fail("type: ", in_quotes(type), ", expected \"f32\", \"f16\" or \"bf16\"");
    const Index seed = check_integer(L, 4, "seed");
    if (seed < 0) fail("seed: ", seed, ", expected 0 or more");
    Index layers = 0;
    if (!lua_isnoneornil(L, 5)) {
        layers = check_integer(L, 5, "layers");
        if (layers < 1) fail("layers: ", layers, ", expected 1 or more");
    }
    const std::string device = check_string(L, 6, "device");
    push_model(L, model_on(device,
                           model::random_model(arch, size, types.at(type), static_cast<std::uint64_t>(seed), layers,
                                               device == "cpu"),
                           type));
    return 1;
}

// _known_architectures() -> {llama = {"tiny", ...}, ...}
int known_architectures(lua_State* L) {
    lua_newtable(L);
    for (const std::string& name : model::known_architectures()) {
        const auto sizes = model::known_sizes(name);
        lua_createtable(L, static_cast<int>(sizes.size()), 0);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            lua_pushstring(L, sizes[i].c_str());
            lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
        }
        lua_setfield(L, -2, name.c_str());
    }
    return 1;
}

// _model_class() -> the table of methods, the metatable: lua/lib/model.lua adds to them
int model_class(lua_State* L) {
    luaL_getmetatable(L, model_type);
    lua_getfield(L, -1, "__methods");
    lua_insert(L, -2);
    return 2;
}

// As guarded, of a method that runs the model, which the processes of the job may share.
template <int (*F)(lua_State*)>
int on_ranks(lua_State* L) {
    return distributed::shared_call(check_model(L, 1).model.shared_by_ranks(), [&] { return F(L); });
}

}  // namespace

void open_model(lua_State* L) {
    luaL_newmetatable(L, model_type);
    const luaL_Reg metamethods[] = {{"__gc", collect}, {"__newindex", guarded<new_index>}, {nullptr, nullptr}};
    luaL_setfuncs(L, metamethods, 0);
    lua_newtable(L);
    const luaL_Reg methods[] = {{"tokens", guarded<tokens>},
                                {"text", guarded<text>},
                                {"logits", guarded<on_ranks<logits>>},
                                {"predict", guarded<on_ranks<predict>>},
                                {"capture", guarded<on_ranks<capture>>},
                                {"attention", guarded<attention>},
                                {"reset", guarded<reset>},
                                {"about", guarded<about>},
                                {nullptr, nullptr}};
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__methods");
    lua_pushcclosure(L, guarded<index>, 1);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "Model");
    lua_setfield(L, -2, "__name");
    lua_pushliteral(L, "Model");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
    add_functions(L, {{"_load_model", guarded<load_model>},
                      {"_random_model", guarded<random_model>},
                      {"_known_architectures", guarded<known_architectures>},
                      {"_model_class", guarded<model_class>},
                      {"_generate", guarded<on_ranks<generate>>},
                      {"_score", guarded<on_ranks<score>>},
                      {"_forget", guarded<forget>},
                      {"_layers", guarded<layers>},
                      {"_attention_errors", guarded<on_ranks<attention_errors>>},
                      {"_replacement_names", guarded<replacement_names>},
                      {"_without_draws", guarded<without_draws>},
                      {"_chat_text", guarded<chat_text>}});
}

}  // namespace causeway::lua
