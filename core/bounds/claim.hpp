// The claims of proofs/ that bound an error or state a count, on inputs of the caller's: what is measured, beside what
// it must not exceed. The tests of proofs/ read the same functions (tests/proofs/adversary_bounds.cpp).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/bounds/numbers.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::bounds {

// A measured value against its bound. It holds where measured <= bound, or, of a count, where both are equal; never
// where one of them is not a number.
struct Row {
    std::string what;
    double measured = 0, bound = 0;
    bool exactly = false;

    bool holds() const { return exactly ? measured == bound : measured <= bound; }
    double share() const { return measured == 0 ? 0 : measured / bound; }
};

// Of two, that which uses more of its bound; one that is not a number uses most.
inline const Row& nearer(const Row& a, const Row& b) { return a.share() >= b.share() || std::isnan(a.share()) ? a : b; }

// Of row(0) to row(n - 1), n >= 1, the one that nearer prefers; the first of several alike.
template <class F>
Row nearest(Index n, F&& row) {
    Row out = row(Index{0});
    for (Index i = 1; i < n; ++i) out = nearer(out, row(i));
    return out;
}

// A count, which has to be equal to its closed form.
inline Row counted_row(const std::string& what, Index got, Index want) { return {what, real(got), real(want), true}; }

// An input of a claim. form: the dimensions of a tensor, a letter for each, which is one size in all inputs, "..." for
// leading dimensions of heads: "[..., N, r]"; or "number", "whole number", "true or false", or "text".
struct Input {
    std::string name, form, text;
    bool optional = false;
};

using Values = std::map<std::string, std::variant<Tensor, double, bool, std::string>>;

struct Claim;

// The inputs of a claim, checked against its list.
class Given {
public:
    // Throws Error naming the input: missing, of another kind or form, unknown.
    Given(const Claim&, const Values&);

    bool has(const std::string& name) const { return values_.contains(name); }
    // The type that errors are measured in: Float64 where a tensor has it, else Float32; and its unit roundoff.
    DType type() const { return type_; }
    double u() const { return type_ == DType::f64 ? u64 : u32; }
    Index heads() const { return heads_; }
    Index size(char letter) const { return sizes_.at(letter); }
    // Whether all numbers of all tensors are finite; else the name of the first that has others.
    const std::string& not_finite() const { return not_finite_; }

    Matrix matrix(const std::string& name, Index head = 0) const;  // in Float64
    Point numbers(const std::string& name) const;                  // of one dimension
    Tensor head(const std::string& name, Index head) const;        // [N, width], of type()
    double number(const std::string& name, double otherwise) const;
    Index whole(const std::string& name, Index otherwise) const;  // at least 1
    bool flag(const std::string& name) const;
    std::string text(const std::string& name) const;  // "" where it was not given
    // Throw Error where a number is outside its interval.
    double decay() const;                        // the input of that name, in (0, 1]; 1 where it was not given
    Point gates(const std::string& name) const;  // numbers in [0, 1]

private:
    void check_form(const Input&, const Tensor&);

    Values values_;
    std::map<char, Index> sizes_;
    std::map<char, std::string> size_of_;  // the input that said a size
    DType type_ = DType::f32;
    Index heads_ = 1;
    std::string heads_of_, not_finite_;
};

struct Claim {
    std::string id;         // "A9", as in the index of proofs/README.md
    std::string statement;  // one line
    std::string proof;      // where it is stated and proved: "proofs/masking.md"
    std::string source;     // document and place, or "derived"
    std::vector<Input> inputs;
    std::function<std::vector<Row>(const Given&)> rows;
    std::string terms = {};  // what the letters in the statement and in what its rows say mean, where they have some
};

// Its inputs with their forms: "q, k [..., N, r], v [..., N, d], optional chunk (whole number)".
std::string inputs_text(const Claim&);

// All that can be checked, in order of ids.
const std::vector<Claim>& claims();

// By id. Throws Error for an unknown one, with the nearest.
const Claim& claim(const std::string& id);

// The rows of a claim. Where an input has numbers that are not finite there is one row, which says so and does not
// hold. Throws Error naming the input for what the claim is not stated for.
std::vector<Row> check(const Claim&, const Values&);

// The parts of the list.
std::vector<Claim> masking_claims();  // A
std::vector<Claim> causal_claims();   // B, C
std::vector<Claim> sum_claims();      // D, E, G, H2
std::vector<Claim> gated_claims();    // F
std::vector<Claim> softmax_claims();  // H

}  // namespace causeway::bounds
