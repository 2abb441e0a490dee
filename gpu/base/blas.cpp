#include "gpu/base/blas.hpp"

#include <map>

#include "gpu/base/error.hpp"

namespace causeway::gpu {

void check(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(sentence("gpu: cuBLAS has no memory left for ", what));
    fail("gpu: ", what, " failed: cuBLAS says ", cublasGetStatusString(status));
}

namespace {

class Handle {
public:
    Handle() { check(cublasCreate(&handle_), "starting cuBLAS"); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { cublasDestroy(handle_); }
    operator cublasHandle_t() const { return handle_; }

private:
    cublasHandle_t handle_ = nullptr;
};

}  // namespace

cublasHandle_t blas(cudaStream_t stream, void* workspace) {
    static thread_local std::map<int, Handle> handles;
    int current = 0;
    check(cudaGetDevice(&current), "asking for the current device");
    const Handle& handle = handles[current];
    check(cublasSetStream(handle, stream), "giving cuBLAS a stream");  // also forgets the workspace of the call before
    check(cublasSetWorkspace(handle, workspace, blas_workspace), "giving cuBLAS a workspace");
    return handle;
}

void multiply(cublasHandle_t handle, bool tf32, std::int64_t m, std::int64_t n, std::int64_t k, Matrices A, Matrices B, float beta, float* C, std::int64_t row,
              std::int64_t next, std::int64_t count) {
    if (m == 0 || n == 0 || count == 0) return;
    // cuBLAS stores columns: it is given Cᵀ = Bᵀ Aᵀ.
    const float one = 1;
    const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    check(cublasGemmStridedBatchedEx_64(handle, op(B.transposed), op(A.transposed), n, m, k, &one, B.data, CUDA_R_32F, B.row, B.next, A.data, CUDA_R_32F, A.row,
                                        A.next, &beta, C, CUDA_R_32F, row, next, count, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                        CUBLAS_GEMM_DEFAULT),
          "multiplying matrices");
}

}  // namespace causeway::gpu
