#include "core/model/sample.hpp"

#include <cmath>

#include "core/model/model.hpp"
#include "tests/catch.hpp"
#include "tests/core/model/tiny.hpp"

using namespace causeway;
using namespace causeway::test;
using model::GenerateOptions;
using model::Ids;
using testing::message_of;

TEST_CASE("the logarithm of a sum of exponentials", "[model]") {
    std::vector<float> x;
    double sum = 0;
    for (int i = 0; i < 1003; ++i) {
        x.push_back(static_cast<float>(std::sin(i) * 20 + 300));
        sum += std::exp(static_cast<double>(x.back()) - 300);
    }
    CHECK(model::log_sum_exp(x.data(), 1003) == Approx(300 + std::log(sum)).epsilon(1e-9));
    const float none[] = {-INFINITY, -INFINITY}, one[] = {-INFINITY, 2}, nan[] = {1, NAN};
    CHECK(model::log_sum_exp(none, 2) == -INFINITY);
    CHECK(model::log_sum_exp(one, 2) == 2);
    CHECK(std::isnan(model::log_sum_exp(nan, 2)));
}

TEST_CASE("a sampled token is that of the distribution function at u", "[model]") {
    // Probabilities 0.1, 0.4, 0.3, 0.2: from the likeliest on 1, 2, 3, 0 with sums 0.4, 0.7, 0.9, 1.
    const float logits[] = {std::log(0.1f), std::log(0.4f), std::log(0.3f), std::log(0.2f)};
    GenerateOptions o;
    CHECK(model::sample(logits, 4, o, 0.999) == 1);  // greedy
    o.temperature = 1;
    const auto at = [&](double u) { return model::sample(logits, 4, o, u); };
    CHECK(at(0) == 1);
    CHECK(at(0.39) == 1);
    CHECK(at(0.41) == 2);
    CHECK(at(0.71) == 3);
    CHECK(at(0.91) == 0);
    CHECK(at(std::nextafter(1.0, 0.0)) == 0);
    o.top_k = 2;  // 4/7 and 3/7
    CHECK(at(0.57) == 1);
    CHECK(at(0.58) == 2);
    CHECK(at(std::nextafter(1.0, 0.0)) == 2);
    o.top_k = 0, o.top_p = 0.75;  // 1, 2 and 3: 4/9, 3/9, 2/9
    CHECK(at(0.44) == 1);
    CHECK(at(0.45) == 2);
    CHECK(at(0.78) == 3);
    CHECK(at(std::nextafter(1.0, 0.0)) == 3);
    o.top_p = 1, o.temperature = 0.5;  // squares: 16, 9, 4, 1 of 30
    CHECK(at(0.53) == 1);
    CHECK(at(0.54) == 2);
    CHECK(at(0.84) == 3);
    CHECK(at(0.97) == 0);
    o.temperature = 1e-30;
    CHECK(at(0.999) == 1);
}

TEST_CASE("equal logits go by the order of tokens, and NaN is no token", "[model]") {
    const float equal[] = {1, 1, 1}, nan[] = {1, NAN, 0};
    GenerateOptions o;
    CHECK(model::likeliest(equal, 3) == 0);
    o.temperature = 1, o.top_k = 2;
    CHECK(model::sample(equal, 3, o, 0.9) == 1);
    CHECK(message_of([&] { model::likeliest(nan, 3); }) == "logits: NaN for token 1, expected numbers");
}

TEST_CASE("generation: greedy, seeded, stopped, several at once", "[model]") {
    for (const model::Model* m : {&tiny_llama(), &tiny_transnormer()}) {
        const Ids prompt = held_out(2000, 30);
        GenerateOptions o;
        o.tokens = 20;
        const Ids greedy = m->generate(prompt, o);
        REQUIRE(greedy.size() == 20);
        Ids text = prompt;
        for (const auto id : greedy) {
            const Tensor logits = m->logits(text);
            CHECK(model::likeliest(logits.data<float>() + logits.size() - 256, 256) == id);
            text.push_back(id);
        }
        o.temperature = 1.5, o.seed = 7;
        const Ids drawn = m->generate(prompt, o);
        CHECK(drawn == m->generate(prompt, o));
        CHECK(drawn != greedy);
        o.seed = 8;
        const Ids other = m->generate(prompt, o);
        CHECK(other != drawn);
        o.seed = 7;
        const auto both = m->generate(std::vector<Ids>{prompt, prompt}, o);
        CHECK(both == std::vector<Ids>{drawn, other});

        o.stop = {drawn[5]};
        const Ids stopped = m->generate(prompt, o);
        const auto first = std::find(drawn.begin(), drawn.end(), drawn[5]);
        CHECK(stopped == Ids(drawn.begin(), first));
        o.stop.clear();
        Ids seen;
        o.token = [&](Index, std::int32_t id) {
            seen.push_back(id);
            return seen.size() < 4;
        };
        CHECK(m->generate(prompt, o) == Ids(drawn.begin(), drawn.begin() + 4));
        CHECK(seen == Ids(drawn.begin(), drawn.begin() + 4));
    }
}

TEST_CASE("options of generation that are none are refused", "[model]") {
    const auto message = [](auto&& change) {
        GenerateOptions o;
        change(o);
        return message_of([&] { tiny_llama().generate(Ids{1}, o); });
    };
    CHECK(message([](auto& o) { o.tokens = -1; }) == "tokens: -1, expected 0 or more");
    CHECK(message([](auto& o) { o.temperature = -0.5; }) == "temperature: -0.5, expected a number from 0");
    CHECK(message([](auto& o) { o.temperature = NAN; }) == "temperature: NaN, expected a number from 0");
    CHECK(message([](auto& o) { o.top_k = -1; }) == "top_k: -1, expected 0 (all) or more");
    CHECK(message([](auto& o) { o.top_p = 0; }) == "top_p: 0.0, expected a number above 0 and up to 1");
    CHECK(message_of([] { tiny_llama().generate(Ids{}); }) == "prompt: no tokens, expected at least one");
    CHECK(message_of([] { tiny_llama().generate(std::vector<Ids>{}); }) == "prompts: none, expected at least one");
    CHECK(message_of([] {
              tiny_llama().generate(std::vector<Ids>{{1}, {1, 2}});
          }) == "prompts: of 1 and of 2 tokens, expected one length");
    CHECK(message([](auto& o) { o.tokens = 0; }).empty());
}
