#include "core/base/parallel.hpp"
#include "core/gated/general/chunks.hpp"
#include "core/gated/general/forms.hpp"

namespace causeway::gated {

template <class T>
void run_general_chunkwise(const GeneralProblem<T>& p) {
    constexpr Index W = panel_width<T>;
    const Index panels = std::max<Index>(kit::panels<T>(p.dv), 1);
    const Index parts = p.all_heads() >= threads() ? 1 : std::min<Index>(panels, threads());
    const Index width = (panels + parts - 1) / parts * W;
    parallel_for(p.all_heads() * parts, [&](Index task) {
        const GeneralHead<T> h = p.head(task / parts);
        const Index from = task % parts * width;
        if (from >= p.dv || h.N == 0) return;
        const Index c = std::min(p.chunk, h.N);
        GeneralChunks<T> chunks(h, c, from, std::min(p.dv, from + width));
        for (Index start = 0; start < h.N; start += c) chunks.advance(start, std::min(c, h.N - start));
        chunks.write_state(h.S);
    });
}

template class GeneralChunks<float>;
template class GeneralChunks<double>;

template void run_general_chunkwise<float>(const GeneralProblem<float>&);
template void run_general_chunkwise<double>(const GeneralProblem<double>&);

}  // namespace causeway::gated
