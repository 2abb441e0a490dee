// From chunk to chunk: the state in registers, and the outputs. README.md has the letters.
#include "gpu/gated/channels/operands.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/barriers.hpp"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/pipeline.cuh"

namespace causeway::gpu::channels {

namespace {

using gated::head_of;

constexpr int consumers = 256, sweep_threads = consumers + 32;  // one warp more loads
constexpr uint32_t narrow_pitch = pitch_of(sweep_columns), stages = 3;

template <int DK>
struct SweepShared {
    struct Keys {
        unsigned char tiles[KeyTiles(DK, true).bytes], U[value_bytes];  // U: U0 or V, then U
    } keys[stages];
    struct Queries {
        unsigned char tiles[QueryTiles(DK).bytes];
    } queries[stages];
    unsigned char S[DK * narrow_pitch];  // the state before the chunk in BFloat16
    PipelineBarriers<stages> keys_barriers, queries_barriers;
};
template <int DK, class S = SweepShared<DK>>
using KeysPipeline = Pipeline<stages, sizeof(typename S::Keys), offsetof(S, keys), offsetof(S, keys_barriers)>;
template <int DK, class S = SweepShared<DK>>
using QueriesPipeline =
    Pipeline<stages, sizeof(typename S::Queries), offsetof(S, queries), offsetof(S, queries_barriers)>;

// Blocks of a cluster: two, where a batch-head has an even number of them. Of four, which would read tiles from the
// second-level cache half as often, 32 clusters do not fit on a GPU some of whose clusters of multiprocessors are short
// of 16: a second wave took twice the time.
__host__ __device__ inline int cluster_of(const Part& p) { return p.DV / sweep_columns % 2 == 0 ? 2 : 1; }

// A thread block: 32 columns of one batch-head; the two blocks of a cluster load one half of the tiles each, into both.
// Of eight consumer warps, warp w has the rows 16 w ... 16 w + 15 of the state in Float32, and of U and of the outputs
// 16 tokens of 16 columns.
template <int DK>
struct Sweep {
    using Shared = SweepShared<DK>;
    using Keys = typename Shared::Keys;
    using Queries = typename Shared::Queries;
    static constexpr uint32_t pitch = pitch_of(DK), square = pitch_of(C);
    using State = float[4][4];  // the accumulators of 16×32

    Shared& s;
    const Part& p;
    const gated::Call& call;
    const int wide, cluster;  // blocks of a batch-head, and of a cluster
    const int64_t bh, b, h;
    const int rank, first_column, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int token = warp % 4 * 16, column = warp / 4 % 2 * 16;  // of this warp's part of U and of the outputs
    const bool delta, has_rows = warp < DK / 16;
    const KeyTiles key_tiles;
    const KeysPipeline<DK> keys;
    const QueriesPipeline<DK> queries;

    __device__ __forceinline__ Sweep(const Part& p, Shared& s)
        : s(s),
          p(p),
          call(p.call),
          wide(p.DV / sweep_columns),
          cluster(cluster_of(p)),
          bh(blockIdx.x / wide),
          b(bh / call.heads),
          h(bh % call.heads),
          rank(static_cast<int>(blockIdx.x) % cluster),
          first_column(static_cast<int>(blockIdx.x) % wide * sweep_columns),
          delta(call.beta != nullptr),
          key_tiles(DK, delta),
          keys{ptx::shared_address(&s)},
          queries{ptx::shared_address(&s)} {}

    __device__ __forceinline__ int tokens_of(int chunk) const {
        return static_cast<int>(min(p.tokens - int64_t{chunk} * C, int64_t{C}));
    }

    // This block's share of some tiles into all blocks of the cluster, by one thread.
    __device__ __forceinline__ void load_share(uint32_t to, const unsigned char* from, uint32_t bytes,
                                               uint32_t bar) const {
        const uint32_t share = (bytes / 16 + cluster - 1) / cluster * 16, at = share * rank;
        if (at >= bytes) return;
        const uint32_t size = min(share, bytes - at);
        if (cluster == 1) ptx::bulk_load(to, from, size, bar);
        else ptx::bulk_load_multicast(static_cast<uint16_t>((1 << cluster) - 1), to + at, from + at, size, bar);
    }
    // The warp that loads, all lanes.
    __device__ __forceinline__ void load() const {
        uint32_t item = 0;
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            const uint32_t at = static_cast<uint32_t>(chunk);
            const int64_t tile = bh * p.chunks + chunk;
            const int n = tokens_of(chunk);
            keys.producer_acquire(at);
            const uint32_t bar = keys.full(at), U = keys.at(at) + static_cast<uint32_t>(offsetof(Keys, U));
            if (lane == 0) {
                keys.producer_expect(at, key_tiles.bytes + (p.values ? value_bytes : 0));
                load_share(keys.at(at), p.keys + tile * key_tiles.bytes, key_tiles.bytes, bar);
                if (p.values)
                    ptx::bulk_load(U, p.values + (tile * wide + first_column / sweep_columns) * value_bytes,
                                   value_bytes, bar);
            }
            if (!p.values) {
                // Rows of 64 bytes: the copy engine took twice the time for them.
                const char* V =
                    head_of(call.v, b, h) + (p.first + int64_t{chunk} * C) * call.v.token + first_column * 2;
#pragma unroll
                for (int i = 0; i < C * sweep_columns / 8 / 32; ++i) {
                    const int t = i * 8 + lane / 4, c = lane % 4 * 8;
                    const bool there = t < n && first_column + c < call.dv;
                    cp_async<16>(U + t * narrow_pitch + c * 2, there ? V + t * call.v.token + c * 2 : V, there);
                }
                ptx::mbarrier_arrive_after_cp_async(bar);
            }
            for (int query = 0; query < call.group; ++query, ++item) {
                queries.producer_acquire(item);
                if (lane > 0) continue;
                const uint32_t bytes = QueryTiles(DK).bytes;
                queries.producer_expect(item, bytes);
                load_share(queries.at(item), p.queries + (tile * call.group + query) * bytes, bytes,
                           queries.full(item));
            }
        }
    }
    // By all lanes of a consumer warp: the stage may be filled again, by every block of the cluster.
    template <class P>
    __device__ __forceinline__ void release(const P& pipeline, uint32_t at) const {
        ptx::fence_proxy_async();
        __syncwarp();
        if (cluster == 1) {
            if (lane == 0) ptx::mbarrier_arrive(pipeline.empty(at));
        } else if (lane < cluster) {
            ptx::mbarrier_arrive_remote(pipeline.empty(at), static_cast<uint32_t>(lane));
        }
    }

    // d += 16 tokens of X times 16 columns of the state; likewise for e and Y, where wanted.
    __device__ __forceinline__ void times_state(float (&d)[2][4], uint32_t X, float (&e)[2][4], uint32_t Y,
                                                bool both) const {
        const uint32_t S = ptx::shared_address(s.S);
        uint32_t a[2][4], c[2][4], f[2][4];
        const auto load = [&](int k) {
            load_a(a[k / 16 % 2], X, pitch, token, k, lane);
            load_b(f[k / 16 % 2], S, narrow_pitch, k, column, lane);
            if (both) load_a(c[k / 16 % 2], Y, pitch, token, k, lane);
        };
        load(0);
#pragma unroll
        for (int k = 0; k < DK; k += 16) {
            if (k + 16 < DK) load(k + 16);  // ahead of the products, which the assembler keeps in order
            multiply(d, a[k / 16 % 2], f[k / 16 % 2]);
            if (both) multiply(e, c[k / 16 % 2], f[k / 16 % 2]);
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
    // U = U0 - d over U0, d = W S.
    __device__ __forceinline__ void write_values(unsigned char* U, const float (&d)[2][4]) const {
        each_pair([&](int t, int c, int half, int i) {
            auto* at = reinterpret_cast<uint32_t*>(U + t * narrow_pitch + c * 2);
            const float2 u = unpack(E{}, *at);
            *at = pack(E{}, u.x - d[half][2 * i], u.y - d[half][2 * i + 1]);
        });
    }
    // scale · (Qe S + A U), Qe S being d, to memory.
    __device__ __forceinline__ void write_outputs(float (&d)[2][4], uint32_t A, uint32_t U, int query,
                                                  int chunk) const {
#pragma unroll
        for (int k = 0; k < C; k += 16) {
            if (k > token) break;
            uint32_t a[4], f[4];
            load_a(a, A, square, token, k, lane);
            load_b(f, U, narrow_pitch, k, column, lane);
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
    __device__ __forceinline__ void advance(State& S, uint32_t Kw, uint32_t U) const {
        const uint32_t last = Kw + key_tiles.last_at + static_cast<uint32_t>(warp * 16 + lane / 4) * 4;
        const float upper = ptx::ld_shared_f32(last), lower = ptx::ld_shared_f32(last + 32);
#pragma unroll
        for (int c = 0; c < 4; ++c) S[c][0] *= upper, S[c][1] *= upper, S[c][2] *= lower, S[c][3] *= lower;
        uint32_t a[2][4], f[2][2][4];
        const auto load = [&](int k) {
            load_a_transposed(a[k / 16 % 2], Kw, pitch, warp * 16, k, lane);
            load_b(f[k / 16 % 2][0], U, narrow_pitch, k, 0, lane);
            load_b(f[k / 16 % 2][1], U, narrow_pitch, k, 16, lane);
        };
        load(0);
#pragma unroll
        for (int k = 0; k < C; k += 16) {
            if (k + 16 < C) load(k + 16);
            const auto& b = f[k / 16 % 2];
#pragma unroll
            for (int c = 0; c < 4; ++c)
                ptx::mma_m16n8k16<E>(S[c], a[k / 16 % 2], b[c / 2][c % 2 * 2], b[c / 2][c % 2 * 2 + 1]);
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
    __device__ __forceinline__ bool inside(int r, int c) const { return r < call.dk && first_column + c < call.dv; }
    __device__ __forceinline__ int64_t index(int r, int c) const {
        return (bh * call.dk + r) * call.dv + first_column + c;
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
        const int rg = threadIdx.x % 8, own = threadIdx.x / 8, c = first_column + own;
        const bool there = c < call.dv;
        float S[each];
#pragma unroll
        for (int m = 0; m < each; ++m) {
            const int r = rg + 8 * m;
            S[m] = p.state_in && inside(r, own) ? p.state_in[index(r, own)] : 0.0f;
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
        if (!p.state_out) return;
#pragma unroll
        for (int m = 0; m < each; ++m)
            if (inside(rg + 8 * m, own)) p.state_out[index(rg + 8 * m, own)] = S[m];
    }

    // Returns false where the state is not finite.
    __device__ __forceinline__ bool compute() const {
        State S = {};
        if (has_rows && p.state_in)
            each_element([&](int r, int c, int i, int e) {
                if (inside(r, c)) S[i][e] = p.state_in[index(r, c)];
            });
        uint32_t item = 0;
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            const uint32_t at = static_cast<uint32_t>(chunk), tiles = keys.at(at);
            if (has_rows) round_state(S);
            keys.consumer_wait(at);
            unsigned char* values = s.keys[at % stages].U;
            ptx::named_barrier_sync(barriers::channels_state, consumers);
            const uint32_t U = ptx::shared_address(values);
            for (int query = 0; query < call.group; ++query, ++item) {
                queries.consumer_wait(item);
                float d[2][4] = {}, e[2][4] = {};
                times_state(d, queries.at(item), e, tiles + key_tiles.W_at, query == 0 && delta);
                if (query == 0) {
                    if (delta) write_values(values, e);
                    ptx::named_barrier_sync(barriers::channels_values, consumers);
                }
                write_outputs(d, queries.at(item) + QueryTiles(DK).A_at, U, query, chunk);
                release(queries, item);
            }
            if (has_rows) advance(S, tiles, U);
            release(keys, at);
            if (call.group > 1) ptx::named_barrier_sync(barriers::channels_values, consumers);
        }
        return store(S);
    }
    // Whether the last state is finite; then it goes to memory.
    __device__ __forceinline__ bool store(const State& S) const {
        bool finite = true;
        each_element([&](int, int, int i, int e) { finite = finite && is_finite(S[i][e]); });
        if (!ptx::named_barrier_and(barriers::channels_finite, consumers, finite)) return false;
        if (p.state_out && has_rows)
            each_element([&](int r, int c, int i, int e) {
                if (inside(r, c)) p.state_out[index(r, c)] = S[i][e];
            });
        return true;
    }
};

template <int DK>
__global__ __launch_bounds__(sweep_threads, 1) void gated_channels_sweep(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    const Sweep<DK> sweep(p, *reinterpret_cast<SweepShared<DK>*>(shared));
    if (threadIdx.x == 0) {
        const uint32_t releases = consumers / 32 * static_cast<uint32_t>(sweep.cluster);
        sweep.keys.init(p.values ? 1 : 1 + 32, releases);  // with V, every lane of the warp that loads
        sweep.queries.init(1, releases);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (sweep.cluster > 1) ptx::cluster_sync();
    bool finite = true;
    if (threadIdx.x < consumers) finite = sweep.compute();
    else sweep.load();
    // No block ends while another may still write to its shared memory.
    __syncthreads();
    if (sweep.cluster > 1) ptx::cluster_sync();
    if (!finite) sweep.walk_by_tokens();
}

template <int DK>
void sweep(const Part& p, cudaStream_t stream) {
    launch(gated_channels_sweep<DK>, "launching gated_channels_sweep",
           dim3(static_cast<unsigned>(p.call.all_heads * (p.DV / sweep_columns))), sweep_threads,
           sizeof(SweepShared<DK>), cluster_of(p), false, stream, p);
}

}  // namespace

void launch_sweep(const Part& p, cudaStream_t stream) {
    if (p.DK == 64) sweep<64>(p, stream);
    else sweep<128>(p, stream);
}

}  // namespace causeway::gpu::channels
