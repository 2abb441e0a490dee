// What nearly every file of core includes, read once: the precompiled header of its targets (CMakeLists.txt). No file
// needs it: without precompiled headers everything compiles as well, only slower.
//
// The kernels of Eigen's matrix products are large templates, which every file with a product would compile anew, three
// to four seconds each time. They are declared here to stand in eigen_products.cpp; the others only call them.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The names that Eigen's template parameters take, for a matrix in the order ORDER (0: by columns, 1: by rows).
#define CAUSEWAY_EIGEN_TRAITS(T) Eigen::internal::gebp_traits<T, T>
#define CAUSEWAY_EIGEN_MATRIX(T, ORDER) Eigen::internal::const_blas_data_mapper<T, Eigen::Index, ORDER>

// One line each: the product of two packed blocks; the packing of the left and of the right factor, in either order;
// the loops around them, for the three pairs of orders that occur; matrix times vector, and a vector in strides.
#define CAUSEWAY_EIGEN_PRODUCTS(EXTERN, T)                                                                           \
    EXTERN template struct Eigen::internal::gebp_kernel<                                                             \
        T, T, Eigen::Index, Eigen::internal::blas_data_mapper<T, Eigen::Index, 0>, CAUSEWAY_EIGEN_TRAITS(T)::mr,     \
        CAUSEWAY_EIGEN_TRAITS(T)::nr, false, false>;                                                                 \
    CAUSEWAY_EIGEN_PACKING(EXTERN, T, 0)                                                                             \
    CAUSEWAY_EIGEN_PACKING(EXTERN, T, 1)                                                                             \
    EXTERN template struct Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, 0, false, T, 0, false, 0, \
                                                                          1>;                                        \
    EXTERN template struct Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, 0, false, T, 1, false, 0, \
                                                                          1>;                                        \
    EXTERN template struct Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, 1, false, T, 0, false, 0, \
                                                                          1>;                                        \
    CAUSEWAY_EIGEN_VECTOR(EXTERN, T, 0, 1, 0)                                                                        \
    CAUSEWAY_EIGEN_VECTOR(EXTERN, T, 1, 0, 0)                                                                        \
    CAUSEWAY_EIGEN_VECTOR(EXTERN, T, 1, 1, 1)

#define CAUSEWAY_EIGEN_PACKING(EXTERN, T, ORDER)                                                            \
    EXTERN template struct Eigen::internal::gemm_pack_lhs<                                                  \
        T, Eigen::Index, CAUSEWAY_EIGEN_MATRIX(T, ORDER), CAUSEWAY_EIGEN_TRAITS(T)::mr,                     \
        CAUSEWAY_EIGEN_TRAITS(T)::LhsProgress, CAUSEWAY_EIGEN_TRAITS(T)::LhsPacket4Packing, ORDER>;         \
    EXTERN template struct Eigen::internal::gemm_pack_rhs<T, Eigen::Index, CAUSEWAY_EIGEN_MATRIX(T, ORDER), \
                                                          CAUSEWAY_EIGEN_TRAITS(T)::nr, ORDER>;

#define CAUSEWAY_EIGEN_VECTOR(EXTERN, T, LEFT, RIGHT, VERSION)                                                   \
    EXTERN template struct Eigen::internal::general_matrix_vector_product<                                       \
        Eigen::Index, T, CAUSEWAY_EIGEN_MATRIX(T, LEFT), LEFT, false, T, CAUSEWAY_EIGEN_MATRIX(T, RIGHT), false, \
        VERSION>;

CAUSEWAY_EIGEN_PRODUCTS(extern, float)
CAUSEWAY_EIGEN_PRODUCTS(extern, double)
