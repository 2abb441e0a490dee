// The kernels of one GPU on its part of the tokens, for some of the heads at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpu/base/buffer.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/gated/problem.hpp"
#include "gpu/sharded/maps.hpp"

namespace causeway::gpu::sharded {

struct Span {
    std::int64_t first, n;
};

// Everything is queued on the stream. States are numbered entry of the batch by entry, or sequence by sequence of those
// that are packed into one entry, and lie one after the other in Float32; of A, what a part makes of the state before
// it, core/sharded/states.hpp.
class Tokens {
public:
    // packed: of every packed sequence its tokens here, one sequence behind the other; none: each entry is one.
    Tokens(std::int64_t batch, std::int64_t heads, std::int64_t N, cudaStream_t stream, std::vector<Span> packed)
        : batch_(batch), heads_(heads), N_(N), packed_(std::move(packed)), stream_(stream) {}
    virtual ~Tokens() = default;
    Tokens(const Tokens&) = delete;
    Tokens& operator=(const Tokens&) = delete;

    bool is_packed() const { return !packed_.empty(); }
    std::int64_t states() const { return (is_packed() ? static_cast<std::int64_t>(packed_.size()) : batch_) * heads_; }
    // Tokens of a state's sequence.
    std::int64_t length(std::int64_t state) const {
        return is_packed() ? packed_[static_cast<std::size_t>(state / heads_)].n : N_;
    }
    cudaStream_t stream() const { return stream_; }
    virtual std::int64_t rows() const = 0;
    virtual std::int64_t columns() const = 0;
    virtual std::int64_t carry() const = 0;  // numbers of A
    virtual Type type() const = 0;
    std::int64_t elements() const { return rows() * columns(); }

    // The outputs of all tokens; S: in and out.
    virtual void outputs(Span states, float* S);
    // S alone.
    virtual void advance(Span states, float* S);
    // S <- the state after the last n tokens, from zeros before them; where sequences are packed, of heads of one.
    virtual void last(Span states, std::int64_t n, float* S);
    // What of the outputs does not hang on the state before them: outputs() of the same states does not do it again.
    // Does nothing where there is no such thing. goes_on: the state after the last tokens is wanted before the outputs.
    virtual void prepare(Span /*states*/, bool /*goes_on*/) {}
    virtual bool in_steps() const { return false; }  // Part::in_steps of core/sharded/part.hpp
    virtual void map(Span states, float* A) = 0;
    // Of every state the first or last tokens whose gates together leave less than 2^-forgotten_bits of what was before
    // them (maps.hpp), -1: more than a quarter of them, or none of a neighbour's sequences; may wait for the stream.
    // None: nothing is forgotten.
    virtual std::vector<std::int64_t> reach(From) { return {}; }
    // As a share of a state's numbers, what rounding makes of two ways to it: four places of the factors of its
    // products, which in Float32 are those of three products in BFloat16.
    virtual float rounding() const {
        return type() == Type::Float32 ? 0x1p-15f : type() == Type::BFloat16 ? 0x1p-7f : 0x1p-10f;
    }

protected:
    // Heads of a rectangle of [batch, heads], and which tokens of the tensors they have.
    struct Block {
        std::int64_t batch, batches, head, heads, state;  // state: the first of them
        Span tokens;
        std::int64_t count() const { return batches * heads; }
    };
    // f(block, states before it) for the rectangles of a range of states: of packed sequences heads of one.
    template <class F>
    void each_block(Span states, F&& f) const {
        for (std::int64_t done = 0; done < states.n;) {
            const std::int64_t from = states.first + done, batch = from / heads_, head = from % heads_,
                               left = states.n - done, whole = head == 0 && !is_packed() ? left / heads_ : 0;
            Block block{batch, 1, head, std::min(heads_ - head, left), from, {0, N_}};
            if (is_packed()) block.batch = 0, block.tokens = packed_[static_cast<std::size_t>(batch)];
            if (whole > 0) block.batches = whole, block.heads = heads_;
            f(block, done);
            done += block.count();
        }
    }
    // S alone, after some of the tokens.
    void advance(const Block&, Span tokens, float* S);
    // S: in and out, null: zeros, dropped; hidden: what is written nobody reads.
    virtual void run(const Block&, Span tokens, float* S, bool hidden) = 0;
    // Numbers that a token of a head has of outputs.
    virtual std::int64_t output_width() const { return std::max<std::int64_t>(1, columns()); }

    std::int64_t batch_, heads_, N_;
    std::vector<Span> packed_;
    cudaStream_t stream_;
};

// The element of [batch, heads, N, width] at a token of a head.
template <class P>
P moved(P data, Type type, const Strides& s, std::int64_t batch, std::int64_t head, std::int64_t token = 0) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<P>>, const char, char>;
    const std::int64_t n = batch * s.batch + head * s.head + token * s.token;
    return data ? static_cast<Byte*>(data) + n * bytes_of(type) : nullptr;
}

// Linear attention with gates and delta rules: `args` is the part without state and workspace, its gates contiguous.
class GatedTokens : public Tokens {
public:
    // in_steps: in the steps of a form that has them; on one of several ranks if on all.
    GatedTokens(const GatedArgs& args, std::string mode, cudaStream_t stream, std::vector<Span> packed = {},
                bool in_steps = false);
    // Whether the form that computes a call has steps, once the call has tokens.
    static bool has_steps(const std::string& mode, const GatedArgs& args);

    std::int64_t rows() const override { return args_.dk; }
    Type type() const override { return args_.type; }
    std::int64_t columns() const override { return args_.dv; }
    std::int64_t carry() const override {
        return args_.beta ? std::int64_t{args_.dk} * args_.dk : args_.g ? args_.gates : 0;
    }
    // Packed sequences together where a kernel takes them so.
    void outputs(Span states, float* S) override;
    void advance(Span states, float* S) override;
    void prepare(Span states, bool goes_on) override;
    bool in_steps() const override { return in_steps_; }
    void map(Span states, float* A) override;
    std::vector<std::int64_t> reach(From) override;
    bool gates() const { return args_.g != nullptr; }

protected:
    void run(const Block&, Span tokens, float* S, bool hidden) override;
    std::int64_t output_width() const override { return std::max<std::int64_t>(1, args_.dv) * args_.group; }
    GatedArgs cut(const Block&) const;  // all tokens of these heads

    // Some tokens of those of cut(). Kernels take no strides of gates: unless they are of all tokens they are copied,
    // to g and beta.
    GatedArgs of_tokens(GatedArgs, Span tokens, Buffer& g, Buffer& beta) const;

private:
    void run(GatedArgs a, Span tokens, float* S, bool hidden);
    // All heads of some packed sequences.
    void outputs_together(Span sequences, float* S);
    // The gates of a block's tokens alone, in `own` where they are not contiguous.
    GateRows gates_of(const Block&, Buffer& own) const;

    struct Prepared {
        std::int64_t state, count;  // of a block
        bool goes_on;
        bool advanced = false;
        Buffer workspace;
    };
    Prepared* prepared(const Block&);  // null: it is not

    GatedArgs args_;
    std::string mode_;
    bool in_steps_;
    std::vector<Prepared> prepared_;
};

// With a fixed decay of every head.
class DecayedTokens : public Tokens {
public:
    DecayedTokens(const CausalArgs& args, cudaStream_t stream, std::vector<Span> packed = {})
        : Tokens(args.B, args.H, args.N, stream, std::move(packed)), args_(args) {}
    // Tokens after which a decay leaves less than 2^-forgotten_bits of the type; -1: more than `most`.
    static std::int64_t reach_of(double gamma, Type type, std::int64_t most);

    std::int64_t rows() const override { return args_.r; }
    Type type() const override { return args_.type; }
    std::int64_t carry() const override { return args_.gamma ? 1 : 0; }
    void map(Span states, float* A) override;
    std::vector<std::int64_t> reach(From) override;

protected:
    CausalArgs cut(const Block&, Span tokens) const;

    CausalArgs args_;
};

// Causal linear attention by a method that carries a state.
class CausalTokens final : public DecayedTokens {
public:
    CausalTokens(const CausalArgs& args, const CausalMethod& method, cudaStream_t stream, std::vector<Span> packed = {})
        : DecayedTokens(args, stream, std::move(packed)), method_(method) {}

    std::int64_t columns() const override { return args_.d; }
    // In the two steps of a method that has them, the first is made once for both: what is prepared stays so.
    void advance(Span states, float* S) override;
    void last(Span states, std::int64_t n, float* S) override;
    void prepare(Span states, bool goes_on) override;

protected:
    void run(const Block&, Span tokens, float* S, bool hidden) override;

private:
    struct Prepared {
        std::int64_t state, count;  // of a block
        bool with_after;
        Buffer workspace;
    };
    bool has_steps() const { return method_.steps && method_.steps->possible(args_); }
    // The first step of all tokens of a block; after: [count, rows, columns], or null.
    void prepare(const Block&, float* after);
    std::optional<Prepared> taken(const Block&);  // what is prepared of the block, for its outputs

    const CausalMethod& method_;
    std::vector<Prepared> prepared_;
};

// What normalised attention divides by (gpu/exact/normalize.hpp): the states are sums of keys, and what is written are
// the outputs that are there, divided. To divide twice is wrong, so nothing is forgotten.
class KeyTokens final : public DecayedTokens {
public:
    using DecayedTokens::DecayedTokens;

    std::int64_t columns() const override { return 1; }
    std::vector<std::int64_t> reach(From) override { return {}; }
    void advance(Span states, float* S) override;

protected:
    void run(const Block&, Span tokens, float* S, bool hidden) override;
};

}  // namespace causeway::gpu::sharded
