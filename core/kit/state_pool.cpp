#include "core/kit/state_pool.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/parallel.hpp"
#include "core/kit/pool.hpp"

namespace causeway::kit {
namespace {

constexpr float most = 127;

// The scale of n numbers: the smallest normal number at least, so that dividing by it loses nothing, and never so large
// that the largest code overflows; NaN where one of them is not finite.
float scale_of(const float* x, Index n) {
    float largest = 0;
    bool finite = true;
    for (Index i = 0; i < n; ++i) {
        finite &= std::isfinite(x[i]);
        largest = std::max(largest, std::abs(x[i]));
    }
    if (!finite) return std::numeric_limits<float>::quiet_NaN();
    const float scale = std::max(largest / most, std::numeric_limits<float>::min());
    return std::isfinite(scale * most) ? scale : std::nextafter(scale, 0.0f);
}

void encode(const float* x, Index n, float scale, std::int8_t* codes) {
    if (std::isnan(scale)) return std::fill_n(codes, n, std::int8_t(0)), void();
    for (Index i = 0; i < n; ++i)
        codes[i] = static_cast<std::int8_t>(std::clamp(std::nearbyint(x[i] / scale), -most, most));
}

}  // namespace

StatePool::StatePool(Index slots, Index heads, Index dk, Index dv)
    : shape_{slots, heads, dk, dv}, codes_(shape_.size()), scales_(slots * heads) {
    std::fill_n(codes_.data(), codes_.size(), std::int8_t(0));
    std::fill_n(scales_.data(), scales_.size(), std::numeric_limits<float>::min());
}

std::size_t StatePool::bytes() const {
    return static_cast<std::size_t>(codes_.size()) + static_cast<std::size_t>(scales_.size()) * sizeof(float);
}

Tensor StatePool::states(const std::vector<Index>& slots) const {
    check_slots(slots, static_cast<Index>(slots.size()), Tensor::shaped(DType::f32, shape_), false);
    const Index n = entries(), heads = shape_[1];
    Tensor out(DType::f32, {static_cast<Index>(slots.size()), heads, shape_[2], shape_[3]});
    parallel_for(static_cast<Index>(slots.size()) * heads, [&](Index i) {
        const Index head = slots[static_cast<std::size_t>(i / heads)] * heads + i % heads;
        const std::int8_t* codes = codes_.data() + head * n;
        float* x = out.data<float>() + i * n;
        for (Index e = 0; e < n; ++e) x[e] = static_cast<float>(codes[e]) * scales_[head];
    });
    return out;
}

void StatePool::put(const Tensor& states, const std::vector<Index>& slots) {
    Shape want = shape_;
    want[0] = static_cast<Index>(slots.size());
    if (states.shape() != want) fail("states: ", states.shape().text(), ", expected ", want.text());
    check_slots(slots, want[0], Tensor::shaped(DType::f32, shape_), true);
    const Tensor given = states.to(DType::f32);
    const Index n = entries(), heads = shape_[1];
    parallel_for(want[0] * heads, [&](Index i) {
        const Index head = slots[static_cast<std::size_t>(i / heads)] * heads + i % heads;
        const float* x = given.data<float>() + i * n;
        scales_[head] = scale_of(x, n);
        encode(x, n, scales_[head], codes_.data() + head * n);
    });
}

}  // namespace causeway::kit
