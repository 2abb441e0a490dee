// From chunk to chunk: the state in registers, and the outputs. README.md has the letters.
#include "gpu/gated/channels/operands.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::channels {

namespace {

using gated::head_of;

constexpr int sweep_threads = 256;
constexpr uint32_t narrow_pitch = pitch_of(sweep_columns);

template <int DK>
struct SweepShared {
    static constexpr uint32_t pitch = pitch_of(DK), square = pitch_of(C);
    struct Keys {
        unsigned char Kw[C * pitch], W[C * pitch], U[C * narrow_pitch];  // U: U0 or V, then U
        float last[DK];
    } keys[2];
    struct Queries {
        unsigned char Qe[C * pitch], A[C * square];
    } queries[2];
    unsigned char S[DK * narrow_pitch];  // the state before the chunk in BFloat16
};

// A thread block: 32 columns of one batch-head. Warp w has the rows 16 w ... 16 w + 15 of the state in Float32, and of
// U and of the outputs 16 tokens of 16 columns.
template <int DK>
struct Sweep {
    using Shared = SweepShared<DK>;
    static constexpr uint32_t pitch = Shared::pitch;
    using State = float[4][4];  // the accumulators of 16×32

    Shared& s;
    const Part& p;
    const gated::Call& call;
    const int64_t bh, b, h;
    const int first_column, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int token = warp % 4 * 16, column = warp / 4 * 16;  // of this warp's part of U and of the outputs
    const bool delta, has_rows = warp < DK / 16;

    __device__ __forceinline__ Sweep(const Part& p, Shared& s)
        : s(s),
          p(p),
          call(p.call),
          bh(blockIdx.x / (p.DV / sweep_columns)),
          b(bh / call.heads),
          h(bh % call.heads),
          first_column(static_cast<int>(blockIdx.x % (p.DV / sweep_columns)) * sweep_columns),
          delta(call.beta != nullptr) {}

    __device__ __forceinline__ int tokens_of(int chunk) const {
        return static_cast<int>(min(p.tokens - int64_t{chunk} * C, int64_t{C}));
    }
    __device__ __forceinline__ void copy_tile(unsigned char* to, const E* from) const {
        copy_rows<C, DK, sweep_threads>(to, pitch, reinterpret_cast<const char*>(from), DK * 2, C, DK, true);
    }
    __device__ __forceinline__ void copy_keys(int chunk) const {
        auto& to = s.keys[chunk % 2];
        const int64_t tile = bh * p.chunks + chunk;
        copy_tile(to.Kw, p.Kw + tile * C * DK);
        if (delta) {
            copy_tile(to.W, p.W + tile * C * DK);
            copy_rows<C, sweep_columns, sweep_threads>(
                to.U, narrow_pitch, reinterpret_cast<const char*>(p.U0 + tile * C * p.DV + first_column), p.DV * 2, C,
                sweep_columns, true);
        } else {
            const char* V = head_of(call.v, b, h) + (p.first + int64_t{chunk} * C) * call.v.token + first_column * 2;
            copy_rows<C, sweep_columns, sweep_threads>(to.U, narrow_pitch, V, call.v.token, tokens_of(chunk),
                                                       call.dv - first_column, call.v.whole);
        }
        for (int i = threadIdx.x; i < DK / 4; i += sweep_threads)
            cp_async<16>(to.last + 4 * i, p.last + tile * DK + 4 * i, true);
    }
    // item: chunk · group + head of queries.
    __device__ __forceinline__ void copy_queries(int item) const {
        auto& to = s.queries[item % 2];
        const int64_t tile = (bh * p.chunks + item / call.group) * call.group + item % call.group;
        copy_tile(to.Qe, p.Qe + tile * C * DK);
        const E* A = p.A + tile * C * C;
        for (int i = threadIdx.x; i < C * C / 8; i += sweep_threads) {
            const int t = i / (C / 8), c = i % (C / 8) * 8;
            if (c / 16 <= t / 16) cp_async<16>(to.A + t * Shared::square + c * 2, A + t * C + c, true);
        }
    }

    // d += 16 tokens of X, rows of DK elements, times 16 columns of the state.
    __device__ __forceinline__ void times_state(float (&d)[2][4], const unsigned char* X) const {
        const uint32_t x = ptx::shared_address(X), S = ptx::shared_address(s.S);
#pragma unroll
        for (int k = 0; k < DK; k += 16) {
            uint32_t a[4], f[4];
            load_a(a, x, pitch, token, k, lane);
            load_b(f, S, narrow_pitch, k, column, lane);
            multiply(d, a, f);
        }
    }
    // f(row, column, i) for the pairs of this lane in an accumulator of 16×16 at (token, column): d[half][2 i ...].
    template <class F>
    __device__ __forceinline__ void each_pair(F&& f) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 2; ++i) f(token + lane / 4 + 8 * i, column + 8 * half + lane % 4 * 2, half, i);
        }
    }
    // U = U0 - W S over U0.
    __device__ __forceinline__ void write_values(typename Shared::Keys& keys) const {
        float d[2][4] = {};
        times_state(d, keys.W);
        each_pair([&](int t, int c, int half, int i) {
            auto* at = reinterpret_cast<uint32_t*>(keys.U + t * narrow_pitch + c * 2);
            const float2 u = unpack(E{}, *at);
            *at = pack(E{}, u.x - d[half][2 * i], u.y - d[half][2 * i + 1]);
        });
    }
    // scale · (Qe S + A U), Qe S being d, to memory.
    __device__ __forceinline__ void write_outputs(float (&d)[2][4], const unsigned char* A, const unsigned char* U,
                                                  int query, int chunk) const {
        const uint32_t x = ptx::shared_address(A), u = ptx::shared_address(U);
#pragma unroll
        for (int k = 0; k < C; k += 16) {
            if (k > token) break;
            uint32_t a[4], f[4];
            load_a(a, x, Shared::square, token, k, lane);
            load_b(f, u, narrow_pitch, k, column, lane);
            multiply(d, a, f);
        }
        const int n = tokens_of(chunk);
        char* O = head_of(call.o, b, h * call.group + query) + (p.first + int64_t{chunk} * C) * call.o.token;
        each_pair([&](int t, int c, int half, int i) {
            const int at = first_column + c;
            if (t >= n || at >= call.dv) return;
            E* to = reinterpret_cast<E*>(O + t * call.o.token) + at;
            const float first = call.scale * d[half][2 * i], second = call.scale * d[half][2 * i + 1];
            if (call.o.quads) {
                *reinterpret_cast<uint32_t*>(to) = pack(E{}, first, second);
                return;
            }
            to[0] = E(first);
            if (at + 1 < call.dv) to[1] = E(second);
        });
    }
    // S ← last ⊙ S + Kwᵀ U.
    __device__ __forceinline__ void advance(State& S, const typename Shared::Keys& keys) const {
        const float upper = keys.last[warp * 16 + lane / 4], lower = keys.last[warp * 16 + lane / 4 + 8];
#pragma unroll
        for (int c = 0; c < 4; ++c) S[c][0] *= upper, S[c][1] *= upper, S[c][2] *= lower, S[c][3] *= lower;
        const uint32_t Kw = ptx::shared_address(keys.Kw), u = ptx::shared_address(keys.U);
#pragma unroll
        for (int k = 0; k < C; k += 16) {
            uint32_t a[4], f[2][4];
            load_a_transposed(a, Kw, pitch, warp * 16, k, lane);
            load_b(f[0], u, narrow_pitch, k, 0, lane);
            load_b(f[1], u, narrow_pitch, k, 16, lane);
#pragma unroll
            for (int c = 0; c < 4; ++c) ptx::mma_m16n8k16<E>(S[c], a, f[c / 2][c % 2 * 2], f[c / 2][c % 2 * 2 + 1]);
        }
    }
    // f(row, column, value) for the state's elements of this lane.
    template <class F>
    __device__ __forceinline__ void each_element(F&& f) const {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
#pragma unroll
            for (int e = 0; e < 4; ++e) f(warp * 16 + lane / 4 + e / 2 * 8, c * 8 + lane % 4 * 2 + e % 2, c, e);
        }
    }
    __device__ __forceinline__ void round_state(const State& S) const {
        each_element([&](int r, int c, int i, int e) {
            if (e % 2 == 0)
                *reinterpret_cast<uint32_t*>(s.S + r * narrow_pitch + c * 2) = pack(E{}, S[i][e], S[i][e + 1]);
        });
    }

    // A value that is not finite stays in the state for good, so a finite last state tells that none has come by. Where
    // one has, the definition is followed, token by token, with its products alone.
    __device__ __noinline__ void walk_by_tokens() const {
        constexpr int each = DK / 8;
        const int rg = threadIdx.x % 8, c = first_column + threadIdx.x / 8;
        const bool there = c < call.dv;
        float S[each];
#pragma unroll
        for (int m = 0; m < each; ++m) {
            const int r = rg + 8 * m;
            S[m] = there && r < call.dk && p.state_in ? p.state_in[(bh * call.dk + r) * call.dv + c] : 0.0f;
        }
        const auto sum8 = [](float x) {
            x += __shfl_xor_sync(all_lanes, x, 1);
            x += __shfl_xor_sync(all_lanes, x, 2);
            return x + __shfl_xor_sync(all_lanes, x, 4);
        };
        for (int64_t t = p.first; t < p.first + p.tokens; ++t) {
            const E* k = reinterpret_cast<const E*>(head_of(call.k, b, h) + t * call.k.token);
            const E* v = reinterpret_cast<const E*>(head_of(call.v, b, h) + t * call.v.token);
            const float* g = call.g + (bh * call.N + t) * call.gates;
            float keys[each], read = 0;
#pragma unroll
            for (int m = 0; m < each; ++m) {
                const int r = rg + 8 * m;
                keys[m] = r < call.dk ? static_cast<float>(k[r]) : 0.0f;
                if (r < call.dk) S[m] *= expf(g[r]);
                read = fmaf(keys[m], S[m], read);
            }
            float u = there ? static_cast<float>(v[c]) : 0.0f;
            if (delta) u = call.beta[bh * call.N + t] * (u - sum8(read));
#pragma unroll
            for (int m = 0; m < each; ++m)
                if (rg + 8 * m < call.dk) S[m] = fmaf(keys[m], u, S[m]);
            for (int query = 0; query < call.group; ++query) {
                const E* q = reinterpret_cast<const E*>(head_of(call.q, b, h * call.group + query) + t * call.q.token);
                float out = 0;
#pragma unroll
                for (int m = 0; m < each; ++m)
                    if (rg + 8 * m < call.dk) out = fmaf(static_cast<float>(q[rg + 8 * m]), S[m], out);
                out = call.scale * sum8(out);
                if (rg == 0 && there)
                    reinterpret_cast<E*>(head_of(call.o, b, h * call.group + query) + t * call.o.token)[c] = E(out);
            }
        }
        if (!p.state_out || !there) return;
#pragma unroll
        for (int m = 0; m < each; ++m)
            if (rg + 8 * m < call.dk) p.state_out[(bh * call.dk + rg + 8 * m) * call.dv + c] = S[m];
    }

    __device__ __forceinline__ void run() const {
        State S = {};
        const auto inside = [&](int r, int c) { return r < call.dk && first_column + c < call.dv; };
        const auto at = [&](int r, int c) { return (bh * call.dk + r) * call.dv + first_column + c; };
        if (has_rows && p.state_in)
            each_element([&](int r, int c, int i, int e) {
                if (inside(r, c)) S[i][e] = p.state_in[at(r, c)];
            });
        copy_keys(0);
        copy_queries(0);
        int item = 0;
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            auto& keys = s.keys[chunk % 2];
            if (has_rows) round_state(S);
            for (int query = 0; query < call.group; ++query, ++item) {
                cp_async_wait_all();
                __syncthreads();
                if (query == 0 && chunk + 1 < p.chunks) copy_keys(chunk + 1);
                if (item + 1 < p.chunks * call.group) copy_queries(item + 1);
                const auto& queries = s.queries[item % 2];
                if (query == 0 && delta) write_values(keys);
                float d[2][4] = {};
                times_state(d, queries.Qe);
                if (query == 0 && delta) __syncthreads();
                write_outputs(d, queries.A, keys.U, query, chunk);
            }
            if (has_rows) advance(S, keys);
            __syncthreads();
        }
        bool finite = true;
        each_element([&](int, int, int i, int e) { finite = finite && is_finite(S[i][e]); });
        if (!__syncthreads_and(finite)) return walk_by_tokens();
        if (p.state_out && has_rows)
            each_element([&](int r, int c, int i, int e) {
                if (inside(r, c)) p.state_out[at(r, c)] = S[i][e];
            });
    }
};

template <int DK>
__global__ __launch_bounds__(sweep_threads, 1) void gated_channels_sweep(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    Sweep<DK>(p, *reinterpret_cast<SweepShared<DK>*>(shared)).run();
}

template <int DK>
void sweep(const Part& p, cudaStream_t stream) {
    launch(gated_channels_sweep<DK>, "launching gated_channels_sweep",
           dim3(static_cast<unsigned>(p.call.all_heads * (p.DV / sweep_columns))), sweep_threads, sizeof(SweepShared<DK>),
           1, false, stream, p);
}

}  // namespace

void launch_sweep(const Part& p, cudaStream_t stream) {
    if (p.DK == 64) sweep<64>(p, stream);
    else sweep<128>(p, stream);
}

}  // namespace causeway::gpu::channels
