// Block-based by Eigen's products: the steps of the definition, spread over heads or blocks.
#include "core/exact/block_based.hpp"

#include "core/exact/all_methods.hpp"
#include "core/exact/eigen_block.hpp"

namespace causeway::exact {

Method block_based_method() {
    Method m;
    m.name = "block-based";
    m.short_name = "Bb";
    m.source = "Lingle 2024 (Transformer-VQ), eq. 28; leet Algorithm 2";
    m.time = "O(N)";
    m.memory = "rd + b²";
    m.block = 128;
    m.state = true;
    m.normalizes = true;
    m.cost = cost_of::block_based;
    m.f32 = [](const auto& p) { each_carried_block<EigenBlock<float>>(p, p.block); };
    m.f64 = [](const auto& p) { each_carried_block<EigenBlock<double>>(p, p.block); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [&](const auto& h) { block_based(h, p.block); }); };
    return m;
}

}  // namespace causeway::exact
