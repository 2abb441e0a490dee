#include "core/tensor/places.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/parallel.hpp"
#include "core/tensor/visit.hpp"

namespace causeway {
namespace {

// A tensor as [outer, n, inner], n the length of dimension `dim`.
struct Folded {
    Index outer = 1, n = 1;
    std::size_t inner_bytes;

    Folded(const Tensor& a, int dim) : n(a.shape()[dim]), inner_bytes(size_of(a.dtype())) {
        for (int i = 0; i < dim; ++i) outer *= a.shape()[i];
        for (int i = dim + 1; i < a.ndim(); ++i) inner_bytes *= static_cast<std::size_t>(a.shape()[i]);
    }

    std::size_t offset(Index o, Index i) const { return static_cast<std::size_t>(o * n + i) * inner_bytes; }
};

}  // namespace

Tensor take(const Tensor& a, int dim, const std::vector<Index>& places) {
    Shape shape = a.shape();
    shape[dim] = static_cast<Index>(places.size());
    Tensor out(a.dtype(), shape);
    if (out.size() == 0) return out;
    const Folded from(a, dim), into(out, dim);
    constexpr Index piece = 1 << 12;  // slices of a task
    const Index all = into.outer * into.n;
    parallel_for((all + piece - 1) / piece, [&](Index task) {
        for (Index i = task * piece; i < std::min(all, (task + 1) * piece); ++i) {
            const Index o = i / into.n, j = i % into.n;
            std::memcpy(out.raw() + into.offset(o, j), a.raw() + from.offset(o, places[static_cast<std::size_t>(j)]),
                        into.inner_bytes);
        }
    });
    return out;
}

void put(Tensor& a, int dim, const std::vector<Index>& places, const Tensor& slices) {
    if (slices.size() == 0) return;
    const Folded from(slices, dim), into(a, dim);
    parallel_for(from.outer, [&](Index o) {
        for (Index j = 0; j < from.n; ++j)
            std::memcpy(a.raw() + into.offset(o, places[static_cast<std::size_t>(j)]), slices.raw() + from.offset(o, j),
                        from.inner_bytes);
    });
}

void add_slices(Tensor& a, int dim, const std::vector<Index>& places, const Tensor& slices) {
    if (slices.size() == 0) return;
    const Folded from(slices, dim), into(a, dim);
    visit(a.dtype(), [&](auto zero) {
        using T = decltype(zero);
        const Index inner = slices.size() / (from.outer * from.n);
        parallel_for(from.outer, [&](Index o) {
            for (Index j = 0; j < from.n; ++j) {
                T* y = a.data<T>() + (o * into.n + places[static_cast<std::size_t>(j)]) * inner;
                const T* x = slices.data<T>() + (o * from.n + j) * inner;
                for (Index i = 0; i < inner; ++i) y[i] += x[i];
            }
        });
    });
}

}  // namespace causeway
