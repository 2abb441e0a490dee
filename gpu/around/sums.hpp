// Sums over very many rows, in two steps whose order the sizes alone decide: parts in Float64, and the sum of the
// parts.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace causeway::gpu::around {

// How many parts rows are summed in, and how many rows a part has.
struct Parts {
    std::int64_t count, rows;

    explicit Parts(std::int64_t all) : rows(std::max<std::int64_t>(32, (all + 511) / 512)) {
        count = (all + rows - 1) / rows;
    }
};

// to[i] = Σ_p parts[p][i], for i < n.
void add_parts(const double* parts, std::int64_t count, std::int64_t n, float* to, cudaStream_t stream);

}  // namespace causeway::gpu::around
