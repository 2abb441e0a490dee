#include "core/model/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/text.hpp"
#include "core/lowrank/lowrank.hpp"
#include "core/model/sample.hpp"
#include "core/model/swap.hpp"

namespace causeway::model {
Prediction predict(const Model& model, const Ids& ids, const RunOptions& options) {
    if (ids.size() < 2)
        fail("ids: of length ", ids.size(), ", expected at least two tokens, of which the first is given");
    Session session(model);
    const Tensor hidden = session.hidden(ids, options);
    Prediction out;
    for (const Guess& g : session.guesses(hidden, 0, std::span(ids).subspan(1))) {
        out.bits -= g.log_probability / std::numbers::ln2;
        out.right += g.right;
        ++out.tokens;
    }
    return out;
}

double bits_per_byte(const Model& model, const Ids& ids, Index bytes, const RunOptions& options) {
    if (bytes < 1) fail("bytes: ", bytes, ", expected 1 or more");
    return predict(model, ids, options).per_byte(bytes);
}

namespace {

// As score(), in a session that may go on.
std::vector<Choice> scores_in(Session session, const Ids& prompt, const std::vector<Ids>& choices,
                              const RunOptions& options) {
    if (prompt.empty()) fail("prompt: no tokens, expected at least one");
    for (std::size_t i = 0; i < choices.size(); ++i)
        if (choices[i].empty()) fail("choices: number ", i + 1, " has no tokens, expected at least one");
    const Tensor before = session.hidden(prompt, options);
    std::vector<Choice> out;
    for (const Ids& choice : choices) {
        const std::span<const std::int32_t> ids(choice);
        std::vector<Guess> all = session.guesses(before, static_cast<Index>(prompt.size()) - 1, ids.first(1));
        if (ids.size() > 1) {
            Session branch = session.copy();
            const Tensor hidden = branch.hidden(ids.first(ids.size() - 1), options);
            const std::vector<Guess> rest = branch.guesses(hidden, 0, ids.subspan(1));
            all.insert(all.end(), rest.begin(), rest.end());
        }
        Choice c;
        c.tokens = static_cast<Index>(ids.size()), c.greedy = true;
        for (const Guess& g : all) c.log_probability += g.log_probability, c.greedy &= g.right;
        c.per_token = c.log_probability / static_cast<double>(c.tokens);
        out.push_back(c);
    }
    return out;
}

}  // namespace

std::vector<Choice> score(const Model& model, const Ids& prompt, const std::vector<Ids>& choices,
                          const RunOptions& options) {
    return scores_in(Session(model), prompt, choices, options);
}

std::vector<Choice> score(const Session& begun, const Ids& prompt, const std::vector<Ids>& choices,
                          const RunOptions& options) {
    return scores_in(begun.copy(), prompt, choices, options);
}

namespace {

// x [1, h, N, d] with every head `times` times.
Tensor repeated(const Tensor& x, Index times) {
    if (times == 1) return x;
    const Shape& s = x.shape();
    Tensor out(DType::f32, {s[0], s[1] * times, s[2], s[3]});
    const Index size = s[2] * s[3];
    for (Index h = 0; h < s[0] * s[1] * times; ++h)
        std::copy_n(x.data<float>() + h / times * size, size, out.data<float>() + h * size);
    return out;
}

// |a − b|_F / |b|_F.
double relative_distance(const Tensor& a, const Tensor& b) {
    double off = 0, all = 0;
    for (Index i = 0; i < b.size(); ++i) {
        off += std::pow(a.get(i) - b.get(i), 2);
        all += std::pow(b.get(i), 2);
    }
    return std::sqrt(off / all);
}

}  // namespace

std::vector<LayerError> swap_errors(const Model& model, const Ids& ids, const std::vector<Index>& layers,
                                    const std::string& with, const SwapOptions& options, double tolerance,
                                    const RunOptions& run) {
    lowrank::method(with);  // throws where it is none
    const Replacement replaced = replacement(with, options);
    Model own = model;
    own.reset();
    const std::vector<LayerInfo> infos = own.layers();
    std::vector<LayerError> out;
    const auto chosen = places(layers, std::ssize(infos));
    for (const std::size_t place : chosen) {
        if (run.progress) run.progress(std::ssize(out), std::ssize(chosen));
        const Index layer = static_cast<Index>(place) + 1;
        const auto x = own.capture(ids, layer, {"q", "k", "v", "output"});
        const LayerInfo& info = infos[place];
        if (info.attention.rfind("softmax", 0) != 0)
            fail("layers: layer ", layer, " has ", info.attention, ", expected softmax attention");
        const Index times = info.heads / info.key_heads;
        const Tensor q = x.at("q"), k = repeated(x.at("k"), times), v = repeated(x.at("v"), times);
        LowRankOptions factors = options.lowrank;
        factors.scale = info.scale;
        factors.seed = factors.seed.value_or(0);  // that of the replacement: both are measured on the same factors
        if (lowrank::method(with).values) factors.v = v;
        const LowRank f = low_rank(with, q, k, factors);
        LowRankErrorOptions wanted;
        wanted.scale = info.scale, wanted.v = v, wanted.extras = f.extras, wanted.tolerance = tolerance;
        LayerError error;
        error.layer = layer, error.with = with;
        error.scores = lowrank_error(q, k, f.B, f.C, wanted).all;
        error.output = relative_distance(replaced.run(q, k, v, info.scale), x.at("output"));
        out.push_back(error);
    }
    return out;
}

SwapReport swap_report(const Model& model, const Ids& ids, const std::vector<Index>& layers, const std::string& with,
                       const SwapOptions& options, double tolerance, const RunOptions& run) {
    SwapReport out;
    out.layers = swap_errors(model, ids, layers, with, options, tolerance, run);
    Model own = model;
    own.reset();
    out.before = predict(own, ids);
    own.attention(layers, with, options);
    out.after = predict(own, ids);
    return out;
}

}  // namespace causeway::model
