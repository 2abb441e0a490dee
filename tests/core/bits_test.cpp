// The contract of bits on the CPU: no bit of an output up to a token depends on later tokens and their gates, on the
// length of the text, on what else is in the batch or packed beside it, on the slot of its state or on the number of
// threads; and a call has the same bits every time. Random cases; the long search is hidden.
//
//     causeway-tests "[.bits-long]"      CAUSEWAY_BITS_CASES of them (100000), and a line with their number
//
// A case is drawn from the seed of the run and its own number alone: CAUSEWAY_TEST_SEED with CAUSEWAY_BITS_CASE is
// that case by itself.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/general/general_linear_attention.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"
#include "tests/threads.hpp"

using namespace causeway;

namespace {

enum class Entries { normal, positive, unit, key, log_gate, factor, strength };

// An argument with tokens: [1, heads, N, width], or [1, heads, N] for width 0.
struct Argument {
    Entries entries;
    Index heads, width;
    DType type;
};

// One text: what each argument has for it, and the state that it starts from.
struct Text {
    Index N = 0;
    std::vector<Tensor> arguments;
    Tensor state;
};

// What is called: the arguments joined, the states joined or a pool, the offsets of packed texts or none, the slots.
struct Joined {
    std::vector<Tensor> arguments;
    std::optional<Tensor> state;
    std::vector<Index> cu_seqlens, slots;
};
struct Result {
    Tensor O, state;
    std::optional<Tensor> checkpoints;
};
struct Kind {
    std::string name;
    std::vector<Argument> arguments;
    std::optional<Shape> state;  // of one text, where the call takes one
    DType state_type = DType::f32;
    bool pools = false;
    bool prefix = true;  // promises that later tokens and what else is in the call change nothing
    std::function<Result(const Joined&)> call;
};

Box whole(const Tensor& A) {
    Box box;
    for (int i = 0; i < A.ndim(); ++i) box.count[static_cast<std::size_t>(i)] = A.shape()[i];
    return box;
}

Tensor tokens(const Tensor& A, Index first, Index n) {
    Box box = whole(A);
    box.first[2] = first, box.count[2] = n;
    return part(A, box);
}

bool same(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() &&
           (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

class Case {
public:
    Case(std::uint64_t seed, long number) {
        std::seed_seq both{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                           static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)};
        draw_.seed(both);
    }

    // "" where the contract holds, else what does not.
    std::string run(std::string& name) {
        const Index which = below(8);
        const Kind kind = which < 4 ? gated() : which < 6 ? general() : exact();
        name = kind.name;
        const test::Threads restored;
        const Text text = drawn(kind, length());
        sizes_ = "N = " + std::to_string(text.N);
        for (const Tensor& A : text.arguments) sizes_ += ", " + A.shape().text();
        const Result first = alone(kind, text), again = alone(kind, text);
        if (!same(first.O, again.O) || !same(first.state, again.state) ||
            (first.checkpoints && !same(*first.checkpoints, *again.checkpoints)))
            return "other bits in a second call";
        if (!kind.prefix) return "";
        const Index kept = below(text.N + 1);
        const Text other = with_other_end(kind, text, kept);
        sizes_ += "; " + std::to_string(kept) + " kept of " + std::to_string(other.N);
        const Result got = among_others(kind, other);
        if (!same(tokens(first.O, 0, kept), tokens(got.O, 0, kept))) return "other bits in outputs";
        if (kept == text.N && other.N == text.N && kind.state && !same(first.state, got.state))
            return "other bits in the last state";
        return "";
    }

    // Of the text, for who looks into a case.
    const std::string& sizes() const { return sizes_; }

private:
    Index below(Index n) { return static_cast<Index>(draw_() % static_cast<std::uint64_t>(n)); }
    bool coin() { return draw_() % 2 == 0; }
    double uniform() { return std::uniform_real_distribution<double>()(draw_); }
    double normal() { return std::normal_distribution<double>()(draw_); }
    template <class T>
    T one_of(const std::vector<T>& list) {
        return list[static_cast<std::size_t>(below(static_cast<Index>(list.size())))];
    }

    // Mostly short, around the lengths of blocks and chunks too.
    Index length() {
        if (below(40) == 0) return 250 + below(800);
        return coin() ? 1 + below(40) : 1 + below(200);
    }
    Index width() { return coin() ? 1 + below(20) : 1 + below(70); }
    DType type() { return one_of<DType>({DType::f32, DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16}); }

    double log_gate() {
        switch (below(20)) {
            case 0: return -std::numeric_limits<double>::infinity();
            case 1: return -1000;
            case 2: return -60;
            case 3: return 0;
            default: return -gate_ * std::abs(normal());
        }
    }

    Tensor entries(const Argument& a, Index N) {
        const Shape shape = a.width > 0 ? Shape{1, a.heads, N, a.width} : Shape{1, a.heads, N};
        Tensor out(a.type, shape);
        const double size = a.width > 0 ? 1 / std::sqrt(static_cast<double>(a.width)) : 1;
        for (Index i = 0; i < out.size(); ++i) {
            switch (a.entries) {
                case Entries::positive: out.set(i, std::abs(normal()) + 0.1); break;
                case Entries::key: out.set(i, normal() * size); break;
                case Entries::unit: out.set(i, (2 * uniform() - 1) * size); break;
                case Entries::log_gate: out.set(i, log_gate()); break;
                case Entries::factor: out.set(i, (coin() ? 1 : -1) * std::exp(log_gate())); break;
                case Entries::strength: out.set(i, uniform()); break;
                default: out.set(i, normal());
            }
        }
        return out;
    }

    Text drawn(const Kind& kind, Index N) {
        Text out;
        out.N = N;
        for (const Argument& a : kind.arguments) out.arguments.push_back(entries(a, N));
        if (kind.state) {
            out.state = Tensor(kind.state_type, *kind.state);
            for (Index i = 0; i < out.state.size(); ++i) out.state.set(i, std::abs(normal()) + 0.1);
        }
        return out;
    }

    // The first `kept` tokens of a text, and others behind them.
    Text with_other_end(const Kind& kind, const Text& text, Index kept) {
        const Index N = below(4) == 0 ? text.N : kept + below(3) * below(120);
        Text out = drawn(kind, std::max(N, kept));
        out.state = text.state;
        for (std::size_t i = 0; i < out.arguments.size(); ++i) {
            Box box = whole(out.arguments[i]);
            box.count[2] = kept;
            if (kept > 0) assign(out.arguments[i], box, tokens(text.arguments[i], 0, kept));
        }
        return out;
    }

    static Joined joined(const std::vector<Text>& texts, bool packed, bool state) {
        Joined out;
        for (std::size_t i = 0; i < texts[0].arguments.size(); ++i) {
            std::vector<Tensor> parts;
            for (const Text& t : texts) parts.push_back(t.arguments[i]);
            out.arguments.push_back(concatenate(parts, packed ? 2 : 0));
        }
        if (packed) {
            out.cu_seqlens.push_back(0);
            for (const Text& t : texts) out.cu_seqlens.push_back(out.cu_seqlens.back() + t.N);
        }
        if (!state) return out;
        std::vector<Tensor> states;
        for (const Text& t : texts) states.push_back(t.state);
        out.state = concatenate(states, 0);
        return out;
    }

    // The states in random slots of a pool whose other slots are NaN.
    void put_into_pool(Joined& call) {
        const Tensor states = *call.state;
        Shape shape = states.shape();
        const Index n = shape[0];
        shape[0] = n + below(3);
        Tensor pool = Tensor::full(states.dtype(), shape, std::numeric_limits<double>::quiet_NaN());
        for (Index i = 0; i < shape[0]; ++i) call.slots.push_back(i);
        std::shuffle(call.slots.begin(), call.slots.end(), draw_);
        call.slots.resize(static_cast<std::size_t>(n));
        const std::size_t bytes = states.bytes() / static_cast<std::size_t>(n);
        for (std::size_t i = 0; i < call.slots.size(); ++i)
            std::memcpy(pool.raw() + static_cast<std::size_t>(call.slots[i]) * bytes, states.raw() + i * bytes, bytes);
        call.state = pool;
    }

    Result alone(const Kind& kind, const Text& text) {
        set_threads(1 + static_cast<int>(below(3)));
        return kind.call(joined({text}, false, kind.state.has_value()));
    }

    // Of the text between random others, in a batch or packed; the state as a text alone returns it.
    Result among_others(const Kind& kind, const Text& text) {
        const bool packed = coin();
        std::vector<Text> texts;
        for (Index mates = below(4); mates > 0; --mates)
            texts.push_back(drawn(kind, packed ? below(3) * below(100) : text.N));
        const Index place = below(static_cast<Index>(texts.size()) + 1);
        texts.insert(texts.begin() + place, text);
        Joined call = joined(texts, packed, kind.state.has_value());
        if (kind.pools && kind.state && coin()) put_into_pool(call);
        set_threads(1 + static_cast<int>(below(3)));
        Result out = kind.call(call);
        const auto entry = [&](const Tensor& A, Index i) {
            Box box = whole(A);
            box.first[0] = i, box.count[0] = 1;
            return part(A, box);
        };
        if (out.state.size() > 0) out.state = entry(out.state, place);
        if (packed) out.O = tokens(out.O, call.cu_seqlens[static_cast<std::size_t>(place)], text.N);
        else out.O = entry(out.O, place);
        return out;
    }

    // Heads of values that share heads of keys and of queries, or heads of queries that share a state.
    struct Heads {
        Index q, k, v;
    };
    Heads heads() {
        return one_of<Heads>({{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 2, 2}, {3, 1, 1}, {2, 2, 4}, {1, 2, 2}, {1, 1, 3}});
    }

    void put_state(Kind& kind, const Shape& shape, DType type) {
        if (coin()) return;
        kind.state = shape;
        kind.state_type = type == DType::f64 ? type : one_of<DType>({DType::f32, DType::f32, DType::bf16, DType::f16});
    }

    Kind gated() {
        Kind kind;
        LinearOptions o;
        o.update = one_of<std::string>(gated::updates().names());
        o.mode = one_of<std::string>(gated::modes().names());
        if (coin()) o.chunk = 1 + below(100);
        if (coin()) o.scale = 0.125;
        if (below(4) == 0) o.checkpoint_every = 1 + below(70);
        gate_ = one_of<double>({0.001, 0.1, 2});
        const Heads h = heads();
        const Index dk = width(), dv = width();
        const DType t = type(), gates = t == DType::f64 ? t : DType::f32;
        kind.arguments = {{Entries::normal, h.q, dk, t}, {Entries::unit, h.k, dk, t}, {Entries::normal, h.v, dv, t}};
        const bool gate = o.update.starts_with("gated"), delta = o.update.ends_with("delta"), channels = coin();
        if (gate) kind.arguments.push_back({Entries::log_gate, h.v, channels ? dk : 0, gates});
        if (delta) kind.arguments.push_back({Entries::strength, h.v, 0, gates});
        put_state(kind, {1, h.v, dk, dv}, t);
        kind.pools = true;
        kind.name = o.update + (gate && channels ? " (channels) " : " ") + o.mode + " " + causeway::name(t);
        kind.call = [=](const Joined& in) {
            LinearOptions with = o;
            if (gate) with.log_decay = in.arguments[3];
            if (delta) with.beta = in.arguments.back();
            with.state = in.state, with.cu_seqlens = in.cu_seqlens, with.state_indices = in.slots;
            LinearResult out = linear_attention(in.arguments[0], in.arguments[1], in.arguments[2], with);
            return Result{out.O, out.state, out.checkpoints};
        };
        return kind;
    }

    Kind general() {
        Kind kind;
        GeneralOptions o;
        o.mode = one_of<std::string>(gated::modes().names());
        if (coin()) o.chunk = 1 + below(60);
        gate_ = one_of<double>({0.001, 0.1, 2});
        const Heads h = heads();
        const Index dk = width(), dv = width(), a_width = coin() ? dk : 0;
        const DType t = type();
        kind.arguments = {{Entries::normal, h.q, dk, t}, {Entries::key, h.k, dk, t}, {Entries::normal, h.v, dv, t}};
        const bool a = coin(), erases = coin();
        if (a) kind.arguments.push_back({Entries::factor, h.v, a_width, t});
        if (erases) {
            kind.arguments.push_back({Entries::unit, h.v, dk, t});
            kind.arguments.push_back({Entries::unit, h.v, dk, t});
        }
        put_state(kind, {1, h.v, dk, dv}, t);
        if (kind.state && t != DType::f64) kind.state_type = DType::f32;
        kind.name = "general " + o.mode + (a ? a_width > 0 ? ", a a row" : ", a" : "") + (erases ? ", u w " : " ") +
                    causeway::name(t);
        kind.call = [=](const Joined& in) {
            GeneralOptions with = o;
            if (a) with.a = in.arguments[3];
            if (erases) with.u = in.arguments[in.arguments.size() - 2], with.w = in.arguments.back();
            with.state = in.state, with.cu_seqlens = in.cu_seqlens;
            LinearResult out = general_linear_attention(in.arguments[0], in.arguments[1], in.arguments[2], with);
            return Result{out.O, out.state, out.checkpoints};
        };
        return kind;
    }

    Kind exact() {
        Kind kind;
        const auto& list = exact::methods();
        const exact::Method& m = *std::next(list.begin(), below(static_cast<Index>(list.size())));
        CausalOptions o;
        o.method = m.name;
        o.normalize = below(3) == 0;
        if (m.block > 0 && coin()) o.block = 1 + below(150);
        if (coin()) o.scale = 0.125;
        const Index h = 1 + below(3), r = width(), d = width();
        if (coin())
            for (Index i = 0; i < h; ++i) o.decay.push_back(one_of<double>({1, 0.999, 0.9, 0.3}));
        const DType t = type();
        const Entries sign = o.normalize ? Entries::positive : Entries::normal;
        kind.arguments = {{sign, h, r, t}, {sign, h, r, t}, {Entries::normal, h, d, t}};
        if (m.state) put_state(kind, {1, h, r, d + (o.normalize ? 1 : 0)}, t);
        o.return_state = kind.state.has_value();
        if (kind.state && below(4) == 0) o.checkpoint_every = 1 + below(70);
        kind.pools = true;
        kind.prefix = m.prefix;
        if (m.prefix && coin()) o.deterministic = "prefix";
        kind.name = m.name + (o.normalize ? ", normalised " : " ") + causeway::name(t);
        kind.call = [=](const Joined& in) {
            CausalOptions with = o;
            with.state = in.state, with.cu_seqlens = in.cu_seqlens, with.state_indices = in.slots;
            CausalResult out = causal_linear_attention(in.arguments[0], in.arguments[1], in.arguments[2], with);
            return Result{out.O, out.state, out.checkpoints};
        };
        return kind;
    }

    std::mt19937_64 draw_;
    std::string sizes_;
    double gate_ = 0.1;
};

struct Fault {
    long cases = 0, first = 0;
    std::string sizes;
};

// How many of the cases first, first + 1, ... break the contract, each kind told with its first case.
long faults(long first, long count) {
    std::map<std::string, Fault> found;
    for (long i = first; i < first + count; ++i) {
        std::string kind;
        Case one(random::seed(), i);
        const std::string what = one.run(kind);
        if (what.empty()) continue;
        Fault& f = found[kind + ": " + what];
        if (f.cases++ == 0) f.first = i, f.sizes = one.sizes();
    }
    long all = 0;
    for (const auto& [what, f] : found) {
        all += f.cases;
        FAIL_CHECK(what << " in " << f.cases << " cases, first with CAUSEWAY_BITS_CASE=" << f.first << " (" << f.sizes
                        << ")");
    }
    return all;
}

long number_in(const char* variable, long otherwise) {
    const char* given = std::getenv(variable);
    return given ? std::atol(given) : otherwise;
}

}  // namespace

TEST_CASE("no bit up to a token depends on what comes after it or stands beside it", "[bits]") {
    CHECK(faults(0, 300) == 0);
}

TEST_CASE("no bit up to a token depends on what comes after it or stands beside it, for long", "[.bits-long]") {
    const long alone = number_in("CAUSEWAY_BITS_CASE", -1);
    const long count = alone < 0 ? number_in("CAUSEWAY_BITS_CASES", 100000) : 1;
    const long found = faults(std::max(alone, 0L), count);
    std::printf("bits: %ld cases, %ld faults\n", count, found);
    CHECK(found == 0);
}
