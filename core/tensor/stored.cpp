#include "core/tensor/stored.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

namespace causeway {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian unless they say otherwise, and so is memory here");

// Calls f with a value of the integer type that an integer of the file has, or, for floating point (bits that pass
// unchanged), of the unsigned type of its width.
template <class F>
decltype(auto) visit_stored(Stored t, F&& f) {
    switch (t) {
        case Stored::boolean:
        case Stored::u8: return f(std::uint8_t{});
        case Stored::i8: return f(std::int8_t{});
        case Stored::i16: return f(std::int16_t{});
        case Stored::i32: return f(std::int32_t{});
        case Stored::i64: return f(std::int64_t{});
        case Stored::u16:
        case Stored::f16:
        case Stored::bf16: return f(std::uint16_t{});
        case Stored::f64:
        case Stored::u64: return f(std::uint64_t{});
        default: return f(std::uint32_t{});
    }
}

bool is_floating(Stored t) { return t == Stored::f16 || t == Stored::bf16 || t == Stored::f32 || t == Stored::f64; }

template <class T>
T reversed(T x) {
    if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(x)));
    else if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(x)));
    else if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(x)));
    else return x;
}

// Whether Float64, with its 53 digits, holds x.
template <class T>
bool exact_in_f64(T x) {
    auto magnitude = static_cast<std::uint64_t>(x);
    if (x < 0) magnitude = 0 - magnitude;
    return magnitude == 0 || (magnitude >> std::countr_zero(magnitude)) < (std::uint64_t{1} << 53);
}

// Positions of a row-major array in the order of a column-major one.
class ColumnMajorWalk {
public:
    explicit ColumnMajorWalk(const Shape& shape) : shape_(shape) {
        Index stride = 1;
        for (int i = shape.ndim() - 1; i >= 0; --i) {
            strides_[static_cast<std::size_t>(i)] = stride;
            stride *= shape[i];
        }
    }

    Index next() {
        const Index here = position_;
        for (int i = 0; i < shape_.ndim(); ++i) {
            const auto k = static_cast<std::size_t>(i);
            position_ += strides_[k];
            if (++index_[k] < shape_[i]) break;
            position_ -= strides_[k] * shape_[i];
            index_[k] = 0;
        }
        return here;
    }

private:
    Shape shape_;
    std::array<Index, Shape::max_ndim> strides_{}, index_{};
    Index position_ = 0;
};

// Reads the elements a piece at a time as Raw, puts convert(x) where each belongs.
template <class Raw, class Into, class Convert>
void transfer(const Source& source, std::uint64_t offset, const Layout& layout, Tensor& out, Convert convert) {
    constexpr Index max_count = (Index{1} << 20) / static_cast<Index>(sizeof(Raw));
    const Index n = out.size();
    Buffer<unsigned char> raw(std::min(n, max_count) * static_cast<Index>(sizeof(Raw)));
    ColumnMajorWalk walk(layout.shape);
    for (Index begin = 0; begin < n; begin += max_count) {
        const Index count = std::min(max_count, n - begin);
        const auto bytes = static_cast<std::size_t>(count) * sizeof(Raw);
        source.read(offset + static_cast<std::uint64_t>(begin) * sizeof(Raw), {raw.data(), bytes});
        for (Index i = 0; i < count; ++i) {
            Raw x;
            std::memcpy(&x, raw.data() + static_cast<std::size_t>(i) * sizeof(Raw), sizeof x);
            if (layout.big_endian) x = reversed(x);
            const Into y = convert(x);
            const Index to = layout.column_major ? walk.next() : begin + i;
            std::memcpy(out.raw() + static_cast<std::size_t>(to) * sizeof y, &y, sizeof y);
        }
    }
}

std::string text_of(std::span<const std::uint64_t> dims) {
    if (dims.empty()) return "()";
    std::string out;
    for (std::uint64_t n : dims) out += (out.empty() ? "" : "×") + std::to_string(n);
    return out;
}

}  // namespace

std::size_t size_of(Stored t) noexcept {
    return visit_stored(t, [](auto zero) { return sizeof zero; });
}

DType dtype_of_stored(Stored t) noexcept {
    switch (t) {
        case Stored::f16: return DType::f16;
        case Stored::bf16: return DType::bf16;
        case Stored::f64: return DType::f64;
        case Stored::f32: return DType::f32;
        default: return size_of(t) <= 2 ? DType::f32 : DType::f64;
    }
}

Shape checked_shape(std::span<const std::uint64_t> dims, Stored stored, const std::string& type, std::uint64_t bytes,
                    const std::string& where) {
    if (dims.size() > Shape::max_ndim)
        fail_as<FitsNoTensor>(where, ": has ", dims.size(), " dimensions, expected at most ", Shape::max_ndim);
    const bool empty = std::find(dims.begin(), dims.end(), 0u) != dims.end();
    std::uint64_t need = empty ? 1 : size_of(stored);
    Shape shape;
    for (std::uint64_t n : dims) {
        // Where one is 0 the others must be possible all the same: a tensor has strides.
        const bool above = n > static_cast<std::uint64_t>(std::numeric_limits<Index>::max()) ||
                           __builtin_mul_overflow(need, std::max<std::uint64_t>(n, 1), &need);
        if (empty && (above || need > std::uint64_t{1} << 59))
            fail_as<IoError>(where, ": the shape ", text_of(dims),
                             " has no elements, but its other dimensions have a product beyond 2^59");
        if (above) fail_as<IoError>(where, ": the shape ", text_of(dims), " is larger than any file");
        shape.push_back(static_cast<Index>(n));
    }
    if (empty) need = 0;
    if (need != bytes)
        fail_as<IoError>(where, ": the shape ", text_of(dims), " of ", type, " needs ", need, " bytes of data, got ",
                         bytes);
    return shape;
}

Tensor read_elements(const Source& source, std::uint64_t offset, const Layout& layout, const std::string& where) {
    Tensor out(dtype_of_stored(layout.type), layout.shape);
    visit_stored(layout.type, [&](auto zero) {
        using Raw = decltype(zero);
        if (is_floating(layout.type)) {
            if (layout.big_endian || layout.column_major) {
                transfer<Raw, Raw>(source, offset, layout, out, [](Raw x) { return x; });
            } else {
                source.read(offset, {out.raw(), out.bytes()});
            }
        } else if (layout.type == Stored::boolean) {
            transfer<Raw, float>(source, offset, layout, out, [](Raw x) { return x != 0 ? 1.0f : 0.0f; });
        } else if constexpr (sizeof(Raw) <= 2) {
            transfer<Raw, float>(source, offset, layout, out, [](Raw x) { return static_cast<float>(x); });
        } else {
            transfer<Raw, double>(source, offset, layout, out, [&](Raw x) {
                if (!exact_in_f64(x))
                    fail_as<FitsNoTensor>(where, ": holds the integer ", x, ", which is not exact in Float64");
                return static_cast<double>(x);
            });
        }
    });
    return out;
}

}  // namespace causeway
