#include "gpu/model/weights.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/eigen.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/mapping.hpp"
#include "core/base/parallel.hpp"
#include "core/model/blocks/linear.hpp"
#include "core/model/blocks/norm.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/base/succeeded.hpp"
#include "gpu/model/made_up.hpp"

namespace causeway::gpu::models {

using causeway::model::Weight;
using causeway::model::WeightType;

namespace {

constexpr Index staged_bytes = Index{32} << 20;  // that go to the device at a time

}  // namespace

// Memory of the host that the device can copy from while the host goes on.
class Staging {
public:
    Staging() = default;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    // fill(place, bytes), then a copy of them to the device.
    template <class F>
    void send(void* to, std::size_t bytes, cudaStream_t stream, F&& fill) {
        next_ = 1 - next_;
        Half& half = halves_[next_];
        check(cudaEventSynchronize(half.free), "copying weights");
        fill(half.data);
        check(cudaMemcpyAsync(to, half.data, bytes, cudaMemcpyHostToDevice, stream), "copying weights");
        half.free.record(stream);
    }

private:
    // Gives its memory back also where the other half has none.
    struct Half {
        void* data = nullptr;
        Event free;

        Half() { check(cudaMallocHost(&data, staged_bytes), "allocating memory for copies"); }
        Half(const Half&) = delete;
        Half& operator=(const Half&) = delete;
        ~Half() { succeeded(cudaFreeHost(data)); }
    };

    Half halves_[2];
    int next_ = 0;
};

namespace {

bool same_type(WeightType stored, Type type) {
    return (stored == WeightType::f32 && type == Type::Float32) ||
           (stored == WeightType::bf16 && type == Type::BFloat16) ||
           (stored == WeightType::f16 && type == Type::Float16);
}

// Rows first ... first + count - 1 of a weight in the type.
void unpack_rows(const Weight& w, Index first, Index count, Type type, unsigned char* out) {
    const std::size_t row = static_cast<std::size_t>(w.columns * bytes_of(type));
    if (same_type(w.type, type)) {
        const std::size_t bytes = row * static_cast<std::size_t>(count), share = std::size_t{1} << 20;
        parallel_for(static_cast<Index>((bytes + share - 1) / share), [&](Index i) {
            const std::size_t at = static_cast<std::size_t>(i) * share;
            std::memcpy(out + at, w.row(first) + at, std::min(share, bytes - at));
        });
        check_mapped(w.data);
        return;
    }
    const Index together = std::max<Index>(1, (Index{1} << 15) / w.columns);
    parallel_for((count + together - 1) / together, [&](Index task) {
        causeway::Buffer<float> numbers(w.columns);
        for (Index i = task * together; i < std::min(count, (task + 1) * together); ++i) {
            read_row(w, first + i, numbers.data());
            unsigned char* const to = out + static_cast<std::size_t>(i) * row;
            const auto round = [&](auto zero) {
                for (Index j = 0; j < w.columns; ++j) {
                    const decltype(zero) x(numbers[j]);
                    std::memcpy(to + static_cast<std::size_t>(j) * sizeof x, &x, sizeof x);
                }
            };
            if (type == Type::Float32) std::memcpy(to, numbers.data(), row);
            else if (type == Type::BFloat16) round(Eigen::bfloat16{});
            else round(Eigen::half{});
        }
    });
}

}  // namespace

Loader::Loader(Type type, cudaStream_t stream) : type_(type), stream_(stream), staging_(std::make_unique<Staging>()) {}
Loader::~Loader() { succeeded(cudaStreamSynchronize(stream_)); }

void Loader::fill(const Weight& w, unsigned char* to) {
    if (w.made_up) {
        const Type stored = w.type == WeightType::bf16  ? Type::BFloat16
                            : w.type == WeightType::f16 ? Type::Float16
                                                        : Type::Float32;
        return make_up(to, type_, w.rows * w.columns, *w.made_up, stored, stream_);
    }
    const Index row = w.columns * bytes_of(type_), together = std::max<Index>(1, staged_bytes / row);
    if (row > staged_bytes) fail("gpu: a matrix of ", w.columns, " columns, expected at most ", staged_bytes / 4);
    for (Index first = 0; first < w.rows; first += together) {
        interrupt::check();
        const Index count = std::min(together, w.rows - first);
        staging_->send(to + first * row, static_cast<std::size_t>(count * row), stream_,
                       [&](void* place) { unpack_rows(w, first, count, type_, static_cast<unsigned char*>(place)); });
    }
}

Matrix Loader::load(const std::vector<const Weight*>& parts) {
    Matrix out;
    out.type = type_, out.columns = parts.front()->columns;
    for (const Weight* w : parts) out.rows += w->rows;
    out.data = Buffer(static_cast<std::size_t>(out.rows * out.columns * bytes_of(type_)));
    auto* to = out.data.as<unsigned char>();
    for (const Weight* w : parts) {
        fill(*w, to);
        to += w->rows * w->columns * bytes_of(type_);
    }
    check(cudaStreamSynchronize(stream_), "copying weights");
    return out;
}

Matrix Loader::load(const Weight& weight) { return load(std::vector<const Weight*>{&weight}); }

Matrix Loader::load(const std::vector<const causeway::model::Linear*>& parts) {
    std::vector<const Weight*> weights;
    bool biased = false;
    for (const auto* part : parts) weights.push_back(&part->weight), biased |= part->bias.size() > 0;
    Matrix out = load(weights);
    if (!biased) return out;
    std::vector<float> bias(static_cast<std::size_t>(out.rows), 0.0f);
    Index at = 0;
    for (const auto* part : parts) {
        if (part->bias.size() > 0) std::copy_n(part->bias.data(), part->bias.size(), bias.data() + at);
        at += part->outputs();
    }
    out.bias = numbers_of(bias.data(), out.rows, stream_);
    return out;
}

Norm norm_of(const causeway::model::Norm& n, cudaStream_t stream) {
    return {n.width, static_cast<float>(n.eps), n.centred, numbers_of(n.weight.data(), n.weight.size(), stream),
            numbers_of(n.bias.data(), n.bias.size(), stream)};
}

}  // namespace causeway::gpu::models
