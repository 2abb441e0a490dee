// Generation: the prompt in chunks, then a token at a time.
#include <algorithm>

#include "core/model/model.hpp"
#include "core/model/sample.hpp"
#include "core/tensor/random.hpp"

namespace causeway::model {
namespace {

// The number that decides about token t of sequence s.
double uniform(std::uint64_t seed, Index s, Index t) {
    double u = 0;
    random::uniforms(seed + static_cast<std::uint64_t>(s), static_cast<std::uint64_t>(t), &u, 1);
    return u;
}

// The next token of every sequence after `ids`; the t-th behind the prompts.
Ids next_tokens(Session& session, const Ids& ids, const GenerateOptions& o, Index t, const RunOptions& run) {
    if (o.temperature == 0 || o.top_k == 1) return session.likeliest(ids, run);
    const Tensor logits = session.advance(ids, Session::Rows::last, run);
    const Index words = logits.shape()[1];
    Ids out;
    for (Index s = 0; s < session.batch(); ++s)
        out.push_back(
            static_cast<std::int32_t>(sample(logits.data<float>() + s * words, words, o, uniform(o.seed, s, t))));
    return out;
}

// Takes the chosen token of every sequence that still runs; those that have ended go on with what they had, so that the
// batch stays one. Returns whether any runs on.
bool take(const Ids& chosen, const GenerateOptions& o, Ids& next, std::vector<Ids>& out, std::vector<bool>& ended) {
    bool any = false;
    for (std::size_t s = 0; s < out.size(); ++s) {
        if (ended[s]) continue;
        const Index sequence = static_cast<Index>(s);
        next[s] = chosen[s];
        ended[s] = std::count(o.stop.begin(), o.stop.end(), next[s]) > 0;
        if (ended[s]) continue;
        out[s].push_back(next[s]);
        ended[s] = o.token && !o.token(sequence, next[s]);
        any |= !ended[s];
    }
    return any;
}

}  // namespace

Ids Model::generate(const Ids& prompt, const GenerateOptions& options) const {
    return generate(std::vector<Ids>{prompt}, options).front();
}

std::vector<Ids> Model::generate(const std::vector<Ids>& prompts, const GenerateOptions& options) const {
    check(options);
    if (prompts.empty()) fail("prompts: none, expected at least one");
    Ids ids;
    for (const Ids& prompt : prompts) {
        if (prompt.empty()) fail("prompt: no tokens, expected at least one");
        if (prompt.size() != prompts.front().size())
            fail("prompts: of ", prompts.front().size(), " and of ", prompt.size(), " tokens, expected one length");
        ids.insert(ids.end(), prompt.begin(), prompt.end());
    }
    std::vector<Ids> out(prompts.size());
    std::vector<bool> ended(prompts.size(), false);
    Session session(*this, static_cast<Index>(prompts.size()));
    Ids next(prompts.size());
    for (Index t = 0; t < options.tokens; ++t) {
        const RunOptions quiet{options.run.chunk, {}};  // progress is that of the prompt
        const Ids chosen = next_tokens(session, t == 0 ? ids : next, options, t, t == 0 ? options.run : quiet);
        if (!take(chosen, options, next, out, ended)) break;
    }
    return out;
}

}  // namespace causeway::model
