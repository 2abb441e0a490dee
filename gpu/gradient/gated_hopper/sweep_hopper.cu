// The gradient of the state, chunk after chunk, the last one first. README.md has the letters.
#include "gpu/gated/channels/sweep.cuh"
#include "gpu/gradient/gated_hopper/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gradient {

namespace {

using namespace channels;

template <int DK>
struct BackwardShared {
    static constexpr uint32_t stages = 3;
    struct Keys {
        unsigned char tiles[KeyTiles(DK, true).bytes];
    } keys[stages];
    struct Queries {
        unsigned char tiles[QueryTiles(DK).bytes], dO[value_bytes];
    } queries[stages];
    unsigned char S[tile_bytes(DK, sweep_columns)];  // the gradient of the state after the chunk in BFloat16
    unsigned char dU[value_bytes];
    PipelineBarriers<stages> keys_barriers, queries_barriers;
};

// A thread block as in the forward sweep, with products by mma.sync; its state is the gradient of the state, E.
template <int DK>
struct BackwardSweep : SweepBlock<DK, BackwardShared<DK>> {
    using Block = SweepBlock<DK, BackwardShared<DK>>;
    using Queries = typename BackwardShared<DK>::Queries;
    using Block::s, Block::p, Block::call, Block::keys, Block::queries, Block::delta, Block::has_rows, Block::warp,
        Block::lane, Block::token, Block::column, Block::h, Block::key_tiles;
    using typename Block::State;

    const BackwardChunks& x;

    __device__ __forceinline__ BackwardSweep(const BackwardChunks& x, BackwardShared<DK>& s) : Block(x.part, s), x(x) {}

    // The warp that loads, all lanes.
    __device__ __forceinline__ void load() const {
        uint32_t at = 0, item = 0;
        for (int chunk = p.chunks - 1; chunk >= 0; --chunk, ++at) {
            const int64_t tile = this->tile_of(chunk);
            keys.producer_acquire(at);
            if (lane == 0) {
                keys.producer_expect(at, key_tiles.bytes);
                this->load_share(keys.at(at), p.keys + tile * key_tiles.bytes, key_tiles.bytes, keys.full(at));
            }
            for (int query = 0; query < call.group; ++query, ++item) {
                queries.producer_acquire(item);
                const uint32_t bytes = QueryTiles(DK).bytes, bar = queries.full(item);
                if (lane == 0) {
                    queries.producer_expect(item, bytes);
                    this->load_share(queries.at(item), p.queries + (tile * call.group + query) * bytes, bytes, bar);
                }
                this->load_columns(queries.at(item) + static_cast<uint32_t>(offsetof(Queries, dO)), x.dO,
                                   h * call.group + query, chunk, bar);
            }
        }
    }

    // d += 16 tokens of X times 16 columns of the state at S.
    __device__ __forceinline__ void times_state(float (&d)[2][4], uint32_t X, uint32_t S) const {
        uint32_t a[2][4], f[2][4];
        const auto load = [&](int k) {
            load_a<DK>(a[k / 16 % 2], X, token, k, lane);
            load_b<sweep_columns>(f[k / 16 % 2], S, k, column, lane);
        };
        load(0);
#pragma unroll
        for (int k = 0; k < DK; k += 16) {
            if (k + 16 < DK) load(k + 16);  // ahead of the products, which the assembler keeps in order
            multiply(d, a[k / 16 % 2], f[k / 16 % 2]);
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
    // S += Xᵀ Y, with `negative` S -= Xᵀ Y, where X are 64 tokens of all rows and Y of the 32 columns.
    template <bool negative = false>
    __device__ __forceinline__ void add_outer(State& S, uint32_t X, uint32_t Y) const {
        uint32_t a[2][4], f[2][2][4];
        const auto load = [&](int k) {
            load_a_transposed<DK>(a[k / 16 % 2], X, warp * 16, k, lane);
            if constexpr (negative) {
#pragma unroll
                for (uint32_t& pair : a[k / 16 % 2]) pair ^= 0x80008000u;
            }
            load_b<sweep_columns>(f[k / 16 % 2][0], Y, k, 0, lane);
            load_b<sweep_columns>(f[k / 16 % 2][1], Y, k, 16, lane);
        };
        load(0);
#pragma unroll
        for (int k = 0; k < C; k += 16) {
            if (k + 16 < C) load(k + 16);
            const auto& y = f[k / 16 % 2];
#pragma unroll
            for (int c = 0; c < 4; ++c)
                ptx::mma_m16n8k16<E>(S[c], a[k / 16 % 2], y[c / 2][c % 2 * 2], y[c / 2][c % 2 * 2 + 1]);
        }
    }
    // d += Aᵀ dO, A 64×64 with zeros above its diagonal.
    __device__ __forceinline__ void times_scores(float (&d)[2][4], uint32_t A, uint32_t dO) const {
#pragma unroll
        for (int k = 0; k < C; k += 16) {
            if (k < token) continue;
            uint32_t a[4], f[4];
            load_a_transposed<C>(a, A, token, k, lane);
            load_b<sweep_columns>(f, dO, k, column, lane);
            multiply(d, a, f);
        }
    }

    // dU = Kw E + Σ Aᵀ dO;  E ← last ⊙ E + Σ Qeᵀ dO - Wᵀ dU. Tiles of queries hold scale already.
    __device__ __forceinline__ void compute() const {
        State E = {};
        const int64_t state = int64_t{call.dk} * call.dv;
        this->load_state(E, this->columns_of(x.dstate_in, state));
        const uint32_t dU = ptx::shared_address(s.dU);
        const KeptColumn kept_after = this->kept(x.after), kept_dU = this->kept(x.dU);
        uint32_t at = 0, item = 0;
        for (int chunk = p.chunks - 1; chunk >= 0; --chunk, ++at) {
            const uint32_t tiles = keys.at(at);
            if (has_rows) this->round_state(E, ptx::shared_address(s.S));
            keys.consumer_wait(at);
            ptx::fence_proxy_async();
            this->wait_recorded();
            ptx::named_barrier_sync(barriers::channels_state, consumers);
            this->record(kept_after, chunk, ptx::shared_address(s.S));
            float d[2][4] = {};
            this->times_state(d, tiles, ptx::shared_address(s.S));
            if (has_rows) this->decay(E, tiles);
            for (int query = 0; query < call.group; ++query, ++item) {
                queries.consumer_wait(item);
                const uint32_t Qe = queries.at(item), dO = Qe + static_cast<uint32_t>(offsetof(Queries, dO));
                times_scores(d, Qe + QueryTiles(DK).A_at, dO);
                if (has_rows) this->add_outer(E, Qe, dO);
                this->release(queries, item);
            }
            this->each_pair([&](int t, int c, int half, int i) {
                *reinterpret_cast<uint32_t*>(s.dU + tile_at<sweep_columns>(t, c)) =
                    pack(channels::E{}, d[half][2 * i], d[half][2 * i + 1]);
            });
            ptx::fence_proxy_async();
            this->wait_recorded();
            ptx::named_barrier_sync(barriers::channels_values, consumers);
            this->record(kept_dU, chunk, dU);
            if (delta && has_rows) this->template add_outer<true>(E, tiles + key_tiles.W_at, dU);
            this->release(keys, at);
        }
        this->wait_recorded();
        if (!this->is_state_finite(E) && threadIdx.x == 0) *p.not_finite = 1;
        this->store_state(E, this->columns_of(x.dstate_out, state));
    }
};

template <int DK>
__global__ __launch_bounds__(sweep_threads, 1) void gated_backward_chunks(const __grid_constant__ BackwardChunks x) {
    extern __shared__ __align__(16) unsigned char shared[];
    const BackwardSweep<DK> sweep(x, *reinterpret_cast<BackwardShared<DK>*>(shared));
    if (threadIdx.x == 0) sweep.init(1, 1 + 32);  // with dO, every lane of the warp that loads
    __syncthreads();
    if (sweep.cluster > 1) ptx::cluster_sync();
    ptx::griddepcontrol_launch_dependents();  // the blocks that finish chunks load what was there before
    ptx::griddepcontrol_wait();
    if (threadIdx.x < consumers) sweep.compute();
    else sweep.load();
    // No block ends while another may still write to its shared memory.
    __syncthreads();
    if (sweep.cluster > 1) ptx::cluster_sync();
}

template <int DK>
void backward_chunks(const BackwardChunks& x, cudaStream_t stream) {
    launch(gated_backward_chunks<DK>, "launching gated_backward_chunks",
           dim3(static_cast<unsigned>(x.part.call.all_heads * (x.part.DV / sweep_columns))), sweep_threads,
           sizeof(BackwardShared<DK>), cluster_of(x.part), true, stream, x);
}

}  // namespace

void launch_backward_chunks(const BackwardChunks& x, cudaStream_t stream) {
    if (x.part.DK == 64) backward_chunks<64>(x, stream);
    else backward_chunks<128>(x, stream);
}

}  // namespace causeway::gpu::gradient
