#include "gpu/around/decay_gate.hpp"
#include "gpu/around/sigmoid.cuh"
#include "gpu/around/sums.hpp"
#include "gpu/base/error.hpp"
#include "gpu/kit/each.cuh"
#include "gpu/kit/element.cuh"
#include "gpu/kit/first.cuh"

namespace causeway::gpu::around {

namespace {

using std::int64_t;

// The log decay of a number, and its derivatives with respect to it and to A_log.
struct Gate {
    float value, by_a, by_rate;
};
__device__ __forceinline__ Gate gate(float x, float rate, float bound) {
    if (bound == 0.0f) {
        const float value = -rate * softplus(x);
        return {value, -rate * sigmoid(x), value};
    }
    const float s = sigmoid(rate * x), slope = bound * s * (1.0f - s) * rate;
    return {bound * s, slope, slope * x};
}

template <class E>
struct Numbers {
    GateArgs args;

    __device__ Gate at(int64_t i) const {
        const int64_t head = i / (args.N * args.channels) % args.heads;
        return at(i, head, i % args.channels);
    }
    __device__ Gate at(int64_t i, int64_t head, int64_t channel) const {
        float x = static_cast<float>(static_cast<const E*>(args.a)[i]);
        if (args.bias) x += args.bias[head * args.channels + channel];
        return gate(x, expf(args.A_log[head]), args.lower_bound);
    }
};

template <class E, class To>
struct Forward {
    Numbers<E> numbers;
    To* g;
    __device__ void operator()(int64_t i) const { g[i] = static_cast<To>(numbers.at(i).value); }
};

template <class E>
struct IsNotANumber {
    Numbers<E> numbers;
    __device__ bool operator()(int64_t i) const { return isnan(numbers.at(i).value); }
};

template <class E>
struct Inputs {
    Numbers<E> numbers;
    const E* dg;
    E* da;
    __device__ void operator()(int64_t i) const {
        da[i] = static_cast<E>(static_cast<float>(dg[i]) * numbers.at(i).by_a);
    }
};

// A number of sums: that of a part of the tokens, for one batch entry, head and channel.
template <class E>
struct Parameters {
    Numbers<E> numbers;
    const E* dg;
    int64_t rows;  // of a part
    double *by_rate, *by_bias;
    __device__ void operator()(int64_t i) const {
        const GateArgs& a = numbers.args;
        const int64_t columns = a.heads * a.channels, part = i / columns / a.batch, batch = i / columns % a.batch,
                      head = i % columns / a.channels, channel = i % a.channels, last = min((part + 1) * rows, a.N);
        double rate = 0, bias = 0;
        for (int64_t t = part * rows; t < last; ++t) {
            const int64_t at = ((batch * a.heads + head) * a.N + t) * a.channels + channel;
            const Gate g = numbers.at(at, head, channel);
            const double arrives = static_cast<double>(static_cast<float>(dg[at]));
            rate += arrives * static_cast<double>(g.by_rate), bias += arrives * static_cast<double>(g.by_a);
        }
        by_rate[i] = rate;
        if (by_bias) by_bias[i] = bias;
    }
};

struct AddChannels {
    const float* from;
    int64_t channels;
    float* to;
    __device__ void operator()(int64_t i) const {
        double sum = 0;
        for (int64_t c = 0; c < channels; ++c) sum += static_cast<double>(from[i * channels + c]);
        to[i] = static_cast<float>(sum);
    }
};

}  // namespace

void gates(const GateArgs& a, void* g, cudaStream_t stream) {
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        run_each("decay gates", a.size(), stream, Forward<E, E>{{a}, static_cast<E*>(g)});
    });
}

void gates_in_float(const GateArgs& a, float* g, cudaStream_t stream) {
    visit(a.type, [&](auto e) { run_each("decay gates", a.size(), stream, Forward<decltype(e), float>{{a}, g}); });
}

int64_t first_gate_not_a_number(const GateArgs& a, int64_t* first, cudaStream_t stream) {
    int64_t found = 0;
    visit(a.type, [&](auto e) {
        found = first_that("checking gates", a.size(), first, stream, IsNotANumber<decltype(e)>{{a}});
    });
    return found;
}

void gate_inputs(const GateArgs& a, const void* dg, void* da, cudaStream_t stream) {
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        run_each("the gradient of decay gates", a.size(), stream,
                 Inputs<E>{{a}, static_cast<const E*>(dg), static_cast<E*>(da)});
    });
}

void gate_parameters(const GateArgs& a, const void* dg, double* by_rate, double* by_bias, cudaStream_t stream) {
    const Parts parts(a.N);
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        run_each("the gradient of a gate's parameters", parts.count * a.batch * a.heads * a.channels, stream,
                 Parameters<E>{{a}, static_cast<const E*>(dg), parts.rows, by_rate, by_bias});
    });
}

void add_channels(const float* from, int64_t n, int64_t channels, float* to, cudaStream_t stream) {
    run_each("adding channels", n, stream, AddChannels{from, channels, to});
}

}  // namespace causeway::gpu::around
