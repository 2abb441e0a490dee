// A state carried over the tokens by a step of the caller's own: linear recurrences with gates of every kind, delta
// rules, running maxima. The step is recorded once, on values that stand for one token of one head, and then run for
// every token; heads are spread over the threads. O(tokens · operations of the step).
#pragma once

#include <string>
#include <vector>

#include "core/scan/program.hpp"

namespace causeway::scan {

struct Named {
    std::string name;
    Tensor tensor;
    bool is_number = false;  // a state that is one number for every head: it has no say in the element type
};

struct Options {
    bool reverse = false;       // from the last token to the first
    bool tokens_first = false;  // inputs and outputs are [batch, N, heads, d]
};

// What a scan runs over. Inputs are [batch, heads, N, d] or, for a number a token, [batch, heads, N]; or without batch
// and heads [N, d] and [N]. Where batch, heads or N is 1 and another input has more, the input is repeated. States are
// [batch, heads, m, n], [batch, heads, n] or [batch, heads]; without batch and heads [m, n], [n] or a number.
class Scan {
public:
    // Throws Error for element types other than Float32 and Float64, shapes that do not fit, and without inputs.
    Scan(std::vector<Named> inputs, std::vector<Named> states, const Options& options = {});

    // The values of the step are recorded here.
    Program program;
    // An input of the token, and a state as the token before left it.
    Id input(std::size_t i) const { return static_cast<Id>(i); }
    Id state(std::size_t i) const { return static_cast<Id>(inputs_.size() + i); }

    DType dtype() const { return type_; }

    // The outputs of all tokens, [batch, heads, N, ...], and the states after the last one. Throws Error where a new
    // state has not the shape of the old one, or an output has too many dimensions.
    struct Result {
        std::vector<Tensor> outputs, states;
    };
    struct NewValue {
        std::string name;
        Id value;
    };
    Result run(const std::vector<NewValue>& outputs, const std::vector<Id>& states);

    // Where batch, heads and tokens of a tensor are, in elements; 0 where it is repeated.
    struct Steps {
        Index batch = 0, head = 0, token = 0;
    };

private:
    void check_type(const Named& a, const char* what);
    void read_sizes();
    void check_input(const Named& a);
    void check_state(const Named& a);
    Shape value_of_input(const Tensor& a) const;
    Shape full(const Shape& value, bool with_tokens) const;
    Steps steps(const Shape& given, bool with_tokens) const;

    std::vector<Named> inputs_, states_;
    Options options_;
    DType type_ = DType::f32;
    bool has_heads_ = false;
    Index batch_ = 1, heads_ = 1, tokens_ = 1;
};

}  // namespace causeway::scan
