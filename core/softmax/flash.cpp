// Flash attention over all heads and threads: blocks of queries, and where there are few of them parts of the keys,
// each through the online softmax of core/kit/online_softmax.hpp.
#include <algorithm>
#include <cmath>

#include "core/base/parallel.hpp"
#include "core/softmax/forms.hpp"
#include "core/softmax/standard.hpp"

namespace causeway::attention {
namespace {

constexpr Index enough_tasks = 64;     // with fewer blocks of queries than that, their keys are split
constexpr Index min_part_keys = 1024;  // into parts of at least so many

// Numerators and sums of the parts of the keys, with the maxima they stand for, become the outputs of a row.
template <class T>
void merge(const Head<T>& h, Index row, Index parts, Index stride, const T* O, const T* m, const T* l) {
    T largest = m[0];
    for (Index p = 1; p < parts; ++p)
        if (largest < m[p * stride]) largest = m[p * stride];
    const T shift = shift_of(largest);
    T* o = h.O + row * h.dv;
    std::fill_n(o, h.dv, T(0));
    T sum(0);
    for (Index p = 0; p < parts; ++p) {
        const T factor = std::exp(m[p * stride] - shift);
        sum += l[p * stride] * factor;
        for (Index e = 0; e < h.dv; ++e) o[e] += O[p * stride * h.dv + e] * factor;
    }
    for (Index e = 0; e < h.dv; ++e) o[e] /= sum;
    h.m[row] = largest, h.l[row] = sum;
}

}  // namespace

template <class T>
void run_flash(const Problem<T>& p) {
    const Index rows = p.group * p.N, blocks = (rows + max_softmax_rows - 1) / max_softmax_rows,
                tasks = p.all_heads() * blocks;
    if (tasks == 0) return;
    if (p.M == 0) {
        std::fill_n(p.O, p.all_heads() * rows * p.dv, T(0));
        std::fill_n(p.m, p.all_heads() * rows, -std::numeric_limits<T>::infinity());
        std::fill_n(p.l, p.all_heads() * rows, T(0));
        return;
    }
    // Depends on the sizes alone, so that the sums are the same for every number of threads.
    const Index parts = std::clamp<Index>(p.M / min_part_keys, 1, std::max<Index>(enough_tasks / tasks, 1));
    const Index part_keys = ((p.M + parts - 1) / parts + 63) / 64 * 64;
    const Index all = p.all_heads() * rows;
    Buffer<T> O(parts > 1 ? parts * all * p.dv : 0), m(parts > 1 ? parts * all : 0), l(parts > 1 ? parts * all : 0);
    parallel_for(tasks * parts, [&](Index task) {
        const Index part = task % parts,
                    index = tasks - 1 - task / parts;  // the last blocks of a head have the most to do
        const Head<T> h = p.head(index / blocks);
        const Index from = index % blocks * max_softmax_rows, to = std::min(rows, from + max_softmax_rows);
        const Index first = part * part_keys, last = first + part_keys;
        if (parts == 1) {
            online_softmax(h, from, to, first, last, true, h.O + from * p.dv, h.m + from, h.l + from);
        } else {
            const Index at = part * all + index / blocks * rows + from;
            online_softmax(h, from, to, first, last, false, O.data() + at * p.dv, m.data() + at, l.data() + at);
        }
    });
    if (parts == 1) return;
    parallel_for(p.all_heads(), [&](Index index) {
        const Head<T> h = p.head(index);
        for (Index row = 0; row < rows; ++row) {
            const Index at = index * rows + row;
            merge(h, row, parts, all, O.data() + at * p.dv, m.data() + at, l.data() + at);
        }
    });
}

template <class T>
void run_standard(const Problem<T>& p) {
    constexpr Index together = 16;
    const Index rows = p.group * p.N, blocks = (rows + together - 1) / together;
    parallel_for(p.all_heads() * blocks, [&](Index task) {
        const Index from = task % blocks * together;
        standard(p.head(task / blocks), from, std::min(rows, from + together));
    });
}

template void run_flash<float>(const Problem<float>&);
template void run_flash<double>(const Problem<double>&);
template void run_standard<float>(const Problem<float>&);
template void run_standard<double>(const Problem<double>&);

}  // namespace causeway::attention
