#include "core/scan/scan.hpp"

#include <algorithm>
#include <limits>

#include "core/scan/run.hpp"

namespace causeway::scan {
namespace {

constexpr int with_heads = 3;  // an input of so many dimensions, or more, has batch and heads

// How a sentence goes on about one of several; the only one has no name.
std::string named(const std::string& name, const char* then) { return name.empty() ? "" : name + then; }

}  // namespace

Scan::Scan(std::vector<Named> inputs, std::vector<Named> states, const Options& options)
    : inputs_(std::move(inputs)), states_(std::move(states)), options_(options) {
    if (inputs_.empty()) fail("scan: inputs: none, expected at least one Tensor: the tokens are what they are");
    for (const Named& a : inputs_) check_type(a, "inputs");
    for (const Named& a : states_) check_type(a, "state");
    read_sizes();
    for (const Named& a : inputs_) check_input(a);
    for (const Named& a : states_) check_state(a);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
        program.input(value_of_input(inputs_[i].tensor), static_cast<int>(i));
    for (std::size_t i = 0; i < states_.size(); ++i) {
        Shape value;
        const Shape& shape = states_[i].tensor.shape();
        for (int k = has_heads_ && !states_[i].is_number ? 2 : 0; k < shape.ndim(); ++k) value.push_back(shape[k]);
        program.state(value, static_cast<int>(i));
    }
}

void Scan::check_type(const Named& a, const char* what) {
    if (is_storage_only(a.tensor.dtype()))
        fail("scan: ", what, ": ", named(a.name, " is "), "a ", a.tensor.summary(),
             ", expected Float32 or Float64: A:f32() converts it");
    if (!a.is_number) type_ = promote(type_, a.tensor.dtype());
}

// Batch, heads and tokens: the greatest length of each among the inputs.
void Scan::read_sizes() {
    for (const Named& a : inputs_) has_heads_ = has_heads_ || a.tensor.ndim() >= with_heads;
    for (const Named& a : inputs_) {
        const Shape& s = a.tensor.shape();
        const int least = has_heads_ ? with_heads : 1;
        if (s.ndim() < least || s.ndim() > least + 1)
            fail("scan: inputs: ", a.name, " is ", s.text(), ", expected ",
                 has_heads_ ? "[batch, heads, N, d] or [batch, heads, N], as another input has batch and heads"
                            : "[N, d] or [N]");
    }
    const auto longest = [&](int dim) {
        Index n = 1;
        for (const Named& a : inputs_) {
            const Index here = a.tensor.shape()[dim];
            if (here != 1 && (n == 1 || here == 0)) n = here;
        }
        return n;
    };
    if (!has_heads_) {
        tokens_ = longest(0);
        return;
    }
    batch_ = longest(0);
    heads_ = longest(options_.tokens_first ? 2 : 1);
    tokens_ = longest(options_.tokens_first ? 1 : 2);
}

void Scan::check_input(const Named& a) {
    const auto check = [&](int dim, const char* what, Index expected) {
        const Index got = a.tensor.shape()[dim];
        if (got != expected && got != 1)
            fail("scan: inputs: ", a.name, " is ", a.tensor.shape().text(), ", with ", got, " ", what, ", expected ",
                 expected, " as in another input, or 1, which is repeated");
    };
    if (has_heads_) {
        check(0, "batches", batch_);
        check(options_.tokens_first ? 2 : 1, "heads", heads_);
        check(options_.tokens_first ? 1 : 2, "tokens", tokens_);
    } else {
        check(0, "tokens", tokens_);
    }
}

void Scan::check_state(const Named& a) {
    const Shape& s = a.tensor.shape();
    if (a.is_number) return;
    if (has_heads_ && (s.ndim() < 2 || (s[0] != batch_ && s[0] != 1) || (s[1] != heads_ && s[1] != 1)))
        fail("scan: state: ", named(a.name, " is "), s.text(), ", expected a number or [", batch_, ", ", heads_,
             ", ...], or 1 for either, which is repeated");
    if (!has_heads_ && s.ndim() > 2)
        fail("scan: state: ", named(a.name, " is "), s.text(),
             ", expected at most 2 dimensions: the inputs have no batch and heads");
}

// The part of an input that a token brings.
Shape Scan::value_of_input(const Tensor& a) const {
    const int leading = has_heads_ ? with_heads : 1;
    return a.ndim() > leading ? Shape{a.shape().back()} : Shape{};
}

// The shape of a tensor of such values for every head and, with_tokens, every token.
Shape Scan::full(const Shape& value, bool with_tokens) const {
    Shape out;
    if (has_heads_) {
        out.push_back(batch_);
        if (with_tokens && options_.tokens_first) out.push_back(tokens_);
        out.push_back(heads_);
    }
    if (with_tokens && !(has_heads_ && options_.tokens_first)) out.push_back(tokens_);
    for (int i = 0; i < value.ndim(); ++i) out.push_back(value[i]);
    return out;
}

Scan::Steps Scan::steps(const Shape& given, bool with_tokens) const {
    Index step = 1;
    for (int i = has_heads_ ? (with_tokens ? 3 : 2) : (with_tokens ? 1 : 0); i < given.ndim(); ++i) step *= given[i];
    const auto over = [&](int dim) {
        const Index out = given[dim] == 1 ? 0 : step;
        step *= given[dim];
        return out;
    };
    Steps out;
    if (with_tokens && !has_heads_) out.token = over(0);
    if (!has_heads_) return out;
    if (with_tokens && !options_.tokens_first) out.token = over(2);
    out.head = over(with_tokens && options_.tokens_first ? 2 : 1);
    if (with_tokens && options_.tokens_first) out.token = over(1);
    out.batch = over(0);
    return out;
}

Scan::Result Scan::run(const std::vector<NewValue>& outputs, const std::vector<Id>& states) {
    const int room = has_heads_ ? 1 : 2;  // dimensions of an output
    std::vector<Id> output_ids;
    for (const NewValue& o : outputs) {
        if (program.shape(o.value).ndim() > room)
            fail("scan: step: the output ", named(o.name, " "), "is ", program.shape(o.value).text(),
                 ", expected a number or a vector; A:reshape(-1) makes it one");
        output_ids.push_back(o.value);
    }
    for (std::size_t i = 0; i < states.size(); ++i) {
        const Shape &before = program.shape(state(i)), &after = program.shape(states[i]);
        if (before != after)
            fail("scan: step: the new state ", named(states_[i].name, " "), "is ",
                 after.ndim() ? after.text() : "a number", ", expected ", before.ndim() ? before.text() : "a number",
                 " as before; a step returns the output first, then the state");
    }
    // A state that becomes another state, or an input, is copied where neither is overwritten before it is read.
    std::vector<Id> copied = states;
    for (std::size_t i = 0; i < copied.size(); ++i) {
        Id origin = copied[i];
        while (program[origin].kind == Kind::reshape) origin = program[origin].a;
        if (program[origin].kind == Kind::state && origin != state(i))
            copied[i] = program.clamp(copied[i], -std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::infinity());
    }
    const Code code = compile(program, std::move(output_ids), std::move(copied));
    Problem p{code, type_, options_.reverse, batch_, heads_, tokens_, {}, {}, {}, {}};
    for (const Named& a : inputs_) p.inputs.push_back({a.tensor.to(type_), steps(a.tensor.shape(), true)});
    for (const Named& a : states_)
        p.initial.push_back({a.tensor.to(type_), a.is_number ? Steps{} : steps(a.tensor.shape(), false)});
    Result result;
    for (const NewValue& o : outputs) {
        result.outputs.emplace_back(type_, full(program.shape(o.value), true));
        p.outputs.push_back({result.outputs.back(), steps(result.outputs.back().shape(), true)});
    }
    for (std::size_t i = 0; i < states.size(); ++i) {
        result.states.emplace_back(type_, full(program.shape(state(i)), false));
        p.final.push_back({result.states.back(), steps(result.states.back().shape(), false)});
    }
    scan::run(p);
    return result;
}

}  // namespace causeway::scan
