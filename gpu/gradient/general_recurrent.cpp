#include "gpu/gradient/general_recurrent.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/base/error.hpp"
#include "gpu/gradient/general_recurrent/part.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr const char* name = "general_recurrent_gradient";

// Segments of the tokens: before each a state is kept, within one the states before every tokens_kept-th token and the
// sums of all its tokens.
struct Plan {
    general::Call call;
    int64_t N, each, segments, kept;
    std::size_t states_at = 0, sums_at = 0, bytes = 0;  // the states before the segments come first

    explicit Plan(const GeneralGradArgs& a)
        : call(general::call_of(a.in)), N(a.in.N), kept(general::tokens_kept(a.in.dk)) {
        // As much room for the states before segments as for those within one.
        const auto even = static_cast<int64_t>(std::sqrt(static_cast<double>(N * kept)));
        each = std::min((std::clamp<int64_t>(even, 64, 512) + kept - 1) / kept * kept, N);
        segments = (N + each - 1) / each;
        const auto floats = [&](int64_t n) {
            const std::size_t at = bytes;
            bytes += static_cast<std::size_t>((n * 4 + 15) / 16 * 16);
            return at;
        };
        const int64_t state = call.all_heads * call.dk * call.dv;
        floats(segments * state);
        states_at = floats((each + kept - 1) / kept * state);
        general::Backward sizes{};
        sizes.call = call;
        sums_at = floats(sizes.wide() * call.all_heads * each * sizes.vectors() * call.dk);
    }
    general::Backward backward(const GeneralGradArgs& a, int64_t segment, char* workspace) const {
        const int64_t first = segment * each;
        return {call,
                {gated::operand(a.dO.data, a.dO.type, a.dO.stride, call.dv), a.dO.type, a.dO.shared},
                first,
                std::min(each, N - first),
                reinterpret_cast<const float*>(workspace + states_at),
                reinterpret_cast<float*>(workspace + sums_at),
                a.dv,
                a.dstate,
                a.rows};
    }
};

void check(const GeneralGradArgs& a) {
    GeneralArgs in = a.in;
    in.o = const_cast<void*>(a.dO.data);  // which is checked as the output that it arrives at
    general::check(in, {}, name);
    if (general::is_empty(a.in)) return;
    if (a.rows < a.in.N) fail(name, ": rows is ", a.rows, ", expected at least the ", a.in.N, " tokens");
    if (!a.dq || !a.dk || !a.dv || !a.dstate) fail(name, ": dq, dk, dv or dstate is null");
    if (a.in.u.data && (!a.du || !a.dw)) fail(name, ": du or dw is null, but u and w are given");
    if (a.in.gates > 0 && !a.da) fail(name, ": da is null, but a is given");
}

}  // namespace

std::size_t general_recurrent_gradient_workspace(const GeneralGradArgs& a) {
    check(a);
    return general::is_empty(a.in) ? 0 : Plan(a).bytes;
}

void general_recurrent_gradient(const GeneralGradArgs& a, cudaStream_t stream) {
    check(a);
    if (general::is_empty(a.in)) return;
    const Plan plan(a);
    gated::check_workspace(a.in.workspace, plan.bytes, name);
    char* const at = static_cast<char*>(a.in.workspace.data);
    float* const before = reinterpret_cast<float*>(at);
    const int64_t state = plan.call.all_heads * plan.call.dk * plan.call.dv;
    general::launch_record({plan.call, 0, plan.N, plan.each, a.in.state, before}, stream);
    for (int64_t segment = plan.segments - 1; segment >= 0; --segment) {
        const general::Backward p = plan.backward(a, segment, at);
        general::launch_record({plan.call, p.first, p.tokens, plan.kept, before + segment * state,
                                reinterpret_cast<float*>(at + plan.states_at)},
                               stream);
        general::launch_backward(p, stream);
        general::launch_add_columns(p, a, stream);
    }
}

}  // namespace causeway::gpu
