// From chunk to chunk: the state in registers, and the outputs. README.md has the letters.
#include "gpu/gated/channels/own_part.cuh"
#include "gpu/gated/channels/sweep.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::channels {

namespace {

using gated::head_of;

template <int DK>
struct SweepShared {
    struct Keys {
        unsigned char tiles[KeyTiles(DK, true).bytes], U[value_bytes];  // U: U0 or V, then U
    } keys[stages];
    struct Queries {
        unsigned char tiles[QueryTiles(DK).bytes];
    } queries[stages];
    unsigned char S[tile_bytes(DK, sweep_columns)];  // the state before the chunk in BFloat16
    PipelineBarriers<stages> keys_barriers, queries_barriers;
};

template <int DK>
struct Sweep : SweepBlock<DK, SweepShared<DK>> {
    using Block = SweepBlock<DK, SweepShared<DK>>;
    using Shared = SweepShared<DK>;
    using Keys = typename Shared::Keys;
    using Block::s, Block::p, Block::call, Block::keys, Block::queries, Block::delta, Block::has_rows, Block::lane,
        Block::token, Block::column, Block::first_column, Block::bh, Block::b, Block::h, Block::key_tiles,
        Block::inside, Block::index;
    using typename Block::State;

    __device__ __forceinline__ Sweep(const Part& p, Shared& s, int64_t bh) : Block(p, s, bh) {}

    // The warp that loads, all lanes.
    __device__ __forceinline__ void load() const {
        uint32_t item = 0;
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            const uint32_t at = static_cast<uint32_t>(chunk);
            const int64_t tile = this->tile_of(chunk);
            keys.producer_acquire(at);
            const uint32_t bar = keys.full(at), U = keys.at(at) + static_cast<uint32_t>(offsetof(Keys, U));
            if (lane == 0) {
                keys.producer_expect(at, key_tiles.bytes + (p.values ? value_bytes : 0));
                this->load_share(keys.at(at), p.keys + tile * key_tiles.bytes, key_tiles.bytes, bar);
                if (p.values) ptx::bulk_load(U, p.values + this->narrow_tile_of(chunk) * value_bytes, value_bytes, bar);
            }
            if (!p.values) this->load_columns(U, call.v, h, chunk, bar);
            for (int query = 0; query < call.group; ++query, ++item) {
                queries.producer_acquire(item);
                if (lane > 0) continue;
                const uint32_t bytes = QueryTiles(DK).bytes;
                queries.producer_expect(item, bytes);
                this->load_share(queries.at(item), p.queries + (tile * call.group + query) * bytes, bytes,
                                 queries.full(item));
            }
        }
    }

    // U = U0 - d over U0, d = W S.
    __device__ __forceinline__ void write_values(unsigned char* U, const float (&d)[2][4]) const {
        this->each_pair([&](int t, int c, int half, int i) {
            auto* at = reinterpret_cast<uint32_t*>(U + tile_at<sweep_columns>(t, c));
            const float2 u = unpack(E{}, *at);
            *at = pack(E{}, u.x - d[half][2 * i], u.y - d[half][2 * i + 1]);
        });
    }
    // Qe S + A U, Qe S being d, to memory.
    __device__ __forceinline__ void write_outputs(float (&d)[2][4], uint32_t A, uint32_t U, int query,
                                                  int chunk) const {
#pragma unroll
        for (int k = 0; k < C; k += 16) {
            if (k > token) break;
            uint32_t a[4], f[4];
            load_a<C>(a, A, token, k, lane);
            load_b<sweep_columns>(f, U, k, column, lane);
            multiply(d, a, f);
        }
        const int n = this->tokens_of(chunk);
        char* O = head_of(call.o, b, h * call.group + query) + (p.first + int64_t{chunk} * C) * call.o.token;
        this->each_pair([&](int t, int c, int half, int i) {
            const int at = first_column + c;
            if (t >= n || at >= call.dv) return;
            E* to = reinterpret_cast<E*>(O + t * call.o.token) + at;
            const float first = d[half][2 * i], second = d[half][2 * i + 1];
            if (call.o.quads) {
                *reinterpret_cast<uint32_t*>(to) = pack(E{}, first, second);
                return;
            }
            to[0] = E(first);
            if (at + 1 < call.dv) to[1] = E(second);
        });
    }
    // For the gradient: the state before the chunk, and later U, to memory, by one thread.
    __device__ __forceinline__ void record_state(int chunk) const {
        if (!p.states || threadIdx.x > 0) return;
        ptx::bulk_store(p.states + this->narrow_tile_of(chunk) * tile_bytes(DK, sweep_columns),
                        ptx::shared_address(s.S), tile_bytes(DK, sweep_columns));
        ptx::tma_store_commit();
    }
    __device__ __forceinline__ void record_values(int chunk, uint32_t U) const {
        if (!p.states || !delta || threadIdx.x > 0) return;
        ptx::bulk_store(p.values + this->narrow_tile_of(chunk) * value_bytes, U, value_bytes);
        ptx::tma_store_commit();
    }
    // What was recorded has left shared memory.
    __device__ __forceinline__ void wait_recorded() const {
        if (p.states && threadIdx.x == 0) ptx::tma_store_wait_read<0>();
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
            float keys[each], read = 0;
#pragma unroll
            for (int m = 0; m < each; ++m) {
                const int r = rg + 8 * m;
                keys[m] = r < call.dk ? static_cast<float>(k[r]) : 0.0f;
                if (r < call.dk)
                    S[m] *= expf(call.projection.a ? log_gate<true>(call, bh, t, r) : log_gate<false>(call, bh, t, r));
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
        this->load_state(S, p.state_in);
        uint32_t item = 0;
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            const uint32_t at = static_cast<uint32_t>(chunk), tiles = keys.at(at);
            if (has_rows) this->round_state(S);
            keys.consumer_wait(at);
            unsigned char* values = s.keys[at % stages].U;
            if (p.states) ptx::fence_proxy_async();
            ptx::named_barrier_sync(barriers::channels_state, consumers);
            record_state(chunk);
            const uint32_t U = ptx::shared_address(values);
            const auto finish_values = [&](const float(&e)[2][4]) {
                if (delta) write_values(values, e);
                if (p.states) ptx::fence_proxy_async();
                wait_recorded();
                ptx::named_barrier_sync(barriers::channels_values, consumers);
                record_values(chunk, U);
            };
            if (call.group == 0) {
                float e[2][4] = {};
                if (delta) this->times_state(e, tiles + key_tiles.W_at);
                finish_values(e);
            }
            for (int query = 0; query < call.group; ++query, ++item) {
                queries.consumer_wait(item);
                float d[2][4] = {}, e[2][4] = {};
                this->times_state(d, queries.at(item), e, tiles + key_tiles.W_at, query == 0 && delta);
                if (query == 0) finish_values(e);
                write_outputs(d, queries.at(item) + QueryTiles(DK).A_at, U, query, chunk);
                this->release(queries, item);
            }
            if (has_rows) {
                this->decay(S, tiles);
                this->add_outer(S, tiles, U);
            }
            wait_recorded();
            this->release(keys, at);
            if (call.group > 1) ptx::named_barrier_sync(barriers::channels_values, consumers);
        }
        return store(S);
    }
    // Whether the last state is finite; then, or where none of its columns goes token by token, it goes to memory.
    __device__ __forceinline__ bool store(const State& S) const {
        const bool finite = this->is_state_finite(S);
        if (!finite && !p.not_finite) return false;
        if (!finite && threadIdx.x == 0) *p.not_finite = 1;
        this->store_state(S, p.state_out);
        return true;
    }
};

// Of packed sequences the grid goes through the parts of the round, and for each of them through the heads.
template <int DK, bool packed>
__global__ __launch_bounds__(sweep_threads, 1) void gated_channels_sweep(const __grid_constant__ Told<packed> told) {
    extern __shared__ __align__(16) unsigned char shared[];
    uint32_t part = 0;
    int64_t bh = blockIdx.x / head_blocks(shared_part(told));
    if constexpr (packed) {
        const auto heads = static_cast<uint32_t>(told.part.call.all_heads), head = static_cast<uint32_t>(bh);
        part = head / heads, bh = head % heads;
    }
    const Part& p = own_part(told, part);
    const Sweep<DK> sweep(p, *reinterpret_cast<SweepShared<DK>*>(shared), bh);
    if (threadIdx.x == 0) sweep.init(p.values ? 1 : 1 + 32, 1);  // with V, every lane of the warp that loads
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

template <int DK, class T>
void sweep(const T& told, std::int64_t parts, cudaStream_t stream) {
    const Part& p = shared_part(told);
    launch(gated_channels_sweep<DK, std::is_same_v<T, RoundPart>>, "launching gated_channels_sweep",
           dim3(static_cast<unsigned>(parts * p.call.all_heads * head_blocks(p))), sweep_threads,
           sizeof(SweepShared<DK>), cluster_of(p), false, stream, told);
}
template <class T>
void sweep(const T& told, std::int64_t parts, cudaStream_t stream) {
    if (shared_part(told).DK == 64) sweep<64>(told, parts, stream);
    else sweep<128>(told, parts, stream);
}

}  // namespace

void launch_sweep(const Part& p, cudaStream_t stream) { sweep(p, 1, stream); }
void launch_sweep(const RoundPart& p, cudaStream_t stream) { sweep(p, p.parts, stream); }

}  // namespace causeway::gpu::channels
