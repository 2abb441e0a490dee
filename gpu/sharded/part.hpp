// The part of a sequence that one GPU has, as the exchanges of states see it (core/sharded/part.hpp).
#pragma once

#include <algorithm>

#include "core/sharded/handed.hpp"
#include "core/sharded/states.hpp"
#include "gpu/base/buffer.hpp"
#include "gpu/base/error.hpp"
#include "gpu/sharded/maps.hpp"
#include "gpu/sharded/tokens.hpp"

namespace causeway::gpu::sharded {

using causeway::Index;
using causeway::sharded::Route;
using causeway::sharded::Stops;
using causeway::sharded::Work;

// x <- zeros, and a copy, on the stream.
inline void queue_zeros(float* x, Index n, cudaStream_t stream) {
    if (n > 0) check(cudaMemsetAsync(x, 0, static_cast<std::size_t>(n) * sizeof(float), stream), "clearing a state");
}
inline void queue_copy(const float* from, Index n, float* to, cudaStream_t stream) {
    if (n > 0 && from != to)
        check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(n) * sizeof(float), cudaMemcpyDefault, stream),
              "copying a state");
}

// Base: Part<float> or GradPart<float>. first_states [states, rows, columns] before the first token, null: zeros;
// last_states: after the last one, null: not wanted.
template <class Base>
class TokenPart : public Base {
public:
    TokenPart(Tokens& tokens, const float* first_states, float* last_states)
        : tokens_(tokens), first_states_(first_states), last_states_(last_states) {}

    void firsts(Stops stops, float* S) const override { from_given(stops, first_states_, S); }
    void lasts(Stops stops, const float* S) override { to_given(stops, S, last_states_); }
    void runs(Stops stops, float* S) override {
        each_span(stops, [&](Span of, Index before) { tokens_.outputs(of, S + before * size()); });
    }
    void advances(Stops stops, float* S) const override {
        each_span(stops, [&](Span of, Index before) { tokens_.advance(of, S + before * size()); });
    }
    void maps(Stops stops, float* A) const override {
        each_span(stops, [&](Span of, Index before) { tokens_.map(of, A + before * tokens_.carry()); });
    }
    void prepares(Stops stops) override {
        each_span(stops,
                  [&](Span of, Index before) { tokens_.prepare(of, stops[static_cast<std::size_t>(before)].after); });
    }
    bool in_steps() const override { return tokens_.in_steps(); }
    void clear(float* x, Index n) const override { queue_zeros(x, n, tokens_.stream()); }
    void copy(const float* from, Index n, float* to) const override { queue_copy(from, n, to, tokens_.stream()); }
    void applies(const Route& z, Index n, const float* A, const float* B, const float* S, float* out) const override {
        apply_maps(n, static_cast<int>(z.rows), static_cast<int>(tokens_.columns()), z.carry, z.back, A, B, S, out,
                   tokens_.stream());
    }

    bool may_forget() const override { return true; }
    // A head counts as one that forgets where that takes a small share of the part.
    std::vector<char> forgets(Stops stops) override {
        std::vector<char> out(stops.size());
        if (std::none_of(stops.begin(), stops.end(), [](const auto& s) { return s.after; })) return out;
        reach_ = tokens_.reach(From::end);
        for (std::size_t k = 0; k < out.size() && !reach_.empty(); ++k)
            out[k] = stops[k].after && reach_[static_cast<std::size_t>(stops[k].state)] >= 0;
        return out;
    }
    void last_tokens(Stops stops, float* S) override {
        each_group(stops, reach_, From::end,
                   [&](Span of, std::int64_t n, Index before) { tokens_.last(of, n, S + before); });
    }
    // Queued: remains() says it.
    std::vector<char> differ(Stops stops, const float* S, const float* handed) override {
        if (!differs_.data()) {
            differs_ = Buffer(static_cast<std::size_t>(tokens_.states()) * sizeof(std::int32_t), tokens_.stream());
            check(cudaMemsetAsync(differs_.data(), 0, differs_.bytes(), tokens_.stream()), "comparing states");
        }
        each_span(stops, [&](Span of, Index before) {
            find_differing(of.n, static_cast<int>(tokens_.rows()), static_cast<int>(tokens_.columns()),
                           tokens_.carry() > tokens_.rows(), tokens_.rounding(), S + before * size(),
                           handed + before * size(), differs_.as<std::int32_t>() + of.first, tokens_.stream());
        });
        return std::vector<char>(stops.size());
    }
    std::vector<char> remains(Stops stops) override {
        std::vector<char> out(stops.size());
        if (!differs_.data()) return out;
        std::vector<std::int32_t> differs(static_cast<std::size_t>(tokens_.states()));
        check(cudaMemcpyAsync(differs.data(), differs_.data(), differs_.bytes(), cudaMemcpyDeviceToHost,
                              tokens_.stream()),
              "comparing states");
        check(cudaStreamSynchronize(tokens_.stream()), "comparing states");
        for (std::size_t k = 0; k < out.size(); ++k) out[k] = differs[static_cast<std::size_t>(stops[k].state)] != 0;
        return out;
    }

    // A GPU's time is measured, not modelled.
    Work run_work(Index) const override { return {}; }
    Work advance_work(Index) const override { return {}; }

protected:
    // f(states, states before them) for those of the stops that are neighbours: kernels take them at once.
    template <class F>
    static void each_span(Stops stops, F&& f) {
        for (std::size_t k = 0; k < stops.size();) {
            std::size_t end = k + 1;
            while (end < stops.size() && are_neighbours(stops, end)) ++end;
            f(Span{stops[k].state, static_cast<std::int64_t>(end - k)}, static_cast<Index>(k));
            k = end;
        }
    }
    static bool are_neighbours(Stops stops, std::size_t second) {
        return stops[second].state == stops[second - 1].state + 1;
    }
    // S <- those of all states that the caller gave, null: zeros; and the other way, null: not wanted.
    void from_given(Stops stops, const float* given, float* S) const {
        each_span(stops, [&](Span of, Index before) {
            float* const to = S + before * size();
            if (given) queue_copy(given + of.first * size(), of.n * size(), to, tokens_.stream());
            else queue_zeros(to, of.n * size(), tokens_.stream());
        });
    }
    void to_given(Stops stops, const float* S, float* given) const {
        each_span(stops, [&](Span of, Index before) {
            if (given) queue_copy(S + before * size(), of.n * size(), given + of.first * size(), tokens_.stream());
        });
    }
    Index size() const { return tokens_.elements(); }
    // f(states, tokens, elements before them) for neighbours that are computed at once with as many of the first or
    // last tokens as the farthest of their gates reach, cut at a multiple of 64, where chunks of all tokens begin too:
    // while that costs less than starting more kernels does.
    template <class F>
    void each_group(Stops stops, const std::vector<std::int64_t>& reach, From from, F&& f) const {
        const auto tokens = [&](std::size_t k) {
            const std::int64_t n = reach[static_cast<std::size_t>(stops[k].state)],
                               all = tokens_.length(stops[k].state);
            if (from == From::start) return std::min(all, (n + 63) / 64 * 64);
            return all - std::max<std::int64_t>(0, all - n) / 64 * 64;
        };
        for (std::size_t k = 0; k < stops.size();) {
            std::size_t end = k + 1;
            constexpr std::int64_t tokens_of_a_start = 262144;
            std::int64_t sum = tokens(k), most = sum;
            for (; end < stops.size() && are_neighbours(stops, end); ++end) {
                const std::int64_t n = tokens(end), longest = std::max(most, n);
                if (longest * static_cast<std::int64_t>(end - k + 1) - sum - n > tokens_of_a_start) break;
                sum += n, most = longest;
            }
            f(Span{stops[k].state, static_cast<std::int64_t>(end - k)}, most, static_cast<Index>(k) * size());
            k = end;
        }
    }

    Tokens& tokens_;
    const float* first_states_;
    float* last_states_;
    std::vector<std::int64_t> reach_;
    Buffer differs_;  // of every state, whether it is another one than that which was handed on
};

}  // namespace causeway::gpu::sharded
