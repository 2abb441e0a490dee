// What the calls around linear attention read of their options, as a struct of core or of gpu, whose tensors read(name,
// array) makes, an optional one each.
#pragma once

#include "core/c/options.hpp"

namespace causeway::c {

template <class Options, class Read>
Options convolution_options(const causeway_tensor* bias, const causeway_tensor* initial, const char* activation,
                            const std::int64_t* cu_seqlens, std::int64_t count, Read&& read) {
    Options options;
    options.bias = read("bias", bias);
    options.state = read("initial", initial);
    if (activation) options.activation = activation;
    options.cu_seqlens = read_numbers<Index>("cu_seqlens", cu_seqlens, count);
    return options;
}

template <class Options>
Options length_options(const double* eps) {
    Options options;
    if (eps) options.eps = *eps;
    return options;
}

template <class Options, class Read>
Options norm_options(const causeway_tensor* weight, const causeway_tensor* gate, const char* activation,
                     const double* eps, Read&& read) {
    Options options;
    options.weight = read("weight", weight);
    options.gate = read("gate", gate);
    if (activation) options.activation = activation;
    if (eps) options.eps = *eps;
    return options;
}

template <class Options, class Read>
Options gate_options(const causeway_tensor* dt_bias, const double* lower_bound, Read&& read) {
    Options options;
    options.dt_bias = read("dt_bias", dt_bias);
    options.lower_bound = read_number(lower_bound);
    return options;
}

}  // namespace causeway::c
