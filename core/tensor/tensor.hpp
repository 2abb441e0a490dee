// Dense tensors: up to four dimensions [batch, heads, length, width], row-major and contiguous (width fastest).
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/memory.hpp"

// Defined in <Eigen/Core>, which takes a third of the time to compile a small CUDA source; who makes numbers of these
// types includes it, as core/tensor/visit.hpp does.
namespace Eigen {
struct half;
struct bfloat16;
}  // namespace Eigen

namespace causeway {

using half = Eigen::half;
using bfloat16 = Eigen::bfloat16;

// Float32 and Float64 compute; Float16 and BFloat16 store: arithmetic on them is done in Float32.
enum class DType { f32, f64, f16, bf16 };

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<half> = DType::f16;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bf16;

const char* name(DType) noexcept;     // "Float32", "Float64", "Float16", "BFloat16"
std::size_t size_of(DType) noexcept;  // bytes of one element
inline bool is_storage_only(DType t) { return t == DType::f16 || t == DType::bf16; }

class Shape {  // up to four lengths
public:
    static constexpr int max_ndim = 4;

    Shape() = default;
    Shape(std::initializer_list<Index> dims);
    void push_back(Index n);  // throws Error past four dimensions or for n < 0

    int ndim() const { return ndim_; }
    Index operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
    Index& operator[](int i) { return dims_[static_cast<std::size_t>(i)]; }
    Index back(int i = 0) const { return dims_[static_cast<std::size_t>(ndim_ - 1 - i)]; }  // i-th from the right
    // Number of elements; 1 without dimensions. Throws where it is 2^59 or more, or would be with 1 for a dimension of
    // 0: strides are products of the others.
    Index size() const {
        Index n = 1;
        bool is_empty = false, fits = true;
        for (int i = 0; i < ndim_; ++i) {
            const Index dim = (*this)[i];
            is_empty = is_empty || dim == 0;
            fits = fits && !__builtin_mul_overflow(n, dim > 1 ? dim : 1, &n) && n < Index{1} << 59;
        }
        if (!fits) refuse_size(is_empty);
        return is_empty ? 0 : n;
    }
    std::string text() const;  // "2×3"
    bool operator==(const Shape& other) const;
    bool operator!=(const Shape& other) const { return !(*this == other); }

private:
    [[noreturn]] void refuse_size(bool is_empty) const;

    std::array<Index, max_ndim> dims_{};
    int ndim_ = 0;
};

// A handle: copies share the elements, copy() does not.
class Tensor {
public:
    Tensor() : Tensor(DType::f32, Shape{0}) {}
    Tensor(DType, const Shape&);  // elements not set; throws OutOfMemory
    static Tensor zeros(DType, const Shape&);
    static Tensor full(DType, const Shape&, double value);
    // Of elements that are somebody else's: aligned as their type is, and there until the last handle is gone.
    static Tensor view(DType, const Shape&, void* elements);
    bool is_view() const { return elements_.use_count() == 0; }  // without elements of its own
    // Type and shape alone, for checks: it has no elements, and must not be asked for them.
    static Tensor shaped(DType, const Shape&);

    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    int ndim() const { return shape_.ndim(); }
    Index size() const { return shape_.size(); }
    std::size_t bytes() const { return static_cast<std::size_t>(size()) * size_of(dtype_); }

    // Elements as T; T must be the element type (asserted in debug builds).
    template <class T>
    T* data() {
        return reinterpret_cast<T*>(raw());
    }
    template <class T>
    const T* data() const {
        return reinterpret_cast<const T*>(raw());
    }
    unsigned char* raw() { return elements_.get(); }
    const unsigned char* raw() const { return elements_.get(); }

    double get(Index flat) const;  // element by flat position, as double
    void set(Index flat, double value);

    Tensor copy() const;
    Tensor to(DType) const;              // converted; shares the elements if the type is the same
    Tensor reshape(const Shape&) const;  // shares the elements; throws Error if the sizes differ

    std::string summary() const;  // "2×3 Tensor{Float32}"

private:
    Tensor(DType, const Shape&, std::shared_ptr<unsigned char> elements) noexcept;

    std::shared_ptr<unsigned char> elements_;  // the first one; what is kept alive is the buffer around it
    DType dtype_;
    Shape shape_;
};

}  // namespace causeway
