// What a step of a scan does, recorded: every value of one token of one head, as the operation that makes it.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "core/tensor/elementwise.hpp"
#include "core/tensor/reduce.hpp"

namespace causeway::scan {

using Id = int;  // a value, by its place among those recorded

enum class Kind {
    input,      // what the token brings
    state,      // what the token before it left
    constant,   // the same for all
    unary,      // element by element
    binary,     // element by element, broadcast
    clamp,      // element by element
    product,    // the matrix product
    transpose,  // of a matrix
    reshape,    // the same elements under another shape
    diagonal,   // the matrix with a vector on its diagonal
    reduce,     // all elements to one, or along a dimension
    dot,        // the sum of the products of all elements
    norm,       // the root of the sum of squares of all elements
    softmax     // over the last dimension
};

// A number (no dimension), a vector (one) or a matrix (two).
struct Value {
    Kind kind = Kind::constant;
    Shape shape;
    Id a = -1, b = -1;  // the operands
    int slot = -1;      // of an input or a state: its place among them
    Unary unary{};      // the operation, of its kind
    Binary binary{};
    Reduction reduction{};
    int dim = -1;                                      // of reduce: the dimension from 0, or -1 for all elements
    double low = 0, high = 0;                          // of clamp
    Tensor elements = Tensor::shaped(DType::f32, {});  // of a constant

    bool is_matrix() const { return shape.ndim() == 2 && shape[0] > 1 && shape[1] > 1; }
};

// Values with shapes that fit, each made of earlier ones. The functions record an operation and return its value; they
// mean what the functions of the same name do with tensors, on one token of one head. They throw Error when shapes do
// not fit, beyond two dimensions, and past the largest number of operations.
class Program {
public:
    static constexpr std::size_t max_values = 4096;

    Id input(const Shape& shape, int slot);
    Id state(const Shape& shape, int slot);
    Id constant(const Tensor& elements);  // up to two dimensions
    Id number(double value);

    Id apply(Unary op, Id a);
    Id apply(Binary op, Id a, Id b);
    Id clamp(Id a, double low, double high);
    // The product of matrices, of a matrix and a vector on either side, and with a number; that with diag(v) scales
    // rows or columns and makes no matrix.
    Id product(Id a, Id b);
    Id transpose(Id a);
    Id reshape(Id a, const Shape& shape);
    Id outer(Id a, Id b);  // of two vectors
    Id diagonal(Id a);     // of a vector
    Id reduce(Reduction op, Id a, std::optional<int> dim);
    Id dot(Id a, Id b);
    Id norm(Id a);
    Id softmax(Id a);

    const Value& operator[](Id id) const { return values_[static_cast<std::size_t>(id)]; }
    const Shape& shape(Id id) const { return (*this)[id].shape; }
    Id size() const { return static_cast<Id>(values_.size()); }

    // Recording has ended: what is added from now on is the compiler's, and not counted.
    void end_recording() { limit_ = std::numeric_limits<std::size_t>::max(); }

private:
    Id add(Value value);
    Id scaled(Id matrix, Id vector, bool rows);

    std::vector<Value> values_;
    std::size_t limit_ = max_values;
};

}  // namespace causeway::scan
