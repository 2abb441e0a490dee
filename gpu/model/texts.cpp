#include "gpu/model/texts.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/interrupt.hpp"
#include "gpu/around/short_convolution.hpp"
#include "gpu/base/blas.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/device.hpp"
#include "gpu/base/succeeded.hpp"
#include "gpu/base/wait.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gated/step.hpp"
#include "gpu/model/choose.hpp"
#include "gpu/model/model.hpp"
#include "gpu/model/rows.hpp"
#include "gpu/model/swap.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/softmax/flash.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu::models {

using causeway::model::Guess;
using causeway::model::Ids;
using causeway::model::RunOptions;
using causeway::model::Swaps;

namespace {

constexpr std::int64_t usual_rows = 8192;  // tokens of all texts that run together
constexpr std::int64_t least_room = 256;   // tokens that a cache has room for behind those of its first text
constexpr std::int64_t rows_of_logits = 256;
constexpr const char* running = "running a model";

template <class T>
T* behind(void* data, std::int64_t bytes) {
    return reinterpret_cast<T*>(static_cast<char*>(data) + bytes);
}

void download(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    wait_for(stream, running);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "copying from the GPU");
    check(cudaStreamSynchronize(stream), "copying from the GPU");
}

void upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the GPU");
}

Buffer copy_of(const Buffer& from, cudaStream_t stream) {
    Buffer out(from.bytes());
    if (from.bytes() > 0)
        check(cudaMemcpyAsync(out.data(), from.data(), from.bytes(), cudaMemcpyDeviceToDevice, stream), "copying");
    return out;
}

}  // namespace

Texts::Texts(std::shared_ptr<const Layers> layers, Index batch, bool graph, std::shared_ptr<const Swaps> swaps)
    : layers_(std::move(layers)),
      batch_(batch),
      use_graph_(graph),
      swaps_(std::move(swaps)),
      kept_(layers_->layer.size()),
      log_decay_(layers_->layer.size()),
      position_(sizeof(std::int32_t)),
      ids_(count(batch) * sizeof(std::int32_t)),
      chosen_(count(batch) * sizeof(std::int32_t)),
      logits_(count(batch * layers_->vocabulary) * sizeof(float)),
      blas_room_(blas_workspace) {
    for (std::size_t l = 0; l < layers_->layer.size(); ++l) {
        const auto cleared = [&](std::int64_t numbers) {
            Buffer out(count(numbers) * sizeof(float));
            check(cudaMemsetAsync(out.data(), 0, out.bytes(), stream_), "clearing a state");
            return out;
        };
        const auto& mixer = layers_->layer[l].decay;
        use_graph_ = use_graph_ && !replacement_of(l);
        if (const auto& delta = layers_->layer[l].delta) {
            const std::int64_t window = batch * (delta->taps - 1) * delta->channels();
            kept_[l].window = cleared(window), kept_[l].next_window = cleared(window);
            if (!replacement_of(l))
                kept_[l].state.push_back(cleared(batch * delta->value_heads * delta->width * delta->value_width));
        }
        if (!mixer || replacement_of(l)) continue;
        for (std::int64_t i = 0; i < mixer->key_parts(); ++i) {
            for (std::int64_t j = 0; j < mixer->value_parts(); ++j) {
                const std::int64_t keys = std::min(mixer->part, mixer->key_width - i * mixer->part),
                                   values = std::min(mixer->part, mixer->value_width - j * mixer->part);
                kept_[l].state.push_back(cleared(batch * mixer->heads * keys * values));
            }
        }
        std::vector<float> logs;
        for (Index s = 0; s < batch; ++s)
            for (const double gamma : mixer->decay) logs.push_back(static_cast<float>(std::log(gamma)));
        log_decay_[l] = numbers_of(logs.data(), static_cast<std::int64_t>(logs.size()), stream_);
    }
    set_number(position_.as<std::int32_t>(), 0, stream_);
}

Texts::~Texts() { succeeded(cudaStreamSynchronize(stream_)); }

std::unique_ptr<causeway::model::AcceleratedTexts> Texts::copy() const {
    auto out = std::make_unique<Texts>(layers_, batch_, use_graph_, swaps_);
    wait_for(stream_, running);
    out->length_ = length_, out->capacity_ = capacity_;
    out->sharers_ = sharers_, out->shared_ = shared_, out->place_ = Buffer(place_.bytes());
    for (std::size_t l = 0; l < kept_.size(); ++l) {
        out->kept_[l].q = copy_of(kept_[l].q, out->stream_);
        out->kept_[l].k = copy_of(kept_[l].k, out->stream_), out->kept_[l].v = copy_of(kept_[l].v, out->stream_);
        for (std::size_t i = 0; i < kept_[l].state.size(); ++i)
            out->kept_[l].state[i] = copy_of(kept_[l].state[i], out->stream_);
        out->kept_[l].window = copy_of(kept_[l].window, out->stream_);
    }
    out->split_room_ = Buffer(split_room_.bytes());
    set_number(out->position_.as<std::int32_t>(), static_cast<std::int32_t>(length_), out->stream_);
    out->stream_.wait();
    return out;
}

std::size_t Texts::bytes() const {
    std::size_t sum = 0;
    for (const Kept& kept : kept_) {
        sum += kept.q.bytes() + kept.k.bytes() + kept.v.bytes() + kept.window.bytes();
        for (const Buffer& state : kept.state) sum += state.bytes();
    }
    return sum;
}

namespace {

// One query of each head over a cache, without where its output goes.
SoftmaxArgs cached_args(const SoftmaxMixer& m, const Kept& kept, std::int64_t batch, std::int64_t capacity, Type type) {
    SoftmaxArgs a;
    a.k = kept.k.data(), a.v = kept.v.data();
    a.type = type, a.batch = batch, a.heads = m.key_heads, a.group = static_cast<int>(m.heads / m.key_heads);
    a.N = 1, a.M = capacity;
    a.d = a.dv = static_cast<int>(m.width);
    a.k_stride = a.v_stride = contiguous(m.key_heads, capacity, a.d);
    a.scale = m.scale;
    return a;
}

}  // namespace

const causeway::model::Replacement* Texts::replacement_of(std::size_t layer) const {
    const auto& replacement = (*swaps_)[layer].replacement;
    return replacement ? &*replacement : nullptr;
}

const CausalMethod& Texts::method_of(std::size_t layer) const {
    const std::string& name = (*swaps_)[layer].method;
    return method_for(name.empty() ? "auto" : name, {});
}

std::vector<Texts::Cache> Texts::caches_of(std::size_t layer) {
    const auto* replacement = replacement_of(layer);
    if (!layers_->layer[layer].softmax && !replacement) return {};
    const HeadSizes s = layers_->layer[layer].sizes();
    Kept& kept = kept_[layer];
    std::vector<Cache> out{{&kept.k, s.key_heads, s.width}, {&kept.v, s.key_heads, s.value_width}};
    if (replacement && !replacement->last_queries) out.push_back({&kept.q, s.heads, s.width});
    return out;
}

std::vector<std::int64_t> Texts::shares(std::int64_t length) const {
    const std::int64_t p = sharers_->size;
    std::vector<std::int64_t> out;
    for (std::int64_t r = 0; r < p; ++r) {
        const auto behind_first = [&](std::int64_t tokens) {
            return (tokens + p - 1 - r) / p;
        };  // t < tokens: t % p = r
        out.push_back((r + 1) * shared_ / p - r * shared_ / p + behind_first(length) - behind_first(shared_));
    }
    return out;
}

void Texts::share(Sharers sharers, std::int64_t room) {
    for (std::size_t l = 0; l < kept_.size(); ++l)
        if (replacement_of(l))
            fail("layers: layer ", l + 1,
                 " has something in the place of its attention, expected its own to share keys");
    wait_for(stream_, running);
    sharers_ = std::move(sharers), shared_ = length_;
    use_graph_ = false;
    graph_.reset();
    const std::vector<std::int64_t> most = shares(length_ + room);
    const std::int64_t capacity = *std::max_element(most.begin(), most.end()),
                       first = sharers_->rank * shared_ / sharers_->size;
    const std::size_t here = count(shares(length_)[count(sharers_->rank)]);
    if (length_ == 0) fail("share: a text without tokens, expected some to share out");
    for (std::size_t l = 0; l < kept_.size(); ++l) {
        for (const Cache& cache : caches_of(l)) {
            const std::size_t row = count(cache.width * bytes_of(layers_->type)), heads = count(batch_ * cache.heads);
            Buffer mine(heads * count(capacity) * row);
            copy_rows({mine.data(), count(capacity) * row,
                       behind<void>(cache.rows->data(), first * static_cast<std::int64_t>(row)), count(capacity_) * row,
                       here * row, heads},
                      stream_, "copying keys and values");
            stream_.wait();
            *cache.rows = std::move(mine);
        }
    }
    capacity_ = capacity;
    place_ = Buffer(sizeof(std::int32_t));
}

void Texts::grow(std::int64_t length) {
    if (sharers_) {
        if (shares(length)[count(sharers_->rank)] > capacity_)
            fail("ids: token ", length, " has no room among shared keys and values, expected fewer behind them");
        return;
    }
    bool any = false;
    for (std::size_t l = 0; l < kept_.size(); ++l) any = any || !caches_of(l).empty();
    if (length <= capacity_ || !any) return;
    const std::int64_t wanted = std::max(length + least_room, 2 * capacity_),
                       capacity = (wanted + least_room - 1) / least_room * least_room;
    wait_for(stream_, running);  // here, where all caches are still as they were
    graph_.reset();
    std::size_t room = 0;
    for (std::size_t l = 0; l < kept_.size(); ++l) {
        for (const Cache& cache : caches_of(l)) {
            const std::size_t row = count(cache.width * bytes_of(layers_->type)), heads = count(batch_ * cache.heads);
            Buffer larger(heads * count(capacity) * row);
            copy_rows({larger.data(), count(capacity) * row, cache.rows->data(), count(capacity_) * row,
                       count(length_) * row, heads},
                      stream_, "copying keys and values");
            stream_.wait();
            *cache.rows = std::move(larger);
        }
        const auto& mixer = layers_->layer[l].softmax;
        if (!mixer || replacement_of(l)) continue;
        room =
            std::max(room, cached_decoding_workspace(cached_args(*mixer, kept_[l], batch_, capacity, layers_->type)));
    }
    capacity_ = capacity;
    split_room_ = Buffer(room);
}

void Texts::make_room(Room& room, std::int64_t rows) const {
    if (rows <= room.rows) return;
    std::int64_t wide = 0, q = 0, k = 0, v = 0, o = 0, y = 0, mixed = 0, gates = 0;
    for (std::size_t i = 0; i < layers_->layer.size(); ++i) {
        const Layer& l = layers_->layer[i];
        wide = std::max({wide, 2 * l.mlp.inner, l.inputs().rows});
        y = std::max(y, l.mlp.inner);
        if (l.softmax) {
            q = std::max(q, l.softmax->heads * l.softmax->width), o = std::max(o, q);
            if (l.softmax->gated) y = std::max(y, q);
        } else if (l.delta) {
            const std::int64_t keys = l.delta->value_heads * l.delta->width, values = l.delta->values();
            q = std::max(q, keys), k = std::max(k, keys), o = std::max(o, values), y = std::max(y, values);
            mixed = std::max(mixed, l.delta->channels()), gates = std::max(gates, l.delta->value_heads);
        } else {
            const std::int64_t keys = l.decay->heads * l.decay->key_width, all = l.decay->heads * l.decay->value_width;
            q = std::max(q, keys), k = std::max(k, keys), v = std::max(v, all);
            o = std::max(o, (method_of(i).state ? 1 : 2) * l.decay->key_parts() * all), y = std::max(y, all);
        }
    }
    const std::int64_t table = 2 * layers_->most_pairs * static_cast<std::int64_t>(layers_->rotaries.size());
    // Once to count, once to place.
    const std::int64_t size = bytes_of(layers_->type);
    const auto place = [&](char* base) {
        std::int64_t at = 0;
        const auto next = [&](std::int64_t bytes_of_row) {
            char* const here = base + at;
            at = (at + rows * bytes_of_row + 255) / 256 * 256;
            return here;
        };
        room.x = reinterpret_cast<float*>(next(layers_->width * 4));
        room.table = reinterpret_cast<float*>(next(table * 4));
        room.g = reinterpret_cast<float*>(next(gates * 4)), room.beta = reinterpret_cast<float*>(next(gates * 4));
        room.normed = next(layers_->width * size);
        room.wide = next(wide * size), room.q = next(q * size), room.k = next(k * size), room.v = next(v * size);
        room.o = next(o * size), room.y = next(y * size), room.mixed = next(mixed * size);
        return at;
    };
    room.memory = Buffer();
    const std::int64_t bytes = place(nullptr);
    room.memory = Buffer(count(bytes));
    place(room.memory.as<char>());
    room.rows = rows, room.width = layers_->width;
}

float* Texts::table_of(const Room& room, std::int64_t rotary) const {
    return room.table + rotary * 2 * layers_->most_pairs * room.rows;
}

void Texts::set_rotary(PlaceCall& c, const Room& room, int rotary) const {
    if (rotary < 0) return;
    const Rotary& r = layers_->rotaries[count(rotary)];
    c.table = table_of(room, rotary), c.pairs = static_cast<std::int32_t>(r.pairs), c.interleaved = r.interleaved;
}

void Texts::multiply(const Matrix& w, const void* x, std::int64_t n, const Result& y) {
    models::multiply(w, x, w.columns, n, y, blas_room_.data(), stream_);
}

void Texts::multiply_residual(const Matrix& w, const Norm& norm, const Room& room, std::int64_t n, const Result& y,
                              bool in_place) {
    if (!in_place && takes_normed(w, norm, room.x, n)) return multiply_normed(w, norm, room.x, n, y, stream_);
    norm_rows(norm, room.x, w.columns, n, room.normed, w.type, in_place, stream_);
    multiply(w, room.normed, n, y);
}

PlaceCall Texts::heads_of(const SoftmaxMixer& m, const Room& room, std::int64_t n) const {
    PlaceCall c;
    c.rows = room.wide, c.row = m.inputs.rows, c.batch = batch_, c.n = n, c.parts = 3;
    c.position = position_.as<std::int32_t>();
    set_rotary(c, room, m.rotary);
    const auto part = [&](std::int64_t offset, std::int64_t heads) {
        PlacedHeads p;
        p.offset = offset, p.step = m.width;
        p.heads = static_cast<std::int32_t>(heads), p.width = static_cast<std::int32_t>(m.width);
        return p;
    };
    PlacedHeads &q = c.part[0], &k = c.part[1];
    q = part(0, m.heads), k = part(m.heads * m.width, m.key_heads);
    c.part[2] = part((m.heads + m.key_heads) * m.width, m.key_heads);
    q.rotate = k.rotate = m.rotary >= 0;
    q.norm = m.q_norm.weight.as<float>(), q.eps = m.q_norm.eps;
    k.norm = m.k_norm.weight.as<float>(), k.eps = m.k_norm.eps;
    return c;
}

void Texts::place_softmax(const SoftmaxMixer& m, const Kept& kept, const Room& room, std::int64_t n) {
    PlaceCall c = heads_of(m, room, n);
    PlacedHeads &q = c.part[0], &k = c.part[1], &v = c.part[2];
    q.to = room.q, q.to_stride = {n * m.heads * m.width, m.width, m.heads * m.width};
    k.to = kept.k.data(), v.to = kept.v.data();
    k.to_stride = v.to_stride = contiguous(m.key_heads, capacity_, static_cast<int>(m.width));
    k.at_position = v.at_position = true;
    place_heads(c, layers_->type, stream_);
}

// One token, whose key and value this rank keeps or does not.
void Texts::run_shared(const SoftmaxMixer& m, const Kept& kept, const Room& room) {
    PlaceCall c = heads_of(m, room, 1);
    const Strides one{m.heads * m.width, m.width, m.width};
    c.part[0].to = room.q, c.part[0].to_stride = one;
    c.part[1].to = kept.k.data(), c.part[2].to = kept.v.data();
    for (int i = 1; i < 3; ++i) {
        c.part[i].to_stride = contiguous(m.key_heads, capacity_, static_cast<int>(m.width));
        c.part[i].at_position = true;
    }
    c.position = place_.as<std::int32_t>();  // rotations are in the table
    if (length_ % sharers_->size != sharers_->rank) c.parts = 1;
    place_heads(c, layers_->type, stream_);
    const std::vector<std::int64_t> lengths = shares(length_ + 1);
    SoftmaxArgs a = cached_args(m, kept, batch_, capacity_, layers_->type);
    a.M = lengths[count(sharers_->rank)], a.causal = false;
    a.q = room.q, a.o = room.o, a.q_stride = a.o_stride = one;
    sharers_->attend(a, lengths, stream_);
}

void Texts::run_softmax(const SoftmaxMixer& m, const Kept& kept, const Room& room, std::int64_t n) {
    if (sharers_) return run_shared(m, kept, room);
    place_softmax(m, kept, room, n);
    SoftmaxArgs a = cached_args(m, kept, batch_, capacity_, layers_->type);
    a.q = room.q, a.o = room.o;
    a.q_stride = a.o_stride = {n * m.heads * m.width, m.width, m.heads * m.width};
    if (n == 1) {
        a.workspace = {split_room_.data(), split_room_.bytes()};
        cached_decoding(a, position_.as<std::int32_t>(), stream_);
        return;
    }
    a.N = n, a.M = length_ + n;
    const Buffer workspace(flash_attention_workspace(a), stream_);
    a.workspace = {workspace.data(), workspace.bytes()};
    flash_attention(a, stream_);
}

PlaceCall Texts::heads_of(const DecayMixer& m, const Room& room, std::int64_t n) const {
    PlaceCall c;
    c.rows = room.wide, c.row = m.inputs.rows, c.batch = batch_, c.n = n, c.parts = 3;
    c.position = position_.as<std::int32_t>();
    set_rotary(c, room, m.rotary);
    for (int i = 0; i < 2; ++i) {
        PlacedHeads& p = c.part[i];
        p.offset = i == 0 ? m.q : m.k, p.step = m.step;
        p.heads = static_cast<std::int32_t>(m.heads), p.width = static_cast<std::int32_t>(m.width);
        p.activation = m.activation, p.rotate = m.rotary >= 0, p.theta = m.theta.as<float>();
    }
    PlacedHeads& v = c.part[2];
    v.offset = m.v, v.step = m.value_step;
    v.heads = static_cast<std::int32_t>(m.heads), v.width = static_cast<std::int32_t>(m.value_width);
    v.activation = m.value_activation;
    return c;
}

void Texts::place_decay(const DecayMixer& m, const Room& room, std::int64_t n) {
    PlaceCall c = heads_of(m, room, n);
    const Strides keys{n * m.heads * m.key_width, m.key_width, m.heads * m.key_width};
    c.part[0].to = room.q, c.part[1].to = room.k;
    c.part[0].to_stride = c.part[1].to_stride = keys;
    c.part[0].scale = m.scale;
    c.part[2].to = room.v;
    c.part[2].to_stride = {n * m.heads * m.value_width, m.value_width, m.heads * m.value_width};
    if (m.value_activation == causeway::model::Activation::none) c.parts = 2;  // they are used where they are
    place_heads(c, layers_->type, stream_);
}

// By a method, and the state behind these tokens. A method that carries no state computes what these tokens give each
// other; `carried` then gets what those before them add, or is null where there are none.
void Texts::run_method(const CausalMethod& method, CausalArgs a, void* carried) {
    const auto queue = [&](const CausalMethod& m, CausalArgs call) {
        const Buffer workspace(m.workspace(call), stream_);
        call.workspace = {workspace.data(), workspace.bytes()};
        m.run(call, stream_);
    };
    if (method.state) return queue(method, a);
    const CausalMethod& with_state = method_for("auto", {});
    if (carried) {
        // With values of 0 what comes out is the state's alone.
        const Buffer zeros(count(a.B * a.H * a.N * a.d * bytes_of(a.type)), stream_),
            state(count(a.B * a.H * a.r * a.d) * sizeof(float), stream_);
        check(cudaMemsetAsync(zeros.data(), 0, zeros.bytes(), stream_), "clearing values");
        check(cudaMemcpyAsync(state.data(), a.state, state.bytes(), cudaMemcpyDeviceToDevice, stream_), "copying");
        CausalArgs before = a;
        before.v = zeros.data(), before.v_stride = contiguous(a.H, a.N, a.d);
        before.o = carried, before.state = state.as<float>();
        queue(with_state, before);
    }
    queue(with_state, a);  // for the state
    a.state = nullptr;
    queue(method, a);
}

std::int64_t Texts::run_decay(const DecayMixer& m, std::size_t layer, const Kept& kept, const Room& room,
                              std::int64_t n) {
    place_decay(m, room, n);
    const std::int64_t size = bytes_of(layers_->type), all = m.heads * m.value_width;
    const bool placed = m.value_activation != causeway::model::Activation::none;
    const Strides keys{n * m.heads * m.key_width, m.key_width, m.heads * m.key_width},
        output{n * all, m.value_width, all},
        values = placed ? output : Strides{n * m.inputs.rows, m.value_step, m.inputs.rows};
    const void* const v = placed ? room.v : behind<void>(room.wide, m.v * size);
    const CausalMethod& method = method_of(layer);
    const bool carries = n > 1 && length_ > 0 && !method.state;
    for (std::int64_t i = 0; i < m.key_parts(); ++i) {
        for (std::int64_t j = 0; j < m.value_parts(); ++j) {
            const std::int64_t key = i * m.part, value = j * m.part;
            const auto out = [&](std::int64_t part) {
                return behind<void>(room.o, (part * batch_ * n * all + value) * size);
            };
            const auto fill = [&](auto& a) {
                a.q = behind<void>(room.q, key * size), a.k = behind<void>(room.k, key * size);
                a.v = static_cast<const char*>(v) + value * size;
                a.o = out(i);
                a.type = layers_->type, a.B = batch_, a.H = m.heads, a.N = n;
                a.q_stride = a.k_stride = keys, a.v_stride = values, a.o_stride = output;
                a.state = kept.state[count(i * m.value_parts() + j)].template as<float>();
            };
            const int r = static_cast<int>(std::min(m.part, m.key_width - key)),
                      d = static_cast<int>(std::min(m.part, m.value_width - value));
            if (n == 1) {
                GatedArgs a;
                fill(a);
                a.dk = r, a.dv = d, a.gates = 1, a.g = log_decay_[layer].as<float>();
                gated_step(a, stream_);
            } else {
                CausalArgs a;
                fill(a);
                a.r = r, a.d = d, a.gamma = m.decay.data();
                run_method(method, a, carries ? out(m.key_parts() + i) : nullptr);
            }
        }
    }
    return m.key_parts() * (carries ? 2 : 1);
}

// From room.wide to room.mixed, and the inputs before the next token.
void Texts::convolve(const DeltaMixer& m, const Kept& kept, const Room& room, std::int64_t n) {
    around::ConvolutionArgs a{};
    a.texts = {nullptr, batch_, n, batch_ * n};
    a.x = room.wide, a.type = layers_->type, a.x_row = m.inputs.rows;
    a.weight = m.convolution.as<float>(), a.window = kept.window.as<float>();
    a.channels = m.channels(), a.taps = m.taps, a.silu = true;
    around::convolve(a, room.mixed, stream_);
    around::keep_inputs(a, kept.next_window.as<float>(), stream_);
    check(cudaMemcpyAsync(kept.window.data(), kept.next_window.data(), kept.window.bytes(), cudaMemcpyDeviceToDevice,
                          stream_),
          "copying");
}

PlaceCall Texts::heads_of(const DeltaMixer& m, const Room& room, std::int64_t n) const {
    PlaceCall c;
    c.rows = room.mixed, c.row = m.channels(), c.batch = batch_, c.n = n, c.parts = 3;
    c.position = position_.as<std::int32_t>();
    for (int i = 0; i < 2; ++i) {
        PlacedHeads& p = c.part[i];
        p.offset = i * m.keys(), p.step = m.width;
        p.heads = static_cast<std::int32_t>(m.key_heads), p.width = static_cast<std::int32_t>(m.width);
        p.norm = m.length.weight.as<float>(), p.eps = m.length.eps;
    }
    PlacedHeads& v = c.part[2];
    v.offset = 2 * m.keys(), v.step = m.value_width;
    v.heads = static_cast<std::int32_t>(m.value_heads), v.width = static_cast<std::int32_t>(m.value_width);
    return c;
}

void Texts::run_delta(const DeltaMixer& m, const Kept& kept, const Room& room, std::int64_t n) {
    const std::int64_t keys = m.value_heads * m.width, values = m.values();
    PlaceCall c = heads_of(m, room, n);
    c.part[0].to = room.q, c.part[1].to = room.k;
    c.part[0].to_stride = c.part[1].to_stride = {n * keys, m.width, keys};
    place_shared(c, m.shared(), layers_->type, stream_);
    GateCall gates;
    gates.rows = room.wide, gates.row = m.inputs.rows, gates.batch = batch_, gates.n = n, gates.heads = m.value_heads;
    gates.b = m.channels() + values, gates.a = gates.b + m.value_heads;
    gates.a_log = m.a_log.as<float>(), gates.dt_bias = m.dt_bias.as<float>();
    gates.g = room.g, gates.beta = room.beta;
    place_gates(gates, layers_->type, stream_);
    GatedArgs a;
    a.q = room.q, a.k = room.k, a.o = room.o;
    a.v = behind<void>(room.mixed, 2 * m.keys() * bytes_of(layers_->type));
    a.type = layers_->type, a.B = batch_, a.H = m.value_heads, a.N = n;
    a.dk = static_cast<int>(m.width), a.dv = static_cast<int>(m.value_width);
    a.q_stride = a.k_stride = {n * keys, m.width, keys};
    a.v_stride = {n * m.channels(), m.value_width, m.channels()};
    a.o_stride = {n * values, m.value_width, values};
    a.gates = 1, a.g = room.g, a.beta = room.beta;
    a.state = kept.state[0].as<float>(), a.scale = m.scale;
    if (n == 1) return gated_step(a, stream_);
    const GatedForm& form = gated_form("chunkwise", a);
    const Buffer workspace(form.workspace(a), stream_);
    a.workspace = {workspace.data(), workspace.bytes()};
    form.run(a, stream_);
}

PlaceCall Texts::heads_of(const Layer& l, const Room& room, std::int64_t n) const {
    return l.softmax ? heads_of(*l.softmax, room, n)
           : l.decay ? heads_of(*l.decay, room, n)
                     : heads_of(*l.delta, room, n);
}

namespace {

// A product that is added to the residual.
Result residual_of(const causeway::model::Residual& r, const Room& room) {
    return {room.x, Type::Float32, room.width, static_cast<float>(r.add), static_cast<float>(r.keep)};
}

}  // namespace

void Texts::run_layers(const Room& room, const std::int32_t* ids, std::int64_t n, const causeway::model::Watch* watch) {
    for (std::size_t i = 0; i < layers_->rotaries.size(); ++i) {
        const Rotary& r = layers_->rotaries[i];
        rotary_table(r.frequencies.as<double>(), r.pairs, r.factor, position_.as<std::int32_t>(), n,
                     table_of(room, static_cast<std::int64_t>(i)), stream_);
    }
    embed(*layers_->embedding, ids, batch_ * n, layers_->embedding_scale, room.x, stream_);
    const std::size_t last = watch ? count(watch->layer) + 1 : layers_->layer.size();  // those behind are not looked at
    for (std::size_t l = 0; l < last; ++l) run_layer(l, room, n, watch && l + 1 == last ? watch : nullptr);
}

std::int64_t Texts::attend(std::size_t l, const Room& room, std::int64_t n) {
    const Layer& layer = layers_->layer[l];
    if (layer.delta) convolve(*layer.delta, kept_[l], room, n);
    if (replacement_of(l)) run_replaced(l, room, n);
    else if (layer.softmax) run_softmax(*layer.softmax, kept_[l], room, n);
    else if (layer.delta) run_delta(*layer.delta, kept_[l], room, n);
    else return run_decay(*layer.decay, l, kept_[l], room, n);
    return 1;
}

void Texts::run_layer(std::size_t l, const Room& room, std::int64_t n, const causeway::model::Watch* watch) {
    const Layer& layer = layers_->layer[l];
    const std::int64_t rows = batch_ * n;
    multiply_residual(layer.inputs(), layer.mixer_norm, room, rows, {room.wide, layers_->type, layer.inputs().rows},
                      layer.mixed.normed);
    const std::int64_t parts = attend(l, room, n);
    if (watch) show(layer, room, n, parts, *watch);
    leave_attention(layer, room, rows, parts);
    run_mlp(layer, room, rows);
    if (watch && watch->wants("hidden")) {
        Tensor hidden(DType::f32, {batch_, n, layers_->width});
        download(hidden.data<float>(), room.x, hidden.bytes(), stream_);
        watch->found["hidden"] = hidden;
    }
}

void Texts::leave_attention(const Layer& layer, const Room& room, std::int64_t rows, std::int64_t parts) {
    const auto& softmax = layer.softmax;
    const auto& decay = layer.decay;
    const auto& delta = layer.delta;
    if (softmax && !softmax->gated) return multiply(softmax->out, room.o, rows, residual_of(layer.mixed, room));
    const Norm none;
    NormedGate c;
    c.row = layer.sizes().heads * layer.sizes().value_width;
    c.x = room.o, c.parts = parts, c.next = rows * c.row;
    c.gate = behind<void>(room.wide, (softmax ? softmax->gate()
                                      : decay ? decay->gate
                                              : delta->channels()) *
                                         bytes_of(layers_->type));
    c.gate_row = layer.inputs().rows;
    c.activation = softmax ? Activation::sigmoid : decay ? decay->gate_activation : Activation::silu;
    c.y = room.y;
    norm_and_gate(softmax ? none : decay ? decay->norm : delta->norm, c, rows, layers_->type, stream_);
    multiply(layer.out(), room.y, rows, residual_of(layer.mixed, room));
}

void Texts::run_mlp(const Layer& layer, const Room& room, std::int64_t n) {
    const Mlp& m = layer.mlp;
    const Result gated{room.y, layers_->type, m.inner};
    if (!layer.thought.normed && takes_normed(m.gate_up, layer.mlp_norm, room.x, n)) {
        multiply_gated(m.gate_up, layer.mlp_norm, room.x, n, m.activation, gated, stream_);
    } else {
        multiply_residual(m.gate_up, layer.mlp_norm, room, n, {room.wide, layers_->type, 2 * m.inner},
                          layer.thought.normed);
        gate_rows(room.wide, n, m.inner, m.activation, room.y, layers_->type, stream_);
    }
    multiply(m.down, room.y, n, residual_of(layer.thought, room));
}

template <class F>
void Texts::run(std::span<const std::int32_t> ids, const RunOptions& options, F&& f,
                const causeway::model::Watch* watch) {
    const std::int64_t n = static_cast<std::int64_t>(ids.size()) / batch_,
                       usual = sharers_ ? 1 : options.chunk.value_or(std::max<std::int64_t>(1, usual_rows / batch_)),
                       layers = static_cast<std::int64_t>(layers_->layer.size());
    if (usual < 1) fail("chunk: ", usual, ", expected 1 or more");
    bool whole = watch != nullptr;
    for (const auto& swap : *swaps_) whole = whole || (swap.replacement && !swap.replacement->last_queries);
    const std::int64_t most = whole ? std::max<std::int64_t>(n, 1) : usual;
    grow(length_ + n);
    make_room(room_, batch_ * std::min(most, n));
    for (std::int64_t start = 0; start < n; start += most) {
        interrupt::check();
        const std::int64_t here = std::min(most, n - start);
        Ids some;
        for (std::int64_t s = 0; s < batch_; ++s)
            some.insert(some.end(), ids.begin() + s * n + start, ids.begin() + s * n + start + here);
        const Buffer on_device(some.size() * sizeof(std::int32_t), stream_);
        upload(on_device.data(), some.data(), on_device.bytes(), stream_);
        set_place();
        run_layers(room_, on_device.as<std::int32_t>(), here, watch);
        f(start, here);
        length_ += here;
        set_number(position_.as<std::int32_t>(), static_cast<std::int32_t>(length_), stream_);
        if (!options.progress) continue;
        wait_for(stream_, running);
        options.progress((start + here) * layers, n * layers);
    }
}

void Texts::look(std::span<const std::int32_t> ids, const causeway::model::Watch& watch, const RunOptions& options) {
    run(
        ids, options, [](std::int64_t, std::int64_t) {}, &watch);
}

Texts::Tensor Texts::hidden(std::span<const std::int32_t> ids, const RunOptions& options) {
    const std::int64_t n = static_cast<std::int64_t>(ids.size()) / batch_, width = layers_->width;
    Tensor out(DType::f32, {batch_, n, width});
    run(ids, options, [&](std::int64_t start, std::int64_t here) {
        norm_rows(layers_->norm, room_.x, width, batch_ * here, room_.x, Type::Float32, false, stream_);
        wait_for(stream_, running);
        const std::size_t row = count(width) * sizeof(float);
        copy_rows({out.data<float>() + start * width, count(n) * row, room_.x, count(here) * row, count(here) * row,
                   count(batch_)},
                  stream_, "copying from the GPU");
        stream_.wait();
    });
    return out;
}

void Texts::set_place() {
    if (!sharers_) return;
    set_number(place_.as<std::int32_t>(), static_cast<std::int32_t>(shares(length_)[count(sharers_->rank)]), stream_);
}

void Texts::queue_step() {
    run_layers(token_room_, ids_.as<std::int32_t>(), 1);
    multiply_residual(*layers_->head, layers_->norm, token_room_, batch_,
                      {logits_.data(), Type::Float32, layers_->vocabulary});
    choose_likeliest(logits_.as<float>(), batch_, layers_->vocabulary, chosen_.as<std::int32_t>(),
                     position_.as<std::int32_t>(), stream_);
}

void Texts::step() {
    if (!use_graph_ || !warm_) {
        queue_step();
        warm_ = true;
        return;
    }
    if (!graph_) graph_ = std::make_unique<Graph>(stream_, [&] { queue_step(); });
    graph_->launch(stream_);
}

void Texts::advance(std::span<const std::int32_t> ids, const RunOptions& options) {
    if (static_cast<std::int64_t>(ids.size()) == batch_) {
        interrupt::check();
        grow(length_ + 1);
        make_room(token_room_, batch_);
        set_place();
        upload(ids_.data(), ids.data(), ids.size() * sizeof(std::int32_t), stream_);
        step();
        ++length_;
        return;
    }
    const std::int64_t n = static_cast<std::int64_t>(ids.size()) / batch_, width = layers_->width;
    run(ids, options, [&](std::int64_t start, std::int64_t here) {
        if (start + here < n) return;
        norm_rows(layers_->norm, room_.x + (here - 1) * width, here * width, batch_, room_.normed, layers_->type, false,
                  stream_);
        multiply(*layers_->head, room_.normed, batch_, {logits_.data(), Type::Float32, layers_->vocabulary});
        choose_likeliest(logits_.as<float>(), batch_, layers_->vocabulary, chosen_.as<std::int32_t>(), nullptr,
                         stream_);
    });
}

Texts::Tensor Texts::last_logits(std::span<const std::int32_t> ids, const RunOptions& options) {
    advance(ids, options);
    Tensor out(DType::f32, {batch_, layers_->vocabulary});
    download(out.data<float>(), logits_.data(), logits_.bytes(), stream_);
    return out;
}

Ids Texts::likeliest(std::span<const std::int32_t> ids, const RunOptions& options) {
    advance(ids, options);
    Ids out(count(batch_));
    download(out.data(), chosen_.data(), chosen_.bytes(), stream_);
    for (const std::int32_t id : out)
        if (id < 0) fail("logits: has NaN, expected numbers");
    return out;
}

void Texts::product_of_hidden(const Tensor& hidden, Index first_row, Index rows, float* logits) {
    const std::int64_t n = rows * layers_->width;
    const Buffer wide(count(n) * sizeof(float), stream_), x(count(n * bytes_of(layers_->type)), stream_);
    upload(wide.data(), hidden.data<float>() + first_row * layers_->width, wide.bytes(), stream_);
    convert(wide.data(), Type::Float32, x.data(), layers_->type, n, stream_);
    multiply(*layers_->head, x.data(), rows, {logits, Type::Float32, layers_->vocabulary});
}

Texts::Tensor Texts::logits(const Tensor& hidden, Index first_row, Index rows) {
    const std::int64_t words = layers_->vocabulary;
    Tensor out(DType::f32, {rows, words});
    const Buffer some(count(std::min(rows_of_logits, rows) * words) * sizeof(float), stream_);
    for (Index start = 0; start < rows; start += rows_of_logits) {
        interrupt::check();
        const Index here = std::min(rows_of_logits, rows - start);
        product_of_hidden(hidden, first_row + start, here, some.as<float>());
        download(out.data<float>() + start * words, some.data(), count(here * words) * sizeof(float), stream_);
    }
    return out;
}

std::vector<Guess> Texts::guesses(const Tensor& hidden, Index first_row, std::span<const std::int32_t> ids) {
    const std::int64_t words = layers_->vocabulary, all = static_cast<std::int64_t>(ids.size());
    const std::int64_t most = std::min(rows_of_logits, all);
    const Buffer some(count(most * words) * sizeof(float), stream_), known(count(most) * sizeof(std::int32_t), stream_),
        judged(count(most) * sizeof(Judged), stream_);
    std::vector<Guess> out;
    std::vector<Judged> here(count(most));
    for (std::int64_t start = 0; start < all; start += rows_of_logits) {
        interrupt::check();
        const std::int64_t rows = std::min(rows_of_logits, all - start);
        product_of_hidden(hidden, first_row + start, rows, some.as<float>());
        upload(known.data(), ids.data() + start, count(rows) * sizeof(std::int32_t), stream_);
        judge(some.as<float>(), rows, words, known.as<std::int32_t>(), judged.as<Judged>(), stream_);
        download(here.data(), judged.data(), count(rows) * sizeof(Judged), stream_);
        for (std::int64_t i = 0; i < rows; ++i) {
            const Judged& j = here[count(i)];
            if (j.likeliest < 0) fail("logits: has NaN, expected numbers");
            out.push_back({static_cast<double>(j.log_probability), j.likeliest == ids[count(start + i)]});
        }
    }
    return out;
}

}  // namespace causeway::gpu::models

namespace causeway::gpu {
namespace {

class OnGpu : public causeway::model::Accelerator {
public:
    OnGpu(const causeway::model::Network& network, const ModelOptions& options)
        : layers_(std::make_shared<const models::Layers>(models::layers_of(network, options.type))),
          graph_(options.graph) {}

    std::unique_ptr<causeway::model::AcceleratedTexts> begin(
        Index batch, std::shared_ptr<const causeway::model::Swaps> swaps) const override {
        return std::make_unique<models::Texts>(layers_, batch, graph_, std::move(swaps));
    }
    std::shared_ptr<const causeway::model::Elsewhere> replacement(
        const std::string& with, const causeway::model::SwapOptions& options,
        const causeway::model::LayerInfo& layer) const override {
        return attention_for(with, options, layer);
    }
    bool takes_method(const std::string& method) const override { return runs_method(method); }
    std::string text() const override {
        const char* type = layers_->type == Type::Float32    ? "Float32"
                           : layers_->type == Type::BFloat16 ? "BFloat16"
                                                             : "Float16";
        return device().name + ", weights in " + type;
    }
    std::size_t bytes() const override { return layers_->bytes(); }

private:
    std::shared_ptr<const models::Layers> layers_;
    bool graph_;
};

}  // namespace

std::shared_ptr<const causeway::model::Accelerator> on_gpu(const causeway::model::Network& network,
                                                           const ModelOptions& options) {
    device();  // throws where there is none
    return std::make_shared<const OnGpu>(network, options);
}

}  // namespace causeway::gpu
