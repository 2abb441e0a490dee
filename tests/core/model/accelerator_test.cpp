// What Model and Session make of a network on another device: here one that runs on the CPU after all.
#include "core/model/accelerator.hpp"

#include "core/model/evaluate.hpp"
#include "core/model/network.hpp"
#include "tests/catch.hpp"
#include "tests/core/model/tiny.hpp"

using namespace causeway;
using namespace causeway::test;
using model::Ids;
using model::Model;
using model::Session;
using testing::message_of;

namespace {

struct Counts {
    int likeliest = 0, last = 0, guesses = 0;
    std::string asked;  // the attention of the layer that a replacement was asked for
};

class OwnTexts : public model::AcceleratedTexts {
public:
    OwnTexts(Model m, Session session, std::shared_ptr<Counts> counts)
        : model_(std::move(m)), session_(std::move(session)), counts_(std::move(counts)) {}

    std::unique_ptr<AcceleratedTexts> copy() const override {
        return std::make_unique<OwnTexts>(model_, session_.copy(), counts_);
    }
    std::size_t bytes() const override { return session_.bytes(); }
    Tensor hidden(std::span<const std::int32_t> ids, const model::RunOptions& o) override {
        return session_.hidden(ids, o);
    }
    Tensor logits(const Tensor& hidden, Index first, Index rows) override {
        return session_.logits(hidden, first, rows);
    }
    std::vector<model::Guess> guesses(const Tensor& hidden, Index first, std::span<const std::int32_t> ids) override {
        ++counts_->guesses;
        return session_.guesses(hidden, first, ids);
    }
    Tensor last_logits(std::span<const std::int32_t> ids, const model::RunOptions& o) override {
        ++counts_->last;
        return session_.advance(ids, Session::Rows::last, o);
    }
    Ids likeliest(std::span<const std::int32_t> ids, const model::RunOptions& o) override {
        ++counts_->likeliest;
        return session_.likeliest(ids, o);
    }
    void look(std::span<const std::int32_t> ids, const model::Watch& watch, const model::RunOptions& o) override {
        std::vector<std::string> names;
        for (const auto& [name, tensor] : watch.found) names.push_back(name);
        watch.found = model_.capture(Ids(ids.begin(), ids.end()), watch.layer + 1, names, o);
    }

private:
    Model model_;
    Session session_;
    std::shared_ptr<Counts> counts_;
};

class Own : public model::Accelerator {
public:
    Own(Model m, std::shared_ptr<Counts> counts) : model_(std::move(m)), counts_(std::move(counts)) {}
    std::unique_ptr<model::AcceleratedTexts> begin(Index batch,
                                                   std::shared_ptr<const model::Swaps> swaps) const override {
        Model m = model_;
        for (std::size_t l = 0; l < swaps->size(); ++l) {
            const model::Swap& swap = (*swaps)[l];
            const Index layer = static_cast<Index>(l + 1);
            if (swap.replacement) m.attention({layer}, *swap.replacement);
            else if (!swap.method.empty()) m.attention({layer}, swap.method);
        }
        return std::make_unique<OwnTexts>(m, Session(m, batch), counts_);
    }
    std::shared_ptr<const model::Elsewhere> replacement(const std::string& with, const model::SwapOptions&,
                                                        const model::LayerInfo& layer) const override {
        counts_->asked = layer.attention;
        return with == "flash" ? std::make_shared<const model::Elsewhere>() : nullptr;
    }
    bool takes_method(const std::string& method) const override { return method != "vanilla"; }
    std::string text() const override { return "a device"; }
    std::size_t bytes() const override { return 1; }

private:
    Model model_;
    std::shared_ptr<Counts> counts_;
};

Model elsewhere(const Model& m, const std::shared_ptr<Counts>& counts) {
    return Model(m.checkpoint(), [&](const model::Network&) { return std::make_shared<const Own>(m, counts); });
}

}  // namespace

TEST_CASE("a model on another device gives what the device computes", "[model]") {
    const auto counts = std::make_shared<Counts>();
    const Model &here = tiny_llama(), there = elsewhere(here, counts);
    CHECK(here.accelerator() == nullptr);
    CHECK(there.accelerator()->text() == "a device");
    const Ids ids = held_out(0, 40);
    CHECK(distance(there.logits(ids), here.logits(ids)) == 0);

    model::GenerateOptions options;
    options.tokens = 12;
    CHECK(there.generate(ids, options) == here.generate(ids, options));
    CHECK(counts->likeliest == 12);
    CHECK(counts->last == 0);
    options.temperature = 1, options.seed = 4;
    const std::vector<Ids> two{held_out(5, 20), held_out(90, 20)};
    CHECK(there.generate(two, options) == here.generate(two, options));
    CHECK(counts->last == 12);

    CHECK(model::bits_per_byte(there, ids, 39) == model::bits_per_byte(here, ids, 39));
    const std::vector<Ids> choices{held_out(40, 1), held_out(40, 5)};
    const auto a = model::score(there, ids, choices), b = model::score(here, ids, choices);
    for (std::size_t i = 0; i < choices.size(); ++i) CHECK(a[i].log_probability == b[i].log_probability);
    CHECK(counts->guesses > 2);
}

TEST_CASE("a session on another device counts its tokens and is copied with them", "[model]") {
    const Model m = elsewhere(tiny_transnormer(), std::make_shared<Counts>());
    const Ids ids = held_out(100, 30);
    Session session(m);
    session.advance(std::span(ids).first(20));
    CHECK(session.length() == 20);
    CHECK(session.bytes() > 0);
    Session other = session.copy();
    CHECK(other.length() == 20);
    const Tensor left = session.advance(std::span(ids).subspan(20)), right = other.advance(std::span(ids).subspan(20));
    CHECK(distance(left, right) == 0);
    CHECK(session.length() == 30);
}

TEST_CASE("attention on another device is replaced and looked at, layer by layer", "[model]") {
    const auto counts = std::make_shared<Counts>();
    const Ids ids = held_out(10, 50);
    Model here = tiny_llama(), there = elsewhere(here, counts);
    const Tensor own = here.logits(ids);
    model::SwapOptions options;
    options.lowrank.rank = 16;
    for (Model* m : {&here, &there}) m->attention({2}, "favor+", options), m->attention({3}, "flash");
    CHECK(counts->asked == "softmax attention");
    const Tensor replaced = here.logits(ids);
    CHECK(distance(replaced, own) > 1e-3);
    CHECK(distance(there.logits(ids), replaced) == 0);
    const std::string settings = here.layers()[1].settings;
    CHECK(settings != "");
    CHECK(there.layers()[1].settings == settings + ", on the CPU");
    CHECK(there.layers()[2].replaced == "flash");
    CHECK(there.layers()[2].settings == "");
    CHECK(model::bits_per_byte(there, ids, 49) == model::bits_per_byte(here, ids, 49));

    const auto a = here.capture(ids, 2, Model::captured()), b = there.capture(ids, 2, Model::captured());
    for (const std::string& what : Model::captured()) CHECK(distance(a.at(what), b.at(what)) == 0);
    const auto x = model::swap_report(here, ids, {2}, "svd", options),
               y = model::swap_report(there, ids, {2}, "svd", options);
    CHECK(x.layers[0].output == y.layers[0].output);
    CHECK(x.after.bits == y.after.bits);

    there.reset({2});
    CHECK(there.layers()[1].replaced == "");
    there.reset();
    CHECK(distance(there.logits(ids), own) == 0);
}

TEST_CASE("layers of linear attention on another device take the exact methods that it has", "[model]") {
    const Ids ids = held_out(10, 50);
    const Model here = tiny_transnormer();
    Model there = elsewhere(here, std::make_shared<Counts>());
    there.attention({}, "fleet");
    CHECK(there.layers()[0].replaced == "fleet");
    CHECK(distance(there.logits(ids), here.logits(ids)) < 1e-3);
    CHECK(message_of([&] { there.attention({2}, "vanilla"); }) ==
          "with: the method \"vanilla\" does not run on the GPU, where layer 2 is, expected another one, or a model on "
          "the CPU (device = \"cpu\")");
    CHECK(there.layers()[1].replaced == "fleet");
}

TEST_CASE("what a model on another device cannot do is said in a sentence", "[model]") {
    Model m = elsewhere(tiny_llama(), std::make_shared<Counts>());
    CHECK(message_of([&] { m.attention({99}, "favor+"); }).starts_with("layers: has 99, expected layers from 1 to "));
    CHECK(message_of([&] { m.capture(Ids{1, 300}, 1, {"q"}); }) == "ids: has 300, expected token ids from 0 to 255");
    CHECK(message_of([&] { m.capture(Ids{}, 1, {"q"}); }) == "ids: none, expected at least one token");
    CHECK(message_of([&] { Session(m).advance(Ids{}); }) == "ids: none, expected at least one token");
    CHECK(message_of([&] { Session(m).likeliest(Ids{}); }) == "ids: none, expected at least one token");
    CHECK(message_of([&] { m.logits(Ids{1, 300}); }) == "ids: has 300, expected token ids from 0 to 255");
}
