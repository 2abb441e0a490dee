#include "gpu/sharded/softmax_ring.hpp"

#include <memory>

#include "gpu/base/buffer.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gradient/softmax.hpp"
#include "gpu/sharded/merge.hpp"
#include "gpu/sharded/part.hpp"
#include "gpu/softmax/decode.hpp"

namespace causeway::gpu::sharded {

namespace {

using causeway::sharded::Held;
using causeway::sharded::Room;

// The keys of an owner that a piece of queries sees: M tokens of its block from the `first` on, the keys of one
// sequence, the last of them to be masked causally.
struct Seen {
    Index first = 0, M = 0;
    bool diagonal = false;
};
class Sight {
public:
    explicit Sight(const SoftmaxRing& z) : z_(z) {
        for (const auto& keys : z.keys) {
            auto& places = places_.emplace_back(1, 0);
            for (const kit::Span& k : keys) places.push_back(places.back() + k.n);
        }
    }
    // By the i-th piece of a rank's queries, `q`.
    Seen operator()(const kit::Span& q, std::size_t i, int owner) const {
        const auto& keys = z_.keys_of(owner);
        const std::size_t each = z_.pieces_of_one > 0 ? z_.pieces_of_one : keys.size(),
                          begin = z_.pieces_of_one > 0 ? i / each * each : 0;
        Seen seen;
        if (q.n == 0) return seen;
        seen.first = places_[static_cast<std::size_t>(owner)][begin];
        for (std::size_t j = begin; j < begin + each; ++j) {
            if (z_.causal && keys[j].first > q.first) break;
            seen.M += keys[j].n;
            seen.diagonal = z_.causal && keys[j].first == q.first;
        }
        return seen;
    }

private:
    const SoftmaxRing& z_;
    std::vector<std::vector<Index>> places_;  // of every owner, the keys before a piece
};

// n tokens of the heads of every entry, from [batch, heads, n, width] with strides to where heads are `all` tokens
// apart.
template <class E>
void pack_rows(E* to, Index all, const void* from, const Strides& s, Index batch, Index heads, Index n, Index width,
               cudaStream_t stream) {
    const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(E); };
    for (Index b = 0; b < batch; ++b)
        copy_rows({to + b * heads * all * width, bytes(all * width), static_cast<const E*>(from) + b * s.batch,
                   bytes(s.head), bytes(n * width), static_cast<std::size_t>(heads)},
                  stream, "copying tokens");
}

// In a block the keys of all heads stand before the values, [all heads, tokens of the owner, width].
template <class E>
void pack_keys(const SoftmaxRing& z, const std::vector<KeyPiece>& pieces, int rank, E* block, cudaStream_t stream) {
    const auto& keys = z.keys_of(rank);
    const Index all = causeway::sharded::length_of(keys);
    Index before = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        const KeyPiece& x = pieces[i];
        pack_rows(block + before * z.d, all, x.k, x.k_stride, z.batch, z.heads, keys[i].n, z.d, stream);
        pack_rows(block + z.all_heads() * all * z.d + before * z.dv, all, x.v, x.v_stride, z.batch, z.heads, keys[i].n,
                  z.dv, stream);
        before += keys[i].n;
    }
}

// N queries, still to be named, with what they see of a block that has `all` keys of a head.
template <class E>
SoftmaxArgs pair(const SoftmaxRing& z, Type type, Index N, Index all, const Seen& seen, const E* block) {
    SoftmaxArgs a;
    a.type = type;
    a.batch = z.batch, a.heads = z.heads, a.N = N, a.M = seen.M;
    a.group = static_cast<int>(z.group), a.d = static_cast<int>(z.d), a.dv = static_cast<int>(z.dv);
    a.causal = seen.diagonal, a.scale = static_cast<float>(z.scale);
    a.k = block + seen.first * z.d, a.v = block + z.all_heads() * all * z.d + seen.first * z.dv;
    a.k_stride = contiguous(z.heads, all, a.d), a.v_stride = contiguous(z.heads, all, a.dv);
    return a;
}

template <class E>
class FlashRing final : public causeway::sharded::RingPart<E> {
public:
    FlashRing(Communicator& comm, const SoftmaxRing& z, const RingTensors& x, cudaStream_t stream)
        : comm_(comm), z_(z), sight_(z), x_(x), stream_(stream), most_(0), pieces_(z.queries_of(comm.rank()).size()) {
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            Piece& piece = pieces_[i];
            piece.span = z.queries_of(comm.rank())[i];
            for (int owner = 0; owner < comm.size(); ++owner) piece.left += sight_(piece.span, i, owner).M > 0;
            if (piece.left < 2) continue;
            most_ = std::max(most_, rows(piece));
            piece.o = std::make_unique<Room<E>>(comm, Held::work, rows(piece) * z.dv);
            if (piece.left > 2) piece.sum = std::make_unique<Room<float>>(comm, Held::partial, rows(piece) * z.dv);
        }
        part_ = std::make_unique<Room<E>>(comm, Held::work, most_ * z.dv);
        part_lse_ = std::make_unique<Room<float>>(comm, Held::work, most_);
    }

    void start(E* block) override { pack_keys(z_, x_.keys, comm_.rank(), block, stream_); }

    void attend(int owner, const E* block) override {
        const Index all = causeway::sharded::length_of(z_.keys_of(owner));
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            Piece& piece = pieces_[i];
            const Seen seen = sight_(piece.span, i, owner);
            if (seen.M == 0) continue;
            const QueryPiece& x = x_.queries[i];
            SoftmaxArgs a = pair(z_, x_.type, piece.span.n, all, seen, block);
            a.q = x.q, a.q_stride = x.q_stride;
            const bool first = !piece.begun, last = --piece.left == 0;
            piece.begun = true;
            if (first && last) {
                a.o = x.o, a.o_stride = x.o_stride, a.lse = x.lse;
            } else {
                a.o = first ? piece.o->data() : part_->data();
                a.o_stride = contiguous(z_.heads * z_.group, a.N, a.dv);
                a.lse = first ? x.lse : part_lse_->data();
            }
            const Buffer workspace(flash_decoding_workspace(a), stream_);
            a.workspace = {workspace.data(), workspace.bytes()};
            flash_decoding(a, stream_);
            if (!first) merge(piece, x, last);
        }
    }

    void finish() override {}

private:
    struct Piece {
        kit::Span span;
        int left = 0;  // owners that it has still to see
        bool begun = false, summed = false;
        std::unique_ptr<Room<E>> o;        // of the first owner
        std::unique_ptr<Room<float>> sum;  // where there are more than two
    };
    Index rows(const Piece& piece) const { return z_.all_heads() * z_.group * piece.span.n; }

    void merge(Piece& piece, const QueryPiece& x, bool last) {
        MergedRows m;
        m.batch = z_.batch, m.heads = z_.heads * z_.group, m.N = piece.span.n, m.dv = static_cast<int>(z_.dv);
        m.type = x_.type;
        m.o_is_sum = piece.summed;
        if (piece.summed) m.o = piece.sum->data();
        else m.o = piece.o->data();
        m.lse = x.lse;
        m.part = part_->data(), m.part_lse = part_lse_->data();
        m.out_is_sum = !last;
        if (last) m.out = x.o, m.out_stride = x.o_stride;
        else m.out = piece.sum->data(), m.out_stride = contiguous(m.heads, m.N, m.dv);
        merge_rows(m, stream_);
        piece.summed = true;
    }

    Communicator& comm_;
    const SoftmaxRing& z_;
    Sight sight_;
    const RingTensors& x_;
    cudaStream_t stream_;
    Index most_;
    std::vector<Piece> pieces_;
    std::unique_ptr<Room<E>> part_;
    std::unique_ptr<Room<float>> part_lse_;
};

// The backward pass: the gradients of keys and values are Float32 sums, which travel.
template <class E>
class FlashRingBack final : public causeway::sharded::RingGradPart<E, float> {
public:
    FlashRingBack(Communicator& comm, const SoftmaxRing& z, const RingGradTensors& x, cudaStream_t stream)
        : comm_(comm),
          z_(z),
          sight_(z),
          x_(x),
          stream_(stream),
          query_heads_(z.all_heads() * z.group),
          part_(comm, Held::work, z.all_heads() * z.longest_keys() * (z.d + z.dv)) {
        Index most = 0;
        for (const kit::Span& t : z.queries_of(comm.rank())) {
            Piece& piece = pieces_.emplace_back();
            const Index rows = query_heads_ * t.n;
            piece.q = std::make_unique<Room<E>>(comm, Held::query, rows * z.d);
            piece.o = std::make_unique<Room<E>>(comm, Held::query, rows * z.dv);
            piece.dO = std::make_unique<Room<E>>(comm, Held::query, rows * z.dv);
            piece.dq = std::make_unique<Room<float>>(comm, Held::partial, rows * z.d);
            most = std::max(most, rows * z.d);
        }
        part_dq_ = std::make_unique<Room<E>>(comm, Held::work, most);
    }

    void own_keys(E* block) override { pack_keys(z_, x_.keys, comm_.rank(), block, stream_); }
    void clear(float* sum) override { queue_zeros(sum, z_.all_heads() * z_.longest_keys() * (z_.d + z_.dv), stream_); }
    void add(float* sum, const float* x) override {
        const Index n = z_.elements_of(comm_.rank());
        add_rows({1, n, 1, Type::Float32, sum, n}, x, n, stream_);
    }
    void start() override {
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            const Index n = z_.queries_of(comm_.rank())[i].n;
            const QueryGradPiece& x = x_.queries[i];
            const auto bring = [&](Room<E>& to, const void* from, const Strides& s, Index width) {
                pack_rows(to.data(), n, from, s, z_.batch, z_.heads * z_.group, n, width, stream_);
            };
            bring(*pieces_[i].q, x.q, x.q_stride, z_.d);
            bring(*pieces_[i].o, x.o, x.o_stride, z_.dv);
            bring(*pieces_[i].dO, x.dO, x.o_stride, z_.dv);
            queue_zeros(pieces_[i].dq->data(), query_heads_ * n * z_.d, stream_);
        }
    }

    void back(int owner, const E* block, causeway::sharded::PieceRange queries, float* sum) override {
        const Index all = causeway::sharded::length_of(z_.keys_of(owner)), values = z_.all_heads() * all * z_.d;
        for (std::size_t i = queries.first; i < queries.end; ++i) {
            const kit::Span t = z_.queries_of(comm_.rank())[i];
            const Seen seen = sight_(t, i, owner);
            if (seen.M == 0) continue;
            Piece& piece = pieces_[i];
            SoftmaxGradArgs a;
            a.in = pair(z_, x_.type, t.n, all, seen, block);
            a.in.q = piece.q->data(), a.in.q_stride = contiguous(z_.heads * z_.group, t.n, a.in.d);
            a.in.o = piece.o->data(), a.in.o_stride = contiguous(z_.heads * z_.group, t.n, a.in.dv);
            a.in.lse = x_.queries[i].lse;
            a.dO = piece.dO->data();
            E *const dk = part_.data() + seen.first * z_.d, *const dv = part_.data() + values + seen.first * z_.dv;
            float *const sum_k = sum + seen.first * z_.d, *const sum_v = sum + values + seen.first * z_.dv;
            a.dq = part_dq_->data(), a.dk = dk, a.dv = dv;
            const Buffer workspace(flash_attention_grad_workspace(a), stream_);
            a.in.workspace = {workspace.data(), workspace.bytes()};
            flash_attention_grad(a, stream_);
            add_rows(sums(query_heads_, t.n, z_.d, piece.dq->data(), t.n), part_dq_->data(), t.n * z_.d, stream_);
            add_rows(sums(z_.all_heads(), seen.M, z_.d, sum_k, all), dk, all * z_.d, stream_);
            add_rows(sums(z_.all_heads(), seen.M, z_.dv, sum_v, all), dv, all * z_.dv, stream_);
        }
    }

    void finish(const float* sum) override {
        for (std::size_t i = 0; i < pieces_.size(); ++i) {
            const Index n = z_.queries_of(comm_.rank())[i].n;
            round_rows(sums(query_heads_, n, z_.d, pieces_[i].dq->data(), n), z_.batch, x_.queries[i].dq,
                       x_.queries[i].q_stride, stream_);
        }
        const auto& keys = z_.keys_of(comm_.rank());
        const Index all = causeway::sharded::length_of(keys), values = z_.all_heads() * all * z_.d;
        Index before = 0;
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const KeyPiece& x = x_.keys[i];
            float* const at = const_cast<float*>(sum);  // read alone
            round_rows(sums(z_.all_heads(), keys[i].n, z_.d, at + before * z_.d, all), z_.batch, x_.dk[i], x.k_stride,
                       stream_);
            round_rows(sums(z_.all_heads(), keys[i].n, z_.dv, at + values + before * z_.dv, all), z_.batch, x_.dv[i],
                       x.v_stride, stream_);
            before += keys[i].n;
        }
    }

private:
    struct Piece {
        std::unique_ptr<Room<E>> q, o, dO;
        std::unique_ptr<Room<float>> dq;
    };
    // Rows whose heads are `tokens` tokens apart.
    SummedRows sums(Index heads, Index n, Index width, float* sum, Index tokens) const {
        return {heads, n, static_cast<int>(width), x_.type, sum, tokens * width};
    }

    Communicator& comm_;
    const SoftmaxRing& z_;
    Sight sight_;
    const RingGradTensors& x_;
    cudaStream_t stream_;
    Index query_heads_;
    std::vector<Piece> pieces_;
    Room<E> part_;  // dk and dv of a pair
    std::unique_ptr<Room<E>> part_dq_;
};

template <class E>
void run(Communicator& comm, const SoftmaxRing& z, const RingTensors& x, cudaStream_t stream) {
    FlashRing<E> part(comm, z, x, stream);
    causeway::sharded::softmax_ring<E>(comm, z, part);
}

template <class E>
void run_back(Communicator& comm, const SoftmaxRing& z, const RingGradTensors& x, cudaStream_t stream) {
    FlashRingBack<E> part(comm, z, x, stream);
    causeway::sharded::softmax_ring_back<E, float>(comm, z, part);
}

}  // namespace

void softmax_ring(Communicator& comm, const SoftmaxRing& z, const RingTensors& x, cudaStream_t stream) {
    if (x.type == Type::Float32) run<float>(comm, z, x, stream);
    else run<std::uint16_t>(comm, z, x, stream);
}

void softmax_ring_back(Communicator& comm, const SoftmaxRing& z, const RingGradTensors& x, cudaStream_t stream) {
    if (x.type == Type::Float32) run_back<float>(comm, z, x, stream);
    else run_back<std::uint16_t>(comm, z, x, stream);
}

}  // namespace causeway::gpu::sharded
