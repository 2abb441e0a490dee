#include "core/tensor/tensor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/parallel.hpp"
#include "core/base/pieces.hpp"
#include "core/tensor/visit.hpp"

namespace causeway {

namespace {

// x as an element of type T, rounded once: from Float64 to 16 bits by way of the Float32 towards zero, odd where
// something was cut off.
template <class T, class F>
T rounded(F x) {
    if constexpr (std::is_same_v<F, double> && sizeof(T) == 2) {
        float y = static_cast<float>(x);
        if (static_cast<double>(y) != x && !std::isnan(x)) {
            if (std::abs(static_cast<double>(y)) > std::abs(x)) y = std::nextafter(y, 0.0f);
            y = std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) | 1);
        }
        return static_cast<T>(y);
    } else {
        return static_cast<T>(x);
    }
}

}  // namespace

const char* name(DType t) noexcept {
    switch (t) {
        case DType::f64: return "Float64";
        case DType::f16: return "Float16";
        case DType::bf16: return "BFloat16";
        default: return "Float32";
    }
}

std::size_t size_of(DType t) noexcept {
    return visit(t, [](auto zero) { return sizeof zero; });
}

Shape::Shape(std::initializer_list<Index> dims) {
    for (Index n : dims) push_back(n);
}

void Shape::push_back(Index n) {
    if (ndim_ == max_ndim) fail("a tensor has at most ", max_ndim, " dimensions");
    if (n < 0) fail("a dimension of ", n, ", expected 0 or more");
    dims_[static_cast<std::size_t>(ndim_++)] = n;
}

void Shape::refuse_size(bool is_empty) const {
    if (is_empty)
        fail("a tensor of ", text(), ": has no elements, but its other dimensions have a product beyond 2^59");
    throw OutOfMemory(sentence("out of memory: a tensor of ", text(), " is too large"));
}

std::string Shape::text() const {
    if (ndim_ == 0) return "0-dimensional";
    std::string out = std::to_string((*this)[0]);
    for (int i = 1; i < ndim_; ++i) out += "×" + std::to_string((*this)[i]);
    return out;
}

bool Shape::operator==(const Shape& other) const {
    return ndim_ == other.ndim_ && std::equal(dims_.begin(), dims_.begin() + ndim_, other.dims_.begin());
}

Tensor::Tensor(DType type, const Shape& shape) : dtype_(type), shape_(shape) {
    const auto buffer = std::make_shared<Buffer<unsigned char>>(shape.size() * static_cast<Index>(size_of(type)));
    elements_ = {buffer, buffer->data()};
}

Tensor Tensor::zeros(DType type, const Shape& shape) {
    Tensor out(type, shape);
    // All-zero bytes are 0.0 in every element type.
    in_pieces(static_cast<Index>(out.bytes()), [&](Index first, Index last) {
        std::memset(static_cast<unsigned char*>(out.raw()) + first, 0, static_cast<std::size_t>(last - first));
    });
    return out;
}

Tensor::Tensor(DType type, const Shape& shape, std::shared_ptr<unsigned char> elements) noexcept
    : elements_(std::move(elements)), dtype_(type), shape_(shape) {}

Tensor Tensor::shaped(DType type, const Shape& shape) { return {type, shape, nullptr}; }

Tensor Tensor::view(DType type, const Shape& shape, void* elements) {
    Tensor out = shaped(type, shape);
    out.elements_ = {std::shared_ptr<void>(), static_cast<unsigned char*>(elements)};
    return out;
}

Tensor Tensor::full(DType type, const Shape& shape, double value) {
    Tensor out(type, shape);
    visit(type, [&](auto zero) {
        using T = decltype(zero);
        in_pieces(out.size(), [&](Index first, Index last) {
            std::fill(out.data<T>() + first, out.data<T>() + last, rounded<T>(value));
        });
    });
    return out;
}

double Tensor::get(Index flat) const {
    return visit(dtype_, [&](auto zero) { return static_cast<double>(data<decltype(zero)>()[flat]); });
}

void Tensor::set(Index flat, double value) {
    visit(dtype_, [&](auto zero) { data<decltype(zero)>()[flat] = rounded<decltype(zero)>(value); });
}

Tensor Tensor::copy() const {
    Tensor out(dtype_, shape_);
    std::memcpy(out.raw(), raw(), bytes());
    return out;
}

Tensor Tensor::to(DType type) const {
    if (type == dtype_) return *this;
    Tensor out(type, shape_);
    constexpr Index piece = 1 << 16;
    visit(dtype_, [&](auto from) {
        visit(type, [&](auto into) {
            const auto* x = data<decltype(from)>();
            auto* y = out.data<decltype(into)>();
            const Index n = size();
            parallel_for((n + piece - 1) / piece, [&](Index p) {
                for (Index i = p * piece; i < std::min(n, (p + 1) * piece); ++i) y[i] = rounded<decltype(into)>(x[i]);
            });
        });
    });
    return out;
}

Tensor Tensor::reshape(const Shape& shape) const {
    if (shape.size() != size())
        fail("reshape: ", shape_.text(), " has ", size(), " elements, the new shape ", shape.text(), " has ",
             shape.size());
    Tensor out(*this);
    out.shape_ = shape;
    return out;
}

std::string Tensor::summary() const {
    return shape_.text() + (ndim() == 1 ? "-element" : "") + " Tensor{" + name(dtype_) + "}";
}

}  // namespace causeway
