// The forms of the gradients as values, under the names of the forward forms: gated::modes() and attention::methods().
#pragma once

#include <string>

#include "core/gradient/problem.hpp"
#include "core/gradient/softmax.hpp"
#include "core/kit/registry.hpp"

namespace causeway::gradient {

// Of linear_attention_grad.
struct LinearForm {
    std::string name;          // "chunkwise"
    std::string source;        // where it comes from
    std::string time, memory;  // of one head, C the chunk length

    // All heads of a checked problem.
    void (*f32)(const GradProblem<float>&) = nullptr;
    void (*f64)(const GradProblem<double>&) = nullptr;
};
const Registry<LinearForm>& linear_forms();

// Of softmax_attention_grad.
struct SoftmaxForm {
    std::string name;  // "flash"
    std::string source;
    std::string time, memory;
    bool outputs = false;  // reads O, m and l of the forward pass

    void (*f32)(const SoftmaxGradProblem<float>&) = nullptr;
    void (*f64)(const SoftmaxGradProblem<double>&) = nullptr;
};
const Registry<SoftmaxForm>& softmax_forms();

}  // namespace causeway::gradient
