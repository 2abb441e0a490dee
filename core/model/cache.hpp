// What the layers of a model keep of the tokens that have run.
#pragma once

#include <optional>

#include "core/tensor/tensor.hpp"

namespace causeway::model {

// Rows of several heads that grow together: keys, values. The rows of a head lie one after the other, with room for
// more behind them.
class Grown {
public:
    // Behind the last ones the rows of x [batch, heads, n, width], the same but for n in every call. Amortised O(x).
    void append(const Tensor& x);

    // Of the rows so far only n, from `first` on; the room of the others is given back.
    void keep(Index first, Index n);

    Index length() const { return length_; }
    Index heads() const { return sequences_; }  // of all batches
    Index width() const { return width_; }
    const float* head(Index h) const { return rows_.data() + h * capacity_ * width_; }  // [length, width]
    Index head_step() const { return capacity_ * width_; }  // numbers from a head to the next
    // All rows, [batch, heads · repeats, length, width], every head `repeats` times.
    Tensor all(Index batch, Index repeats) const;
    Grown copy() const;
    std::size_t bytes() const { return static_cast<std::size_t>(rows_.size()) * sizeof(float); }

private:
    void make_room(Index length);

    Buffer<float> rows_;  // [sequences, capacity, width]
    Index sequences_ = 0, capacity_ = 0, length_ = 0, width_ = 0;
};

// Of one layer; what a layer does not keep stays empty.
struct LayerState {
    Grown q, k, v;                        // q only for replacements that look at the whole text
    std::optional<Tensor> state;          // of linear attention, [batch, heads, d_k, d_v]
    std::optional<Buffer<float>> window;  // the inputs of a short convolution before the next token
    std::optional<Index> shared;          // tokens whose k and v were shared out among ranks (over_ranks.hpp)

    LayerState copy() const;
    std::size_t bytes() const;
};

}  // namespace causeway::model
