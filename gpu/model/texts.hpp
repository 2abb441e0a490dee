// Texts on their way through the layers on the device.
#pragma once

#include <memory>
#include <optional>

#include "core/model/accelerator.hpp"
#include "gpu/base/graph.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/model/heads.hpp"
#include "gpu/model/layers.hpp"

namespace causeway::gpu::models {

// What a layer keeps: keys and values [batch, key heads, capacity, width], or the state of each part of the keys and
// each part of the values, Float32 [batch, heads, keys, values].
struct Kept {
    Buffer k, v;
    std::vector<Buffer> state;
};

// Activations of some rows of tokens, in one piece of memory.
struct Room {
    std::int64_t rows = 0, width = 0;
    Buffer memory;
    float* x = nullptr;      // the residual, rows of `width`
    float* table = nullptr;  // of rotary positions, one for each of Layers::rotaries
    void *normed = nullptr, *wide = nullptr, *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *y = nullptr;
};

class Texts : public causeway::model::AcceleratedTexts {
public:
    using Tensor = causeway::Tensor;

    Texts(std::shared_ptr<const Layers>, Index batch, bool graph);
    ~Texts() override;

    std::unique_ptr<AcceleratedTexts> copy() const override;
    std::size_t bytes() const override;
    Tensor hidden(std::span<const std::int32_t> ids, const causeway::model::RunOptions&) override;
    Tensor logits(const Tensor& hidden, Index first_row, Index rows) override;
    std::vector<causeway::model::Guess> guesses(const Tensor& hidden, Index first_row,
                                                std::span<const std::int32_t> ids) override;
    Tensor last_logits(std::span<const std::int32_t> ids, const causeway::model::RunOptions&) override;
    causeway::model::Ids likeliest(std::span<const std::int32_t> ids, const causeway::model::RunOptions&) override;

private:
    // Makes room for `length` tokens in the caches.
    void grow(std::int64_t length);
    void make_room(Room&, std::int64_t rows) const;
    float* table_of(const Room&, std::int64_t rotary) const;
    void set_rotary(PlaceCall&, const Room&, int rotary) const;
    // f(first token, tokens) for chunks of n tokens, the activations behind the layers in room_.
    template <class F>
    void run(std::span<const std::int32_t> ids, const causeway::model::RunOptions&, F&& f);
    // n tokens of each text, ids on the device [batch, n], from *position_ on, through the layers.
    void run_layers(const Room&, const std::int32_t* ids, std::int64_t n);
    void run_softmax(const SoftmaxMixer&, const Kept&, const Room&, std::int64_t n);
    void run_decay(const DecayMixer&, std::size_t layer, const Kept&, const Room&, std::int64_t n);
    void place_softmax(const SoftmaxMixer&, const Kept&, const Room&, std::int64_t n);
    void place_decay(const DecayMixer&, const Room&, std::int64_t n);
    void multiply(const Matrix&, const void* x, std::int64_t n, const Result& y);
    // Of the residual through a norm; where `in_place`, it becomes what the norm made of it.
    void multiply_residual(const Matrix&, const Norm&, const Room&, std::int64_t n, const Result& y,
                           bool in_place = false);
    void run_mlp(const Layer&, const Room&, std::int64_t n);
    // One token of each text: its logits are in logits_, the likeliest next ones in chosen_.
    void step();
    void queue_step();
    // The same for any number of tokens.
    void advance(std::span<const std::int32_t> ids, const causeway::model::RunOptions&);
    void product_of_hidden(const Tensor& hidden, Index first_row, Index rows, float* logits);

    std::shared_ptr<const Layers> layers_;
    std::int64_t batch_, length_ = 0, capacity_ = 0;
    bool use_graph_;
    Stream stream_;
    std::vector<Kept> kept_;
    std::vector<Buffer> log_decay_;  // [batch, heads] of each layer that has them
    Buffer position_, ids_, chosen_, logits_, blas_room_, split_room_;
    Room room_, token_room_;
    std::unique_ptr<Graph> graph_;
    bool warm_ = false;  // the kernels of a step have run once, outside a capture
};

}  // namespace causeway::gpu::models
