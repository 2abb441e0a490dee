#include "gpu/gated/general/chunks.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gated/general/chunks/part.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr const char* name = "general_chunks";

constexpr int64_t min_tokens = 64, C = general::C;

// Parts of the tokens of every head, or of packed sequences, which are cut where they would be alone.
struct Plan {
    general::Call call;
    int64_t each, N;
    std::vector<gated::Round> rounds;
    std::size_t tile_bytes = 0, list_bytes = 0;

    Plan(const GeneralArgs& a, const Sequences& sequences, GeneralShape shape) : call(general::call_of(a)), N(a.N) {
        const int64_t heads = std::max<int64_t>(call.all_heads, 1);
        each = std::max(min_tokens, shape.tokens / heads / C * C);
        int64_t chunks = (std::min(each, N) + C - 1) / C;
        if (sequences.count > 0) {
            chunks = 0;
            rounds = gated::rounds_of(sequences, each, static_cast<int>(C), 4 * shape.tokens / C / heads);
            for (const auto& round : rounds) {
                chunks = std::max(chunks, round.chunks());
                list_bytes = std::max(list_bytes, (gated::bytes_of(round) + 15) / 16 * 16);
            }
        }
        const general::Tiles tiles(general::padded_rows(call.dk), general::is_narrow(call), call.u.rows.data != nullptr,
                                   call.group);
        tile_bytes = static_cast<std::size_t>(chunks * call.all_heads * tiles.bytes);
    }
    std::size_t bytes() const { return list_bytes + tile_bytes; }
    general::Tokens tokens_from(int64_t first) const {
        const int64_t n = std::min(each, N - first);
        return {{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(n), 0, 0}, {}, 1, (n + C - 1) / C};
    }
};

}  // namespace

GeneralShape general_shape(const GeneralArgs& a) {
    const int64_t wide = a.B * a.H * ((a.dv + 63) / 64);
    return {general::is_narrow(general::call_of(a)) ? 32768 : 16384, wide >= device().multiprocessors ? 64 : 32};
}

std::size_t general_chunks_shaped_workspace(const GeneralArgs& a, const Sequences& sequences, GeneralShape shape) {
    general::check(a, sequences, name);
    return general::is_empty(a) ? 0 : Plan(a, sequences, shape).bytes();
}

void general_chunks_shaped(const GeneralArgs& a, const Sequences& sequences, GeneralShape shape, cudaStream_t stream) {
    general::check(a, sequences, name);
    if (general::is_empty(a)) return;
    const Plan plan(a, sequences, shape);
    gated::check_workspace(a.workspace, plan.bytes(), name);
    char* const lists = static_cast<char*>(a.workspace.data);
    const bool narrow = general::is_narrow(plan.call);
    general::Part p{plan.call, {}, reinterpret_cast<unsigned char*>(lists + plan.list_bytes), narrow, shape.columns};
    const auto run = [&](const general::Tokens& tokens) {
        p.tokens = tokens;
        general::launch_prepare(p, stream);
        if (narrow) general::launch_narrow_sweep(p, stream);
        else general::launch_sweep(p, stream);
    };
    if (sequences.count == 0)
        for (int64_t first = 0; first < plan.N; first += plan.each) run(plan.tokens_from(first));
    for (const auto& round : plan.rounds)
        run({{}, gated::copy_lists(round, lists, stream), static_cast<int64_t>(round.parts.size()), round.chunks()});
}

std::size_t general_chunks_workspace(const GeneralArgs& a, const Sequences& sequences) {
    return general_chunks_shaped_workspace(a, sequences, general_shape(a));
}

void general_chunks(const GeneralArgs& a, const Sequences& sequences, cudaStream_t stream) {
    general_chunks_shaped(a, sequences, general_shape(a), stream);
}

}  // namespace causeway::gpu
