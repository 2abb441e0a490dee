#include "core/model/integer_dot.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/model/weight.hpp"
#include "tests/catch.hpp"

using namespace causeway;
using namespace causeway::model;

TEST_CASE("a block is rounded to 16 bits of its largest number", "[model][weight]") {
    std::vector<float> x(32);
    for (const float size : {1e-36f, 1e-20f, 1.0f, 3e38f}) {
        INFO(size);
        for (int i = 0; i < 32; ++i) x[static_cast<std::size_t>(i)] = size * std::sin(static_cast<float>(7 * i + 1));
        double largest = 0, sum = 0;
        for (const float e : x) largest = std::max(largest, std::abs(static_cast<double>(e)));
        const RoundedBlock b = round_block(x.data());
        for (int i = 0; i < 32; ++i) {
            const double got = static_cast<double>(b.q[i / 8][i % 8]) * static_cast<double>(b.scale);
            const double off = std::abs(got - static_cast<double>(x[static_cast<std::size_t>(i)]));
            // Half a step of largest / 32767, and the roundings of scale and inverse; what is below 1e-30 is dropped.
            if (size > 1e-30f) CHECK(off <= largest * (0x1.0008p-16 + 3 * 0x1p-24));
            else CHECK(got == 0);
            sum += got;
        }
        CHECK(std::abs(static_cast<double>(b.sum) - sum) <= 32 * largest * 0x1p-23);
    }
    for (auto& e : x) e = 0;
    CHECK(round_block(x.data()).scale == 0);
    CHECK(round_block(x.data()).sum == 0);
}

TEST_CASE("what is not finite in x leaves no finite product with rounded rows", "[model][weight]") {
    for (const WeightType type : {WeightType::q4_0, WeightType::q4_1}) {
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity()}) {
            for (const Index place : {0, 31, 32, 95}) {
                INFO(name(type) << ' ' << bad << ' ' << place);
                Weight w{type, 3, 96, nullptr};
                std::vector<unsigned char> bytes(w.bytes(), 0x21);  // a scale of 0.0089
                w.data = bytes.data();
                std::vector<float> x(96, 0.5f), y(3);
                multiply(w, x.data(), 1, 96, y.data(), 3);
                for (const float e : y) CHECK(std::isfinite(e));
                x[static_cast<std::size_t>(place)] = bad;
                multiply(w, x.data(), 1, 96, y.data(), 3);
                for (const float e : y) CHECK_FALSE(std::isfinite(e));
            }
        }
    }
}

TEST_CASE("several products with one x are those of each", "[model][weight]") {
    const WeightType types[] = {WeightType::q4_1, WeightType::q8_0, WeightType::q4_1, WeightType::f32};
    const Index rows[] = {70, 3, 0, 129};
    for (const Index n : {1, 5, 20}) {
        INFO(n);
        std::vector<std::vector<unsigned char>> bytes;
        std::vector<Weight> weights;
        for (int i = 0; i < 4; ++i) {
            weights.push_back({types[i], rows[i], 96, nullptr});
            bytes.emplace_back(weights.back().bytes());
            for (std::size_t k = 0; k < bytes.back().size(); ++k)
                bytes.back()[k] = static_cast<unsigned char>(k % 4 == 3 ? 0x31 : k % 4 == 1 ? 0x2A : 37 * k + 5);
        }
        std::vector<float> x(static_cast<std::size_t>(n * 96));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
        std::vector<std::vector<float>> alone, together;
        std::vector<Product> products;
        for (std::size_t i = 0; i < 4; ++i) {
            weights[i].data = bytes[i].data();
            alone.emplace_back(static_cast<std::size_t>(n * rows[i] + 1), -1.0f);
            together.push_back(alone.back());
            multiply(weights[i], x.data(), n, 96, alone[i].data(), rows[i]);
        }
        for (std::size_t i = 0; i < 4; ++i) products.push_back({&weights[i], together[i].data(), rows[i]});
        multiply(products, x.data(), n, 96);
        for (std::size_t i = 0; i < 4; ++i) CHECK(alone[i] == together[i]);
    }
}
