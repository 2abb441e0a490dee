// Pools of states in 8 bits: what comes out is near what went in, on inputs that try to make it far.
#include "core/kit/state_pool.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using causeway::testing::message_of;
using kit::StatePool;

namespace {

constexpr Index d_k = 5, d_v = 9;

// Of one head.
template <class F>
Tensor state_of(F&& entry) {
    Tensor out(DType::f32, {1, 1, d_k, d_v});
    for (Index i = 0; i < out.size(); ++i) out.set(i, entry(i));
    return out;
}

Tensor through_pool(const Tensor& state) {
    StatePool pool(3, 1, d_k, d_v);
    pool.put(state, {1});
    return pool.states({1});
}

double largest(const Tensor& x) {
    double most = 0;
    for (Index i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x.get(i)));
    return most;
}

// The greatest error over the bound that the header states.
double error_over_bound(const Tensor& x) {
    const Tensor got = through_pool(x);
    const double bound = std::max(largest(x) / 253, std::ldexp(1.0, -126));
    double worst = 0;
    for (Index i = 0; i < x.size(); ++i) {
        const double error = std::abs(got.get(i) - x.get(i)) / bound;
        if (!(error <= worst)) worst = error;  // NaN too
    }
    return worst;
}

}  // namespace

TEST_CASE("a state comes out of 8 bits within the stated bound", "[kit]") {
    std::mt19937_64 draw(8);
    std::normal_distribution<double> normal;
    for (int i = 0; i < 2000; ++i) {
        const double size = std::pow(10.0, -45 + 83.0 * static_cast<double>(draw() % 1000) / 1000);
        const int shape = static_cast<int>(draw() % 4);
        const Tensor x = state_of([&](Index e) {
            const double n = normal(draw);
            if (shape == 0) return size * n;
            if (shape == 1) return e == 7 ? size : size * n / 300;  // one large entry beside small ones
            // Halfway between two codes, where roundings decide.
            if (shape == 2) return e == 0 ? size : size * (static_cast<double>(e % 127) + 0.5) / 127;
            return n > 0 ? size : -size;
        });
        INFO("case " << i << " shape " << shape << " size " << size);
        REQUIRE(error_over_bound(x) <= 1);
    }
    const auto all = [](double value) { return state_of([=](Index) { return value; }); };
    CHECK(error_over_bound(all(std::numeric_limits<float>::max())) <= 1);
    CHECK(error_over_bound(all(-std::numeric_limits<float>::max())) <= 1);
    CHECK(error_over_bound(all(std::numeric_limits<float>::min())) <= 1);
    CHECK(error_over_bound(all(std::numeric_limits<float>::denorm_min())) <= 1);
    CHECK(largest(through_pool(all(0))) == 0);
}

TEST_CASE("the bound is not an idle one: halfway between two codes half of it and more is reached", "[kit]") {
    CHECK(error_over_bound(state_of([](Index e) { return e == 0 ? 1 : 10.49 / 127; })) > 0.9);
}

TEST_CASE("a state that is put back where it came from stays", "[kit]") {
    std::mt19937_64 draw(9);
    std::normal_distribution<double> normal;
    for (int i = 0; i < 200; ++i) {
        const Tensor once = through_pool(state_of([&](Index) { return normal(draw); })), twice = through_pool(once);
        for (Index e = 0; e < once.size(); ++e) REQUIRE(std::abs(once.get(e) - twice.get(e)) <= 1e-6 * largest(once));
    }
}

TEST_CASE("an Inf or a NaN is not lost: its head is NaN, and no other one", "[kit]") {
    for (const double bad : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
        StatePool pool(2, 3, d_k, d_v);
        Tensor states = Tensor::full(DType::f32, {2, 3, d_k, d_v}, 0.5);
        const Index entries = d_k * d_v;
        states.set(entries * 4 + 11, bad);  // slot 1, head 1
        pool.put(states, {0, 1});
        const Tensor got = pool.states({0, 1});
        for (Index i = 0; i < got.size(); ++i) {
            if (i / entries == 4) REQUIRE(std::isnan(got.get(i)));
            else REQUIRE(std::abs(got.get(i) - 0.5) <= 0.5 / 253);
        }
        pool.put(Tensor::full(DType::f32, {1, 3, d_k, d_v}, 2), {1});
        CHECK(std::abs(pool.states({1}).get(entries + 3) - 2) <= 2.0 / 253);
    }
}

TEST_CASE("no other slot changes, and a pool begins with zeros", "[kit]") {
    StatePool pool(4, 2, d_k, d_v);
    CHECK(pool.bytes() == 4 * 2 * (d_k * d_v + 4));
    CHECK(largest(pool.states({0, 1, 2, 3})) == 0);
    pool.put(Tensor::full(DType::f64, {2, 2, d_k, d_v}, -3), {3, 1});
    const Tensor got = pool.states({0, 1, 2, 3});
    const Index slot = 2 * d_k * d_v;
    for (Index i = 0; i < got.size(); ++i) REQUIRE(got.get(i) == (i / slot % 2 == 1 ? -3 : 0));
    CHECK(message_of([&] { pool.states({4}); }) ==
          "state_indices: a slot outside the pool in place 1, expected one of its 4");
    CHECK(message_of([&] {
              pool.put(Tensor::zeros(DType::f32, {1, 2, d_k, d_v}), {0, 1});
          }) == "states: 1×2×5×9, expected 2×2×5×9");
    CHECK(message_of([&] {
              pool.put(Tensor::zeros(DType::f32, {2, 2, d_k, d_v}), {1, 1});
          }) ==
          "state_indices: places 1 and 2 have the same slot, expected one for each sequence, as the states are written "
          "there");
}
