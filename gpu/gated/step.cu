#include "gpu/gated/step.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu {

namespace gated {
namespace {

constexpr int most_queries = 8;  // heads of queries whose sums go through shared memory at once

// Shared memory of a block of `warps` warps, offsets in bytes: for each row of the state a k, a q, a, k (a = e^g); the
// other queries as a q; k · q of each warp and query; sums of each warp, Sᵀ(a q) of each query and then Sᵀ(a k).
struct StepShared {
    int queries, products, sums, bytes;

    __host__ __device__ StepShared(int rows, int columns, int group, int warps) {
        const int at_once = group < most_queries ? group : most_queries;
        queries = rows * 16;
        products = queries + (at_once - 1) * rows * 4;
        sums = (products + at_once * warps * 4 + 15) / 16 * 16;
        bytes = sums + (1 + at_once) * warps * columns * 4;
    }
};

// One block: lanes·4 columns of the state of one head. Thread (row group, lane) has four columns of the rows row group
// + i·(row groups), at most 128 of them with 8 to a thread. quads: the rows of the state are aligned to four elements.
template <int lanes, int R, bool quads>
__global__ __launch_bounds__(R == 8 ? 256 : 128,
                             R == 8 ? 3 : 4) void gated_one_token(const __grid_constant__ Call call) {
    extern __shared__ __align__(16) unsigned char shared[];
    constexpr int columns = lanes * 4, each = R > lanes ? R / lanes : 1;  // elements of a row of k to a thread
    const int threads = blockDim.x, groups = threads / lanes, row_group = threadIdx.x / lanes,
              lane = threadIdx.x % lanes;
    const int warps = threads / 32, warp = threadIdx.x / 32, rows = R * groups;
    const int wide = (call.dv + columns - 1) / columns, at_once = min(call.group, most_queries);
    const bool delta = call.beta != nullptr, gated = call.g != nullptr;
    const int head = static_cast<int>(blockIdx.x) / wide,
              column = (static_cast<int>(blockIdx.x) - head * wide) * columns + lane * 4;
    const int step = groups * call.dv;
    float* state = call.state + (static_cast<int64_t>(head) * call.dk + row_group) * call.dv + column;  // of the thread

    float4 S[R];
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const bool there = row_group + i * groups < call.dk;
        if constexpr (quads)
            S[i] = there && column < call.dv ? __ldcs(reinterpret_cast<const float4*>(state + i * step))
                                             : float4{0, 0, 0, 0};
        else
            S[i] = there ? quad_within(state - column + i * step, column, call.dv, false, Type::Float32)
                         : float4{0, 0, 0, 0};
    }
    const int b = head / call.heads, h = head - b * call.heads;

    uint32_t k_raw[each], q_raw[each];
    float g_raw[each], beta = 1.0f;
    {
        const char *K = head_of(call.k, b, h), *Q = head_of(call.q, b, static_cast<int64_t>(h) * call.group);
#pragma unroll
        for (int e = 0; e < each; ++e) {
            const int row = threadIdx.x + e * threads;
            const bool there = row < call.dk;
            k_raw[e] = there ? raw_element(K, row, call.type) : 0u;
            q_raw[e] = there ? raw_element(Q, row, call.type) : 0u;
            g_raw[e] =
                gated && there ? call.g[static_cast<int64_t>(head) * call.gates + (call.gates > 1 ? row : 0)] : 0.0f;
        }
    }
    uint32_t others[most_queries - 1][each];
#pragma unroll
    for (int query = 1; query < most_queries; ++query) {
        const char* Q = head_of(call.q, b, static_cast<int64_t>(h) * call.group + query);
#pragma unroll
        for (int e = 0; e < each; ++e) {
            const int r = threadIdx.x + e * threads;
            others[query - 1][e] = query < at_once && r < call.dk ? raw_element(Q, r, call.type) : 0u;
        }
    }
    const RawQuad v_raw = raw_quad_within(head_of(call.v, b, h), column, call.dv, call.v.quads, call.type);
    if (delta) beta = call.beta[head];

    const StepShared place(rows, columns, call.group, warps);
    float4* row = reinterpret_cast<float4*>(shared);
    float *queries = reinterpret_cast<float*>(shared + place.queries),
          *sums = reinterpret_cast<float*>(shared + place.sums);
    float* products = reinterpret_cast<float*>(shared + place.products);
    const auto sum_of_warp = [](float x) {
        x = sum16(x);
        return x + __shfl_xor_sync(0xFFFFFFFFu, x, 16);
    };
    // Sums over the row groups of a warp, the s-th of them.
    const auto put_sum = [&](int s, float4 x) {
#pragma unroll
        for (int other = lanes; other < 32; other *= 2) {
            x.x += __shfl_xor_sync(0xFFFFFFFFu, x.x, other), x.y += __shfl_xor_sync(0xFFFFFFFFu, x.y, other);
            x.z += __shfl_xor_sync(0xFFFFFFFFu, x.z, other), x.w += __shfl_xor_sync(0xFFFFFFFFu, x.w, other);
        }
        if (threadIdx.x % 32 < lanes) *reinterpret_cast<float4*>(sums + (s * warps + warp) * columns + lane * 4) = x;
    };
    const auto total = [&](int s) {
        float4 sum = {0, 0, 0, 0};
        for (int w = 0; w < warps; ++w) {
            const float4 x = *reinterpret_cast<const float4*>(sums + (s * warps + w) * columns + lane * 4);
            sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
        }
        return sum;
    };
    const auto add = [](float4& to, float f, float4 x) {
        to.x = fmaf(f, x.x, to.x), to.y = fmaf(f, x.y, to.y), to.z = fmaf(f, x.z, to.z), to.w = fmaf(f, x.w, to.w);
    };

    float a[each], k[each], kq = 0.0f;
#pragma unroll
    for (int e = 0; e < each; ++e) {
        a[e] = gated ? expf(g_raw[e]) : 1.0f;
        k[e] = value(k_raw[e], call.type);
        const float q = value(q_raw[e], call.type);
        const int r = threadIdx.x + e * threads;
        if (r < rows) row[r] = {a[e] * k[e], a[e] * q, a[e], k[e]};
        kq = fmaf(k[e], q, kq);
    }
    kq = sum_of_warp(kq);
    if (threadIdx.x % 32 == 0) products[warp] = kq;
#pragma unroll
    for (int query = 1; query < most_queries; ++query) {
        if (query >= at_once) break;
        float x = 0.0f;
#pragma unroll
        for (int e = 0; e < each; ++e) {
            const int r = threadIdx.x + e * threads;
            const float y = value(others[query - 1][e], call.type);
            if (r < rows) queries[(query - 1) * rows + r] = a[e] * y;
            x = fmaf(k[e], y, x);
        }
        x = sum_of_warp(x);
        if (threadIdx.x % 32 == 0) products[query * warps + warp] = x;
    }
    const float4 written = value(v_raw, call.type);
    __syncthreads();

    float4 read = {0, 0, 0, 0}, out = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const int r = row_group + i * groups;
        const float4 f = row[r];
        add(read, f.x, S[i]);
        add(out, f.y, S[i]);
    }
    put_sum(0, out);
    if (delta) put_sum(at_once, read);
    for (int query = 1; query < at_once; ++query) {
        float4 sum = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < R; ++i) add(sum, queries[(query - 1) * rows + row_group + i * groups], S[i]);
        put_sum(query, sum);
    }
    __syncthreads();

    float4 u = written;
    if (delta) {
        const float4 x = total(at_once);
        u = {beta * (u.x - x.x), beta * (u.y - x.y), beta * (u.z - x.z), beta * (u.w - x.w)};
    }
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const int r = row_group + i * groups;
        const float4 f = row[r];
        S[i] = {fmaf(f.z, S[i].x, f.w * u.x), fmaf(f.z, S[i].y, f.w * u.y), fmaf(f.z, S[i].z, f.w * u.z),
                fmaf(f.z, S[i].w, f.w * u.w)};
        if (r >= call.dk) continue;
        if constexpr (!quads) set_quad_within(state - column + i * step, column, call.dv, false, Type::Float32, S[i]);
        else if (column < call.dv) __stcs(reinterpret_cast<float4*>(state + i * step), S[i]);
    }
    const auto put_output = [&](int query, float4 x) {
        char* O = head_of(call.o, b, static_cast<int64_t>(h) * call.group + query);
        set_quad_within(O, column, call.dv, call.o.quads, call.type,
                        {call.scale * x.x, call.scale * x.y, call.scale * x.z, call.scale * x.w});
    };
    for (int query = row_group; query < at_once; query += groups) {
        float f = 0.0f;
        for (int w = 0; w < warps; ++w) f += products[query * warps + w];
        float4 x = total(query);
        add(x, f, u);
        put_output(query, x);
    }
    // Further queries meet the new state.
    for (int first = most_queries; first < call.group; first += most_queries - 1) {
        const int count = min(call.group - first, most_queries - 1);
        __syncthreads();
        for (int query = 0; query < count; ++query) {
            const char* Q = head_of(call.q, b, static_cast<int64_t>(h) * call.group + first + query);
            for (int r = threadIdx.x; r < rows; r += threads)
                queries[query * rows + r] = r < call.dk ? element(Q, r, call.type) : 0.0f;
        }
        __syncthreads();
        for (int query = 0; query < count; ++query) {
            float4 sum = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < R; ++i) add(sum, queries[query * rows + row_group + i * groups], S[i]);
            put_sum(query, sum);
        }
        __syncthreads();
        for (int query = row_group; query < count; query += groups) put_output(first + query, total(query));
    }
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
