// From chunk to chunk on tensor cores: Sᵀ in the accumulators of warps, 16 columns of v each. With Sᵀ as the left
// operand, what a product leaves in registers is an operand of the next: nothing but tiles goes through shared memory.
#include "gpu/base/device.hpp"
#include "gpu/gated/fma.cuh"
#include "gpu/gated/general/chunks/part.hpp"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/mma.cuh"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::general {

namespace {

using namespace gated;

using E = __nv_bfloat16;
constexpr int stages = 4;               // chunks whose tiles are in shared memory or on their way there
constexpr int most_shared = 200 << 10;  // bytes of it

// Shared memory: `stages` times the tiles of a chunk and rows of v, then what each warp writes out.
struct Layout {
    int v, stage, out, bytes;  // v: from the start of a stage; pitch of its rows: columns + 8 elements

    __host__ __device__ constexpr Layout(const Tiles& tiles, int columns)
        : v(tiles.bytes), stage(v + C * (columns + 8) * 2), out(stages * stage), bytes(out + C * columns * 2) {}
};

// One warp's part of a state and of the outputs of a chunk.
template <int DK, int columns>
struct Walk {
    static constexpr int threads = columns * 2, pitch = (columns + 8) * 2;  // bytes of a row of v
    const Part& p;
    const Call& call;
    const bool erases;
    const Tiles tiles;
    const Layout layout;
    const int warp, lane;
    int64_t bh, b, h;
    int first_column, column;  // of v: of the block, of the warp
    SequencePart part;
    unsigned char* shared;

    __device__ __forceinline__ Walk(const Part& p, unsigned char* shared)
        : p(p),
          call(p.call),
          erases(p.call.u.rows.data != nullptr),
          tiles(DK, true, erases, p.call.group),
          layout(tiles, columns),
          warp(threadIdx.x / 32),
          lane(threadIdx.x % 32),
          shared(shared) {
        const int wide = (call.dv + columns - 1) / columns;
        bh = blockIdx.x / wide % call.all_heads, b = bh / call.heads, h = bh % call.heads;
        first_column = static_cast<int>(blockIdx.x % wide) * columns, column = first_column + 16 * warp;
        part = part_at(p.tokens, blockIdx.x / wide / call.all_heads);
    }

    __device__ __forceinline__ int tokens_of(int chunk) const {
        return static_cast<int>(min(part.tokens - int64_t{chunk} * C, int64_t{C}));
    }
    // Starts the copies of a chunk's tiles and values to its stage.
    __device__ __forceinline__ void copy(int chunk) const {
        unsigned char* const to = shared + chunk % stages * layout.stage;
        const unsigned char* from = p.tiles + ((int64_t{part.first_chunk} + chunk) * call.all_heads + bh) * tiles.bytes;
#pragma unroll 4
        for (int i = threadIdx.x * 16; i < tiles.bytes; i += threads * 16) cp_async<16>(to + i, from + i, true);
        const Input& v = call.v;
        const char* V = head_of(v, b, h) + (int64_t{part.first} + int64_t{chunk} * C) * v.rows.token + first_column * 2;
        stage<C, columns + 8, threads>(to + layout.v, V, v.rows.token, tokens_of(chunk),
                                       min(call.dv - first_column, columns), v.rows.whole, Type::BFloat16);
    }

    // Sᵀ[column][channel]: acc[channel / 8] as mma.cuh lays accumulators out.
    template <class F>
    __device__ __forceinline__ void each_of_state(F&& f) const {
        const int g = lane / 4, c = 2 * (lane % 4);
#pragma unroll
        for (int n = 0; n < DK / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) f(n, i, 8 * n + c + i % 2, column + g + i / 2 * 8);
        }
    }
    __device__ __forceinline__ float* state() const {
        return call.state + (int64_t{part.sequence} * call.all_heads + bh) * call.dk * call.dv;
    }
    __device__ __forceinline__ void load_state(float (&S)[DK / 8][4]) const {
        const float* from = state();
        each_of_state([&](int n, int i, int row, int column) {
            S[n][i] = row < call.dk && column < call.dv ? from[row * call.dv + column] : 0.0f;
        });
    }
    __device__ __forceinline__ void store_state(const float (&S)[DK / 8][4]) const {
        float* to = state();
        each_of_state([&](int n, int i, int row, int column) {
            if (row < call.dk && column < call.dv) to[row * call.dv + column] = S[n][i];
        });
    }

    // A tile's place in shared memory, and the addresses that the lane gives to ldmatrix: rows are tokens, and a step
    // is 16 channels. read: pairs down a row (a product over channels); trans: pairs down a column (over tokens).
    __device__ __forceinline__ uint32_t address(int chunk, int offset) const {
        return ptx::shared_address(shared + chunk % stages * layout.stage + offset);
    }
    __device__ __forceinline__ uint32_t read_at(uint32_t tile, int step) const {
        return tile + narrow_at<DK>(lane % 8 + 8 * (lane / 16), 16 * step + 8 * (lane / 8 % 2));
    }
    __device__ __forceinline__ uint32_t trans_at(uint32_t tile, int step) const {
        return tile + narrow_at<DK>(lane % 8 + 8 * (lane / 8 % 2), 16 * step + 8 * (lane / 16));
    }

    // x[column][token] = Sᵀ Xᵀ, with the state as operands. All of the tile is asked for first: a product that waits
    // for its own operands would make the next one wait too.
    __device__ __forceinline__ void times_tile(float (&x)[2][4], const uint32_t (&S)[DK / 16][4], uint32_t tile) const {
        uint32_t X[DK / 16][4];
#pragma unroll
        for (int step = 0; step < DK / 16; ++step) ptx::ldmatrix_x4(X[step], read_at(tile, step));
        float even[2][4] = {}, odd[2][4] = {};
#pragma unroll
        for (int step = 0; step < DK / 16; step += 2) {
            ptx::mma_m16n8k16<E>(even[0], S[step], X[step][0], X[step][1]);
            ptx::mma_m16n8k16<E>(even[1], S[step], X[step][2], X[step][3]);
            ptx::mma_m16n8k16<E>(odd[0], S[step + 1], X[step + 1][0], X[step + 1][1]);
            ptx::mma_m16n8k16<E>(odd[1], S[step + 1], X[step + 1][2], X[step + 1][3]);
        }
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) x[n][i] = even[n][i] + odd[n][i];
        }
    }
    // Sᵀ += Y X: Y [column][token] as an operand, X a tile.
    __device__ __forceinline__ void add_tile(float (&S)[DK / 8][4], const uint32_t (&Y)[4], uint32_t tile) const {
        uint32_t X[DK / 16][4];
#pragma unroll
        for (int step = 0; step < DK / 16; ++step) ptx::ldmatrix_x4_trans(X[step], trans_at(tile, step));
#pragma unroll
        for (int step = 0; step < DK / 16; ++step) {
            ptx::mma_m16n8k16<E>(S[2 * step], Y, X[step][0], X[step][1]);
            ptx::mma_m16n8k16<E>(S[2 * step + 1], Y, X[step][2], X[step][3]);
        }
    }

    // x += Vᵀ Âᵀ. careful: only what a token sees is multiplied.
    template <bool careful>
    __device__ __forceinline__ void add_values(float (&x)[2][4], const uint32_t (&V)[4], int chunk, int query) const {
        const int scores = tiles.queries + query * tiles.query + tiles.u;
        if constexpr (careful) {
            const unsigned char* const stage = shared + chunk % stages * layout.stage;
            const E *A = reinterpret_cast<const E*>(stage + scores), *v = reinterpret_cast<const E*>(stage + layout.v);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int t = 2 * (lane % 4) + i % 2 + i / 4 * 8, at = 16 * warp + lane / 4 + i / 2 % 2 * 8;
                for (int j = 0; j <= t; ++j)
                    x[i / 4][i % 4] = fmaf(static_cast<float>(A[t * C + j]),
                                           static_cast<float>(v[j * (columns + 8) + at]), x[i / 4][i % 4]);
            }
        } else {
            uint32_t b[4];
            ptx::ldmatrix_x4(b, address(chunk, scores) + (lane % 8 + 8 * (lane / 16)) * C * 2 + lane / 8 % 2 * 16);
            ptx::mma_m16n8k16<E>(x[0], V, b[0], b[1]);
            ptx::mma_m16n8k16<E>(x[1], V, b[2], b[3]);
        }
    }

    // scale · x to the rows of the outputs, by way of the warp's shared memory.
    __device__ __forceinline__ void write_outputs(const float (&x)[2][4], int chunk, int query) const {
        E* const out = reinterpret_cast<E*>(shared + layout.out + warp * C * 32);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int t = 2 * (lane % 4) + i % 2 + i / 4 * 8, at = lane / 4 + i / 2 % 2 * 8;
            out[t * 16 + at] = static_cast<E>(call.scale * x[i / 4][i % 4]);
        }
        __syncwarp();
        const int t = lane / 2, from = lane % 2 * 8;
        if (t >= tokens_of(chunk)) return;
        char* const O = gated::head_of(call.o, b, h * call.group + query) +
                        (int64_t{part.first} + int64_t{chunk} * C + t) * call.o.token;
        if (call.o.whole) {
            if (column + from < call.dv)
                *reinterpret_cast<uint4*>(O + (column + from) * 2) =
                    *reinterpret_cast<const uint4*>(out + t * 16 + from);
            return;
        }
        for (int c = 0; c < 8 && column + from + c < call.dv; ++c)
            reinterpret_cast<E*>(O)[column + from + c] = out[t * 16 + from + c];
    }

    // A whole chunk, whose tiles have arrived.
    template <bool careful>
    __device__ __forceinline__ void advance(float (&S)[DK / 8][4], int chunk) const {
        uint32_t old[DK / 16][4], V[4], P[4];
#pragma unroll
        for (int step = 0; step < DK / 16; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                old[step][i] = pack(E{}, S[2 * step + i / 2][i % 2 * 2], S[2 * step + i / 2][i % 2 * 2 + 1]);
        }
        ptx::ldmatrix_x4_trans(
            V, address(chunk, layout.v) + (lane % 8 + 8 * (lane / 16)) * pitch + warp * 32 + lane / 8 % 2 * 16);
        float read[2][4], out[2][4];
        if (erases) times_tile(read, old, address(chunk, 0));
        times_tile(out, old, address(chunk, tiles.queries));
        if (call.gates > 0) {
            const float* last = reinterpret_cast<const float*>(shared + chunk % stages * layout.stage + tiles.last);
#pragma unroll
            for (int n = 0; n < DK / 8; ++n) {
                const float2 f = *reinterpret_cast<const float2*>(last + 8 * n + 2 * (lane % 4));
                S[n][0] *= f.x, S[n][1] *= f.y, S[n][2] *= f.x, S[n][3] *= f.y;
            }
        }
        add_tile(S, V, address(chunk, tiles.k));
        if (erases) {
#pragma unroll
            for (int i = 0; i < 4; ++i) P[i] = pack(E{}, -read[i / 2][i % 2 * 2], -read[i / 2][i % 2 * 2 + 1]);
            add_tile(S, P, address(chunk, tiles.u));
        }
        for (int query = 0; query < call.group; ++query) {
            if (query > 0) times_tile(out, old, address(chunk, tiles.queries + query * tiles.query));
            add_values<careful>(out, V, chunk, query);
            write_outputs(out, chunk, query);
        }
    }
};

template <int DK, int columns>
__device__ __noinline__ void walk_carefully(const Part& p);

// One block: `columns` columns of the state of one head of one part. A value that is not finite stays in the state for
// good; where the last one is not finite all is done once more, carefully.
template <int DK, int columns, bool careful>
__device__ __forceinline__ void walk(const Part& p) {
    extern __shared__ __align__(16) unsigned char shared[];
    const Walk<DK, columns> walk(p, shared);
    const int chunks = static_cast<int>((walk.part.tokens + C - 1) / C);
    float S[DK / 8][4];
    walk.load_state(S);
    for (int chunk = 0; chunk < stages - 1; ++chunk) {
        if (chunk < chunks) walk.copy(chunk);
        cp_async_commit();
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
        cp_async_wait<stages - 2>();
        __syncthreads();
        if (chunk + stages - 1 < chunks) walk.copy(chunk + stages - 1);
        cp_async_commit();
        walk.template advance<careful>(S, chunk);
    }
    if constexpr (!careful) {
        cp_async_wait_all();
        if (!is_state_finite(S)) return walk_carefully<DK, columns>(p);
    }
    walk.store_state(S);
}

template <int DK, int columns>
__device__ __noinline__ void walk_carefully(const Part& p) {
    walk<DK, columns, true>(p);
}

template <int DK, int columns>
__global__ __launch_bounds__(columns * 2,
                             columns == 64 ? 2 : 4) void general_narrow_sweep(const __grid_constant__ Part p) {
    walk<DK, columns, false>(p);
}

template <int DK, int columns>
void sweep(const Part& p, cudaStream_t stream) {
    const int64_t blocks = p.tokens.parts * p.call.all_heads * ((p.call.dv + columns - 1) / columns);
    const Layout layout(Tiles(DK, true, p.call.u.rows.data != nullptr, p.call.group), columns);
    launch(general_narrow_sweep<DK, columns>, "launching general_narrow_sweep", dim3(static_cast<unsigned>(blocks)),
           columns * 2, static_cast<std::size_t>(layout.bytes), 1, false, stream, p);
}

}  // namespace

bool is_narrow(const Call& call) {
    if (call.type != Type::BFloat16 || call.v.type != Type::BFloat16 || call.dk > 128 || device().compute < 80)
        return false;
    return Layout(Tiles(padded_rows(call.dk), true, true, call.group), 64).bytes <= most_shared;
}

void launch_narrow_sweep(const Part& p, cudaStream_t stream) {
    if (padded_rows(p.call.dk) == 64) return p.columns == 32 ? sweep<64, 32>(p, stream) : sweep<64, 64>(p, stream);
    p.columns == 32 ? sweep<128, 32>(p, stream) : sweep<128, 64>(p, stream);
}

}  // namespace causeway::gpu::general
