// Weights as checkpoints hold them: floating point, or blocks of few bits with a scale, multiplied where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/memory.hpp"  // Index

namespace causeway::model {

// The names are those of GGUF. Q8_0, Q4_0 and Q4_1 hold 32 weights a block, those with K 256.
enum class WeightType { f32, f16, bf16, q8_0, q4_0, q4_1, q4_k, q5_k, q6_k };

inline constexpr WeightType all_weight_types[] = {WeightType::f32,  WeightType::f16,  WeightType::bf16,
                                                  WeightType::q8_0, WeightType::q4_0, WeightType::q4_1,
                                                  WeightType::q4_k, WeightType::q5_k, WeightType::q6_k};

const char* name(WeightType) noexcept;        // "Q4_1"
Index weights_in_block(WeightType) noexcept;  // 1 for floating point
Index bytes_of_block(WeightType) noexcept;

// Numbers that are made up where they are used, uniform with this mean and standard deviation. Number i of a matrix is
// that of element i % piece of random::uniforms(seed, stream + i / piece).
struct MadeUp {
    static constexpr Index piece = 1 << 14;
    std::uint64_t seed, stream;
    double mean, deviation;

    double range() const { return deviation * 3.4641016151377544; }  // √12: from the least to the largest
    double least() const { return mean - range() / 2; }
};

// One matrix as its checkpoint holds it, rows × columns, row-major; a vector has one row. A row is a whole number of
// blocks. The memory belongs to the checkpoint and may have any alignment. A matrix that is made up on a GPU has no
// memory here, and nothing below reads it.
struct Weight {
    WeightType type = WeightType::f32;
    Index rows = 0, columns = 0;
    const unsigned char* data = nullptr;
    const MadeUp* made_up = nullptr;  // where data is null

    std::size_t row_bytes() const noexcept {
        return static_cast<std::size_t>(columns / weights_in_block(type) * bytes_of_block(type));
    }
    std::size_t bytes() const noexcept { return static_cast<std::size_t>(rows) * row_bytes(); }
    const unsigned char* row(Index i) const noexcept { return data + static_cast<std::size_t>(i) * row_bytes(); }
};

// Row i, 0 <= i < rows, as Float32: `columns` numbers.
void read_row(const Weight& w, Index i, float* out);

// Y = X Wᵀ: x holds n rows of w.columns numbers, `x_stride` apart, y n rows of w.rows, `y_stride` apart. Everything is
// Float32, but that up to six rows of x are rounded to 16 bits, with a scale for each 32 numbers, for Q4_0 and Q4_1: by
// at most 2^-16 of the largest of the 32, and products with them are summed as integers (core/model/integer_dot.hpp).
// Spreads over threads; the result does not depend on their number. Up to six rows are multiplied as the weights come
// from memory, unpacked in registers; more of them in panels of weights that are unpacked into the first-level cache,
// less than 1 MB a thread. tests/core/model/weight_rates_test.cpp prints the rates. Throws IoError where the file of
// the weights was cut off meanwhile (core/base/mapping.hpp).
void multiply(const Weight& w, const float* x, Index n, Index x_stride, float* y, Index y_stride);

// Several products with one x in one region of the threads: the weights have the same number of columns.
struct Product {
    const Weight* w;
    float* y;
    Index y_stride;
};
void multiply(std::span<const Product> products, const float* x, Index n, Index x_stride);

}  // namespace causeway::model
