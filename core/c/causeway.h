/* The C interface of causeway: the calls of causeway::core over plain pointers. C99 and C++ read it, and it includes
 * nothing but the headers of C. Link with -lcauseway.
 *
 * Arrays are causeway_tensor: a pointer, an element type, a shape and strides. Inputs are only read, and where they are
 * contiguous they are read where they lie. An output whose `data` is NULL receives memory of the library, without a
 * copy, which causeway_release gives back; one that has `data` must have the type and shape of the result and is
 * written through its strides. A NULL pointer in the place of an output says that it is not wanted.
 *
 * Every call returns a causeway_status. Anything but CAUSEWAY_OK comes with a sentence, causeway_last_error(), that
 * names the argument, what came and what was expected; outputs are then as they were, but for the state of a step that
 * was interrupted. No call prints, exits, throws, handles a signal (but for causeway_begin_interruptible) or changes a
 * locale or a rounding mode. All may be called from several threads at once.
 *
 * Structs of options begin with their own size, as in
 *
 *     causeway_linear_options options = {sizeof options};
 *     options.update = "gated";
 *
 * so that a later version can add members at their end, and programs of an earlier one go on as they are; members that
 * are left 0 or NULL have their defaults. What the functions compute, shapes and options in full are in the manual:
 * `causeway -e '?linear_attention'`.
 */
#ifndef CAUSEWAY_H
#define CAUSEWAY_H

#include <stddef.h>
#include <stdint.h>

#include "causeway_version.h"

#if defined(_WIN32)
#define CAUSEWAY_API
#else
#define CAUSEWAY_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum causeway_status {
    CAUSEWAY_OK = 0,
    CAUSEWAY_BAD_ARGUMENT = 1,
    CAUSEWAY_OUT_OF_MEMORY = 2,
    CAUSEWAY_TIMEOUT = 3,
    CAUSEWAY_INTERRUPTED = 4,
    CAUSEWAY_IO = 5,
    CAUSEWAY_SYSTEM = 6
} causeway_status;

/* Element types. The 16-bit ones store: they are computed in Float32. */
enum { CAUSEWAY_FLOAT32 = 0, CAUSEWAY_FLOAT64 = 1, CAUSEWAY_FLOAT16 = 2, CAUSEWAY_BFLOAT16 = 3 };

enum { CAUSEWAY_MAX_DIMENSIONS = 4 };

typedef struct causeway_tensor {
    void* data;   /* the element at index 0 */
    int32_t type; /* CAUSEWAY_FLOAT32 ... */
    int32_t ndim;
    int64_t shape[CAUSEWAY_MAX_DIMENSIONS];   /* [batch, heads, length, width], leading ones left out with ndim < 4 */
    int64_t strides[CAUSEWAY_MAX_DIMENSIONS]; /* in elements, not bytes; 0 repeats an input along a dimension */
    void* owner;                              /* of outputs: what causeway_release gives back; else NULL */
} causeway_tensor;

/* A tensor over memory of the caller's whose elements lie row by row, the last dimension fastest. */
static inline causeway_tensor causeway_contiguous(void* data, int32_t type, int32_t ndim, const int64_t* shape) {
    causeway_tensor t;
    int64_t stride = 1;
    int32_t i;
    t.data = data;
    t.type = type;
    t.ndim = ndim;
    t.owner = NULL;
    for (i = CAUSEWAY_MAX_DIMENSIONS - 1; i >= 0; --i) {
        t.shape[i] = i < ndim ? shape[i] : 0;
        t.strides[i] = i < ndim ? stride : 0;
        if (i < ndim) stride *= shape[i];
    }
    return t;
}

/* Gives back the memory of an output that the library allocated, and sets data and owner to NULL. Does nothing where
 * there is no owner. */
CAUSEWAY_API void causeway_release(causeway_tensor* tensor);

/* "0.1.0": of the library that runs; CAUSEWAY_VERSION is that of this header. */
CAUSEWAY_API const char* causeway_version(void);

/* Why the last call of this thread that failed did so: a sentence in UTF-8, "" before any. It is this thread's, until
 * its next call that fails. */
CAUSEWAY_API const char* causeway_last_error(void);

/* The i-th name of a list, NULL after its last. Lists: "methods" of causal_linear_attention, "updates" and "modes" of
 * linear_attention, "softmax_methods", "lowrank"; for another one NULL, with an error. */
CAUSEWAY_API const char* causeway_name(const char* list, int64_t i);

/* Worker threads of this process, the calling one among them: CAUSEWAY_THREADS of the environment, or all cores. */
CAUSEWAY_API int32_t causeway_threads(void);
CAUSEWAY_API causeway_status causeway_set_threads(int32_t threads);

/* Asks the calls that run in this process to stop, with CAUSEWAY_INTERRUPTED; safe in a handler of a signal and in any
 * thread. Calls stop until the request is cleared. */
CAUSEWAY_API void causeway_interrupt(void);
CAUSEWAY_API void causeway_clear_interrupt(void);

/* Between the two SIGINT is such a request, for a host whose own handler cannot run during a call, as that of Python
 * cannot. The end puts back the handler of before, clears the request, and returns how many SIGINT came meanwhile. By
 * one thread at a time: 0 of the first says that another one is between them, or that there are no such signals, and
 * nothing has changed. */
CAUSEWAY_API int32_t causeway_begin_interruptible(void);
CAUSEWAY_API int32_t causeway_end_interruptible(void);

/* O = (B C^T * M) V with M[i,j] = decay^(i-j) for i >= j, else 0. B, C [b, h, N, r], V [b, h, N, d]; heads may
 * be shared as in causeway_linear_attention. O [b, h, N, d], the type of V. */
typedef struct causeway_causal_options {
    size_t size;         /* sizeof(causeway_causal_options) */
    const char* method;  /* NULL: "auto" */
    const double* decay; /* decay_count of them: none, one for all heads, or one a head, in (0, 1] */
    int64_t decay_count;
    int32_t normalize;            /* not 0: divides row i by its sum of the masked B C^T */
    int64_t block;                /* 0: the method's */
    const double* scale;          /* factor on B C^T; NULL: 1 */
    const causeway_tensor* state; /* to start from, [b, h, r, d], with normalize [b, h, r, d + 1]; NULL: zeros */
    const int64_t* cu_seqlens;    /* of packed sequences with b = 1: cu_seqlens_count offsets from 0 to N */
    int64_t cu_seqlens_count;
    const int64_t* state_indices; /* `state` is a pool [slots, h, r, d]: the slot of each sequence, counted from 0 */
    int64_t state_indices_count;
    int32_t inplace;              /* not 0: the last states are written to where the first ones came from, in `state` */
    int64_t checkpoint_every;     /* not 0: the states after so many tokens, twice so many ... of each sequence */
    causeway_tensor* checkpoints; /* where those go, [checkpoints, h, r, d] */
    const char* deterministic;    /* "run", "alone", "prefix", or NULL: what the method keeps */
} causeway_causal_options;

/* state: after the last token, of methods that carry one; NULL: not wanted. */
CAUSEWAY_API causeway_status causeway_causal_linear_attention(const causeway_tensor* B, const causeway_tensor* C,
                                                              const causeway_tensor* V,
                                                              const causeway_causal_options* options,
                                                              causeway_tensor* O, causeway_tensor* state);

/* Of <O, dO>. ddecay: NULL, or room for decay_count numbers; dstate only where a state was given. */
CAUSEWAY_API causeway_status causeway_causal_linear_attention_grad(const causeway_tensor* B, const causeway_tensor* C,
                                                                   const causeway_tensor* V, const causeway_tensor* dO,
                                                                   const causeway_causal_options* options,
                                                                   causeway_tensor* dB, causeway_tensor* dC,
                                                                   causeway_tensor* dV, double* ddecay,
                                                                   causeway_tensor* dstate);

/* S_t = the update of S_(t-1) by k_t and v_t, o_t = scale S_t^T q_t. q, k [b, h, N, d_k], v [b, h, N, d_v]; q may have
 * a multiple of the heads of k and v, and v of those of k. O [b, h, N, d_v], the type of q. */
typedef struct causeway_linear_options {
    size_t size;                      /* sizeof(causeway_linear_options) */
    const char* update;               /* NULL: "linear" */
    const char* mode;                 /* NULL: "chunkwise" */
    int64_t chunk;                    /* 0: 64 */
    const double* scale;              /* factor on q; NULL: 1 */
    const causeway_tensor* log_decay; /* <= 0: [b, h, N], or [b, h, N, d_k]; for the gated updates */
    const causeway_tensor* beta;      /* [b, h, N]; for the delta updates */
    const causeway_tensor* state;     /* to start from, [b, h, d_k, d_v]; NULL: zeros */
    const int64_t* cu_seqlens;        /* of packed sequences with b = 1: cu_seqlens_count offsets from 0 to N */
    int64_t cu_seqlens_count;
    const int64_t*
        state_indices; /* `state` is a pool [slots, h, d_k, d_v]: the slot of each sequence, counted from 0 */
    int64_t state_indices_count;
    int32_t inplace;              /* not 0: the last states are written to where the first ones came from, in `state` */
    int64_t checkpoint_every;     /* not 0: the states after so many tokens, twice so many ... of each sequence */
    causeway_tensor* checkpoints; /* where those go, [checkpoints, h, d_k, d_v] */
    const char* deterministic;    /* NULL: "prefix" */
    int32_t qk_l2norm;            /* not 0: q and k are first divided by their lengths, sqrt(sum x^2 + 1e-6) */
} causeway_linear_options;

/* state: after the last token, [b, h, d_k, d_v], of packed sequences [n, h, d_k, d_v]; NULL: not wanted. */
CAUSEWAY_API causeway_status causeway_linear_attention(const causeway_tensor* q, const causeway_tensor* k,
                                                       const causeway_tensor* v, const causeway_linear_options* options,
                                                       causeway_tensor* O, causeway_tensor* state);

/* Where the gradients go; NULL: not wanted. dlog_decay and dbeta belong to the updates that have them. */
typedef struct causeway_linear_gradients {
    size_t size; /* sizeof(causeway_linear_gradients) */
    causeway_tensor *dq, *dk, *dv, *dlog_decay, *dbeta;
    causeway_tensor* dinitial; /* with respect to the state before the first token */
} causeway_linear_gradients;

/* Of <O, dO> + <final state, dstate>; dstate NULL: zeros. */
CAUSEWAY_API causeway_status causeway_linear_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                            const causeway_tensor* v, const causeway_tensor* dO,
                                                            const causeway_tensor* dstate,
                                                            const causeway_linear_options* options,
                                                            const causeway_linear_gradients* gradients);

/* 1 to 16 tokens that advance `state` in place, Float32 or, for Float64 inputs, Float64. A contiguous state and O are
 * read and written where they lie. mode, chunk, state and cu_seqlens are not among its options. */
CAUSEWAY_API causeway_status causeway_linear_attention_step(const causeway_tensor* q, const causeway_tensor* k,
                                                            const causeway_tensor* v,
                                                            const causeway_linear_options* options,
                                                            causeway_tensor* state, causeway_tensor* O);

/* The general rule, S_t = (diag(a_t) - u_t w_t^T) S_(t-1) + k_t v_t^T, o_t = scale S_t^T q_t; the rest as there. */
typedef struct causeway_general_options {
    size_t size;              /* sizeof(causeway_general_options) */
    const char* mode;         /* NULL: "chunkwise" */
    int64_t chunk;            /* 0: 24 */
    const double* scale;      /* factor on q; NULL: 1 */
    const causeway_tensor* a; /* [b, h, N] or [b, h, N, d_k]; NULL: 1 */
    const causeway_tensor* u; /* [b, h, N, d_k], with w or not at all */
    const causeway_tensor* w;
    const causeway_tensor* state; /* as in causeway_linear_options, and so are all that follow */
    const int64_t* cu_seqlens;
    int64_t cu_seqlens_count;
    const int64_t* state_indices;
    int64_t state_indices_count;
    int32_t inplace;
    int64_t checkpoint_every;
    causeway_tensor* checkpoints;
    const char* deterministic;
} causeway_general_options;

CAUSEWAY_API causeway_status causeway_general_linear_attention(const causeway_tensor* q, const causeway_tensor* k,
                                                               const causeway_tensor* v,
                                                               const causeway_general_options* options,
                                                               causeway_tensor* O, causeway_tensor* state);

/* Where the gradients go; NULL: not wanted. da, du and dw where a, u and w were given. */
typedef struct causeway_general_gradients {
    size_t size; /* sizeof(causeway_general_gradients) */
    causeway_tensor *dq, *dk, *dv, *da, *du, *dw;
    causeway_tensor* dinitial; /* with respect to the state before the first token */
} causeway_general_gradients;

CAUSEWAY_API causeway_status causeway_general_linear_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                                    const causeway_tensor* v, const causeway_tensor* dO,
                                                                    const causeway_tensor* dstate,
                                                                    const causeway_general_options* options,
                                                                    const causeway_general_gradients* gradients);

/* As causeway_linear_attention_step. */
CAUSEWAY_API causeway_status causeway_general_linear_attention_step(const causeway_tensor* q, const causeway_tensor* k,
                                                                    const causeway_tensor* v,
                                                                    const causeway_general_options* options,
                                                                    causeway_tensor* state, causeway_tensor* O);

/* y_t = f(bias + sum_i w_i x_(t - taps + 1 + i)), each channel by itself. x, y [b, N, channels], weight [channels,
 * taps], bias [channels] or NULL; activation "none" (NULL) or "silu"; initial [b, taps - 1, channels], the inputs
 * before the first token, NULL: zeros; cu_seqlens as elsewhere, NULL and 0: one sequence. state: the last inputs. */
CAUSEWAY_API causeway_status causeway_short_convolution(const causeway_tensor* x, const causeway_tensor* weight,
                                                        const causeway_tensor* bias, const causeway_tensor* initial,
                                                        const char* activation, const int64_t* cu_seqlens,
                                                        int64_t cu_seqlens_count, causeway_tensor* y,
                                                        causeway_tensor* state);

/* Of <y, dy> + <state, dstate>; dstate NULL: zeros. dbias only with a bias; dinitial: of the inputs before the first.
 */
CAUSEWAY_API causeway_status causeway_short_convolution_grad(const causeway_tensor* x, const causeway_tensor* weight,
                                                             const causeway_tensor* bias,
                                                             const causeway_tensor* initial, const char* activation,
                                                             const int64_t* cu_seqlens, int64_t cu_seqlens_count,
                                                             const causeway_tensor* dy, const causeway_tensor* dstate,
                                                             causeway_tensor* dx, causeway_tensor* dweight,
                                                             causeway_tensor* dbias, causeway_tensor* dinitial);

/* y = x / sqrt(sum x^2 + eps) over the last dimension; eps NULL: 1e-6. */
CAUSEWAY_API causeway_status causeway_l2norm(const causeway_tensor* x, const double* eps, causeway_tensor* y);
CAUSEWAY_API causeway_status causeway_l2norm_grad(const causeway_tensor* x, const double* eps,
                                                  const causeway_tensor* dy, causeway_tensor* dx);

/* y = x / sqrt(mean x^2 + eps) * weight * f(gate) over the last dimension. weight [width] and gate, like x, or NULL;
 * activation, which is f, "silu" (NULL) or "sigmoid". */
CAUSEWAY_API causeway_status causeway_rms_norm(const causeway_tensor* x, const causeway_tensor* weight,
                                               const causeway_tensor* gate, const char* activation, const double* eps,
                                               causeway_tensor* y);
CAUSEWAY_API causeway_status causeway_rms_norm_grad(const causeway_tensor* x, const causeway_tensor* weight,
                                                    const causeway_tensor* gate, const char* activation,
                                                    const double* eps, const causeway_tensor* dy, causeway_tensor* dx,
                                                    causeway_tensor* dweight, causeway_tensor* dgate);

/* g = -e^A_log softplus(a + dt_bias), or with lower_bound = L g = L sigmoid(e^A_log (a + dt_bias)): the log_decay of
 * causeway_linear_attention. a [b, h, N] or [b, h, N, d_k], A_log [h], dt_bias [h] or [h, d_k], NULL: 0. */
CAUSEWAY_API causeway_status causeway_decay_gate(const causeway_tensor* a, const causeway_tensor* A_log,
                                                 const causeway_tensor* dt_bias, const double* lower_bound,
                                                 causeway_tensor* g);
CAUSEWAY_API causeway_status causeway_decay_gate_grad(const causeway_tensor* a, const causeway_tensor* A_log,
                                                      const causeway_tensor* dt_bias, const double* lower_bound,
                                                      const causeway_tensor* dg, causeway_tensor* da,
                                                      causeway_tensor* dA_log, causeway_tensor* ddt_bias);

/* O = softmax(scale q k^T) v. q [b, h_q, N, d], k [b, h, M, d], v [b, h, M, d_v]; h_q a multiple of h. */
typedef struct causeway_softmax_options {
    size_t size;               /* sizeof(causeway_softmax_options) */
    const char* method;        /* NULL: "flash" */
    const double* scale;       /* NULL: 1 / sqrt(d) */
    int32_t sees_all_keys;     /* 0: causal, the queries are the last N of the M positions */
    const int64_t* cu_seqlens; /* of packed sequences with b = 1, in q as in k and v: cu_seqlens_count offsets */
    int64_t cu_seqlens_count;
} causeway_softmax_options;

/* lse: the log-sum-exp of the scaled scores of every query, [b, h_q, N]; NULL: not wanted. */
CAUSEWAY_API causeway_status causeway_softmax_attention(const causeway_tensor* q, const causeway_tensor* k,
                                                        const causeway_tensor* v,
                                                        const causeway_softmax_options* options, causeway_tensor* O,
                                                        causeway_tensor* lse);

/* Of <O, dO>. O and lse: what the forward pass returned, or both NULL: it is run again. */
CAUSEWAY_API causeway_status causeway_softmax_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                             const causeway_tensor* v, const causeway_tensor* dO,
                                                             const causeway_tensor* O, const causeway_tensor* lse,
                                                             const causeway_softmax_options* options,
                                                             causeway_tensor* dq, causeway_tensor* dk,
                                                             causeway_tensor* dv);

/* B C^T near exp(scale q k^T), or the factorisation's own kernel. q, k [b, h, N, d]; B, C [b, h, N, rank]. */
typedef struct causeway_lowrank_options {
    size_t size;              /* sizeof(causeway_lowrank_options) */
    int64_t rank;             /* 0: the factorisation's */
    const uint64_t* seed;     /* NULL: drawn from the process's own generator */
    const double* scale;      /* NULL: 1 / sqrt(d) */
    const causeway_tensor* v; /* values, whose lengths weigh the keys, where the factorisation takes them */
    const char* const* names; /* options of the factorisation, with a value each; truth values 0 and 1 */
    const double* values;
    int64_t count;
} causeway_lowrank_options;

CAUSEWAY_API causeway_status causeway_lowrank(const char* name, const causeway_tensor* q, const causeway_tensor* k,
                                              const causeway_lowrank_options* options, causeway_tensor* B,
                                              causeway_tensor* C);

#ifdef __cplusplus
}
#endif

#endif
