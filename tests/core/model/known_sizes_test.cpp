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
            const Model m(random_model(architecture, known_sizes(architecture).front(), type, 3));
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

TEST_CASE("known sizes have as many parameters as the models they are of", "[model]") {
    const auto parameters = [](const std::string& architecture, const std::string& size) {
        double sum = 0;
        for (const RandomTensor& tensor : known_size(architecture, size).tensors) {
            double n = 1;
            for (const Index extent : tensor.shape) n *= static_cast<double>(extent);
            sum += n;
        }
        return sum;
    };
    CHECK(parameters("llama", "tiny") == 4656384);
    CHECK(parameters("llama", "135m") == 134515008);
    CHECK(parameters("llama", "1b") == 1235814400);
    CHECK(parameters("llama", "7b") == 6738415616);
    CHECK(parameters("llama", "8b") == 8030261248);
    CHECK(parameters("transnormer", "tiny") == 5046528);
    CHECK(parameters("retnet", "1.3b") == Approx(1.4e9).epsilon(0.1));
}

TEST_CASE("sizes that are not known are refused", "[model]") {
    CHECK(message_of([] { known_size("lama", "tiny"); }) ==
          "arch: \"lama\", expected one of \"llama\", \"transnormer\", \"retnet\", \"qwen3_next\", \"minimax\" (did "
          "you mean \"llama\"?)");
    CHECK(message_of([] { known_size("llama", "3b"); }) ==
          "size: \"3b\", expected one of \"tiny\", \"135m\", \"1b\", \"7b\", \"8b\" of llama");
    CHECK(known_sizes("lama").empty());
    CHECK(message_of([] { known_size("llama", "tiny", 7); }) ==
          "layers: 7, expected 1 to 6, as many as llama tiny has");
}

TEST_CASE("a known size cut short has the tensors of its first layers, and runs", "[model]") {
    for (const std::string& architecture : known_architectures()) {
        INFO(architecture);
        const KnownSize whole = known_size(architecture, "tiny");
        for (const Index layers : {1, 3}) {
            const KnownSize cut = known_size(architecture, "tiny", layers);
            CHECK(cut.tensors.size() < whole.tensors.size());
            const Model m(random_model(architecture, "tiny", WeightType::f32, 3, layers));
            CHECK(m.layers().size() == static_cast<std::size_t>(layers));
            CHECK(m.logits({1, 2, 3}).size() == 3 * 256);
        }
    }
}
