#include "core/model/model.hpp"

#include <algorithm>

#include "core/base/text.hpp"
#include "core/model/layout.hpp"
#include "core/model/sample.hpp"

namespace causeway::model {

std::vector<std::size_t> places(const std::vector<Index>& layers, Index count) {
    std::vector<std::size_t> out;
    for (const Index l : layers) {
        if (l < 1 || l > count) fail("layers: has ", l, ", expected layers from 1 to ", count);
        out.push_back(static_cast<std::size_t>(l - 1));
    }
    for (Index l = 0; layers.empty() && l < count; ++l) out.push_back(static_cast<std::size_t>(l));
    return out;
}

namespace {

Ids joined(const std::vector<Ids>& texts) {
    Ids all;
    for (const Ids& text : texts) {
        if (text.size() != texts.front().size())
            fail("texts: of ", texts.front().size(), " and of ", text.size(), " tokens, expected one length");
        all.insert(all.end(), text.begin(), text.end());
    }
    return all;
}

// f() runs the ids on the device that the texts are on.
template <class F>
auto run_there(State& state, std::span<const std::int32_t> ids, F&& f) {
    state.network->check(state, ids);
    state.broken = true;
    auto result = f(*state.accelerated);
    state.broken = false;
    state.length += static_cast<Index>(ids.size()) / state.batch;
    return result;
}

}  // namespace

Session::Session(const Model& model, Index batch) : state_(std::make_shared<State>()) {
    if (batch < 1) fail("batch: ", batch, ", expected 1 or more");
    state_->network = model.network_, state_->swaps = model.swaps_, state_->batch = batch;
    if (model.accelerator_) state_->accelerated = model.accelerator_->begin(batch, model.swaps_);
    else state_->layers.resize(model.network_->layers.size());
}

Session::Session(std::shared_ptr<State> state) : state_(std::move(state)) {}

Index Session::batch() const { return state_->batch; }
Index Session::length() const { return state_->length; }

Session Session::copy() const {
    auto out = std::make_shared<State>();
    out->network = state_->network, out->swaps = state_->swaps, out->broken = state_->broken;
    out->batch = state_->batch, out->length = state_->length;
    for (const LayerState& layer : state_->layers) out->layers.push_back(layer.copy());
    if (state_->accelerated) out->accelerated = state_->accelerated->copy();
    return Session(std::move(out));
}

std::size_t Session::bytes() const {
    std::size_t sum = state_->accelerated ? state_->accelerated->bytes() : 0;
    for (const LayerState& layer : state_->layers) sum += layer.bytes();
    return sum;
}

Tensor Session::hidden(std::span<const std::int32_t> ids, const RunOptions& options) {
    if (state_->accelerated)
        return run_there(*state_, ids, [&](AcceleratedTexts& texts) { return texts.hidden(ids, options); });
    return state_->network->run(*state_, ids, options);
}

Tensor Session::logits(const Tensor& hidden, Index first_row, Index rows) const {
    if (state_->accelerated) return state_->accelerated->logits(hidden, first_row, rows);
    const Network& network = *state_->network;
    Tensor out(DType::f32, {rows, network.about.vocabulary});
    network.logits(hidden.data<float>() + first_row * network.about.width, rows, out.data<float>());
    return out;
}

std::vector<Guess> Session::guesses(const Tensor& hidden, Index first, std::span<const std::int32_t> ids) const {
    if (state_->accelerated) return state_->accelerated->guesses(hidden, first, ids);
    constexpr Index together = 256;  // rows of logits that are there at once
    const Index n = static_cast<Index>(ids.size());
    std::vector<Guess> out(ids.size());
    for (Index start = 0; start < n; start += together) {
        const Index rows = std::min(together, n - start);
        const Tensor some = logits(hidden, first + start, rows);
        const Index words = some.shape()[1];
        parallel_for(rows, [&](Index i) {
            const float* row = some.data<float>() + i * words;
            const std::size_t at = static_cast<std::size_t>(start + i);
            const double value = static_cast<double>(row[ids[at]]) - log_sum_exp(row, words);
            out[at] = {value, model::likeliest(row, words) == ids[at]};
        });
    }
    return out;
}

Ids Session::likeliest(std::span<const std::int32_t> ids, const RunOptions& options) {
    if (ids.empty()) fail("ids: none, expected at least one token");
    if (state_->accelerated)
        return run_there(*state_, ids, [&](AcceleratedTexts& texts) { return texts.likeliest(ids, options); });
    const Tensor last = advance(ids, Rows::last, options);
    const Index words = last.shape()[1];
    Ids out;
    for (Index s = 0; s < state_->batch; ++s)
        out.push_back(static_cast<std::int32_t>(model::likeliest(last.data<float>() + s * words, words)));
    return out;
}

Tensor Session::advance(std::span<const std::int32_t> ids, Rows rows, const RunOptions& options) {
    if (rows == Rows::last && ids.empty()) fail("ids: none, expected at least one token");
    if (rows == Rows::last && state_->accelerated)
        return run_there(*state_, ids, [&](AcceleratedTexts& texts) { return texts.last_logits(ids, options); });
    const Tensor x = hidden(ids, options);
    const Network& network = *state_->network;
    const Index batch = state_->batch, n = x.shape()[1], width = network.about.width, words = network.about.vocabulary;
    if (rows == Rows::all) return logits(x.reshape({batch * n, width}), 0, batch * n).reshape({batch, n, words});
    Tensor last(DType::f32, {batch, width}), out(DType::f32, {batch, words});
    for (Index s = 0; s < batch; ++s)
        std::copy_n(x.data<float>() + ((s + 1) * n - 1) * width, width, last.data<float>() + s * width);
    network.logits(last.data<float>(), batch, out.data<float>());
    return out;
}

Model Model::load(const std::string& path) { return Model(Checkpoint::open(path)); }

Model::Model(std::shared_ptr<const Checkpoint> checkpoint)
    : network_(std::make_shared<const Network>(build(checkpoint))),
      swaps_(std::make_shared<const Swaps>(network_->layers.size())) {}

Model::Model(std::shared_ptr<const Checkpoint> checkpoint, const Placement& placement) : Model(std::move(checkpoint)) {
    accelerator_ = placement(*network_);
}

const Description& Model::about() const { return network_->about; }
const std::shared_ptr<const Checkpoint>& Model::checkpoint() const { return network_->checkpoint; }

std::vector<LayerInfo> Model::layers() const {
    std::vector<LayerInfo> out;
    for (std::size_t l = 0; l < network_->layers.size(); ++l) {
        const Swap& swap = (*swaps_)[l];
        out.push_back(network_->layers[l].mixer->info());
        out.back().replaced = swap.replacement ? swap.replacement->name : swap.method;
        if (swap.replacement) out.back().settings = swap.replacement->settings;
    }
    return out;
}

Tensor Model::logits(const Ids& ids, const RunOptions& options) const {
    const Tensor all = logits(std::vector<Ids>{ids}, options);
    return all.reshape({all.shape()[1], all.shape()[2]});
}

Tensor Model::logits(const std::vector<Ids>& texts, const RunOptions& options, Session::Rows rows) const {
    Session session(*this, static_cast<Index>(texts.size()));
    return session.advance(joined(texts), rows, options);
}

std::vector<std::string> Model::captured() { return {"q", "k", "v", "scores", "output", "hidden"}; }

std::map<std::string, Tensor> Model::capture(const Ids& ids, Index layer, const std::vector<std::string>& what,
                                             const RunOptions& options) const {
    const Index place = static_cast<Index>(places({layer}, network_->about.layers).front());
    std::map<std::string, Tensor> found;
    for (const std::string& name : what) {
        const auto known = captured();
        if (std::count(known.begin(), known.end(), name) == 0)
            fail("what: ", in_quotes(name), ", expected \"q\", \"k\", \"v\", \"scores\", \"output\" or \"hidden\"",
                 did_you_mean(name, known));
        found[name] = Tensor();
    }
    if (ids.empty()) fail("ids: none, expected at least one token");
    const Watch watch{place, found};
    Session session(*this, 1);
    if (!accelerator_) {
        network_->run(*session.state_, ids, options, &watch);
        return found;
    }
    network_->check(*session.state_, ids);
    session.state_->accelerated->look(ids, watch, options);
    return found;
}

void Model::attention(const std::vector<Index>& layers, const Replacement& replacement) {
    if (!replacement.run) fail("replacement: has no function, expected one of q, k, v and scale");
    auto swaps = std::make_shared<Swaps>(*swaps_);
    for (const std::size_t l : places(layers, network_->about.layers)) (*swaps)[l] = {replacement, ""};
    swaps_ = std::move(swaps);
}

Swap Model::swap_of(std::size_t layer, const std::string& with, const SwapOptions& options) const {
    const Mixer& mixer = *network_->layers[layer].mixer;
    if (mixer.takes_methods() && is_exact_method(with)) {
        if (accelerator_ && !accelerator_->takes_method(with))
            fail("with: the method ", in_quotes(with), " does not run on the GPU, where layer ", layer + 1,
                 " is, expected another one, or a model on the CPU (device = \"cpu\")");
        return {{}, with};
    }
    Replacement made = replacement(with, options);
    if (!accelerator_) return {std::move(made), ""};
    if (made.ranks != Ranks::none)
        fail("engine: \"mpi\" for a model on the GPU, expected \"threads\", or a model on the CPU (device = \"cpu\")");
    made.elsewhere = accelerator_->replacement(with, options, mixer.info());
    if (!made.elsewhere) made.settings += made.settings.empty() ? "on the CPU" : ", on the CPU";
    return {std::move(made), ""};
}

void Model::attention(const std::vector<Index>& layers, const std::string& with, const SwapOptions& options) {
    auto swaps = std::make_shared<Swaps>(*swaps_);
    for (const std::size_t l : places(layers, network_->about.layers)) (*swaps)[l] = swap_of(l, with, options);
    swaps_ = std::move(swaps);
}

void Model::reset(const std::vector<Index>& layers) {
    auto swaps = std::make_shared<Swaps>(*swaps_);
    for (const std::size_t l : places(layers, network_->about.layers)) (*swaps)[l] = {};
    swaps_ = std::move(swaps);
}

bool Model::shared_by_ranks() const {
    return std::any_of(swaps_->begin(), swaps_->end(),
                       [](const Swap& swap) { return swap.replacement && swap.replacement->ranks != Ranks::none; });
}

bool Model::runs_in_parts() const {
    return std::all_of(swaps_->begin(), swaps_->end(), [](const Swap& swap) {
        return !swap.replacement || swap.replacement->last_queries || swap.replacement->in_parts;
    });
}

}  // namespace causeway::model
