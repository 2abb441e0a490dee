// A plugin that computes with the library.
#include <string>

#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
#include "core/exact/causal_linear_attention.hpp"
#include "core/tensor/random.hpp"

// The sum of what causal linear attention returns for fixed inputs, on three threads.
extern "C" double plugin_compute() {
    causeway::set_threads(3);
    causeway::random::set_seed(1);
    const causeway::Tensor x = causeway::random::normal(causeway::DType::f32, {1, 4, 300, 16});
    const causeway::Tensor out = causeway::causal_linear_attention(x, x, x, {.method = "block-based"}).O;
    double sum = 0;
    for (causeway::Index i = 0; i < out.size(); ++i) sum += static_cast<double>(out.data<float>()[i]);
    return sum;
}

// Whether a call that cannot be carried out says so by an exception that is caught in here.
extern "C" bool plugin_refuses() {
    try {
        causeway::set_threads(0);
    } catch (const causeway::Error&) {
        return true;
    }
    return false;
}
