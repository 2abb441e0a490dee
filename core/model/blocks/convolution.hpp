// A short causal convolution of each channel, as the gated delta net has it before its heads.
#pragma once

#include <optional>

#include "core/around/short_convolution.hpp"
#include "core/base/memory.hpp"

namespace causeway::model {

// y_t = silu(Σ_i w_i x_(t−taps+1+i)) for every channel of rows x [batch · n, channels], with the inputs before the
// first token in `window` [batch, taps − 1, channels] (none yet: zeros), which then holds those before the next token.
struct Convolution {
    Index channels = 0, taps = 0;
    Buffer<float> weight{};  // [channels, taps]

    void run(const float* x, Index batch, Index n, std::optional<Buffer<float>>& window, float* y) const {
        const Index before = taps - 1;
        if (!window) {
            window = Buffer<float>(batch * before * channels);
            std::fill_n(window->data(), window->size(), 0.0f);
        }
        around::Convolution<float> c;
        c.channels = channels, c.taps = taps, c.silu = true;
        c.weight = weight.data();
        for (Index text = 0; text < batch; ++text) c.sequences.push_back({text * n, n});
        c.run(x, window->data(), y);
        c.keep(x, window->data());
    }
};

}  // namespace causeway::model
