#include "gpu/softmax/params.hpp"

#include <algorithm>
#include <numbers>

#include "gpu/base/error.hpp"

namespace causeway::gpu::softmax {

namespace {

constexpr int min_split_keys = 256;  // below, writing and merging a partial output takes longer than reading them
constexpr std::int64_t max_tokens = (std::int64_t{1} << 31) - 1024;

// Whether rows of this width are whole 16-byte pieces wherever they start.
bool aligned(const void* data, Type type, Strides s, int width) {
    const std::int64_t bytes = bytes_of(type);
    const auto fits = [&](std::int64_t n) { return n * bytes % 16 == 0; };
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && fits(s.batch) && fits(s.head) && fits(s.token) &&
           fits(width);
}

}  // namespace

void check_args(const char* name, const SoftmaxArgs& a) {
    if (a.batch < 0 || a.heads < 0 || a.N < 0 || a.M < 0)
        fail(name, ": batch, heads, N, M are ", a.batch, ", ", a.heads, ", ", a.N, ", ", a.M,
             ", expected none below 0");
    if (a.group < 1) fail(name, ": a group of ", a.group, " heads, expected at least 1");
    if (a.d < 1 || a.dv < 1 || a.d > max_width || a.dv > max_width)
        fail(name, ": d and dv are ", a.d, " and ", a.dv, ", expected 1 to ", max_width);
    if (a.M > max_tokens || a.N > max_tokens / a.group)
        fail(name, ": ", a.M, " keys and ", a.group, "·", a.N, " queries, expected below 2^31");
    if (a.heads > 0 && a.batch > max_tokens / a.heads)
        fail(name, ": ", a.batch, "·", a.heads, " heads, expected below 2^31");
}

Params params_of(const SoftmaxArgs& a, int splits, int tile) {
    Params c{};
    c.q = a.q, c.k = a.k, c.v = a.v, c.o = a.o, c.lse = a.lse;
    const auto set = [](std::int64_t(&to)[3], Strides s) { to[0] = s.batch, to[1] = s.head, to[2] = s.token; };
    set(c.q_stride, a.q_stride), set(c.k_stride, a.k_stride), set(c.v_stride, a.v_stride), set(c.o_stride, a.o_stride);
    const auto n = [](std::int64_t x) { return static_cast<std::int32_t>(x); };
    c.heads = n(a.heads), c.batch_heads = n(a.batch * a.heads), c.N = n(a.N), c.M = n(a.M), c.group = a.group,
    c.rows = n(a.rows()), c.d = a.d, c.dv = a.dv;
    c.causal = a.causal;
    c.aligned_q = aligned(a.q, a.type, a.q_stride, a.d);
    c.aligned_kv = aligned(a.k, a.type, a.k_stride, a.d) && aligned(a.v, a.type, a.v_stride, a.dv);
    c.scale_log2 = static_cast<float>(static_cast<double>(a.scale) * std::numbers::log2e);
    if (c.scale_log2 == 0)
        c.scale_log2 = 1e-30f;  // all weights 1, but those of masked scores, -Inf times the scale, still 0
    const auto pieces = [&](std::int64_t keys) { return std::max<std::int64_t>(1, (a.M + keys - 1) / keys); };
    const std::int64_t wanted = std::max<std::int64_t>(1, std::min<std::int64_t>(splits, a.M / min_split_keys));
    const std::int64_t keys = ((a.M + wanted - 1) / wanted + tile - 1) / tile * tile;
    c.split_keys = n(std::max<std::int64_t>(keys, tile));
    c.splits = n(pieces(c.split_keys));
    c.partial = static_cast<float*>(a.workspace.data);
    c.partial_lse =
        c.partial ? c.partial + static_cast<std::int64_t>(c.splits) * c.batch_heads * c.rows * c.dv : nullptr;
    return c;
}

int whole_waves(std::int64_t units, std::int64_t slots) {
    double fullest = 0;
    std::int64_t chosen = 1;
    for (std::int64_t waves = 1; waves <= 4; ++waves) {
        const std::int64_t n = waves * slots / std::max<std::int64_t>(1, units);
        const double full = static_cast<double>(n * units) / static_cast<double>(waves * slots);
        if (full > fullest + 0.05) fullest = full, chosen = n;
    }
    return static_cast<int>(chosen);
}

std::size_t workspace_of(const Params& c) {
    if (c.splits == 1) return 0;
    const auto n = [](std::int32_t x) { return static_cast<std::size_t>(x); };
    return n(c.splits) * n(c.batch_heads) * n(c.rows) * n(c.dv + 1) * sizeof(float);
}

void check_workspace(const char* name, const SoftmaxArgs& a, const Params& c) {
    if (const std::size_t need = workspace_of(c); need > a.workspace.bytes)
        fail(name, ": a workspace of ", a.workspace.bytes, " bytes, expected ", need);
}

unsigned check_blocks(const char* name, std::int64_t blocks) {
    if (blocks >= std::int64_t{1} << 31) fail(name, ": ", blocks, " blocks, expected below 2^31");
    return static_cast<unsigned>(blocks);
}

}  // namespace causeway::gpu::softmax
