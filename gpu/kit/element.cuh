// Element types in kernels, and choosing a kernel by one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// Calls f with a value of the element type: visit(type, [&](auto zero) { using E = decltype(zero); ... }).
template <class F>
decltype(auto) visit(Type t, F&& f) {
    switch (t) {
        case Type::BFloat16: return f(__nv_bfloat16{});
        case Type::Float16: return f(__half{});
        default: return f(float{});
    }
}

}  // namespace causeway::gpu
