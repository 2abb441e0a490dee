// A scan against its meaning: every token of every head in turn, every operation by the function of tensors of its
// name.
#include "core/scan/scan.hpp"

#include <cmath>
#include <random>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/scan/code.hpp"
#include "core/tensor/matmul.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;
using scan::Id;
using scan::Kind;
using scan::Scan;

namespace {

// The values of one token of one head.
std::vector<Tensor> by_tensors(const scan::Program& program, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& states) {
    std::vector<Tensor> out;
    const auto of = [&](Id id) { return out[static_cast<std::size_t>(id)]; };
    for (Id id = 0; id < program.size(); ++id) {
        const scan::Value& v = program[id];
        const auto one = [](double x) { return scalar(x, DType::f64); };
        switch (v.kind) {
            case Kind::input: out.push_back(inputs[static_cast<std::size_t>(v.slot)]); break;
            case Kind::state: out.push_back(states[static_cast<std::size_t>(v.slot)]); break;
            case Kind::constant: out.push_back(v.elements.to(DType::f64)); break;
            case Kind::unary: out.push_back(apply(v.unary, of(v.a))); break;
            case Kind::binary: out.push_back(apply(v.binary, of(v.a), of(v.b))); break;
            case Kind::clamp: out.push_back(clamp(of(v.a), v.low, v.high)); break;
            case Kind::product: out.push_back(matmul(of(v.a), of(v.b))); break;
            case Kind::transpose: out.push_back(transpose(of(v.a))); break;
            case Kind::reshape: out.push_back(of(v.a).reshape(v.shape)); break;
            case Kind::diagonal: out.push_back(diag(of(v.a))); break;
            case Kind::reduce:
                out.push_back(v.dim < 0 ? one(reduce(v.reduction, of(v.a))) : reduce(v.reduction, of(v.a), v.dim));
                break;
            case Kind::dot: out.push_back(one(dot(of(v.a), of(v.b)))); break;
            case Kind::norm: out.push_back(one(norm(of(v.a)))); break;
            default: out.push_back(softmax(of(v.a))); break;
        }
        REQUIRE(out.back().shape() == v.shape);
    }
    return out;
}

// Part i of the first dimensions of a, of which `given` are there; 1 is repeated.
Tensor part_of(const Tensor& a, const std::vector<Index>& index) {
    Box box;
    for (int i = 0; i < a.ndim(); ++i) {
        const auto k = static_cast<std::size_t>(i);
        const bool leading = k < index.size();
        box.first[k] = leading && a.shape()[i] > 1 ? index[k] : 0;
        box.count[k] = leading ? 1 : a.shape()[i];
        box.drop[k] = leading;
    }
    return part(a, box);
}

void put(Tensor& a, const std::vector<Index>& index, const Tensor& value) {
    Box box;
    for (int i = 0; i < a.ndim(); ++i) {
        const auto k = static_cast<std::size_t>(i);
        box.first[k] = k < index.size() ? index[k] : 0;
        box.count[k] = k < index.size() ? 1 : a.shape()[i];
        box.drop[k] = k < index.size();
    }
    assign(a, box, value);
}

// Compares the run with tokens taken one after the other, for inputs [batch, heads, N, ...] and states
// [batch, heads, ...].
void check(Scan& s, const std::vector<scan::Named>& inputs, const std::vector<scan::Named>& states,
           const std::vector<Id>& outputs, const std::vector<Id>& after, bool reverse, double tolerance) {
    std::vector<Scan::NewValue> named;
    for (Id id : outputs) named.push_back({"", id});
    const scan::Program program = s.program;
    const Scan::Result result = s.run(named, after);
    Index batch = 1, heads = 1, tokens = 1;
    for (const auto& a : inputs) {
        batch = std::max(batch, a.tensor.shape()[0]);
        heads = std::max(heads, a.tensor.shape()[1]);
        tokens = std::max(tokens, a.tensor.shape()[2]);
    }
    std::vector<Tensor> expected, last;
    for (const Tensor& a : result.outputs) expected.push_back(Tensor::zeros(DType::f64, a.shape()));
    for (const Tensor& a : result.states) last.push_back(Tensor::zeros(DType::f64, a.shape()));
    for (Index b = 0; b < batch; ++b) {
        for (Index h = 0; h < heads; ++h) {
            std::vector<Tensor> state;
            for (const auto& a : states) state.push_back(part_of(a.tensor, {b, h}).to(DType::f64));
            for (Index i = 0; i < tokens; ++i) {
                const Index t = reverse ? tokens - 1 - i : i;
                std::vector<Tensor> token;
                for (const auto& a : inputs) token.push_back(part_of(a.tensor, {b, h, t}).to(DType::f64));
                const auto values = by_tensors(program, token, state);
                for (std::size_t o = 0; o < outputs.size(); ++o)
                    put(expected[o], {b, h, t}, values[static_cast<std::size_t>(outputs[o])]);
                for (std::size_t k = 0; k < after.size(); ++k) state[k] = values[static_cast<std::size_t>(after[k])];
            }
            for (std::size_t k = 0; k < after.size(); ++k) put(last[k], {b, h}, state[k]);
        }
    }
    const auto compare = [&](const Tensor& got, const Tensor& wanted) {
        REQUIRE(got.shape() == wanted.shape());
        double largest = 1;
        for (Index i = 0; i < wanted.size(); ++i) largest = std::max(largest, std::abs(wanted.get(i)));
        CHECK(distance(got.to(DType::f64), wanted) <= tolerance * largest);
    };
    for (std::size_t o = 0; o < expected.size(); ++o) compare(result.outputs[o], expected[o]);
    for (std::size_t k = 0; k < last.size(); ++k) compare(result.states[k], last[k]);
}

// A random step: operations on random earlier values, as far as they fit, kept small so that the state does not grow.
class RandomStep {
public:
    RandomStep(scan::Program& program, unsigned seed) : program_(program), generator_(seed) {}

    void record(int operations) {
        while (operations > 0) {
            try {
                const Id made = operation();
                if (made >= 0) --operations;
            } catch (const Error&) {
                // shapes that do not fit
            }
        }
    }

    // A value of this shape; the numbers in it are small.
    Id of_shape(const Shape& shape) {
        std::vector<Id> fitting;
        for (Id id = 0; id < program_.size(); ++id)
            if (program_.shape(id) == shape) fitting.push_back(id);
        REQUIRE(!fitting.empty());
        // Mostly late values, of which much depends.
        const auto first = below(3) ? fitting.size() / 2 : 0;
        return fitting[first + static_cast<std::size_t>(below(static_cast<int>(fitting.size() - first)))];
    }

private:
    int below(int n) { return static_cast<int>(generator_() % static_cast<unsigned>(n)); }
    Id any() { return below(program_.size()); }

    Id operation() {
        const Id a = any(), b = any();
        switch (below(16)) {
            case 0: return program_.apply(Binary::add, a, b);
            case 1: return program_.apply(Binary::subtract, a, b);
            case 2:
            case 3:
            case 4: return program_.apply(Binary::multiply, a, b);
            case 5: return program_.apply(Binary::maximum, a, b);
            case 6: return program_.apply(Unary::negate, a);
            case 7: return program_.apply(Unary::tanh, a);
            case 8: return program_.outer(a, b);
            case 9: return program_.product(a, b);
            case 10: return program_.product(program_.diagonal(a), b);
            case 11: return program_.product(a, program_.diagonal(b));
            case 12: return program_.transpose(a);
            case 13: return program_.reshape(a, {program_.shape(a).size(), 1});
            case 14:
                return program_.reduce(
                    below(2) ? Reduction::mean : Reduction::maximum, a,
                    program_.shape(a).ndim() ? std::optional<int>(below(program_.shape(a).ndim())) : std::nullopt);
            default: return below(2) ? program_.softmax(a) : program_.product(a, program_.transpose(b));
        }
    }

    scan::Program& program_;
    std::mt19937 generator_;
};

scan::Named small(const char* name, const Shape& shape, unsigned seed, DType type = DType::f64) {
    return {name, apply(Binary::multiply, sample(shape, seed, type), scalar(0.3, type)), false};
}

}  // namespace

TEST_CASE("a scan of any step is every token in turn, operation by operation", "[scan]") {
    for (unsigned seed = 1; seed <= 300; ++seed) {
        const Index m = 1 + static_cast<Index>(seed % 5), n = seed % 3 ? 9 : m;
        const std::vector<scan::Named> inputs{small("a", {1, 2, 4, m}, seed), small("b", {2, 1, 4, n}, seed + 1),
                                              small("c", {1, 1, 4}, seed + 2), small("d", {1, 2, 1, n}, seed + 3)};
        const std::vector<scan::Named> states{small("S", {2, 2, m, n}, seed + 4), small("R", {1, 2, m, n}, seed + 5),
                                              small("z", {1, 1, n}, seed + 6), small("l", {2, 2}, seed + 7)};
        const bool reverse = seed % 2 == 0;
        Scan s(inputs, states, {reverse, false});
        RandomStep step(s.program, seed);
        step.record(3 + static_cast<int>(seed % 40));
        const auto bounded = [&](const Shape& shape) {
            const Id id = step.of_shape(shape);
            return seed % 4 ? id : s.program.apply(Unary::tanh, id);
        };
        const std::vector<Id> after{bounded({m, n}), bounded({m, n}), bounded({n}), bounded({})};
        const std::vector<Id> outputs{bounded({n}), bounded({}), step.of_shape({m})};
        CAPTURE(seed, m, n, s.program.size());
        check(s, inputs, states, outputs, after, reverse, 1e-9);
    }
}

TEST_CASE("sums of scaled matrices and outer products of every number are one result", "[scan]") {
    for (DType type : {DType::f32, DType::f64}) {
        for (const Index n : {2, 7, 8, 9, 33}) {
            for (int matrices = 0; matrices <= 3; ++matrices) {
                for (int products = 0; products <= 5; ++products) {
                    if (matrices + products == 0) continue;
                    const Index m = 5;
                    const std::vector<scan::Named> inputs{small("a", {1, 1, 3, m}, 1, type),
                                                          small("b", {1, 1, 3, n}, 2, type),
                                                          small("c", {1, 1, 3}, 3, type)};
                    const std::vector<scan::Named> states{small("S", {1, 1, m, n}, 4, type)};
                    Scan s(inputs, states);
                    scan::Program& p = s.program;
                    const Id a = s.input(0), b = s.input(1), c = s.input(2), S = s.state(0);
                    Id sum = -1;
                    const auto add = [&](Id term) {
                        if (sum < 0) sum = term;
                        else sum = p.apply(p.size() % 2 ? Binary::add : Binary::subtract, sum, term);
                    };
                    for (int k = 0; k < std::max(matrices, products); ++k) {
                        if (k < products)
                            add(k % 2 ? p.product(c, p.outer(a, b)) : p.outer(a, p.apply(Unary::tanh, b)));
                        if (k >= matrices) continue;
                        const Id matrix = k == 0 ? S : p.apply(Unary::tanh, S);
                        add(k == 1 ? p.product(c, matrix) : p.product(p.diagonal(a), p.product(matrix, p.diagonal(b))));
                    }
                    CAPTURE(name(type), n, matrices, products);
                    check(s, inputs, states, {p.product(a, sum), p.product(sum, b), p.apply(Unary::exp, b)}, {sum},
                          false, type == DType::f64 ? 1e-14 : 1e-5);
                }
            }
        }
    }
}

TEST_CASE("the two-sided gated recurrence writes over its state in one pass", "[scan]") {
    const std::vector<scan::Named> inputs{small("q", {1, 2, 5, 6}, 1), small("k", {1, 2, 5, 6}, 2),
                                          small("v", {1, 2, 5, 9}, 3), small("a", {1, 2, 5, 6}, 4),
                                          small("b", {1, 2, 5, 9}, 5)};
    const std::vector<scan::Named> states{small("S", {1, 2, 6, 9}, 6)};
    Scan s(inputs, states);
    scan::Program& p = s.program;
    const Id gated = p.product(p.product(p.diagonal(s.input(3)), s.state(0)), p.diagonal(s.input(4)));
    const Id S = p.apply(Binary::add, gated, p.outer(s.input(1), s.input(2)));
    const Id o = p.product(s.input(0), S);
    const scan::Code code = scan::compile(p, {o}, {S});
    REQUIRE(code.instructions.size() == 2);
    CHECK(code.instructions[0].sum.size() == 2);
    CHECK(code.place[static_cast<std::size_t>(S)] == s.state(0));
    check(s, inputs, states, {o}, {S}, false, 1e-14);

    // The output of the state as it was, asked for afterwards: it must not be written over.
    Scan late(inputs, states);
    scan::Program& r = late.program;
    const Id next = r.apply(Binary::add, late.state(0), r.outer(late.input(1), late.input(2)));
    const Id before = r.product(late.input(0), late.state(0));
    const scan::Code kept = scan::compile(r, {before}, {next});
    CHECK(kept.place[static_cast<std::size_t>(next)] == next);
    check(late, inputs, states, {before}, {next}, false, 1e-14);
}

TEST_CASE("states may change places", "[scan]") {
    const std::vector<scan::Named> inputs{small("x", {1, 1, 5}, 1)};
    const std::vector<scan::Named> states{small("a", {1, 1, 3}, 2), small("b", {1, 1, 3}, 3), small("c", {1, 1, 3}, 4)};
    Scan s(inputs, states);
    check(s, inputs, states, {s.input(0)}, {s.state(1), s.state(2), s.state(0)}, false, 0);
    Scan twice(inputs, states);
    const Id sum = twice.program.apply(Binary::add, twice.state(0), twice.state(1));
    check(twice, inputs, states, {sum}, {sum, sum, twice.state(2)}, false, 1e-15);
}

TEST_CASE("a scan takes [batch, N, heads, d] and tensors without batch and heads", "[scan]") {
    const auto run = [](const std::vector<scan::Named>& inputs, const std::vector<scan::Named>& states, bool first) {
        Scan s(inputs, states, {false, first});
        const Id sum = s.program.apply(Binary::add, s.state(0), s.input(0));
        return s.run({{"", sum}}, {sum});
    };
    const Tensor x = sample({2, 3, 4, 5}, 1), z = sample({2, 3, 5}, 2);
    const auto plain = run({{"x", x}}, {{"z", z}}, false),
               swapped = run({{"x", permute(x, {0, 2, 1, 3})}}, {{"z", z}}, true);
    CHECK(identical(permute(swapped.outputs[0], {0, 2, 1, 3}), plain.outputs[0]));
    CHECK(identical(swapped.states[0], plain.states[0]));
    const auto flat = run({{"x", part_of(x, {1, 2})}}, {{"z", part_of(z, {1, 2})}}, false);
    CHECK(identical(flat.outputs[0], part_of(plain.outputs[0], {1, 2})));
    CHECK(identical(flat.states[0], part_of(plain.states[0], {1, 2})));
    const auto none = run({{"x", Tensor::zeros(DType::f64, {2, 3, 0, 5})}}, {{"z", z}}, false);
    CHECK(none.outputs[0].shape() == Shape({2, 3, 0, 5}));
    CHECK(identical(none.states[0], z));
}

TEST_CASE("a scan gives the same for every number of threads", "[scan]") {
    const auto run = [] {
        Scan s({{"x", sample({3, 5, 20, 7}, 1)}}, {{"z", Tensor::zeros(DType::f64, {1, 1, 7, 7})}});
        const Id next = s.program.apply(
            Unary::tanh, s.program.apply(Binary::add, s.state(0), s.program.outer(s.input(0), s.input(0))));
        return s.run({{"", s.program.product(s.input(0), next)}}, {next});
    };
    const int before = threads();
    set_threads(1);
    const auto alone = run();
    set_threads(3);
    const auto together = run();
    set_threads(before);
    CHECK(identical(alone.outputs[0], together.outputs[0]));
    CHECK(identical(alone.states[0], together.states[0]));
}

TEST_CASE("functions of one element are in a scan what they are for tensors", "[scan]") {
    for (DType type : {DType::f32, DType::f64}) {
        Tensor x = apply(Binary::multiply, sample({1, 1, 3, 37}, 1, type), scalar(8, type));
        for (const auto& [place, value] : {std::pair(0, NaN), {1, Inf}, {2, -Inf}, {3, 0.0}, {4, 500.0}, {5, -500.0}})
            x.set(place, value);
        for (int op = 0; op <= static_cast<int>(Unary::isfinite); ++op) {
            Scan s({{"x", x}}, {});
            const auto which = static_cast<Unary>(op);
            CAPTURE(name(type), name(which));
            const Tensor out = s.run({{"", s.program.apply(which, s.input(0))}}, {}).outputs[0];
            const Tensor expected = apply(which, x);
            REQUIRE(out.dtype() == type);
            // The exponential of vectors is at most two units in the last place off, and ends where numbers are no
            // longer normal.
            const double unit = type == DType::f64 ? 0x1p-52 : 0x1p-23,
                         least = type == DType::f64 ? 0x1p-1022 : 0x1p-126;
            for (Index i = 0; i < x.size(); ++i) {
                const double got = out.get(i), wanted = expected.get(i);
                const bool same = got == wanted || (std::isnan(got) && std::isnan(wanted));
                CHECK((same || std::abs(got - wanted) <= 4 * unit * std::abs(wanted) + least));
            }
        }
    }
}

TEST_CASE("a scan can be interrupted", "[scan]") {
    Scan s({{"x", sample({1, 1, 20, 7}, 1)}}, {{"z", sample({1, 1, 7}, 2)}});
    interrupt::request();
    CHECK_THROWS_AS(s.run({{"", s.input(0)}}, {s.state(0)}), Interrupted);
    interrupt::clear();
}

TEST_CASE("a scan says which tensors do not fit", "[scan]") {
    const auto refuses = [](std::vector<scan::Named> inputs, std::vector<scan::Named> states, const char* message) {
        CHECK_THROWS_WITH(Scan(std::move(inputs), std::move(states)), message);
    };
    const scan::Named x{"x", sample({2, 3, 4, 5}, 1)}, z{"z", sample({2, 3, 5}, 2)};
    refuses({}, {z}, "scan: inputs: none, expected at least one Tensor: the tokens are what they are");
    refuses(
        {x, {"g", sample({3, 4}, 1)}}, {z},
        "scan: inputs: g is 3×4, expected [batch, heads, N, d] or [batch, heads, N], as another input has batch and "
        "heads");
    refuses({x, {"g", sample({2, 3, 7}, 1)}}, {z},
            "scan: inputs: g is 2×3×7, with 7 tokens, expected 4 as in another input, or 1, which is repeated");
    refuses({x}, {{"z", sample({2, 4, 5}, 1)}},
            "scan: state: z is 2×4×5, expected a number or [2, 3, ...], or 1 for either, which is repeated");
    refuses({x}, {{"", sample({4, 5}, 1)}},  // the only state, which has no name
            "scan: state: 4×5, expected a number or [2, 3, ...], or 1 for either, which is repeated");
    refuses({x}, {{"z", sample({2}, 1)}},
            "scan: state: z is 2, expected a number or [2, 3, ...], or 1 for either, which is repeated");
    refuses({{"x", sample({4, 5}, 1)}}, {{"z", sample({1, 1, 5}, 1)}},
            "scan: state: z is 1×1×5, expected at most 2 dimensions: the inputs have no batch and heads");
    refuses({{"x", sample({4, 5}, 1, DType::bf16)}}, {},
            "scan: inputs: x is a 4×5 Tensor{BFloat16}, expected Float32 or Float64: A:f32() converts it");
    refuses({x}, {{"", sample({2, 3, 5}, 1, DType::f16)}},
            "scan: state: a 2×3×5 Tensor{Float16}, expected Float32 or Float64: A:f32() converts it");
    Scan s({x}, {z});
    CHECK_THROWS_WITH(s.run({}, {s.program.number(1)}),
                      "scan: step: the new state z is a number, expected 5 as before; a step returns the output first, "
                      "then the state");
    CHECK_THROWS_WITH(s.run({{"o", s.program.outer(s.input(0), s.input(0))}}, {s.state(0)}),
                      "scan: step: the output o is 5×5, expected a number or a vector; A:reshape(-1) makes it one");
}

TEST_CASE("a step too long to record is refused, and a long one runs", "[scan]") {
    Scan s({{"x", sample({1, 1, 2}, 1)}}, {{"z", sample({1, 1, 3, 3}, 2)}});
    Id id = s.state(0);
    for (int i = 0; i < 1000; ++i) {
        id = s.program.apply(Binary::multiply, id, s.input(0));
        id = s.program.apply(Binary::multiply, id, s.state(0));
        id = s.program.apply(Unary::tanh, id);
        id = s.program.apply(Binary::add, id, s.state(0));
    }
    const Scan::Result result = s.run({}, {id});
    CHECK(std::isfinite(result.states[0].get(0)));
    CHECK_THROWS_WITH(
        [&] {
            while (true) id = s.program.apply(Unary::tanh, id);
        }(),
        "scan: step: more than 4096 operations");
}
