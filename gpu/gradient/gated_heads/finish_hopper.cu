// What is left when states and their gradients are known: dQ, dK, dg, dβ, chunk by chunk in parallel. README.md has the
// letters.
#include "gpu/gated/channels/gates.cuh"
#include "gpu/gradient/gated_heads/finish.cuh"

namespace causeway::gpu::gated_heads {

namespace {

// Two blocks have room on a multiprocessor. Each warpgroup has half of the columns of dQ and dK.
struct FinishShared {
    Tile q[2], k[2], U[2];  // in place of U, at the end: GateSums
    Tile D[2], X[2];        // dO, dX; then, in turn: dA, the first 64 columns of E (two tiles), dM
    Tile S[4];  // the first 64 columns of the state, then the others; then in place of the first: the rest of E
    float G[C], from_start[C], to_end[C];  // as ChunkGates begins
    uint64_t landed[4];
};
static_assert(sizeof(FinishShared) <= finish_bytes && sizeof(GateSums) <= sizeof(FinishShared::U));

template <bool has_gates, int blocks, HeadSums over_heads>
struct Finish : FinishChunk<FinishShared, has_gates, blocks, over_heads> {
    using Chunk = FinishChunk<FinishShared, has_gates, blocks, over_heads>;
    using Chunk::half, Chunk::row, Chunk::landed, Chunk::wait_for, Chunk::times_rows;
    using Chunk::s, Chunk::maps, Chunk::p, Chunk::call, Chunk::bh, Chunk::b, Chunk::h, Chunk::start, Chunk::n;
    const float beta;  // of the token threadIdx.x / 4

    __device__ __forceinline__ Finish(FinishShared& s, const Maps& maps, const Part& p)
        : Chunk(s, maps, p), beta(reinterpret_cast<const ChunkGates*>(this->gates())->beta[threadIdx.x / 4]) {}

    __device__ __forceinline__ void load() const {
        const uint32_t values = landed(Landed::values);
        ptx::mbarrier_arrive_expect_tx(values, 3 * blocks * tile_bytes + factors_bytes);
        this->load_factors(values);
        for (int i = 0; i < blocks; ++i) {
            ptx::tma_load(ptx::shared_address(&s.X[i]), maps.dv, values, 64 * i, start, h, b, ptx::evict_normal);
            ptx::tma_load(ptx::shared_address(&s.U[i]), maps.U, values, 64 * i, start, h, b, ptx::evict_normal);
            ptx::tma_load(ptx::shared_address(&s.D[i]), maps.dO, values, 64 * i, start, h * p.dO_step, b,
                          ptx::evict_normal);
        }
        this->load_keys();
        load_states(s.S, &s.S[2], p.S, Landed::state);
    }
    __device__ __forceinline__ void load_states(const Tile* first, const Tile* second, const unsigned char* from,
                                                Landed as) const {
        ptx::mbarrier_arrive_expect_tx(landed(as), blocks * state_tile);
        this->load_state(first, from, 0, landed(as));
        if (blocks > 1) this->load_state(second, from, 1, landed(as));
    }

    // The rows of dX and of U of the token threadIdx.x / 4, of which four threads have a quarter each.
    template <class F>
    __device__ __forceinline__ void each_piece(F&& f) const {
#pragma unroll
        for (int i = 0; i < 2 * blocks; ++i) {
            const uint32_t at = swizzle_128(threadIdx.x / 4, 2 * (threadIdx.x % 4) + i % 2);
            f(*reinterpret_cast<uint4*>(s.X[i / 2].bytes + at), *reinterpret_cast<uint4*>(s.U[i / 2].bytes + at));
        }
    }
    // This thread's part of Z_t · Y_t, which dX_t and U_t are with a factor β_t.
    __device__ __forceinline__ float z_dot_y() const {
        const float by = 1.0f / beta;
        float sum = 0;
        each_piece([&](const uint4& x, const uint4& u) {
            const auto add = [&](uint32_t f, uint32_t g) {
                const float2 y = unpack(E{}, f), z = unpack(E{}, g);
                sum = fmaf(y.x * by, z.x, fmaf(y.y * by, z.y, sum));
            };
            add(x.x, u.x), add(x.y, u.y), add(x.z, u.z), add(x.w, u.w);
        });
        return sum * by;
    }
    // Where least_beta stands for a β of 0, dX and U become 0, once they have given dβ.
    __device__ __forceinline__ bool is_without_beta() const { return fabsf(beta) <= channels::least_beta; }
    __device__ __forceinline__ void clear_rows() const {
        const int t = threadIdx.x / 4, part = threadIdx.x % 4;
        if (t >= n) return;
        each_piece([](uint4& x, uint4& u) { x = u = {0, 0, 0, 0}; });
        ptx::fence_proxy_async();
        E* const row = reinterpret_cast<E*>(gated::head_of(p.dv, b, h) + (start + t) * p.dv.token);
        for (int c = part; c < call.dv; c += 4) row[c] = E(0.0f);
    }
    // From four threads' parts.
    __device__ __forceinline__ void write_dbeta(float part) const {
        const int t = threadIdx.x / 4;
        const float all = sum_of_quad(part);
        if (t < n && threadIdx.x % 4 == 0) p.dbeta[bh * p.gate_step + start + t] = all;
    }

    __device__ __forceinline__ void run() const {
        if (threadIdx.x == 0) load();
        wait_for(Landed::values);
        uint32_t scores[16];
        float2 pairs;
        const bool without_beta = is_without_beta();
        float of_beta = 0;
        if (without_beta) of_beta = z_dot_y(), clear_rows();
        __syncthreads();
        {
            float x[32], dots[32];
            this->template times_rows<blocks>(x, half == 0 ? s.D : s.X, s.U);
            if (!without_beta) of_beta = z_dot_y();
            write_dbeta(of_beta);
            wait_for(Landed::keys);
            if constexpr (has_gates) this->template times_rows<2>(dots, half == 0 ? s.q : s.k, s.k);
            ptx::wgmma_wait<0>();
            ptx::hold(x);
            if constexpr (has_gates) ptx::hold(dots);
            pairs = this->make_scores(scores, x, dots, half == 0 ? call.scale : -1.0f, half == 0 ? 0 : 1, true);
        }
        const float start0 = s.from_start[row], start1 = s.from_start[row + 8];
        float dq[32], dk[32], read[2] = {}, written[2] = {}, through = 0;
        wait_for(Landed::state);
        const Tile* const rows_of_state = &s.S[half];
        this->template times_rows<blocks>(dq, s.D, rows_of_state, state_tile);
        this->template times_rows<blocks>(dk, s.X, rows_of_state, state_tile);
        uint4 state[4];
        if constexpr (has_gates) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                state[i] = reinterpret_cast<const uint4*>(s.S[0].bytes)[threadIdx.x + i * finish_threads];
        }
        ptx::wgmma_wait<0>();
        ptx::hold(dq);
        ptx::hold(dk);
        // Loads of the state that are still on their way must not see what a bulk copy puts in its place: a barrier of
        // threads alone does not order the two, and S ⊙ E had another sum now and then without.
        if constexpr (has_gates) ptx::fence_proxy_async();
        __syncthreads();  // D, X and the first columns of the state are read
        Tile& dA = s.D[0];
        Tile& dM = s.X[1];
        if (threadIdx.x == 0) load_states(&s.D[1], s.S, p.E, Landed::after);
        this->write_rows(half == 0 ? dA : dM, scores);
        ptx::fence_proxy_async();
        this->scale_rows(dq, call.scale * start0, call.scale * start1, s.q[half], read);
        this->scale_rows(dk, -start0, -start1, s.k[half], read);
        __syncthreads();  // dA and dM are written
        ptx::hold(dq);
        ptx::hold(dk);
        ptx::wgmma_fence();
        this->template add_tokens<false>(dq, dA, s.k[half]);
        ptx::wgmma_commit();
        this->template add_tokens<true>(dk, dA, s.q[half]);
        this->template add_tokens<true>(dk, dM, s.k[half]);
        this->template add_tokens<false>(dk, dM, s.k[half]);
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        ptx::hold(dq);
        ptx::hold(dk);
        uint32_t packed[16];
        this->pack_rows(packed, dq);
        this->store(maps.dq, maps.dq_sum, s.q[half], packed);
        wait_for(Landed::after);
        {
            float x[32];
            const Tile* const first = &s.D[1] + half;
            const ptx::TileDescriptor a(ptx::shared_address(s.U)), f(ptx::shared_address(first)),
                g(ptx::shared_address(&s.S[half]));
            ptx::wgmma_fence();
#pragma unroll
            for (int ks = 0; ks < 4; ++ks) ptx::wgmma_ss<E, 0, 0>(x, a + ks * 32, f + ks * 32, ks > 0);
            if (blocks > 1) {
#pragma unroll
                for (int ks = 0; ks < 4; ++ks) ptx::wgmma_ss<E, 0, 0>(x, a + (tile_bytes + ks * 32), g + ks * 32, 1);
            }
            ptx::wgmma_commit();
            if constexpr (has_gates) {
                for (int i = 0; i < 4; ++i) {
                    const int at = threadIdx.x + i * finish_threads;
                    through = this->dot(state[i], reinterpret_cast<const uint4*>(s.D[1].bytes)[at], through);
                    if (blocks > 1)
                        through = this->dot(reinterpret_cast<const uint4*>(s.S[2].bytes)[at],
                                            reinterpret_cast<const uint4*>(s.S[0].bytes)[at], through);
                }
            }
            ptx::wgmma_wait<0>();
            ptx::hold(x);
            this->scale_rows(x, s.to_end[row], s.to_end[row + 8], s.k[half], written);
#pragma unroll
            for (int i = 0; i < 32; ++i) dk[i] += x[i];
        }
        this->pack_rows(packed, dk);
        this->store(maps.dk, maps.dk_sum, s.k[half], packed);
        this->arrive_at_cluster();
        if constexpr (has_gates) this->write_gates(*reinterpret_cast<GateSums*>(s.U), pairs, read, written, through);
        this->end();
    }
};

}  // namespace

void launch_finish(const Maps& maps, const Part& p, cudaStream_t stream) { launch_finishing<Finish>(maps, p, stream); }

}  // namespace causeway::gpu::gated_heads
