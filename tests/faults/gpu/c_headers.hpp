// The C functions of CUDA, cuBLAS and NCCL, of which a name is one function.
#pragma once

// NCCL's header includes this one, which overloads some of them.
#define __CUDA_RUNTIME_H__

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#ifdef CAUSEWAY_NCCL
#include <nccl.h>
#endif
