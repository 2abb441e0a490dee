#include "core/tensor/einsum.hpp"

#include <cmath>
#include <map>

#include "core/tensor/elementwise.hpp"
#include "core/tensor/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

// The definition: for every index of all letters the product of the elements, added to the element of the output.
Tensor by_definition(const std::vector<std::string>& inputs, const std::string& output,
                     const std::map<char, Index>& length, const std::vector<Tensor>& operands) {
    Shape shape;
    for (char c : output) shape.push_back(length.at(c));
    Tensor out = Tensor::zeros(DType::f64, shape);
    std::map<char, Index> index;
    const auto place = [&](const std::string& letters) {
        Index flat = 0;
        for (char c : letters) flat = flat * length.at(c) + index.at(c);
        return flat;
    };
    Index count = 1;
    for (const auto& [letter, n] : length) count *= n;
    for (Index i = 0; i < count; ++i) {
        Index rest = i;
        for (const auto& [letter, n] : length) {
            index[letter] = rest % n;
            rest /= n;
        }
        double product = 1;
        for (std::size_t k = 0; k < operands.size(); ++k) product *= operands[k].get(place(inputs[k]));
        out.set(place(output), out.get(place(output)) + product);
    }
    return out;
}

struct Case {
    std::vector<std::string> inputs;
    std::string output;
    std::map<char, Index> length;
};

// Matrix products of every layout, batches anywhere, diagonals, sums, outer products, orders of several operands; with
// lengths of 1 and around the blocks of the product.
const std::vector<Case> cases{
    {{"ij", "jk"}, "ik", {{'i', 7}, {'j', 5}, {'k', 9}}},
    {{"ij", "jk"}, "ki", {{'i', 7}, {'j', 5}, {'k', 9}}},
    {{"ji", "jk"}, "ik", {{'i', 7}, {'j', 5}, {'k', 9}}},
    {{"ji", "kj"}, "ik", {{'i', 7}, {'j', 5}, {'k', 9}}},
    {{"ij", "kj"}, "ik", {{'i', 131}, {'j', 17}, {'k', 515}}},
    {{"bij", "bjk"}, "bik", {{'b', 9}, {'i', 514}, {'j', 4}, {'k', 5}}},
    {{"bhnd", "bhmd"}, "bhnm", {{'b', 2}, {'h', 3}, {'n', 7}, {'m', 6}, {'d', 5}}},
    {{"bnhd", "bmhd"}, "bhnm", {{'b', 2}, {'h', 3}, {'n', 7}, {'m', 6}, {'d', 5}}},
    {{"bnhd", "bmhd"}, "nmbh", {{'b', 2}, {'h', 3}, {'n', 7}, {'m', 6}, {'d', 5}}},
    {{"bhnd", "bhmd"}, "bnhm", {{'b', 2}, {'h', 3}, {'n', 7}, {'m', 6}, {'d', 5}}},
    {{"bhnd", "hde"}, "bhne", {{'b', 4}, {'h', 3}, {'n', 7}, {'e', 6}, {'d', 5}}},
    {{"bhnd", "de"}, "bhne", {{'b', 2}, {'h', 3}, {'n', 7}, {'e', 6}, {'d', 5}}},
    {{"bnhd", "bnhe"}, "bhde", {{'b', 2}, {'h', 3}, {'n', 7}, {'e', 6}, {'d', 5}}},
    {{"abcd", "cdef"}, "abef", {{'a', 2}, {'b', 3}, {'c', 2}, {'d', 3}, {'e', 4}, {'f', 2}}},
    {{"acbd", "dcef"}, "fbea", {{'a', 2}, {'b', 3}, {'c', 2}, {'d', 3}, {'e', 4}, {'f', 2}}},
    {{"abcd", "efgh"}, "aceg", {{'a', 2}, {'b', 3}, {'c', 2}, {'d', 3}, {'e', 2}, {'f', 2}, {'g', 3}, {'h', 2}}},
    {{"bhnd", "bhnd"}, "bhn", {{'b', 2}, {'h', 3}, {'n', 7}, {'d', 37}}},
    {{"bhnd", "bhn"}, "bhd", {{'b', 2}, {'h', 3}, {'n', 7}, {'d', 37}}},
    {{"bhnd", "bhd"}, "bhn", {{'b', 2}, {'h', 3}, {'n', 7}, {'d', 37}}},
    {{"bn", "bd"}, "bnd", {{'b', 3}, {'n', 7}, {'d', 5}}},
    {{"i", "j"}, "ji", {{'i', 6}, {'j', 5}}},
    {{"i", "i"}, "", {{'i', 100}}},
    {{"ij", "ij"}, "ij", {{'i', 6}, {'j', 5}}},
    {{"ij", "ji"}, "ij", {{'i', 6}, {'j', 6}}},
    {{"ij", "jk", "kl"}, "il", {{'i', 6}, {'j', 7}, {'k', 8}, {'l', 9}}},
    {{"bhnd", "bhmd", "bhme"}, "bhne", {{'b', 2}, {'h', 2}, {'n', 5}, {'m', 6}, {'d', 7}, {'e', 4}}},
    {{"a", "ab", "bc", "cd", "d"}, "", {{'a', 5}, {'b', 6}, {'c', 7}, {'d', 8}}},
    {{"a", "ab", "bc", "cd", "de", "ef", "f"}, "", {{'a', 2}, {'b', 3}, {'c', 2}, {'d', 3}, {'e', 2}, {'f', 3}}},
    {{"ij"}, "ji", {{'i', 6}, {'j', 5}}},
    {{"ij"}, "i", {{'i', 6}, {'j', 50}}},
    {{"ij"}, "j", {{'i', 60}, {'j', 5}}},
    {{"ij"}, "", {{'i', 60}, {'j', 50}}},
    {{"ii"}, "i", {{'i', 6}}},
    {{"ii"}, "", {{'i', 6}}},
    {{"iij", "jk"}, "ik", {{'i', 6}, {'j', 5}, {'k', 7}}},
    {{"ijk"}, "kij", {{'i', 1}, {'j', 5}, {'k', 1}}},
    {{"ij", "jk"}, "ik", {{'i', 1}, {'j', 5}, {'k', 1}}},
    {{"ij", "jk"}, "ik", {{'i', 4}, {'j', 1}, {'k', 4}}},
    {{"bij", "bjk"}, "bik", {{'b', 1}, {'i', 8}, {'j', 8}, {'k', 8}}},
};

std::string formula(const Case& c) {
    std::string text;
    for (const std::string& input : c.inputs) text += (text.empty() ? "" : ", ") + input;
    return text + " -> " + c.output;
}

}  // namespace

TEST_CASE("einsum is the sum of products that its formula says", "[tensor][einsum]") {
    for (const Case& c : cases) {
        std::vector<Tensor> operands, singles;
        unsigned seed = 1;
        for (const std::string& input : c.inputs) {
            Shape shape;
            for (char letter : input) shape.push_back(c.length.at(letter));
            operands.push_back(sample(shape, seed++));
            singles.push_back(operands.back().to(DType::f32));
        }
        CAPTURE(formula(c));
        const Tensor expected = by_definition(c.inputs, c.output, c.length, operands);
        const Tensor out = einsum(formula(c), operands), single = einsum(formula(c), singles);
        REQUIRE(out.dtype() == DType::f64);
        REQUIRE(single.dtype() == DType::f32);
        // Each term meets a rounding a factor and one a sum, relative to itself; the definition as many.
        std::vector<Tensor> sizes;
        for (const Tensor& a : operands) sizes.push_back(apply(Unary::abs, a));
        const double largest = reduce(Reduction::maximum, by_definition(c.inputs, c.output, c.length, sizes));
        double terms = 1;
        for (const auto& [letter, n] : c.length)
            if (c.output.find(letter) == std::string::npos) terms *= static_cast<double>(n);
        const double roundings = 2 * (terms + 2.0 * static_cast<double>(operands.size()));
        CHECK(distance(out, expected) <= roundings * std::ldexp(largest, -53));
        CHECK(distance(single.to(DType::f64), expected) <= roundings * std::ldexp(largest, -24));
    }
}

TEST_CASE("einsum of mixed types computes in the wider one", "[tensor][einsum]") {
    const Tensor a = sample({5, 6}, 1, DType::bf16), b = sample({6, 7}, 2, DType::f16), c = sample({6, 7}, 2);
    CHECK(einsum("ij,jk->ik", {a, b}).dtype() == DType::f32);
    CHECK(einsum("ij,jk->ik", {a, c}).dtype() == DType::f64);
    CHECK(distance(einsum("ij,jk", {a, c}), einsum("ij,jk->ik", {a, c})) == 0);
}

TEST_CASE("einsum without an arrow has the letters that occur once, sorted", "[tensor][einsum]") {
    const Tensor a = sample({5, 6}, 1), b = sample({6, 4}, 2);
    CHECK(einsum("zy,yb", {a, b}).shape() == Shape({4, 5}));
    CHECK(einsum("ii", {sample({4, 4}, 1)}).ndim() == 0);
}

TEST_CASE("einsum over nothing is zero", "[tensor][einsum]") {
    const Tensor out = einsum("ij,jk->ik", {Tensor::zeros(DType::f32, {2, 0}), Tensor::zeros(DType::f32, {0, 3})});
    CHECK(out.shape() == Shape({2, 3}));
    CHECK(distance(out, Tensor::zeros(DType::f32, {2, 3})) == 0);
    CHECK(einsum("ij->j", {Tensor::zeros(DType::f32, {2, 0})}).shape() == Shape({0}));
}

TEST_CASE("einsum says what is wrong with a formula", "[tensor][einsum]") {
    const Tensor a = sample({2, 3}, 1), b = sample({3, 4}, 2);
    const auto refuses = [&](const char* text, const char* message) {
        CHECK_THROWS_WITH(einsum(text, {a, b}), message);
    };
    refuses("ij->ij", "einsum: \"ij->ij\": 1 operand, got 2 Tensors");
    refuses("ij,jkl->ik", "einsum: \"ij,jkl->ik\": operand 2: \"jkl\" names 3 dimensions, got a 3×4 Tensor{Float64}");
    refuses("ij,ik->jk", "einsum: \"ij,ik->jk\": index i: 2 in operand 1 and 3 in operand 2, expected the same length");
    refuses("ij,jk->iz", "einsum: \"ij,jk->iz\": output index z: in no operand");
    refuses("ij,jk->ii", "einsum: \"ij,jk->ii\": output index i: named twice, expected each once");
    refuses("...j,jk->ik", "einsum: \"...j,jk->ik\": \".\", expected a letter for every dimension");
    refuses("i1,jk->ik", "einsum: \"i1,jk->ik\": \"1\", expected letters, commas and one \"->\"");
    refuses("ij,jk->i->k", "einsum: \"ij,jk->i->k\": \"-\", expected letters, commas and one \"->\"");
    const Tensor c = sample({2, 2, 2}, 3);
    CHECK_THROWS_WITH(einsum("abc,def->abcdef", {c, c}),
                      "einsum: \"abc,def->abcdef\": 6 output indices, expected at most 4");
}
