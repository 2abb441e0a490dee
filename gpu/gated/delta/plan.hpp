// How delta_hopper cuts the sequences over the multiprocessors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gpu/gated/problem.hpp"
#include "gpu/gated/sequences.hpp"

namespace causeway::gpu::gated_delta {

constexpr int chunk = 64, max_splits = 128;
// Where splits lie at fixed places, for deterministic = "prefix": the chunks of each but the last.
constexpr std::uint32_t fixed_chunks = 32;

// Which thread blocks a walk has. The bits are the same with any columns.
struct Blocks {
    int columns = 64;                                 // of v that one thread block owns
    bool halved = false;                              // of 128 columns, which one could own
    std::int64_t column_blocks = 1, batch_heads = 1;  // thread blocks along v; heads of q in all batches
    std::int64_t state_heads = 1;                     // heads of k and v in all batches
    // Thread blocks along the columns of A; 0 without the delta rule, where A is the product of the gates.
    std::int64_t identity_blocks = 0;
    int rows = 64;  // of the state, and columns of A, as kernels hold them: 64 or 128
};

// A sequence is cut into splits, and every split but the last into `finer` parts, each of which has its map S ↦ A S + B
// of the state. Where one leads, the first split is a part by itself, of so many chunks: it makes its outputs beside
// the maps of the other parts, since the state before it is known, and leaves the state behind it.
struct Cut {
    int splits = 1, finer = 1;
    std::uint32_t lead = 0;  // 0: none leads
    int parts() const { return lead > 0 ? 1 + (splits - 2) * finer : (splits - 1) * finer; }
};

// The chunk where split i begins, of a sequence of so many chunks; for i = splits its end. each: chunks of every split
// but the last, or 0 where they are about as long as each other; lead: chunks of the first one, or 0 likewise.
__host__ __device__ inline std::uint32_t split_bound(std::uint32_t chunks, std::uint32_t splits, std::uint32_t i,
                                                     std::uint32_t each = 0, std::uint32_t lead = 0) {
    if (each > 0) return i < splits ? each * i : chunks;
    if (lead > 0 && i == 0) return 0;
    const std::uint32_t led = lead > 0 ? 1 : 0;
    return lead + static_cast<std::uint32_t>(std::uint64_t{chunks - lead} * (i - led) / (splits - led));
}

// Columns of a state that a thread block of a scan has, of so many states at once: few, if all blocks run at once then,
// since a step takes 2.1 µs with 8 columns, 2.8 with 16 and 4 to 6 with 32. The bits are the same. rows: 64 or 128.
inline int scan_columns(std::int64_t states, std::int64_t dv, int rows, int at_once) {
    const auto fits = [&](int columns) { return states * ((dv + columns - 1) / columns) <= at_once; };
    if (rows == 128 && fits(8)) return 8;
    return fits(16) ? 16 : 32;
}

// One packed sequence, and which of its splits, or of its parts, a thread block walks over.
struct Walk {
    std::uint32_t first = 0, tokens = 0;  // the sequence's first token among the packed ones, and how many it has
    std::uint32_t sequence = 0;           // which state of the group it has
    std::uint32_t index = 0;              // of the split or part
    std::uint32_t splits = 1, finer = 1, lead = 0;
    std::uint32_t first_part = 0, cut = 0;  // parts, and sequences of several splits, before it in the group
};
// As many are arguments of the kernels. More, and those of blocks of 64 columns (Walks, work.cuh), lie in the
// workspace, where a kernel of its own writes them first.
constexpr std::size_t few_walks = 64;

// Sequences that are launched together: how many splits and parts there are, how many of the sequences are cut into
// several splits, and in how many the first one leads.
struct Group {
    std::int64_t first = 0, sequences = 0;
    std::int64_t outputs = 0, parts = 0, cut = 0, leads = 0;
    bool packed = false;
    bool first_maps = false;  // the first part has its map too, as the state before it comes later
    std::uint32_t each = 0;   // of packed sequences, as split_bound() takes it
    bool by_split = false;    // each of their splits decides by itself whether it starts from the maps
    // Of packed sequences: the walks over splits, those that lead behind the others, over parts whose maps are made,
    // and the sequences that are cut.
    std::vector<Walk> walks;

    std::int64_t maps() const { return parts - leads; }
};

// One sequence a batch entry.
struct Plan : Blocks {
    std::vector<std::uint32_t> bound;  // split i of every sequence owns the chunks [bound[i], bound[i+1])
    int finer = 1;
    std::uint32_t lead = 0;
    // In steps, and whether the state after the last token is wanted before the outputs: then an empty split stands
    // behind the others, before which all chunks are in parts.
    bool in_steps = false, goes_on = false;

    int splits() const { return static_cast<int>(bound.size()) - 1; }
    int with_outputs() const { return splits() - (goes_on ? 1 : 0); }
    Group group() const;
};

// How packed sequences are cut: each as a call on it alone cuts it, so that it has its bits; into splits of
// fixed_chunks, where nothing but the tokens before a split decides how it starts; or as all of them together take the
// least time.
enum class PackedCut { alone, fixed, together };
// Groups are as large as a workspace of a quarter of a gigabyte allows.
struct PackedPlan : Blocks {
    std::vector<Group> groups;
};

// What lies where in the workspace, and its size: a copy of the states, where several blocks read one that one of them
// overwrites (more than one split, or heads of q that share the state); A of every part but the first of a sequence,
// and in steps of that too, Float32 [.., state_heads, dk, rows]; B of every part, Float32 [parts, state_heads, dk, dv];
// whether a head takes the maps, [sequences of several splits, state_heads]; where each split decides which of them
// start from the states that the maps give, [parts, state_heads], at the last part before the split; and the walks of a
// group, if they are in memory. Null where there is none.
struct Scratch {
    float *state, *A, *B;
    int *transfers, *starts;
    Walk* walks;
    std::size_t bytes;
};
Scratch scratch_of(const GatedArgs& a, const Plan& p);
Scratch scratch_of(const GatedArgs& a, const Blocks& p, const Group& group);

// As many splits as take the least time on this device, as far as the sizes tell.
Plan plan_of(const GatedArgs& a);
PackedPlan packed_plan_of(const GatedArgs& a, const Sequences& sequences, PackedCut how);

// The same in steps.
Plan steps_plan_of(const GatedArgs& a, bool goes_on);

// The kernels, on arguments that are already checked, with a workspace that has room for scratch_of().
void run_hopper(const GatedArgs& a, const Plan& p, cudaStream_t stream);
void run_packed_hopper(const GatedArgs& a, const PackedPlan& p, cudaStream_t stream);

// In steps: the maps of all parts; from a.state the states between them, and the one behind the last to `after`, unless
// null, which may be a.state; the outputs, from a.state too, and the state after them.
void run_hopper_maps(const GatedArgs& a, const Plan& p, cudaStream_t stream);
void run_hopper_states(const GatedArgs& a, const Plan& p, float* after, cudaStream_t stream);
void run_hopper_outputs(const GatedArgs& a, const Plan& p, cudaStream_t stream);

}  // namespace causeway::gpu::gated_delta
