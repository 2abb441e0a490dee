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

void Tokens::outputs(Span states, Span tokens, float* S) {
    if (tokens.n == 0) return;
    each_block(states, [&](const Block& block, int64_t before) {
        run(block, tokens, S ? S + before * elements() : nullptr, false);
    });
}

void Tokens::advance(Span states, Span tokens, float* S) {
    each_block(states, [&](const Block& block, int64_t before) {
        const int64_t each =
            std::max<int64_t>(1, hidden_numbers / (block.count() * output_width()) / hidden_tokens) * hidden_tokens;
        for (int64_t t = 0; t < tokens.n; t += each)
            run(block, {tokens.first + t, std::min(each, tokens.n - t)}, S + before * elements(), true);
    });
}

void Tokens::last(Span states, int64_t n, float* S) {
    check(cudaMemsetAsync(S, 0, static_cast<std::size_t>(states.n * elements()) * sizeof(float), stream_),
          "clearing a state");
    advance(states, {N_ - n, n}, S);
}

GatedTokens::GatedTokens(const GatedArgs& args, std::string mode, cudaStream_t stream)
    : Tokens(args.B, args.H, args.N, stream), args_(args), mode_(std::move(mode)) {}

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

void GatedTokens::run(const Block& block, Span tokens, float* S, bool hidden) { run(cut(block), tokens, S, hidden); }

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

void GatedTokens::map(Span states, float* A) {
    if (!args_.beta) {
        if (args_.g) multiply_gates({args_.g + states.first * N_ * args_.gates, states.n, N_, args_.gates}, A, stream_);
        return;
    }
    // What the rule makes of the unit matrix with values of zero.
    const int columns = args_.dk;
    make_unit(A, states.n, columns, stream_);
    each_block(states, [&](const Block& block, int64_t before) {
        GatedArgs a = cut(block);
        const int64_t each = std::min(hidden_tokens, N_);
        const Buffer zeros(static_cast<std::size_t>(block.count() * each * columns * bytes_of(a.type)), stream_);
        if (zeros.bytes() > 0) check(cudaMemsetAsync(zeros.data(), 0, zeros.bytes(), stream_), "making values of zero");
        a.dv = columns;
        a.v_stride = contiguous(block.heads, each, columns);
        for (int64_t t = 0; t < N_; t += each) {
            a.v = moved(static_cast<const void*>(zeros.data()), a.type, a.v_stride, 0, 0, -t);  // read from token t on
            run(a, {t, std::min(each, N_ - t)}, A + before * a.dk * columns, true);
        }
    });
}

std::vector<int64_t> GatedTokens::reach(From from, int64_t most) {
    if (!args_.g || states() == 0) return {};
    const Buffer found(static_cast<std::size_t>(states()) * sizeof(std::int32_t), stream_);
    find_reach({args_.g, states(), N_, args_.gates}, from, forgotten_bits(type()), std::min(most, searched_tokens),
               found.as<std::int32_t>(), stream_);
    std::vector<std::int32_t> reach(static_cast<std::size_t>(states()));
    check(cudaMemcpyAsync(reach.data(), found.data(), found.bytes(), cudaMemcpyDeviceToHost, stream_),
          "asking how far gates reach");
    check(cudaStreamSynchronize(stream_), "asking how far gates reach");
    return {reach.begin(), reach.end()};
}

DecayedTokens::DecayedTokens(const CausalArgs& args, cudaStream_t stream)
    : Tokens(args.B, args.H, args.N, stream), args_(args) {
    for (int64_t h = 0; h < args.H; ++h)
        powers_.push_back(static_cast<float>(std::pow(args.decay_of(h), static_cast<double>(args.N))));
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
    CausalArgs a = cut(block, {0, N_});
    Buffer workspace(method_.steps->workspace(a, after != nullptr), stream_);
    a.workspace = {workspace.data(), workspace.bytes()};
    method_.steps->states(a, after, stream_);
    prepared_.push_back({block.batch * heads_ + block.head, block.count(), after != nullptr, std::move(workspace)});
}

std::optional<CausalTokens::Prepared> CausalTokens::taken(const Block& block) {
    std::optional<Prepared> found;
    for (auto it = prepared_.begin(); it != prepared_.end() && !found; ++it) {
        if (it->state != block.batch * heads_ + block.head || it->count != block.count()) continue;
        found.emplace(std::move(*it));
        prepared_.erase(it);
        break;
    }
    return found;
}

void CausalTokens::prepare(Span states) {
    if (!in_steps()) return;
    each_block(states, [&](const Block& block, int64_t) { prepare(block, nullptr); });
}

void CausalTokens::advance(Span states, Span tokens, float* S) {
    if (!in_steps() || tokens.n != N_ || N_ % method_.steps->tokens != 0) return Tokens::advance(states, tokens, S);
    const Buffer after(static_cast<std::size_t>(states.n * elements()) * sizeof(float), stream_),
        A(static_cast<std::size_t>(states.n * carry()) * sizeof(float), stream_);
    each_block(states,
               [&](const Block& block, int64_t before) { prepare(block, after.as<float>() + before * elements()); });
    map(states, A.as<float>());
    apply_maps(states.n, args_.r, args_.d, carry(), A.as<float>(), after.as<float>(), S, S, stream_);
}

void CausalTokens::last(Span states, int64_t n, float* S) {
    if (!in_steps() || n % method_.steps->tokens != 0) return Tokens::last(states, n, S);
    each_block(states, [&](const Block& block, int64_t before) {
        CausalArgs a = cut(block, {N_ - n, n});
        const Buffer workspace(method_.steps->workspace(a, true), stream_);
        a.workspace = {workspace.data(), workspace.bytes()};
        method_.steps->states(a, S + before * elements(), stream_);
    });
}

void CausalTokens::run(const Block& block, Span tokens, float* S, bool hidden) {
    CausalArgs a = cut(block, tokens);
    a.state = S;
    if (tokens.n == N_ && !hidden && S) {
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
        all.push_back(powers_[static_cast<std::size_t>(i % heads_)]);
    // From pageable memory: the copy has its own of it when this returns.
    check(cudaMemcpyAsync(A, all.data(), all.size() * sizeof(float), cudaMemcpyHostToDevice, stream_),
          "copying the decays");
}

int64_t DecayedTokens::reach_of(double gamma, Type type, int64_t most) {
    const double n = gamma < 1 ? std::ceil(forgotten_bits(type) / -std::log2(gamma)) : INFINITY;
    return n <= static_cast<double>(most) ? static_cast<int64_t>(n) : -1;
}

std::vector<int64_t> DecayedTokens::reach(From, int64_t most) {
    if (!args_.gamma) return {};
    std::vector<int64_t> out;
    for (int64_t i = 0; i < states(); ++i) out.push_back(reach_of(args_.decay_of(i % heads_), type(), most));
    return out;
}

void KeyTokens::advance(Span states, Span tokens, float* S) {
    each_block(states, [&](const Block& block, int64_t before) {
        CausalArgs a = cut(block, tokens);
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
