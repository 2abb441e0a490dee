// A short causal convolution of each channel, as the gated delta net has it before its heads.
#pragma once

#include <optional>

#include "core/model/blocks/activation.hpp"

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
        over_rows(batch * n, taps * channels, [&](Index first, Index rows) {
            for (Index row = first; row < first + rows; ++row) {
                const Index text = row / n;
                float* to = y + row * channels;
                std::fill_n(to, channels, 0.0f);
                for (Index tap = 0; tap < taps; ++tap) {
                    const Index t = row % n - before + tap;  // in this chunk; below 0 in the window
                    const float* from = t >= 0 ? x + (text * n + t) * channels
                                               : window->data() + (text * before + before + t) * channels;
                    for (Index c = 0; c < channels; ++c) to[c] += weight[c * taps + tap] * from[c];
                }
            }
        });
        activate(y, batch * n, channels, Activation::silu);
        keep(x, batch, n, *window);
    }

private:
    void keep(const float* x, Index batch, Index n, Buffer<float>& window) const {
        const Index before = taps - 1, kept = std::max<Index>(before - n, 0);  // rows of the window that stay in it
        for (Index text = 0; text < batch; ++text) {
            float* rows = window.data() + text * before * channels;
            std::copy(rows + (before - kept) * channels, rows + before * channels, rows);
            std::copy_n(x + (text * n + n - (before - kept)) * channels, (before - kept) * channels,
                        rows + kept * channels);
        }
    }
};

}  // namespace causeway::model
