#include "gpu/gated/general/arguments.hpp"

#include <limits>

#include "core/base/error.hpp"

namespace causeway::gpu::general {

namespace {

constexpr int max_width = 256;

Input input(const GeneralInput& x, int width) {
    return {gated::operand(x.data, x.type, x.stride, width), x.type, x.shared};
}

}  // namespace

void check(const GeneralArgs& a, const Sequences& sequences, const char* form) {
    if (a.B < 0 || a.H < 0 || a.N < 0 || a.N > std::numeric_limits<std::int32_t>::max())
        fail(form, ": ", a.B, "×", a.H, "×", a.N,
             " batch, heads and tokens, expected none below 0 and at most 2^31 - 1", " tokens");
    if (a.group < 1) fail(form, ": group is ", a.group, ", expected at least 1");
    if (a.dk < 1 || a.dk > max_width || a.dv < 1 || a.dv > max_width)
        fail(form, ": keys of width ", a.dk, " and values of width ", a.dv, ", expected 1 to ", max_width,
             " on the GPU");
    if (a.gates != 0 && a.gates != 1 && a.gates != a.dk)
        fail(form, ": ", a.gates, " factors a token, expected 0, 1 or ", a.dk);
    if (sequences.count > 0 && a.B != 1) fail(form, ": packed sequences in ", a.B, " batch entries, expected 1");
    if (is_empty(a)) return;
    if (!a.q.data || !a.k.data || !a.v.data || !a.o) fail(form, ": q, k, v or o is null");
    if (!a.state) fail(form, ": state is null");
    if (a.gates > 0 && !a.a.data) fail(form, ": factors are announced, but a is null");
    if ((a.u.data == nullptr) != (a.w.data == nullptr)) fail(form, ": one of u and w is null, expected both or none");
}

Call call_of(const GeneralArgs& a) {
    return {input(a.q, a.dk),
            input(a.k, a.dk),
            input(a.v, a.dv),
            input(a.u, a.dk),
            input(a.w, a.dk),
            input(a.a, a.gates),
            gated::operand(a.o, a.type, a.o_stride, a.dv),
            a.type,
            static_cast<int>(a.H),
            a.group,
            a.dk,
            a.dv,
            a.gates,
            a.B * a.H,
            a.state,
            a.scale};
}

}  // namespace causeway::gpu::general
