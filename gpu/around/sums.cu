#include "gpu/around/sums.hpp"

#include "gpu/kit/each.cuh"

namespace causeway::gpu::around {

namespace {

struct AddParts {
    const double* parts;
    std::int64_t count, n;
    float* to;
    __device__ void operator()(std::int64_t i) const {
        double sum = 0;
        for (std::int64_t p = 0; p < count; ++p) sum += parts[p * n + i];
        to[i] = static_cast<float>(sum);
    }
};

}  // namespace

void add_parts(const double* parts, std::int64_t count, std::int64_t n, float* to, cudaStream_t stream) {
    run_each("adding partial sums", n, stream, AddParts{parts, count, n, to});
}

}  // namespace causeway::gpu::around
