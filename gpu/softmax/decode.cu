// The launches of flash-decoding.
#include "gpu/softmax/decode.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/softmax/decode.cuh"
#include "gpu/softmax/flash.hpp"

namespace causeway::gpu {

namespace softmax {

namespace {

// Rows that a block has, and the width its registers are made for.
int rows_at_once(int64_t rows) { return rows == 1 ? 1 : rows == 2 ? 2 : 4; }
int width_of(const SoftmaxArgs& a) { return std::max(a.d, a.dv) <= 64 ? 64 : std::max(a.d, a.dv) <= 128 ? 128 : 256; }

// Two blocks to a multiprocessor.
Params plan_of(const SoftmaxArgs& a, int splits) {
    const int64_t rows = a.rows(), R = rows_at_once(rows), units = a.batch * a.heads * ((rows + R - 1) / R);
    return params_of(a, splits > 0 ? splits : whole_waves(units, int64_t{2} * device().multiprocessors), 1);
}

template <class E, int D, int R>
void run(const Params& c, const int32_t* length, cudaStream_t stream) {
    const unsigned blocks = check_blocks("flash_decoding", int64_t{c.splits} * c.batch_heads * ((c.rows + R - 1) / R));
    constexpr bool wide = Lanes<E, D>::V > 1, ahead = R == 1;  // more rows leave no registers for keys on their way
    constexpr int U = R * (wide ? 2 : 1) <= 2 ? 4 : 2;
    const bool early = length && device().compute >= 90;
    launch(decode_kernel<E, D, R, U, ahead>, "launching decode_kernel", dim3(blocks), decode_threads, 0, 1, early,
           stream, c, length);
}

template <class E, int D>
void run(const Params& c, const int32_t* length, cudaStream_t stream) {
    const int R = rows_at_once(c.rows);
    if constexpr (sizeof(E) == 4) {
        if (R == 2) return run<E, D, 2>(c, length, stream);
        if (R == 4) return run<E, D, 4>(c, length, stream);
    }
    run<E, D, 1>(c, length, stream);
}

// The call of one query over a cache.
SoftmaxArgs over_cache(SoftmaxArgs a) {
    check_args("cached_decoding", a);
    if (a.N != 1) fail("cached_decoding: ", a.N, " queries, expected 1");
    a.causal = false, a.lse = nullptr;
    return a;
}

template <class E>
void run_over_cache(const Params& c, const int32_t* length, int width, cudaStream_t stream) {
    const auto rows = [&](auto R) {
        if (width == 64) run<E, 64, R()>(c, length, stream);
        else if (width == 128) run<E, 128, R()>(c, length, stream);
        else run<E, 256, R()>(c, length, stream);
    };
    const int R = rows_at_once(c.rows);
    if (R == 1) rows(std::integral_constant<int, 1>{});
    else if (R == 2) rows(std::integral_constant<int, 2>{});
    else rows(std::integral_constant<int, 4>{});
}

bool few_rows(const SoftmaxArgs& a) { return a.rows() <= max_decoded_rows(a.type); }

void check_decoding(const SoftmaxArgs& a) {
    check_args("flash_decoding", a);
    if (!few_rows(a))
        fail("flash_decoding: ", a.rows(), " rows, expected at most ", max_decoded_rows(a.type), " on FMA units");
}

}  // namespace

std::size_t decode_workspace(const SoftmaxArgs& a, int splits) {
    check_decoding(a);
    return a.empty() ? 0 : workspace_of(plan_of(a, splits));
}

void decode(const SoftmaxArgs& a, int splits, cudaStream_t stream) {
    check_decoding(a);
    if (a.empty()) return;
    const Params c = plan_of(a, splits);
    check_workspace("flash_decoding", a, c);
    const int width = width_of(a);
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        if (width == 64) run<E, 64>(c, nullptr, stream);
        else if (width == 128) run<E, 128>(c, nullptr, stream);
        else run<E, 256>(c, nullptr, stream);
    });
    if (c.splits > 1) merge_splits(c, a.type, stream);
}

}  // namespace softmax

std::size_t cached_decoding_workspace(const SoftmaxArgs& args) {
    const SoftmaxArgs a = softmax::over_cache(args);
    return a.empty() ? 0 : softmax::workspace_of(softmax::plan_of(a, 0));
}

void cached_decoding(const SoftmaxArgs& args, const std::int32_t* length, cudaStream_t stream) {
    const SoftmaxArgs a = softmax::over_cache(args);
    if (a.empty()) return;
    const softmax::Params c = softmax::plan_of(a, 0);
    softmax::check_workspace("cached_decoding", a, c);
    visit(a.type, [&](auto e) { softmax::run_over_cache<decltype(e)>(c, length, softmax::width_of(a), stream); });
    if (c.splits > 1) softmax::merge_splits(c, a.type, stream);
}

std::size_t flash_decoding_workspace(const SoftmaxArgs& a) {
    softmax::check_args("flash_decoding", a);
    return softmax::few_rows(a) ? softmax::decode_workspace(a) : flash_attention_workspace(a);
}

void flash_decoding(const SoftmaxArgs& a, cudaStream_t stream) {
    softmax::check_args("flash_decoding", a);
    if (softmax::few_rows(a)) softmax::decode(a, 0, stream);
    else flash_attention(a, stream);
}

}  // namespace causeway::gpu
