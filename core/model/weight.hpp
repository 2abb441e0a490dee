// Weights as checkpoints hold them: floating point, or blocks of few bits with a scale, multiplied where they lie.
#pragma once

#include <cstddef>
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

// One matrix as its checkpoint holds it, rows × columns, row-major; a vector has one row. A row is a whole number of
// blocks. The memory belongs to the checkpoint and may have any alignment.
struct Weight {
    WeightType type = WeightType::f32;
    Index rows = 0, columns = 0;
    const unsigned char* data = nullptr;

    std::size_t row_bytes() const noexcept {
        return static_cast<std::size_t>(columns / weights_in_block(type) * bytes_of_block(type));
    }
    std::size_t bytes() const noexcept { return static_cast<std::size_t>(rows) * row_bytes(); }
    const unsigned char* row(Index i) const noexcept { return data + static_cast<std::size_t>(i) * row_bytes(); }
};

// Row i, 0 <= i < rows, as Float32: `columns` numbers.
void read_row(const Weight& w, Index i, float* out);

// Y = X Wᵀ in Float32: x holds n rows of w.columns numbers, `x_stride` apart, y n rows of w.rows, `y_stride` apart.
// Spreads over threads; the result does not depend on their number. Up to six rows are multiplied as the weights come
// from memory, unpacked in registers; more of them in panels of weights that are unpacked into the first-level cache,
// less than 1 MB a thread. Rates: tests/core/model/weight_rates_test.cpp prints them; on two cores of an EPYC of the
// third generation one row reads F32, F16 and BF16 at the rate of memory, Q8_0 at 0.7 of it, and the types of 4 to 6
// bits at 0.4 (8 to 9 GB/s a core: unpacking takes longer than reading), and 512 rows run at 1.0 to 1.3 of Eigen's
// product. Throws IoError where the file of the weights was cut off meanwhile (core/base/mapping.hpp).
void multiply(const Weight& w, const float* x, Index n, Index x_stride, float* y, Index y_stride);

}  // namespace causeway::model
