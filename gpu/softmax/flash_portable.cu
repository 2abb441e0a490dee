// The launches of flash attention on kernels for every device from sm_80 on.
#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/softmax/flash.hpp"
#include "gpu/softmax/flash_float.cuh"
#include "gpu/softmax/flash_mma.cuh"

namespace causeway::gpu::softmax {

namespace {

// Calls f(tile, kernel) with the tile and kernel for these widths and this many rows.
template <class F>
void choose(const SoftmaxArgs& a, F&& f) {
    const int width = std::max(a.d, a.dv);
    if (a.type == Type::Float32) {
        if (width <= 64) f(FloatTile<64>{}, flash_float<64>);
        else if (width <= 128) f(FloatTile<128>{}, flash_float<128>);
        else f(FloatTile<256>{}, flash_float<256>);
        return;
    }
    const bool few = a.rows() <= 16;
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        if constexpr (sizeof(E) == 2) {
            if (width <= 64) few ? f(MmaTile<64, 4>{}, flash_mma<E, 64, 4>) : f(MmaTile<64, 1>{}, flash_mma<E, 64, 1>);
            else if (width <= 128)
                few ? f(MmaTile<128, 4>{}, flash_mma<E, 128, 4>) : f(MmaTile<128, 1>{}, flash_mma<E, 128, 1>);
            else few ? f(MmaTile<256, 2>{}, flash_mma<E, 256, 2>) : f(MmaTile<256, 1>{}, flash_mma<E, 256, 1>);
        }
    });
}

template <class T>
int64_t units_of(const SoftmaxArgs& a, const T&) {
    return a.batch * a.heads * ((a.rows() + T::BM - 1) / T::BM);
}

// Enough splits of the keys for every multiprocessor to hold as many blocks as it can; whole waves where few rows wait
// for memory.
template <class T>
Params plan_of(const SoftmaxArgs& a, int splits, const T& tile) {
    const int64_t slots = int64_t{T::per_multiprocessor} * device().multiprocessors,
                  units = std::max<int64_t>(1, units_of(a, tile));
    const int chosen = T::BM == 16 ? whole_waves(units, slots) : static_cast<int>(std::max<int64_t>(1, slots / units));
    return params_of(a, splits > 0 ? splits : chosen, T::BN);
}

}  // namespace

std::size_t flash_portable_workspace(const SoftmaxArgs& a, int splits) {
    check_args("flash_attention", a);
    std::size_t bytes = 0;
    if (!a.empty()) choose(a, [&](auto tile, auto) { bytes = workspace_of(plan_of(a, splits, tile)); });
    return bytes;
}

void flash_portable(const SoftmaxArgs& a, int splits, cudaStream_t stream) {
    check_args("flash_attention", a);
    if (a.empty()) return;
    choose(a, [&](auto tile, auto kernel) {
        const Params c = plan_of(a, splits, tile);
        check_workspace("flash_attention", a, c);
        const unsigned blocks = check_blocks("flash_attention", units_of(a, tile) * c.splits);
        launch(kernel, "launching flash attention", dim3(blocks), tile.threads, tile.bytes, 1, false, stream, c);
        if (c.splits > 1) merge_splits(c, a.type, stream);
    });
}

}  // namespace causeway::gpu::softmax
