// decay_gate of core for tensors on the GPU (core/around/decay_gate.hpp).
#pragma once

#include <optional>

#include "core/calls/around.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// The options that core/calls/around.hpp describes, and the stream that everything is queued on.
struct DecayGateOptions : calls::DecayGateOptions<Tensor> {
    cudaStream_t stream = nullptr;
};

// Float32, Float16 or BFloat16, computed in Float32 number by number; A_log and dt_bias may have another of these
// types. Returns when everything is queued. Throws Error naming the argument, OutOfMemory.
Tensor decay_gate(const Tensor& a, const Tensor& A_log, const DecayGateOptions& = {});

struct DecayGateGradient {
    Tensor da, dA_log;               // shapes and types of a and A_log
    std::optional<Tensor> ddt_bias;  // where one was given, likewise
};

// The gradient of <g, dg>. Sums over tokens are made in Float64, in an order that the sizes alone decide.
DecayGateGradient decay_gate_grad(const Tensor& a, const Tensor& A_log, const Tensor& dg, const DecayGateOptions& = {});

// The gates in Float32, whatever type the projection has: those that linear_attention makes within its call.
Tensor decay_gate_in_float(const Tensor& a, const Tensor& A_log, const DecayGateOptions& = {});

namespace around {

struct GateArgs {
    const void* a;  // [batch, heads, N, channels]
    Type type;
    const float *A_log, *bias;  // [heads]; [heads, channels] or null
    std::int64_t batch, heads, N, channels;
    float lower_bound;  // 0: none

    std::int64_t size() const { return batch * heads * N * channels; }
};

void gates(const GateArgs&, void* g, cudaStream_t);
void gates_in_float(const GateArgs&, float* g, cudaStream_t);
// The place of the first gate that is no number, `size()` where there is none. Waits for the stream; `first` is a place
// of its own on the device.
std::int64_t first_gate_not_a_number(const GateArgs&, std::int64_t* first, cudaStream_t);
void gate_inputs(const GateArgs&, const void* dg, void* da, cudaStream_t);
// by_rate and by_bias [parts · batch, heads · channels] in parts of N tokens; by_bias may be null.
void gate_parameters(const GateArgs&, const void* dg, double* by_rate, double* by_bias, cudaStream_t);
// to[i] = Σ_c from[i][c] for i < n.
void add_channels(const float* from, std::int64_t n, std::int64_t channels, float* to, cudaStream_t);

}  // namespace around
}  // namespace causeway::gpu
