#include "gpu/sharded/heads.hpp"

#include <functional>
#include <tuple>
#include <vector>

#include "gpu/base/copy.hpp"

namespace causeway::gpu::sharded {
namespace {

constexpr const char* doing = "moving heads between GPUs";

// Of a tensor [batch, heads, tokens, ...].
struct Form {
    Index batch, heads, tokens;
    std::size_t token;  // bytes

    explicit Form(const Tensor& x) : batch(x.shape()[0]), heads(x.shape()[1]), tokens(x.shape()[2]) {
        Index width = 1;
        for (int i = 3; i < x.ndim(); ++i) width *= x.shape()[i];
        token = static_cast<std::size_t>(width) * size_of(x.dtype());
    }
    std::size_t bytes(Index rows, Index of_tokens) const { return static_cast<std::size_t>(rows * of_tokens) * token; }
    // Heads of one entry of the batch, all tokens, and of the next one.
    std::size_t entry() const { return bytes(heads, tokens); }
};

char* at(const Tensor& x, std::size_t bytes) { return x.as<char>() + bytes; }

}  // namespace

Tensor in_four(const Tensor& x, bool width) {
    Shape shape;
    for (int i = x.ndim() + (width ? 0 : 1); i < 4; ++i) shape.push_back(1);
    for (int i = 0; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
    if (!width) shape.push_back(1);
    return x.reshape(shape);
}

Tensor HeadTokens::room(const Tensor& x, Index tokens) const {
    Shape shape = x.shape();
    shape[1] = of_rank(comm_.rank(), shape[1]).n, shape[2] = tokens;
    return Tensor(x.dtype(), shape, comm_.stream());
}

Tensor HeadTokens::none(const Tensor& x, Index tokens) const { return room(x, tokens); }

Tensor HeadTokens::of_whole(Held held, const Tensor& x) {
    const Form f(x);
    const kit::Span mine = of_rank(comm_.rank(), f.heads);
    const Tensor out = room(x, f.tokens);
    holds(held, out);
    const std::size_t row = f.bytes(mine.n, f.tokens);
    if (row > 0)
        copy_rows(
            {out.data(), row, at(x, f.bytes(mine.first, f.tokens)), f.entry(), row, static_cast<std::size_t>(f.batch)},
            current_device(), home_, comm_.stream(), doing);
    return out;
}

void HeadTokens::to_whole(const Tensor& mine, const Tensor& to) {
    const Form f(to);
    const kit::Span heads = of_rank(comm_.rank(), f.heads);
    const std::size_t row = f.bytes(heads.n, f.tokens);
    if (row > 0)
        copy_rows({at(to, f.bytes(heads.first, f.tokens)), f.entry(), mine.data(), row, row,
                   static_cast<std::size_t>(f.batch)},
                  home_, current_device(), comm_.stream(), doing);
}

template <class E, class Bytes, class Pack, class Unpack>
void HeadTokens::exchange(const Bytes& to, const Bytes& from, Pack&& pack, Unpack&& unpack) {
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

Tensor HeadTokens::bring(Held held, const Tensor& x, const Starts& starts) {
    if (!workers_.parts) return of_whole(held, x);
    const Form f(x);
    const Tensor out = room(x, starts.back());
    holds(held, out);
    const Index mine = out.shape()[1];
    const auto part = [&](int r) {
        return starts[static_cast<std::size_t>(r) + 1] - starts[static_cast<std::size_t>(r)];
    };
    const std::function<std::size_t(int)> to = [&](int r) {
        return f.bytes(f.batch * of_rank(r, f.heads).n, f.tokens);
    };
    const std::function<std::size_t(int)> from = [&](int r) { return f.bytes(f.batch * mine, part(r)); };
    exchange(
        x.dtype(), to, from,
        [&](int r, char* block) {
            const kit::Span heads = of_rank(r, f.heads);
            const std::size_t row = f.bytes(heads.n, f.tokens);
            if (row > 0)
                copy_rows({block, row, at(x, f.bytes(heads.first, f.tokens)), f.entry(), row,
                           static_cast<std::size_t>(f.batch)},
                          comm_.stream(), doing);
        },
        [&](int r, const char* block) {
            const std::size_t row = f.bytes(1, part(r)), first = f.bytes(1, starts[static_cast<std::size_t>(r)]);
            if (row > 0 && mine > 0)
                copy_rows({at(out, first), f.bytes(1, starts.back()), block, row, row,
                           static_cast<std::size_t>(f.batch * mine)},
                          comm_.stream(), doing);
        });
    return out;
}

void HeadTokens::give(const Tensor& mine, const Tensor& to, const Starts& starts) {
    if (!workers_.parts) return to_whole(mine, to);
    const Form f(to);
    const Index heads_here = mine.shape()[1];
    const auto part = [&](int r) {
        return starts[static_cast<std::size_t>(r) + 1] - starts[static_cast<std::size_t>(r)];
    };
    const std::function<std::size_t(int)> out = [&](int r) { return f.bytes(f.batch * heads_here, part(r)); };
    const std::function<std::size_t(int)> in = [&](int r) {
        return f.bytes(f.batch * of_rank(r, f.heads).n, f.tokens);
    };
    exchange(
        to.dtype(), out, in,
        [&](int r, char* block) {
            const std::size_t row = f.bytes(1, part(r)), first = f.bytes(1, starts[static_cast<std::size_t>(r)]);
            if (row > 0 && heads_here > 0)
                copy_rows({block, row, at(mine, first), f.bytes(1, starts.back()), row,
                           static_cast<std::size_t>(f.batch * heads_here)},
                          comm_.stream(), doing);
        },
        [&](int r, const char* block) {
            const kit::Span heads = of_rank(r, f.heads);
            const std::size_t row = f.bytes(heads.n, f.tokens);
            if (row > 0)
                copy_rows({at(to, f.bytes(heads.first, f.tokens)), f.entry(), block, row, row,
                           static_cast<std::size_t>(f.batch)},
                          comm_.stream(), doing);
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

void HeadTokens::share(const Tensor& x) {
    const Form f(x);
    const auto block = [&](int r) { return f.bytes(of_rank(r, f.heads).n, f.tokens); };
    const auto place = [&](int r) { return at(x, f.bytes(of_rank(r, f.heads).first, f.tokens)); };
    const auto entries = static_cast<std::size_t>(f.batch);
    const std::function<std::size_t(int)> to = [&](int) { return entries * block(comm_.rank()); };
    const std::function<std::size_t(int)> from = [&](int r) { return entries * block(r); };
    exchange(
        x.dtype(), to, from,
        [&](int, char* packed) {
            const std::size_t row = block(comm_.rank());
            if (row > 0) copy_rows({packed, row, place(comm_.rank()), f.entry(), row, entries}, comm_.stream(), doing);
        },
        [&](int r, const char* packed) {
            const std::size_t row = block(r);
            if (row > 0 && r != comm_.rank())
                copy_rows({place(r), f.entry(), packed, row, row, entries}, comm_.stream(), doing);
        });
}

}  // namespace causeway::gpu::sharded
