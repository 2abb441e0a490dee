// A language model from a checkpoint: logits, generation, and its attention, which can be looked at and replaced layer
// by layer. On the CPU weights stay in the type of the checkpoint, and everything is computed in Float32, but for what
// core/model/weight.hpp says of weights of four bits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/model/swap.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::model {

class Accelerator;
class Checkpoint;
class Network;
struct State;

using Ids = std::vector<std::int32_t>;  // token ids from 0

// Puts a network on another device than the CPU (core/model/accelerator.hpp).
using Placement = std::function<std::shared_ptr<const Accelerator>(const Network&)>;

// What a checkpoint holds.
struct Description {
    std::string path;
    std::string layout;  // "llama": the file of core/model/layouts that read it
    Index vocabulary = 0, width = 0, layers = 0;
    Index context = 0;     // tokens that it was made for; 0 where it does not say
    Index parameters = 0;  // of all tensors that are used, tied ones once
    Index bytes = 0;       // of those as they are stored
};

struct LayerInfo {
    std::string attention;             // "softmax attention", "linear attention with decay", "gated delta net"
    Index heads = 0, key_heads = 0;    // of q, and of k and v
    Index width = 0, value_width = 0;  // of a head's keys and of its values
    double scale = 1;                  // factor on q kᵀ
    std::vector<double> decay;         // γ of each head, where the layer has fixed ones
    std::string replaced;              // the name of what stands in its place; empty: nothing
    std::string settings;              // of what stands in its place, as in Replacement
};

// How a text runs through the model.
struct RunOptions {
    std::optional<Index> chunk;  // tokens of a text that run together; none: as many as suit the device
    // Called between layers (on a GPU between chunks) with what is done and what there is to do, in tokens times
    // layers; may throw to stop.
    std::function<void(Index done, Index all)> progress;
};

struct GenerateOptions {
    Index tokens = 64;       // at most so many
    double temperature = 0;  // 0: always the likeliest token
    Index top_k = 0;         // only the k likeliest; 0: all
    double top_p = 1;        // of these only the likeliest that have this probability together
    std::uint64_t seed = 0;  // equal seeds, equal texts
    Ids stop;                // tokens that end a text; they are not returned
    // Called with every token as it comes; false ends the text of this sequence.
    std::function<bool(Index sequence, std::int32_t id)> token;
    RunOptions run;
};

// What the model says about one token before it has seen it.
struct Guess {
    double log_probability;  // natural
    bool right;              // whether no other is likelier
};

// Some texts of one length on their way through a model, with what the layers keep of them: keys and values, or states.
class Session {
public:
    explicit Session(const class Model&, Index batch = 1);

    Index batch() const;
    Index length() const;       // tokens of each text that have run
    Session copy() const;       // goes on by itself
    std::size_t bytes() const;  // that the layers keep

    enum class Rows { last, all };
    // Runs n more tokens of each text; ids [batch, n]. Logits [batch, vocabulary] of the last token, or [batch, n,
    // vocabulary] of all. Throws Error for an id that is not in the vocabulary, OutOfMemory, Interrupted, Timeout;
    // after these the session cannot go on.
    Tensor advance(std::span<const std::int32_t> ids, Rows rows = Rows::last, const RunOptions& = {});
    // The same up to the last norm, [batch, n, width], for who wants the logits of some tokens at a time; and these,
    // [rows, vocabulary], of rows of that.
    Tensor hidden(std::span<const std::int32_t> ids, const RunOptions& = {});
    Tensor logits(const Tensor& hidden, Index first_row, Index rows) const;
    // Of `ids`, each after the row of `hidden` that stands for it, from `first_row` on.
    std::vector<Guess> guesses(const Tensor& hidden, Index first_row, std::span<const std::int32_t> ids) const;
    // As advance(), and of each text the token that is the likeliest next one, the first of equals. Throws Error where
    // a logit is NaN.
    Ids likeliest(std::span<const std::int32_t> ids, const RunOptions& = {});

private:
    explicit Session(std::shared_ptr<State>);
    std::shared_ptr<State> state_;
    friend class Model;
};

// A handle: copies share the weights, but each has replacements of its own.
class Model {
public:
    static Model load(const std::string& path);  // as Checkpoint::open
    explicit Model(std::shared_ptr<const Checkpoint>);
    // On the device that `placement` puts it on. There capture() hands tensors back to the CPU, and what stands in the
    // place of attention is computed there, or, where there are no kernels for it, on the CPU, layer by layer.
    Model(std::shared_ptr<const Checkpoint>, const Placement& placement);

    const Description& about() const;
    std::vector<LayerInfo> layers() const;
    const std::shared_ptr<const Checkpoint>& checkpoint() const;
    const Accelerator* accelerator() const { return accelerator_.get(); }  // null: it runs on the CPU

    // [N, vocabulary]: row i for the token after ids 0 … i.
    Tensor logits(const Ids& ids, const RunOptions& = {}) const;
    // [b, N, vocabulary] of texts of one length; [b, vocabulary] where only the last token's are asked for, which on a
    // GPU leaves all others there uncomputed.
    Tensor logits(const std::vector<Ids>& texts, const RunOptions& = {}, Session::Rows = Session::Rows::all) const;

    // The tokens after the prompt.
    Ids generate(const Ids& prompt, const GenerateOptions& = {}) const;
    // The same for several prompts of one length, together; element i is what it would be with the seed + i alone.
    std::vector<Ids> generate(const std::vector<Ids>& prompts, const GenerateOptions& = {}) const;

    // What layer `layer` (from 1) computes on a text, Float32, by name: "q", "k", "v" (as attention gets them: after
    // positions, activations and norms; [1, heads, N, width], of k and v their own heads), "scores" (scale · q kᵀ
    // without mask, [1, heads, N, N]), "output" (of attention, [1, heads, N, value width]) and "hidden" (what the layer
    // hands on, [1, N, width]). Throws Error for another name.
    std::map<std::string, Tensor> capture(const Ids& ids, Index layer, const std::vector<std::string>& what,
                                          const RunOptions& = {}) const;
    static std::vector<std::string> captured();  // those names

    // Puts something else in the place of the attention of some layers (from 1); none: all layers. Throws Error for a
    // layer that is not there and a method that does not serve the layer, and then changes nothing.
    void attention(const std::vector<Index>& layers, const Replacement&);
    // The same by name, see replacement() in swap.hpp. A layer of linear attention with fixed decay takes the name of
    // an exact method too, which then computes its own sums: nothing is lost.
    void attention(const std::vector<Index>& layers, const std::string& with, const SwapOptions& = {});
    // Takes the replacements of these layers away; none: of all.
    void reset(const std::vector<Index>& layers = {});
    // Whether a text that runs in several parts gives what it gives as one. False where what stands in the place of
    // attention looks at the whole text, as the landmarks of nystrom do.
    bool runs_in_parts() const;
    // Whether the processes of the job share the keys of a layer.
    bool shared_by_ranks() const;

private:
    Swap swap_of(std::size_t layer, const std::string& with, const SwapOptions&) const;

    std::shared_ptr<const Network> network_;
    std::shared_ptr<const Swaps> swaps_;
    std::shared_ptr<const Accelerator> accelerator_;
    friend class Session;
};

}  // namespace causeway::model
