// A strip of four vectors of columns is taken through the whole head twice: first Sᵀk is summed over its rows; then the
// rows, from the last to the first since the last ones are still in the first-level cache, are rewritten and what the
// queries read is summed on the way. Memory sees one read and one write. Without the delta rule the first pass falls
// away.
#include "core/gated/step.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/around/norms.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/gated/around.hpp"
#include "core/gated/gates.hpp"
#include "core/kit/check.hpp"
#include "core/kit/simd.hpp"

namespace causeway {
namespace gated {
namespace {

using simd::lanes;
using simd::Vector;

// Gates of one token, a = e^g, for a block of rows of the state at a time: there is no bound on d_k.
template <class T>
class Decay {
public:
    static constexpr Index rows = 512;

    explicit Decay(const Head<T>& h) : g_(h.g), per_row_(h.gates > 1), count_(h.dk) {
        if (!per_row_) std::fill_n(a_, std::min(rows, count_), h.gates == 1 ? std::exp(h.g[0]) : T(1));
    }

    // e^g of rows start, start + 1, ... (start a multiple of `rows`).
    const T* block(Index start) {
        if (per_row_ && start != at_) {
            exponentials(g_ + start, std::min(rows, count_ - start), a_);
            at_ = start;
        }
        return a_;
    }

private:
    const T* g_;
    bool per_row_;
    Index count_, at_ = -1;
    alignas(64) T a_[rows];
};

// NV vectors of columns from `column` on; with `part` the last one ends at d_v.
template <class T, int NV, bool part>
class Strip {
public:
    Strip(const Head<T>& h, Decay<T>& decay, Index column)
        : h_(h), decay_(decay), column_(column), last_(h.dv - column - (NV - 1) * lanes<T>) {}

    void run() {
        load(u_, h_.v + column_);
        if (h_.beta) correct();
        const Index first = std::min<Index>(h_.group, 4);
        switch (first) {
            case 0: pass<0, true>(0); break;
            case 1: pass<1, true>(0); break;
            case 2: pass<2, true>(0); break;
            case 3: pass<3, true>(0); break;
            default: pass<4, true>(0); break;
        }
        Index i = first;
        for (; i + 4 <= h_.group; i += 4) pass<4, false>(i);
        for (; i < h_.group; ++i) pass<1, false>(i);
    }

private:
    using Row = Vector<T>[NV];

    inline __attribute__((always_inline)) void load(Row& x, const T* p) const {
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v)
            x[v] = part && v == NV - 1 ? simd::load_part(p + v * lanes<T>, last_) : simd::load(p + v * lanes<T>);
    }

    inline __attribute__((always_inline)) void store(T* p, const Row& x) const {
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) {
            if (part && v == NV - 1) simd::store_part(p + v * lanes<T>, x[v], last_);
            else simd::store(p + v * lanes<T>, x[v]);
        }
    }

    // u = β (v - (diag(a) S)ᵀ k)
    void correct() {
        Row read{}, odd{}, s;  // two sums: one would wait for itself
        for (Index start = 0; start < h_.dk; start += Decay<T>::rows) {
            const T* a = decay_.block(start);
            const T* k = h_.k + start;
            const T* S = h_.S + start * h_.dv + column_;
            const Index n = std::min(Decay<T>::rows, h_.dk - start);
            const auto add = [&](Row & sum, Index e) __attribute__((always_inline)) {
                const T ak = a[e] * k[e];
                load(s, S + e * h_.dv);
#pragma GCC unroll 8
                for (int v = 0; v < NV; ++v) sum[v] += ak * s[v];
            };
            Index e = 0;
            for (; e + 2 <= n; e += 2) add(read, e), add(odd, e + 1);
            if (e < n) add(read, e);
        }
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) u_[v] = h_.beta[0] * (u_[v] - (read[v] + odd[v]));
    }

    // o_i = scale · Sᵀ q_i for queries i, i + 1, ..., i + G - 1; with `write` S becomes diag(a) S + k uᵀ before.
    template <int G, bool write>
    void pass(Index i) {
        Row o[G > 0 ? G : 1]{}, s;
        const Index next = h_.step * h_.dk;
        const T* q = h_.q + i * next;
        for (Index start = (h_.dk - 1) / Decay<T>::rows * Decay<T>::rows; start >= 0 && h_.dk > 0;
             start -= Decay<T>::rows) {
            const T* a = write ? decay_.block(start) : nullptr;
            const Index n = std::min(Decay<T>::rows, h_.dk - start);
            for (Index e = n - 1; e >= 0; --e) {
                T* S = h_.S + (start + e) * h_.dv + column_;
                load(s, S);
                if constexpr (write) {
                    const T ae = a[e], k = h_.k[start + e];
#pragma GCC unroll 8
                    for (int v = 0; v < NV; ++v) s[v] = ae * s[v] + k * u_[v];
                    store(S, s);
                }
#pragma GCC unroll 4
                for (int g = 0; g < G; ++g) {
                    const T qe = q[g * next + start + e];
#pragma GCC unroll 8
                    for (int v = 0; v < NV; ++v) o[g][v] += qe * s[v];
                }
            }
        }
        for (int g = 0; g < G; ++g) {
            for (int v = 0; v < NV; ++v) o[g][v] *= h_.scale;
            store(h_.O + (i + g) * h_.step * h_.dv + column_, o[g]);
        }
    }

    const Head<T>& h_;
    Decay<T>& decay_;
    Index column_, last_;
    Row u_;
};

template <class T>
void step(const Head<T>& h) {
    constexpr Index wide = 4 * lanes<T>;
    Decay<T> decay(h);
    Index column = 0;
    for (; column + wide <= h.dv; column += wide) Strip<T, 4, false>(h, decay, column).run();
    for (; column + lanes<T> <= h.dv; column += lanes<T>) Strip<T, 1, false>(h, decay, column).run();
    if (column < h.dv) Strip<T, 1, true>(h, decay, column).run();
}

// A gate: where that of a head and token is, whether there is one for every head or one for all heads of a batch.
template <class T>
struct Gate {
    const T* values = nullptr;
    Index heads = 1, tokens = 1, width = 1;
    bool shared = false;

    Gate() = default;
    Gate(const Tensor& A, const Sizes& c, Index columns)
        : values(A.data<T>()),
          heads(c.heads),
          tokens(c.N),
          width(columns),
          shared(A.size() != c.batch * c.heads * c.N * columns) {}

    const T* of(Index head, Index t) const {
        return values ? values + ((shared ? head / heads : head) * tokens + t) * width : nullptr;
    }
};

// A task is a run of heads whose states have about task_bytes. States of less than serial_bytes together are one task:
// waking a thread takes longer (25 µs where it was measured) than it would save.
constexpr Index task_bytes = 1 << 18, serial_bytes = 1 << 20;

template <class T>
void step(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v, const Gate<T>& decay, const Gate<T>& beta,
          T* S, T* O, std::vector<Tensor>* states) {
    auto p = c.problem<T>();
    p.slots = c.slots;
    p.q = q.data<T>(), p.k = k.data<T>(), p.v = v.data<T>();
    p.O = O, p.S = S;
    p.scale = static_cast<T>(c.scale);
    const Index bytes = std::max<Index>(c.dk * c.dv * static_cast<Index>(sizeof(T)), 1);
    const Index heads = p.all_heads() * bytes < serial_bytes ? p.all_heads() : std::max<Index>(task_bytes / bytes, 1);
    if (heads == 0) return;
    parallel_for((p.all_heads() + heads - 1) / heads, [&](Index task) {
        for (Index i = task * heads; i < std::min(p.all_heads(), (task + 1) * heads); ++i) {
            Head<T> head = p.head(i);
            head.N = 1;
            for (Index t = 0; t < c.N; ++t) {
                head.g = decay.of(i, t);
                head.beta = beta.of(i, t);
                step(head);
                head.q += c.dk, head.k += c.dk, head.v += c.dv, head.O += c.dv;
                if (states)
                    std::copy_n(head.S, c.dk * c.dv,
                                (*states)[static_cast<std::size_t>(t)].template data<T>() + i * c.dk * c.dv);
            }
        }
    });
}

template <class T>
void step_as(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
             const LinearOptions& o, std::vector<Tensor>* states) {
    const Tensor g = has_gate(c.update) ? o.log_decay->to(c.compute) : q,
                 b = has_delta(c.update) ? o.beta->to(c.compute) : q;
    if (has_gate(c.update)) check_log_decay(g);
    const Gate<T> decay = has_gate(c.update) ? Gate<T>(g, c, c.gates) : Gate<T>();
    const Gate<T> beta = has_delta(c.update) ? Gate<T>(b, c, 1) : Gate<T>();
    if (c.dtype == c.compute) return step<T>(c, q, k, v, decay, beta, state.data<T>(), O.data<T>(), states);
    Tensor wide(c.compute, c.output);
    step<T>(c, q.to(c.compute), k.to(c.compute), v.to(c.compute), decay, beta, state.data<T>(), wide.data<T>(), states);
    const Tensor narrow = wide.to(c.dtype);
    std::memcpy(O.raw(), narrow.raw(), narrow.bytes());
}

// The state has the type of computation.
void step_in_place(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                   const LinearOptions& o, std::vector<Tensor>* states) {
    if (c.compute == DType::f64) step_as<double>(c, q, k, v, state, O, o, states);
    else step_as<float>(c, q, k, v, state, O, o, states);
}

}  // namespace

void check_step(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& state, const Tensor& O,
                const LinearOptions& o) {
    if (c.N < 1 || c.N > most_step_tokens)
        fail("q: length ", c.N, ", expected 1 to ", most_step_tokens, " tokens in a step");
    if (o.state) fail("state: given among the options too, expected it as the argument alone");
    if (!o.cu_seqlens.empty()) fail("cu_seqlens: given, but a step has a token of every batch entry");
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but a step can keep the states after all of its tokens");
    check_state(state, v, c, true);
    if (O.shape() != c.output) fail("O: ", O.shape().text(), ", expected ", c.output.text());
    if (O.dtype() != c.dtype) fail("O: ", name(O.dtype()), ", expected ", name(c.dtype), " like q");
    kit::check_apart("O", O, "state", state);
    const auto check_inputs_apart = [&](const char* name, const Tensor& A) {
        kit::check_apart("state", state, name, A);
        kit::check_apart("O", O, name, A);
    };
    check_inputs_apart("q", q), check_inputs_apart("k", k), check_inputs_apart("v", v);
    if (o.log_decay) check_inputs_apart("log_decay", *o.log_decay);
    if (o.beta) check_inputs_apart("beta", *o.beta);
    if (o.norm_weight) check_inputs_apart("norm_weight", *o.norm_weight);
    if (o.norm_gate) check_inputs_apart("norm_gate", *o.norm_gate);
}

}  // namespace gated

void linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                           const LinearOptions& o, std::vector<Tensor>* states) {
    using namespace gated;
    calls::check_around(o);
    const Sizes c = check_sizes(q, k, v, o);
    check_step(c, q, k, v, state, O, o);
    if (o.A_log || calls::has_norm(o)) {
        linear_attention_step(q, k, v, state, O, within(q, k, v, o), states);
        if (calls::has_norm(o)) kit::copy_to(rms_norm(O, calls::norm_of<NormOptions>(o)), O);
        return;
    }
    if (o.qk_l2norm) return linear_attention_step(l2norm(q), l2norm(k), v, state, O, calls::without_l2norm(o), states);
    if (states) {
        states->clear();
        for (Index t = 0; t < c.N; ++t) states->emplace_back(c.compute, c.state_shape);
    }
    interrupt::check();
    if (state.dtype() == c.compute) return step_in_place(c, q, k, v, state, O, o, states);
    Tensor wide = states_of(state, c);
    Sizes own = c;
    own.slots.clear();
    step_in_place(own, q, k, v, wide, O, o, states);
    write_states(wide, c, state);
}

}  // namespace causeway
