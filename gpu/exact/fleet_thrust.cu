#include "gpu/exact/fleet_thrust.hpp"

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/tabulate_output_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/scan.h>
#include <thrust/system_error.h>

#include <type_traits>

#include "gpu/exact/pieces.hpp"
#include "gpu/kit/element.cuh"

namespace causeway::gpu {

namespace {

using std::int64_t, std::uint32_t, std::uint64_t;

constexpr int64_t up(int64_t n, int64_t each) { return (n + each - 1) / each; }

// What is scanned is sums over runs of tokens, of neighbouring columns together: runs of one token took 1.7 times as
// long, half of it waiting for sums of tiles before.
constexpr int columns = 4, run = 4;
struct alignas(4 * columns) Block {
    float x[columns];
};

// Sums, and log2 of what they are multiplied by on the way to the next: (a, x) then (b, y) is (a + b, 2^b x + y).
// Products of a rounded γ would drift from its powers, sums of its rounded logarithm do not.
struct Sum {
    float log2_decay, x[columns];
};
struct Then {
    __host__ __device__ Sum operator()(Sum a, const Sum& b) const {
        const float decay = exp2f(b.log2_decay);
        for (int e = 0; e < columns; ++e) a.x[e] = decay * a.x[e] + b.x[e];
        a.log2_decay += b.log2_decay;
        return a;
    }
};

// Divides numbers below 2^32 by one of them: i + 1 times (2^64 - 1) / n, the upper half.
class Over {
public:
    explicit Over(int64_t n) : reciprocal_(~uint64_t{0} / static_cast<uint64_t>(n)) {}
    __device__ friend uint32_t operator/(uint32_t i, Over n) {
        return static_cast<uint32_t>(__umul64hi(uint64_t{i} + 1, n.reciprocal_));
    }

private:
    uint64_t reciprocal_;
};

// Element i of [bh][block of columns][place].
struct Order {
    uint32_t places, blocks;
    Over over_places, over_blocks;

    Order(int64_t p, int64_t b)
        : places(static_cast<uint32_t>(p)), blocks(static_cast<uint32_t>(b)), over_places(p), over_blocks(b) {}
    struct At {
        uint32_t bh, block, place;
    };
    __device__ At at(uint32_t i) const {
        const uint32_t row = i / over_places, bh = row / over_blocks;
        return {bh, row - bh * blocks, i - row * places};
    }
};

// A split of tokens of some batch-heads in Float32: q, k [bh][rank] and v, o [bh][block], each [token of the run][run],
// zeros after the last token. Items are [bh][block][1 + runs]: first what is carried in, then the runs.
struct Split {
    Order items;
    uint32_t tokens, runs, r, d;
    float *q, *k, *log2_gamma;
    Block *v, *o;
    float* state;  // [bh][rank][column], before the split; the last item of a rank's scan leaves there what is
                   // after it

    // Token t of a run: of rank j, of the block.
    __device__ float of(const float* x, const Order::At& a, uint32_t j, uint32_t t) const {
        return x[((a.bh * r + j) * run + t) * runs + a.place - 1];
    }
    __device__ Block& of(Block* x, const Order::At& a, uint32_t t) const {
        return x[((a.bh * items.blocks + a.block) * run + t) * runs + a.place - 1];
    }
    // x = γ x + k_j v for the tokens t of a run, each followed by f(t).
    template <class F>
    __device__ void through(const Order::At& a, uint32_t j, float (&x)[columns], const F& f) const {
        const float decay = exp2f(log2_gamma[a.bh]);
#pragma unroll
        for (uint32_t t = 0; t < run; ++t) {
            const float c = of(k, a, j, t);
            const Block y = of(v, a, t);
            for (int e = 0; e < columns; ++e) x[e] = decay * x[e] + c * y.x[e];
            f(t);
        }
    }
    // Calls f(e, l) for the columns of a block and their running sums.
    template <class F>
    __device__ void carried(const Order::At& a, uint32_t j, const F& f) const {
        for (uint32_t e = 0; e < columns; ++e)
            if (a.block * columns + e < d) f(e, state[(int64_t{a.bh} * r + j) * d + a.block * columns + e]);
    }
};
struct Key {
    Over items;
    __device__ uint32_t operator()(uint32_t i) const { return i / items; }
};
struct Term {  // Σ k_j v of a run, discounted
    Split s;
    uint32_t j;
    __device__ Sum operator()(uint32_t i) const {
        const auto a = s.items.at(i);
        Sum sum{};
        if (a.place == 0) s.carried(a, j, [&](uint32_t e, float l) { sum.x[e] = l; });
        else {
            sum.log2_decay = run * s.log2_gamma[a.bh];
            s.through(a, j, sum.x, [](uint32_t) {});
        }
        return sum;
    }
};
struct Add {  // o += q_j x from the sum x before the run, and after the last token what is carried out
    Split s;
    uint32_t j;
    __device__ void operator()(uint32_t i, Sum x) const {
        const auto a = s.items.at(i);
        if (a.place == 0) return;
        Block o[run], last{};
        for (uint32_t t = 0; t < run; ++t) o[t] = j > 0 ? s.of(s.o, a, t) : Block{};
        s.through(a, j, x.x, [&](uint32_t t) {
            const float q = s.of(s.q, a, j, t);
            const bool ends = (a.place - 1) * run + t + 1 == s.tokens;
            for (int e = 0; e < columns; ++e) {
                o[t].x[e] += q * x.x[e];
                last.x[e] = ends ? x.x[e] : last.x[e];
            }
        });
        for (uint32_t t = 0; t < run; ++t) s.of(s.o, a, t) = o[t];
        if (a.place == s.runs) s.carried(a, j, [&](uint32_t e, float& l) { l = last.x[e]; });
    }
};

// Tokens of some batch-heads of a tensor.
struct Piece {
    int64_t first_bh, first_token, heads, batch_heads, tokens;
};
// Turns a tensor [token][column] into [bh][block][token of the run][run] of blocks of `side` columns, zeros beyond
// its width and its tokens; where E is not const, back.
template <class E, int side>
struct Turn {
    static constexpr uint32_t step = 8;  // columns of a call: those of a sector of memory
    static_assert(step % side == 0);
    Order order;  // of steps
    uint32_t calls, blocks, width, tokens;
    int64_t first_bh, heads;
    E* tensor;
    Strides stride;
    float* turned;

    template <class P>
    Turn(const Piece& p, P* x, const Strides& s, int columns_of_x, void* to)
        : order(up(p.tokens, run) * run, up(columns_of_x, step)),
          calls(static_cast<uint32_t>(p.batch_heads) * order.places * order.blocks),
          blocks(static_cast<uint32_t>(up(columns_of_x, side))),
          width(static_cast<uint32_t>(columns_of_x)),
          tokens(static_cast<uint32_t>(p.tokens)),
          first_bh(p.first_bh),
          heads(p.heads),
          tensor(static_cast<E*>(x) + p.first_token * s.token),
          stride(s),
          turned(static_cast<float*>(to)) {}
    template <class Policy>
    void apply(const Policy& on) const {
        thrust::for_each_n(on, thrust::make_counting_iterator(uint32_t{0}), calls, *this);
    }
    __device__ void operator()(uint32_t i) const {
        const auto a = order.at(i);
        const int64_t bh = first_bh + a.bh, batch = bh / heads;
        E* const row = tensor + batch * stride.batch + (bh - batch * heads) * stride.head + a.place * stride.token;
        const uint32_t place = a.place % run * (order.places / run) + a.place / run;
        for (uint32_t e = 0; e < step; ++e) {
            const uint32_t column = a.block * step + e, block = column / side;
            if (block >= blocks) return;
            float& x = turned[((a.bh * blocks + block) * order.places + place) * side + column % side];
            const bool inside = column < width && a.place < tokens;
            if constexpr (std::is_const_v<E>) x = inside ? static_cast<float>(row[column]) : 0.0f;
            else if (inside) row[column] = static_cast<E>(x);
        }
    }
};

__global__ void keep(const __grid_constant__ pieces::BatchHeads l, float* log2_gamma) {
    if (threadIdx.x < l.count) log2_gamma[threadIdx.x] = static_cast<float>(l.log2_gamma[threadIdx.x]);
}

// Thrust's temporary memory, out of the workspace.
struct Memory {
    using value_type = char;
    char *at, *end;
    char* allocate(std::ptrdiff_t n) {
        char* const p = at;
        at += (n + 255) / 256 * 256;
        if (at > end) fail("fleet_thrust: the scan asks for ", n, " bytes of workspace, ", end - p, " are left");
        return p;
    }
    void deallocate(char*, std::size_t) {}
};

// Of a split, all of whose ranks come before the next: the less, the more of it stays in the cache from rank to rank;
// the more, the fewer the launches, two for each rank and split.
constexpr int64_t max_floats = int64_t{1} << 25;
struct Plan {
    int64_t blocks, tokens, batch_heads;  // of a split
    float *q, *k, *log2_gamma, *spare;
    Block *v, *o;
    char* left;
    std::size_t bytes;

    Plan(const CausalArgs& a, void* workspace) {
        blocks = up(a.d, columns);
        const int64_t rows = max_floats / (2 * (a.r + blocks * columns)), all = a.B * a.H;
        tokens = up(a.N, up(a.N, rows));
        const int64_t runs = up(tokens, run);
        batch_heads = up(all, up(all, std::clamp<int64_t>(rows / (runs * run), 1, pieces::max_batch_heads)));
        pieces::Carve carve(workspace);
        const auto floats = [&](int64_t width) { return carve.floats(batch_heads * runs * run * width); };
        q = floats(a.r), k = floats(a.r);
        v = reinterpret_cast<Block*>(floats(blocks * columns)), o = reinterpret_cast<Block*>(floats(blocks * columns));
        log2_gamma = carve.floats(batch_heads), spare = carve.floats(a.state ? 0 : batch_heads * a.r * a.d);
        // The scan keeps under 100 bytes for every tile of some hundred items.
        left = static_cast<char*>(
            carve.bytes(static_cast<std::size_t>(batch_heads * blocks * (runs + 1)) + (std::size_t{1} << 16)));
        bytes = carve.end() + pieces::slack;
    }
};

}  // namespace

std::size_t fleet_thrust_workspace(const CausalArgs& a) {
    check_causal("fleet_thrust", a);
    return empty(a) ? 0 : Plan(a, nullptr).bytes;
}

namespace {

void scan_all(const CausalArgs& a, cudaStream_t stream) {
    const Plan p(a, a.workspace.data);
    const auto index = thrust::make_counting_iterator(uint32_t{0});
    pieces::in_groups(a, p.batch_heads, p.spare, stream, [&](const pieces::BatchHeads& l, float* U) {
        keep<<<1, pieces::max_batch_heads, 0, stream>>>(l, p.log2_gamma);
        for (int64_t first = 0; first < a.N; first += p.tokens) {
            const int64_t tokens = std::min(p.tokens, a.N - first), runs = up(tokens, run),
                          n = l.count * p.blocks * (runs + 1);
            const Split s{Order(runs + 1, p.blocks),
                          static_cast<uint32_t>(tokens),
                          static_cast<uint32_t>(runs),
                          static_cast<uint32_t>(a.r),
                          static_cast<uint32_t>(a.d),
                          p.q,
                          p.k,
                          p.log2_gamma,
                          p.v,
                          p.o,
                          U};
            const auto on = thrust::cuda::par_nosync.on(stream);
            visit(a.type, [&](auto zero) {
                using E = decltype(zero);
                const Piece piece{l.first, first, l.heads, l.count, tokens};
                Turn<const E, 1>(piece, a.q, a.q_stride, a.r, s.q).apply(on);
                Turn<const E, 1>(piece, a.k, a.k_stride, a.r, s.k).apply(on);
                Turn<const E, columns>(piece, a.v, a.v_stride, a.d, s.v).apply(on);
            });
            const auto key = thrust::make_transform_iterator(index, Key{s.items.over_places});
            for (uint32_t j = 0; j < s.r; ++j) {
                Memory memory{p.left, static_cast<char*>(a.workspace.data) + a.workspace.bytes};
                const auto term = thrust::make_transform_iterator(index, Term{s, j});
                const auto add = thrust::make_tabulate_output_iterator(Add{s, j});
                thrust::exclusive_scan_by_key(thrust::cuda::par_nosync(memory).on(stream), key, key + n, term, add,
                                              Sum{}, thrust::equal_to<uint32_t>(), Then());
            }
            visit(a.type, [&](auto zero) {
                using E = decltype(zero);
                Turn<E, columns>(Piece{l.first, first, l.heads, l.count, tokens}, a.o, a.o_stride, a.d, s.o).apply(on);
            });
        }
    });
    check_launch("launching the scans of fleet_thrust");
}

}  // namespace

void fleet_thrust(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("fleet_thrust", a, fleet_thrust_workspace(a));
    if (empty(a)) return;
    try {
        scan_all(a, stream);
    } catch (const thrust::system_error& error) {  // what CUDA says, with other words around it
        check(static_cast<cudaError_t>(error.code().value()), "launching the scans of fleet_thrust");
        throw;
    }
}

}  // namespace causeway::gpu
