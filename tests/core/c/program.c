/* A program in C that calls the C interface: it holds results to plain loops, and says what does not hold. */
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "causeway.h"

static int failures = 0;

static void check(int right, const char* what) {
    if (right) return;
    ++failures;
    printf("%s does not hold (last error: %s)\n", what, causeway_last_error());
}

static void succeeds(causeway_status status, const char* what) {
    if (status == CAUSEWAY_OK) return;
    ++failures;
    printf("%s: status %d, %s\n", what, (int)status, causeway_last_error());
}

static void refuses(causeway_status status, causeway_status expected, const char* sentence) {
    if (status == expected && strstr(causeway_last_error(), sentence)) return;
    ++failures;
    printf("expected status %d and \"%s\", got %d and \"%s\"\n", (int)expected, sentence, (int)status,
           causeway_last_error());
}

/* Numbers of both signs, the same on every machine. */
static double next_number(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / 4503599627370496.0 - 1;
}

enum { b = 2, h = 3, N = 37, r = 5, d = 7 };

static double q[b * h * N * r], k[b * h * N * r], v[b * h * N * d], dO[b * h * N * d], g[b * h * N];
static const int64_t of_keys[4] = {b, h, N, r}, of_values[4] = {b, h, N, d}, of_gates[3] = {b, h, N};

static causeway_tensor array(double* data, int32_t ndim, const int64_t* shape) {
    return causeway_contiguous(data, CAUSEWAY_FLOAT64, ndim, shape);
}

static int near(const double* x, const double* y, int n) {
    int i;
    for (i = 0; i < n; ++i)
        if (!(fabs(x[i] - y[i]) <= 1e-10 * (1 + fabs(y[i])))) return 0;
    return 1;
}

/* The gated recurrence, token by token: O, and the state of every head after the last token. */
static void plain_gated(double* O, double* state) {
    int head, t, i, j;
    memset(state, 0, sizeof(double) * b * h * r * d);
    for (head = 0; head < b * h; ++head) {
        double* const S = state + head * r * d;
        for (t = 0; t < N; ++t) {
            const int row = head * N + t;
            for (j = 0; j < d; ++j) O[row * d + j] = 0;
            for (i = 0; i < r; ++i) {
                for (j = 0; j < d; ++j) {
                    S[i * d + j] = exp(g[row]) * S[i * d + j] + k[row * r + i] * v[row * d + j];
                    O[row * d + j] += q[row * r + i] * S[i * d + j];
                }
            }
        }
    }
}

static double expected[b * h * N * d], expected_state[b * h * r * d], out[b * h * N * d], state[b * h * r * d];

static void names_and_version(void) {
    int64_t i = 0;
    int fleet = 0;
    const char* name;
    check(strcmp(causeway_version(), CAUSEWAY_VERSION) == 0, "the library has the version of its header");
    while ((name = causeway_name("methods", i++))) fleet += strcmp(name, "fleet") == 0;
    check(fleet == 1 && i > 5, "fleet is one of the methods");
    check(strcmp(causeway_name("updates", 0), "linear") == 0, "linear is the first update");
    check(causeway_name("lowrank", 1000) == NULL, "a list ends");
    check(causeway_name("modules", 0) == NULL && strstr(causeway_last_error(), "list: "), "an unknown list is refused");
    refuses(causeway_set_threads(0), CAUSEWAY_BAD_ARGUMENT, "0");
    succeeds(causeway_set_threads(2), "two threads");
    check(causeway_threads() == 2, "there are two threads");
}

static void linear_attention(void) {
    const causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    const causeway_tensor tg = array(g, 3, of_gates);
    const int64_t of_state[4] = {b, h, r, d};
    causeway_tensor O = array(out, 4, of_values), S = array(state, 4, of_state), own = {0};
    causeway_linear_options options = {sizeof options};
    options.update = "gated";
    options.log_decay = &tg;
    plain_gated(expected, expected_state);
    succeeds(causeway_linear_attention(&tq, &tk, &tv, &options, &O, &S), "linear attention");
    check(near(out, expected, b * h * N * d), "linear attention is the recurrence");
    check(near(state, expected_state, b * h * r * d), "the state is that after the last token");

    /* Memory of the library's, and a state that is not wanted. */
    succeeds(causeway_linear_attention(&tq, &tk, &tv, &options, &own, NULL), "an output of the library's");
    check(own.owner && own.ndim == 4 && own.shape[2] == N && own.strides[1] == N * d, "the output says its shape");
    check(memcmp(own.data, out, sizeof out) == 0, "the output is the same");
    causeway_release(&own);
    check(!own.data && !own.owner, "what is released is gone");
    causeway_release(&own);
    causeway_release(NULL);
}

/* The order [batch, length, heads, width] of other libraries, by strides, in and out. */
static void strides(void) {
    static double turned_q[b * h * N * r], turned_out[b * h * N * d];
    const causeway_tensor tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    causeway_tensor tq = array(turned_q, 4, of_keys), O = array(turned_out, 4, of_values),
                    plain = array(out, 4, of_values);
    const causeway_tensor straight = array(q, 4, of_keys);
    int i, head, t, j, same = 1;
    tq.strides[0] = N * h * r, tq.strides[1] = r, tq.strides[2] = h * r;
    O.strides[0] = N * h * d, O.strides[1] = d, O.strides[2] = h * d;
    for (i = 0; i < b; ++i)
        for (head = 0; head < h; ++head)
            for (t = 0; t < N; ++t)
                for (j = 0; j < r; ++j)
                    turned_q[((i * N + t) * h + head) * r + j] = q[((i * h + head) * N + t) * r + j];
    succeeds(causeway_linear_attention(&tq, &tk, &tv, NULL, &O, NULL), "strided arrays");
    succeeds(causeway_linear_attention(&straight, &tk, &tv, NULL, &plain, NULL), "contiguous arrays");
    for (i = 0; i < b; ++i)
        for (head = 0; head < h; ++head)
            for (t = 0; t < N; ++t)
                for (j = 0; j < d; ++j)
                    same &= turned_out[((i * N + t) * h + head) * d + j] == out[((i * h + head) * N + t) * d + j];
    check(same, "strides change no bit");

    /* A row that is repeated by a stride of 0, and one that lies backwards. */
    {
        double row[r], ones[N * r];
        const int64_t one_head[2] = {N, r}, one_value[2] = {N, d};
        causeway_tensor repeated = array(row, 2, one_head), filled = array(ones, 2, one_head);
        causeway_tensor first = array(out, 2, one_value), second = array(turned_out, 2, one_value);
        const causeway_tensor keys = array(k, 2, one_head), values = array(v, 2, one_value);
        repeated.strides[0] = 0;
        repeated.strides[1] = -1;
        repeated.data = row + r - 1;
        for (j = 0; j < r; ++j) row[r - 1 - j] = j + 1;
        for (j = 0; j < N * r; ++j) ones[j] = j % r + 1;
        succeeds(causeway_linear_attention(&repeated, &keys, &values, NULL, &first, NULL), "a repeated row");
        succeeds(causeway_linear_attention(&filled, &keys, &values, NULL, &second, NULL), "rows written out");
        check(memcmp(out, turned_out, sizeof(double) * N * d) == 0, "a stride of 0 repeats a row");
        second.strides[0] = 0;
        refuses(causeway_linear_attention(&filled, &keys, &values, NULL, &second, NULL), CAUSEWAY_BAD_ARGUMENT,
                "O: strides[0] is 0 where shape[0] is");
    }
}

/* One token after the other from an empty state: the rows and the last state of the whole sequence. */
static void steps(void) {
    const int64_t key[4] = {b, h, 1, r}, value[4] = {b, h, 1, d}, of_state[4] = {b, h, r, d}, gate[3] = {b, h, 1};
    static double advanced[b * h * r * d], row[b * h * d];
    int t, head, right = 1;
    plain_gated(expected, expected_state);
    for (t = 0; t < N; ++t) {
        causeway_tensor tq = array(q + t * r, 4, key), tk = array(k + t * r, 4, key), tv = array(v + t * d, 4, value);
        causeway_tensor tg = array(g + t, 3, gate), S = array(advanced, 4, of_state), O = array(row, 4, value);
        causeway_linear_options options = {sizeof options};
        tq.strides[0] = tk.strides[0] = h * N * r, tq.strides[1] = tk.strides[1] = N * r;
        tv.strides[0] = h * N * d, tv.strides[1] = N * d;
        tg.strides[0] = h * N, tg.strides[1] = N;
        options.update = "gated";
        options.log_decay = &tg;
        succeeds(causeway_linear_attention_step(&tq, &tk, &tv, &options, &S, &O), "a step");
        for (head = 0; head < b * h; ++head) right &= near(row + head * d, expected + (head * N + t) * d, d);
    }
    check(right, "steps give the rows of the sequence");
    check(near(advanced, expected_state, b * h * r * d), "steps end in the state of the sequence");
    {
        causeway_tensor tq = array(q, 4, key), tk = array(k, 4, key), tv = array(v, 4, value);
        causeway_tensor S = array(advanced, 4, of_state), O = {0};
        succeeds(causeway_linear_attention_step(&tq, &tk, &tv, NULL, &S, &O), "a step with an output of the library's");
        check(O.owner && O.shape[2] == 1 && O.shape[3] == d, "its output has the shape of one token");
        causeway_release(&O);
        O = S;
        refuses(causeway_linear_attention_step(&tq, &tk, &tv, NULL, &S, &O), CAUSEWAY_BAD_ARGUMENT, "O: ");
    }
}

static double weighted(const causeway_linear_options* options) {
    const causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    causeway_tensor O = array(out, 4, of_values);
    double sum = 0;
    int i;
    succeeds(causeway_linear_attention(&tq, &tk, &tv, options, &O, NULL), "the function of a derivative");
    for (i = 0; i < b * h * N * d; ++i) sum += out[i] * dO[i];
    return sum;
}

static double slope(double* x, const causeway_linear_options* options) {
    const double before = *x, width = 1e-5;
    double up, down;
    *x = before + width;
    up = weighted(options);
    *x = before - width;
    down = weighted(options);
    *x = before;
    return (up - down) / (2 * width);
}

static void gradients(void) {
    const causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    const causeway_tensor tg = array(g, 3, of_gates), tdO = array(dO, 4, of_values);
    causeway_tensor dq = {0}, dk = {0}, dv = {0}, dg = {0}, dbeta = {0};
    causeway_linear_options options = {sizeof options};
    causeway_linear_gradients wanted = {sizeof wanted};
    const int at = (h + 1) * N + 11; /* a token in the middle of a head */
    options.update = "gated";
    options.log_decay = &tg;
    wanted.dq = &dq, wanted.dk = &dk, wanted.dv = &dv, wanted.dlog_decay = &dg;
    succeeds(causeway_linear_attention_grad(&tq, &tk, &tv, &tdO, NULL, &options, &wanted), "gradients");
    if (dq.data && dk.data && dv.data && dg.data) {
        check(fabs(((double*)dq.data)[at * r] - slope(q + at * r, &options)) < 1e-6, "dq is the derivative");
        check(fabs(((double*)dk.data)[at * r] - slope(k + at * r, &options)) < 1e-6, "dk is the derivative");
        check(fabs(((double*)dv.data)[at * d] - slope(v + at * d, &options)) < 1e-6, "dv is the derivative");
        check(fabs(((double*)dg.data)[at] - slope(g + at, &options)) < 1e-6, "dlog_decay is the derivative");
    }
    causeway_release(&dq);
    causeway_release(&dk);
    causeway_release(&dv);
    causeway_release(&dg);
    wanted.dbeta = &dbeta;
    refuses(causeway_linear_attention_grad(&tq, &tk, &tv, &tdO, NULL, &options, &wanted), CAUSEWAY_BAD_ARGUMENT,
            "dbeta: ");
    check(!dq.data && !dbeta.data, "nothing is handed out where one output is refused");
}

static void causal_linear_attention(void) {
    const causeway_tensor B = array(q, 4, of_keys), C = array(k, 4, of_keys), V = array(v, 4, of_values);
    const causeway_tensor tdO = array(dO, 4, of_values);
    causeway_tensor O = array(out, 4, of_values), dB = {0};
    causeway_causal_options options = {sizeof options};
    const double decay = 0.9, scale = 0.5;
    double ddecay = 0, sums[2] = {0, 0};
    int head, i, j, l, side;
    options.method = "block-based";
    options.scale = &scale;
    options.decay_count = 1;
    for (side = 0; side < 2; ++side) {
        const double near_decay = decay + (side ? 1e-6 : -1e-6);
        options.decay = &near_decay;
        succeeds(causeway_causal_linear_attention(&B, &C, &V, &options, &O, NULL), "with another decay");
        for (i = 0; i < b * h * N * d; ++i) sums[side] += out[i] * dO[i];
    }
    options.decay = &decay;
    succeeds(causeway_causal_linear_attention(&B, &C, &V, &options, &O, NULL), "causal linear attention");
    memset(expected, 0, sizeof expected);
    for (head = 0; head < b * h; ++head)
        for (i = 0; i < N; ++i)
            for (j = 0; j <= i; ++j) {
                double weight = 0;
                for (l = 0; l < r; ++l) weight += q[(head * N + i) * r + l] * k[(head * N + j) * r + l];
                weight *= scale * pow(decay, i - j);
                for (l = 0; l < d; ++l) expected[(head * N + i) * d + l] += weight * v[(head * N + j) * d + l];
            }
    check(near(out, expected, b * h * N * d), "causal linear attention is its formula");
    succeeds(causeway_causal_linear_attention_grad(&B, &C, &V, &tdO, &options, &dB, NULL, NULL, &ddecay, NULL),
             "its gradient");
    check(fabs(ddecay - (sums[1] - sums[0]) / 2e-6) < 1e-5 * (1 + fabs(ddecay)), "ddecay is the derivative");
    check(dB.ndim == 4 && dB.shape[3] == r, "dB has the shape of B");
    causeway_release(&dB);
    options.method = "flete";
    refuses(causeway_causal_linear_attention(&B, &C, &V, &options, &O, NULL), CAUSEWAY_BAD_ARGUMENT, "fleet");
}

static void softmax_attention(void) {
    const causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    const causeway_tensor tdO = array(dO, 4, of_values);
    causeway_tensor O = array(out, 4, of_values), lse = {0}, dq = {0}, again = {0};
    int head, i, j, l, right = 1;
    succeeds(causeway_softmax_attention(&tq, &tk, &tv, NULL, &O, &lse), "softmax attention");
    if (!lse.data) return;
    memset(expected, 0, sizeof expected);
    for (head = 0; head < b * h; ++head)
        for (i = 0; i < N; ++i) {
            double total = 0, *row = expected + (head * N + i) * d;
            for (j = 0; j <= i; ++j) {
                double score = 0;
                for (l = 0; l < r; ++l) score += q[(head * N + i) * r + l] * k[(head * N + j) * r + l];
                score = exp(score / sqrt(r));
                total += score;
                for (l = 0; l < d; ++l) row[l] += score * v[(head * N + j) * d + l];
            }
            for (l = 0; l < d; ++l) row[l] /= total;
            right &= fabs(((double*)lse.data)[head * N + i] - log(total)) < 1e-10;
        }
    check(near(out, expected, b * h * N * d), "softmax attention is its formula");
    check(right && lse.ndim == 3, "lse is the log-sum-exp of the scores");
    succeeds(causeway_softmax_attention_grad(&tq, &tk, &tv, &tdO, &O, &lse, NULL, &dq, NULL, NULL), "its gradient");
    succeeds(causeway_softmax_attention_grad(&tq, &tk, &tv, &tdO, NULL, NULL, NULL, &again, NULL, NULL),
             "without O and lse");
    if (dq.data && again.data) check(near(dq.data, again.data, b * h * N * r), "both gradients are the same");
    refuses(causeway_softmax_attention_grad(&tq, &tk, &tv, &tdO, &O, NULL, NULL, &dq, NULL, NULL),
            CAUSEWAY_BAD_ARGUMENT, "lse: NULL");
    causeway_release(&lse);
    causeway_release(&dq);
    causeway_release(&again);
}

static void lowrank(void) {
    const causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys);
    causeway_tensor B = {0}, C = {0};
    causeway_lowrank_options options = {sizeof options};
    const char* names[1] = {"orders"};
    const double values[1] = {2};
    options.rank = N; /* as many as there are tokens: exact */
    succeeds(causeway_lowrank("svd", &tq, &tk, &options, &B, &C), "factors");
    if (B.data && C.data) {
        double weight = 0, product = 0;
        int l;
        for (l = 0; l < r; ++l) weight += q[3 * r + l] * k[9 * r + l];
        for (l = 0; l < N; ++l) product += ((double*)B.data)[3 * N + l] * ((double*)C.data)[9 * N + l];
        check(B.shape[3] == N && fabs(product - exp(weight / sqrt(r))) < 1e-9, "factors of full rank are exact");
    }
    causeway_release(&B);
    causeway_release(&C);
    options.names = names, options.values = values, options.count = 1;
    refuses(causeway_lowrank("svd", &tq, &tk, &options, &B, &C), CAUSEWAY_BAD_ARGUMENT, "orders");
}

static void refusals(void) {
    causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values), bad;
    causeway_tensor O = array(out, 4, of_values), small = array(out, 4, of_keys);
    causeway_linear_options options = {0};
    struct {
        causeway_linear_options known;
        int64_t later;
    } newer;
    const causeway_status wrong = CAUSEWAY_BAD_ARGUMENT;
    out[0] = 12345;
    refuses(causeway_linear_attention(NULL, &tk, &tv, NULL, &O, NULL), wrong, "q: NULL, expected a tensor");
    refuses(causeway_linear_attention(&tq, &tk, &tv, NULL, NULL, NULL), wrong, "O: NULL, expected");
    refuses(causeway_linear_attention(&tq, &tk, &tv, NULL, &small, NULL), wrong,
            "O: 2\xC3\x97"
            "3\xC3\x97"
            "37\xC3\x97"
            "5, expected");
    refuses(causeway_linear_attention(&tq, &tk, &tv, &options, &O, NULL), wrong, "options: size 0, expected");
    memset(&newer, 0, sizeof newer);
    newer.known.size = sizeof newer;
    newer.later = 1;
    refuses(causeway_linear_attention(&tq, &tk, &tv, &newer.known, &O, NULL), wrong, "options: has a member");
    options.size = sizeof options;
    options.chunk = -1;
    refuses(causeway_linear_attention(&tq, &tk, &tv, &options, &O, NULL), wrong, "chunk: -1");
    bad = tk, bad.type = 9;
    refuses(causeway_linear_attention(&tq, &bad, &tv, NULL, &O, NULL), wrong, "k: type 9");
    bad = tk, bad.ndim = 5;
    refuses(causeway_linear_attention(&tq, &bad, &tv, NULL, &O, NULL), wrong, "k: ndim 5");
    bad = tk, bad.shape[1] = -2;
    refuses(causeway_linear_attention(&tq, &bad, &tv, NULL, &O, NULL), wrong, "k: shape[1] is -2");
    bad = tk, bad.data = NULL;
    refuses(causeway_linear_attention(&tq, &bad, &tv, NULL, &O, NULL), wrong, "k: data is NULL");
    bad = tk, bad.shape[2] = N - 1;
    refuses(causeway_linear_attention(&tq, &bad, &tv, NULL, &O, NULL), wrong, "k: length 36, expected 37");
    check(out[0] == 12345, "an output is as it was after a call that failed");
    /* More than any machine has. */
    bad = tq, bad.shape[2] = (int64_t)1 << 50, bad.strides[0] = bad.strides[1] = bad.strides[2] = 0;
    refuses(causeway_linear_attention(&bad, &bad, &bad, NULL, &O, NULL), CAUSEWAY_OUT_OF_MEMORY, "out of memory");
    newer.later = 0;
    succeeds(causeway_linear_attention(&tq, &tk, &tv, &newer.known, &O, NULL), "a larger struct whose rest is 0");
}

/* The same rule by the general one, whole, in place in a pool and in steps. */
static void general_rule(void) {
    static double state[b * h * r * d], plain[b * h * N * d], pool[(b + 1) * h * r * d], decays[b * h * N];
    static const int64_t of_pool[4] = {b + 1, h, r, d}, slots[b] = {2, 0};
    static const int64_t one_token[4] = {1, 1, 1, r}, of_value[4] = {1, 1, 1, d}, one_gate[3] = {1, 1, 1};
    static const int64_t one_state[4] = {1, 1, r, d};
    causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    causeway_tensor ta = array(decays, 3, of_gates), tpool = array(pool, 4, of_pool);
    causeway_tensor O = {0}, S = {0}, after = {0}, da = {0}, checkpoints = {0};
    const causeway_tensor tdO = array(dO, 4, of_values);
    causeway_general_options options = {sizeof options};
    causeway_general_gradients gradients = {sizeof gradients};
    int i, t;
    for (i = 0; i < b * h * N; ++i) decays[i] = exp(g[i]);
    plain_gated(plain, state);
    options.a = &ta;
    options.checkpoint_every = 10;
    options.checkpoints = &checkpoints;
    succeeds(causeway_general_linear_attention(&tq, &tk, &tv, &options, &O, &S), "the general rule");
    if (!O.data || !S.data) return;
    check(near(O.data, plain, b * h * N * d) && near(S.data, state, b * h * r * d), "the general rule gated");
    check(checkpoints.shape[0] == 3 * b && checkpoints.shape[3] == d, "three states of each sequence are kept");
    options.checkpoint_every = 0, options.checkpoints = NULL;
    options.state = &tpool, options.state_indices = slots, options.state_indices_count = b, options.inplace = 1;
    succeeds(causeway_general_linear_attention(&tq, &tk, &tv, &options, &after, NULL), "the general rule in a pool");
    check(near(pool + 2 * h * r * d, state, h * r * d) && near(pool, state + h * r * d, h * r * d),
          "the states are in the slots of their sequences");
    check(pool[h * r * d] == 0 && pool[2 * h * r * d - 1] == 0, "the other slot is as it was");
    options.state = NULL, options.state_indices_count = 0, options.inplace = 0;
    gradients.da = &da;
    succeeds(causeway_general_linear_attention_grad(&tq, &tk, &tv, &tdO, NULL, &options, &gradients),
             "the gradient of the general rule");
    check(da.data != NULL && da.shape[2] == N, "a has a gradient");
    memset(state, 0, sizeof state);
    for (t = 0; t < N; ++t) {
        double row[d];
        causeway_tensor step_state = array(state, 4, one_state), o = array(row, 4, of_value);
        tq = array(q + t * r, 4, one_token), tk = array(k + t * r, 4, one_token), tv = array(v + t * d, 4, of_value);
        ta = array(decays + t, 3, one_gate);
        succeeds(causeway_general_linear_attention_step(&tq, &tk, &tv, &options, &step_state, &o), "a general step");
        check(near(row, plain + t * d, d), "a general step gives the row of the whole");
    }
    causeway_release(&O), causeway_release(&S), causeway_release(&after), causeway_release(&da);
    causeway_release(&checkpoints);
}

/* A call that writes states in place, and whose outputs do not fit, leaves them as they were. */
static void states_of_failed_calls(void) {
    static double pool[b * h * r * d], before[b * h * r * d];
    static const int64_t of_state[4] = {b, h, r, d}, key[4] = {b, h, 1, r}, value[4] = {b, h, 1, d};
    const causeway_status wrong = CAUSEWAY_BAD_ARGUMENT;
    const char* const no_place = "O: strides[2] is 0";
    const causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    const causeway_tensor eq = array(q, 4, key), ek = array(k, 4, key), ev = array(v, 4, value);
    causeway_tensor S = array(pool, 4, of_state), O = array(out, 4, of_values), flat = O,
                    narrow = array(out, 4, of_keys);
    causeway_tensor one = array(out, 4, value), other_type = S, kept = S;
    causeway_linear_options options = {sizeof options};
    causeway_general_options general = {sizeof general};
    causeway_causal_options causal = {sizeof causal};
    int i;
    for (i = 0; i < b * h * r * d; ++i) pool[i] = before[i] = next_number();
    flat.strides[2] = 0;
    one.strides[1] = 0;
    other_type.type = CAUSEWAY_FLOAT32;
    options.state = general.state = causal.state = &S;
    options.inplace = general.inplace = causal.inplace = 1;
    refuses(causeway_linear_attention(&tq, &tk, &tv, &options, &flat, NULL), wrong, no_place);
    refuses(causeway_linear_attention(&tq, &tk, &tv, &options, &narrow, NULL), wrong, "O: ");
    refuses(causeway_linear_attention(&tq, &tk, &tv, &options, &O, &other_type), wrong, "state: Float32");
    refuses(causeway_general_linear_attention(&tq, &tk, &tv, &general, &flat, NULL), wrong, no_place);
    refuses(causeway_causal_linear_attention(&tq, &tk, &tv, &causal, &flat, NULL), wrong, no_place);
    refuses(causeway_causal_linear_attention(&tq, &tk, &tv, &causal, &O, &other_type), wrong, "state: Float32");
    options.checkpoint_every = causal.checkpoint_every = 10; /* 3 of each sequence, where there is room for one */
    options.checkpoints = causal.checkpoints = &kept;
    refuses(causeway_linear_attention(&tq, &tk, &tv, &options, &O, NULL), wrong, "checkpoints: ");
    refuses(causeway_causal_linear_attention(&tq, &tk, &tv, &causal, &O, NULL), wrong, "checkpoints: ");
    refuses(causeway_linear_attention_step(&eq, &ek, &ev, NULL, &S, &one), wrong, "O: strides[1] is 0");
    refuses(causeway_general_linear_attention_step(&eq, &ek, &ev, NULL, &S, &one), wrong, "O: strides[1] is 0");
    check(memcmp(pool, before, sizeof pool) == 0, "calls that failed advance no state");
    options.checkpoint_every = 0, options.checkpoints = NULL;
    succeeds(causeway_linear_attention(&tq, &tk, &tv, &options, &O, NULL), "the same in place");
    check(memcmp(pool, before, sizeof pool) != 0, "a call that succeeds advances the state");
}

/* Norms, gates and the short convolution of one channel. */
static void around(void) {
    static const int64_t of_channel[3] = {1, N, 1}, of_taps[2] = {1, 2}, of_heads[1] = {h}, of_rows[2] = {h, N};
    double taps[2] = {0.5, 2}, rates[h] = {0, 0, 0}, eps = 0, sum = 0, length = 0;
    causeway_tensor x = array(q, 3, of_channel), weight = array(taps, 2, of_taps), y = {0}, state = {0}, dx = {0};
    causeway_tensor rows = array(g, 2, of_rows), A_log = array(rates, 1, of_heads), gates = {0}, unit = {0}, norm = {0};
    int t, right = 1;
    succeeds(causeway_short_convolution(&x, &weight, NULL, NULL, NULL, NULL, 0, &y, &state), "a short convolution");
    if (!y.data || !state.data) return;
    for (t = 0; t < N; ++t)
        if (!(fabs(((double*)y.data)[t] - (2 * q[t] + (t ? 0.5 * q[t - 1] : 0))) < 1e-12)) right = 0;
    check(right && ((double*)state.data)[0] == q[N - 1], "two taps weigh a token and the one before it");
    succeeds(causeway_short_convolution_grad(&x, &weight, NULL, NULL, NULL, NULL, 0, &y, NULL, &dx, NULL, NULL, NULL),
             "the gradient of a short convolution");
    refuses(causeway_short_convolution(&x, &weight, NULL, NULL, "relu", NULL, 0, &y, NULL), CAUSEWAY_BAD_ARGUMENT,
            "relu");
    succeeds(causeway_l2norm(&rows, &eps, &unit), "a norm");
    succeeds(causeway_rms_norm(&rows, NULL, NULL, NULL, &eps, &norm), "a norm of the mean");
    if (!unit.data || !norm.data) return;
    for (t = 0; t < N; ++t) sum += ((double*)unit.data)[t] * ((double*)unit.data)[t], length += g[t] * g[t];
    check(fabs(sum - 1) < 1e-12, "a row has length one");
    check(fabs(((double*)norm.data)[3] - g[3] / sqrt(length / N)) < 1e-12, "a row has mean square one");
    succeeds(causeway_decay_gate(&rows, &A_log, NULL, NULL, &gates), "a gate");
    if (gates.data) check(fabs(((double*)gates.data)[5] + log1p(exp(g[5]))) < 1e-12, "a gate is -softplus(a)");
    causeway_release(&y), causeway_release(&state), causeway_release(&dx), causeway_release(&unit);
    causeway_release(&norm), causeway_release(&gates);
}

/* A request stops calls until it is cleared; SIGINT is one where the program asks for that. */
static void interrupts(void) {
    const causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    causeway_tensor O = {0};
    causeway_interrupt();
    refuses(causeway_linear_attention(&tq, &tk, &tv, NULL, &O, NULL), CAUSEWAY_INTERRUPTED, "interrupted");
    causeway_clear_interrupt();
    succeeds(causeway_linear_attention(&tq, &tk, &tv, NULL, &O, NULL), "a call after the request was cleared");
    causeway_release(&O);
    signal(SIGINT, SIG_IGN);
    check(causeway_begin_interruptible() == 1 && causeway_begin_interruptible() == 0, "one at a time");
    raise(SIGINT);
    refuses(causeway_linear_attention(&tq, &tk, &tv, NULL, &O, NULL), CAUSEWAY_INTERRUPTED, "interrupted");
    check(causeway_end_interruptible() == 1 && causeway_end_interruptible() == 0, "one SIGINT was seen");
    check(signal(SIGINT, SIG_DFL) == SIG_IGN, "the handler of before is back");
    causeway_interrupt();
    check(causeway_begin_interruptible() == 1, "after a request");
    refuses(causeway_linear_attention(&tq, &tk, &tv, NULL, &O, NULL), CAUSEWAY_INTERRUPTED, "interrupted");
    check(causeway_end_interruptible() == 0, "the end clears a request of before, which was no SIGINT");
    succeeds(causeway_linear_attention(&tq, &tk, &tv, NULL, &O, NULL), "a call after the end");
    causeway_release(&O);
}

/* A struct of the header before this one, which ends earlier. */
static void older_program(void) {
    const causeway_tensor tq = array(q, 4, of_keys), tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    causeway_tensor O = {0};
    causeway_linear_options options = {offsetof(causeway_linear_options, state_indices)};
    options.checkpoint_every = -5; /* beyond its size */
    succeeds(causeway_linear_attention(&tq, &tk, &tv, &options, &O, NULL), "a struct of an older header");
    options.size -= sizeof(void*);
    refuses(causeway_linear_attention(&tq, &tk, &tv, &options, &O, NULL), CAUSEWAY_BAD_ARGUMENT, "options: size");
    causeway_release(&O);
}

/* Memory that no element starts at a multiple of its size in, as a part of a file has it. */
static void unaligned(void) {
    static unsigned char bytes[sizeof q + 1];
    causeway_tensor tq = array(q, 4, of_keys), odd = tq;
    const causeway_tensor tk = array(k, 4, of_keys), tv = array(v, 4, of_values);
    causeway_tensor first = {0}, second = {0};
    odd.data = bytes + 1;
    memcpy(bytes + 1, q, sizeof q);
    succeeds(causeway_linear_attention(&tq, &tk, &tv, NULL, &first, NULL), "aligned");
    succeeds(causeway_linear_attention(&odd, &tk, &tv, NULL, &second, NULL), "not aligned");
    if (first.data && second.data)
        check(memcmp(first.data, second.data, sizeof out) == 0, "an odd address changes no bit");
    causeway_release(&first);
    causeway_release(&second);
}

int main(void) {
    int i;
    for (i = 0; i < b * h * N * r; ++i) q[i] = next_number(), k[i] = next_number();
    for (i = 0; i < b * h * N * d; ++i) v[i] = next_number(), dO[i] = next_number();
    for (i = 0; i < b * h * N; ++i) g[i] = -fabs(next_number());
    check(causeway_last_error()[0] == '\0', "no error before the first");
    names_and_version();
    linear_attention();
    strides();
    steps();
    gradients();
    causal_linear_attention();
    softmax_attention();
    lowrank();
    general_rule();
    states_of_failed_calls();
    around();
    interrupts();
    older_program();
    refusals();
    unaligned();
    if (failures == 0) printf("the C interface holds\n");
    return failures == 0 ? 0 : 1;
}
