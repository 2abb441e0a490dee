// A model put together: what a layout makes of a checkpoint, and how a chunk of tokens runs through it.
#pragma once

#include "core/model/accelerator.hpp"
#include "core/model/blocks/linear.hpp"
#include "core/model/blocks/mlp.hpp"
#include "core/model/blocks/norm.hpp"
#include "core/model/mixer.hpp"

namespace causeway::model {

// A residual x of which y is computed: x becomes keep · x + add · y, where x may be what the norm made of it.
struct Residual {
    double keep = 1, add = 1;
    bool normed = false;
};

// y = mixer(norm(x)), then y = mlp(norm(x)), each added to the residual.
struct Layer {
    Norm mixer_norm{};
    std::unique_ptr<Mixer> mixer;
    Residual mixed{};
    Norm mlp_norm{};
    std::unique_ptr<Mlp> mlp;
    Residual thought{};
};

// What is looked at while a text runs; see Model::capture.
struct Watch {
    Index layer;  // from 0
    std::map<std::string, Tensor>& found;
    bool wants(const char* what) const { return found.count(what) > 0; }
    // Those of q, k, v, scores and output that are wanted.
    void keep(const LayerInfo& info, const Heads& heads, const Tensor& output) const;
};

class Network {
public:
    std::shared_ptr<const Checkpoint> checkpoint;
    Description about;
    Weight embedding{};
    double embedding_scale = 1;
    std::vector<Layer> layers;
    Norm norm{};
    Linear head{};
    Index longest = 0;  // text, of a model whose attention would have to forget; 0: any

    // n more tokens of each text, ids [batch, n]: [batch, n, width] behind the last norm.
    Tensor run(State&, std::span<const std::int32_t> ids, const RunOptions&, const Watch* = nullptr) const;
    // [rows, vocabulary] of rows of that.
    void logits(const float* x, Index rows, float* out) const { head.run(x, rows, out); }
    // Throws Error where these cannot be the next tokens of the texts.
    void check(const State&, std::span<const std::int32_t> ids) const;

private:
    void embed(const std::int32_t* ids, Index n, float* x) const;
    void run_layer(Index l, const Chunk&, State&, float* x, const Watch*) const;
    void run_chunk(const Chunk&, State&, float* x, const RunOptions&, Index done, Index all, const Watch*) const;
};

// Texts on their way.
struct State {
    std::shared_ptr<const Network> network;
    std::shared_ptr<const Swaps> swaps;
    Index batch = 1, length = 0;
    bool broken = false;  // a run was stopped between two layers
    std::vector<LayerState> layers;
    std::unique_ptr<AcceleratedTexts> accelerated;  // where the model is on another device, in their place
};

}  // namespace causeway::model
