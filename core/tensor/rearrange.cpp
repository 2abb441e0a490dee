#include "core/tensor/rearrange.hpp"

#include <algorithm>

#include "core/tensor/elementwise.hpp"  // broadcast
#include "core/tensor/visit.hpp"
#include "core/tensor/walk.hpp"

namespace causeway {
namespace {

using Strides = std::array<Index, Shape::max_ndim>;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// to[...] = from[...] over `shape`, each side with its strides.
template <class T>
void copy_strided(const Shape& shape, T* to, const Strides& to_strides, const T* from, const Strides& from_strides) {
    const Walk<2> walk(shape, {to_strides, from_strides});
    const Index to_step = walk.step(0), from_step = walk.step(1);
    walk.run([=](const auto& offsets, Index, Index n) {
        T* y = to + offsets[0];
        const T* x = from + offsets[1];
        if (to_step == 1 && from_step == 1) {
            std::copy_n(x, n, y);
        } else {
            for (Index i = 0; i < n; ++i) y[i * to_step] = x[i * from_step];
        }
    });
}

// to[o, j, i] = from[o, i, j] for matrices of rows × columns in `from`, tile by tile so that both sides stay in cache.
template <class T>
void transpose_matrices(Index outer, Index rows, Index columns, T* to, const T* from) {
    constexpr Index tile = 32;
    const Index row_tiles = (rows + tile - 1) / tile;
    parallel_for(outer * row_tiles, [=](Index t) {
        const Index begin = t % row_tiles * tile, end = std::min(rows, begin + tile);
        const T* x = from + t / row_tiles * rows * columns;
        T* y = to + t / row_tiles * rows * columns;
        for (Index c = 0; c < columns; c += tile) {
            for (Index j = c; j < std::min(columns, c + tile); ++j) {
                for (Index i = begin; i < end; ++i) y[j * rows + i] = x[i * columns + j];
            }
        }
    });
}

Index offset_of(const Tensor& a, const Box& box) {
    const Strides strides = contiguous_strides(a.shape());
    Index offset = 0;
    for (int i = 0; i < a.ndim(); ++i) offset += box.first[at(i)] * strides[at(i)];
    return offset;
}

// Shape of the box with its dropped dimensions kept, as length 1.
Shape full_shape(const Tensor& a, const Box& box) {
    Shape shape;
    for (int i = 0; i < a.ndim(); ++i) shape.push_back(box.count[at(i)]);
    return shape;
}

}  // namespace

Tensor permute(const Tensor& a, const std::vector<int>& order) {
    Shape shape;
    Strides strides{};
    const Strides own = contiguous_strides(a.shape());
    for (int i = 0; i < a.ndim(); ++i) {
        shape.push_back(a.shape()[order[at(i)]]);
        strides[at(i)] = own[at(order[at(i)])];
    }
    Tensor out(a.dtype(), shape);
    if (out.size() == 0) return out;
    visit(a.dtype(), [&](auto zero) {
        using T = decltype(zero);
        copy_strided(shape, out.data<T>(), contiguous_strides(shape), a.data<T>(), strides);
    });
    return out;
}

Tensor transpose(const Tensor& a) {
    const int n = a.ndim();
    if (n < 2) fail("t: a ", a.summary(), " has no last two dimensions to swap");
    Shape shape = a.shape();
    std::swap(shape[n - 1], shape[n - 2]);
    Tensor out(a.dtype(), shape);
    if (out.size() == 0) return out;
    const Index rows = a.shape().back(1), columns = a.shape().back();
    visit(a.dtype(), [&](auto zero) {
        using T = decltype(zero);
        transpose_matrices(a.size() / (rows * columns), rows, columns, out.data<T>(), a.data<T>());
    });
    return out;
}

Tensor diag(const Tensor& a) {
    if (a.ndim() != 1 && a.ndim() != 2) fail("diag: expected a vector or a matrix, got a ", a.summary());
    const bool makes_matrix = a.ndim() == 1;
    const Index n = makes_matrix ? a.size() : std::min(a.shape()[0], a.shape()[1]);
    Tensor out = Tensor::zeros(a.dtype(), makes_matrix ? Shape{n, n} : Shape{n});
    visit(a.dtype(), [&](auto zero) {
        using T = decltype(zero);
        const Index from = makes_matrix ? 1 : a.shape()[1] + 1, into = makes_matrix ? n + 1 : 1;
        for (Index i = 0; i < n; ++i) out.data<T>()[i * into] = a.data<T>()[i * from];
    });
    return out;
}

Tensor concatenate(const std::vector<Tensor>& parts, int dim) {
    if (parts.empty()) fail("cat: expected at least one Tensor");
    Shape shape = parts.front().shape();
    if (dim < 0 || dim >= shape.ndim()) fail("cat: dim: ", dim + 1, ", expected a number from 1 to ", shape.ndim());
    DType type = parts.front().dtype();
    for (std::size_t k = 1; k < parts.size(); ++k) {
        const Shape& other = parts[k].shape();
        for (int i = 0; i < std::max(shape.ndim(), other.ndim()); ++i) {
            if (shape.ndim() != other.ndim() || (i != dim && shape[i] != other[i])) {
                fail("cat: argument ", k + 1, " is ", other.text(), " and the first ", parts.front().shape().text(),
                     ", expected the same but for dimension ", dim + 1);
            }
        }
        shape[dim] += other[dim];
        if (parts[k].dtype() != type) type = promote(type, parts[k].dtype());
    }
    Tensor out(type, shape);
    Box box;
    for (int i = 0; i < shape.ndim(); ++i) box.count[at(i)] = shape[i];
    for (const Tensor& piece : parts) {
        box.count[at(dim)] = piece.shape()[dim];
        assign(out, box, piece);
        box.first[at(dim)] += piece.shape()[dim];
    }
    return out;
}

Shape part_shape(const Tensor& a, const Box& box) {
    Shape shape;
    for (int i = 0; i < a.ndim(); ++i) {
        if (!box.drop[at(i)]) shape.push_back(box.count[at(i)]);
    }
    return shape;
}

Tensor part(const Tensor& a, const Box& box) {
    Tensor out(a.dtype(), part_shape(a, box));
    if (out.size() == 0) return out;
    const Shape full = full_shape(a, box);
    visit(a.dtype(), [&](auto zero) {
        using T = decltype(zero);
        copy_strided(full, out.data<T>(), contiguous_strides(full), a.data<T>() + offset_of(a, box),
                     contiguous_strides(a.shape()));
    });
    return out;
}

void assign(Tensor& a, const Box& box, const Tensor& value) {
    const Shape target = part_shape(a, box);
    bool fits = value.ndim() <= target.ndim();
    for (int i = 0; fits && i < value.ndim(); ++i)
        fits = value.shape().back(i) == target.back(i) || value.shape().back(i) == 1;
    if (!fits) fail("set: value: shape ", value.shape().text(), " does not fit the part of shape ", target.text());
    if (target.size() == 0) return;
    const Tensor converted = value.to(a.dtype());
    // The strides of the part's dimensions; dropped ones hold a single element and need none.
    Strides strides{};
    const Strides own = contiguous_strides(a.shape());
    int kept = 0;
    for (int i = 0; i < a.ndim(); ++i) {
        if (!box.drop[at(i)]) strides[at(kept++)] = own[at(i)];
    }
    visit(a.dtype(), [&](auto zero) {
        using T = decltype(zero);
        copy_strided(target, a.data<T>() + offset_of(a, box), strides, converted.data<T>(),
                     broadcast_strides(value.shape(), target));
    });
}

bool identical(const Tensor& a, const Tensor& b) {
    if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
    return visit(a.dtype(), [&](auto zero) {
        using T = decltype(zero);
        return std::equal(a.data<T>(), a.data<T>() + a.size(), b.data<T>());
    });
}

}  // namespace causeway
