// Random problems of causal linear attention in device memory for the benches, and their reference: the recurrence in
// Float64 on the CPU.
#pragma once

#include "gpu/bench/compare.hpp"
#include "gpu/exact/problem.hpp"

namespace causeway::gpu::bench {

struct LinearProblem {
    std::string name;
    Type type = Type::BFloat16;
    std::int64_t B = 1, H = 1, N = 1;
    int r = 128, d = 128;
    Numbers gamma = {};        // empty: the 0-1 mask
    bool token_major = false;  // [B, N, H, width] instead of [B, H, N, width]
    int pad = 0;               // unused columns between the rows of all tensors
    int splits = 0;            // of lightning_attention_2; 0: chosen
    double v_scale = 1;
    bool state = false;  // starts from a random state
    Precision precision = Precision::bf16x3;

    double decay(std::int64_t h) const { return gamma.empty() ? 1 : gamma[static_cast<std::size_t>(h)]; }
    double elements() const { return static_cast<double>(B * H * N) * 2.0 * (r + d); }  // of q, k, v and o
    double bytes() const { return elements() * bytes_of(type); }
    std::string text() const {
        std::string s = name + (name.empty() ? "" : " ") + name_of(type) + " B=" + std::to_string(B) +
                        " h=" + std::to_string(H) + " N=" + std::to_string(N) + " r=" + std::to_string(r) +
                        " d=" + std::to_string(d) + (gamma.empty() ? " mask" : " decay");
        if (token_major) s += " token-major";
        if (pad) s += " pad=" + std::to_string(pad);
        if (state) s += " state";
        if (splits) s += " splits=" + std::to_string(splits);
        return s;
    }
};

struct LinearTensors {
    Buffer q, k, v, o, state, workspace;
    CausalArgs args;

    void give_workspace(std::size_t bytes, cudaStream_t stream) {
        workspace = Buffer(bytes);
        poison(workspace, stream);
        args.workspace = {workspace.data(), workspace.bytes()};
    }
};

// Outputs are poisoned; the workspace is the caller's part.
inline LinearTensors make(const LinearProblem& p, std::uint64_t seed, cudaStream_t stream) {
    LinearTensors t;
    const auto count = [&](int width) { return static_cast<std::size_t>(p.B * p.H * p.N * (width + p.pad)); };
    const auto bytes = static_cast<std::size_t>(bytes_of(p.type));
    t.q = Buffer(count(p.r) * bytes), t.k = Buffer(count(p.r) * bytes), t.v = Buffer(count(p.d) * bytes),
    t.o = Buffer(count(p.d) * bytes);
    fill_normal(t.q.data(), p.type, count(p.r), 4 * seed, 1.0 / std::sqrt(p.r), stream);
    fill_normal(t.k.data(), p.type, count(p.r), 4 * seed + 1, 1.0, stream);
    fill_normal(t.v.data(), p.type, count(p.d), 4 * seed + 2, p.v_scale, stream);
    poison(t.o, stream);
    if (p.state) {
        const auto n = static_cast<std::size_t>(p.B * p.H * p.r * p.d);
        t.state = Buffer(4 * n);
        fill_normal(t.state.data(), Type::Float32, n, 4 * seed + 3, 1.0, stream);
    }
    CausalArgs& a = t.args;
    a.q = t.q.data(), a.k = t.k.data(), a.v = t.v.data(), a.o = t.o.data();
    a.type = p.type, a.B = p.B, a.H = p.H, a.N = p.N, a.r = p.r, a.d = p.d;
    a.q_stride = a.k_stride = strides_of(p.H, p.N, p.r, p.token_major, p.pad);
    a.v_stride = a.o_stride = strides_of(p.H, p.N, p.d, p.token_major, p.pad);
    a.gamma = p.gamma.empty() ? nullptr : p.gamma.data();
    a.state = t.state.as<float>();
    a.splits = p.splits, a.precision = p.precision;
    check(cudaStreamSynchronize(stream), "filling with random numbers");
    return t;
}

// Outputs and state of one head by the recurrence S ← γ S + kᵀ v, o = q S in Float64, from the first token to the last
// or, reversed, the other way. size: Σ ‖q‖²‖k‖²‖v‖² / r, what a row's own term has of ‖o‖² where its score is neither
// large nor small; state_size: ‖S‖² where its terms neither cancel nor agree.
struct Recurrence {
    Numbers o, state;
    double size = 0, state_size = 0;
};

inline Recurrence recurrence(const Numbers& q, const Numbers& k, const Numbers& v, std::int64_t N, int r, int d,
                             double gamma, bool reversed = false, Numbers state = {}) {
    Recurrence x;
    x.state = std::move(state), x.state.resize(static_cast<std::size_t>(r) * static_cast<std::size_t>(d));
    x.o.assign(static_cast<std::size_t>(N * d), 0.0);
    for (std::int64_t n = 0; n < N; ++n) {
        const std::int64_t t = reversed ? N - 1 - n : n;
        const double* vt = v.data() + t * d;
        double q2 = 0, k2 = 0, v2 = 0, *row = x.o.data() + t * d;
        for (int j = 0; j < d; ++j) v2 += vt[j] * vt[j];
        for (int i = 0; i < r; ++i) {
            const double qi = q[t * r + i], ki = k[t * r + i];
            double* s = x.state.data() + static_cast<std::size_t>(i) * d;
            q2 += qi * qi, k2 += ki * ki;
            for (int j = 0; j < d; ++j) {
                s[j] = gamma * s[j] + ki * vt[j];
                row[j] += qi * s[j];
            }
        }
        x.size += q2 * k2 * v2 / r;
        x.state_size = gamma * gamma * x.state_size + k2 * v2;
    }
    return x;
}

// Of some heads, before the call.
struct LinearReference {
    std::vector<std::int64_t> heads;
    std::vector<Recurrence> want;
};

inline LinearReference reference(const LinearProblem& p, const LinearTensors& t, std::int64_t heads) {
    LinearReference x{chosen_heads(p.B * p.H, heads), {}};
    x.want.resize(x.heads.size());
    on_threads(x.heads.size(), [&](std::size_t i) {
        const std::int64_t b = x.heads[i] / p.H, h = x.heads[i] % p.H;
        const auto in = [&](const void* data, Strides s, int width) { return rows(data, p.type, s, b, h, p.N, width); };
        const Numbers state =
            p.state ? numbers(t.state.data(), Type::Float32, x.heads[i] * p.r * p.d, p.r * p.d) : Numbers{};
        x.want[i] = recurrence(in(t.args.q, t.args.q_stride, p.r), in(t.args.k, t.args.k_stride, p.r),
                               in(t.args.v, t.args.v_stride, p.d), p.N, p.r, p.d, p.decay(h), false, state);
    });
    return x;
}

// After the call: the worst relative error of outputs and states; Inf where something was written between the rows.
inline double error_of(const LinearProblem& p, const LinearTensors& t, const LinearReference& x) {
    double worst = padding_untouched(t.o, p.type, p.d, p.pad) ? 0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < x.heads.size(); ++i) {
        const std::int64_t head = x.heads[i];
        const auto o = rows(t.args.o, p.type, t.args.o_stride, head / p.H, head % p.H, p.N, p.d);
        worst = std::max(worst, deviation(o, x.want[i].o, x.want[i].size).relative());
        if (!p.state) continue;
        const auto S = numbers(t.state.data(), Type::Float32, head * p.r * p.d, p.r * p.d);
        worst = std::max(worst, deviation(S, x.want[i].state, x.want[i].state_size).relative());
    }
    return worst;
}

// exp(-2^(-8 (h+1) / H)): Press et al. 2022.
inline Numbers alibi(std::int64_t H) {
    Numbers gamma;
    for (std::int64_t h = 0; h < H; ++h)
        gamma.push_back(std::exp(-std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(H))));
    return gamma;
}

}  // namespace causeway::gpu::bench
