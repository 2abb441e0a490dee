#include "gpu/gated/arguments.hpp"

#include "core/base/error.hpp"

namespace causeway::gpu::gated {

namespace {

constexpr int max_width = 256;

}  // namespace

void check(const GatedArgs& a, const char* method) {
    if (a.B < 0 || a.H < 0 || a.N < 0)
        fail(method, ": ", a.B, "×", a.H, "×", a.N, " batch, heads and tokens, expected none below 0");
    if (a.group < 1) fail(method, ": group is ", a.group, ", expected at least 1");
    if (a.dk < 1 || a.dk > max_width || a.dv < 1 || a.dv > max_width) {
        fail(method, ": keys of width ", a.dk, " and values of width ", a.dv, ", expected 1 to ", max_width,
             " on the GPU");
    }
    if (a.gates != 0 && a.gates != 1 && a.gates != a.dk)
        fail(method, ": ", a.gates, " gates a token, expected 0, 1 or ", a.dk);
    if (a.B * a.H * a.N == 0) return;
    if (a.gates > 0 && !a.g && !a.projection.a) fail(method, ": gates are announced, but g is null");
    if (!a.q || !a.k || !a.v) fail(method, ": q, k or v is null");
}

void check_workspace(const Workspace& w, std::size_t bytes, const char* method) {
    if (w.bytes < bytes || (bytes > 0 && !w.data)) fail(method, ": workspace of ", w.bytes, " bytes, expected ", bytes);
    if (reinterpret_cast<std::uintptr_t>(w.data) % 16 != 0)
        fail(method, ": workspace at an address that is not a multiple of 16");
}

Operand operand(const void* data, Type type, Strides s, int width) {
    const std::int64_t size = bytes_of(type);
    const auto fits = [&](std::int64_t bytes) {
        const auto multiple = [&](std::int64_t x) { return x * size % bytes == 0; };
        return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0 && multiple(s.batch) &&
               multiple(s.head) && multiple(s.token) && multiple(width);
    };
    return {static_cast<char*>(const_cast<void*>(data)),
            s.batch * size,
            s.head * size,
            s.token * size,
            fits(16),
            fits(4 * size)};
}

Call call_of(const GatedArgs& a) {
    return {operand(a.q, a.type, a.q_stride, a.dk),
            operand(a.k, a.type, a.k_stride, a.dk),
            operand(a.v, a.type, a.v_stride, a.dv),
            operand(a.o, a.type, a.o_stride, a.dv),
            a.type,
            static_cast<int>(a.H),
            a.group,
            a.dk,
            a.dv,
            a.gates,
            a.B * a.H,
            a.N,
            a.gates > 0 ? a.g : nullptr,
            a.beta,
            a.state,
            a.scale,
            a.projection};
}

}  // namespace causeway::gpu::gated
