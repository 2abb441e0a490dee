// Random problems of the gated and delta-rule family in device memory for the benches, and their oracle: the recurrence
// in Float64.
#pragma once

#include "gpu/bench/compare.hpp"
#include "gpu/gated/problem.hpp"

namespace causeway::gpu::bench {

struct GatedProblem {
    std::string name;
    Type type = Type::BFloat16;
    std::int64_t B = 1, H = 1, N = 1;
    int group = 1, dk = 128, dv = 128;
    int gates = 0;  // 0, 1 or dk
    bool delta = false;
    double gate = 0.1;  // gates are -gate · |normal|
    double reset = 0;   // share of gates of -Inf
    bool state = true;  // starts from a random state
    bool token_major = false;
    int pad = 0;  // unused columns between the rows of q, k, v, o
    double scale = 1;

    std::string text() const {
        char line[200];
        std::snprintf(line, sizeof line,
                      "%s %s B=%lld H=%lld group=%d N=%lld dk=%d dv=%d gates=%d delta=%d gate=%g reset=%g state=%d "
                      "major=%d pad=%d",
                      name.c_str(), name_of(type), (long long)B, (long long)H, group, (long long)N, dk, dv, gates,
                      int(delta), gate, reset, int(state), int(token_major), pad);
        return line;
    }
};

namespace detail {

static __global__ void make_gates(float* g, std::size_t n, float gate, float reset) {
    const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += step) {
        const uint32_t hash = static_cast<uint32_t>((i * 2654435761u) ^ (i >> 7) * 40503u) >> 8;
        g[i] = static_cast<float>(hash & 0xFFFF) * 0x1p-16f < reset ? -INFINITY : -gate * fabsf(g[i]);
    }
}
static __global__ void make_betas(float* x, std::size_t n) {
    const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += step)
        x[i] = i % 37 == 5 ? 0.0f : 1.0f / (1.0f + expf(-x[i]));
}

}  // namespace detail

struct GatedTensors {
    Buffer q, k, v, o, g, beta, state, first_state, workspace;
    GatedArgs args;

    void give_workspace(std::size_t bytes, cudaStream_t stream) {
        workspace = Buffer(bytes);
        poison(workspace, stream);
        args.workspace = {workspace.data(), workspace.bytes()};
    }
};

inline GatedTensors make(const GatedProblem& p, std::uint64_t seed, cudaStream_t stream) {
    GatedTensors t;
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const std::size_t bytes = size(bytes_of(p.type));
    const std::int64_t HQ = p.H * p.group;
    const auto strides = [&](std::int64_t H, int width) { return strides_of(H, p.N, width, p.token_major, p.pad); };
    const auto drawn = [&](std::int64_t H, int width, std::uint64_t s, double scale) {
        const std::size_t n = size(p.B * H * p.N * (width + p.pad));
        Buffer x(n * bytes);
        fill_normal(x.data(), p.type, n, 16 * seed + s, scale, stream);
        return x;
    };
    t.q = drawn(HQ, p.dk, 0, 1 / std::sqrt(p.dk)), t.k = drawn(p.H, p.dk, 1, 1 / std::sqrt(p.dk)),
    t.v = drawn(p.H, p.dv, 2, 1), t.o = drawn(HQ, p.dv, 3, 1);
    poison(t.o, stream);
    GatedArgs& a = t.args;
    a.q = t.q.data(), a.k = t.k.data(), a.v = t.v.data(), a.o = t.o.data();
    a.type = p.type, a.B = p.B, a.H = p.H, a.N = p.N, a.group = p.group, a.dk = p.dk, a.dv = p.dv, a.gates = p.gates,
    a.scale = static_cast<float>(p.scale);
    a.q_stride = strides(HQ, p.dk), a.k_stride = strides(p.H, p.dk), a.v_stride = strides(p.H, p.dv),
    a.o_stride = strides(HQ, p.dv);
    if (p.gates > 0) {
        const std::size_t n = size(p.B * p.H * p.N * p.gates);
        t.g = Buffer(4 * n);
        fill_normal(t.g.data(), Type::Float32, n, 16 * seed + 4, 1, stream);
        detail::make_gates<<<1024, 256, 0, stream>>>(t.g.as<float>(), n, static_cast<float>(p.gate),
                                                     static_cast<float>(p.reset));
        a.g = t.g.as<float>();
    }
    if (p.delta) {
        const std::size_t n = size(p.B * p.H * p.N);
        t.beta = Buffer(4 * n);
        fill_normal(t.beta.data(), Type::Float32, n, 16 * seed + 5, 1, stream);
        detail::make_betas<<<1024, 256, 0, stream>>>(t.beta.as<float>(), n);
        a.beta = t.beta.as<float>();
    }
    if (p.state) {
        const std::size_t n = size(p.B * p.H * p.dk * p.dv);
        t.state = Buffer(4 * n), t.first_state = Buffer(4 * n);
        fill_normal(t.state.data(), Type::Float32, n, 16 * seed + 6, 0.3, stream);
        check(cudaMemcpyAsync(t.first_state.data(), t.state.data(), 4 * n, cudaMemcpyDeviceToDevice, stream),
              "copying the state");
        a.state = t.state.as<float>();
    }
    check_launch("making a problem");
    return t;
}

// Of one head of keys with its queries; outputs.least: Σ ‖q‖²‖S‖² / dk, their size where nothing cancels.
struct GatedDeviation {
    Deviation outputs, state;
};

// After the call.
inline GatedDeviation deviation(const GatedProblem& p, const GatedTensors& t, std::int64_t b, std::int64_t h) {
    const GatedArgs& a = t.args;
    const auto head = b * p.H + h;
    const auto k = rows(a.k, p.type, a.k_stride, b, h, p.N, p.dk), v = rows(a.v, p.type, a.v_stride, b, h, p.N, p.dv);
    std::vector<std::vector<double>> q, o;
    for (int i = 0; i < p.group; ++i) {
        q.push_back(rows(a.q, p.type, a.q_stride, b, h * p.group + i, p.N, p.dk));
        o.push_back(rows(a.o, p.type, a.o_stride, b, h * p.group + i, p.N, p.dv));
    }
    const auto floats = [&](const float* from, std::int64_t n) {
        return from ? rows(from, Type::Float32, {0, n, n}, 0, head, 1, static_cast<int>(n)) : std::vector<double>();
    };
    const auto g = floats(a.g, p.N * p.gates), beta = floats(a.beta, p.N), after = floats(a.state, p.dk * p.dv);
    auto S = floats(t.first_state.as<float>(), p.dk * p.dv);
    if (S.empty()) S.assign(static_cast<std::size_t>(p.dk * p.dv), 0.0);
    std::vector<double> u(static_cast<std::size_t>(p.dv));
    GatedDeviation x;
    for (std::int64_t n = 0; n < p.N; ++n) {
        for (int j = 0; j < p.dv; ++j) u[j] = v[n * p.dv + j];
        for (int i = 0; i < p.dk; ++i) {
            if (p.gates == 0) break;
            const double f = std::exp(g[n * p.gates + (p.gates > 1 ? i : 0)]);
            for (int j = 0; j < p.dv; ++j) S[i * p.dv + j] *= f;
        }
        if (p.delta) {
            for (int i = 0; i < p.dk; ++i) {
                for (int j = 0; j < p.dv; ++j) u[j] -= k[n * p.dk + i] * S[i * p.dv + j];
            }
            for (double& y : u) y *= beta[n];
        }
        for (int i = 0; i < p.dk; ++i) {
            for (int j = 0; j < p.dv; ++j) S[i * p.dv + j] += k[n * p.dk + i] * u[j];
        }
        double state_size = 0;
        for (const double y : S) state_size += y * y;
        for (int query = 0; query < p.group; ++query) {
            double query_size = 0;
            for (int i = 0; i < p.dk; ++i) query_size += q[query][n * p.dk + i] * q[query][n * p.dk + i];
            x.outputs.least += p.scale * p.scale * query_size * state_size / p.dk;
            std::fill(u.begin(), u.end(), 0.0);
            for (int i = 0; i < p.dk; ++i) {
                for (int j = 0; j < p.dv; ++j) u[j] += q[query][n * p.dk + i] * S[i * p.dv + j];
            }
            for (int j = 0; j < p.dv; ++j) x.outputs.add(o[query][n * p.dv + j], p.scale * u[j]);
        }
    }
    if (!after.empty()) x.state = deviation(after, S);
    return x;
}

struct GatedErrors {
    double outputs = 0, state = 0;
};

// The worst relative errors of up to `heads` heads; Inf where something is not finite, or was written between the rows.
// Outputs that cancel are measured by what cancels, unless `own_size`: then by themselves.
inline GatedErrors errors_of(const GatedProblem& p, const GatedTensors& t, int heads, bool own_size = false) {
    const auto chosen = chosen_heads(p.B * p.H, heads);
    std::vector<GatedDeviation> found(chosen.size());
    on_threads(chosen.size(), [&](std::size_t i) { found[i] = deviation(p, t, chosen[i] / p.H, chosen[i] % p.H); });
    GatedErrors e{padding_untouched(t.o, p.type, p.dv, p.pad) ? 0 : std::numeric_limits<double>::infinity(), 0};
    for (GatedDeviation& x : found) {
        if (own_size) x.outputs.least = 0;
        e.outputs = std::max(e.outputs, x.outputs.relative()), e.state = std::max(e.state, x.state.relative());
    }
    return e;
}

}  // namespace causeway::gpu::bench
