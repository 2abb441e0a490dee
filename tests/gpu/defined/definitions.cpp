// What kernels compute, from their definitions on the CPU and in Float64: the functions that launch them, on devices
// that do not exist and whose memory is the CPU's (tests/faults/gpu/pretended.hpp). The linker takes the first function
// of a name, which stands here. Calls above them, cut into pieces, shared among GPUs and joined again, are then held to
// numbers without a GPU; a kernel that is launched all the same has no definition here, and its call fails.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/softmax/softmax_attention.hpp"
#include "gpu/exact/block_based.hpp"
#include "gpu/exact/causal_dot_product.hpp"
#include "gpu/exact/fleet.hpp"
#include "gpu/exact/fleet_thrust.hpp"
#include "gpu/exact/hybrid.hpp"
#include "gpu/exact/inner_product.hpp"
#include "gpu/exact/lightning.hpp"
#include "gpu/exact/normalize.hpp"
#include "gpu/exact/outer_product.hpp"
#include "gpu/exact/recursion.hpp"
#include "gpu/exact/row_based.hpp"
#include "gpu/exact/vanilla.hpp"
#include "gpu/gated/portable.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gated/sequences.hpp"
#include "gpu/gradient/gated.hpp"
#include "gpu/gradient/lightning.hpp"
#include "gpu/gradient/quotient.hpp"
#include "gpu/gradient/softmax.hpp"
#include "gpu/sharded/maps.hpp"
#include "gpu/sharded/merge.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/softmax/flash.hpp"
#include "gpu/tensor/elementwise.hpp"
#include "gpu/tensor/places.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {
namespace {

using causeway::Index;
using Matrix = causeway::Tensor;  // of the CPU

// A tensor [batch, heads, N, width] of the device.
class Strided {
public:
    Strided(const void* data, Type type, const Strides& s, Index width)
        : data_(static_cast<char*>(const_cast<void*>(data))), type_(type), stride_(s), width_(width) {}

    double get(Index b, Index h, Index t, Index c) const {
        const char* const x = at(b, h, t, c);
        return type_ == Type::Float32    ? static_cast<double>(*reinterpret_cast<const float*>(x))
               : type_ == Type::BFloat16 ? static_cast<double>(*reinterpret_cast<const bfloat16*>(x))
                                         : static_cast<double>(*reinterpret_cast<const half*>(x));
    }
    void set(Index b, Index h, Index t, Index c, double value) const {
        char* const x = at(b, h, t, c);
        if (type_ == Type::Float32) *reinterpret_cast<float*>(x) = static_cast<float>(value);
        else if (type_ == Type::BFloat16) *reinterpret_cast<bfloat16*>(x) = static_cast<bfloat16>(value);
        else *reinterpret_cast<half*>(x) = static_cast<half>(value);
    }

    Matrix taken(Index batch, Index heads, Index N) const {
        Matrix out(DType::f64, {batch, heads, N, width_});
        each(batch, heads, N, [&](Index i, Index b, Index h, Index t, Index c) { out.set(i, get(b, h, t, c)); });
        return out;
    }
    void give(const Matrix& x, Index batch, Index heads, Index N) const {
        each(batch, heads, N, [&](Index i, Index b, Index h, Index t, Index c) { set(b, h, t, c, x.get(i)); });
    }

private:
    char* at(Index b, Index h, Index t, Index c) const {
        return data_ + (b * stride_.batch + h * stride_.head + t * stride_.token + c) * bytes_of(type_);
    }
    template <class F>
    void each(Index batch, Index heads, Index N, F&& f) const {
        Index i = 0;
        for (Index b = 0; b < batch; ++b)
            for (Index h = 0; h < heads; ++h)
                for (Index t = 0; t < N; ++t)
                    for (Index c = 0; c < width_; ++c) f(i++, b, h, t, c);
    }

    char* data_;
    Type type_;
    Strides stride_;
    Index width_;
};

// Contiguous Float32.
Matrix taken(const float* data, const Shape& shape) {
    Matrix out(DType::f64, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, data[i]);
    return out;
}
void give(const Matrix& x, float* to) {
    for (Index i = 0; i < x.size(); ++i) to[i] = static_cast<float>(x.get(i));
}

// ---- the gated and delta-rule family ----

struct GatedCall {
    Matrix q, k, v;
    causeway::LinearOptions options;
};

// Numbers of every head, whose heads are `step` tokens apart; 0: one behind the other.
Strided of_heads(const float* x, const GatedArgs& a, Index width, Index step) {
    return {x, Type::Float32, contiguous(a.H, step > 0 ? step : a.N, static_cast<int>(width)), width};
}

// gate_step: from head to head of g and β.
GatedCall gated_call(const GatedArgs& a, Index gate_step = 0) {
    if (a.projection.a || a.length_eps != 0) fail("a call with a projection or lengths has no definition here");
    GatedCall c{Strided(a.q, a.type, a.q_stride, a.dk).taken(a.B, a.H * a.group, a.N),
                Strided(a.k, a.type, a.k_stride, a.dk).taken(a.B, a.H, a.N),
                Strided(a.v, a.type, a.v_stride, a.dv).taken(a.B, a.H, a.N),
                {}};
    causeway::LinearOptions& o = c.options;
    o.update = a.beta ? (a.g ? "gated_delta" : "delta") : a.g ? "gated" : "linear";
    o.mode = "recurrent", o.scale = a.scale;
    if (a.g) {
        Shape gates{a.B, a.H, a.N};
        if (a.gates > 1) gates.push_back(a.gates);
        o.log_decay = of_heads(a.g, a, a.gates, gate_step).taken(a.B, a.H, a.N).reshape(gates);
    }
    if (a.beta) o.beta = of_heads(a.beta, a, 1, gate_step).taken(a.B, a.H, a.N).reshape({a.B, a.H, a.N});
    if (a.state) o.state = taken(a.state, {a.B, a.H, a.dk, a.dv});
    return c;
}

void give_definition(const GatedArgs& a, Index gate_step) {
    const GatedCall c = gated_call(a, gate_step);
    const LinearResult out = linear_attention(c.q, c.k, c.v, c.options);
    Strided(a.o, a.type, a.o_stride, a.dv).give(out.O, a.B, a.H * a.group, a.N);
    if (a.state) give(out.state, a.state);
}

void gated_definition(const GatedArgs& a, cudaStream_t) { give_definition(a, 0); }

void packed_definition(const GatedArgs& a, const Sequences& of, cudaStream_t) {
    const Index states = a.B * a.H * a.dk * a.dv;
    for (Index i = 0; i < of.count; ++i) {
        const Index first = of.offsets[i], n = of.offsets[i + 1] - first;
        GatedArgs one = a;
        one.N = n;
        one.q = from_token(a.q, a.type, a.q_stride, first), one.k = from_token(a.k, a.type, a.k_stride, first);
        one.v = from_token(a.v, a.type, a.v_stride, first), one.o = from_token(a.o, a.type, a.o_stride, first);
        if (a.g) one.g = a.g + first * a.gates;
        if (a.beta) one.beta = a.beta + first;
        if (a.state) one.state = a.state + i * states;
        give_definition(one, a.N);
    }
}

}  // namespace

const GatedForm& gated_form(const std::string& mode, const GatedArgs& a, bool prefix) {
    static const std::vector<GatedForm>* const forms = [] {
        auto* const list = new std::vector<GatedForm>(gated_forms());
        for (GatedForm& form : *list) {
            form.run = gated_definition;
            if (form.run_packed) form.run_packed = packed_definition;
            if (form.run_prefix) form.run_prefix = packed_definition;
        }
        return list;
    }();
    for (const GatedForm& form : *forms)
        if (form.mode == mode && form.takes(a) && (!prefix || form.keeps_prefix())) return form;
    fail("mode: no form of \"", mode, "\" has a definition here");
}

void gated_portable(const GatedArgs& a, cudaStream_t stream) { gated_definition(a, stream); }

void delta_hopper_maps(const GatedArgs&, bool, cudaStream_t) {}
void delta_hopper_states(const GatedArgs& a, bool, float* after, cudaStream_t) {
    if (!after) return;
    const GatedCall c = gated_call(a);
    give(linear_attention(c.q, c.k, c.v, c.options).state, after);
}
void delta_hopper_outputs(const GatedArgs& a, bool, cudaStream_t stream) { gated_definition(a, stream); }

namespace {

// Of x [B, H, N, width].
Matrix sum_over_heads(const Matrix& x) {
    const Shape& s = x.shape();
    const Index of_head = s[2] * s[3];
    Matrix out = Matrix::zeros(DType::f64, {s[0], 1, s[2], s[3]});
    for (Index i = 0; i < x.size(); ++i) {
        const Index to = i / (s[1] * of_head) * of_head + i % of_head;
        out.set(to, out.get(to) + x.get(i));
    }
    return out;
}

}  // namespace

void gated_gradient(const GatedGradArgs& a, cudaStream_t) {
    const GatedArgs& in = a.in;
    const GatedCall c = gated_call(in, a.gate_step);
    const Index queries = in.H * in.group;
    const Matrix dO = Strided(a.dO, in.type, in.o_stride, in.dv).taken(in.B, queries, in.N);
    std::optional<Matrix> dstate;
    if (a.dstate_in) dstate = taken(a.dstate_in, {in.B, in.H, in.dk, in.dv});
    const LinearGradient g = linear_attention_grad(c.q, c.k, c.v, dO, c.options, dstate);
    if (a.dq_sum) {
        Strided(a.dq_sum, in.type, a.sum_stride, in.dk).give(sum_over_heads(g.dq), in.B, 1, in.N);
        Strided(a.dk_sum, in.type, a.sum_stride, in.dk).give(sum_over_heads(g.dk), in.B, 1, in.N);
    } else {
        Strided(a.dq, in.type, a.of_dq(), in.dk).give(g.dq, in.B, queries, in.N);
        Strided(a.dk, in.type, a.of_dk(), in.dk).give(g.dk, in.B, in.H, in.N);
    }
    Strided(a.dv, in.type, in.v_stride, in.dv).give(g.dv, in.B, in.H, in.N);
    if (a.dg) of_heads(a.dg, in, in.gates, a.gate_step).give(*g.dlog_decay, in.B, in.H, in.N);
    if (a.dbeta) of_heads(a.dbeta, in, 1, a.gate_step).give(*g.dbeta, in.B, in.H, in.N);
    if (a.dstate) give(g.dstate, a.dstate);
    if (a.after) give(linear_attention(c.q, c.k, c.v, c.options).state, a.after);
}

// ---- causal linear attention ----

namespace {

// The state after the tokens, in place; null: zeros, dropped.
void causal_definition(const CausalArgs& a, float* state, bool outputs) {
    causeway::CausalOptions o;
    o.method = "row-based", o.return_state = true;
    for (Index h = 0; a.gamma && h < a.H; ++h) o.decay.push_back(a.gamma[h]);
    if (state) o.state = taken(state, {a.B, a.H, a.r, a.d});
    const Matrix k = Strided(a.k, a.type, a.k_stride, a.r).taken(a.B, a.H, a.N),
                 q = outputs ? Strided(a.q, a.type, a.q_stride, a.r).taken(a.B, a.H, a.N) : k;
    const causeway::CausalResult out =
        causal_linear_attention(q, k, Strided(a.v, a.type, a.v_stride, a.d).taken(a.B, a.H, a.N), o);
    if (outputs) Strided(a.o, a.type, a.o_stride, a.d).give(out.O, a.B, a.H, a.N);
    if (state) give(out.state, state);
}

// Sums of keys, [B, H, r], in place, and the outputs divided by what queries make of them.
void divisors(const CausalArgs& a, float* z_state, bool divide) {
    const Strided q(a.q, a.type, a.q_stride, a.r), k(a.k, a.type, a.k_stride, a.r), o(a.o, a.type, a.o_stride, a.d);
    for (Index b = 0; b < a.B; ++b) {
        for (Index h = 0; h < a.H; ++h) {
            const double gamma = a.decay_of(h);
            float* const given = z_state ? z_state + (b * a.H + h) * a.r : nullptr;
            std::vector<double> z(static_cast<std::size_t>(a.r), 0.0);
            if (given) std::copy_n(given, a.r, z.begin());
            for (Index t = 0; t < a.N; ++t) {
                double D = 0;
                for (Index i = 0; i < a.r; ++i) {
                    double& sum = z[static_cast<std::size_t>(i)];
                    sum = gamma * sum + k.get(b, h, t, i);
                    if (divide) D += q.get(b, h, t, i) * sum;
                }
                for (Index c = 0; divide && c < a.d; ++c) o.set(b, h, t, c, o.get(b, h, t, c) / D);
            }
            for (Index i = 0; given && i < a.r; ++i) given[i] = static_cast<float>(z[static_cast<std::size_t>(i)]);
        }
    }
}

}  // namespace

void block_based(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void causal_dot_product(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void fleet(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void fleet_thrust(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void hybrid(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void inner_product(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void outer_product(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void outer_product_blockwise(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void recursion(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void row_based(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void vanilla(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void lightning_attention_2(const CausalArgs& a, cudaStream_t) { causal_definition(a, a.state, true); }
void lightning_states(const CausalArgs& a, float* after, cudaStream_t) {
    if (!after) return;
    std::fill_n(after, a.B * a.H * a.r * a.d, 0.0f);
    causal_definition(a, after, false);
}
void lightning_outputs(const CausalArgs& a, bool, cudaStream_t) { causal_definition(a, a.state, true); }

void normalize(const CausalArgs& a, cudaStream_t, float* z_state) { divisors(a, z_state, true); }
void key_sums(const CausalArgs& a, cudaStream_t, float* z_state) { divisors(a, z_state, false); }

void lightning_grad(const CausalArgs& a, const void* dO, void* dq, void* dk, void* dv, cudaStream_t stream) {
    std::vector<float> g;
    GatedGradArgs as;
    GatedArgs& in = as.in;
    in.q = a.q, in.k = a.k, in.v = a.v, in.type = a.type, in.B = a.B, in.H = a.H, in.N = a.N;
    in.dk = a.r, in.dv = a.d;
    in.q_stride = a.q_stride, in.k_stride = a.k_stride, in.v_stride = a.v_stride, in.o_stride = a.o_stride;
    if (a.gamma) {
        for (Index b = 0; b < a.B; ++b)
            for (Index h = 0; h < a.H; ++h)
                g.insert(g.end(), static_cast<std::size_t>(a.N), static_cast<float>(std::log(a.gamma[h])));
        in.gates = 1, in.g = g.data();
    }
    as.dO = dO, as.dq = dq, as.dk = dk, as.dv = dv;
    gated_gradient(as, stream);
}

// ---- softmax attention ----

namespace {

struct SoftmaxCall {
    Matrix q, k, v;
};
SoftmaxCall softmax_call(const SoftmaxArgs& a) {
    return {Strided(a.q, a.type, a.q_stride, a.d).taken(a.batch, a.heads * a.group, a.N),
            Strided(a.k, a.type, a.k_stride, a.d).taken(a.batch, a.heads, a.M),
            Strided(a.v, a.type, a.v_stride, a.dv).taken(a.batch, a.heads, a.M)};
}

void softmax_definition(const SoftmaxArgs& a) {
    const SoftmaxCall c = softmax_call(a);
    causeway::SoftmaxOptions o;
    o.method = "standard", o.causal = a.causal, o.scale = a.scale;
    const causeway::SoftmaxResult out = softmax_attention(c.q, c.k, c.v, o);
    Strided(a.o, a.type, a.o_stride, a.dv).give(out.O, a.batch, a.heads * a.group, a.N);
    if (a.lse) give(out.lse, a.lse);
}

}  // namespace

void flash_attention(const SoftmaxArgs& a, cudaStream_t) { softmax_definition(a); }
void flash_decoding(const SoftmaxArgs& a, cudaStream_t) { softmax_definition(a); }

// With respect to queries and to keys that may be a part of theirs: O and lse are those of all keys.
void flash_attention_grad(const SoftmaxGradArgs& a, cudaStream_t) {
    const SoftmaxArgs& in = a.in;
    const Index queries = in.heads * in.group;
    const SoftmaxCall c = softmax_call(in);
    const Matrix O = Strided(in.o, in.type, in.o_stride, in.dv).taken(in.batch, queries, in.N),
                 dO = Strided(a.dO, in.type, in.o_stride, in.dv).taken(in.batch, queries, in.N);
    Matrix dq = Matrix::zeros(DType::f64, c.q.shape()), dk = Matrix::zeros(DType::f64, c.k.shape()),
           dv = Matrix::zeros(DType::f64, c.v.shape());
    const auto row = [](const Matrix& x, Index r) { return const_cast<Matrix&>(x).data<double>() + r * x.shape()[3]; };
    const auto product = [](const double* x, const double* y, Index n) { return std::inner_product(x, x + n, y, 0.0); };
    const auto add = [](double factor, const double* x, double* to, Index n) {
        for (Index i = 0; i < n; ++i) to[i] += factor * x[i];
    };
    const auto scale = static_cast<double>(in.scale);
    for (Index r = 0; r < in.batch * queries * in.N; ++r) {
        const Index first = r / in.N / in.group * in.M, t = r % in.N, d = in.d, width = in.dv;
        const double D = product(row(dO, r), row(O, r), width);
        for (Index j = first; j < first + (in.causal ? std::max<Index>(0, in.M - in.N + t + 1) : in.M); ++j) {
            const double P = std::exp(scale * product(row(c.q, r), row(c.k, j), d) - static_cast<double>(in.lse[r])),
                         dS = scale * P * (product(row(dO, r), row(c.v, j), width) - D);
            add(dS, row(c.k, j), row(dq, r), d), add(dS, row(c.q, r), row(dk, j), d),
                add(P, row(dO, r), row(dv, j), width);
        }
    }
    Strided(a.dq, in.type, in.q_stride, in.d).give(dq, in.batch, queries, in.N);
    Strided(a.dk, in.type, in.k_stride, in.d).give(dk, in.batch, in.heads, in.M);
    Strided(a.dv, in.type, in.v_stride, in.dv).give(dv, in.batch, in.heads, in.M);
}

// ---- element by element ----

void convert(const void* from, Type from_type, void* to, Type to_type, std::int64_t n, cudaStream_t) {
    const Strided x(from, from_type, {}, n), y(to, to_type, {}, n);
    for (Index i = 0; i < n; ++i) y.set(0, 0, 0, i, x.get(0, 0, 0, i));
}
void scale_by(void* x, Type type, std::int64_t n, float factor, cudaStream_t) {
    const Strided all(x, type, {}, n);
    for (Index i = 0; i < n; ++i) all.set(0, 0, 0, i, static_cast<double>(factor) * all.get(0, 0, 0, i));
}
void fill(float* x, std::int64_t n, float value, cudaStream_t) { std::fill_n(x, n, value); }
std::int64_t first_above_zero(const float* x, std::int64_t n, std::int64_t*, cudaStream_t) {
    return std::find_if(x, x + n, [](float g) { return !(g <= 0); }) - x;
}
std::int64_t first_not_finite(const float* x, std::int64_t n, std::int64_t*, cudaStream_t) {
    return std::find_if(x, x + n, [](float g) { return !std::isfinite(g); }) - x;
}

void append_ones(const float* from, float* to, std::int64_t rows, std::int64_t d, cudaStream_t) {
    for (Index r = 0; r < rows; ++r) std::copy_n(from + r * d, d, to + r * (d + 1)), to[r * (d + 1) + d] = 1;
}
void drop_last(const float* from, float* to, std::int64_t rows, std::int64_t d, cudaStream_t) {
    for (Index r = 0; r < rows; ++r) std::copy_n(from + r * (d + 1), d, to + r * d);
}
void quotient_gradient(const float* G, float* x, std::int64_t rows, std::int64_t d, cudaStream_t) {
    for (Index r = 0; r < rows; ++r) {
        float* const row = x + r * (d + 1);
        const auto D = static_cast<double>(row[d]);
        double sum = 0;
        for (Index c = 0; c < d; ++c) {
            const auto g = static_cast<double>(G[r * d + c]);
            sum += g * static_cast<double>(row[c]) / D;
            row[c] = static_cast<float>(g / D);
        }
        row[d] = static_cast<float>(-sum / D);
    }
}
void sum_heads(const void* from, void* to, Type type, std::int64_t batch, std::int64_t heads, std::int64_t row,
               cudaStream_t) {
    const Strided x(from, type, {heads * row, row, 0}, row), y(to, type, {row, 0, 0}, row);
    for (Index b = 0; b < batch; ++b)
        for (Index c = 0; c < row; ++c) {
            double sum = 0;
            for (Index h = 0; h < heads; ++h) sum += x.get(b, h, 0, c);
            y.set(b, 0, 0, c, sum);
        }
}

void sum_gates(const float* dg, const float* g, float* dgamma, std::int64_t batch, std::int64_t heads, std::int64_t N,
               bool one, cudaStream_t) {
    std::vector<double> sums(static_cast<std::size_t>(one ? 1 : heads), 0.0);
    for (Index i = 0; i < batch * heads * N; ++i)
        sums[static_cast<std::size_t>(one ? 0 : i / N % heads)] +=
            static_cast<double>(dg[i]) / std::exp(static_cast<double>(g[i]));
    for (std::size_t i = 0; i < sums.size(); ++i) dgamma[i] = static_cast<float>(sums[i]);
}

namespace {

// Of x [heads, N, width] and the same cut into pieces [heads, n, width] behind one another: f(place in x, in the
// other).
template <class F>
void each_of_pieces(const std::vector<Index>& cuts, Index heads, Index width, F&& f) {
    const Index N = cuts.back();
    Index place = 0;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
        for (Index h = 0; h < heads; ++h)
            for (Index e = cuts[i] * width; e < cuts[i + 1] * width; ++e) f(h * N * width + e, place++);
}

}  // namespace

Tensor by_pieces(const Tensor& x, const std::vector<Index>& cuts, Index heads, Index width, cudaStream_t stream) {
    Tensor out(x.dtype(), x.shape(), stream);
    each_of_pieces(cuts, heads, width, [&](Index from, Index to) { out.as<float>()[to] = x.as<float>()[from]; });
    return out;
}
Tensor by_heads(const Tensor& x, const std::vector<Index>& cuts, Index heads, Index width, cudaStream_t stream) {
    Tensor out(x.dtype(), x.shape(), stream);
    each_of_pieces(cuts, heads, width, [&](Index to, Index from) { out.as<float>()[to] = x.as<float>()[from]; });
    return out;
}

// ---- what ranks hand on ----

namespace sharded {

void find_reach(const GateRows& gates, From from, float bits, std::int64_t most, std::int32_t* reach, cudaStream_t) {
    for (Index s = 0; s < gates.states; ++s) {
        std::vector<double> sums(static_cast<std::size_t>(gates.columns), 0.0);
        const auto forgotten = [&] {
            return std::all_of(sums.begin(), sums.end(),
                               [&](double sum) { return sum / std::log(2.0) <= -static_cast<double>(bits); });
        };
        Index n = 0;
        for (bool all = false; !all && n < most; all = forgotten())
            for (const Index end = n + 256; n < end; ++n) {
                if (n >= gates.N) continue;
                const Index t = from == From::start ? n : gates.N - 1 - n;
                for (Index c = 0; c < gates.columns; ++c)
                    sums[static_cast<std::size_t>(c)] +=
                        static_cast<double>(gates.g[(s * gates.N + t) * gates.columns + c]);
            }
        reach[s] = forgotten() && n <= most ? static_cast<std::int32_t>(n) : -1;
    }
}

void multiply_gates(const GateRows& gates, float* A, cudaStream_t) {
    for (Index s = 0; s < gates.states; ++s)
        for (Index c = 0; c < gates.columns; ++c) {
            double sum = 0;
            for (Index t = 0; t < gates.N; ++t)
                sum += static_cast<double>(gates.g[(s * gates.N + t) * gates.columns + c]);
            A[s * gates.columns + c] = static_cast<float>(std::exp(sum));
        }
}

void make_unit(float* x, std::int64_t states, int n, cudaStream_t) {
    for (Index i = 0; i < states * n * n; ++i) x[i] = i / n % n == i % n ? 1.0f : 0.0f;
}

void find_differing(std::int64_t states, int rows, int columns, bool mixes, float share, const float* S,
                    const float* handed, std::int32_t* differs, cudaStream_t) {
    for (Index s = 0; s < states; ++s) {
        const auto at = [&](Index i, Index c) { return S[(s * rows + i) * columns + c]; };
        for (Index i = 0; i < rows; ++i)
            for (Index c = 0; c < columns; ++c) {
                double of_row = 0, of_column = 0;
                for (Index j = 0; j < columns; ++j) of_row = std::max(of_row, std::abs(static_cast<double>(at(i, j))));
                for (Index j = 0; j < rows; ++j)
                    of_column = std::max(of_column, std::abs(static_cast<double>(at(j, c))));
                const double most = mixes ? of_column : std::min(of_row, of_column),
                             apart = std::abs(static_cast<double>(at(i, c)) -
                                              static_cast<double>(handed[(s * rows + i) * columns + c]));
                if (!(apart <= static_cast<double>(share) * most) || !std::isfinite(at(i, c))) differs[s] = 1;
            }
    }
}

void apply_maps(std::int64_t states, int rows, int columns, std::int64_t carry, bool transposed, const float* A,
                const float* B, const float* S, float* out, cudaStream_t) {
    std::vector<double> next(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    for (Index s = 0; s < states; ++s) {
        const Index state = s * rows * columns;
        for (Index i = 0; i < rows; ++i)
            for (Index c = 0; c < columns; ++c) {
                double sum = B ? static_cast<double>(B[state + i * columns + c]) : 0;
                const auto add = [&](double a, Index j) { sum += a * static_cast<double>(S[state + j * columns + c]); };
                if (carry == 0) add(1, i);
                else if (carry == 1) add(static_cast<double>(A[s]), i);
                else if (carry == rows) add(static_cast<double>(A[s * rows + i]), i);
                else
                    for (Index j = 0; j < rows; ++j)
                        add(static_cast<double>(A[s * rows * rows + (transposed ? j * rows + i : i * rows + j)]), j);
                next[static_cast<std::size_t>(i * columns + c)] = sum;
            }
        std::transform(next.begin(), next.end(), out + state, [](double x) { return static_cast<float>(x); });
    }
}

void merge_rows(const MergedRows& m, cudaStream_t) {
    const Strides plain = contiguous(m.heads, m.N, m.dv);
    const Strided o(m.o, m.o_is_sum ? Type::Float32 : m.type, plain, m.dv), part(m.part, m.type, plain, m.dv),
        out(m.out, m.out_is_sum ? Type::Float32 : m.type, m.out_stride, m.dv);
    for (Index b = 0; b < m.batch; ++b)
        for (Index h = 0; h < m.heads; ++h)
            for (Index t = 0; t < m.N; ++t) {
                const Index row = (b * m.heads + h) * m.N + t;
                const auto one = static_cast<double>(m.lse[row]), other = static_cast<double>(m.part_lse[row]),
                           most = std::max(one, other);
                const auto weight = [&](double lse) { return most == -INFINITY ? 0.0 : std::exp(lse - most); };
                const double w = weight(one), u = weight(other), sum = w + u;
                for (Index c = 0; c < m.dv; ++c)
                    out.set(b, h, t, c,
                            sum > 0 ? (w * o.get(b, h, t, c) + u * part.get(b, h, t, c)) / sum : o.get(b, h, t, c));
                m.lse[row] = static_cast<float>(sum > 0 ? most + std::log(sum) : -INFINITY);
            }
}

void merge_gathered(const GatheredParts& p, cudaStream_t) {
    const auto* const blocks = static_cast<const char*>(p.blocks);
    const Strided out(p.o, p.type, {0, 0, p.dv}, p.dv);
    for (Index row = 0; row < p.rows; ++row) {
        const auto lse_of = [&](Index i) {
            return static_cast<double>(
                reinterpret_cast<const float*>(blocks + static_cast<std::size_t>(i) * p.bytes + p.lse_at)[row]);
        };
        double most = -INFINITY, sum = 0;
        for (Index i = 0; i < p.count; ++i) most = std::max(most, lse_of(i));
        std::vector<double> o(static_cast<std::size_t>(p.dv), 0.0);
        for (Index i = 0; i < p.count && most > -INFINITY; ++i) {
            const double w = std::exp(lse_of(i) - most);
            sum += w;
            const Strided block(blocks + static_cast<std::size_t>(i) * p.bytes, p.type, {0, 0, p.dv}, p.dv);
            for (Index c = 0; c < p.dv; ++c) o[static_cast<std::size_t>(c)] += w * block.get(0, 0, row, c);
        }
        for (Index c = 0; c < p.dv; ++c) out.set(0, 0, row, c, sum > 0 ? o[static_cast<std::size_t>(c)] / sum : 0);
        if (p.lse) p.lse[row] = static_cast<float>(sum > 0 ? most + std::log(sum) : -INFINITY);
    }
}

void add_rows(const SummedRows& r, const void* x, std::int64_t x_head, cudaStream_t) {
    const Strided more(x, r.type, {0, x_head, r.width}, r.width);
    for (Index h = 0; h < r.heads; ++h)
        for (Index t = 0; t < r.n; ++t)
            for (Index c = 0; c < r.width; ++c)
                r.sum[h * r.sum_head + t * r.width + c] += static_cast<float>(more.get(0, h, t, c));
}

void round_rows(const SummedRows& r, std::int64_t batch, void* out, const Strides& stride, cudaStream_t) {
    const Strided to(out, r.type, stride, r.width);
    const Index heads = batch > 0 ? r.heads / batch : 0;
    for (Index h = 0; h < r.heads; ++h)
        for (Index t = 0; t < r.n; ++t)
            for (Index c = 0; c < r.width; ++c)
                to.set(h / heads, h % heads, t, c, static_cast<double>(r.sum[h * r.sum_head + t * r.width + c]));
}

}  // namespace sharded
}  // namespace causeway::gpu
