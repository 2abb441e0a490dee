// The Hopper instructions that CUDA C++ has no name for: barriers in shared memory, the TMA unit, the bulk tensor copy
// engine, warpgroup matrix products and the 8×8 matrix moves around them. Each function is one instruction, in the PTX
// manual's words.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace causeway::gpu::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ---- mbarrier: counts arrivals and bytes; its phase flips when both are complete ----

__device__ __forceinline__ void mbarrier_init(uint32_t bar, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals));
}
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}
// The same on the barrier that block `rank` of the cluster has at this address.
__device__ __forceinline__ void mbarrier_arrive_remote(uint32_t bar, uint32_t rank) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}\n" ::"r"(bar),
        "r"(rank)
        : "memory");
}
// Returns once the phase of this parity is complete.
__device__ __forceinline__ void mbarrier_wait(uint32_t bar, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@done bra.uni over;\n"
        "bra.uni again;\n"
        "over:\n"
        "}\n" ::"r"(bar),
        "r"(parity)
        : "memory");
}
// Barrier id of the block for `threads` threads.
__device__ __forceinline__ void named_barrier_sync(uint32_t id, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// The same; returns whether the condition held in all of them.
__device__ __forceinline__ bool named_barrier_and(uint32_t id, uint32_t threads, bool condition) {
    uint32_t all;
    asm volatile(
        "{\n.reg .pred in, out;\nsetp.ne.u32 in, %3, 0;\nbarrier.cta.red.and.pred out, %1, %2, in;\n"
        "selp.u32 %0, 1, 0, out;\n}"
        : "=r"(all)
        : "r"(id), "r"(threads), "r"(static_cast<uint32_t>(condition))
        : "memory");
    return all != 0;
}
// The same without waiting: the thread is counted and goes on.
__device__ __forceinline__ void named_barrier_arrive(uint32_t id, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// One arrival (of those that init counted) once all cp.async of this thread so far have written.
__device__ __forceinline__ void mbarrier_arrive_after_cp_async(uint32_t bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

// ---- Words of memory between thread blocks ----

// What this thread wrote or, by a barrier before, knows to be written is seen by who then loads x.
__device__ __forceinline__ void store_release(uint32_t* to, uint32_t x) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* from) {
    uint32_t x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
    return x;
}

// ---- Clusters of blocks ----

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// In two halves, by all threads of a warp at once: what was written before arriving is seen after waiting.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() { cluster_arrive(), cluster_wait(); }
// Sixteen bytes of the shared memory of block `rank`, that are at this address in its own.
__device__ __forceinline__ uint4 load_of_block(uint32_t at, uint32_t rank) {
    uint4 x;
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %4, %5;\n"
        "ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [there];\n"
        "}\n"
        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
        : "r"(at), "r"(rank)
        : "memory");
    return x;
}

// ---- The TMA unit, the bulk tensor copy engine ----

// What the second-level cache should do with a line: cache policies as createpolicy makes them, with the values of
// CUTLASS (TMA::CacheHintSm90).
constexpr uint64_t evict_normal = 0x1000000000000000, evict_first = 0x12F0000000000000;

__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// Box at (column, token, head, batch) to shared memory; its bytes are counted by `bar`. Outside the tensor: zeros.
__device__ __forceinline__ void tma_load(uint32_t to, const CUtensorMap& map, uint32_t bar, int c, int t, int h, int b,
                                         uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
        "{%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
        "l"(&map), "r"(bar), "r"(c), "r"(t), "r"(h), "r"(b), "l"(policy)
        : "memory");
}
// The same into every block of the cluster whose bit is in `blocks`, at the same address, each block's own `bar`
// counting.
__device__ __forceinline__ void tma_load_multicast(uint16_t blocks, uint32_t to, const CUtensorMap& map, uint32_t bar,
                                                   int c, int t, int h, int b, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_"
        "hint [%0], [%1, {%3, %4, %5, %6}], "
        "[%2], %7, %8;" ::"r"(to),
        "l"(&map), "r"(bar), "r"(c), "r"(t), "r"(h), "r"(b), "h"(blocks), "l"(policy)
        : "memory");
}
// The other way; what lies outside the tensor is not written.
__device__ __forceinline__ void tma_store(const CUtensorMap& map, uint32_t from, int c, int t, int h, int b,
                                          uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3, %4, %5}], [%1], %6;" ::
            "l"(&map),
        "r"(from), "r"(c), "r"(t), "r"(h), "r"(b), "l"(policy)
        : "memory");
}
// The same, added to what is there, element by element.
__device__ __forceinline__ void tma_add(const CUtensorMap& map, uint32_t from, int c, int t, int h, int b) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
            &map),
        "r"(from), "r"(c), "r"(t), "r"(h), "r"(b)
        : "memory");
}
// `bytes` from memory to shared memory, both at multiples of 16; counted by `bar`.
__device__ __forceinline__ void bulk_load(uint32_t to, const void* from, uint32_t bytes, uint32_t bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}
// The same into every block of the cluster whose bit is in `blocks`, each block's own `bar` counting.
__device__ __forceinline__ void bulk_load_multicast(uint16_t blocks, uint32_t to, const void* from, uint32_t bytes,
                                                    uint32_t bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
        "%4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(bar), "h"(blocks)
        : "memory");
}
// Shared memory of this block to the same address in block `rank` of the cluster, whose `bar` counts the bytes.
__device__ __forceinline__ void bulk_copy_remote(uint32_t at, uint32_t bytes, uint32_t bar, uint32_t rank) {
    asm volatile(
        "{\n"
        ".reg .b32 to, there;\n"
        "mapa.shared::cluster.u32 to, %0, %3;\n"
        "mapa.shared::cluster.u32 there, %2, %3;\n"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%0], %1, [there];\n"
        "}\n" ::"r"(at),
        "r"(bytes), "r"(bar), "r"(rank)
        : "memory");
}
// `bytes` from shared memory to memory, both at multiples of 16; of the group of stores of this thread.
__device__ __forceinline__ void bulk_store(void* to, uint32_t from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// All but the `left` youngest stores of this thread have read their shared memory.
template <int left>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory");
}
// Until all but `left` of them are in memory, where this thread then sees them.
template <int left>
__device__ __forceinline__ void tma_store_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(left) : "memory");
}
// Ordinary writes to shared memory become visible to the copy engine and to the tensor cores.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Launch order of dependent kernels ----

__device__ __forceinline__ void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- Reads of global memory ----

// 16 bytes that are read once: they pass the first-level cache by, which keeps what else is there.
__device__ __forceinline__ uint4 ld_global_nc_no_allocate(const void* from) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
}

// ---- Registers between warpgroups ----

template <int n>
__device__ __forceinline__ void reg_alloc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n>
__device__ __forceinline__ void reg_dealloc() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}

// ---- 8×8 matrices of 16-bit elements between registers and shared memory ----

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&x)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}
__device__ __forceinline__ uint32_t ldmatrix_x1(uint32_t from) {
    uint32_t x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}
__device__ __forceinline__ uint32_t ldmatrix_x1_trans(uint32_t from) {
    uint32_t x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&x)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
}
__device__ __forceinline__ void stmatrix_x4(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}
__device__ __forceinline__ void stmatrix_x4_trans(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
}

__device__ __forceinline__ float4 ld_shared_f32x4(uint32_t from) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(from)
                 : "memory");
    return x;
}
__device__ __forceinline__ float2 ld_shared_f32x2(uint32_t from) {
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from) : "memory");
    return x;
}
__device__ __forceinline__ float ld_shared_f32(uint32_t from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}
__device__ __forceinline__ uint32_t ld_shared_b32(uint32_t from) {
    uint32_t x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}
__device__ __forceinline__ void st_shared(uint32_t to, const uint32_t (&x)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                 : "memory");
}
// The word, to one lane; 0 to the others, which read nothing.
__device__ __forceinline__ uint32_t ld_shared_b32_if(bool wanted, uint32_t from) {
    uint32_t x;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; @p ld.shared.u32 %0, [%1]; }"
                 : "=r"(x)
                 : "r"(from), "r"(static_cast<uint32_t>(wanted))
                 : "memory");
    return x;
}
__device__ __forceinline__ void st_shared(uint32_t to, uint32_t x) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}
__device__ __forceinline__ void st_shared(uint32_t to, float x) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}

// ---- One thread: where it is, and 2^x ----

// threadIdx.x % 32 as the compiler must read it anew: what depends on it is made again where it is used, and is not
// held in registers in between.
__device__ __forceinline__ int laneid() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
// 2^x on the special-function unit: two ulp, subnormal results are 0.
__device__ __forceinline__ float ex2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ---- Warpgroup matrix products ----

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}
// Keeps the compiler from moving uses of these registers across the asynchronous products.
template <int n>
__device__ __forceinline__ void hold(float (&x)[n]) {
#pragma unroll
    for (int i = 0; i < n; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
// Whatever x >= 0 is computed from is issued before all that follows. ptxas keeps no order between arithmetic and a
// wait for wgmma products that it does not depend on: it places the wait first, and nothing runs beside the products.
__device__ __forceinline__ void issue_first(float x) {
    if (x < 0) asm volatile("nanosleep.u32 1;" ::: "memory");
}
template <int n>
__device__ __forceinline__ void issue_first(const float (&x)[n]) {
    unsigned signs = 0;
#pragma unroll
    for (int i = 0; i < n; ++i) signs |= __float_as_uint(x[i]);
    if (signs >> 31) asm volatile("nanosleep.u32 1;" ::: "memory");
}
// Makes the compiler forget how x was made, so that what depends on it is made again where it is needed and not once
// and held in registers.
__device__ __forceinline__ void forget(float& x) { asm volatile("" : "+f"(x)); }

// ---- Rounding ----

// To the 11 significant bits of tf32, halves away from zero.
__device__ __forceinline__ float round_to_tf32(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

// ---- Descriptions of operands in shared memory ----

// Describes a tile of rows of 128 bytes in the 128-byte swizzle, at a multiple of 1024 bytes: eight rows are 1024 bytes
// apart from the next eight; `leading` bytes separate blocks of 64 elements along a row-contiguous M or N. An operand
// begins so many bytes into the tile: one addition for each. Bits 62 and 63 are the swizzle (1: 128 bytes); in units of
// 16 bytes, bits 32 to 45 are the distance of groups of eight rows, 16 to 29 `leading`, 0 to 13 the address.
struct TileDescriptor {
    uint32_t low;

    explicit __device__ __forceinline__ TileDescriptor(uint32_t address, uint32_t leading = 16)
        : low(leading >> 4 << 16 | (address & 0x3FFFF) >> 4) {}
    __device__ __forceinline__ uint64_t operator+(uint32_t bytes) const {
        return uint64_t{1 << 30 | 1024 >> 4} << 32 | (low + (bytes >> 4));
    }
};

// The same of rows of 64 bytes in the 64-byte swizzle (2 in bits 62 and 63), at a multiple of 512 bytes: K-major, or
// with all 32 elements of a row-contiguous N.
struct NarrowTileDescriptor {
    uint32_t low;

    explicit __device__ __forceinline__ NarrowTileDescriptor(uint32_t address)
        : low(1 << 16 | (address & 0x3FFFF) >> 4) {}
    __device__ __forceinline__ uint64_t operator+(uint32_t bytes) const {
        return uint64_t{2u << 30 | 512 >> 4} << 32 | (low + (bytes >> 4));
    }
};

#define CAUSEWAY_D4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CAUSEWAY_D16(d, i) CAUSEWAY_D4(d, i), CAUSEWAY_D4(d, i + 4), CAUSEWAY_D4(d, i + 8), CAUSEWAY_D4(d, i + 12)
#define CAUSEWAY_D32(d) CAUSEWAY_D16(d, 0), CAUSEWAY_D16(d, 16)
#define CAUSEWAY_D64(d) CAUSEWAY_D32(d), CAUSEWAY_D16(d, 32), CAUSEWAY_D16(d, 48)
#define CAUSEWAY_R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define CAUSEWAY_R32 CAUSEWAY_R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define CAUSEWAY_R64                                                                                             \
    CAUSEWAY_R32                                                                                                 \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%" \
    "58,%59,%60,%61,%62,%63"

// D[64×64] = A·B (+ D where add): both operands in shared memory, K-major unless ta, tb.
template <class E, int ta, int tb>
__device__ __forceinline__ void wgmma_ss(float (&d)[32], uint64_t a, uint64_t b, int add) {
#define CAUSEWAY_SS(type)                                                                                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type \
                 " {" CAUSEWAY_R32 "}, %32, %33, p, 1, 1, %35, %36;}"                                              \
                 : CAUSEWAY_D32(d)                                                                                 \
                 : "l"(a), "l"(b), "r"(add), "n"(ta), "n"(tb))
    if constexpr (std::is_same_v<E, __half>) CAUSEWAY_SS("f16");
    else CAUSEWAY_SS("bf16");
#undef CAUSEWAY_SS
}

// D[64×128] the same way.
template <class E, int ta, int tb>
__device__ __forceinline__ void wgmma_ss(float (&d)[64], uint64_t a, uint64_t b, int add) {
#define CAUSEWAY_SS(type)                                                                                           \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
                 " {" CAUSEWAY_R64 "}, %64, %65, p, 1, 1, %67, %68;}"                                               \
                 : CAUSEWAY_D64(d)                                                                                  \
                 : "l"(a), "l"(b), "r"(add), "n"(ta), "n"(tb))
    if constexpr (std::is_same_v<E, __half>) CAUSEWAY_SS("f16");
    else CAUSEWAY_SS("bf16");
#undef CAUSEWAY_SS
}

// D[64×32] the same way.
template <class E, int ta, int tb>
__device__ __forceinline__ void wgmma_ss(float (&d)[16], uint64_t a, uint64_t b, int add) {
#define CAUSEWAY_SS(type)                                                                                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type \
                 " {" CAUSEWAY_R16 "}, %16, %17, p, 1, 1, %19, %20;}"                                              \
                 : CAUSEWAY_D16(d, 0)                                                                              \
                 : "l"(a), "l"(b), "r"(add), "n"(ta), "n"(tb))
    if constexpr (std::is_same_v<E, __half>) CAUSEWAY_SS("f16");
    else CAUSEWAY_SS("bf16");
#undef CAUSEWAY_SS
}

// The same with A in registers.
template <class E, int tb>
__device__ __forceinline__ void wgmma_rs(float (&d)[32], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b,
                                         int add) {
#define CAUSEWAY_RS(type)                                                                                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type \
                 " {" CAUSEWAY_R32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, %38;}"                                     \
                 : CAUSEWAY_D32(d)                                                                                 \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add), "n"(tb))
    if constexpr (std::is_same_v<E, __half>) CAUSEWAY_RS("f16");
    else CAUSEWAY_RS("bf16");
#undef CAUSEWAY_RS
}

// D[64×128] the same way.
template <class E, int tb>
__device__ __forceinline__ void wgmma_rs(float (&d)[64], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b,
                                         int add) {
#define CAUSEWAY_RS(type)                                                                                           \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
                 " {" CAUSEWAY_R64 "}, {%64,%65,%66,%67}, %68, p, 1, 1, %70;}"                                      \
                 : CAUSEWAY_D64(d)                                                                                  \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(add), "n"(tb))
    if constexpr (std::is_same_v<E, __half>) CAUSEWAY_RS("f16");
    else CAUSEWAY_RS("bf16");
#undef CAUSEWAY_RS
}

}  // namespace causeway::gpu::ptx
