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
        sum = sum_of_warp(sum);
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

}  // namespace

void norm(const NormArgs& a, void* y, cudaStream_t stream) {
    if (a.rows == 0) return;
    visit_rows(a, [&]<class E, class G>(const Rows<E, G>& r) {
        forward<<<blocks_of(a), dim3(32, warps), 0, stream>>>(r, static_cast<E*>(y));
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
