#include "core/model/random_checkpoint.hpp"

#include <cmath>
#include <cstring>

#include "core/base/error.hpp"
#include "core/tensor/random.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"
#include "tests/threads.hpp"

using namespace causeway;
using namespace causeway::model;
using namespace causeway::testing;

namespace {

const std::vector<RandomTensor> tensors{
    {"a.weight", {300, 200}, 0, 0}, {"norm", {40'000}, 1, 0.1}, {"b", {2, 3, 4}, 0, 2}};

std::shared_ptr<const Checkpoint> make(WeightType type, std::uint64_t seed = 1) {
    return random_checkpoint("random", R"({"hidden_size": 200})", tensors, type, seed);
}

bool same_bytes(const Weight& a, const Weight& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.data, b.data, a.bytes()) == 0;
}

void check_moments(const Weight& w, double mean, double deviation) {
    std::vector<float> row(static_cast<std::size_t>(w.columns));
    double sum = 0, squares = 0;
    for (Index i = 0; i < w.rows; ++i) {
        read_row(w, i, row.data());
        for (const float value : row) {
            sum += static_cast<double>(value);
            squares += std::pow(static_cast<double>(value) - mean, 2);
        }
    }
    const auto n = static_cast<double>(w.rows * w.columns);
    // Six standard deviations of what is estimated: the seed is fixed.
    CHECK(std::abs(sum / n - mean) < 6 * deviation / std::sqrt(n));
    CHECK(std::sqrt(squares / n) == causeway::test::Approx(deviation).epsilon(0.02));
}

}  // namespace

TEST_CASE("a random checkpoint has the tensors, types and moments that were asked for", "[model][random]") {
    for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16}) {
        INFO(name(type));
        const auto c = make(type);
        CHECK_FALSE(c->gguf());
        CHECK(c->path() == "random");
        CHECK(c->number("hidden_size") == 200);
        CHECK(c->names() == std::vector<std::string>{"a.weight", "b", "norm"});
        CHECK(c->shape("b") == std::vector<Index>{2, 3, 4});
        const Weight& a = *c->find("a.weight");
        CHECK((a.type == type && a.rows == 300 && a.columns == 200));
        check_moments(a, 0, 1 / std::sqrt(200.0));
        check_moments(*c->find("norm"), 1, 0.1);
        CHECK_NOTHROW(c->check());
        CHECK(same_bytes(a, *make(type)->find("a.weight")));
        CHECK_FALSE(same_bytes(a, *make(type, 2)->find("a.weight")));
    }
}

TEST_CASE("the numbers of a random checkpoint do not depend on the threads", "[model][random]") {
    const auto together = make(WeightType::f32);
    const causeway::test::Threads one(1);
    const auto alone = make(WeightType::f32);
    for (const auto& tensor : together->names()) CHECK(same_bytes(*together->find(tensor), *alone->find(tensor)));
}

TEST_CASE("what cannot be a random checkpoint is refused", "[model][random]") {
    const auto fault = [](const std::vector<RandomTensor>& list, WeightType type = WeightType::f32) {
        return message_of([&] { random_checkpoint("random", "{}", list, type, 1); });
    };
    CHECK(fault({{"a", {2}}}).empty());
    CHECK(fault({{"a", {2}}}, WeightType::q4_1) == "type: Q4_1, expected F32, F16 or BF16 for random weights");
    CHECK(fault({{"a", {2, 0}}}) == "tensor \"a\": has a dimension of 0, expected 1 or more");
    CHECK(fault({{"a", {-1}}}) == "tensor \"a\": has a dimension of -1, expected 1 or more");
    CHECK(fault({{"a", {Index{1} << 40, Index{1} << 40}}}) == "tensor \"a\": has more elements than any memory");
    CHECK_THROWS_AS(random_checkpoint("random", "{}", {{"a", {Index{1} << 50}}}, WeightType::f32, 1), OutOfMemory);
    CHECK(fault({{"a", {2}}, {"a", {2}}}) == "tensor \"a\": the name is given twice");
    CHECK(message_of([] { random_checkpoint("random", "[]", {}, WeightType::f32, 1); }) ==
          "random: is a list, expected an object");
}

TEST_CASE("matrices that are made up elsewhere have the same numbers, by the recipe that their weights carry",
          "[model][random]") {
    const auto here = make(WeightType::f32);
    const auto there = random_checkpoint("random", R"({"hidden_size": 200})", tensors, WeightType::f32, 1, false);
    CHECK(same_bytes(*there->find("norm"), *here->find("norm")));
    CHECK(same_bytes(*there->find("b"), *here->find("b")));
    const Weight &w = *there->find("a.weight"), &made = *here->find("a.weight");
    REQUIRE((w.data == nullptr && w.made_up != nullptr && made.made_up == nullptr));
    CHECK((w.rows == 300 && w.columns == 200 && w.bytes() == made.bytes()));
    std::vector<float> row(200);
    std::vector<double> numbers(static_cast<std::size_t>(MadeUp::piece));
    for (const Index i : {Index(0), Index(1), MadeUp::piece - 1, MadeUp::piece, Index(59'999)}) {
        const auto stream = w.made_up->stream + static_cast<std::uint64_t>(i / MadeUp::piece);
        random::uniforms(w.made_up->seed, stream, numbers.data(), MadeUp::piece);
        const double u = numbers[static_cast<std::size_t>(i % MadeUp::piece)];
        read_row(made, i / 200, row.data());
        CHECK(std::abs(static_cast<double>(row[static_cast<std::size_t>(i % 200)]) -
                       (w.made_up->least() + w.made_up->range() * u)) < 1e-8);
    }
}
