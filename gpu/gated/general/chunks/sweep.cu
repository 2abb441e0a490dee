// From chunk to chunk: the state in registers, and the outputs.
#include "gpu/gated/fma.cuh"
#include "gpu/gated/general/chunks/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::general {

namespace {

using namespace gated;

constexpr int threads = 128, columns = 32, pitch = C + 4;

template <int DK>
struct SweepShared {
    float tile[2][C * DK], A[2][C * pitch];
    float V[threads / 32][C * 8], P[threads / 32][C * 8];  // of each warp's columns: v, and -Ŵ S
};

// Which columns of which state a thread has, and where its inputs and outputs begin.
struct Place {
    int warp, rg, cg, column;
    int64_t bh, b, h;
    SequencePart part;

    explicit __device__ __forceinline__ Place(const Part& p) {
        const int lane = threadIdx.x % 32, wide = (p.call.dv + columns - 1) / columns;
        warp = threadIdx.x / 32, rg = lane % 16, cg = lane / 16;
        column = static_cast<int>(blockIdx.x % wide) * columns + warp * 8 + cg * 4;
        bh = blockIdx.x / wide % p.call.all_heads, b = bh / p.call.heads, h = bh % p.call.heads;
        part = part_at(p.tokens, blockIdx.x / wide / p.call.all_heads);
    }
    // The thread's four columns of row rg in rows of 8 floats.
    __device__ __forceinline__ int mine() const { return rg * 8 + cg * 4; }
};

// Tiles of a chunk in the order that the sweep takes them: Ŵ, those of the queries, Ũ, K̂.
enum class Item { w, query, u, k };

template <int DK>
struct Walk {
    const Part& p;
    const Call& call;
    const Place& at;
    const Tiles tiles;
    SweepShared<DK>& s;
    const bool erases;
    const int items;

    __device__ __forceinline__ Walk(const Part& p, const Place& at, SweepShared<DK>& s)
        : p(p),
          call(p.call),
          at(at),
          tiles(DK, false, p.call.u.rows.data != nullptr, p.call.group),
          s(s),
          erases(p.call.u.rows.data != nullptr),
          items(p.call.group + (p.call.u.rows.data ? 3 : 1)) {}

    __device__ __forceinline__ Item kind(int item) const {
        if (item == items - 1) return Item::k;
        return !erases ? Item::query : item == 0 ? Item::w : item == items - 2 ? Item::u : Item::query;
    }
    __device__ __forceinline__ int query(int item) const { return item - (erases ? 1 : 0); }
    // What lies `offset` bytes into the tiles of a chunk.
    __device__ __forceinline__ const float* from(int chunk, int offset) const {
        const int64_t before = (int64_t{at.part.first_chunk} + chunk) * call.all_heads + at.bh;
        return reinterpret_cast<const float*>(p.tiles + before * tiles.bytes + offset);
    }
    // Starts the copy of a tile.
    __device__ __forceinline__ void copy(int chunk, int item, int slot) const {
        const Item what = kind(item);
        const float* tile = from(chunk, what == Item::k   ? tiles.k
                                        : what == Item::u ? tiles.u
                                        : what == Item::w ? 0
                                                          : tiles.queries + query(item) * tiles.query);
        for (int i = 4 * threadIdx.x; i < C * DK; i += 4 * threads) cp_async<16>(s.tile[slot] + i, tile + i, true);
        if (what != Item::query) return;
        for (int i = 4 * threadIdx.x; i < C * C; i += 4 * threads)
            cp_async<16>(s.A[slot] + i / C * pitch + i % C, tile + C * DK + i, true);
    }
    // v of the thread's row of a chunk.
    __device__ __forceinline__ RawQuad values(int chunk) const {
        const int64_t own = int64_t{chunk} * C + at.rg;
        if (own >= at.part.tokens) return {0, 0, 0, 0};
        return raw_quad_within(head_of(call.v, at.b, at.h) + (at.part.first + own) * call.v.rows.token, at.column,
                               call.dv, call.v.rows.quads, call.v.type);
    }
    __device__ __forceinline__ void write_output(float4 x, int chunk, int query) const {
        const int64_t own = int64_t{chunk} * C + at.rg;
        if (own >= at.part.tokens) return;
        char* O = gated::head_of(call.o, at.b, at.h * call.group + query) + (at.part.first + own) * call.o.token;
        set_quad_within(O, at.column, call.dv, call.o.quads, call.type, times(call.scale, x));
    }
    // The factors of a whole chunk, of the thread's rows.
    __device__ __forceinline__ void load_last(float (&last)[DK / 16], int chunk) const {
#pragma unroll
        for (int m = 0; m < DK / 64; ++m) {
            const float4 f = *reinterpret_cast<const float4*>(from(chunk, tiles.last) + at.rg * 4 + 64 * m);
            last[4 * m] = f.x, last[4 * m + 1] = f.y, last[4 * m + 2] = f.z, last[4 * m + 3] = f.w;
        }
    }
};

template <int DK>
__device__ __noinline__ void walk_carefully(const Part& p);

// One block: 32 columns of the state of one head of one part, 8 to a warp. The tile of the next item is copied while
// one is worked on. A value that is not finite stays in the state for good, so a finite last state tells that none has
// come by; where one has, all is done once more, carefully: without products with what a row does not see.
template <int DK, bool careful>
__device__ __forceinline__ void walk(const Part& p) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<SweepShared<DK>*>(shared);
    const Place at(p);
    const Walk<DK> walk(p, at, s);
    const Call& call = p.call;
    const bool state_quads = call.dv % 4 == 0;
    float* state = call.state + (int64_t{at.part.sequence} * call.all_heads + at.bh) * call.dk * call.dv;
    float *V = s.V[at.warp], *P = s.P[at.warp];
    const int chunks = static_cast<int>((at.part.tokens + C - 1) / C);

    float S[DK / 16][4], last[DK / 16];
    load_state<DK>(S, state, call.dk, call.dv, at.rg, at.column, state_quads);
    int slot = 0;
    walk.copy(0, 0, 0);
    RawQuad v = walk.values(0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
        for (int item = 0; item < walk.items; ++item, slot ^= 1) {
            cp_async_wait_all();
            __syncthreads();
            if (item + 1 < walk.items) walk.copy(chunk, item + 1, slot ^ 1);
            else if (chunk + 1 < chunks) walk.copy(chunk + 1, 0, slot ^ 1);
            if (item == 0) {
                *reinterpret_cast<float4*>(V + at.mine()) = value(v, call.v.type);
                if (chunk + 1 < chunks) v = walk.values(chunk + 1);
                if (call.gates > 0) walk.load_last(last, chunk);
                __syncwarp();
            }
            const Item kind = walk.kind(item);
            const float* X = s.tile[slot];
            if (kind == Item::w || kind == Item::query) {
                float4 x[1] = {times_state<DK>(X, S, at.rg)};
                if (kind == Item::w) {
                    *reinterpret_cast<float4*>(P + at.mine()) = times(-1.0f, x[0]);
                } else {
                    if constexpr (careful) add_seen<C>(x, s.A[slot], V, at.rg, at.cg);
                    else add_lower<C>(x, s.A[slot], V, at.rg, at.cg);
                    walk.write_output(x[0], chunk, walk.query(item));
                }
                __syncwarp();
                continue;
            }
            if (call.gates > 0 && (kind == Item::u || !walk.erases)) {
#pragma unroll
                for (int i = 0; i < DK / 16; ++i)
                    S[i][0] *= last[i], S[i][1] *= last[i], S[i][2] *= last[i], S[i][3] *= last[i];
            }
            add_outer<DK, C>(S, X, kind == Item::u ? P : V, at.rg, at.cg);
            __syncwarp();
        }
    }
    if constexpr (!careful) {
        if (!is_state_finite(S)) return walk_carefully<DK>(p);
    }
    store_state<DK>(state, S, call.dk, call.dv, at.rg, at.column, state_quads);
}

template <int DK>
__device__ __noinline__ void walk_carefully(const Part& p) {
    walk<DK, true>(p);
}

template <int DK>
__global__ __launch_bounds__(threads, DK == 256 ? 2 : 4) void general_sweep(const __grid_constant__ Part p) {
    walk<DK, false>(p);
}

template <int DK>
void sweep(const Part& p, cudaStream_t stream) {
    const int64_t blocks = p.tokens.parts * p.call.all_heads * ((p.call.dv + columns - 1) / columns);
    launch(general_sweep<DK>, "launching general_sweep", dim3(static_cast<unsigned>(blocks)), threads,
           sizeof(SweepShared<DK>), 1, false, stream, p);
}

}  // namespace

void launch_sweep(const Part& p, cudaStream_t stream) {
    const int rows = padded_rows(p.call.dk);
    if (rows == 64) return sweep<64>(p, stream);
    if (rows == 128) return sweep<128>(p, stream);
    sweep<256>(p, stream);
}

}  // namespace causeway::gpu::general
