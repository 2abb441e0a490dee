// The definition backwards, token by token, for calls in which something is not finite: no product meets a token that
// it must not see. Nothing is done where everything was finite.
#include "gpu/gated/channels/operands.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/gated_hopper/part.hpp"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::gradient {

namespace {

using channels::E;
using gated::head_of, gated::Operand;

constexpr int walk_threads = 256, widest = 128;

struct WalkShared {
    float S[widest][widest + 1], dS[widest][widest + 1];  // the state, with the gates of a token; its gradient
    // Rows of the token: u what it writes, y that without β, D = scale · dO; the gates themselves.
    float q[widest], k[widest], a[widest], v[widest], y[widest], u[widest], D[widest], du[widest], dg[widest];
};

// One batch-head, by one block. States before the segments of `each` tokens and before each token of one segment lie in
// memory at `kept`.
struct Walk {
    WalkShared& s;
    const Walks& x;
    const gated::Call& call;
    const std::int64_t bh, b, h;
    float* const kept;
    const int thread = static_cast<int>(threadIdx.x);
    const bool delta;

    __device__ Walk(const Walks& x, WalkShared& s, std::int64_t bh)
        : s(s),
          x(x),
          call(x.call),
          bh(bh),
          b(bh / call.heads),
          h(bh % call.heads),
          kept(x.states + blockIdx.x * (x.segments + x.each) * call.dk * call.dv),
          delta(call.beta != nullptr) {}

    __device__ static E* row(const Operand& operand, std::int64_t b, std::int64_t head, std::int64_t t) {
        return reinterpret_cast<E*>(head_of(operand, b, head) + t * operand.token);
    }
    __device__ void load_row(float* to, const Operand& operand, std::int64_t head, std::int64_t t, int width,
                             float factor = 1.0f) const {
        const E* from = row(operand, b, head, t);
        for (int c = thread; c < width; c += walk_threads) to[c] = factor * static_cast<float>(from[c]);
    }
    // f(row, column, place in memory) for the elements of a state.
    template <class F>
    __device__ void each_element(F&& f) const {
        for (int i = thread; i < call.dk * call.dv; i += walk_threads) f(i / call.dv, i % call.dv, i);
        __syncthreads();
    }
    __device__ void load_state(float (&to)[widest][widest + 1], const float* from) const {
        each_element([&](int r, int c, int i) { to[r][c] = from ? from[i] : 0.0f; });
    }
    __device__ void store_state(const float (&from)[widest][widest + 1], float* to) const {
        each_element([&](int r, int c, int i) { to[i] = from[r][c]; });
    }
    __device__ float* kept_state(std::int64_t i) const { return kept + i * call.dk * call.dv; }
    __device__ float beta(std::int64_t t) const { return call.beta[bh * x.gate_step + t]; }

    // S ← a ⊙ S, then u and y of token t.
    __device__ void meet(std::int64_t t) const {
        load_row(s.k, call.k, h, t, call.dk);
        load_row(s.v, call.v, h, t, call.dv);
        const float* g = call.g + (bh * x.gate_step + t) * call.gates;
        for (int c = thread; c < call.dk; c += walk_threads)
            s.a[c] = call.gates == 0 ? 1.0f : expf(g[call.gates > 1 ? c : 0]);
        __syncthreads();
        each_element([&](int r, int c, int) { s.S[r][c] *= s.a[r]; });
        for (int c = thread; c < call.dv; c += walk_threads) {
            float read = 0;
            if (delta)
                for (int r = 0; r < call.dk; ++r) read = fmaf(s.k[r], s.S[r][c], read);
            s.y[c] = delta ? s.v[c] - read : s.v[c];
            s.u[c] = delta ? beta(t) * s.y[c] : s.v[c];
        }
        __syncthreads();
    }
    __device__ void write(float (&to)[widest][widest + 1], const float* k, const float* u, float sign) const {
        each_element([&](int r, int c, int) { to[r][c] = fmaf(sign * k[r], u[c], to[r][c]); });
    }

    // Token t backwards: s.S holds the state before it, s.dS the gradient of the state after it.
    __device__ void back(std::int64_t t) const {
        meet(t);
        for (int query = 0; query < call.group; ++query) {
            const std::int64_t head = h * call.group + query;
            load_row(s.q, call.q, head, t, call.dk);
            load_row(s.D, x.dO, head, t, call.dv, call.scale);
            __syncthreads();
            for (int r = thread; r < call.dk; r += walk_threads) {
                float sum = 0;
                for (int c = 0; c < call.dv; ++c) sum = fmaf(fmaf(s.k[r], s.u[c], s.S[r][c]), s.D[c], sum);
                row(x.dq, b, head, t)[r] = E(sum);
            }
            write(s.dS, s.q, s.D, 1.0f);
        }
        for (int c = thread; c < call.dv; c += walk_threads) {
            float sum = 0;
            for (int r = 0; r < call.dk; ++r) sum = fmaf(s.k[r], s.dS[r][c], sum);
            s.du[c] = sum;
        }
        __syncthreads();
        float dk = 0;  // threads are at least as many as channels
        const int r = thread;
        if (r < call.dk)
            for (int c = 0; c < call.dv; ++c) dk = fmaf(s.dS[r][c], s.u[c], dk);
        if (delta && thread < 32) {
            float sum = 0;
            for (int c = thread; c < call.dv; c += 32) sum = fmaf(s.du[c], s.y[c], sum);
            sum = sum_of_warp(sum);
            if (thread == 0) x.dbeta[bh * x.gate_step + t] = sum;
        }
        __syncthreads();
        for (int c = thread; c < call.dv; c += walk_threads) {
            if (delta) s.du[c] *= beta(t);
            row(x.dv, b, h, t)[c] = E(s.du[c]);
        }
        __syncthreads();
        if (delta) write(s.dS, s.k, s.du, -1.0f);
        if (r < call.dk) {
            float dg = 0;
            for (int c = 0; c < call.dv; ++c) {
                if (delta) dk = fmaf(-s.S[r][c], s.du[c], dk);
                dg = fmaf(s.S[r][c], s.dS[r][c], dg);
            }
            row(x.dk, b, h, t)[r] = E(dk);
            s.dg[r] = dg;
            if (call.gates > 1) x.dg[(bh * x.gate_step + t) * call.gates + r] = dg;
        }
        __syncthreads();
        if (call.gates == 1 && thread < 32) {
            float sum = 0;
            for (int c = thread; c < call.dk; c += 32) sum += s.dg[c];
            sum = sum_of_warp(sum);
            if (thread == 0) x.dg[bh * x.gate_step + t] = sum;
        }
        each_element([&](int c, int column, int) { s.dS[c][column] *= s.a[c]; });
    }

    __device__ void run() const {
        const std::int64_t size = std::int64_t{call.dk} * call.dv;
        load_state(s.S, call.state ? call.state + bh * size : nullptr);
        for (std::int64_t t = 0; t < call.N; ++t) {
            if (t % x.each == 0) store_state(s.S, kept_state(t / x.each));
            meet(t);
            write(s.S, s.k, s.u, 1.0f);
        }
        load_state(s.dS, x.dstate_in ? x.dstate_in + bh * size : nullptr);
        for (std::int64_t i = x.segments - 1; i >= 0; --i) {
            const std::int64_t first = i * x.each, last = min(first + x.each, call.N);
            load_state(s.S, kept_state(i));
            for (std::int64_t t = first; t < last; ++t) {
                store_state(s.S, kept_state(x.segments + t - first));
                meet(t);
                write(s.S, s.k, s.u, 1.0f);
            }
            for (std::int64_t t = last - 1; t >= first; --t) {
                load_state(s.S, kept_state(x.segments + t - first));
                back(t);
            }
        }
        if (x.dstate_out) store_state(s.dS, x.dstate_out + bh * size);
    }
};

__global__ __launch_bounds__(walk_threads) void gated_gradient_by_tokens(const __grid_constant__ Walks x) {
    if (*x.not_finite == 0) return;
    extern __shared__ __align__(16) unsigned char shared[];
    for (std::int64_t bh = blockIdx.x; bh < x.call.all_heads; bh += gridDim.x)
        Walk(x, *reinterpret_cast<WalkShared*>(shared), bh).run();
}

}  // namespace

void launch_walks(const Walks& x, cudaStream_t stream) {
    launch(gated_gradient_by_tokens, "launching gated_gradient_by_tokens", dim3(static_cast<unsigned>(x.blocks)),
           walk_threads, sizeof(WalkShared), 1, false, stream, x);
}

const float* kept_dstate(const GatedGradArgs& a, float* room, cudaStream_t stream) {
    if (!a.dstate_in_place()) return a.dstate_in;
    const auto bytes = static_cast<std::size_t>(a.in.B * a.in.H * a.in.dk * a.in.dv) * sizeof(float);
    check(cudaMemcpyAsync(room, a.dstate_in, bytes, cudaMemcpyDeviceToDevice, stream), "copying dstate");
    return room;
}

}  // namespace causeway::gpu::gradient
