// FleetAttention in vectors: the running sums x_j of several ranks stay in registers while a tile of rows goes by, and
// start from the carried sums l^j, so the correction of Algorithm 1, line 12, costs nothing. A term meets every
// addition after it: the N + r roundings of row-based, not the Br + ⌈N/Br⌉ + r + 1 of the definition (claims B7); sums
// of a tile from zero, with l^j added for the output, took a fifth longer.
#include "core/exact/fleet.hpp"

#include "core/exact/all_methods.hpp"
#include "core/exact/strips.hpp"

namespace causeway::exact {
namespace {

constexpr int NV = simd::bytes == 64 ? 2 : 1;
constexpr int ranks = 8;  // running sums held in registers at a time

template <class T>
using Vec = simd::Vector<T>;

// P_i += Σ_{j0<=j<j0+J} b_ij x_j with x_j ← γ x_j + c_ij v_i, for all rows of the tile. `first`: P starts at zero.
template <class T, bool decays, int J>
void ranks_of_tile(const Strip<T>& s, Index j0, bool first) {
    constexpr int L = simd::lanes<T>;
    Vec<T> x[J][NV];
    for (int j = 0; j < J; ++j)
        for (int k = 0; k < NV; ++k) x[j][k] = simd::load(s.S + (j0 + j) * NV * L + k * L);
    for (Index i = 0; i < s.rows; ++i) {
        const T* b = s.B + i * s.r + j0;
        const T* c = s.C + i * s.r + j0;
        Vec<T> v[NV], o[NV];
        for (int k = 0; k < NV; ++k) {
            v[k] = simd::load(s.V + i * s.stride + k * L);
            o[k] = first ? Vec<T>{} : simd::load(s.O + i * s.stride + k * L);
        }
#pragma GCC unroll 8
        for (int j = 0; j < J; ++j) {
            for (int k = 0; k < NV; ++k) {
                x[j][k] = (decays ? s.gamma * x[j][k] : x[j][k]) + c[j] * v[k];
                o[k] += b[j] * x[j][k];
            }
        }
        for (int k = 0; k < NV; ++k) simd::store(s.O + i * s.stride + k * L, o[k]);
    }
    for (int j = 0; j < J; ++j)
        for (int k = 0; k < NV; ++k) simd::store(s.S + (j0 + j) * NV * L + k * L, x[j][k]);
}

template <class T>
struct Kernel {
    template <bool decays>
    static void run(const Strip<T>& s) {
        if (s.r == 0) {
            for (Index i = 0; i < s.rows; ++i)
                for (int k = 0; k < NV; ++k) simd::store(s.O + i * s.stride + k * simd::lanes<T>, Vec<T>{});
        }
        Index j = 0;
        for (; j + ranks <= s.r; j += ranks) ranks_of_tile<T, decays, ranks>(s, j, j == 0);
        for (; j < s.r; ++j) ranks_of_tile<T, decays, 1>(s, j, j == 0);
    }
};

// Rank by rank through the whole sequence, one running sum in registers: reads V and updates P r times, in place.
template <class T>
void rank_by_rank(const Problem<T>& p) {
    constexpr int L = simd::lanes<T>;
    constexpr Index width = NV * L;
    const Index strips = (p.d + width - 1) / width;
    parallel_for(p.all_heads() * strips, [&](Index task) {
        const Head<T> h = p.head(task / strips);
        const Index at = task % strips * width, cols = std::min(width, p.d - at);
        const T gamma = T(h.gamma);
        const T* V = h.V.data() + at;
        T* O = p.O + task / strips * p.N * p.d + at;
        for (Index i = 0; i < p.N; ++i) std::fill_n(O + i * p.d, cols, T(0));
        for (Index j = 0; j < p.r; ++j) {
            interrupt::check();
            Vec<T> x[NV];
            for (int k = 0; k < NV; ++k)
                x[k] = h.S ? simd::load_part(h.S + j * p.d + at + k * L, cols - k * L) : Vec<T>{};
            for (Index i = 0; i < p.N; ++i) {
                const T b = h.B(i, j), c = h.C(i, j);
                for (int k = 0; k < NV; ++k) {
                    T* o = O + i * p.d + k * L;
                    const T* v = V + i * p.d + k * L;
                    const bool whole = cols == width;
                    x[k] = (h.decays() ? gamma * x[k] : x[k]) +
                           c * (whole ? simd::load(v) : simd::load_part(v, cols - k * L));
                    if (whole) simd::store(o, simd::load(o) + b * x[k]);
                    else simd::store_part(o, simd::load_part(o, cols - k * L) + b * x[k], cols - k * L);
                }
            }
            if (h.S)
                for (int k = 0; k < NV; ++k) simd::store_part(h.S + j * p.d + at + k * L, x[k], cols - k * L);
        }
    });
}

// In tiles: 2Nrd multiplies, (3N - ⌈N/b⌉)rd adds; rd + bd scalars.
Cost cost_of(const Work& w) {
    const closed_form::Blocks k(w.N, w.block);
    const closed_form::Wide rd = closed_form::Wide(w.r) * w.d, N = w.N;
    return {{closed_form::narrow((w.decay ? 4 * N - k.T : 2 * N) * rd), closed_form::narrow((3 * N - k.T) * rd), 0, 0},
            closed_form::narrow(rd + k.b * w.d + (w.decay ? k.b + 1 : 0))};
}

// 2Nrd multiply-adds; d scalars.
Cost cost_of_untiled(const Work& w) {
    const auto rd = closed_form::Wide(w.r) * w.d;
    return closed_form::of(2 * w.N * rd, w.decay ? w.N * rd : 0, w.d);
}

}  // namespace

// The default tile: 64 rows of V and P, one strip wide, stay in the first-level cache.
Method fleet_method() {
    Method m;
    m.name = "fleet";
    m.short_name = "FA";
    m.source = "FleetAttention, fleet Algorithm 1; leet Algorithm 5";
    m.formula =
        "X = cumsum(diag(C^j) V),  O += diag(B^j) (X + γ^(p+1) l^j)\n"
        "l^j ← last row of X + γ^n l^j,  for rank j in a tile of n rows p";
    m.text =
        "FleetAttention: for each rank a cumulative sum along the sequence, in tiles that stay in the "
        "cache, with carried sums between tiles.";
    m.use =
        "On a CPU, at any length: the operations of the recurrence, and cumulative sums in place of products, whose "
        "partial sums many workers can share out.";
    m.time = "O(N)";
    m.memory = "rd + Br·Bc";
    m.block = 64;
    m.state = true;
    m.prefix = true;
    m.cost = cost_of;
    m.running_memory = [](const Work& w) { return w.r * w.d; };
    m.roundings = roundings_of_one_sum;
    m.f32 = [](const auto& p) { each_strip<float, NV, Kernel<float>>(p, p.block); };
    m.f64 = [](const auto& p) { each_strip<double, NV, Kernel<double>>(p, p.block); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [&](const auto& h) { fleet(h, p.block, h.d()); }); };
    return m;
}

// Rank by rank through the whole sequence: one tile of N rows, one running sum.
Method fleet_untiled_method() {
    Method m;
    m.name = "fleet-untiled";
    m.short_name = "FA_torch";
    m.source = "FleetAttention rank by rank, fleet eq. 7; leet eq. 5";
    m.formula = "O = Σ_j diag(b_j) cumsum(diag(c_j) V),  columns b_j, c_j of B, C";
    m.text =
        "FleetAttention as it is written in one line: a cumulative sum of the whole sequence for every "
        "rank, one after the other.";
    m.use =
        "To compare with fleet, which is the same sum in tiles: this one goes through all of V once a "
        "rank, and misses every cache.";
    m.time = "O(N)";
    m.memory = "d";
    m.state = true;
    m.prefix = true;
    m.cost = cost_of_untiled;
    // The running sum stays in registers.
    m.running_memory = [](const Work&) -> Index { return 0; };
    m.roundings = roundings_of_one_sum;
    m.f32 = [](const auto& p) { rank_by_rank(p); };
    m.f64 = [](const auto& p) { rank_by_rank(p); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [](const auto& h) { fleet_untiled(h); }); };
    return m;
}

}  // namespace causeway::exact
