#include "gpu/gated/chunks.hpp"

namespace causeway::gpu::gated {

using std::int64_t;

Part part_of(const Call& call, int64_t first, int64_t tokens, int matrices) {
    Part p{};
    p.call = call;
    p.first = first, p.tokens = tokens;
    p.C = chunk_of(call.dk, gates_of(call));
    p.chunks = static_cast<int>((tokens + p.C - 1) / p.C);
    p.matrices = matrices;
    p.state_in_step = p.state_out_step = int64_t{call.dk} * call.dv;
    p.floats = int64_t{matrices + call.group} * p.C * p.C + 2 * p.C;
    return p;
}

}  // namespace causeway::gpu::gated
