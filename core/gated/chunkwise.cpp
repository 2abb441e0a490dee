#include <vector>

#include "core/base/parallel.hpp"
#include "core/gated/chunks.hpp"
#include "core/gated/forms.hpp"
#include "core/kit/chained_scan.hpp"

namespace causeway::gated {
namespace {

// A chunk as a link in the chain of its head, without the delta rule.
template <class T>
class ChainedChunk {
public:
    ChainedChunk(const Problem<T>& p, Index c, std::vector<Buffer<T>>& states)
        : p_(p), c_(c), states_(states), chunks_(p.head(0), c, 0, p.dv), D_(chunks_.state().size()) {}

    void prepare(Index head, Index i) {
        const Head<T> h = p_.head(head);
        chunks_.take(h);
        chunks_.load(i * c_, std::min(c_, h.N - i * c_));
        chunks_.addition(D_.data());
    }
    void add(Index head, Index) { chunks_.add(D_.data(), states_[static_cast<std::size_t>(head)].data()); }
    void finish(Index, Index) { chunks_.outputs(); }

private:
    const Problem<T>& p_;
    Index c_;
    std::vector<Buffer<T>>& states_;
    Chunks<T> chunks_;
    Buffer<T> D_;
};

// Sequences of the same length.
template <class T>
void run_in_chains(const Problem<T>& p) {
    const Index N = p.head(0).N, c = std::min(p.chunk, N);
    std::vector<Buffer<T>> states;  // in panels
    for (Index h = 0; h < p.all_heads(); ++h) {
        Buffer<T>& S = states.emplace_back(p.dk * kit::panels<T>(p.dv) * panel_width<T>);
        std::fill_n(S.data(), S.size(), T(0));
        pack_rows(p.head(h).S, p.dk, p.dv, p.dv, S.data(), p.dk);
    }
    kit::chained_scan(p.all_heads(), (N + c - 1) / c, [&] { return ChainedChunk<T>(p, c, states); });
    for (Index h = 0; h < p.all_heads(); ++h)
        unpack_rows(states[static_cast<std::size_t>(h)].data(), p.dk, p.dv, p.head(h).S, p.dv);
}

}  // namespace

template <class T>
void run_chunkwise(const Problem<T>& p) {
    const Index heads = p.all_heads();
    const bool few = heads > 0 && heads < threads_here();
    // Of packed sequences each has a length of its own.
    if (few && !p.beta && p.sequences.size() < 2 && p.head(0).N > p.chunk) return run_in_chains(p);
    const Index parts = few ? (threads_here() + heads - 1) / heads : 1, width = range_width<T>(p.dv, parts);
    parallel_for(heads * parts, [&](Index task) {
        const Head<T> h = p.head(task / parts);
        const Index from = task % parts * width;
        if (from >= p.dv || h.N == 0) return;
        const Index c = std::min(p.chunk, h.N);
        Chunks<T> chunks(h, c, from, std::min(p.dv, from + width));
        for (Index start = 0; start < h.N; start += c) chunks.advance(start, std::min(c, h.N - start));
        chunks.finish();
    });
}

template class Chunks<float>;
template class Chunks<double>;

template void run_chunkwise<float>(const Problem<float>&);
template void run_chunkwise<double>(const Problem<double>&);

}  // namespace causeway::gated
