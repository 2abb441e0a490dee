#include "core/gated/chunkwise.hpp"

#include "core/base/parallel.hpp"
#include "core/gated/forms.hpp"

namespace causeway::gated {

template <class T>
void run_chunkwise(const Problem<T>& p) {
    parallel_for(p.all_heads(), [&](Index h) { chunkwise(p.head(h), p.chunk); });
}

template void run_chunkwise<float>(const Problem<float>&);
template void run_chunkwise<double>(const Problem<double>&);

}  // namespace causeway::gated
