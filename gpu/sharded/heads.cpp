#include "gpu/sharded/heads.hpp"

#include <tuple>
#include <vector>

#include "gpu/base/copy.hpp"
#include "gpu/sharded/parts.hpp"

namespace causeway::gpu::sharded {
namespace {

constexpr const char* doing = "moving heads between GPUs";

// Of a tensor [batch, heads, tokens, width].
struct Form {
    Index batch, heads, tokens;
    std::size_t token;  // bytes

    explicit Form(const Tensor& x)
        : batch(x.shape()[0]),
          heads(x.shape()[1]),
          tokens(x.shape()[2]),
          token(static_cast<std::size_t>(x.shape()[3]) * size_of(x.dtype())) {}
    std::size_t bytes(Index rows, Index of_tokens) const { return static_cast<std::size_t>(rows * of_tokens) * token; }
};

kit::Span part_of(const Starts& starts, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return {starts[r], starts[r + 1] - starts[r]};
}

}  // namespace

Shape HeadTokens::shape_here(const Tensor& x, Index tokens) const {
    Shape shape = x.shape();
    shape[1] = here(shape[1]).n, shape[2] = tokens;
    return shape;
}

void HeadTokens::copy_heads(const Tensor& x, const kit::Span& heads, char* block, bool to_block) const {
    const Form f(x);
    const std::size_t row = f.bytes(heads.n, f.tokens), entry = f.bytes(f.heads, f.tokens);
    if (row == 0) return;
    char* const place = x.as<char>() + f.bytes(heads.first, f.tokens);
    const auto rows = static_cast<std::size_t>(f.batch);
    const int me = current_device();
    if (to_block) copy_rows({block, row, place, entry, row, rows}, me, home_, comm_.stream(), doing);
    else copy_rows({place, entry, block, row, row, rows}, home_, me, comm_.stream(), doing);
}

void HeadTokens::copy_tokens(const Tensor& x, const kit::Span& tokens, char* block, bool to_block) const {
    const Form f(x);
    const std::size_t row = f.bytes(1, tokens.n), head = f.bytes(1, f.tokens);
    const auto rows = static_cast<std::size_t>(f.batch * f.heads);
    if (row == 0 || rows == 0) return;
    char* const place = x.as<char>() + f.bytes(1, tokens.first);
    copy_rows(to_block ? RowCopy{block, row, place, head, row, rows} : RowCopy{place, head, block, row, row, rows},
              comm_.stream(), doing);
}

template <class E, class To, class From, class Pack, class Unpack>
void HeadTokens::exchange(To&& to, From&& from, Pack&& pack, Unpack&& unpack) {
    const int p = comm_.size(), me = comm_.rank();
    std::vector<Buffer> out, in;
    std::vector<distributed::Transfer> transfers;
    for (int r = 0; r < p; ++r) {
        out.emplace_back(to(r), comm_.stream()), in.emplace_back(r == me ? 0 : from(r), comm_.stream());
        pack(r, out.back().template as<char>());
    }
    for (int r = 0; r < p; ++r) {
        if (r == me) continue;
        const auto& [mine, theirs] = std::tie(out[static_cast<std::size_t>(r)], in[static_cast<std::size_t>(r)]);
        const auto elements = [](const Buffer& x) { return static_cast<Index>(x.bytes() / sizeof(E)); };
        transfers.push_back(comm_.send(mine.template as<E>(), elements(mine), r));
        transfers.push_back(comm_.receive(theirs.template as<E>(), elements(theirs), r));
    }
    comm_.start();
    for (distributed::Transfer& t : transfers) t.wait();
    for (int r = 0; r < p; ++r) unpack(r, (r == me ? out : in)[static_cast<std::size_t>(r)].template as<char>());
}

Tensor HeadTokens::bring(Held held, const Tensor& given, const Starts& starts, bool width) {
    const Tensor x = in_four(given, width);
    const Form f(x);
    const Tensor out(x.dtype(), shape_here(x, workers_.parts ? starts.back() : f.tokens), comm_.stream());
    holds(held, out);
    if (!workers_.parts) {
        copy_heads(x, here(f.heads), out.as<char>(), true);
        return out;
    }
    exchange(
        x.dtype(), [&](int r) { return f.bytes(f.batch * of_rank(r, f.heads).n, f.tokens); },
        [&](int r) { return f.bytes(f.batch * here(f.heads).n, part_of(starts, r).n); },
        [&](int r, char* block) { copy_heads(x, of_rank(r, f.heads), block, true); },
        [&](int r, char* block) { copy_tokens(out, part_of(starts, r), block, false); });
    return out;
}

void HeadTokens::give(const Tensor& made, const Tensor& given, const Starts& starts, bool width) {
    const Tensor to = in_four(given, width);
    const Form f(to);
    const Shape shape = shape_here(to, workers_.parts ? starts.back() : f.tokens);
    const Tensor mine = any() ? made.reshape(shape) : Tensor(to.dtype(), shape, comm_.stream());
    holds(Held::partial, mine);
    if (!workers_.parts) return copy_heads(to, here(f.heads), mine.as<char>(), false);
    exchange(
        to.dtype(), [&](int r) { return f.bytes(f.batch * here(f.heads).n, part_of(starts, r).n); },
        [&](int r) { return f.bytes(f.batch * of_rank(r, f.heads).n, f.tokens); },
        [&](int r, char* block) { copy_tokens(mine, part_of(starts, r), block, true); },
        [&](int r, char* block) { copy_heads(to, of_rank(r, f.heads), block, false); });
}

Tensor HeadTokens::bring_states(const Tensor& S) {
    const Tensor out(S.dtype(), shape_here(S, S.shape()[2]), comm_.stream());
    holds(Held::state, out);
    copy_heads(S, here(S.shape()[1]), out.as<char>(), true);
    return out;
}

void HeadTokens::give_states(const Tensor& mine, const Tensor& to) {
    if (!any()) return;
    holds(Held::state, mine);
    copy_heads(to, here(to.shape()[1]), mine.as<char>(), false);
}

void HeadTokens::share(const Tensor& given, bool width) {
    const Tensor x = in_four(given, width);
    const Form f(x);
    const auto bytes = [&](int r) { return f.bytes(f.batch * of_rank(r, f.heads).n, f.tokens); };
    exchange(
        x.dtype(), [&](int) { return bytes(comm_.rank()); }, bytes,
        [&](int, char* block) { copy_heads(x, here(f.heads), block, true); },
        [&](int r, char* block) {
            if (r != comm_.rank()) copy_heads(x, of_rank(r, f.heads), block, false);
        });
}

LinearOptions of_heads(HeadTokens& heads, const gated::Call& call, const LinearOptions& o,
                       const std::optional<Tensor>& states, const Starts& starts, cudaStream_t stream) {
    const auto& n = call.sizes;
    LinearOptions own = o;
    own.stream = stream, own.check_gates = false;
    const auto gates = [&](const Tensor& given) {
        const Tensor g = heads.bring(Held::shard, given, starts);
        const Shape& s = g.shape();
        return s[3] == 1 ? g.reshape({s[0], s[1], s[2]}) : g;
    };
    if (n.gates > 0) own.log_decay = gates(call.log_decay);
    if (causeway::gated::has_delta(n.update)) own.beta = gates(call.beta);
    if (states) own.state = heads.bring_states(states->reshape(n.state_shape));
    return own;
}

}  // namespace causeway::gpu::sharded
