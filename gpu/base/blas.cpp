#include "gpu/base/blas.hpp"

#include <map>
#include <string>

#include "gpu/base/error.hpp"
#include "gpu/base/shared_library.hpp"

namespace causeway::gpu {
namespace {

// cuBLAS is 650 MB of address space and half of the start of a program that links it, for what multiplies whole
// matrices alone: it is loaded when that is first called. The library of the same major version is found where the
// linker looks, or where the build found it.
struct Library {
    decltype(&cublasCreate_v2) create;
    decltype(&cublasDestroy_v2) destroy;
    decltype(&cublasSetStream_v2) set_stream;
    decltype(&cublasSetWorkspace_v2) set_workspace;
    decltype(&cublasGetStatusString) status_text;
    decltype(&cublasGemmStridedBatchedEx_64) multiply;
    decltype(&cublasGemmEx_64) multiply_one;

    Library() {
        const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
        const SharedLibrary file("gpu: this method multiplies matrices with cuBLAS, which cannot be loaded: ",
                                 {name, CAUSEWAY_CUDA_LIBRARIES "/" + name});
        file.find(create, "cublasCreate_v2");
        file.find(destroy, "cublasDestroy_v2");
        file.find(set_stream, "cublasSetStream_v2");
        file.find(set_workspace, "cublasSetWorkspace_v2");
        file.find(status_text, "cublasGetStatusString");
        file.find(multiply, "cublasGemmStridedBatchedEx_64");
        file.find(multiply_one, "cublasGemmEx_64");
    }
};

const Library& library() {
    static const Library loaded;
    return loaded;
}

}  // namespace

void load_blas() { library(); }

void check(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(sentence("gpu: cuBLAS has no memory left for ", what));
    fail_as<SystemError>("gpu: ", what, " failed: cuBLAS says ", library().status_text(status));
}

namespace {

class Handle {
public:
    Handle() { check(library().create(&handle_), "starting cuBLAS"); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() { library().destroy(handle_); }
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
    check(library().set_stream(handle, stream),
          "giving cuBLAS a stream");  // also forgets the workspace of the call before
    check(library().set_workspace(handle, workspace, blas_workspace), "giving cuBLAS a workspace");
    return handle;
}

void multiply(cublasHandle_t handle, bool tf32, std::int64_t m, std::int64_t n, std::int64_t k, Matrices A, Matrices B,
              float beta, float* C, std::int64_t row, std::int64_t next, std::int64_t count) {
    if (m == 0 || n == 0 || count == 0) return;
    // cuBLAS stores columns: it is given Cᵀ = Bᵀ Aᵀ.
    const float one = 1;
    const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    check(library().multiply(handle, op(B.transposed), op(A.transposed), n, m, k, &one, B.data, CUDA_R_32F, B.row,
                             B.next, A.data, CUDA_R_32F, A.row, A.next, &beta, C, CUDA_R_32F, row, next, count,
                             tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "multiplying matrices");
}

void multiply_transposed(cublasHandle_t handle, Type type, std::int64_t m, std::int64_t n, std::int64_t k,
                         const void* X, std::int64_t x_row, const void* W, void* Y, Type y_type, std::int64_t y_row,
                         float alpha, float beta) {
    if (m == 0 || n == 0) return;
    const auto name_of = [](Type t) {
        return t == Type::Float32 ? CUDA_R_32F : t == Type::BFloat16 ? CUDA_R_16BF : CUDA_R_16F;
    };
    // Columns again: Yᵀ = W Xᵀ.
    check(
        library().multiply_one(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &alpha, W, name_of(type), k, X, name_of(type),
                               x_row, &beta, Y, name_of(y_type), y_row, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "multiplying matrices");
}

}  // namespace causeway::gpu
