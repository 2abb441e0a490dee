// What can stand in the place of a layer's attention.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/calls/lowrank.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::model {

// What computes a replacement on the device of a model that is not on the CPU; that device knows what it is.
class Elsewhere {
public:
    virtual ~Elsewhere() = default;
};

// Softmax attention over keys and values that are shared out among the ranks of MPI, each of which runs the whole
// model.
enum class Ranks { none, tree, ring };

// A function in the place of attention. q, k [1 or more, h, N, d], v [., h, N, d_v] are those of the layer, Float32, as
// its own attention gets them, with the heads of k and v repeated where several heads of q share them; `scale` is the
// factor that the layer's attention has on q kᵀ. It returns o, [., h, N, d_v], Float32 or Float64. It has to be causal
// itself; nothing can check that.
struct Replacement {
    std::string name;
    std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v, double scale)> run;
    // True: it gets only the queries of the last positions, [., h, n, d] with n <= N, and returns their outputs, as
    // softmax over a cache does. False: it always gets the whole text so far, also for one more token, which makes
    // generation quadratic at least; and a text runs as one chunk.
    bool last_queries = false;
    // What it was made with, defaults among it, for people: "rank 64, seed 0, rows over their sums, by fleet".
    std::string settings = {};
    // True: what it returns for a token depends on no later one, so that a text may run in parts; so it is with
    // last_queries.
    bool in_parts = false;
    // Where the model is on another device: what computes it there. None: `run`, on the CPU.
    std::shared_ptr<const Elsewhere> elsewhere = {};
    // Not none: `run` computes the prompt, on every rank; with the first token that runs alone each keeps its share of
    // the keys and values, and from then on tokens are computed one after the other by all ranks together.
    Ranks ranks = Ranks::none;
};

inline constexpr const char* no_features = "none";  // SwapOptions::features: q and k themselves

// What replacement() is told besides the name.
struct SwapOptions {
    // For an exact method or an update: the factorisation whose B and C are the features of q and k, one that looks at
    // one token at a time; or no_features.
    std::string features = "favor+";
    LowRankOptions lowrank;             // of the features or the factorisation; its scale is that of the layer
    std::optional<bool> normalize;      // whether each row is divided by its sum of weights: yes, but for delta updates
    std::string method = "fleet";       // after a factorisation: the exact method of its masked product
    std::optional<Index> block, chunk;  // of the exact method, and of the update
    double log_decay = 0, beta = 1;     // of the updates that have them: the same for all tokens
    int shards = 0;                     // of "tree" and "ring": 0: as many as threads, or as ranks
    std::string engine = "threads";     // of these, or "mpi": every rank has to run the same model on the same texts
};

// By name:
//   an exact method ("fleet", "lightning-attention-2" …, or "auto")  its masked product of the features, normalised
//   a factorisation ("favor+", "nystrom", "svd" …)                   B Cᵀ masked, normalised, by options.method
//   an update of linear_attention ("linear", "gated", "delta" …)     on the features
//   "flash", "standard", "tree", "ring"                              softmax attention by that method
// A name of two of these is the first. Throws Error for an unknown name, with the nearest known one, and for options
// that it does not take.
Replacement replacement(const std::string& with, const SwapOptions& = {});
std::vector<std::string> replacement_names();
bool is_exact_method(const std::string& name);

// What a layer's attention is at the moment.
struct Swap {
    std::optional<Replacement> replacement;
    std::string method;  // of a layer of linear attention with fixed decay: the exact method; empty: the model's own
};
using Swaps = std::vector<Swap>;  // one a layer

// Layers from 1 as places in a model of `count`; none: all of them. Throws Error for one that there is not.
std::vector<std::size_t> places(const std::vector<Index>& layers, Index count);

}  // namespace causeway::model
