#include "gpu/exact/fleet_thrust.hpp"

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/scan.h>

#include "gpu/base/element.cuh"
#include "gpu/exact/pieces.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

// A sum and what it is multiplied by on the way to the next: (a, x) then (b, y) is (ab, bx + y).
struct Sum {
    double decay;  // in Float32 the powers of γ would drift
    float sum;
};
struct Then {
    __host__ __device__ Sum operator()(Sum a, Sum b) const { return {a.decay * b.decay, static_cast<float>(b.decay * a.sum) + b.sum}; }
};

// Element i of [line][column][token].
template <class E>
struct Sequence {
    const E *q, *k, *v;
    E* o;
    Strides q_stride, k_stride, v_stride, o_stride;
    int64_t N;
    int r, d;
    pieces::Lines lines;
    float *state, *sum;  // state [line][rank][column] or null; sum: of o, one for each i

    struct At {
        int64_t line, column, token, b, h;
    };
    __device__ At at(int64_t i) const {
        const int64_t line = i / N / d, whole = lines.first + line;
        return {line, i / N % d, i % N, whole / lines.heads, whole % lines.heads};
    }
    __device__ static const E& of(const E* x, const Strides& s, const At& a, int64_t column) { return x[a.b * s.batch + a.h * s.head + a.token * s.token + column]; }
    __device__ float& running(const At& a, int j) const { return state[((lines.first + a.line) * r + j) * d + a.column]; }
};
struct Key {
    int64_t N;
    __host__ __device__ int64_t operator()(int64_t i) const { return i / N; }
};
template <class E>
struct Term {  // k_j v, and before the first token what was carried in
    const Sequence<E>* s;
    int j;
    __device__ Sum operator()(int64_t i) const {
        const auto at = s->at(i);
        const double decay = exp2(s->lines.log2_gamma[at.line]);
        const float x = static_cast<float>(s->of(s->k, s->k_stride, at, j)) * static_cast<float>(s->of(s->v, s->v_stride, at, at.column));
        return {decay, s->state && at.token == 0 ? static_cast<float>(decay * s->running(at, j)) + x : x};
    }
};
template <class E>
struct Add {  // o += q_j x, and after the last token what is carried out
    const Sequence<E>* s;
    int j;
    const Sum* x;
    __device__ void operator()(int64_t i) const {
        const auto at = s->at(i);
        const float o = static_cast<float>(s->of(s->q, s->q_stride, at, j)) * x[i].sum + (j > 0 ? s->sum[i] : 0.0f);
        s->sum[i] = o;
        if (s->state && at.token + 1 == s->N) s->running(at, j) = x[i].sum;
        if (j + 1 == s->r) s->o[at.b * s->o_stride.batch + at.h * s->o_stride.head + at.token * s->o_stride.token + at.column] = static_cast<E>(o);
    }
};

// Puts the sequence where all scans can read it.
template <class E>
__global__ void keep(const __grid_constant__ Sequence<E> s, Sequence<E>* to) {
    *to = s;
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

// Lines at a time: all that fit the arguments of a kernel.
int64_t lines_of(const CausalArgs& a) { return std::min<int64_t>(a.B * a.H, pieces::most_lines); }

}  // namespace

std::size_t fleet_thrust_workspace(const CausalArgs& a) {
    check_causal("fleet_thrust", a);
    const std::size_t n = static_cast<std::size_t>(lines_of(a) * a.N * a.d);
    // The scan keeps under 100 bytes for every tile of some hundred elements.
    return empty(a) ? 0 : n * (sizeof(Sum) + sizeof(float)) + n + (std::size_t{1} << 16);
}

void fleet_thrust(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("fleet_thrust", a, fleet_thrust_workspace(a));
    if (empty(a)) return;
    visit(a.type, [&](auto zero) {
        using E = decltype(zero);
        for (int64_t first = 0; first < a.B * a.H; first += lines_of(a)) {
            const int64_t lines = std::min(lines_of(a), a.B * a.H - first), n = lines * a.N * a.d;
            pieces::Carve carve(a.workspace.data);
            auto* const x = static_cast<Sum*>(carve.bytes(static_cast<std::size_t>(n) * sizeof(Sum)));
            float* const sum = carve.floats(n);
            auto* const on_device = static_cast<Sequence<E>*>(carve.bytes(sizeof(Sequence<E>)));
            char* const left = static_cast<char*>(carve.bytes(0));
            const Sequence<E> s{static_cast<const E*>(a.q), static_cast<const E*>(a.k), static_cast<const E*>(a.v), static_cast<E*>(a.o), a.q_stride, a.k_stride,
                                a.v_stride, a.o_stride, a.N, a.r, a.d, pieces::lines_of(a, first, lines), a.state, sum};
            keep<<<1, 1, 0, stream>>>(s, on_device);
            const auto index = thrust::make_counting_iterator(int64_t{0});
            const auto key = thrust::make_transform_iterator(index, Key{a.N});
            for (int j = 0; j < a.r; ++j) {
                Memory memory{left, static_cast<char*>(a.workspace.data) + a.workspace.bytes};
                const auto on = thrust::cuda::par_nosync(memory).on(stream);
                const auto term = thrust::make_transform_iterator(index, Term<E>{on_device, j});
                thrust::inclusive_scan_by_key(on, key, key + n, term, x, thrust::equal_to<int64_t>(), Then());
                thrust::for_each_n(on, index, n, Add<E>{on_device, j, x});
            }
        }
    });
    check_launch("launching the scans of fleet_thrust");
}

}  // namespace causeway::gpu
