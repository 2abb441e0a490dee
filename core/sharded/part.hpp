// A rank's part of a sequence as the exchanges of states see it: which states pass through it, and what its tokens make
// of them (states.hpp says what A and B are).
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/distributed/communicator.hpp"

namespace causeway::sharded {

using distributed::Work;

// A state that passes through a rank, or begins or ends there.
struct Stop {
    Index state = 0;                     // its number among all of the call
    bool before = false, after = false;  // whether it comes from the rank before and goes to the next one
    int begins = 0, ends = 0;            // the ranks where its sequence begins and ends
    Index slot = -1;                     // its number among the states that leave a rank anywhere; -1: it does not
};

// What is known without data.
struct Route {
    Index elements = 0;  // of a state
    Index carry = 0;     // elements of A: 0 where it is 1, or 1, d_k, d_k²
    Index rows = 0;      // d_k
    Index slots = 0;     // states that leave a rank anywhere
    std::vector<Stop> stops;
    int together = 1;       // states that a rank computes at once, on threads of its own
    int most_together = 1;  // the most of any rank, on the CPU
    bool packed = false;    // whether some sequences follow others in the same tokens
    // Whether all ranks have the same stops, and the same number of them together: then neighbours go in one message.
    bool alike = false;
    // The way of gradients of states, from later ranks to earlier ones: what is said of a stop is said of that way, and
    // maps are those of the way of states, to be transposed.
    bool back = false;

    Index count() const { return static_cast<Index>(stops.size()); }
    const Stop& operator[](Index k) const { return stops[static_cast<std::size_t>(k)]; }
    int step() const { return back ? -1 : 1; }  // from a rank to the next one
    // The way of gradients that belongs to a way of states.
    Route backwards() const {
        Route out = *this;
        out.back = true;
        for (Stop& s : out.stops) std::swap(s.before, s.after), std::swap(s.begins, s.ends);
        return out;
    }
};

using Stops = std::span<const Stop>;

// What a rank computes with its tokens of some states at once; they lie one after the other, each S [d_k, d_v], in
// memory of the communicator's: on a GPU all functions but forgets() and remains() only queue.
template <class T>
class Part {
public:
    virtual ~Part() = default;
    virtual void firsts(Stops, T* S) const = 0;    // S <- the states before the first token of the sequence
    virtual void lasts(Stops, const T* S) = 0;     // the states after its last token
    virtual void runs(Stops, T* S) = 0;            // the outputs; S <- A S + B
    virtual void advances(Stops, T* S) const = 0;  // S <- A S + B alone
    virtual void maps(Stops, T* A) const = 0;      // A
    // What of the outputs does not hang on the states before them, where there is such a thing: runs() does not do it
    // again. advances() has done it.
    virtual void prepares(Stops) {}
    // Whether prepares() makes maps of pieces of the part, through which advances() of the same stops, called once,
    // takes a state quickly: then a scan needs no map of the whole part.
    virtual bool in_steps() const { return false; }
    virtual void clear(T* x, Index n) const = 0;  // x <- 0
    virtual void copy(const T* from, Index n, T* to) const = 0;
    // out <- A S + B, one state after the other; on the way back Aᵀ S + B.
    virtual void applies(const Route&, Index n, const T* A, const T* B, const T* S, T* out) const = 0;

    // Heads that forget: where the gates of the rank's last tokens leave next to nothing of what was before them, the
    // state after them depends on these tokens alone, and can be handed on before all else.
    virtual bool may_forget() const { return false; }
    virtual std::vector<char> forgets(Stops stops) { return std::vector<char>(stops.size()); }  // asked of all stops
    virtual void last_tokens(Stops, T* /*S*/) {}  // S <- the state after those tokens, from zeros before them
    // Whether a state is another one than that which was handed on in its place, beyond rounding.
    virtual std::vector<char> differ(Stops stops, const T* /*S*/, const T* /*handed*/) {
        return std::vector<char>(stops.size());
    }
    // What differ could not say yet as it only queued, of all stops, asked once, after the last one.
    virtual std::vector<char> remains(Stops stops) { return std::vector<char>(stops.size()); }

    virtual Work run_work(Index i) const = 0;      // of runs, for state i
    virtual Work advance_work(Index i) const = 0;  // of advances
    virtual Work map_work(Index /*i*/) const { return {}; }
};

// A part that the CPU computes state by state, those of a block at once on threads of their own: any function may be
// called for different states at once. Base: Part<T> or GradPart<T>.
template <class T, class Base = Part<T>>
class ByState : public Base {
public:
    explicit ByState(Index elements, Index carry) : elements_(elements), carry_(carry) {}

    virtual void first(Index i, T* S) const = 0;
    virtual void last(Index i, const T* S) = 0;
    virtual void run(Index i, T* S) = 0;
    virtual void advance(Index i, T* S) const = 0;
    virtual void map(Index i, T* A) const = 0;
    virtual void last_tokens_of(Index /*i*/, T* /*S*/) const {}

    void firsts(Stops stops, T* S) const final {
        each(stops, S, [&](Index i, T* at) { first(i, at); });
    }
    void lasts(Stops stops, const T* S) final {
        each(stops, S, [&](Index i, const T* at) { last(i, at); });
    }
    void runs(Stops stops, T* S) final {
        each(stops, S, [&](Index i, T* at) { run(i, at); });
    }
    void advances(Stops stops, T* S) const final {
        each(stops, S, [&](Index i, T* at) { advance(i, at); });
    }
    void maps(Stops stops, T* A) const final {
        each_at(stops, [&](std::size_t k) { map(stops[k].state, A + static_cast<Index>(k) * carry_); });
    }
    void last_tokens(Stops stops, T* S) final {
        each(stops, S, [&](Index i, T* at) { last_tokens_of(i, at); });
    }
    void clear(T* x, Index n) const final { std::fill_n(x, n, T(0)); }
    void copy(const T* from, Index n, T* to) const final { std::copy_n(from, n, to); }
    void applies(const Route& z, Index n, const T* A, const T* B, const T* S, T* out) const final {
        for (Index k = 0; k < n; ++k)
            apply(z, A + k * z.carry, B + k * z.elements, S + k * z.elements, out + k * z.elements);
    }

protected:
    // f(state, its element of S), at once where there are several.
    template <class P, class F>
    void each(Stops stops, P* S, F&& f) const {
        each_at(stops, [&](std::size_t k) { f(stops[k].state, S + static_cast<Index>(k) * elements_); });
    }
    template <class F>
    static void each_at(Stops stops, F&& f) {
        if (stops.size() == 1) f(0);
        else parallel_for(static_cast<Index>(stops.size()), [&](Index k) { f(static_cast<std::size_t>(k)); });
    }

private:
    // out <- A S + B, or Aᵀ S + B.
    static void apply(const Route& z, const T* A, const T* B, const T* S, T* out) {
        const Index columns = z.rows > 0 ? z.elements / z.rows : 0;
        for (Index i = 0; i < z.rows; ++i) {
            T* const row = out + i * columns;
            std::copy_n(B + i * columns, columns, row);
            // B is what comes of a state of zeros, though A is not finite.
            const auto add = [&](T a, const T* from) {
                for (Index c = 0; c < columns; ++c) row[c] += from[c] == T(0) ? T(0) : a * from[c];
            };
            if (z.carry == 0) add(T(1), S + i * columns);
            else if (z.carry == 1) add(A[0], S + i * columns);
            else if (z.carry == z.rows) add(A[i], S + i * columns);
            else
                for (Index j = 0; j < z.rows; ++j) add(z.back ? A[j * z.rows + i] : A[i * z.rows + j], S + j * columns);
        }
    }

    Index elements_, carry_;
};

}  // namespace causeway::sharded
