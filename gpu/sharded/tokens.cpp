#include "gpu/sharded/tokens.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/base/buffer.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"
#include "gpu/exact/normalize.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/sharded/maps.hpp"

namespace causeway::gpu::sharded {

namespace {

using std::int64_t;

// Tokens of a head whose outputs nobody reads are computed so many at a time, into the same memory, or as many as have
// so many numbers.
constexpr int64_t hidden_tokens = 4096, hidden_numbers = int64_t{1} << 27;

// How far back from its end the gates of a part are looked at: what is not forgotten there counts as kept.
constexpr int64_t searched_tokens = 4096;

Span last_of(Span tokens, int64_t n) { return {tokens.first + tokens.n - n, n}; }

// `width` numbers of each of the tokens of some heads side by side: from [heads, N, width].
Buffer copied(const float* from, int64_t heads, int64_t N, Span tokens, int width, cudaStream_t stream) {
    const auto bytes = [&](int64_t n) { return static_cast<std::size_t>(n * width) * sizeof(float); };
    Buffer out(bytes(heads * tokens.n), stream);
    copy_rows({out.data(), bytes(tokens.n), from + tokens.first * width, bytes(N), bytes(tokens.n),
               static_cast<std::size_t>(heads)},
              stream, "copying gates");
    return out;
}

}  // namespace

void Tokens::outputs(Span states, float* S) {
    each_block(states, [&](const Block& block, int64_t before) {
        if (block.tokens.n > 0) run(block, block.tokens, S + before * elements(), false);
    });
}

void Tokens::advance(const Block& block, Span tokens, float* S) {
    const int64_t each =
        std::max<int64_t>(1, hidden_numbers / (block.count() * output_width()) / hidden_tokens) * hidden_tokens;
    for (int64_t t = 0; t < tokens.n; t += each) run(block, {tokens.first + t, std::min(each, tokens.n - t)}, S, true);
}

void Tokens::advance(Span states, float* S) {
    each_block(states,
               [&](const Block& block, int64_t before) { advance(block, block.tokens, S + before * elements()); });
}

void Tokens::last(Span states, int64_t n, float* S) {
    check(cudaMemsetAsync(S, 0, static_cast<std::size_t>(states.n * elements()) * sizeof(float), stream_),
          "clearing a state");
    each_block(states, [&](const Block& block, int64_t before) {
        advance(block, last_of(block.tokens, n), S + before * elements());
    });
}

GatedTokens::GatedTokens(const GatedArgs& args, std::string mode, cudaStream_t stream, std::vector<Span> packed,
                         bool in_steps)
    : Tokens(args.B, args.H, args.N, stream, std::move(packed)),
      args_(args),
      mode_(std::move(mode)),
      in_steps_(in_steps) {}

bool GatedTokens::has_steps(const std::string& mode, const GatedArgs& args) {
    const GatedSteps* const steps = gated_form(mode, args).steps;
    return steps && steps->possible(args);
}

GatedArgs GatedTokens::cut(const Block& block) const {
    GatedArgs a = args_;
    a.B = block.batches, a.H = block.heads;
    const int64_t queries = block.head * a.group, state = block.batch * heads_ + block.head;
    a.q = moved(a.q, a.type, a.q_stride, block.batch, queries, 0);
    a.k = moved(a.k, a.type, a.k_stride, block.batch, block.head, 0);
    a.v = moved(a.v, a.type, a.v_stride, block.batch, block.head, 0);
    a.o = moved(a.o, a.type, a.o_stride, block.batch, queries, 0);
    if (a.g) a.g += state * N_ * a.gates;
    if (a.beta) a.beta += state * N_;
    return a;
}

GatedArgs GatedTokens::of_tokens(GatedArgs a, Span tokens, Buffer& g, Buffer& beta) const {
    a.q = moved(a.q, a.type, a.q_stride, 0, 0, tokens.first);
    a.k = moved(a.k, a.type, a.k_stride, 0, 0, tokens.first);
    a.v = moved(a.v, a.type, a.v_stride, 0, 0, tokens.first);
    a.o = moved(a.o, a.type, a.o_stride, 0, 0, tokens.first);
    a.N = tokens.n;
    const auto gates = [&](const float* all, int width, Buffer& own) -> const float* {
        if (!all || tokens.n == N_) return all;
        own = copied(all, a.B * a.H, N_, tokens, width, stream_);
        return own.as<float>();
    };
    a.g = gates(a.g, a.gates, g), a.beta = gates(a.beta, 1, beta);
    return a;
}

void GatedTokens::run(const Block& block, Span tokens, float* S, bool hidden) {
    GatedArgs a = cut(block);
    Prepared* const first = hidden || tokens.n < block.tokens.n ? nullptr : prepared(block);
    if (!first) return run(a, tokens, S, hidden);
    a.state = S, a.workspace = {first->workspace.data(), first->workspace.bytes()};
    const GatedSteps& steps = *gated_form(mode_, a).steps;
    if (!first->advanced) steps.states(a, first->goes_on, nullptr, stream_);
    steps.outputs(a, first->goes_on, stream_);
    prepared_.erase(prepared_.begin() + (first - prepared_.data()));
}

void GatedTokens::run(GatedArgs a, Span tokens, float* S, bool hidden) {
    Buffer g, beta, o;
    a = of_tokens(a, tokens, g, beta);
    a.state = S;
    if (hidden) {
        o = Buffer(static_cast<std::size_t>(a.B * a.H * a.group * a.N * a.dv * bytes_of(a.type)), stream_);
        a.o = o.data(), a.o_stride = contiguous(a.H * a.group, a.N, a.dv);
    }
    const GatedForm& form = gated_form(mode_, a);
    const Buffer workspace(form.workspace(a), stream_);
    a.workspace = {workspace.data(), workspace.bytes()};
    form.run(a, stream_);
}

void GatedTokens::prepare(Span states, bool goes_on) {
    if (!in_steps_) return;
    each_block(states, [&](const Block& block, int64_t) {
        if (block.tokens.n == 0) return;
        GatedArgs a = cut(block);
        if (!has_steps(mode_, a)) return;
        const GatedSteps& steps = *gated_form(mode_, a).steps;
        Buffer workspace(steps.workspace(a, goes_on), stream_);
        a.workspace = {workspace.data(), workspace.bytes()};
        steps.maps(a, goes_on, stream_);
        prepared_.push_back({block.state, block.count(), goes_on, false, std::move(workspace)});
    });
}

GatedTokens::Prepared* GatedTokens::prepared(const Block& block) {
    for (Prepared& x : prepared_)
        if (x.state == block.state && x.count == block.count()) return &x;
    return nullptr;
}

void GatedTokens::advance(Span states, float* S) {
    each_block(states, [&](const Block& block, int64_t before) {
        float* const at = S + before * elements();
        Prepared* const first = prepared(block);
        if (!first || !first->goes_on || first->advanced) return Tokens::advance(block, block.tokens, at);
        GatedArgs a = cut(block);
        a.state = at, a.workspace = {first->workspace.data(), first->workspace.bytes()};
        gated_form(mode_, a).steps->states(a, true, at, stream_);
        first->advanced = true;
    });
}

void GatedTokens::outputs(Span states, float* S) {
    // From the first sequence on of which all heads are wanted.
    const int64_t from = (states.first + heads_ - 1) / std::max<int64_t>(1, heads_),
                  to = (states.first + states.n) / std::max<int64_t>(1, heads_);
    if (!is_packed() || to - from < 2) return Tokens::outputs(states, S);
    const auto rest = [&](int64_t first, int64_t last) {
        Tokens::outputs({first, last - first}, S + (first - states.first) * elements());
    };
    rest(states.first, from * heads_);
    outputs_together({from, to - from}, S + (from * heads_ - states.first) * elements());
    rest(to * heads_, states.first + states.n);
}

void GatedTokens::outputs_together(Span sequences, float* S) {
    const auto begin = packed_.begin() + sequences.first;
    std::vector<int64_t> offsets{0};
    for (auto it = begin; it != begin + sequences.n; ++it) offsets.push_back(offsets.back() + it->n);
    // Of a sequence without tokens it is not said where it is.
    const auto first = std::find_if(begin, begin + sequences.n, [](const Span& s) { return s.n > 0; });
    const Span tokens{first == begin + sequences.n ? 0 : first->first, offsets.back()};
    if (tokens.n == 0) return;
    const GatedArgs all = cut({0, 1, 0, heads_, 0, {0, N_}});
    const GatedForm& form = gated_form(mode_, all);
    if (!form.run_packed) return Tokens::outputs({sequences.first * heads_, sequences.n * heads_}, S);
    Buffer g, beta;
    GatedArgs a = of_tokens(all, tokens, g, beta);
    a.state = S;
    const Sequences together{offsets.data(), sequences.n};
    const Buffer workspace(form.packed_workspace(a, together), stream_);
    a.workspace = {workspace.data(), workspace.bytes()};
    form.run_packed(a, together, stream_);
}

GateRows GatedTokens::gates_of(const Block& block, Buffer& own) const {
    const float* const all = args_.g + (block.batch * heads_ + block.head) * N_ * args_.gates;
    if (block.tokens.n == N_) return {all, block.count(), N_, args_.gates};
    own = copied(all, block.count(), N_, block.tokens, args_.gates, stream_);
    return {own.as<float>(), block.count(), block.tokens.n, args_.gates};
}

void GatedTokens::map(Span states, float* A) {
    if (!args_.beta) {
        if (!args_.g) return;
        each_block(states, [&](const Block& block, int64_t before) {
            Buffer own;
            multiply_gates(gates_of(block, own), A + before * args_.gates, stream_);
        });
        return;
    }
    // What the rule makes of the unit matrix with values of zero.
    const int columns = args_.dk;
    make_unit(A, states.n, columns, stream_);
    each_block(states, [&](const Block& block, int64_t before) {
        GatedArgs a = cut(block);
        const Span all = block.tokens;
        const int64_t each = std::min(hidden_tokens, all.n);
        const Buffer zeros(static_cast<std::size_t>(block.count() * each * columns * bytes_of(a.type)), stream_);
        if (zeros.bytes() > 0) check(cudaMemsetAsync(zeros.data(), 0, zeros.bytes(), stream_), "making values of zero");
        a.dv = columns;
        a.v_stride = contiguous(block.heads, each, columns);
        for (int64_t t = all.first; t < all.first + all.n; t += each) {
            a.v = moved(static_cast<const void*>(zeros.data()), a.type, a.v_stride, 0, 0, -t);  // read from token t on
            run(a, {t, std::min(each, all.first + all.n - t)}, A + before * a.dk * columns, true);
        }
    });
}

std::vector<int64_t> GatedTokens::reach(From from) {
    if (!args_.g || states() == 0) return {};
    // Of packed sequences a neighbour has tokens of the first or of the last one alone.
    Span wanted{0, states()};
    if (is_packed()) {
        const auto has_tokens = [](const Span& s) { return s.n > 0; };
        const int64_t first = std::find_if(packed_.begin(), packed_.end(), has_tokens) - packed_.begin(),
                      last = packed_.rend() - std::find_if(packed_.rbegin(), packed_.rend(), has_tokens) - 1;
        wanted = {(from == From::start ? first : last) * heads_, heads_};
        if (last < 0) wanted = {0, 0};
    }
    std::vector<int64_t> reach(static_cast<std::size_t>(states()), -1);
    const Buffer found(static_cast<std::size_t>(std::max<int64_t>(wanted.n, 1)) * sizeof(std::int32_t), stream_);
    each_block(wanted, [&](const Block& block, int64_t before) {
        Buffer own;
        find_reach(gates_of(block, own), from, forgotten_bits(type()), std::min(block.tokens.n / 4, searched_tokens),
                   found.as<std::int32_t>() + before, stream_);
    });
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(wanted.n));
    check(cudaMemcpyAsync(tokens.data(), found.data(), tokens.size() * sizeof(std::int32_t), cudaMemcpyDeviceToHost,
                          stream_),
          "asking how far gates reach");
    check(cudaStreamSynchronize(stream_), "asking how far gates reach");
    std::copy(tokens.begin(), tokens.end(), reach.begin() + wanted.first);
    return reach;
}

CausalArgs DecayedTokens::cut(const Block& block, Span tokens) const {
    CausalArgs a = args_;
    a.B = block.batches, a.H = block.heads, a.N = tokens.n;
    a.q = moved(a.q, a.type, a.q_stride, block.batch, block.head, tokens.first);
    a.k = moved(a.k, a.type, a.k_stride, block.batch, block.head, tokens.first);
    a.v = moved(a.v, a.type, a.v_stride, block.batch, block.head, tokens.first);
    a.o = moved(a.o, a.type, a.o_stride, block.batch, block.head, tokens.first);
    if (a.gamma) a.gamma += block.head;
    return a;
}

void CausalTokens::prepare(const Block& block, float* after) {
    CausalArgs a = cut(block, block.tokens);
    Buffer workspace(method_.steps->workspace(a, after != nullptr), stream_);
    a.workspace = {workspace.data(), workspace.bytes()};
    method_.steps->states(a, after, stream_);
    prepared_.push_back({block.state, block.count(), after != nullptr, std::move(workspace)});
}

std::optional<CausalTokens::Prepared> CausalTokens::taken(const Block& block) {
    std::optional<Prepared> found;
    for (auto it = prepared_.begin(); it != prepared_.end() && !found; ++it) {
        if (it->state != block.state || it->count != block.count()) continue;
        found.emplace(std::move(*it));
        prepared_.erase(it);
        break;
    }
    return found;
}

void CausalTokens::prepare(Span states, bool) {
    if (!has_steps()) return;
    each_block(states, [&](const Block& block, int64_t) {
        if (block.tokens.n > 0) prepare(block, nullptr);
    });
}

void CausalTokens::advance(Span states, float* S) {
    each_block(states, [&](const Block& block, int64_t before) {
        float* const at = S + before * elements();
        if (!has_steps() || block.tokens.n % method_.steps->tokens != 0)
            return Tokens::advance(block, block.tokens, at);
        const Buffer after(static_cast<std::size_t>(block.count() * elements()) * sizeof(float), stream_),
            A(static_cast<std::size_t>(block.count() * carry()) * sizeof(float), stream_);
        prepare(block, after.as<float>());
        map({block.state, block.count()}, A.as<float>());
        apply_maps(block.count(), args_.r, args_.d, carry(), false, A.as<float>(), after.as<float>(), at, at, stream_);
    });
}

void CausalTokens::last(Span states, int64_t n, float* S) {
    if (!has_steps() || n % method_.steps->tokens != 0) return Tokens::last(states, n, S);
    each_block(states, [&](const Block& block, int64_t before) {
        CausalArgs a = cut(block, last_of(block.tokens, n));
        const Buffer workspace(method_.steps->workspace(a, true), stream_);
        a.workspace = {workspace.data(), workspace.bytes()};
        method_.steps->states(a, S + before * elements(), stream_);
    });
}

void CausalTokens::run(const Block& block, Span tokens, float* S, bool hidden) {
    CausalArgs a = cut(block, tokens);
    a.state = S;
    if (tokens.n == block.tokens.n && !hidden) {
        if (const std::optional<Prepared> first = taken(block)) {
            a.workspace = {first->workspace.data(), first->workspace.bytes()};
            return method_.steps->outputs(a, first->with_after, stream_);
        }
    }
    Buffer o;
    if (hidden) {
        o = Buffer(static_cast<std::size_t>(a.B * a.H * a.N * a.d * bytes_of(a.type)), stream_);
        a.o = o.data(), a.o_stride = contiguous(a.H, a.N, a.d);
    }
    const Buffer workspace(method_.workspace(a), stream_);
    a.workspace = {workspace.data(), workspace.bytes()};
    method_.run(a, stream_);
}

void DecayedTokens::map(Span states, float* A) {
    if (!args_.gamma) return;
    std::vector<float> all;
    for (int64_t i = states.first; i < states.first + states.n; ++i)
        all.push_back(static_cast<float>(std::pow(args_.decay_of(i % heads_), static_cast<double>(length(i)))));
    // From pageable memory: the copy has its own of it when this returns.
    check(cudaMemcpyAsync(A, all.data(), all.size() * sizeof(float), cudaMemcpyHostToDevice, stream_),
          "copying the decays");
}

int64_t DecayedTokens::reach_of(double gamma, Type type, int64_t most) {
    const double n = gamma < 1 ? std::ceil(forgotten_bits(type) / -std::log2(gamma)) : INFINITY;
    return n <= static_cast<double>(most) ? static_cast<int64_t>(n) : -1;
}

std::vector<int64_t> DecayedTokens::reach(From) {
    if (!args_.gamma) return {};
    std::vector<int64_t> out;
    for (int64_t i = 0; i < states(); ++i) out.push_back(reach_of(args_.decay_of(i % heads_), type(), length(i) / 4));
    return out;
}

void KeyTokens::advance(Span states, float* S) {
    each_block(states, [&](const Block& block, int64_t before) {
        CausalArgs a = cut(block, block.tokens);
        const Buffer workspace(normalize_workspace(a), stream_);
        a.workspace = {workspace.data(), workspace.bytes()};
        key_sums(a, stream_, S + before * elements());
    });
}

void KeyTokens::run(const Block& block, Span tokens, float* S, bool) {
    CausalArgs a = cut(block, tokens);
    const Buffer workspace(normalize_workspace(a), stream_);
    a.workspace = {workspace.data(), workspace.bytes()};
    normalize(a, stream_, S);
}

}  // namespace causeway::gpu::sharded
