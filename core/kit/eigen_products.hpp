// What nearly every file of core includes, compiled once: the target's precompiled header (CMakeLists.txt). No file may
// need it: everything compiles without, only slower.
//
// The kernels of Eigen's matrix products are large templates that each file with a product would compile anew, some five
// seconds each time. Here they are declared to stand in eigen_products.cpp, so that the others only call them.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace causeway::eigen {

using Index = Eigen::Index;

template <class T, int order>
using Matrix = Eigen::internal::const_blas_data_mapper<T, Index, order>;

template <class T>
using Traits = Eigen::internal::gebp_traits<T, T>;

template <class T>
using Block = Eigen::internal::gebp_kernel<T, T, Index, Eigen::internal::blas_data_mapper<T, Index, Eigen::ColMajor>,
                                           Traits<T>::mr, Traits<T>::nr, false, false>;

template <class T, int order>
using PackLeft = Eigen::internal::gemm_pack_lhs<T, Index, Matrix<T, order>, Traits<T>::mr, Traits<T>::LhsProgress,
                                                typename Traits<T>::LhsPacket4Packing, order>;

template <class T, int order>
using PackRight = Eigen::internal::gemm_pack_rhs<T, Index, Matrix<T, order>, Traits<T>::nr, order>;

}  // namespace causeway::eigen
