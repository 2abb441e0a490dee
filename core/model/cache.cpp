#include "core/model/cache.hpp"

#include <algorithm>

namespace causeway::model {

void Grown::make_room(Index length) {
    if (length <= capacity_) return;
    const Index capacity = std::max(length, std::max<Index>(2 * capacity_, 64));
    Buffer<float> rows(sequences_ * capacity * width_);
    for (Index h = 0; h < sequences_; ++h)
        if (length_ > 0) std::copy_n(head(h), length_ * width_, rows.data() + h * capacity * width_);
    rows_ = std::move(rows);
    capacity_ = capacity;
}

void Grown::append(const Tensor& x) {
    const Index n = x.shape()[2];
    sequences_ = x.shape()[0] * x.shape()[1], width_ = x.shape()[3];
    make_room(length_ + n);
    for (Index h = 0; h < sequences_; ++h)
        std::copy_n(x.data<float>() + h * n * width_, n * width_, rows_.data() + (h * capacity_ + length_) * width_);
    length_ += n;
}

void Grown::keep(Index first, Index n) {
    Grown kept;
    kept.sequences_ = sequences_, kept.width_ = width_;
    kept.make_room(n);
    for (Index h = 0; h < sequences_ && n > 0; ++h)
        std::copy_n(head(h) + first * width_, n * width_, kept.rows_.data() + h * kept.capacity_ * width_);
    kept.length_ = n;
    *this = std::move(kept);
}

Tensor Grown::all(Index batch, Index repeats) const {
    Tensor out(DType::f32, {batch, sequences_ / batch * repeats, length_, width_});
    for (Index h = 0; h < sequences_ * repeats; ++h)
        std::copy_n(head(h / repeats), length_ * width_, out.data<float>() + h * length_ * width_);
    return out;
}

Grown Grown::copy() const {
    Grown out;
    out.sequences_ = sequences_, out.width_ = width_;
    out.make_room(length_);
    for (Index h = 0; h < sequences_ && length_ > 0; ++h)
        std::copy_n(head(h), length_ * width_, out.rows_.data() + h * out.capacity_ * width_);
    out.length_ = length_;
    return out;
}

LayerState LayerState::copy() const {
    LayerState out{q.copy(), k.copy(), v.copy(), {}, {}, shared};
    if (state) out.state = state->copy();
    if (window) {
        out.window = Buffer<float>(window->size());
        std::copy_n(window->data(), window->size(), out.window->data());
    }
    return out;
}

std::size_t LayerState::bytes() const {
    return q.bytes() + k.bytes() + v.bytes() + (state ? state->bytes() : 0) +
           (window ? static_cast<std::size_t>(window->size()) * sizeof(float) : 0);
}

}  // namespace causeway::model
