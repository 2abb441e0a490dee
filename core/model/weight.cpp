#include "core/model/weight.hpp"

#include <algorithm>
#include <memory>
#include <variant>
#include <vector>

#include "core/base/mapping.hpp"
#include "core/base/parallel.hpp"
#include "core/kit/panels.hpp"
#include "core/model/dot.hpp"
#include "core/model/integer_dot.hpp"
#include "core/model/quantised.hpp"

namespace causeway::model {
namespace {

// Bytes of weights that one task of a product with few rows reads.
constexpr Index task_bytes = Index{1} << 16;

// Up to so many rows of x are multiplied one by one with a row of weights, which then comes from the first-level cache.
constexpr Index most_single_rows = 6;

// A product of many rows: panels of W rows of weights by `depth` columns are unpacked, transposed and multiplied while
// they lie in the first-level cache (16 × 320 floats are 20 KiB), with blocks of rows of x that lie in the second.
constexpr Index W = kit::panel_width<float>, L = simd::lanes<float>;
constexpr Index most_depth = 320, most_panels = 8, rows_of_x = 96;

// n things in groups of at most `most`: how many to a group, so that every thread has as many groups.
Index group_size(Index n, Index most) {
    const Index round = most * threads(), groups = (n + round - 1) / round * threads();
    return (n + groups - 1) / groups;
}

// Calls f with the format of the type: f(DotQ4<true>{}).
template <class F>
decltype(auto) visit_format(WeightType type, F&& f) {
    switch (type) {
        case WeightType::f32: return f(DotF32{});
        case WeightType::f16: return f(DotF16{});
        case WeightType::bf16: return f(DotBF16{});
        case WeightType::q8_0: return f(DotQ8_0{});
        case WeightType::q4_0: return f(DotQ4<false>{});
        case WeightType::q4_1: return f(DotQ4<true>{});
        case WeightType::q4_k: return f(DotQ45K<false>{});
        case WeightType::q5_k: return f(DotQ45K<true>{});
        default: return f(DotQ6K{});
    }
}

// A row of x as the products with one type of weights want it.
using Row = std::variant<Arranged, Rounded>;

// Rows of x in that form, and the memory they lie in.
struct Rows {
    std::vector<Row> rows;
    Buffer<float> room;
};

// What the types of weights that are multiplied row by row have in common: a row of x in their form, and its product
// with a row of weights.
template <class Format>
struct RowProduct {
    static Index room(Index columns) {  // of Float32 numbers
        if constexpr (Integer<Format>) return (Format::room(columns / Format::block) + 31) / 32 * 8;
        else if constexpr (Quantised<Format>) return columns + columns / Format::block * Format::sums;
        else return 0;
    }
    static Row arrange(const float* x, Index columns, float* into) {
        if constexpr (Integer<Format>) {
            return Format::arrange(x, columns / Format::block, into);
        } else if constexpr (Quantised<Format>) {
            float* const sums = into + columns;
            for (Index i = 0; i < columns / Format::block; ++i)
                Format::arrange_block(x + i * Format::block, into + i * Format::block, sums + i * Format::sums);
            return Arranged{into, sums};
        } else {
            return Arranged{x, nullptr};
        }
    }
    static float dot(const unsigned char* p, Index columns, const Row& x) {
        if constexpr (Integer<Format>) return Format::dot(p, columns / Format::block, std::get<Rounded>(x));
        else return model::dot<Format>(p, columns, std::get<Arranged>(x));
    }
};

Rows arrange(WeightType type, Index columns, const float* x, Index n, Index x_stride) {
    return visit_format(type, [&](auto format) {
        using Form = RowProduct<decltype(format)>;
        const Index width = Form::room(columns);
        Rows out{{}, Buffer<float>(n * width)};
        for (Index t = 0; t < n; ++t)
            out.rows.push_back(Form::arrange(x + t * x_stride, columns, out.room.data() + t * width));
        return out;
    });
}

// Calls f(product, first row, rows) for groups of about `most` of a product's rows, `unit` of them at least, spread
// over the threads.
template <class Most, class F>
void over_groups(std::span<const Product> products, Index unit, Most&& most, F&& f) {
    struct Share {
        Index rows, tasks;
    };
    std::vector<Share> shares;
    Index tasks = 0;
    for (const Product& p : products) {
        const Index units = (p.w->rows + unit - 1) / unit, rows = units > 0 ? group_size(units, most(*p.w)) * unit : 1;
        shares.push_back({rows, (p.w->rows + rows - 1) / rows});
        tasks += shares.back().tasks;
    }
    parallel_for(tasks, [&](Index task) {
        std::size_t i = 0;
        for (; task >= shares[i].tasks; ++i) task -= shares[i].tasks;
        const Index first = task * shares[i].rows;
        f(i, first, std::min(shares[i].rows, products[i].w->rows - first));
    });
}

// Few rows of x.
void multiply_few(std::span<const Product> products, const float* x, Index n, Index x_stride) {
    std::vector<std::shared_ptr<const Rows>> forms;  // one a product; products of one type share theirs
    for (const Product& p : products) {
        const auto same = std::find_if(products.begin(), products.end(),
                                       [&](const Product& other) { return other.w->type == p.w->type; });
        const auto at = static_cast<std::size_t>(same - products.begin());
        if (at < forms.size()) forms.push_back(forms[at]);
        else forms.push_back(std::make_shared<const Rows>(arrange(p.w->type, p.w->columns, x, n, x_stride)));
    }
    const auto most = [](const Weight& w) {
        return std::max<Index>(1, task_bytes / static_cast<Index>(std::max<std::size_t>(w.row_bytes(), 1)));
    };
    over_groups(products, 1, most, [&](std::size_t i, Index first, Index count) {
        const Product& p = products[i];
        const std::vector<Row>& rows = forms[i]->rows;
        visit_format(p.w->type, [&](auto format) {
            for (Index r = first; r < first + count; ++r)
                for (std::size_t t = 0; t < rows.size(); ++t)
                    p.y[static_cast<Index>(t) * p.y_stride + r] =
                        RowProduct<decltype(format)>::dot(p.w->row(r), p.w->columns, rows[t]);
        });
    });
}

// Columns of weights that are unpacked together: whole blocks, shares of about the same size.
Index depth_of(const Weight& w) {
    const Index unit = std::max(weights_in_block(w.type), L), units = (w.columns + unit - 1) / unit;
    const Index most = most_depth / unit, shares = (units + most - 1) / most;
    return (units + shares - 1) / shares * unit;
}

// Rows first ... first + count of the weights, columns from `at` on, as panels [panel][depth][W]; rows past the last
// are zero.
void unpack_panels(const Weight& w, Index first, Index count, Index at, Index depth, float* rows, float* panels) {
    const Index offset = at / weights_in_block(w.type) * bytes_of_block(w.type);
    for (Index i = 0; i < count; i += W) {
        const Index here = std::min(W, count - i);
        for (Index k = 0; k < here; ++k) unpack(w.type, w.row(first + i + k) + offset, depth, rows + k * depth);
        kit::pack_transposed(rows, here, depth, panels + i * depth);
    }
}

// Y = X Wᵀ, or Y += X Wᵀ where `add`, for one panel of `columns` rows of weights.
template <int NV>
void multiply_panel(const float* x, Index n, Index x_stride, const float* panel, Index depth, float* y, Index y_stride,
                    Index columns, bool add) {
    kit::each_row_tile(n, [&](auto rows, Index t) {
        simd::Tile<float, rows, NV> tile;
        tile.clear();
        tile.multiply(x + t * x_stride, x_stride, 1, panel, W, depth);
        for (int r = 0; r < rows; ++r) {
            float* const out = y + (t + r) * y_stride;
            if (add)
                for (int v = 0; v < NV; ++v) tile.acc[r][v] += simd::load_part(out + v * L, columns - v * L);
            kit::store_row(out, tile.acc[r], columns);
        }
    });
}

// Some panels of rows of weights, from `first` on.
void multiply_group(const Weight& w, Index first, Index count, const float* x, Index n, Index x_stride, float* y,
                    Index y_stride) {
    const Index depth = depth_of(w), padded = (count + W - 1) / W * W;
    Buffer<float> rows(W * depth), panels(padded * depth);
    for (Index at = 0; at < w.columns; at += depth) {
        const Index here = std::min(depth, w.columns - at);
        unpack_panels(w, first, count, at, here, rows.data(), panels.data());
        for (Index t = 0; t < n; t += rows_of_x) {
            for (Index i = 0; i < count; i += W) {
                const Index columns = std::min(W, count - i);
                kit::vectors_of_panel(columns, L, [&](auto vectors) {
                    multiply_panel<vectors>(x + t * x_stride + at, std::min(rows_of_x, n - t), x_stride,
                                            panels.data() + i * here, here, y + t * y_stride + first + i, y_stride,
                                            columns, at > 0);
                });
            }
        }
    }
}

// Many rows of x: groups of panels that fit the second-level cache.
void multiply_many(std::span<const Product> products, const float* x, Index n, Index x_stride) {
    const auto most = [](const Weight&) { return most_panels; };
    over_groups(products, W, most, [&](std::size_t i, Index first, Index count) {
        const Product& p = products[i];
        multiply_group(*p.w, first, count, x, n, x_stride, p.y, p.y_stride);
    });
}

}  // namespace

void read_row(const Weight& w, Index i, float* out) {
    unpack(w.type, w.row(i), w.columns, out);
    check_mapped(w.data);
}

void multiply(std::span<const Product> products, const float* x, Index n, Index x_stride) {
    if (n == 0) return;
    if (n <= most_single_rows) multiply_few(products, x, n, x_stride);
    else multiply_many(products, x, n, x_stride);
    for (const Product& p : products) check_mapped(p.w->data);
}

void multiply(const Weight& w, const float* x, Index n, Index x_stride, float* y, Index y_stride) {
    const Product one{&w, y, y_stride};
    multiply(std::span(&one, 1), x, n, x_stride);
}

}  // namespace causeway::model
