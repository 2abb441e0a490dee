#include "core/c/arrays.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/base/parallel.hpp"

namespace causeway::c {
namespace {

static_assert(CAUSEWAY_MAX_DIMENSIONS == Shape::max_ndim);

DType type_of(const char* name, const causeway_tensor& array) {
    switch (array.type) {
        case CAUSEWAY_FLOAT32: return DType::f32;
        case CAUSEWAY_FLOAT64: return DType::f64;
        case CAUSEWAY_FLOAT16: return DType::f16;
        case CAUSEWAY_BFLOAT16: return DType::bf16;
        default: fail(name, ": type ", array.type, ", expected CAUSEWAY_FLOAT32, FLOAT64, FLOAT16 or BFLOAT16");
    }
}

std::int32_t number_of(DType type) {
    switch (type) {
        case DType::f64: return CAUSEWAY_FLOAT64;
        case DType::f16: return CAUSEWAY_FLOAT16;
        case DType::bf16: return CAUSEWAY_BFLOAT16;
        default: return CAUSEWAY_FLOAT32;
    }
}

Shape shape_of(const char* name, const causeway_tensor& array) {
    if (array.ndim < 0 || array.ndim > CAUSEWAY_MAX_DIMENSIONS)
        fail(name, ": ndim ", array.ndim, ", expected 0 to ", int{CAUSEWAY_MAX_DIMENSIONS});
    Shape shape;
    for (int i = 0; i < array.ndim; ++i) {
        if (array.shape[i] < 0) fail(name, ": shape[", i, "] is ", array.shape[i], ", expected 0 or more");
        shape.push_back(array.shape[i]);
    }
    return shape;
}

void check_data(const char* name, const causeway_tensor& array, const Shape& shape) {
    if (!array.data && shape.size() > 0) fail(name, ": data is NULL, expected ", shape.text(), " elements");
}

// Rows of the last dimension.
Index rows_of(const causeway_tensor& array) {
    Index rows = 1;
    for (int i = 0; i + 1 < array.ndim; ++i) rows *= array.shape[i];
    return rows;
}

// Where row r begins, in elements.
Index place_of(const causeway_tensor& array, Index r) {
    Index offset = 0;
    for (int i = array.ndim - 2; i >= 0; --i) {
        offset += r % array.shape[i] * array.strides[i];
        r /= array.shape[i];
    }
    return offset;
}

// Copies n elements between places so many bytes apart; an array may lie at any address.
void copy_row(unsigned char* to, Index to_step, const unsigned char* from, Index from_step, Index n, Index element) {
    if (to_step == element && from_step == element) {
        std::memcpy(to, from, static_cast<std::size_t>(n * element));
        return;
    }
    for (Index i = 0; i < n; ++i, to += to_step, from += from_step)
        std::memcpy(to, from, static_cast<std::size_t>(element));
}

// Spread over threads; what is written out is not, so that it cannot fail.
Tensor copied(const causeway_tensor& array, DType type, const Shape& shape) {
    Tensor out(type, shape);
    if (shape.size() == 0) return out;
    const auto element = static_cast<Index>(size_of(type));
    const auto* const data = static_cast<const unsigned char*>(array.data);
    if (array.ndim == 0) {
        std::memcpy(out.raw(), data, out.bytes());
        return out;
    }
    constexpr Index piece = 1 << 10;
    const Index rows = rows_of(array), n = array.shape[array.ndim - 1], step = array.strides[array.ndim - 1] * element;
    parallel_for((rows + piece - 1) / piece, [&](Index p) {
        for (Index r = p * piece; r < std::min(rows, (p + 1) * piece); ++r)
            copy_row(out.raw() + r * n * element, element, data + place_of(array, r) * element, step, n, element);
    });
    return out;
}

}  // namespace

bool is_contiguous(const causeway_tensor& array) {
    Index stride = 1;
    for (int i = array.ndim - 1; i >= 0; --i) {
        if (array.shape[i] != 1 && array.strides[i] != stride) return false;
        stride *= array.shape[i];
    }
    return reinterpret_cast<std::uintptr_t>(array.data) % size_of(type_of("array", array)) == 0;
}

Tensor form_of(const char* name, const causeway_tensor& array) {
    const DType type = type_of(name, array);
    const Shape shape = shape_of(name, array);
    check_data(name, array, shape);
    return Tensor::shaped(type, shape);
}

causeway_tensor array_of(DType type, const Shape& shape, void* data, Owned* owner) {
    std::int64_t lengths[CAUSEWAY_MAX_DIMENSIONS] = {};
    for (int i = 0; i < shape.ndim(); ++i) lengths[i] = shape[i];
    causeway_tensor array = causeway_contiguous(data, number_of(type), shape.ndim(), lengths);
    array.owner = owner;
    return array;
}

Tensor read(const char* name, const causeway_tensor* array) {
    if (!array) fail(name, ": NULL, expected a tensor");
    const Tensor form = form_of(name, *array);
    if (form.size() > 0 && is_contiguous(*array)) return Tensor::view(form.dtype(), form.shape(), array->data);
    return copied(*array, form.dtype(), form.shape());
}

std::optional<Tensor> read_optional(const char* name, const causeway_tensor* array) {
    if (!array) return {};
    return read(name, array);
}

void write(const Tensor& A, const causeway_tensor& array) noexcept {
    if (A.size() == 0) return;
    const auto element = static_cast<Index>(size_of(A.dtype()));
    auto* const data = static_cast<unsigned char*>(array.data);
    if (array.ndim == 0) {
        std::memcpy(data, A.raw(), A.bytes());
        return;
    }
    const Index n = array.shape[array.ndim - 1], step = array.strides[array.ndim - 1] * element;
    for (Index r = 0; r < rows_of(array); ++r)
        copy_row(data + place_of(array, r) * element, step, A.raw() + r * n * element, element, n, element);
}

void check_places(const char* name, const causeway_tensor& array) {
    for (int i = 0; i < array.ndim; ++i)
        if (array.shape[i] > 1 && array.strides[i] == 0)
            fail(name, ": strides[", i, "] is 0 where shape[", i, "] is ", array.shape[i],
                 ", expected a place for each element that is written");
}

void check_output(const char* name, const Tensor& form, const causeway_tensor* array) {
    if (!array || !array->data) return;
    const DType type = type_of(name, *array);
    const Shape shape = shape_of(name, *array);
    if (shape != form.shape()) fail(name, ": ", shape.text(), ", expected ", form.shape().text());
    if (type != form.dtype()) fail(name, ": ", causeway::name(type), ", expected ", causeway::name(form.dtype()));
    check_places(name, *array);
}

void Outputs::add(const char* name, const Tensor& result, causeway_tensor* array) {
    if (!array) return;
    check_output(name, result, array);
    // What the library hands out must not end with the caller's inputs.
    outputs_.push_back({std::make_unique<Result>(!array->data && result.is_view() ? result.copy() : result), array});
}

void Outputs::add(const char* name, const std::optional<Tensor>& result, causeway_tensor* array) {
    if (!array) return;
    if (!result) fail(name, ": wanted, but this call has none");
    add(name, *result, array);
}

void Outputs::deliver() noexcept {
    for (Output& output : outputs_) {
        Tensor& result = output.result->tensor;
        if (output.array->data) write(result, *output.array);
        else *output.array = array_of(result.dtype(), result.shape(), result.raw(), output.result.release());
    }
}

}  // namespace causeway::c

void causeway_release(causeway_tensor* tensor) {
    if (!tensor || !tensor->owner) return;
    delete static_cast<causeway::c::Owned*>(tensor->owner);
    tensor->owner = nullptr;
    tensor->data = nullptr;
}
