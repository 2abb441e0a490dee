// From chunk to chunk: the state in registers, and the outputs. README.md has the letters.
#include "gpu/gated/channels/gates.cuh"
#include "gpu/gated/channels/own_part.cuh"
#include "gpu/gated/channels/sweep.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::channels {

namespace {

using gated::head_of;

// Eight warps carry the state; two groups of four make outputs from what the first leave of it, a chunk each; one loads
// tiles, one V.
constexpr int output_groups = 2, output_warps = 4;
constexpr uint32_t state_stages = 2;
constexpr int loading = consumers + output_groups * output_warps * 32;  // the first thread that loads
constexpr int forward_threads = loading + 64;

template <int DK, bool has_delta>
struct SweepShared {
    static constexpr uint32_t stages = has_delta ? 3 : 4;  // as many as there is room for
    struct alignas(limits::swizzle_atom) Keys {
        unsigned char tiles[KeyTiles(DK, has_delta).bytes];
        alignas(limits::swizzle_atom) unsigned char U[value_bytes];  // U0 or V, then U
    } keys[stages];
    struct alignas(limits::swizzle_atom) Queries {
        unsigned char tiles[QueryTiles(DK).bytes];
    } queries[stages];
    struct alignas(limits::swizzle_atom) State {
        unsigned char S[tile_bytes(DK, sweep_columns)];
    } states[state_stages];  // before each chunk, in BFloat16
    PipelineBarriers<stages> keys_barriers, queries_barriers;
    PipelineBarriers<state_stages> states_barriers;
};

template <int DK, bool has_delta>
struct Sweep : SweepBlock<DK, SweepShared<DK, has_delta>> {
    using Block = SweepBlock<DK, SweepShared<DK, has_delta>>;
    using Shared = SweepShared<DK, has_delta>;
    using Keys = typename Shared::Keys;
    using Block::s, Block::p, Block::call, Block::keys, Block::queries, Block::has_rows, Block::warp, Block::lane,
        Block::token, Block::first_column, Block::bh, Block::b, Block::h, Block::key_tiles, Block::inside,
        Block::columns_of;
    using Block::stages;
    using typename Block::State;
    using States = Pipeline<state_stages, sizeof(typename Shared::State), offsetof(Shared, states),
                            offsetof(Shared, states_barriers)>;

    const States states;
    const bool outputs;  // whether there are queries

    __device__ __forceinline__ Sweep(const Part& p, Shared& s, int64_t bh)
        : Block(p, s, bh), states{ptx::shared_address(&s)}, outputs(p.call.group > 0) {}

    __device__ __forceinline__ void init() const {
        states.init(consumers / 32 * warp_arrivals, output_warps * warp_arrivals);
        // V is brought by every lane of the warp that loads.
        Block::init(p.values ? 1 : 1 + 32, 1, consumers / 32 + (outputs ? output_warps : 0), output_warps);
    }

    // The thread that loads tiles.
    __device__ __forceinline__ void load_tiles() const {
        constexpr uint32_t key_bytes = KeyTiles(DK, has_delta).bytes, query_bytes = QueryTiles(DK).bytes;
        const unsigned char *from_keys = p.keys + this->tile_of(0) * key_bytes,
                            *from_queries = p.queries + this->tile_of(0) * call.group * query_bytes,
                            *from_values = p.values ? p.values + this->narrow_tile_of(0) * value_bytes : nullptr;
        uint32_t item = 0;
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            const uint32_t at = static_cast<uint32_t>(chunk), bar = keys.full(at);
            keys.producer_acquire(at);
            keys.producer_expect(at, key_bytes + (from_values ? value_bytes : 0));
            this->load_share(keys.at(at), from_keys, key_bytes, bar);
            from_keys += key_bytes;
            if (from_values) {
                ptx::bulk_load(keys.at(at) + static_cast<uint32_t>(offsetof(Keys, U)), from_values, value_bytes, bar);
                from_values += this->wide * value_bytes;
            }
            for (int query = 0; query < call.group; ++query, ++item, from_queries += query_bytes) {
                queries.producer_acquire(item);
                queries.producer_expect(item, query_bytes);
                this->load_share(queries.at(item), from_queries, query_bytes, queries.full(item));
            }
        }
    }
    // The warp that loads V from where it is, all lanes: of its own, as its instructions took half of the time of a
    // chunk beside those of the tiles.
    __device__ __forceinline__ void load_values() const {
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            const uint32_t at = static_cast<uint32_t>(chunk);
            keys.producer_acquire(at);
            this->load_columns(keys.at(at) + static_cast<uint32_t>(offsetof(Keys, U)), call.v, h, chunk, keys.full(at));
        }
    }

    // The accumulators of a warpgroup's 64 tokens of 32 columns: d[4 m ...] are of columns 8 m ..., in their order.
    using Columns = float[16];

    // d += X Y, by a warpgroup: X a tile of 64 rows and `columns` columns, Y one of as many rows and 32 columns.
    template <int columns>
    static __device__ __forceinline__ void add_product(Columns& d, uint32_t X, uint32_t Y) {
        const ptx::TileDescriptor x(X);
        const ptx::NarrowTileDescriptor y(Y);
#pragma unroll
        for (int k = 0; k < columns; k += 16)
            ptx::wgmma_ss<E, 0, 1>(d, x + (k / 64 * tile_bytes(C, 64) + k % 64 * 2), y + tile_bytes(k, sweep_columns),
                                   1);
    }
    static __device__ __forceinline__ void finish_products() {
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
    }
    // S += Kwᵀ U, where a warpgroup has 64 rows of the state.
    __device__ __forceinline__ void add_outer(State& S, uint32_t Kw, uint32_t U) const {
        const ptx::TileDescriptor k(Kw + warp / 4 * tile_bytes(C, 64));
        const ptx::NarrowTileDescriptor u(U);
        auto& d = reinterpret_cast<Columns&>(S);
        ptx::wgmma_fence();
#pragma unroll
        for (int t = 0; t < C; t += 16)
            ptx::wgmma_ss<E, 1, 1>(d, k + tile_bytes(t, 64), u + tile_bytes(t, sweep_columns), 1);
        finish_products();
        ptx::hold(d);
    }
    // U = U0 - W S over U0, by a warpgroup; `beside` is done while the tensor cores multiply.
    template <class F>
    __device__ __forceinline__ void write_values(uint32_t U, uint32_t W, uint32_t S, F&& beside) const {
        Columns d = {};
        ptx::wgmma_fence();
        add_product<DK>(d, W, S);
        ptx::wgmma_commit();
        uint32_t u[2][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) ptx::ldmatrix_x4(u[half], U + this->piece(token, half));
        beside();
        ptx::wgmma_wait<0>();
        ptx::hold(d);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const auto minus = [&](int i) {
                const float2 x = unpack(E{}, u[half][i]);
                return pack(E{}, x.x - d[8 * half + 2 * i], x.y - d[8 * half + 2 * i + 1]);
            };
            ptx::stmatrix_x4(U + this->piece(token, half), minus(0), minus(1), minus(2), minus(3));
        }
    }
    // Pairs of a row that four lanes share, each two columns of every eight: each lane gets the eight columns of its
    // number.
    __device__ __forceinline__ uint4 gather_row(const uint32_t (&x)[4]) const {
        const bool upper = lane & 2, odd = lane & 1;
        const uint32_t keep[2] = {upper ? x[2] : x[0], upper ? x[3] : x[1]};
        uint32_t other[2] = {upper ? x[0] : x[2], upper ? x[1] : x[3]};
        for (uint32_t& pair : other) pair = __shfl_xor_sync(all_lanes, pair, 2);
        const uint32_t own = odd ? keep[1] : keep[0], across = odd ? other[1] : other[0];
        const uint32_t beside = __shfl_xor_sync(all_lanes, odd ? keep[0] : keep[1], 1),
                       opposite = __shfl_xor_sync(all_lanes, odd ? other[0] : other[1], 1);
        const uint32_t near[2] = {odd ? beside : own, odd ? own : beside},
                       far[2] = {odd ? opposite : across, odd ? across : opposite};
        return upper ? make_uint4(far[0], far[1], near[0], near[1]) : make_uint4(near[0], near[1], far[0], far[1]);
    }
    __device__ __forceinline__ void write_outputs(const Columns& d, int query, int chunk) const {
        const int n = this->tokens_of(chunk), pair = lane % 4 * 2;
        char* const O = head_of(call.o, b, h * call.group + query) + (p.first + int64_t{chunk} * C) * call.o.token;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int t = token + lane / 4 + 8 * i;
            E* const row = reinterpret_cast<E*>(O + t * call.o.token) + first_column;
            if (call.o.whole) {
                uint32_t x[4];
#pragma unroll
                for (int m = 0; m < 4; ++m) x[m] = pack(E{}, d[4 * m + 2 * i], d[4 * m + 2 * i + 1]);
                const uint4 eight = gather_row(x);
                if (t < n && first_column + 4 * pair < call.dv) *reinterpret_cast<uint4*>(row + 4 * pair) = eight;
                continue;
            }
#pragma unroll
            for (int m = 0; m < 4; ++m) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int c = 8 * m + pair + e;
                    if (t < n && first_column + c < call.dv) row[c] = E(d[4 * m + 2 * i + e]);
                }
            }
        }
    }
    // A value that is not finite stays in the state for good, so a finite last state tells that none has come by. Where
    // one has, the definition is followed, token by token, with its products alone.
    __device__ __noinline__ void walk_by_tokens() const {
        constexpr int each = DK / 8;
        const int rg = threadIdx.x % 8, own = threadIdx.x / 8, c = first_column + own;
        const bool there = c < call.dv;
        float S[each];
        const float* const before = columns_of(p.state_in, p.state_in_step);
#pragma unroll
        for (int m = 0; m < each; ++m) {
            const int r = rg + 8 * m;
            S[m] = before && inside(r, own) ? before[r * call.dv + own] : 0.0f;
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
            if (has_delta) u = call.beta[bh * call.N + t] * (u - sum8(read));
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
        float* const after = columns_of(p.state_out, p.state_out_step);
        if (!after) return;
#pragma unroll
        for (int m = 0; m < each; ++m)
            if (inside(rg + 8 * m, own)) after[(rg + 8 * m) * call.dv + own] = S[m];
    }

    // The warps that carry the state. Returns false where it is not finite.
    __device__ __forceinline__ bool carry_state() const {
        State S = {};
        this->load_state(S, columns_of(p.state_in, p.state_in_step));
        const bool records = p.states.bytes > 0;  // for the gradient
        const KeptColumn kept_states = this->kept(p.states), kept_updates = this->kept(p.updates);
        for (int chunk = 0; chunk < p.chunks; ++chunk) {
            const uint32_t at = static_cast<uint32_t>(chunk), tiles = keys.at(at), before = states.at(at);
            const uint32_t values = tiles + static_cast<uint32_t>(offsetof(Keys, U));
            const auto decay = [&] {
                if (has_rows) this->decay(S, tiles);
            };
            if (outputs) states.producer_acquire(at);
            if (has_rows) this->round_state(S, before);
            keys.consumer_wait(at);
            ptx::fence_proxy_async();  // of V as well, where cp.async has brought it
            if (has_delta || records) {
                ptx::named_barrier_sync(barriers::channels_state, consumers);
                if (records) this->record(kept_states, chunk, before);
                if (has_delta && warp >= 4) write_values(values, tiles + key_tiles.W_at, before, decay);
                else decay();
                ptx::fence_proxy_async();
                ptx::named_barrier_sync(barriers::channels_values, consumers);
                if (has_delta && records) this->record(kept_updates, chunk, values);
                if (outputs) arrive_as_warp(states.full(at), lane);
            } else {
                if (outputs) arrive_as_warp(states.full(at), lane);
                decay();
            }
            if (has_rows) add_outer(S, tiles, values);
            if (records) this->wait_recorded();  // before U's stage is loaded again, and S's is written two chunks on
            this->release(keys, at);
        }
        return store(S);
    }
    // The warps that make outputs, of which a half has the chunks of even number, the other one the rest.
    __device__ __forceinline__ void make_outputs() const {
        for (int chunk = static_cast<int>(threadIdx.x) / 128 % output_groups; chunk < p.chunks;
             chunk += output_groups) {
            const uint32_t at = static_cast<uint32_t>(chunk),
                           U = keys.at(at) + static_cast<uint32_t>(offsetof(Keys, U));
            keys.consumer_wait(at);
            states.consumer_wait(at);
            ptx::fence_proxy_async();
            for (int query = 0; query < call.group; ++query) {
                const uint32_t item = at * static_cast<uint32_t>(call.group) + static_cast<uint32_t>(query);
                queries.consumer_wait(item);
                Columns d = {};
                ptx::wgmma_fence();
                add_product<DK>(d, queries.at(item), states.at(at));
                add_product<C>(d, queries.at(item) + QueryTiles(DK).A_at, U);
                finish_products();
                ptx::hold(d);
                this->release(queries, item);
                if (query + 1 == call.group) {
                    states.consumer_release(at, lane);
                    this->release(keys, at);
                }
                write_outputs(d, query, chunk);
            }
        }
    }
    // Whether the last state is finite; then, or where none of its columns goes token by token, it goes to memory.
    __device__ __forceinline__ bool store(const State& S) const {
        const bool finite = this->is_state_finite(S);
        if (!finite && !p.not_finite) return false;
        if (!finite && threadIdx.x == 0) *p.not_finite = 1;
        this->store_state(S, columns_of(p.state_out, p.state_out_step));
        return true;
    }
};

// Of packed sequences the grid goes through the parts of the round, and for each of them through the heads.
template <int DK, bool has_delta, bool packed>
__global__ __launch_bounds__(forward_threads, 1) void gated_channels_sweep(const __grid_constant__ Told<packed> told) {
    extern __shared__ __align__(16) unsigned char unaligned[];
    unsigned char* const shared =
        unaligned + (round_up_to_swizzle_atom(ptx::shared_address(unaligned)) - ptx::shared_address(unaligned));
    ptx::griddepcontrol_launch_dependents();
    uint32_t part = 0;
    int64_t bh = blockIdx.x / static_cast<uint32_t>(head_blocks(shared_part(told)));
    if constexpr (packed) {
        const auto heads = static_cast<uint32_t>(told.part.call.all_heads), head = static_cast<uint32_t>(bh);
        part = head / heads, bh = head % heads;
    }
    const Part& p = own_part(told, part);
    const Sweep<DK, has_delta> sweep(p, *reinterpret_cast<SweepShared<DK, has_delta>*>(shared), bh);
    if (threadIdx.x == 0) sweep.init();
    __syncthreads();
    if (sweep.cluster > 1) ptx::cluster_sync();
    ptx::griddepcontrol_wait();
    bool finite = true;
    if (threadIdx.x < consumers) finite = sweep.carry_state();
    else if (threadIdx.x == loading) sweep.load_tiles();
    else if (threadIdx.x >= loading + 32 && !p.values) sweep.load_values();
    else if (threadIdx.x < loading && sweep.outputs) sweep.make_outputs();
    // No block ends while another may still write to its shared memory.
    __syncthreads();
    if (sweep.cluster > 1) ptx::cluster_sync();
    // An object of its own: that of the loops would have to lie in memory for a function that is not inlined.
    if (!finite) Sweep<DK, has_delta>(p, *reinterpret_cast<SweepShared<DK, has_delta>*>(shared), bh).walk_by_tokens();
}

template <int DK, bool has_delta, class T>
void sweep(const T& told, std::int64_t parts, cudaStream_t stream) {
    const Part& p = shared_part(told);
    launch(gated_channels_sweep<DK, has_delta, std::is_same_v<T, RoundPart>>, "launching gated_channels_sweep",
           dim3(static_cast<unsigned>(parts * p.call.all_heads * head_blocks(p))), forward_threads,
           sizeof(SweepShared<DK, has_delta>) + limits::swizzle_atom, cluster_of(p), true, stream, told);
}
template <class T>
void sweep(const T& told, std::int64_t parts, cudaStream_t stream) {
    const Part& p = shared_part(told);
    const bool delta = p.call.beta != nullptr;
    if (p.DK == 64 && delta) sweep<64, true>(told, parts, stream);
    else if (p.DK == 64) sweep<64, false>(told, parts, stream);
    else if (delta) sweep<128, true>(told, parts, stream);
    else sweep<128, false>(told, parts, stream);
}

}  // namespace

void launch_sweep(const Part& p, cudaStream_t stream) { sweep(p, 1, stream); }
void launch_sweep(const RoundPart& p, cudaStream_t stream) { sweep(p, p.parts, stream); }

}  // namespace causeway::gpu::channels
