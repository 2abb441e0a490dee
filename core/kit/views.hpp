// How the mechanisms see memory: row-major matrices of their own, views of somebody else's, and scratch that is
// counted.
#pragma once

#include <limits>

#include "core/base/eigen.hpp"
#include "core/base/error.hpp"
#include "core/base/memory.hpp"

namespace causeway::kit {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<Matrix<T>>;
template <class T>
using ConstView = Eigen::Map<const Matrix<T>>;

// A matrix of scratch whose memory is counted.
template <class T>
class Scratch : private Buffer<T>, public View<T> {
public:
    // Throws OutOfMemory.
    Scratch(Index rows, Index cols) : Buffer<T>(entries(rows, cols)), View<T>(Buffer<T>::data(), rows, cols) {}
    using View<T>::data;
    using View<T>::size;
    using View<T>::operator();
    using View<T>::operator=;

private:
    static Index entries(Index rows, Index cols) {
        Index n = 0;
        if (__builtin_mul_overflow(rows, cols, &n) ||
            n > std::numeric_limits<Index>::max() / static_cast<Index>(2 * sizeof(T)))
            throw OutOfMemory(sentence("out of memory: a scratch of ", rows, "×", cols, " is too large"));
        return n;
    }
};

}  // namespace causeway::kit
