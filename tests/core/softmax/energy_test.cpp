// The energy of softmax attention: its gradient by hand, by dual numbers and by differences, and its second derivative.
#include "core/softmax/energy.hpp"
#include "core/measure/dual.hpp"
#include "tests/core/gradient/problems.hpp"
#include "tests/core/softmax/problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

struct Sourced {
    SoftmaxInputs in;
    Tensor zeta;
    EnergyOptions options;

    explicit Sourced(const SoftmaxCase& c)
        : in(softmax_inputs(c)), zeta(random_tensor({c.batch, c.heads * c.group, c.N, c.dv}, c.seed + 500)) {
        options.causal = c.causal;
    }
};

template <class T>
std::vector<T> numbers(const Tensor& A) {
    std::vector<T> out;
    for (Index i = 0; i < A.size(); ++i) out.push_back(T(A.get(i)));
    return out;
}

// F, and where wanted its gradient, of one row by the definition on any scalar.
template <class T>
T row_energy(const SoftmaxCase& c, const Sourced& x, Index row, const std::vector<T>& zeta,
             std::vector<T>* gradient = nullptr) {
    const auto q = numbers<T>(x.in.q), k = numbers<T>(x.in.k), v = numbers<T>(x.in.v);
    const Index head = row / (c.group * c.N), n = c.causal ? row % c.N + c.M - c.N + 1 : c.M;
    if (gradient) gradient->resize(static_cast<std::size_t>(c.dv));
    return attention::energy_of_row(q.data() + row * c.d, k.data() + head * c.M * c.d, v.data() + head * c.M * c.dv,
                                    zeta.data(), n, c.d, c.dv, T(1 / std::sqrt(static_cast<double>(c.d))),
                                    gradient ? gradient->data() : nullptr);
}

std::vector<double> source_of(const Sourced& x, const SoftmaxCase& c, Index row) {
    std::vector<double> out;
    for (Index e = 0; e < c.dv; ++e) out.push_back(x.zeta.get(row * c.dv + e));
    return out;
}

const std::vector<SoftmaxCase> cases{{.batch = 2, .heads = 2, .group = 2, .N = 9, .M = 9, .d = 4, .dv = 3, .seed = 70},
                                     {.heads = 2, .N = 6, .M = 20, .d = 5, .dv = 7, .seed = 71},
                                     {.N = 12, .M = 5, .d = 3, .dv = 2, .causal = false, .seed = 72},
                                     {.N = 1, .M = 1, .d = 1, .dv = 1, .seed = 73}};

}  // namespace

TEST_CASE("without sources the energy is the log-sum-exp and its gradient attention", "[softmax][energy]") {
    const Poison poison;
    for (const SoftmaxCase& c : cases) {
        CAPTURE(c);
        const Sourced x(c);
        const SoftmaxResult want = x.in.run("standard");
        for (const auto& zeta :
             {std::optional<Tensor>(), std::optional<Tensor>(Tensor::zeros(DType::f64, x.zeta.shape()))}) {
            CHECK(relative_error(energy(x.in.q, x.in.k, x.in.v, zeta, x.options), want.lse) <= 1e-14);
            CHECK(relative_error(energy_grad(x.in.q, x.in.k, x.in.v, zeta, x.options), want.O) <= 1e-14);
        }
    }
}

TEST_CASE("the energy is that of the definition, and its gradient by hand that of dual numbers", "[softmax][energy]") {
    const Poison poison;
    for (const SoftmaxCase& c : cases) {
        CAPTURE(c);
        const Sourced x(c);
        const Tensor F = energy(x.in.q, x.in.k, x.in.v, x.zeta, x.options),
                     G = energy_grad(x.in.q, x.in.k, x.in.v, x.zeta, x.options);
        const SoftmaxInputs single = x.in.to(DType::f32);
        CHECK(relative_error(energy(single.q, single.k, single.v, x.zeta.to(DType::f32), x.options), F) <= 1e-6);
        CHECK(relative_error(energy_grad(single.q, single.k, single.v, x.zeta.to(DType::f32), x.options), G) <= 3e-6);
        for (Index row = 0; row < F.size(); ++row) {
            const auto source = source_of(x, c, row);
            std::vector<double> by_hand;
            CHECK(F.get(row) == Approx(row_energy<double>(c, x, row, source, &by_hand)).epsilon(1e-13));
            for (Index e = 0; e < c.dv; ++e) {
                std::vector<Dual<double>> dual(source.begin(), source.end());
                dual[static_cast<std::size_t>(e)].slope = 1;
                const double slope = row_energy<Dual<double>>(c, x, row, dual).slope;
                CHECK(by_hand[static_cast<std::size_t>(e)] == Approx(slope).epsilon(1e-12).margin(1e-13));
                CHECK(G.get(row * c.dv + e) == Approx(slope).epsilon(1e-12).margin(1e-13));
            }
        }
    }
}

TEST_CASE("the gradient of the energy is that of central differences", "[softmax][energy]") {
    const SoftmaxCase& c = cases[0];
    Sourced x(c);
    const auto total = [&] {
        double sum = 0;
        const Tensor F = energy(x.in.q, x.in.k, x.in.v, x.zeta, x.options);
        for (Index i = 0; i < F.size(); ++i) sum += F.get(i);
        return sum;
    };
    CHECK(relative_error(energy_grad(x.in.q, x.in.k, x.in.v, x.zeta, x.options), central_differences(x.zeta, total)) <=
          1e-8);
}

TEST_CASE("the second derivative of the energy is the covariance of the values", "[softmax][energy]") {
    const Poison poison;
    for (const SoftmaxCase& c :
         {SoftmaxCase{.batch = 2, .heads = 2, .group = 2, .N = 1, .M = 11, .d = 4, .dv = 3, .seed = 74},
          SoftmaxCase{.N = 1, .M = 1, .d = 2, .dv = 2, .seed = 75}}) {
        CAPTURE(c);
        const Sourced x(c);
        for (bool zero : {false, true}) {
            const auto zeta = zero ? std::optional<Tensor>() : std::optional<Tensor>(x.zeta);
            const Tensor H = energy_hessian(x.in.q, x.in.k, x.in.v, zeta, x.options);
            REQUIRE(H.shape() == Shape{c.batch, c.heads * c.group, c.dv, c.dv});
            for (Index row = 0; row < c.batch * c.heads * c.group; ++row) {
                for (Index a = 0; a < c.dv; ++a) {
                    std::vector<Dual<double>> once, gradient;  // the gradient by hand, and its slope along component a
                    for (double source : source_of(x, c, row)) once.emplace_back(zero ? 0 : source);
                    once[static_cast<std::size_t>(a)].slope = 1;
                    row_energy<Dual<double>>(c, x, row, once, &gradient);
                    for (Index b = 0; b < c.dv; ++b) {
                        CHECK(H.get((row * c.dv + a) * c.dv + b) ==
                              Approx(gradient[static_cast<std::size_t>(b)].slope).epsilon(1e-11).margin(1e-12));
                        std::vector<Dual<Dual<double>>> twice;
                        for (double source : source_of(x, c, row))
                            twice.emplace_back(Dual<double>(zero ? 0 : source), Dual<double>(0));
                        twice[static_cast<std::size_t>(a)].value.slope = 1;
                        twice[static_cast<std::size_t>(b)].slope.value = 1;
                        CHECK(H.get((row * c.dv + a) * c.dv + b) ==
                              Approx(row_energy<Dual<Dual<double>>>(c, x, row, twice).slope.slope)
                                  .epsilon(1e-11)
                                  .margin(1e-12));
                    }
                }
            }
            const Tensor single = energy_hessian(x.in.q.to(DType::f32), x.in.k.to(DType::f32), x.in.v.to(DType::f32),
                                                 zero ? zeta : std::optional<Tensor>(x.zeta.to(DType::f32)), x.options);
            CHECK(relative_error(single, H) <= 1e-5);
        }
    }
}

TEST_CASE("a shift of the scores moves the energy and leaves its gradient", "[softmax][energy]") {
    const SoftmaxCase c{.N = 30, .M = 30, .d = 5, .dv = 4, .seed = 76};
    Sourced x(c);
    for (Index j = 0; j < c.M; ++j) x.in.k.set(j * c.d + 4, 1);
    const Tensor F = energy(x.in.q, x.in.k, x.in.v, x.zeta, x.options),
                 G = energy_grad(x.in.q, x.in.k, x.in.v, x.zeta, x.options);
    for (Index i = 0; i < c.N; ++i) x.in.q.set(i * c.d + 4, x.in.q.get(i * c.d + 4) + 100);
    const Tensor shifted = energy(x.in.q, x.in.k, x.in.v, x.zeta, x.options);
    for (Index i = 0; i < c.N; ++i) CHECK(shifted.get(i) - F.get(i) == Approx(100 / std::sqrt(5.0)).epsilon(1e-13));
    CHECK(relative_error(energy_grad(x.in.q, x.in.k, x.in.v, x.zeta, x.options), G) <= 1e-12);
}

TEST_CASE("energies without keys, and what they refuse", "[softmax][energy]") {
    const Tensor q = Tensor::zeros(DType::f32, {3, 2}), none = Tensor::zeros(DType::f32, {0, 2});
    EnergyOptions all;
    all.causal = false;
    CHECK(energy(q, none, none, {}, all).get(0) == -INFINITY);
    CHECK(energy_grad(q, none, none, {}, all).get(0) == 0);
    const auto refused = [&](auto&& call) {
        try {
            call();
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    CHECK(refused([&] { energy(q, q, q, none, {}); }) == "zeta: 0×2, expected 3×2");
    CHECK(refused([&] { energy_grad(q, q, q, q.to(DType::f64), {}); }) == "zeta: Float64, expected Float32 like q");
    CHECK(refused([&] { energy_hessian(q, q, q, {}, {}); }) == "q: length 3, expected 1, one query");
    CHECK(refused([&] { energy(q, none, none); }) ==
          "q: length 3, expected at most the 0 of k: with causal the queries are the last of its positions");
}
