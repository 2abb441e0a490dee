// Whole models: the small trained ones against what they should compute, and what every way of running has in common.
#include "core/model/model.hpp"

#include "core/base/interrupt.hpp"
#include "core/exact/registry.hpp"
#include "core/model/evaluate.hpp"
#include "core/tensor/safetensors.hpp"
#include "tests/catch.hpp"
#include "tests/core/model/tiny.hpp"
#include "tests/sanitized.hpp"

using namespace causeway;
using namespace causeway::test;
using model::Ids;
using model::Model;
using model::Session;
using testing::message_of;

namespace {

// Rounding of logits of size 20 in Float32 through six layers: a tenth of what the stored logits are held to.
constexpr double to_rounding = 2e-4;

struct Named {
    const char* name;
    const Model& model;
};
std::vector<Named> tiny_models() { return {{"tiny-llama", tiny_llama()}, {"tiny-transnormer", tiny_transnormer()}}; }

Tensor row(const Tensor& logits, Index i) {
    const Index words = logits.shape().back();
    Tensor out(DType::f32, {words});
    std::copy_n(logits.data<float>() + i * words, words, out.data<float>());
    return out;
}

void check_expected(const Model& m, const std::string& name) {
    const Expected e = expected_of(name);
    const Ids ids = held_out(e.offset, e.length);
    const Tensor logits = m.logits(ids);
    REQUIRE(logits.shape() == Shape{e.length, 256});
    // The stored logits come from products of 11 bits; a forward pass in Float64 is as far from them, up to 4e-3 of 18.
    double most = 0, largest = 0;
    for (Index i = 0; i < 256; ++i) {
        const double stored = e.last_logits[static_cast<std::size_t>(i)],
                     off = std::abs(logits.get((e.length - 1) * 256 + i) - stored);
        if (!(off <= most)) most = off;
        largest = std::max(largest, std::abs(stored));
    }
    CHECK(most < 5e-4 * largest);
    CHECK(std::abs(model::bits_per_byte(m, ids, e.length - 1) - e.bits_per_byte) < 1e-3);
}

// What is stored belongs to texts of thousands of tokens.
bool too_long() {
    if (sanitized) skip("the stored values of the small models", "they are computed without a sanitizer");
    return sanitized;
}

}  // namespace

TEST_CASE("the small models compute the logits and the bits per byte stored beside them", "[model]") {
    if (too_long()) return;
    check_expected(tiny_llama(), "tiny-llama");
    check_expected(tiny_transnormer(), "tiny-transnormer");
}

TEST_CASE("every exact method in the place of the linear layers gives the same", "[model]") {
    const Ids few = held_out(0, 70);
    const Tensor own = tiny_transnormer().logits(few);
    for (const auto& method : exact::methods()) {
        INFO(method.name);
        Model m = tiny_transnormer();
        m.attention({}, method.name);
        CHECK(m.layers()[3].replaced == method.name);
        CHECK(distance(m.logits(few), own) < to_rounding);
        if (!sanitized) check_expected(m, "tiny-transnormer");
    }
}

TEST_CASE("a text in chunks, token by token and all at once has the same logits, for every method", "[model]") {
    constexpr Index n = sanitized ? 70 : 150;
    const Ids ids = held_out(1000, n);
    const auto check = [&](const Model& m) {
        const Tensor all = m.logits(ids);
        for (const Index chunk : {Index(1), Index(7), Index(64), n}) {
            INFO("chunk " << chunk);
            model::RunOptions options;
            options.chunk = chunk;
            CHECK(distance(m.logits(ids, options), all) < to_rounding);
        }
        Session session(m);
        session.advance(std::span(ids).first(40));
        for (std::size_t t = 40; t < ids.size(); ++t) {
            const Tensor next = session.advance(std::span(ids).subspan(t, 1));
            CHECK(distance(next.data<float>(), row(all, static_cast<Index>(t)).data<float>(), 256) < to_rounding);
        }
        CHECK(session.length() == n);
    };
    for (const auto& [name, m] : tiny_models()) {
        INFO(name);
        check(m);
    }
    for (const auto& method : exact::methods()) {
        INFO(method.name);
        Model m = tiny_transnormer();
        m.attention({1, 4}, method.name);
        check(m);
    }
}

TEST_CASE("a later token never changes earlier logits", "[model]") {
    for (const auto& [name, m] : tiny_models()) {
        INFO(name);
        Ids ids = held_out(5000, 90);
        const Tensor before = m.logits(ids);
        for (std::size_t i = 60; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>((ids[i] * 7 + 13) % 256);
        const Tensor after = m.logits(ids);
        CHECK(distance(before.data<float>(), after.data<float>(), 60 * 256) == 0);
        CHECK(distance(row(before, 60), row(after, 60)) > 0.1);
    }
}

TEST_CASE("texts that run together compute what each does alone", "[model]") {
    for (const auto& [name, m] : tiny_models()) {
        INFO(name);
        const std::vector<Ids> texts{held_out(0, 33), held_out(777, 33), held_out(4000, 33)};
        const Tensor together = m.logits(texts);
        REQUIRE(together.shape() == Shape{3, 33, 256});
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const Tensor alone = m.logits(texts[i]);
            CHECK(distance(together.data<float>() + i * 33 * 256, alone.data<float>(), 33 * 256) < to_rounding);
        }
    }
    CHECK(message_of([] {
              tiny_llama().logits(std::vector<Ids>{{1, 2}, {1}});
          }) == "texts: of 2 and of 1 tokens, expected one length");
}

TEST_CASE("a copied session goes on by itself", "[model]") {
    for (const auto& [name, m] : tiny_models()) {
        INFO(name);
        const Ids ids = held_out(300, 50), other = held_out(900, 50);
        Session first(m);
        first.advance(std::span(ids).first(20));
        Session second = first.copy();
        second.advance(other);
        const Tensor end = first.advance(std::span(ids).subspan(20));
        CHECK(distance(end.data<float>(), row(m.logits(ids), 49).data<float>(), 256) < to_rounding);
        CHECK(first.bytes() > 0);
        CHECK(second.length() == 70);
    }
}

TEST_CASE("capture gives queries, keys and values as they were stored from another implementation", "[model]") {
    if (too_long()) return;
    const auto stored = load_safetensors(data_path("tiny-llama/qkv.safetensors")).tensors;
    const Ids ids = held_out(20000, 2048);
    for (const Index layer : {Index(2), Index(5)}) {  // from 1
        const auto found = tiny_llama().capture(ids, layer, {"q", "k", "v"});
        CHECK(found.size() == 3);
        for (const std::string what : {"q", "k", "v"}) {
            const Tensor mine = found.at(what),
                         theirs = stored.at("layer" + std::to_string(layer - 1) + "." + what).to(DType::f32);
            REQUIRE(mine.shape() == theirs.shape());
            // Float16 rounds to 11 bits; the entries are below 32.
            CHECK(distance(mine, theirs) < 32 * 0x1p-10);
        }
    }
}

TEST_CASE("capture gives scores, output and hidden that belong together", "[model]") {
    const Ids ids = held_out(100, 40);
    for (const auto& [name, m] : tiny_models()) {
        INFO(name);
        const auto x = m.capture(ids, 3, Model::captured());
        const Shape& q = x.at("q").shape();
        CHECK(q == Shape{1, 4, 40, 64});
        CHECK(x.at("output").shape() == Shape{1, 4, 40, 64});
        CHECK(x.at("hidden").shape() == Shape{1, 40, 256});
        REQUIRE(x.at("scores").shape() == Shape{1, 4, 40, 40});
        double sum = 0;  // of head 2, tokens 30 and 7
        for (Index e = 0; e < 64; ++e)
            sum += x.at("q").get((2 * 40 + 30) * 64 + e) * x.at("k").get((2 * 40 + 7) * 64 + e);
        CHECK(x.at("scores").get((2 * 40 + 30) * 40 + 7) ==
              Approx(sum * m.layers()[2].scale).epsilon(1e-4).margin(1e-5));
    }
    CHECK(tiny_transnormer().capture(ids, 1, {"q"}).at("q").shape() == Shape{1, 4, 40, 128});
    CHECK(message_of([&] { tiny_llama().capture(ids, 1, {"keys"}); }) ==
          "what: \"keys\", expected \"q\", \"k\", \"v\", \"scores\", \"output\" or \"hidden\"");
    CHECK(message_of([&] { tiny_llama().capture(ids, 7, {"q"}); }) == "layers: has 7, expected layers from 1 to 6");
    CHECK(message_of([&] { tiny_llama().capture({}, 1, {"q"}); }) == "ids: none, expected at least one token");
}

TEST_CASE("a model says what it is", "[model]") {
    const auto& about = tiny_llama().about();
    CHECK(about.layout == "llama");
    CHECK(about.vocabulary == 256);
    CHECK(about.width == 256);
    CHECK(about.layers == 6);
    CHECK(about.context == 4096);
    CHECK(about.parameters == 4656384);
    CHECK(about.bytes == 2 * 4656384);
    CHECK(tiny_transnormer().about().parameters == 5046528);
    const auto layers = tiny_transnormer().layers();
    REQUIRE(layers.size() == 6);
    CHECK(layers[0].attention == "linear attention with decay");
    CHECK(layers[0].width == 128);
    CHECK(layers[1].width == 64);
    REQUIRE(layers[5].decay.size() == 4);
    CHECK(layers[5].decay[0] == Approx(std::exp(-0.25 * 1e-5)).epsilon(1e-14));
}

TEST_CASE("what a run cannot do is said in one sentence", "[model]") {
    const Model& m = tiny_llama();
    CHECK(message_of([&] { m.logits(Ids{1, 256}); }) == "ids: has 256, expected token ids from 0 to 255");
    CHECK(message_of([&] { m.logits(Ids{-1}); }) == "ids: has -1, expected token ids from 0 to 255");
    CHECK(message_of([&] { Session(m, 0); }) == "batch: 0, expected 1 or more");
    CHECK(message_of([&] {
              Session(m, 2).advance(Ids{1, 2, 3});
          }) == "ids: 3, expected as many for each of the 2 texts");
    CHECK(message_of([&] { Session(m).advance(Ids{}); }) == "ids: none, expected at least one token");
    model::RunOptions options;
    options.chunk = 0;
    CHECK(message_of([&] { m.logits(Ids{1}, options); }) == "chunk: 0, expected 1 or more");
    CHECK(m.logits(Ids{}).shape() == Shape{0, 256});
}

TEST_CASE("a run says how far it is, and stops where it is told to", "[model]") {
    std::vector<Index> seen;
    model::RunOptions options;
    options.chunk = 10;
    options.progress = [&](Index done, Index all) {
        CHECK(all == 25 * 6);
        seen.push_back(done);
    };
    const Ids ids = held_out(0, 25);
    tiny_llama().logits(ids, options);
    CHECK(seen.size() == 18);
    CHECK(std::is_sorted(seen.begin(), seen.end()));
    CHECK(seen.back() == 150);

    Session session(tiny_llama());
    options.progress = [&](Index done, Index) {
        if (done > 30) interrupt::request();
    };
    CHECK_THROWS_AS(session.advance(ids, Session::Rows::last, options), Interrupted);
    interrupt::clear();
    CHECK(message_of([&] { session.advance(ids); }) ==
          "session: its last run was stopped, expected one that ran to its end");
}
