#include "gpu/around/norms.hpp"
#include "gpu/around/sigmoid.cuh"
#include "gpu/around/sums.hpp"
#include "gpu/base/error.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::around {

namespace {

using std::int64_t;

constexpr int warps = 8;  // of a thread block, a row each

template <class E, class G>
struct Rows {
    NormArgs a;
    const E* x;
    const G* gate;

    explicit Rows(const NormArgs& args)
        : a(args), x(static_cast<const E*>(args.x)), gate(static_cast<const G*>(args.gate)) {}

    __device__ float element(int64_t row, int64_t i) const { return static_cast<float>(x[row * a.width + i]); }
    __device__ float weight(int64_t i) const { return a.weight ? a.weight[i] : 1.0f; }
    // f(gate) and its derivative; one without a gate.
    __device__ GateAndSlope gated(int64_t row, int64_t i) const {
        if (!gate) return {1.0f, 0.0f};
        return gate_and_slope(static_cast<float>(gate[row * a.width + i]), a.silu);
    }
    // What the row is multiplied by, in all lanes.
    __device__ float factor(int64_t row, int lane) const {
        float sum = 0;
        for (int64_t i = lane; i < a.width; i += 32) sum = fmaf(element(row, i), element(row, i), sum);
        return factor_of(sum_of_warp(sum));
    }
    // The same from the sum of its squares.
    __device__ float factor_of(float sum) const {
        return 1.0f / sqrtf((a.mean ? sum / static_cast<float>(a.width) : sum) + a.eps);
    }
};

// f(row, lane) for the rows of this warp.
template <class F>
__device__ __forceinline__ void each_row(int64_t rows, F&& f) {
    for (int64_t row = blockIdx.x * int64_t{warps} + threadIdx.y; row < rows; row += int64_t{gridDim.x} * warps)
        f(row, static_cast<int>(threadIdx.x));
}

template <class E, class G>
__global__ __launch_bounds__(32 * warps) void forward(Rows<E, G> r, E* y) {
    each_row(r.a.rows, [&](int64_t row, int lane) {
        const float factor = r.factor(row, lane);
        for (int64_t i = lane; i < r.a.width; i += 32)
            y[row * r.a.width + i] = static_cast<E>(r.element(row, i) * factor * r.weight(i) * r.gated(row, i).value);
    });
}

// So many elements that lie together, as few loads bring them.
template <class T, int n>
struct alignas(n * sizeof(T) > 16 ? 16 : n * sizeof(T)) Piece {
    T of[n];
};

// The same where a row is a piece of 16 bytes for each of `lanes` threads.
template <class E, class G, int lanes>
__global__ __launch_bounds__(32 * warps) void forward_in_pieces(Rows<E, G> r, E* y) {
    constexpr int n = 16 / sizeof(E), rows = 32 * warps / lanes;
    const int lane = static_cast<int>(threadIdx.x) % lanes, own = static_cast<int>(threadIdx.x) / lanes;
    const unsigned together = lanes == 32 ? all_lanes : ((1u << lanes) - 1) << threadIdx.x % 32 / lanes * lanes;
    float weight[n];
#pragma unroll
    for (int i = 0; i < n; ++i) weight[i] = r.weight(lane * n + i);
    for (int64_t row = blockIdx.x * int64_t{rows} + own; row < r.a.rows; row += gridDim.x * int64_t{rows}) {
        const int64_t at = row * lanes + lane;
        Piece<E, n> x = reinterpret_cast<const Piece<E, n>*>(r.x)[at];
        Piece<G, n> gate{};
        if (r.gate) gate = reinterpret_cast<const Piece<G, n>*>(r.gate)[at];
        float sum = 0;
#pragma unroll
        for (int i = 0; i < n; ++i) sum = fmaf(static_cast<float>(x.of[i]), static_cast<float>(x.of[i]), sum);
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(together, sum, step);
        const float factor = r.factor_of(sum);
#pragma unroll
        for (int i = 0; i < n; ++i) {
            const float f = r.gate ? gate_and_slope(static_cast<float>(gate.of[i]), r.a.silu).value : 1.0f;
            x.of[i] = static_cast<E>(static_cast<float>(x.of[i]) * factor * weight[i] * f);
        }
        reinterpret_cast<Piece<E, n>*>(y)[at] = x;
    }
}

// With h = factor x and m = weight ⊙ f(gate): dx = factor (m ⊙ dy - h <h, m ⊙ dy>), the product a mean for a mean.
template <class E, class G>
__global__ __launch_bounds__(32 * warps) void backward(Rows<E, G> r, const E* dy, E* dx, G* dgate, float* factors) {
    each_row(r.a.rows, [&](int64_t row, int lane) {
        const int64_t at = row * r.a.width;
        const float factor = r.factor(row, lane);
        if (lane == 0) factors[row] = factor;
        float inner = 0;
        for (int64_t i = lane; i < r.a.width; i += 32) {
            const float h = r.element(row, i) * factor, arrives = static_cast<float>(dy[at + i]) * r.weight(i);
            const GateAndSlope f = r.gated(row, i);
            inner = fmaf(h, arrives * f.value, inner);
            if (dgate) dgate[at + i] = static_cast<G>(arrives * h * f.slope);
        }
        inner = sum_of_warp(inner);
        if (r.a.mean) inner /= static_cast<float>(r.a.width);
        for (int64_t i = lane; i < r.a.width; i += 32) {
            const float through = static_cast<float>(dy[at + i]) * r.weight(i) * r.gated(row, i).value;
            dx[at + i] = static_cast<E>(factor * (through - r.element(row, i) * factor * inner));
        }
    });
}

constexpr int columns = 128;  // of a thread block, a thread each

template <class E, class G>
__global__ __launch_bounds__(columns) void weights(Rows<E, G> r, const E* dy, const float* factor, int64_t rows,
                                                   double* sums) {
    const int64_t i = blockIdx.y * int64_t{columns} + threadIdx.x, first = blockIdx.x * rows,
                  last = min(first + rows, r.a.rows);
    if (i >= r.a.width) return;
    double sum = 0;
    for (int64_t row = first; row < last; ++row)
        sum += static_cast<double>(static_cast<float>(dy[row * r.a.width + i]) * r.element(row, i) * factor[row] *
                                   r.gated(row, i).value);
    sums[blockIdx.x * r.a.width + i] = sum;
}

// f(Rows<E, G>) for the types of x and of the gate.
template <class F>
void visit_rows(const NormArgs& a, F&& f) {
    visit(a.type,
          [&](auto e) { visit(a.gate ? a.gate_type : a.type, [&](auto g) { f(Rows<decltype(e), decltype(g)>(a)); }); });
}

unsigned blocks_of(const NormArgs& a) {
    return static_cast<unsigned>(std::min<int64_t>((a.rows + warps - 1) / warps, 1 << 16));
}

// Launches it for rows of `lanes` pieces; false where rows are others.
template <int lanes, class E, class G>
bool in_pieces(const Rows<E, G>& r, E* y, cudaStream_t stream) {
    constexpr int n = 16 / sizeof(E);
    const auto aligned = [](const void* x) { return reinterpret_cast<std::uintptr_t>(x) % 16 == 0; };
    if (r.a.width != lanes * n || !aligned(r.x) || !aligned(y) || !aligned(r.gate)) return false;
    const int64_t blocks = (r.a.rows * lanes + 32 * warps - 1) / (32 * warps);
    forward_in_pieces<E, G, lanes>
        <<<static_cast<unsigned>(std::min<int64_t>(blocks, 1 << 14)), 32 * warps, 0, stream>>>(r, y);
    return true;
}

}  // namespace

void norm(const NormArgs& a, void* y, cudaStream_t stream) {
    if (a.rows == 0) return;
    visit_rows(a, [&]<class E, class G>(const Rows<E, G>& r) {
        E* const to = static_cast<E*>(y);
        if (in_pieces<8>(r, to, stream) || in_pieces<16>(r, to, stream) || in_pieces<32>(r, to, stream)) return;
        forward<<<blocks_of(a), dim3(32, warps), 0, stream>>>(r, to);
    });
    check_launch("a norm");
}

void norm_gradient(const NormArgs& a, const void* dy, void* dx, void* dgate, float* factor, cudaStream_t stream) {
    if (a.rows == 0) return;
    visit_rows(a, [&]<class E, class G>(const Rows<E, G>& r) {
        backward<<<blocks_of(a), dim3(32, warps), 0, stream>>>(r, static_cast<const E*>(dy), static_cast<E*>(dx),
                                                               static_cast<G*>(dgate), factor);
    });
    check_launch("the gradient of a norm");
}

void norm_weights(const NormArgs& a, const void* dy, const float* factor, double* sums, cudaStream_t stream) {
    if (a.rows == 0) return;
    const Parts parts(a.rows);
    const dim3 blocks(static_cast<unsigned>(parts.count), static_cast<unsigned>((a.width + columns - 1) / columns));
    visit_rows(a, [&]<class E, class G>(const Rows<E, G>& r) {
        weights<<<blocks, columns, 0, stream>>>(r, static_cast<const E*>(dy), factor, parts.rows, sums);
    });
    check_launch("the gradient of a norm's weight");
}

}  // namespace causeway::gpu::around
