#include "gpu/engine/worker.hpp"

#include "core/base/eigen.hpp"  // half, bfloat16
#include "gpu/base/buffer.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/softmax/params.hpp"

namespace causeway::gpu {
namespace {

using distributed::minus_infinity;
using distributed::Shard;
using distributed::Share;
using distributed::Sizes;
using distributed::Triples;

template <class E>
class FlashWorker final : public distributed::OnDevice<E> {
public:
    FlashWorker(Rank& rank, Type type, const Share<E>& share) : rank_(rank), type_(type), share_(share) {
        const Sizes& z = share.sizes;
        check_widths(z);
        q_ = Buffer(bytes(z.rows() * z.dk), stream());
        copy(q_.as<E>(), share.q, z.rows() * z.dk, z.rows() * z.dk, z.rows() * z.dk, 1);
        o_ = rank.shared.take(bytes(z.rows() * z.dv) + 1),
        lse_ = rank.shared.take(static_cast<std::size_t>(z.rows()) * sizeof(float) + 1);
        row_.resize(static_cast<std::size_t>(z.dv));
        stream().wait();
    }

    Shard<E> take() override {
        const Sizes& z = share_.sizes;
        const Shard<E>& all = share_.shard;
        block_ = Buffer(bytes(z.all_heads() * all.length * (z.dk + z.dv)));
        pack(z, all, block_.as<E>());
        const E* k = block_.as<E>();
        return {k, k + z.all_heads() * all.length * z.dk, all.length * z.dk, all.length * z.dv, all.start, all.length};
    }

    void pack(const Sizes& z, const Shard<E>& shard, E* block) override {
        copy(block, shard.k, shard.length * z.dk, shard.length * z.dk, shard.k_head, z.all_heads());
        copy(block + z.all_heads() * shard.length * z.dk, shard.v, shard.length * z.dv, shard.length * z.dv,
             shard.v_head, z.all_heads());
        stream().wait();
    }

    void add(const Sizes& z, const Shard<E>& shard, const Triples<float>& x) override {
        attend(z, shard);
        for (Index i = 0; i < z.rows(); ++i) distributed::add_triple(x, i, z.dv, lse(z, i), 1.0f, o(z, i));
    }

    void shift(const Sizes& z, const Shard<E>& shard, float* m) override {
        attend(z, shard);
        for (Index i = 0; i < z.rows(); ++i) m[i] = lse(z, i);
    }

    // After shift: o and lse of the shard are there.
    void weigh(const Sizes& z, const Shard<E>&, const float* m, const float* l, float* D, Index step, float* n,
               Index n_step) override {
        for (Index i = 0; i < z.rows(); ++i) {
            const float w = std::exp(lse(z, i) - m[i] - (l ? l[i] : 0));
            if (D) D[i * step] = w;
            if (!n) continue;
            const float* x = o(z, i);
            for (Index c = 0; c < z.dv; ++c) n[i * n_step + c] = w * x[c];
        }
    }

private:
    const Stream& stream() const { return *rank_.kernels; }
    static std::size_t bytes(Index elements) { return static_cast<std::size_t>(elements) * sizeof(E); }

    // `rows` pieces of n elements between the CPU and the GPU, from_next apart, to places to_next apart.
    void copy(E* to, const E* from, Index n, Index to_next, Index from_next, Index rows) {
        copy_rows({to, bytes(to_next), from, bytes(from_next), bytes(n), static_cast<std::size_t>(rows)}, stream(),
                  "copying between the CPU and the GPU");
    }

    // o and lse of all queries over the shard. Causal, and the shard ends before the last key: the first queries do not
    // see its last key, so that for them it is one key shorter and ends where the last of them stands; the others see
    // all of it.
    void attend(const Sizes& z, const Shard<E>& shard) {
        const Index end = shard.start + shard.length;
        first_ = 0;
        if (!z.causal) {
            attend(z, shard, 0, z.N, shard.length, false);
        } else if (end == z.M) {
            attend(z, shard, 0, z.N, shard.length, true);
        } else {
            first_ = std::clamp<Index>(end - 1 - (z.M - z.N), 0, z.N);
            attend(z, shard, 0, first_, std::max<Index>(shard.length - 1, 0), true);
            attend(z, shard, first_, z.N, shard.length, false);
        }
        stream().wait();
    }

    // Queries from ... to - 1 and so many keys of the shard.
    void attend(const Sizes& z, const Shard<E>& shard, Index from, Index to, Index keys, bool causal) {
        const Index heads = z.batch * z.query_heads, N = to - from;
        if (N == 0 || heads == 0) return;
        float* logs =
            static_cast<float*>(lse_.get()) + from * heads;  // those of the queries before are a tensor of their own
        E* output = static_cast<E*>(o_.get()) + from * z.dv;
        if (keys == 0) {
            std::fill_n(logs, heads * N, minus_infinity<float>);
            for (Index h = 0; h < heads; ++h) std::fill_n(output + h * z.N * z.dv, N * z.dv, E(0));
            return;
        }
        SoftmaxArgs a;
        a.type = type_;
        a.batch = z.batch, a.heads = z.heads, a.N = N, a.M = keys;
        a.group = static_cast<int>(z.query_heads / z.heads), a.d = static_cast<int>(z.dk),
        a.dv = static_cast<int>(z.dv);
        a.q = q_.as<E>() + from * z.dk, a.k = shard.k, a.v = shard.v, a.lse = logs;
        a.q_stride = {z.query_heads * z.N * z.dk, z.N * z.dk, z.dk};
        a.k_stride = {z.heads * shard.k_head, shard.k_head, z.dk},
        a.v_stride = {z.heads * shard.v_head, shard.v_head, z.dv};
        a.causal = causal;
        a.scale = static_cast<float>(z.scale);
        // A few rows are written straight into the memory that the CPU reads, many go through the device's.
        const bool few = a.rows() <= softmax::max_decoded_rows(type_);
        Buffer there;
        if (few) {
            a.o = output, a.o_stride = {z.query_heads * z.N * z.dv, z.N * z.dv, z.dv};
        } else {
            there = Buffer(bytes(heads * N * z.dv), stream());
            a.o = there.data(), a.o_stride = contiguous(z.query_heads, N, a.dv);
        }
        const Buffer workspace(flash_decoding_workspace(a), stream());
        a.workspace = {workspace.data(), workspace.bytes()};
        flash_decoding(a, stream());
        if (few) return;
        copy(output, there.as<E>(), N * z.dv, z.N * z.dv, N * z.dv, heads);
    }

    float lse(const Sizes& z, Index row) const {
        const Index heads = z.batch * z.query_heads, h = row / z.N, i = row % z.N;
        return static_cast<const float*>(
            lse_.get())[i < first_ ? h * first_ + i : heads * first_ + h * (z.N - first_) + i - first_];
    }

    const float* o(const Sizes& z, Index row) {
        const E* from = static_cast<const E*>(o_.get()) + row * z.dv;
        if constexpr (sizeof(E) == 4) return from;
        else if (type_ == Type::BFloat16) std::copy_n(reinterpret_cast<const bfloat16*>(from), z.dv, row_.begin());
        else std::copy_n(reinterpret_cast<const half*>(from), z.dv, row_.begin());
        return row_.data();
    }

    Rank& rank_;
    Type type_;
    Share<E> share_;
    Buffer q_, block_;
    std::shared_ptr<void> o_, lse_;  // [batch, query_heads, N, dv]; [batch, query_heads, first_] and the rest behind it
    std::vector<float> row_;
    Index first_ = 0;  // queries of the first of two calls
};

}  // namespace

void check_widths(const Sizes& z) {
    using softmax::max_width;
    if (z.dk < 1 || z.dv < 1 || z.dk > max_width || z.dv > max_width)
        fail("q: widths ", z.dk, " and ", z.dv, " of k and v, expected from 1 to ", max_width, " with engine \"nccl\"");
}

template <class E>
std::unique_ptr<distributed::OnDevice<E>> flash_worker(Rank& rank, Type type, const Share<E>& share) {
    return std::make_unique<FlashWorker<E>>(rank, type, share);
}
template std::unique_ptr<distributed::OnDevice<float>> flash_worker(Rank&, Type, const Share<float>&);
template std::unique_ptr<distributed::OnDevice<std::uint16_t>> flash_worker(Rank&, Type, const Share<std::uint16_t>&);

}  // namespace causeway::gpu
