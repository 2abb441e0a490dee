#include "core/scan/program.hpp"

namespace causeway::scan {
namespace {

// The value of this kind made of `a`, in its shape.
Value of(Kind kind, Id a, const Shape& shape) {
    Value v;
    v.kind = kind;
    v.a = a;
    v.shape = shape;
    return v;
}

}  // namespace

Id Program::add(Value value) {
    if (values_.size() >= limit_) fail("scan: step: more than ", max_values, " operations");
    if (value.shape.ndim() > 2) fail("scan: step: a ", value.shape.text(), " value, expected at most 2 dimensions");
    values_.push_back(std::move(value));
    return size() - 1;
}

Id Program::input(const Shape& shape, int slot) {
    Value v = of(Kind::input, -1, shape);
    v.slot = slot;
    return add(std::move(v));
}

Id Program::state(const Shape& shape, int slot) {
    Value v = of(Kind::state, -1, shape);
    v.slot = slot;
    return add(std::move(v));
}

Id Program::constant(const Tensor& elements) {
    if (elements.ndim() > 2)
        fail("scan: step: a ", elements.summary(),
             " from outside, expected at most 2 dimensions: what differs between "
             "heads belongs into the inputs, with one token, [1, heads, 1, d]");
    Value v = of(Kind::constant, -1, elements.shape());
    v.elements = elements.copy();  // a later change in place must not reach into the recorded step
    return add(std::move(v));
}

Id Program::number(double value) { return constant(Tensor::full(DType::f64, Shape{}, value)); }

Id Program::apply(Unary op, Id a) {
    Value v = of(Kind::unary, a, shape(a));
    v.unary = op;
    return add(std::move(v));
}

Id Program::apply(Binary op, Id a, Id b) {
    Value v = of(Kind::binary, a, broadcast(shape(a), shape(b), name(op)));
    v.b = b;
    v.binary = op;
    return add(std::move(v));
}

Id Program::clamp(Id a, double low, double high) {
    if (!(low <= high)) fail("clamp: low is ", low, " and high is ", high, ", expected low <= high");
    Value v = of(Kind::clamp, a, shape(a));
    v.low = low;
    v.high = high;
    return add(std::move(v));
}

// times(matrix, vector), the vector along its rows or its columns.
Id Program::scaled(Id matrix, Id vector, bool rows) {
    const Id factors = rows && shape(matrix).ndim() == 2 ? reshape(vector, {shape(vector).size(), 1}) : vector;
    return apply(Binary::multiply, matrix, factors);
}

Id Program::product(Id a, Id b) {
    const Shape &left = shape(a), &right = shape(b);
    if (left.ndim() == 0 || right.ndim() == 0) return apply(Binary::multiply, a, b);
    const auto refuse = [&](const auto&... why) { fail("*: shapes ", left.text(), " and ", right.text(), why...); };
    if (left.ndim() == 1 && right.ndim() == 1)
        refuse(": a product of two vectors is dot(A, B), outer(A, B) or, element by element, times(A, B)");
    if (left.back() != right[0])
        refuse(" do not fit: a matrix product needs the columns of the left (", left.back(),
               ") to be the rows of the right (", right[0], ")");
    // A product with a transpose or a diagonal matrix needs no such matrix.
    const Value x = (*this)[a], y = (*this)[b];
    if (x.kind == Kind::diagonal) return scaled(b, x.a, true);
    if (y.kind == Kind::diagonal) return scaled(a, y.a, false);
    if (x.kind == Kind::transpose && y.shape.ndim() == 1) return product(b, x.a);
    if (y.kind == Kind::transpose && x.shape.ndim() == 1) return product(y.a, a);
    if (x.shape.ndim() == 2 && y.shape.ndim() == 2 && x.shape[1] == 1) return apply(Binary::multiply, a, b);
    Shape out;
    if (left.ndim() == 2) out.push_back(left[0]);
    if (right.ndim() == 2) out.push_back(right[1]);
    Value v = of(Kind::product, a, out);
    v.b = b;
    return add(std::move(v));
}

Id Program::transpose(Id a) {
    if (shape(a).ndim() != 2) fail("t: a value of shape ", shape(a).text(), " has no two dimensions to swap");
    if ((*this)[a].kind == Kind::transpose) return (*this)[a].a;
    return add(of(Kind::transpose, a, Shape{shape(a)[1], shape(a)[0]}));
}

Id Program::reshape(Id a, const Shape& to) {
    if (to.size() != shape(a).size())
        fail("reshape: ", shape(a).text(), " has ", shape(a).size(), " elements, the new shape ", to.text(), " has ",
             to.size());
    return add(of(Kind::reshape, a, to));
}

Id Program::outer(Id a, Id b) {
    for (const Id x : {a, b})
        if (shape(x).ndim() != 1)
            fail("outer: ", x == a ? "a" : "b", ": a value of shape ", shape(x).text(), ", expected a vector");
    return apply(Binary::multiply, reshape(a, {shape(a).size(), 1}), b);
}

Id Program::diagonal(Id a) {
    if (shape(a).ndim() != 1) fail("diag: a value of shape ", shape(a).text(), ", expected a vector");
    return add(of(Kind::diagonal, a, Shape{shape(a).size(), shape(a).size()}));
}

Id Program::reduce(Reduction op, Id a, std::optional<int> dim) {
    Shape out = dim ? shape(a) : Shape{};
    if (dim) out[*dim] = 1;
    const Index n = dim ? shape(a)[*dim] : shape(a).size();
    if (n == 0 && (op == Reduction::maximum || op == Reduction::minimum))
        fail(op == Reduction::maximum ? "maximum" : "minimum", " of a value of shape ", shape(a).text(),
             ": expected at least one element");
    Value v = of(Kind::reduce, a, out);
    v.reduction = op;
    v.dim = dim.value_or(-1);
    return add(std::move(v));
}

Id Program::dot(Id a, Id b) {
    if (shape(a) != shape(b))
        fail("dot: shapes ", shape(a).text(), " and ", shape(b).text(), ", expected two of the same shape");
    Value v = of(Kind::dot, a, {});
    v.b = b;
    return add(std::move(v));
}

Id Program::norm(Id a) { return add(of(Kind::norm, a, {})); }

Id Program::softmax(Id a) { return add(of(Kind::softmax, a, shape(a))); }

}  // namespace causeway::scan
