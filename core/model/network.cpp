#include "core/model/network.hpp"

#include <cmath>

#include "core/base/interrupt.hpp"
#include "core/kit/product.hpp"
#include "core/model/over_ranks.hpp"

namespace causeway::model {
namespace {

// What a replacement makes of a chunk: [batch, heads, n, value width].
Tensor replaced(const Replacement& r, const LayerInfo& info, const Chunk& chunk, const Heads& h, LayerState& state) {
    if (r.ranks != Ranks::none && (chunk.n == 1 || state.shared))
        return attend_over_ranks(r.ranks, chunk, h, state, info.scale);
    state.k.append(h.k), state.v.append(h.v);
    if (!r.last_queries) state.q.append(h.q);
    const Index repeats = info.heads / info.key_heads;
    const Tensor q = r.last_queries ? h.q : state.q.all(chunk.batch, 1);
    const Tensor o = r.run(q, state.k.all(chunk.batch, repeats), state.v.all(chunk.batch, repeats), info.scale);
    const Shape expected{chunk.batch, info.heads, q.shape()[2], info.value_width};
    if (o.shape() != expected || is_storage_only(o.dtype()))
        fail(r.name, ": returned a ", o.summary(), ", expected o as ", expected.text(), " in Float32 or Float64");
    const Tensor all = o.to(DType::f32);
    for (Index i = 0; i < all.size(); ++i)
        if (!std::isfinite(all.data<float>()[i]))
            fail(r.name, ": its output for token ", i / info.value_width % q.shape()[2] + 1,
                 " has Inf or NaN, expected finite numbers");
    if (q.shape()[2] == chunk.n) return all;
    Tensor last(DType::f32, {chunk.batch, info.heads, chunk.n, info.value_width});
    const Index n = chunk.n * info.value_width, N = q.shape()[2] * info.value_width;
    for (Index i = 0; i < chunk.batch * info.heads; ++i)
        std::copy_n(all.data<float>() + (i + 1) * N - n, n, last.data<float>() + i * n);
    return last;
}

// scale · q kᵀ of all pairs of tokens, [batch, heads, n, n].
Tensor scores_of(const Heads& h, const LayerInfo& info) {
    const Index n = h.q.shape()[2], d = h.q.shape()[3], repeats = info.heads / info.key_heads;
    Tensor out(DType::f32, {h.q.shape()[0], info.heads, n, n});
    parallel_for(h.q.shape()[0] * info.heads, [&](Index i) {
        kit::View<float> A(out.data<float>() + i * n * n, n, n);
        kit::set_product(A, kit::ConstView<float>(h.q.data<float>() + i * n * d, n, d),
                         kit::ConstView<float>(h.k.data<float>() + i / repeats * n * d, n, d).transpose());
        A *= static_cast<float>(info.scale);
    });
    return out;
}

// x = keep · (normed or x) + add · y.
void add(const Residual& r, float* x, const float* normed, const float* y, Index n, Index width) {
    const float kept = static_cast<float>(r.keep), added = static_cast<float>(r.add);
    const float* from = r.normed ? normed : x;
    over_rows(n, width, [&](Index first, Index rows) {
        for (Index i = first * width; i < (first + rows) * width; ++i) x[i] = kept * from[i] + added * y[i];
    });
}

}  // namespace

void Watch::keep(const LayerInfo& info, const Heads& heads, const Tensor& output) const {
    if (wants("q")) found["q"] = heads.q.copy();
    if (wants("k")) found["k"] = heads.k.copy();
    if (wants("v")) found["v"] = heads.v.copy();
    if (wants("output")) found["output"] = output.copy();
    if (wants("scores")) found["scores"] = scores_of(heads, info);
}

void Network::embed(const std::int32_t* ids, Index n, float* x) const {
    const float factor = static_cast<float>(embedding_scale);
    over_rows(n, about.width, [&](Index first, Index rows) {
        for (Index i = first; i < first + rows; ++i) {
            float* row = x + i * about.width;
            read_row(embedding, ids[i], row);
            if (embedding_scale != 1)
                for (Index j = 0; j < about.width; ++j) row[j] *= factor;
        }
    });
}

void Network::run_layer(Index l, const Chunk& chunk, State& state, float* x, const Watch* watch) const {
    const std::size_t at = static_cast<std::size_t>(l);
    const Layer& layer = layers[at];
    const Swap& swap = (*state.swaps)[at];
    LayerState& kept = state.layers[at];
    const Index n = chunk.rows(), width = about.width;
    Buffer<float> normed(n * width), y(n * width);
    layer.mixer_norm.run(x, n, width, normed.data());
    {
        const Heads heads = layer.mixer->heads(chunk, normed.data(), kept);
        const LayerInfo info = layer.mixer->info();
        const Tensor o = swap.replacement ? replaced(*swap.replacement, info, chunk, heads, kept)
                                          : layer.mixer->attend(chunk, heads, kept, swap.method);
        if (watch) watch->keep(info, heads, o);
        layer.mixer->out(chunk, heads, o, y.data());
    }
    add(layer.mixed, x, normed.data(), y.data(), n, width);
    layer.mlp_norm.run(x, n, width, normed.data());
    layer.mlp->run(normed.data(), n, y.data());
    add(layer.thought, x, normed.data(), y.data(), n, width);
    if (watch && watch->wants("hidden")) {
        Tensor hidden(DType::f32, {chunk.batch, chunk.n, width});
        std::copy_n(x, n * width, hidden.data<float>());
        watch->found["hidden"] = hidden;
    }
}

void Network::run_chunk(const Chunk& chunk, State& state, float* x, const RunOptions& options, Index done, Index all,
                        const Watch* watch) const {
    const Index last = watch ? watch->layer + 1 : about.layers;  // what comes behind is not looked at
    for (Index l = 0; l < last; ++l) {
        interrupt::check();
        run_layer(l, chunk, state, x, watch && watch->layer == l ? watch : nullptr);
        if (options.progress) options.progress(done + (l + 1) * chunk.n, all);
    }
}

void Network::check(const State& state, std::span<const std::int32_t> ids) const {
    if (state.broken) fail("session: its last run was stopped, expected one that ran to its end");
    if (static_cast<Index>(ids.size()) % state.batch != 0)
        fail("ids: ", ids.size(), ", expected as many for each of the ", state.batch, " texts");
    for (const std::int32_t id : ids)
        if (id < 0 || id >= about.vocabulary)
            fail("ids: has ", id, ", expected token ids from 0 to ", about.vocabulary - 1);
    const Index length = state.length + static_cast<Index>(ids.size()) / state.batch;
    if (longest > 0 && length > longest)
        fail("ids: ", length, " tokens, expected at most the ", longest, " of the model's sliding window");
}

Tensor Network::run(State& state, std::span<const std::int32_t> ids, const RunOptions& options,
                    const Watch* watch) const {
    check(state, ids);
    constexpr Index usual_chunk = 512;
    const Index chunk_size = options.chunk.value_or(usual_chunk);
    if (chunk_size < 1) fail("chunk: ", chunk_size, ", expected 1 or more");
    bool whole = watch != nullptr;
    for (const Swap& swap : *state.swaps) whole |= swap.replacement && !swap.replacement->last_queries;
    const Index batch = state.batch, n = static_cast<Index>(ids.size()) / batch, width = about.width,
                most = whole ? std::max<Index>(n, 1) : chunk_size;
    Tensor out(DType::f32, {batch, n, width});
    state.broken = true;
    for (Index start = 0; start < n; start += most) {
        const Index count = std::min(most, n - start);
        const Chunk chunk(batch, count, state.length);
        Buffer<float> x(batch * count * width);
        for (Index s = 0; s < batch; ++s) embed(ids.data() + s * n + start, count, x.data() + s * count * width);
        run_chunk(chunk, state, x.data(), options, start * about.layers, n * about.layers, watch);
        for (Index s = 0; s < batch; ++s)
            norm.run(x.data() + s * count * width, count, width, out.data<float>() + (s * n + start) * width);
        state.length += count;
    }
    state.broken = false;
    return out;
}

}  // namespace causeway::model
