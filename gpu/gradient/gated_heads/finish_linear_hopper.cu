// Without the delta rule, what is left when states and their gradients are known: dQ, dK, dV and dg, chunk by chunk in
// parallel. README.md has the letters.
#include "gpu/gradient/gated_heads/finish.cuh"

namespace causeway::gpu::gated_heads {

namespace {

// Two blocks have room on a multiprocessor. Each warpgroup has half of the columns of dQ, dK and dV.
struct FinishLinearShared {
    Tile q[2], k[2], D[2];  // D: dO
    Tile V[2];              // in place of it, at the end: GateSums
    Tile E[2];              // the first 64 columns of E
    Tile S[4];              // the first 64 columns of the state, then the others; then: the other columns of E, dA, P
    float G[C], from_start[C], to_end[C];  // as ChunkGates begins
    uint64_t landed[5];
};
static_assert(sizeof(FinishLinearShared) <= finish_bytes && sizeof(GateSums) <= sizeof(FinishLinearShared::V));

template <bool has_gates, int blocks, HeadSums over_heads>
struct FinishLinear : FinishChunk<FinishLinearShared, has_gates, blocks, over_heads> {
    using Chunk = FinishChunk<FinishLinearShared, has_gates, blocks, over_heads>;
    using Chunk::Chunk;
    using Chunk::landed, Chunk::wait_for;
    using Chunk::s, Chunk::maps, Chunk::p, Chunk::call, Chunk::bh, Chunk::b, Chunk::h, Chunk::start, Chunk::half,
        Chunk::row;

    __device__ __forceinline__ void load() const {
        const uint32_t values = landed(Landed::values), state = landed(Landed::state), after = landed(Landed::after);
        ptx::mbarrier_arrive_expect_tx(values, 2 * blocks * tile_bytes + factors_bytes);
        this->load_factors(values);
        for (int i = 0; i < blocks; ++i) {
            ptx::tma_load(ptx::shared_address(&s.D[i]), maps.dO, values, 64 * i, start, h * p.dO_step, b,
                          ptx::evict_normal);
            ptx::tma_load(ptx::shared_address(&s.V[i]), maps.U, values, 64 * i, start, h * p.U_step, b,
                          ptx::evict_normal);
        }
        this->load_keys();
        ptx::mbarrier_arrive_expect_tx(state, blocks * state_tile);
        for (int i = 0; i < blocks; ++i) load_kept(&s.S[2 * i], p.S, i, i == 0 ? maps.dq : maps.dk, i, state);
        ptx::mbarrier_arrive_expect_tx(after, state_tile);
        load_kept(s.E, p.E, 0, maps.dv, 2, after);
    }
    // Columns 64 i and on of S or E, which may lie in a gradient; `which` of what lies in last_chunks.
    __device__ __forceinline__ void load_kept(const Tile* to, const unsigned char* states, int i,
                                              const CUtensorMap& gradient, int which, uint32_t bar) const {
        if (!p.last_chunks) return this->load_state(to, states, i, bar);
        const uint32_t at = ptx::shared_address(to);
        if (p.is_cut(start)) return ptx::bulk_load(at, p.of_last_chunk(bh, which), state_tile, bar);
        for (int j = 0; j < 2; ++j)
            ptx::tma_load(at + j * tile_bytes, gradient, bar, 64 * j, start, h, b, ptx::evict_first);
    }
    __device__ __forceinline__ void load_more() const {
        const uint32_t more = landed(Landed::more);
        ptx::mbarrier_arrive_expect_tx(more, state_tile);
        if (!p.last_chunks) return this->load_state(s.S, p.E, 1, more);
        ptx::bulk_load(ptx::shared_address(s.S), p.E + int64_t{this->tile} * state_bytes, state_tile, more);
    }
    // Sixteen bytes of a thread's, of four, of 128 rows of 64 columns.
    static __device__ __forceinline__ uint4 piece(const Tile* state, int i) {
        return reinterpret_cast<const uint4*>(state->bytes)[threadIdx.x + i * finish_threads];
    }
    // dA, of the first warpgroup, or P; and what pairs give to dg.
    __device__ __forceinline__ float2 make_scores(uint32_t (&scores)[16]) const {
        float x[32], dots[32];
        this->template times_rows<blocks>(x, s.D, s.V);
        wait_for(Landed::keys);
        this->template times_rows<2>(dots, s.q, s.k);
        ptx::wgmma_wait<0>();
        ptx::hold(x);
        ptx::hold(dots);
#pragma unroll
        for (int i = 0; i < 32; ++i) x[i] = half == 0 ? x[i] : dots[i];
        return Chunk::make_scores(scores, x, dots, call.scale, 0, half == 0);
    }
    // Queues dk = V Eᵀ.
    __device__ __forceinline__ void values_times_state(float (&dk)[32]) const {
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < blocks; ++i) {
            const ptx::TileDescriptor values(ptx::shared_address(&s.V[i])),
                rows(ptx::shared_address(&(i == 0 ? s.E : s.S)[half]));
#pragma unroll
            for (int ks = 0; ks < 4; ++ks) ptx::wgmma_ss<E, 0, 0>(dk, values + ks * 32, rows + ks * 32, i + ks > 0);
        }
        ptx::wgmma_commit();
    }
    // Queues dv = K E.
    __device__ __forceinline__ void keys_times_state(float (&dv)[32]) const {
        const ptx::TileDescriptor keys(ptx::shared_address(s.k)), rows(ptx::shared_address(half == 0 ? s.E : s.S));
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int ks = 0; ks < 4; ++ks)
                ptx::wgmma_ss<E, 0, 1>(dv, keys + (i * tile_bytes + ks * 32), rows + (i * tile_bytes + ks * 16 * 128),
                                       i + ks > 0);
        }
        ptx::wgmma_commit();
    }
    __device__ __forceinline__ void store_values(const uint32_t (&packed)[16]) const {
        ptx::named_barrier_sync(heads_half + half, barriers::warpgroup);
        if (half >= blocks) return;
        this->write_rows(s.D[half], packed);
        ptx::fence_proxy_async();
        ptx::named_barrier_sync(heads_half + half, barriers::warpgroup);
        if (threadIdx.x % 128 > 0) return;
        ptx::tma_store(maps.dv, ptx::shared_address(&s.D[half]), 64 * half, start, h, b, ptx::evict_first);
        ptx::tma_store_commit();
    }

    __device__ __forceinline__ void run() const {
        if (threadIdx.x == 0) load();
        wait_for(Landed::values);
        uint32_t scores[16];
        const float2 pairs = make_scores(scores);
        const float start0 = s.from_start[row], start1 = s.from_start[row + 8], end0 = s.to_end[row],
                    end1 = s.to_end[row + 8];
        float dq[32], dk[32], dv[32], read[2] = {}, written[2] = {}, through = 0;
        wait_for(Landed::state);
        this->template times_rows<blocks>(dq, s.D, &s.S[half], state_tile);
        wait_for(Landed::after);
        uint4 others[4];  // of the other columns of S
        if constexpr (has_gates) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                through = this->dot(piece(s.S, i), piece(s.E, i), through);
                if (blocks > 1) others[i] = piece(&s.S[2], i);
            }
        }
        ptx::wgmma_wait<0>();
        ptx::hold(dq);
        // As in finish_hopper.cu: what a bulk copy replaces must have been read.
        if constexpr (has_gates) ptx::fence_proxy_async();
        __syncthreads();  // the state is read
        Tile &dA = s.S[2], &P = s.S[3];
        if (blocks > 1 && threadIdx.x == 0) load_more();
        this->write_rows(half == 0 ? dA : P, scores);
        ptx::fence_proxy_async();
        this->scale_rows(dq, call.scale * start0, call.scale * start1, s.q[half], read);
        __syncthreads();  // dA and P are written
        ptx::hold(dq);
        ptx::wgmma_fence();
        this->template add_tokens<false>(dq, dA, s.k[half]);
        ptx::wgmma_commit();
        if (blocks > 1) wait_for(Landed::more);
        values_times_state(dk);
        ptx::wgmma_wait<0>();
        ptx::hold(dq);
        ptx::hold(dk);
        uint32_t packed[16];
        this->pack_rows(packed, dq);
        this->scale_rows(dk, end0, end1, s.k[half], written);
        ptx::hold(dk);
        ptx::wgmma_fence();
        this->template add_tokens<true>(dk, dA, s.q[half]);
        ptx::wgmma_commit();
        keys_times_state(dv);
        if constexpr (has_gates && blocks > 1) {
#pragma unroll
            for (int i = 0; i < 4; ++i) through = this->dot(others[i], piece(s.S, i), through);
        }
        ptx::wgmma_wait<0>();
        ptx::hold(dk);
        ptx::hold(dv);
        this->store(maps.dq, maps.dq_sum, s.q[half], packed);
#pragma unroll
        for (int i = 0; i < 32; ++i) dv[i] *= i % 4 < 2 ? end0 : end1;
        ptx::hold(dv);
        ptx::wgmma_fence();
        this->template add_tokens<true>(dv, P, s.D[half]);
        ptx::wgmma_commit();
        this->pack_rows(packed, dk);
        __syncthreads();  // both have read all keys
        this->store(maps.dk, maps.dk_sum, s.k[half], packed);
        this->arrive_at_cluster();
        ptx::wgmma_wait<0>();
        ptx::hold(dv);
        this->pack_rows(packed, dv);
        store_values(packed);
        if constexpr (has_gates) this->write_gates(*reinterpret_cast<GateSums*>(s.V), pairs, read, written, through);
        this->end();
    }
};

}  // namespace

void launch_finish_linear(const Maps& maps, const Part& p, cudaStream_t stream) {
    launch_finishing<FinishLinear>(maps, p, stream);
}

}  // namespace causeway::gpu::gated_heads
