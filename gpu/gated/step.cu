#include "gpu/gated/step.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu {

namespace gated {
namespace {

constexpr int max_queries = 8;  // heads of queries whose sums go through shared memory at once

// Shared memory of a block of `warps` warps, offsets in bytes: for each row of the state a k, a q, a, k (a = e^g); the
// other queries as a q; k · q of each warp and query; sums of each warp, Sᵀ(a q) of each query and then Sᵀ(a k).
struct StepShared {
    int queries, products, sums, bytes;

    __host__ __device__ StepShared(int rows, int columns, int group, int warps) {
        const int at_once = group < max_queries ? group : max_queries;
        queries = rows * 16;
        products = queries + (at_once - 1) * rows * 4;
        sums = (products + at_once * warps * 4 + 15) / 16 * 16;
        bytes = sums + (1 + at_once) * warps * columns * 4;
    }
};

__device__ __forceinline__ void add(float4& to, float f, float4 x) {
    to.x = fmaf(f, x.x, to.x), to.y = fmaf(f, x.y, to.y), to.z = fmaf(f, x.z, to.z), to.w = fmaf(f, x.w, to.w);
}

// One block: lanes·4 columns of the state of one batch-head. Thread (row group, lane) has four columns of the rows row
// group + i·(row groups), at most 128 of them with 8 to a thread. quads: the rows of the state are aligned to four
// elements.
template <int lanes, int R, bool quads>
struct OneToken {
    static constexpr int columns = lanes * 4;

    const Call& call;
    const int threads = blockDim.x, groups = threads / lanes, row_group = threadIdx.x / lanes,
              lane = threadIdx.x % lanes;
    const int warps = threads / 32, warp = threadIdx.x / 32, rows = R * groups;
    const int at_once;     // heads of queries whose sums go through shared memory together
    int bh, column, b, h;  // of k, v and the state
    int step;              // elements from one of the thread's rows of the state to the next
    float* state;          // the thread's first
    float4* row;           // shared memory, as StepShared has it
    float *queries, *products, *sums;

    __device__ __forceinline__ OneToken(const Call& call, unsigned char* shared)
        : call(call), at_once(min(call.group, max_queries)) {
        const int wide = (call.dv + columns - 1) / columns;
        bh = static_cast<int>(blockIdx.x) / wide,
        column = (static_cast<int>(blockIdx.x) - bh * wide) * columns + lane * 4;
        b = bh / call.heads, h = bh - b * call.heads;
        step = groups * call.dv;
        state = call.state + (static_cast<int64_t>(bh) * call.dk + row_group) * call.dv + column;
        const StepShared place(rows, columns, call.group, warps);
        row = reinterpret_cast<float4*>(shared);
        queries = reinterpret_cast<float*>(shared + place.queries);
        products = reinterpret_cast<float*>(shared + place.products);
        sums = reinterpret_cast<float*>(shared + place.sums);
    }
    __device__ __forceinline__ int row_of(int i) const { return row_group + i * groups; }
    __device__ __forceinline__ const char* query_at(int query) const {
        return head_of(call.q, b, static_cast<int64_t>(h) * call.group + query);
    }

    __device__ __forceinline__ void load_state(float4 (&S)[R]) const {
#pragma unroll
        for (int i = 0; i < R; ++i) {
            const bool there = row_of(i) < call.dk;
            if constexpr (quads)
                S[i] = there && column < call.dv ? __ldcs(reinterpret_cast<const float4*>(state + i * step))
                                                 : float4{0, 0, 0, 0};
            else
                S[i] = there ? quad_within(state - column + i * step, column, call.dv, false, Type::Float32)
                             : float4{0, 0, 0, 0};
        }
    }
    // S ← diag(a) S + k uᵀ, in registers and in memory.
    __device__ __forceinline__ void advance_state(float4 (&S)[R], float4 u) const {
#pragma unroll
        for (int i = 0; i < R; ++i) {
            const float4 f = row[row_of(i)];
            S[i] = {fmaf(f.z, S[i].x, f.w * u.x), fmaf(f.z, S[i].y, f.w * u.y), fmaf(f.z, S[i].z, f.w * u.z),
                    fmaf(f.z, S[i].w, f.w * u.w)};
            if (row_of(i) >= call.dk) continue;
            if constexpr (!quads)
                set_quad_within(state - column + i * step, column, call.dv, false, Type::Float32, S[i]);
            else if (column < call.dv) __stcs(reinterpret_cast<float4*>(state + i * step), S[i]);
        }
    }

    // The index-th sum over all rows of the state: each thread brings its own, a warp adds up those of its row groups
    // ...
    __device__ __forceinline__ void put_sum(int index, float4 x) const {
#pragma unroll
        for (int other = lanes; other < 32; other *= 2) {
            x.x += __shfl_xor_sync(0xFFFFFFFFu, x.x, other), x.y += __shfl_xor_sync(0xFFFFFFFFu, x.y, other);
            x.z += __shfl_xor_sync(0xFFFFFFFFu, x.z, other), x.w += __shfl_xor_sync(0xFFFFFFFFu, x.w, other);
        }
        if (threadIdx.x % 32 < lanes)
            *reinterpret_cast<float4*>(sums + (index * warps + warp) * columns + lane * 4) = x;
    }
    // ... and behind a barrier this adds up those of the warps.
    __device__ __forceinline__ float4 total(int index) const {
        float4 sum = {0, 0, 0, 0};
        for (int w = 0; w < warps; ++w) {
            const float4 x = *reinterpret_cast<const float4*>(sums + (index * warps + w) * columns + lane * 4);
            sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
        }
        return sum;
    }
    // Sᵀ x for a query in shared memory.
    __device__ __forceinline__ float4 times_state(const float4 (&S)[R], int query) const {
        float4 sum = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < R; ++i) add(sum, queries[query * rows + row_of(i)], S[i]);
        return sum;
    }
    __device__ __forceinline__ void put_output(int query, float4 x) const {
        char* O = head_of(call.o, b, static_cast<int64_t>(h) * call.group + query);
        set_quad_within(O, column, call.dv, call.o.quads, call.type, times(call.scale, x));
    }
    // Queries for which shared memory had no room meet the new state.
    __device__ __forceinline__ void further_queries(const float4 (&S)[R]) const {
        for (int first = max_queries; first < call.group; first += max_queries - 1) {
            const int count = min(call.group - first, max_queries - 1);
            __syncthreads();
            for (int query = 0; query < count; ++query) {
                const char* Q = query_at(first + query);
                for (int r = threadIdx.x; r < rows; r += threads)
                    queries[query * rows + r] = r < call.dk ? element(Q, r, call.type) : 0.0f;
            }
            __syncthreads();
            for (int query = 0; query < count; ++query) put_sum(query, times_state(S, query));
            __syncthreads();
            for (int query = row_group; query < count; query += groups) put_output(first + query, total(query));
        }
    }
};

// What the token brings, on its way from memory: of rows of k, q and g the thread's `each` elements threadIdx.x +
// e·threads.
template <int each>
struct Arriving {
    uint32_t k[each], q[each], others[max_queries - 1][each];  // others: the queries after the first
    float g[each], beta = 1.0f;
    RawQuad v;

    template <class At>
    __device__ __forceinline__ Arriving(const Call& call, const At& at) {
        const char *K = head_of(call.k, at.b, at.h), *Q = at.query_at(0);
#pragma unroll
        for (int e = 0; e < each; ++e) {
            const int r = threadIdx.x + e * at.threads;
            const bool there = r < call.dk;
            k[e] = there ? raw_element(K, r, call.type) : 0u;
            q[e] = there ? raw_element(Q, r, call.type) : 0u;
            g[e] = call.g != nullptr && there
                       ? call.g[static_cast<int64_t>(at.bh) * call.gates + (call.gates > 1 ? r : 0)]
                       : 0.0f;
        }
#pragma unroll
        for (int query = 1; query < max_queries; ++query) {
            const char* more = at.query_at(query);
#pragma unroll
            for (int e = 0; e < each; ++e) {
                const int r = threadIdx.x + e * at.threads;
                others[query - 1][e] = query < at.at_once && r < call.dk ? raw_element(more, r, call.type) : 0u;
            }
        }
        v = raw_quad_within(head_of(call.v, at.b, at.h), at.column, call.dv, call.v.quads, call.type);
        if (call.beta != nullptr) beta = call.beta[at.bh];
    }

    // To shared memory, with a = e^g; and k · q of every query.
    template <class At>
    __device__ __forceinline__ void share(const Call& call, const At& at) const {
        float a[each], k_[each], kq = 0.0f;
#pragma unroll
        for (int e = 0; e < each; ++e) {
            a[e] = call.g != nullptr ? expf(g[e]) : 1.0f;
            k_[e] = value(k[e], call.type);
            const float q_ = value(q[e], call.type);
            const int r = threadIdx.x + e * at.threads;
            if (r < at.rows) at.row[r] = {a[e] * k_[e], a[e] * q_, a[e], k_[e]};
            kq = fmaf(k_[e], q_, kq);
        }
        kq = sum32(kq);
        if (threadIdx.x % 32 == 0) at.products[at.warp] = kq;
#pragma unroll
        for (int query = 1; query < max_queries; ++query) {
            if (query >= at.at_once) break;
            float x = 0.0f;
#pragma unroll
            for (int e = 0; e < each; ++e) {
                const int r = threadIdx.x + e * at.threads;
                const float y = value(others[query - 1][e], call.type);
                if (r < at.rows) at.queries[(query - 1) * at.rows + r] = a[e] * y;
                x = fmaf(k_[e], y, x);
            }
            x = sum32(x);
            if (threadIdx.x % 32 == 0) at.products[query * at.warps + at.warp] = x;
        }
    }
};

template <int lanes, int R, bool quads>
__global__ __launch_bounds__(R == 8 ? 256 : 128,
                             R == 8 ? 3 : 4) void gated_one_token(const __grid_constant__ Call call) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int each = R > lanes ? R / lanes : 1;
    const OneToken<lanes, R, quads> at(call, shared);
    const bool delta = call.beta != nullptr;
    float4 S[R];
    at.load_state(S);
    const Arriving<each> token(call, at);
    token.share(call, at);
    const float4 written = value(token.v, call.type);
    __syncthreads();

    // What the old state has for a ⊙ k and for the queries a ⊙ q.
    float4 read = {0, 0, 0, 0}, out = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const float4 f = at.row[at.row_of(i)];
        add(read, f.x, S[i]);
        add(out, f.y, S[i]);
    }
    at.put_sum(0, out);
    if (delta) at.put_sum(at.at_once, read);
    for (int query = 1; query < at.at_once; ++query) at.put_sum(query, at.times_state(S, query - 1));
    __syncthreads();

    float4 u = written;
    if (delta) {
        const float4 x = at.total(at.at_once);
        u = {token.beta * (u.x - x.x), token.beta * (u.y - x.y), token.beta * (u.z - x.z), token.beta * (u.w - x.w)};
    }
    at.advance_state(S, u);
    for (int query = at.row_group; query < at.at_once; query += at.groups) {
        float f = 0.0f;
        for (int w = 0; w < at.warps; ++w) f += at.products[query * at.warps + w];
        float4 x = at.total(query);
        add(x, f, u);
        at.put_output(query, x);
    }
    at.further_queries(S);
}

template <int lanes, int R>
void one_token(const Call& call, cudaStream_t stream) {
    constexpr int groups_of_warp = 32 / lanes;
    const int groups = (call.dk + R - 1) / R, rounded = (groups + groups_of_warp - 1) / groups_of_warp * groups_of_warp,
              threads = rounded * lanes;
    const int64_t blocks = call.all_heads * ((call.dv + lanes * 4 - 1) / (lanes * 4));
    if (blocks >= int64_t{1} << 31) fail("gated_step: ", call.all_heads, " heads in all are too many");
    const auto shared = static_cast<std::size_t>(StepShared(R * rounded, lanes * 4, call.group, threads / 32).bytes);
    const auto run = [&](auto kernel) {
        launch(kernel, "launching gated_one_token", dim3(static_cast<unsigned>(blocks)), static_cast<unsigned>(threads),
               shared, 1, false, stream, call);
    };
    if (call.dv % 4 == 0) run(gated_one_token<lanes, R, true>);
    else run(gated_one_token<lanes, R, false>);
}

constexpr const char* name = "gated_step";

}  // namespace
}  // namespace gated

std::size_t gated_step_workspace(const GatedArgs& a) {
    gated::check(a, gated::name);
    return 0;
}

void gated_step_shaped(const GatedArgs& a, bool narrow, cudaStream_t stream) {
    gated::check(a, gated::name);
    if (a.N != 1) fail(gated::name, ": ", a.N, " tokens, expected 1");
    if (a.B * a.H == 0) return;
    if (!a.state) fail(gated::name, ": state is null");
    const gated::Call call = gated::call_of(a);
    if (narrow || a.dk > 128) gated::one_token<8, 16>(call, stream);
    else gated::one_token<16, 8>(call, stream);
}

void gated_step(const GatedArgs& a, cudaStream_t stream) {
    gated_step_shaped(a, a.B * a.H * ((a.dv + 63) / 64) <= device().multiprocessors, stream);
}

}  // namespace causeway::gpu
