// cuBLAS is loaded when it is needed: the build must know where it is. This needs no GPU.
#include "gpu/base/blas.hpp"
#include "tests/catch.hpp"

using namespace causeway;

TEST_CASE("gpu: cuBLAS is found when it is called for", "[gpu][blas]") { CHECK_NOTHROW(gpu::load_blas()); }
