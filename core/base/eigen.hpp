// Eigen's matrices when memory runs out: files of this library that use Eigen include this before anything of it.
//
// A matrix of Eigen 3.4 that takes another size gives its block back before it asks for the next one; where that is
// refused, its destructor frees the block once more. Here it is empty in between; the two blocks are still never held
// at once. What is computed is the same, so it does no harm that a program which uses Eigen's own beside this library
// gets these functions as well.
#pragma once

#include <Eigen/Core>

#if !EIGEN_VERSION_AT_LEAST(3, 4, 90)
#include <complex>

#define CAUSEWAY_RESIZE(T, ROWS, COLUMNS, ORDER, TAKE_SIZES)                                                    \
    template <>                                                                                                 \
    inline void DenseStorage<T, Dynamic, ROWS, COLUMNS, ORDER>::resize(Index size, [[maybe_unused]] Index rows, \
                                                                       [[maybe_unused]] Index columns) {        \
        if (size != this->rows() * this->cols()) {                                                              \
            DenseStorage().swap(*this);                                                                         \
            DenseStorage(size, rows, columns).swap(*this);                                                      \
        } else {                                                                                                \
            TAKE_SIZES;                                                                                         \
        }                                                                                                       \
    }

#define CAUSEWAY_RESIZES(T)                                                           \
    CAUSEWAY_RESIZE(T, Dynamic, Dynamic, ColMajor, (m_rows = rows, m_cols = columns)) \
    CAUSEWAY_RESIZE(T, Dynamic, Dynamic, RowMajor, (m_rows = rows, m_cols = columns)) \
    CAUSEWAY_RESIZE(T, Dynamic, 1, ColMajor, m_rows = rows)                           \
    CAUSEWAY_RESIZE(T, 1, Dynamic, RowMajor, m_cols = columns)

namespace Eigen {

CAUSEWAY_RESIZES(float)
CAUSEWAY_RESIZES(double)
CAUSEWAY_RESIZES(std::complex<double>)
CAUSEWAY_RESIZES(int)  // permutations

}  // namespace Eigen

#undef CAUSEWAY_RESIZES
#undef CAUSEWAY_RESIZE
#endif
