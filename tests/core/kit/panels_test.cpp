// Packing into panels, transposing them, and the tiles of rows that go over them.
#include "core/kit/panels.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace causeway;

namespace {

template <class T>
constexpr Index W = kit::panel_width<T>;

// Entry (i, j) of a matrix in panels [panel][rows][W].
template <class T>
T in_panels(const std::vector<T>& panels, Index rows, Index i, Index j) {
    return panels[static_cast<std::size_t>(j / W<T> * W<T> * rows + i * W<T> + j % W<T>)];
}

template <class T>
std::vector<T> numbered(Index n) {
    std::vector<T> x(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = static_cast<T>(i + 1);
    return x;
}

template <class T>
std::vector<T> room(Index rows, Index columns) {
    return std::vector<T>(static_cast<std::size_t>(kit::panels<T>(columns) * W<T> * rows), T(NAN));
}

template <class T>
void check_packing(Index n, Index d) {
    CAPTURE(n, d, sizeof(T));
    const Index stride = d + 3, c = n + 2;
    const auto from = numbered<T>(n * stride);
    auto rows = room<T>(c, d);
    kit::pack_rows(from.data(), n, d, stride, rows.data(), c);
    auto wrong = Index{0};
    for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < d; ++j)
            wrong += in_panels(rows, c, i, j) != from[static_cast<std::size_t>(i * stride + j)];
    CHECK(wrong == 0);

    const auto dense = numbered<T>(n * d);
    auto transposed = room<T>(d, n);
    kit::pack_transposed(dense.data(), n, d, transposed.data());
    wrong = 0;
    for (Index e = 0; e < d; ++e)
        for (Index j = 0; j < simd::padded<T>(n); ++j)
            wrong += in_panels(transposed, d, e, j) != (j < n ? dense[static_cast<std::size_t>(j * d + e)] : T(0));
    CHECK(wrong == 0);

    auto panels = room<T>(n, d);
    std::fill(panels.begin(), panels.end(), T(0));
    kit::pack_rows(dense.data(), n, d, d, panels.data(), n);
    const Index stride_back = simd::padded<T>(d);
    auto back = room<T>(stride_back, n);
    kit::transpose_panels(panels.data(), n, d, back.data(), stride_back);
    wrong = 0;
    for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < d; ++j)
            wrong += in_panels(back, stride_back, j, i) != dense[static_cast<std::size_t>(i * d + j)];
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("panels hold every entry where it belongs", "[kit]") {
    for (Index n : {1, 2, 7, 16, 33, 64})
        for (Index d : {1, 3, 8, 17, 64, 65, 130}) {
            check_packing<float>(n, d);
            check_packing<double>(n, d);
        }
}

TEST_CASE("tiles of rows cover all rows once, forward and in reverse", "[kit]") {
    for (Index n = 0; n < 40; ++n) {
        std::vector<int> seen(static_cast<std::size_t>(n)), reversed(seen);
        Index next = 0, end = n;
        kit::each_row_tile(n, [&](auto rows, Index first) {
            CHECK(first == next);
            next = first + rows;
            for (Index i = first; i < next; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        kit::each_row_tile_reversed(n, [&](auto rows, Index first) {
            CHECK(first + rows == end);
            end = first;
            for (Index i = first; i < first + rows; ++i) ++reversed[static_cast<std::size_t>(i)];
        });
        CHECK(seen == std::vector<int>(static_cast<std::size_t>(n), 1));
        CHECK(reversed == seen);
    }
}
