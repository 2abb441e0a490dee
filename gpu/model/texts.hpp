// Texts on their way through the layers on the device.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "core/model/accelerator.hpp"
#include "core/model/network.hpp"
#include "gpu/base/graph.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/model/heads.hpp"
#include "gpu/model/layers.hpp"
#include "gpu/softmax/problem.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu::models {

inline std::size_t count(std::int64_t n) { return static_cast<std::size_t>(n); }

// What a layer keeps: keys and values [batch, key heads, capacity, width], or the state of each part of the keys and
// each part of the values, Float32 [batch, heads, keys, values]. Where its attention is replaced, keys and values, and,
// where the replacement looks at them all, queries [batch, heads, capacity, width]. Of a short convolution the inputs
// before the next token, Float32 [batch, taps - 1, channels], with room for those that take their place.
struct Kept {
    Buffer q, k, v;
    std::vector<Buffer> state;
    Buffer window, next_window;
};

// Activations of some rows of tokens, in one piece of memory.
struct Room {
    std::int64_t rows = 0, width = 0;
    Buffer memory;
    float* x = nullptr;                   // the residual, rows of `width`
    float* table = nullptr;               // of rotary positions, one for each of Layers::rotaries
    float *g = nullptr, *beta = nullptr;  // of gated delta nets
    void* mixed = nullptr;                // behind a short convolution
    void *normed = nullptr, *wide = nullptr, *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *y = nullptr;
};

// Where the heads of a layer go: k and v to the next places of caches with that room, q to its cache likewise, or, of
// these tokens alone, to [batch, heads, n, width].
struct Destination {
    void *q, *k, *v;
    std::int64_t capacity;
    bool all_queries;
};

// Ranks on a GPU each that run the same model, and what they make of queries over the keys and values of all of them:
// of lengths[r] on rank r, of which `a` has this rank's, and `o`, contiguous (gpu/sharded/cached_decode.hpp).
struct Sharers {
    int rank = 0, size = 1;
    std::function<void(const SoftmaxArgs& a, const std::vector<std::int64_t>& lengths, cudaStream_t)> attend;
};

class Texts : public causeway::model::AcceleratedTexts {
public:
    using Tensor = causeway::Tensor;

    Texts(std::shared_ptr<const Layers>, Index batch, bool graph, std::shared_ptr<const causeway::model::Swaps>);
    ~Texts() override;

    std::unique_ptr<AcceleratedTexts> copy() const override;
    std::size_t bytes() const override;
    Tensor hidden(std::span<const std::int32_t> ids, const causeway::model::RunOptions&) override;
    Tensor logits(const Tensor& hidden, Index first_row, Index rows) override;
    std::vector<causeway::model::Guess> guesses(const Tensor& hidden, Index first_row,
                                                std::span<const std::int32_t> ids) override;
    Tensor last_logits(std::span<const std::int32_t> ids, const causeway::model::RunOptions&) override;
    causeway::model::Ids likeliest(std::span<const std::int32_t> ids, const causeway::model::RunOptions&) override;
    void look(std::span<const std::int32_t> ids, const causeway::model::Watch&,
              const causeway::model::RunOptions&) override;

    // From here on the keys and values of softmax attention are shared out: every rank calls this after the same
    // tokens, keeps its share of them and lets go of the others', and of the tokens behind, at most `room`, which
    // run one at a time, token t is kept by rank t % size. Throws Error where something stands in the
    // place of attention.
    void share(Sharers sharers, std::int64_t room);

private:
    // What a layer keeps of every token, and of how many heads and columns.
    struct Cache {
        Buffer* rows;
        std::int64_t heads, width;
    };
    std::vector<Cache> caches_of(std::size_t layer);
    const causeway::model::Replacement* replacement_of(std::size_t layer) const;
    const CausalMethod& method_of(std::size_t layer) const;  // of one with fixed decay
    // Makes room for `length` tokens in the caches.
    void grow(std::int64_t length);
    void make_room(Room&, std::int64_t rows) const;
    float* table_of(const Room&, std::int64_t rotary) const;
    void set_rotary(PlaceCall&, const Room&, int rotary) const;
    // f(first token, tokens) for chunks of n tokens, the activations behind the layers in room_.
    template <class F>
    void run(std::span<const std::int32_t> ids, const causeway::model::RunOptions&, F&& f,
             const causeway::model::Watch* = nullptr);
    // n tokens of each text, ids on the device [batch, n], from *position_ on, through the layers, or up to the one
    // that is looked at.
    void run_layers(const Room&, const std::int32_t* ids, std::int64_t n, const causeway::model::Watch* = nullptr);
    void run_layer(std::size_t layer, const Room&, std::int64_t n, const causeway::model::Watch*);
    // Attention, from room.wide to room.o, where the output is the sum of as many parts [batch, n, heads, width] as are
    // returned.
    std::int64_t attend(std::size_t layer, const Room&, std::int64_t n);
    void run_softmax(const SoftmaxMixer&, const Kept&, const Room&, std::int64_t n);
    void set_place();  // place_, before a token
    void run_shared(const SoftmaxMixer&, const Kept&, const Room&);
    std::vector<std::int64_t> shares(std::int64_t length) const;  // keys that each rank has
    std::int64_t run_decay(const DecayMixer&, std::size_t layer, const Kept&, const Room&, std::int64_t n);
    void run_method(const CausalMethod&, CausalArgs, void* carried);
    void convolve(const DeltaMixer&, const Kept&, const Room&, std::int64_t n);
    void run_delta(const DeltaMixer&, const Kept&, const Room&, std::int64_t n);
    // The heads of q, of k and of v, without where they go.
    PlaceCall heads_of(const SoftmaxMixer&, const Room&, std::int64_t n) const;
    PlaceCall heads_of(const DecayMixer&, const Room&, std::int64_t n) const;
    PlaceCall heads_of(const DeltaMixer&, const Room&, std::int64_t n) const;
    PlaceCall heads_of(const Layer&, const Room&, std::int64_t n) const;
    void place_softmax(const SoftmaxMixer&, const Kept&, const Room&, std::int64_t n);
    void place_decay(const DecayMixer&, const Room&, std::int64_t n);

    // What stands in the place of attention, and what is looked at (replaced.cpp).
    void hold(const Layer&, const Destination&, const Room&, std::int64_t n);
    gpu::Tensor held(const Buffer& cache, std::int64_t heads, std::int64_t repeats, std::int64_t width,
                     std::int64_t n) const;
    gpu::Tensor replace(const causeway::model::Replacement&, const gpu::Tensor& q, const gpu::Tensor& k,
                        const gpu::Tensor& v, double scale) const;
    void run_replaced(std::size_t layer, const Room&, std::int64_t n);
    void join(const gpu::Tensor& o, const Room&, std::int64_t n);
    void show(const Layer&, const Room&, std::int64_t n, std::int64_t parts, const causeway::model::Watch&);
    Tensor on_cpu(const void* data, const Shape&) const;

    void multiply(const Matrix&, const void* x, std::int64_t n, const Result& y);
    // Of the residual through a norm; where `in_place`, it becomes what the norm made of it.
    void multiply_residual(const Matrix&, const Norm&, const Room&, std::int64_t n, const Result& y,
                           bool in_place = false);
    // From the output of attention, the sum of `parts`, to what is added to the residual.
    void leave_attention(const Layer&, const Room&, std::int64_t rows, std::int64_t parts);
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
    std::shared_ptr<const causeway::model::Swaps> swaps_;
    Stream stream_;
    std::vector<Kept> kept_;
    std::vector<Buffer> log_decay_;  // [batch, heads] of each layer that has them
    Buffer position_, ids_, chosen_, logits_, blas_room_, split_room_;
    Room room_, token_room_;
    std::optional<Sharers> sharers_;
    std::int64_t shared_ = 0;  // tokens that were shared out together
    Buffer place_;             // of the next of this rank's keys, where they are shared
    std::unique_ptr<Graph> graph_;
    bool warm_ = false;  // the kernels of a step have run once, outside a capture
};

}  // namespace causeway::gpu::models
