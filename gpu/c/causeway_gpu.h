/* The calls of causeway.h on arrays in the memory of an NVIDIA GPU, in libcauseway_gpu.so, which has all of causeway.h
 * besides.
 *
 * The arrays are causeway_tensor whose `data` is memory of one device: Float32, Float16 or BFloat16, contiguous.
 * Options are those of causeway.h, and their arrays are of the same device, offsets and slots of the host, which are
 * read before a call returns. What the kernels do not have is refused: gradients of pools, of packed sequences in
 * causal_linear_attention, "prefix" there and in gradients. deterministic is "alone" by itself, on one GPU. An output
 * whose `data` is NULL receives memory of the library, which causeway_release gives back; one that has `data`, in the
 * memory of that device too, receives a copy. Everything is queued on `stream`, a cudaStream_t, NULL being the default
 * one; a call returns without waiting for it, and its arrays must stay until then. The current device of the thread is
 * afterwards what it was.
 */
#ifndef CAUSEWAY_GPU_H
#define CAUSEWAY_GPU_H

#include "causeway.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of devices, 0 where there is no driver. */
CAUSEWAY_API int32_t causeway_gpu_devices(void);

CAUSEWAY_API causeway_status causeway_gpu_causal_linear_attention(const causeway_tensor* B, const causeway_tensor* C,
                                                                  const causeway_tensor* V,
                                                                  const causeway_causal_options* options,
                                                                  causeway_tensor* O, causeway_tensor* state,
                                                                  void* stream);

/* The gradient of the decay is not among the results. */
CAUSEWAY_API causeway_status causeway_gpu_causal_linear_attention_grad(
    const causeway_tensor* B, const causeway_tensor* C, const causeway_tensor* V, const causeway_tensor* dO,
    const causeway_causal_options* options, causeway_tensor* dB, causeway_tensor* dC, causeway_tensor* dV,
    causeway_tensor* dstate, void* stream);

CAUSEWAY_API causeway_status causeway_gpu_linear_attention(const causeway_tensor* q, const causeway_tensor* k,
                                                           const causeway_tensor* v,
                                                           const causeway_linear_options* options, causeway_tensor* O,
                                                           causeway_tensor* state, void* stream);

CAUSEWAY_API causeway_status causeway_gpu_linear_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                                const causeway_tensor* v, const causeway_tensor* dO,
                                                                const causeway_tensor* dstate,
                                                                const causeway_linear_options* options,
                                                                const causeway_linear_gradients* gradients,
                                                                void* stream);

/* `state` is advanced in place: [b, h, d_k, d_v] or, with state_indices, a pool, Float32, Float16 or BFloat16. */
CAUSEWAY_API causeway_status causeway_gpu_linear_attention_step(const causeway_tensor* q, const causeway_tensor* k,
                                                                const causeway_tensor* v,
                                                                const causeway_linear_options* options,
                                                                causeway_tensor* state, causeway_tensor* O,
                                                                void* stream);

/* q, k and v at most 256 wide; the gradient goes token by token. */
CAUSEWAY_API causeway_status causeway_gpu_general_linear_attention(const causeway_tensor* q, const causeway_tensor* k,
                                                                   const causeway_tensor* v,
                                                                   const causeway_general_options* options,
                                                                   causeway_tensor* O, causeway_tensor* state,
                                                                   void* stream);

CAUSEWAY_API causeway_status causeway_gpu_general_linear_attention_grad(
    const causeway_tensor* q, const causeway_tensor* k, const causeway_tensor* v, const causeway_tensor* dO,
    const causeway_tensor* dstate, const causeway_general_options* options, const causeway_general_gradients* gradients,
    void* stream);

/* `state` [b, h, d_k, d_v], Float32, is advanced in place. */
CAUSEWAY_API causeway_status causeway_gpu_general_linear_attention_step(
    const causeway_tensor* q, const causeway_tensor* k, const causeway_tensor* v,
    const causeway_general_options* options, causeway_tensor* state, causeway_tensor* O, void* stream);

CAUSEWAY_API causeway_status causeway_gpu_short_convolution(const causeway_tensor* x, const causeway_tensor* weight,
                                                            const causeway_tensor* bias, const causeway_tensor* initial,
                                                            const char* activation, const int64_t* cu_seqlens,
                                                            int64_t cu_seqlens_count, causeway_tensor* y,
                                                            causeway_tensor* state, void* stream);
CAUSEWAY_API causeway_status causeway_gpu_short_convolution_grad(
    const causeway_tensor* x, const causeway_tensor* weight, const causeway_tensor* bias,
    const causeway_tensor* initial, const char* activation, const int64_t* cu_seqlens, int64_t cu_seqlens_count,
    const causeway_tensor* dy, const causeway_tensor* dstate, causeway_tensor* dx, causeway_tensor* dweight,
    causeway_tensor* dbias, causeway_tensor* dinitial, void* stream);

CAUSEWAY_API causeway_status causeway_gpu_l2norm(const causeway_tensor* x, const double* eps, causeway_tensor* y,
                                                 void* stream);
CAUSEWAY_API causeway_status causeway_gpu_l2norm_grad(const causeway_tensor* x, const double* eps,
                                                      const causeway_tensor* dy, causeway_tensor* dx, void* stream);

CAUSEWAY_API causeway_status causeway_gpu_rms_norm(const causeway_tensor* x, const causeway_tensor* weight,
                                                   const causeway_tensor* gate, const char* activation,
                                                   const double* eps, causeway_tensor* y, void* stream);
CAUSEWAY_API causeway_status causeway_gpu_rms_norm_grad(const causeway_tensor* x, const causeway_tensor* weight,
                                                        const causeway_tensor* gate, const char* activation,
                                                        const double* eps, const causeway_tensor* dy,
                                                        causeway_tensor* dx, causeway_tensor* dweight,
                                                        causeway_tensor* dgate, void* stream);

CAUSEWAY_API causeway_status causeway_gpu_decay_gate(const causeway_tensor* a, const causeway_tensor* A_log,
                                                     const causeway_tensor* dt_bias, const double* lower_bound,
                                                     causeway_tensor* g, void* stream);
CAUSEWAY_API causeway_status causeway_gpu_decay_gate_grad(const causeway_tensor* a, const causeway_tensor* A_log,
                                                          const causeway_tensor* dt_bias, const double* lower_bound,
                                                          const causeway_tensor* dg, causeway_tensor* da,
                                                          causeway_tensor* dA_log, causeway_tensor* ddt_bias,
                                                          void* stream);

CAUSEWAY_API causeway_status causeway_gpu_softmax_attention(const causeway_tensor* q, const causeway_tensor* k,
                                                            const causeway_tensor* v,
                                                            const causeway_softmax_options* options, causeway_tensor* O,
                                                            causeway_tensor* lse, void* stream);

CAUSEWAY_API causeway_status causeway_gpu_softmax_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                                 const causeway_tensor* v, const causeway_tensor* dO,
                                                                 const causeway_tensor* O, const causeway_tensor* lse,
                                                                 const causeway_softmax_options* options,
                                                                 causeway_tensor* dq, causeway_tensor* dk,
                                                                 causeway_tensor* dv, void* stream);

#ifdef __cplusplus
}
#endif

#endif
