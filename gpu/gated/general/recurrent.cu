#include "gpu/gated/general/recurrent.hpp"

#include "gpu/gated/general/token.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu {

namespace general {
namespace {

using namespace gated;

constexpr const char* name = "general_recurrent";
constexpr int threads = 128, columns = 32;

// One block: 32 columns of the state of one head of one part.
template <int DK, Gates gates, bool erases>
__global__ __launch_bounds__(threads) void general_recurrence(const __grid_constant__ Call call,
                                                              const __grid_constant__ Tokens tokens) {
    constexpr int R = DK / 16;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16, cg = lane / 16;
    const int wide = (call.dv + columns - 1) / columns;
    const int64_t bh = blockIdx.x / wide % call.all_heads, b = bh / call.heads, h = bh % call.heads;
    const int column = static_cast<int>(blockIdx.x % wide) * columns + warp * 8 + cg * 4;
    const SequencePart part = part_at(tokens, blockIdx.x / wide / call.all_heads);
    float* state = call.state + (int64_t{part.sequence} * call.all_heads + bh) * call.dk * call.dv;
    const bool state_quads = call.dv % 4 == 0;
    const Heads heads = heads_of(call, b, h);

    float S[R][4];
    load_state<DK>(S, state, call.dk, call.dv, rg, column, state_quads);
    Token<DK, gates, erases> next;
    const int64_t end = int64_t{part.first} + part.tokens;
    next.load(call, heads, part.first, rg, column);
    for (int64_t t = part.first; t < end; ++t) {
        const Token<DK, gates, erases> now = next;
        if (t + 1 < end) next.load(call, heads, t + 1, rg, column);
        advance(S, now, call);
        Row<DK> row = now.q;
        for (int query = 0; query < call.group; ++query) {
            if (query > 0) row.load(call.q, head_of(call.q, b, h * call.group + query), t, call.dk, rg);
            float q[R];
            row.values(q, call.q.type);
            const float4 o = times(call.scale, read_state<DK>(q, S));
            char* O = gated::head_of(call.o, b, h * call.group + query) + t * call.o.token;
            if (rg == 0) set_quad_within(O, column, call.dv, call.o.quads, call.type, o);
        }
    }
    store_state<DK>(state, S, call.dk, call.dv, rg, column, state_quads);
}

void run(const Call& call, const Tokens& tokens, cudaStream_t stream) {
    const int64_t blocks = tokens.parts * call.all_heads * ((call.dv + columns - 1) / columns);
    if (blocks >= int64_t{1} << 31) fail(name, ": ", tokens.parts * call.all_heads, " states are too many");
    with_kinds(call, [&]<int DK, Gates gates, bool erases>() {
        launch(general_recurrence<DK, gates, erases>, "launching general_recurrence",
               dim3(static_cast<unsigned>(blocks)), threads, 0, 1, false, stream, call, tokens);
    });
}

// All sequences at once, each as one part.
std::vector<Round> rounds(const GeneralArgs& a, const Sequences& sequences) {
    return rounds_of(sequences, a.N, static_cast<int>(a.N), a.N + 1);
}

}  // namespace
}  // namespace general

std::size_t general_recurrent_workspace(const GeneralArgs& a, const Sequences& sequences) {
    general::check(a, sequences, general::name);
    if (general::is_empty(a) || sequences.count == 0) return 0;
    std::size_t most = 0;
    for (const auto& round : general::rounds(a, sequences)) most = std::max(most, gated::bytes_of(round));
    return most;
}

void general_recurrent(const GeneralArgs& a, const Sequences& sequences, cudaStream_t stream) {
    general::check(a, sequences, general::name);
    if (general::is_empty(a)) return;
    const general::Call call = general::call_of(a);
    const auto run = [&](const general::Tokens& tokens) { general::run(call, tokens, stream); };
    if (sequences.count == 0) return run({{0, static_cast<std::uint32_t>(a.N), 0, 0}, {}, 1, 1});
    gated::check_workspace(a.workspace, general_recurrent_workspace(a, sequences), general::name);
    for (const auto& round : general::rounds(a, sequences)) {
        const auto parts = static_cast<std::int64_t>(round.parts.size());
        run({{}, gated::copy_lists(round, a.workspace.data, stream), parts, parts});
    }
}

}  // namespace causeway::gpu
