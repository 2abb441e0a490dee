// Block-based by Eigen's products: the steps of the definition, spread over heads or blocks.
#include "core/exact/block_based.hpp"

#include "core/exact/all_methods.hpp"
#include "core/exact/eigen_block.hpp"

namespace causeway::exact {

namespace {

// q(r+d) + (2N-b-s)rd multiply-adds, the second term for more than one block; rd + b² scalars. The empty first carry
// and the last update are skipped. Decay multiplies the scores, rows of B and C, and the carry of the blocks between
// the first and the last.
Cost block_based_cost(const Work& w) {
    const closed_form::Blocks k(w.N, w.block);
    const auto rd = closed_form::Wide(w.r) * w.d, carried = k.carried(w.N);
    const auto scaled = k.T > 1 ? carried * w.r + (k.T - 2) * rd : 0;
    return closed_form::of(k.q * (w.r + w.d) + carried * rd, w.decay ? k.q + scaled : 0,
                           rd + k.b * k.b + (w.decay ? k.b + 1 + k.b * w.r : 0));
}

}  // namespace

Method block_based_method() {
    Method m;
    m.name = "block-based";
    m.short_name = "Bb";
    m.source = "Lingle 2024 (Transformer-VQ), eq. 28; leet Algorithm 2";
    m.formula =
        "O_[i] = (B_[i] C_[i]ᵀ ⊙ M) V_[i] + diag(γ^(p+1)) B_[i] S\n"
        "S ← γ^n S + (diag(γ^(n-1-p)) C_[i])ᵀ V_[i],  p = 0 .. n-1 in a block of n";
    m.text =
        "Blocks of b tokens: masked products of matrices within a block, a state that is carried between "
        "blocks.";
    m.use =
        "Where products of matrices are fast and blocks of any length are wanted; on a GPU it is what "
        "\"auto\" takes for a block of your own.";
    m.time = "O(N)";
    m.memory = "rd + b²";
    m.block = 128;
    m.state = true;
    m.normalizes = true;
    m.cost = block_based_cost;
    m.running_memory = block_chunk_memory;
    m.roundings = block_chunk_roundings;
    m.f32 = [](const auto& p) { each_carried_block<EigenBlock<float>>(p, p.block); };
    m.f64 = [](const auto& p) { each_carried_block<EigenBlock<double>>(p, p.block); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [&](const auto& h) { block_based(h, p.block); }); };
    return m;
}

}  // namespace causeway::exact
