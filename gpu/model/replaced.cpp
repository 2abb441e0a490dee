// What stands in the place of attention, and what is looked at: the heads of a layer as tensors.
#include <algorithm>

#include "core/base/interrupt.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/wait.hpp"
#include "gpu/model/swap.hpp"
#include "gpu/model/texts.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu::models {

using causeway::model::Replacement;

namespace {

constexpr const char* replacing = "running what replaces attention";

DType dtype_of(Type type) {
    return type == Type::Float32 ? DType::f32 : type == Type::BFloat16 ? DType::bf16 : DType::f16;
}

void* behind(void* data, std::int64_t bytes) { return static_cast<char*>(data) + bytes; }

// Places heads of any width, in pieces that place_heads() takes; nothing is turned or normed.
void place_wide(PlaceCall c, const PlacedHeads& heads, Type type, cudaStream_t stream) {
    c.parts = 1;
    for (std::int32_t at = 0; at < heads.width; at += max_head) {
        c.part[0] = heads;
        c.part[0].offset += at, c.part[0].width = std::min<std::int32_t>(max_head, heads.width - at);
        c.part[0].to = behind(heads.to, at * bytes_of(type));
        place_heads(c, type, stream);
    }
}

}  // namespace

void Texts::hold(const Layer& layer, const Destination& to, const Room& room, std::int64_t n) {
    const HeadSizes s = layer.sizes();
    PlaceCall c = heads_of(layer, room, n);
    const auto send = [&](PlacedHeads& p, void* data, std::int64_t heads, std::int64_t width, bool cached) {
        p.to = data, p.at_position = cached;
        p.to_stride = contiguous(heads, cached ? to.capacity : n, static_cast<int>(width));
    };
    send(c.part[0], to.q, s.heads, s.width, to.all_queries);
    send(c.part[1], to.k, s.key_heads, s.width, true);
    send(c.part[2], to.v, s.key_heads, s.value_width, true);
    place_shared(c, layer.delta ? layer.delta->shared() : 1, layers_->type, stream_);
    place_wide(c, c.part[2], layers_->type, stream_);
}

// The first n rows of a cache, [batch, heads · repeats, n, width] in Float32, every head `repeats` times.
gpu::Tensor Texts::held(const Buffer& cache, std::int64_t heads, std::int64_t repeats, std::int64_t width,
                        std::int64_t n) const {
    gpu::Tensor out(dtype_of(layers_->type), {batch_, heads * repeats, n, width}, stream_);
    const std::size_t row = count(width * bytes_of(layers_->type)), all = count(n) * row;
    for (std::int64_t i = 0; i < repeats; ++i)
        copy_rows({behind(out.data(), i * static_cast<std::int64_t>(all)), count(repeats) * all, cache.data(),
                   count(capacity_) * row, all, count(batch_ * heads)},
                  stream_, "copying heads");
    return out.to(DType::f32, stream_);
}

gpu::Tensor Texts::replace(const Replacement& r, const gpu::Tensor& q, const gpu::Tensor& k, const gpu::Tensor& v,
                           double scale) const {
    if (const auto* here = dynamic_cast<const Attention*>(r.elsewhere.get())) return here->run(q, k, v, scale, stream_);
    return gpu::Tensor(r.run(q.cpu(stream_), k.cpu(stream_), v.cpu(stream_), scale).to(DType::f32), stream_);
}

// o [batch, heads, n or more, width]: the rows of the last n tokens, to where attention leaves them.
void Texts::join(const gpu::Tensor& o, const Room& room, std::int64_t n) {
    const std::int64_t heads = o.shape()[1], N = o.shape()[2], width = o.shape()[3], size = bytes_of(layers_->type);
    const gpu::Tensor rows = o.to(dtype_of(layers_->type), stream_);
    for (std::int64_t text = 0; text < batch_; ++text) {
        PlaceCall c;
        c.rows = behind(rows.data(), (text * heads * N + N - n) * width * size), c.row = width, c.n = n;
        c.position = position_.as<std::int32_t>();
        PlacedHeads p;
        p.step = N * width, p.heads = static_cast<std::int32_t>(heads), p.width = static_cast<std::int32_t>(width);
        p.to = behind(room.o, text * n * heads * width * size), p.to_stride = {0, width, heads * width};
        place_wide(c, p, layers_->type, stream_);
    }
}

void Texts::run_replaced(std::size_t l, const Room& room, std::int64_t n) {
    const Replacement& r = *replacement_of(l);
    const Layer& layer = layers_->layer[l];
    const Kept& kept = kept_[l];
    const HeadSizes s = layer.sizes();
    const std::int64_t N = length_ + n, repeats = s.heads / s.key_heads;
    interrupt::check();
    hold(layer, {r.last_queries ? room.q : kept.q.data(), kept.k.data(), kept.v.data(), capacity_, !r.last_queries},
         room, n);
    const gpu::Tensor q =
        r.last_queries
            ? gpu::Tensor::view(dtype_of(layers_->type), {batch_, s.heads, n, s.width}, room.q).to(DType::f32, stream_)
            : held(kept.q, s.heads, 1, s.width, N);
    const gpu::Tensor o = replace(r, q, held(kept.k, s.key_heads, repeats, s.width, N),
                                  held(kept.v, s.key_heads, repeats, s.value_width, N), s.scale);
    const Shape expected{batch_, s.heads, q.shape()[2], s.value_width};
    if (o.shape() != expected) fail(r.name, ": returned a ", o.summary(), ", expected o as ", expected.text());
    const gpu::Tensor numbers = o.to(DType::f32, stream_);
    const Buffer first(sizeof(std::int64_t), stream_);
    const std::int64_t at = first_not_finite(numbers.as<float>(), numbers.size(), first.as<std::int64_t>(), stream_);
    if (at < numbers.size())
        fail(r.name, ": its output for token ", at / s.value_width % q.shape()[2] + 1,
             " has Inf or NaN, expected finite numbers");
    join(numbers, room, n);
}

// Numbers of the type of the weights, in Float32.
Texts::Tensor Texts::on_cpu(const void* data, const Shape& shape) const {
    wait_for(stream_, replacing);
    return gpu::Tensor::view(dtype_of(layers_->type), shape, const_cast<void*>(data)).cpu(stream_).to(DType::f32);
}

void Texts::show(const Layer& layer, const Room& room, std::int64_t n, std::int64_t parts,
                 const causeway::model::Watch& watch) {
    const HeadSizes s = layer.sizes();
    causeway::model::LayerInfo info;
    info.heads = s.heads, info.key_heads = s.key_heads, info.width = s.width, info.value_width = s.value_width;
    info.scale = s.scale;
    const auto room_for = [&](std::int64_t heads, std::int64_t width) {
        return Buffer(count(batch_ * heads * n * width * bytes_of(layers_->type)), stream_);
    };
    const Buffer q = room_for(s.heads, s.width), k = room_for(s.key_heads, s.width),
                 v = room_for(s.key_heads, s.value_width);
    hold(layer, {q.data(), k.data(), v.data(), n, true}, room, n);
    causeway::model::Heads heads;
    heads.q = on_cpu(q.data(), {batch_, s.heads, n, s.width});
    heads.k = on_cpu(k.data(), {batch_, s.key_heads, n, s.width});
    heads.v = on_cpu(v.data(), {batch_, s.key_heads, n, s.value_width});
    const Tensor rows = on_cpu(room.o, {parts * batch_, n, s.heads, s.value_width});
    Tensor o = Tensor::zeros(DType::f32, {batch_, s.heads, n, s.value_width});
    for (Index i = 0; i < rows.size(); ++i) {
        const Index e = i % s.value_width, h = i / s.value_width % s.heads, t = i / (s.value_width * s.heads) % n,
                    text = i / (s.value_width * s.heads * n) % batch_;
        o.data<float>()[((text * s.heads + h) * n + t) * s.value_width + e] += rows.data<float>()[i];
    }
    watch.keep(info, heads, o);
}

}  // namespace causeway::gpu::models
