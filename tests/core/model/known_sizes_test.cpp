#include "core/model/known_sizes.hpp"

#include <cmath>

#include "core/base/error.hpp"
#include "core/model/model.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::model;
using causeway::testing::message_of;

TEST_CASE("every known architecture runs with random weights at its smallest size", "[model]") {
    REQUIRE(known_architectures().size() >= 5);
    for (const std::string& architecture : known_architectures()) {
        INFO(architecture);
        REQUIRE(!known_sizes(architecture).empty());
        for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
            const Model m(random_checkpoint_of(architecture, known_sizes(architecture).front(), type));
            const Tensor logits = m.logits({1, 2, 3});
            float least = logits.data<float>()[0], most = least;
            for (Index i = 0; i < logits.size(); ++i) {
                REQUIRE(std::isfinite(logits.data<float>()[i]));
                least = std::min(least, logits.data<float>()[i]), most = std::max(most, logits.data<float>()[i]);
            }
            CHECK(most > least);
        }
    }
}

TEST_CASE("random weights have the variance that keeps what they multiply in size", "[model]") {
    const auto checkpoint = random_checkpoint_of("llama", "tiny", WeightType::f32, 3);
    const Weight* w = checkpoint->find("model.layers.2.mlp.down_proj.weight");
    REQUIRE(w);
    double sum = 0, squares = 0;
    std::vector<float> row(static_cast<std::size_t>(w->columns));
    for (Index i = 0; i < w->rows; ++i) {
        read_row(*w, i, row.data());
        for (const float x : row)
            sum += static_cast<double>(x), squares += static_cast<double>(x) * static_cast<double>(x);
    }
    // 163840 numbers: the mean of their squares is known to 5 times its standard deviation.
    const double n = static_cast<double>(w->rows * w->columns);
    CHECK(std::abs(sum / n) < 5 / std::sqrt(n * 640));
    CHECK(squares / n * 640 == Approx(1).margin(5 * std::sqrt(2 / n)));
    read_row(*checkpoint->find("model.norm.weight"), 0, row.data());
    CHECK(row[17] == 1);
}

TEST_CASE("sizes that are not known are refused", "[model]") {
    CHECK(message_of([] { random_checkpoint_of("lama", "tiny"); }) ==
          "arch: \"lama\", expected one of \"llama\", \"transnormer\", \"retnet\", \"qwen3_next\", \"minimax\" (did "
          "you mean \"llama\"?)");
    CHECK(message_of([] { random_checkpoint_of("llama", "tiny", WeightType::q8_0); }) ==
          "type: Q8_0, expected F32, F16 or BF16 for random weights");
    CHECK(known_sizes("lama").empty());
}
