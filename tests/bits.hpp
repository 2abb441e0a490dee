// The contract of bits, for tests on the CPU and on a GPU: random calls of what a program has, each made twice, and
// once with another end, in a batch or packed among other texts. A case is drawn from the seed of the run and its own
// number alone.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"
#include "tests/threads.hpp"

namespace causeway::test::bits {

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
    std::vector<Tensor> outputs;  // with tokens as the arguments have them: [1, heads, N, width] or [1, heads, N]
    Tensor state;                 // or the gradient of one
    std::optional<Tensor> checkpoints;
};
struct Kind {
    std::string name;
    std::vector<Argument> arguments;
    std::optional<Shape> state;  // of one text, where the call takes one
    DType state_type = DType::f32;
    bool pools = false;
    bool prefix = true;  // promises that later tokens and what else is in the call change nothing; without, a packed
                         // text has the bits of a call with it alone
    std::function<Result(const Joined&)> call;
};

inline Box whole(const Tensor& A) {
    Box box;
    for (int i = 0; i < A.ndim(); ++i) box.count[static_cast<std::size_t>(i)] = A.shape()[i];
    return box;
}

inline Tensor tokens(const Tensor& A, Index first, Index n) {
    Box box = whole(A);
    box.first[2] = first, box.count[2] = n;
    return part(A, box);
}

inline bool same(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() &&
           (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}
inline bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return same(x, y); });
}

class Case {
public:
    virtual ~Case() = default;

    Case(std::uint64_t seed, long number) {
        std::seed_seq both{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                           static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)};
        draw_.seed(both);
    }

    // "" where the contract holds, else what does not.
    std::string run(std::string& name) {
        const Kind kind = drawn_kind();
        name = kind.name;
        const test::Threads restored;
        const Text text = drawn(kind, length());
        sizes_ = "N = " + std::to_string(text.N);
        for (const Tensor& A : text.arguments) sizes_ += ", " + A.shape().text();
        const Result first = alone(kind, text), again = alone(kind, text);
        if (!same(first.outputs, again.outputs) || !same(first.state, again.state) ||
            (first.checkpoints && !same(*first.checkpoints, *again.checkpoints)))
            return "other bits in a second call";
        const Index kept = kind.prefix ? below(text.N + 1) : text.N;
        const Text other = kind.prefix ? with_other_end(kind, text, kept) : text;
        sizes_ += "; " + std::to_string(kept) + " kept of " + std::to_string(other.N);
        const Result got = among_others(kind, other);
        const auto beginning = [&](std::vector<Tensor> outputs) {
            for (Tensor& A : outputs) A = tokens(A, 0, kept);
            return outputs;
        };
        if (!same(beginning(first.outputs), beginning(got.outputs))) return "other bits in outputs";
        if (kept == text.N && other.N == text.N && kind.state && !same(first.state, got.state))
            return "other bits in the last state";
        return "";
    }

    // Of the text, for who looks into a case.
    const std::string& sizes() const { return sizes_; }

protected:
    virtual Kind drawn_kind() = 0;
    virtual Index width() { return coin() ? 1 + below(20) : 1 + below(70); }
    // Mostly short, around the lengths of blocks and chunks too.
    virtual Index length() {
        if (below(40) == 0) return 250 + below(800);
        return coin() ? 1 + below(40) : 1 + below(200);
    }

    Index below(Index n) { return static_cast<Index>(draw_() % static_cast<std::uint64_t>(n)); }
    bool coin() { return draw_() % 2 == 0; }
    double uniform() { return std::uniform_real_distribution<double>()(draw_); }
    // Nearly so, of mean 0 and variance 1: four uniform numbers out of one draw, since drawing is what takes the time.
    double normal() {
        const std::uint64_t bits = draw_();
        double sum = -2;
        for (int part = 0; part < 4; ++part) sum += static_cast<double>(bits >> (16 * part) & 0xFFFF) / 65536;
        return sum * 1.7320508075688772;
    }
    template <class T>
    T one_of(const std::vector<T>& list) {
        return list[static_cast<std::size_t>(below(static_cast<Index>(list.size())))];
    }

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
        const bool packed = !kind.prefix || coin();
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
        for (Tensor& A : out.outputs)
            A = packed ? tokens(A, call.cu_seqlens[static_cast<std::size_t>(place)], text.N) : entry(A, place);
        return out;
    }

    double gate_ = 0.1;  // the usual size of a log gate

private:
    std::mt19937_64 draw_;
    std::string sizes_;
};

struct Fault {
    long cases = 0, first = 0;
    std::string sizes;
};

// How many of the cases first, first + 1, ... break the contract, each kind told with its first case. With `seconds`
// above 0 no case begins after them, and `count` becomes the number of those that ran.
template <class C>
long faults(long first, long& count, long seconds = 0) {
    std::map<std::string, Fault> found;
    const auto begun = std::chrono::steady_clock::now();
    for (long i = first; i < first + count; ++i) {
        if (seconds > 0 && std::chrono::steady_clock::now() - begun > std::chrono::seconds(seconds)) count = i - first;
        if (i == first + count) break;
        std::string kind;
        C one(random::seed(), i);
        std::string what;
        try {
            what = one.run(kind);
        } catch (const Error& error) {
            what = error.what();
        }
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

inline long number_in(const char* variable, long otherwise) {
    const char* given = std::getenv(variable);
    return given ? std::atol(given) : otherwise;
}

// The search of a hidden test: CAUSEWAY_BITS_CASES cases (100000) from CAUSEWAY_BITS_CASE (0) on, where that is given
// alone this one case, for CAUSEWAY_BITS_SECONDS at most; their number and the faults in a line.
template <class C>
void search(const char* name) {
    const long first = number_in("CAUSEWAY_BITS_CASE", -1);
    long count = number_in("CAUSEWAY_BITS_CASES", first < 0 ? 100000 : 1);
    const long found = faults<C>(std::max(first, 0L), count, number_in("CAUSEWAY_BITS_SECONDS", 0));
    std::printf("%s: %ld cases, %ld faults\n", name, count, found);
    CHECK(found == 0);
}

}  // namespace causeway::test::bits
