#include "gpu/around/short_convolution.hpp"
#include "gpu/around/sigmoid.cuh"
#include "gpu/around/sums.hpp"
#include "gpu/base/error.hpp"
#include "gpu/kit/each.cuh"
#include "gpu/kit/element.cuh"

namespace causeway::gpu::around {

namespace {

using std::int64_t;

constexpr int width = 128;        // channels of a thread block, a thread each
constexpr int rows_a_block = 32;  // rows that a thread goes through

// The last sequence that begins at or before a row, so the one that has it: those behind it that begin there too are
// empty but for the last of them.
__device__ __forceinline__ int64_t sequence_of(const Texts& t, int64_t row) {
    if (!t.offsets) return row / t.N;
    int64_t low = 0, high = t.count;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (t.offsets[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}
__device__ __forceinline__ int64_t first_of(const Texts& t, int64_t sequence) {
    return t.offsets ? t.offsets[sequence] : sequence * t.N;
}

// Where a row is in its sequence; next() goes on to the row behind it.
struct Place {
    const Texts& texts;
    int64_t sequence, first, end;

    __device__ Place(const Texts& t, int64_t row)
        : texts(t), sequence(sequence_of(t, row)), first(first_of(t, sequence)), end(first_of(t, sequence + 1)) {}
    __device__ void move_to(int64_t row) {
        while (row >= end) ++sequence, first = end, end = first_of(texts, sequence + 1);
    }
};

// The input of channel c for a tap at a row: in its sequence, or in the window before it.
template <class E>
__device__ __forceinline__ float input(const ConvolutionArgs& a, const Place& at, int64_t row, int64_t tap, int64_t c) {
    const int64_t from = row - (a.taps - 1) + tap;
    if (from >= at.first) return static_cast<float>(static_cast<const E*>(a.x)[from * a.x_row + c]);
    return a.window[(at.sequence * (a.taps - 1) + (from - at.first + a.taps - 1)) * a.channels + c];
}
template <class E>
__device__ __forceinline__ float sum(const ConvolutionArgs& a, const Place& at, int64_t row, int64_t c) {
    float z = a.bias ? a.bias[c] : 0.0f;
    for (int64_t tap = 0; tap < a.taps; ++tap) z = fmaf(a.weight[c * a.taps + tap], input<E>(a, at, row, tap, c), z);
    return z;
}

// f(place, row, channel) for the rows of this block and the channel of this thread.
template <class F>
__device__ __forceinline__ void each_row(const ConvolutionArgs& a, int64_t rows, F&& f) {
    const int64_t c = blockIdx.y * int64_t{width} + threadIdx.x, first = blockIdx.x * rows,
                  last = min(first + rows, a.texts.rows);
    if (c >= a.channels) return;
    Place at(a.texts, first);
    for (int64_t row = first; row < last; ++row) {
        at.move_to(row);
        f(at, row, c);
    }
}

template <class E>
__global__ __launch_bounds__(width) void forward(ConvolutionArgs a, E* y) {
    each_row(a, rows_a_block, [&](const Place& at, int64_t row, int64_t c) {
        const float z = sum<E>(a, at, row, c);
        y[row * a.channels + c] = static_cast<E>(a.silu ? z * sigmoid(z) : z);
    });
}

template <class E>
__global__ __launch_bounds__(width) void slopes(ConvolutionArgs a, const E* dy, float* slope) {
    each_row(a, rows_a_block, [&](const Place& at, int64_t row, int64_t c) {
        const float arrives = static_cast<float>(dy[row * a.channels + c]);
        slope[row * a.channels + c] = a.silu ? arrives * gate_and_slope(sum<E>(a, at, row, c), true).slope : arrives;
    });
}

// What arrives at row `at` of a sequence of n rows, counted from its first; rows of the window are below 0.
__device__ __forceinline__ float arriving(const ConvolutionArgs& a, int64_t sequence, int64_t first, int64_t n,
                                          int64_t at, int64_t c, const float* slope, const float* dlast) {
    const int64_t before = a.taps - 1, kept = at + before - n;  // its place among the last inputs
    float sum = kept >= 0 ? dlast[(sequence * before + kept) * a.channels + c] : 0.0f;
    for (int64_t tap = 0; tap < a.taps; ++tap) {
        const int64_t token = at + before - tap;
        if (token >= 0 && token < n)
            sum = fmaf(a.weight[c * a.taps + tap], slope[(first + token) * a.channels + c], sum);
    }
    return sum;
}

template <class E>
__global__ __launch_bounds__(width) void inputs(ConvolutionArgs a, const float* slope, const float* dlast, E* dx) {
    each_row(a, rows_a_block, [&](const Place& at, int64_t row, int64_t c) {
        dx[row * a.channels + c] =
            static_cast<E>(arriving(a, at.sequence, at.first, at.end - at.first, row - at.first, c, slope, dlast));
    });
}

// A block of threads for some rows, some channels and one tap; the last is the bias.
template <class E>
__global__ __launch_bounds__(width) void weights(ConvolutionArgs a, const float* slope, int64_t rows, double* sums) {
    const int64_t tap = blockIdx.z;
    double total = 0;
    each_row(a, rows, [&](const Place& at, int64_t row, int64_t c) {
        const double s = slope[row * a.channels + c];
        total += tap < a.taps ? s * static_cast<double>(input<E>(a, at, row, tap, c)) : s;
    });
    const int64_t c = blockIdx.y * int64_t{width} + threadIdx.x;
    if (c < a.channels)
        sums[blockIdx.x * (a.taps + 1) * a.channels + (tap < a.taps ? c * a.taps + tap : a.taps * a.channels + c)] =
            total;
}

dim3 blocks_of(const ConvolutionArgs& a, int64_t rows) {
    return {static_cast<unsigned>((a.texts.rows + rows - 1) / rows),
            static_cast<unsigned>((a.channels + width - 1) / width)};
}

template <class E>
struct KeepInputs {
    ConvolutionArgs a;
    float* window;
    __device__ void operator()(int64_t i) const {
        const int64_t before = a.taps - 1, c = i % a.channels, row = i / a.channels % before,
                      sequence = i / a.channels / before, first = first_of(a.texts, sequence),
                      n = first_of(a.texts, sequence + 1) - first, at = n - before + row;
        window[i] = at >= 0 ? static_cast<float>(static_cast<const E*>(a.x)[(first + at) * a.x_row + c])
                            : a.window[(sequence * before + at + before) * a.channels + c];
    }
};

struct WindowGradient {
    ConvolutionArgs a;
    const float *slope, *dlast;
    float* dwindow;
    __device__ void operator()(int64_t i) const {
        const int64_t before = a.taps - 1, c = i % a.channels, row = i / a.channels % before,
                      sequence = i / a.channels / before, first = first_of(a.texts, sequence),
                      n = first_of(a.texts, sequence + 1) - first;
        dwindow[i] = arriving(a, sequence, first, n, row - before, c, slope, dlast);
    }
};

int64_t window_size(const ConvolutionArgs& a) { return a.texts.count * (a.taps - 1) * a.channels; }
bool is_empty(const ConvolutionArgs& a) { return a.texts.rows == 0 || a.channels == 0; }

}  // namespace

void convolve(const ConvolutionArgs& a, void* y, cudaStream_t stream) {
    if (is_empty(a)) return;
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        forward<E><<<blocks_of(a, rows_a_block), width, 0, stream>>>(a, static_cast<E*>(y));
    });
    check_launch("a short convolution");
}

void keep_inputs(const ConvolutionArgs& a, float* window, cudaStream_t stream) {
    visit(a.type, [&](auto e) {
        run_each("keeping inputs of a short convolution", window_size(a), stream, KeepInputs<decltype(e)>{a, window});
    });
}

void convolution_slopes(const ConvolutionArgs& a, const void* dy, float* slope, cudaStream_t stream) {
    if (is_empty(a)) return;
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        slopes<E><<<blocks_of(a, rows_a_block), width, 0, stream>>>(a, static_cast<const E*>(dy), slope);
    });
    check_launch("the slopes of a short convolution");
}

void convolution_inputs(const ConvolutionArgs& a, const float* slope, const float* dlast, void* dx, float* dwindow,
                        cudaStream_t stream) {
    run_each("the gradient of a convolution's state", window_size(a), stream, WindowGradient{a, slope, dlast, dwindow});
    if (is_empty(a)) return;
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        inputs<E><<<blocks_of(a, rows_a_block), width, 0, stream>>>(a, slope, dlast, static_cast<E*>(dx));
    });
    check_launch("the gradient of a short convolution");
}

void convolution_weights(const ConvolutionArgs& a, const float* slope, double* sums, cudaStream_t stream) {
    if (is_empty(a)) return;
    const Parts parts(a.texts.rows);
    dim3 blocks = blocks_of(a, parts.rows);
    blocks.z = static_cast<unsigned>(a.taps + 1);
    visit(a.type, [&](auto e) { weights<decltype(e)><<<blocks, width, 0, stream>>>(a, slope, parts.rows, sums); });
    check_launch("the gradient of a convolution's weights");
}

}  // namespace causeway::gpu::around
