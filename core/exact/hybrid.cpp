// The hybrid form by Eigen's products, V' = [V, 1] in the same products. Where the definition multiplies by zeros above
// the diagonal the form leaves them out, so that an Inf or NaN of a later token never meets an earlier row.
#include "core/exact/hybrid.hpp"

#include "core/exact/all_methods.hpp"
#include "core/exact/eigen_block.hpp"

namespace causeway::exact {

namespace {

// q'(r+d) + 2Nrd multiply-adds and q' mask multiplies, q' the entries of the blocks' squares; rd + b² scalars (claims
// F5, G5, G6).
Cost hybrid_cost(const Work& w) {
    const closed_form::Blocks k(w.N, w.block);
    const closed_form::Wide rd = closed_form::Wide(w.r) * w.d, N = w.N;
    return closed_form::of(k.dense * (w.r + w.d) + 2 * N * rd, k.dense + (w.decay ? 2 * N * w.r + k.T * rd : 0),
                           rd + k.b * k.b + (w.decay ? k.b + 1 + k.b * w.r : 0));
}

}  // namespace

// The default block is the side of the product unit in the document, and its head dimension.
Method hybrid_method() {
    Method m;
    m.name = "hybrid";
    m.short_name = "Hybrid";
    m.source = "tpu §3.4, Algorithm 1";
    m.formula =
        "O_[i] = (M ⊙ B_[i] C_[i]ᵀ) V_[i] + diag(γ^(p+1)) B_[i] S\n"
        "S ← γ^n S + (diag(γ^(n-1-p)) C_[i])ᵀ V_[i],  p = 0 .. n-1 in a block of n";
    m.text =
        "Inner products within a block, outer products between blocks; every product is a full square, "
        "with nothing left out above the diagonal.";
    m.use =
        "Where a unit multiplies squares only, as on a TPU, and to compare with the other forms of the "
        "tpu document. block-based leaves out what the mask hides.";
    m.time = "O(N)";
    m.memory = "rd + b²";
    m.block = 128;
    m.state = true;
    m.normalizes = true;
    m.candidate = false;
    m.cost = hybrid_cost;
    m.running_memory = block_chunk_memory;
    m.roundings = block_chunk_roundings;
    m.f32 = [](const auto& p) { each_carried_block<EigenBlock<float>>(p, p.block); };
    m.f64 = [](const auto& p) { each_carried_block<EigenBlock<double>>(p, p.block); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [&](const auto& h) { hybrid(h, p.block); }); };
    return m;
}

}  // namespace causeway::exact
