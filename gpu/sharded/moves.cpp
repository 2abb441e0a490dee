#include "gpu/sharded/moves.hpp"

#include <algorithm>

#include "gpu/base/copy.hpp"

namespace causeway::gpu::sharded {
namespace {

using distributed::Transfer;

// Tokens of a tensor that lie one after the other, in places of the tensor.
using Places = std::vector<kit::Span>;

Index tokens_of(const Places& places) {
    Index n = 0;
    for (const kit::Span& t : places) n += t.n;
    return n;
}

std::size_t bytes_of(const Whole& x, Index tokens) { return static_cast<std::size_t>(tokens * x.width) * x.element; }

// Between the places of x and a block that has them one after the other, each with all its rows.
void copy_places(const Whole& x, const Places& places, char* block, bool to_block, cudaStream_t stream) {
    for (const kit::Span& t : places) {
        if (t.n == 0 || x.rows == 0) continue;
        char* const at = static_cast<char*>(x.data) + bytes_of(x, t.first);
        const std::size_t row = bytes_of(x, x.N), n = bytes_of(x, t.n);
        const auto rows = static_cast<std::size_t>(x.rows);
        copy_rows(to_block ? RowCopy{block, n, at, row, n, rows} : RowCopy{at, row, block, n, n, rows}, stream,
                  "moving tokens between GPUs");
        block += n * rows;
    }
}

// Tokens to or from other ranks, the same to all of them.
struct Packed {
    std::vector<int> peers;
    Places places;
    Buffer data{};
    std::vector<Transfer> transfers{};
};

// post(elements, their number) for so many bytes of elements of 32 or 16 bits, by which a message is counted, or else
// of bytes.
template <class Post>
Transfer post_as(std::size_t element, char* data, std::size_t bytes, Post&& post) {
    const auto as = [&](auto* x) { return post(x, static_cast<Index>(bytes / sizeof *x)); };
    if (element == sizeof(float)) return as(reinterpret_cast<float*>(data));
    if (element == sizeof(std::uint16_t)) return as(reinterpret_cast<std::uint16_t*>(data));
    return as(data);
}

// Sends what lies in `out` of x and receives what belongs in `in` of y, each from one rank.
void exchange(QueuedCommunicator& comm, const Whole& x, std::vector<Packed> out, const Whole& y,
              std::vector<Packed> in) {
    const auto room = [&](const Whole& of, Packed& b) {
        b.data = Buffer(static_cast<std::size_t>(of.rows) * bytes_of(of, tokens_of(b.places)), comm.stream());
    };
    const auto each = [](const Whole& of, std::vector<Packed>& blocks, auto&& post) {
        for (Packed& b : blocks)
            for (const int peer : b.peers)
                b.transfers.push_back(post_as(of.element, b.data.as<char>(), b.data.bytes(),
                                              [&](auto* data, Index n) { return post(data, n, peer); }));
    };
    for (Packed& b : out) room(x, b), copy_places(x, b.places, b.data.as<char>(), true, comm.stream());
    for (Packed& b : in) room(y, b);
    each(x, out, [&](auto* data, Index n, int peer) { return comm.send(data, n, peer); });
    each(y, in, [&](auto* data, Index n, int peer) { return comm.receive(data, n, peer); });
    comm.start();
    for (std::vector<Packed>* blocks : {&in, &out})
        for (Packed& b : *blocks)
            for (Transfer& t : b.transfers) t.wait();
    for (Packed& b : in) copy_places(y, b.places, b.data.as<char>(), false, comm.stream());
}

// Of the pieces that lie one after the other in `mine`, the places of the tokens that are in `others` too.
Places common(const std::vector<kit::Span>& mine, const std::vector<kit::Span>& others) {
    Places out;
    Index place = 0;
    for (const kit::Span& a : mine) {
        for (const kit::Span& b : others) {
            const Index first = std::max(a.first, b.first), last = std::min(a.first + a.n, b.first + b.n);
            if (first < last) out.push_back({place + first - a.first, last - first});
        }
        place += a.n;
    }
    return out;
}

const std::vector<kit::Span>& of(const Shares& shares, int rank) { return shares[static_cast<std::size_t>(rank)]; }

}  // namespace

void gather_tokens(QueuedCommunicator& comm, const Shares& shares, const Whole& x) {
    std::vector<Packed> out, in;
    out.push_back({{}, of(shares, comm.rank())});
    for (int r = 0; r < comm.size(); ++r)
        if (r != comm.rank()) out[0].peers.push_back(r), in.push_back({{r}, of(shares, r)});
    exchange(comm, x, std::move(out), x, std::move(in));
}

void redistribute(QueuedCommunicator& comm, const Shares& from, const Whole& x, const Shares& to, const Whole& y) {
    const int me = comm.rank();
    std::vector<Packed> out, in;
    for (int r = 0; r < comm.size(); ++r) {
        if (r == me) continue;
        out.push_back({{r}, common(of(from, me), of(to, r))}), in.push_back({{r}, common(of(to, me), of(from, r))});
    }
    exchange(comm, x, std::move(out), y, std::move(in));
    // Its own tokens, in the same order on both sides: of a token of either side the other has one.
    const Places here = common(of(from, me), of(to, me)), there = common(of(to, me), of(from, me));
    const Buffer own(static_cast<std::size_t>(x.rows) * bytes_of(x, tokens_of(here)), comm.stream());
    copy_places(x, here, own.as<char>(), true, comm.stream());
    copy_places(y, there, own.as<char>(), false, comm.stream());
}

void give_to_all(QueuedCommunicator& comm, int owner, void* data, std::size_t bytes, std::size_t element) {
    std::vector<Transfer> transfers;
    const auto post = [&](auto&& f) { transfers.push_back(post_as(element, static_cast<char*>(data), bytes, f)); };
    if (comm.rank() != owner) post([&](auto* x, Index n) { return comm.receive(x, n, owner); });
    for (int r = 0; r < comm.size() && comm.rank() == owner; ++r)
        if (r != owner) post([&](auto* x, Index n) { return comm.send(x, n, r); });
    comm.start();
    for (Transfer& t : transfers) t.wait();
}

}  // namespace causeway::gpu::sharded
