#include "gpu/around/short_convolution.hpp"

#include <vector>

#include "core/around/parameters.hpp"
#include "core/around/short_convolution.hpp"
#include "gpu/around/sums.hpp"
#include "gpu/base/error.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {
namespace around {
namespace {

// taps + 1 sums of weights are a dimension of a grid.
constexpr Index max_taps = 65534;

// A checked call; the tensors keep what `args` points to.
struct Call {
    causeway::around::ConvolutionSizes sizes;
    Tensor weight, bias, window;
    Buffer offsets;
    ConvolutionArgs args;
};

Call check(const Tensor& x, const Tensor& weight, const ConvolutionOptions& o) {
    causeway::ConvolutionOptions forms;
    forms.bias = form_of(o.bias), forms.state = form_of(o.state);
    forms.activation = o.activation, forms.cu_seqlens = o.cu_seqlens;
    Call c;
    c.sizes = causeway::around::check_convolution(x.form(), weight.form(), forms);
    const auto& n = c.sizes;
    if (n.taps > max_taps) fail("weight: ", n.taps, " taps, expected at most ", max_taps, " on the GPU");
    c.weight = weight.to(DType::f32, o.stream);
    if (o.bias) c.bias = o.bias->to(DType::f32, o.stream);
    c.window = o.state ? o.state->to(DType::f32, o.stream) : Tensor::zeros(DType::f32, n.state_shape(), o.stream);
    ConvolutionArgs& a = c.args;
    a.texts = {nullptr, std::ssize(n.sequences), n.N, n.batch * n.N};
    if (!o.cu_seqlens.empty()) {
        c.offsets = on_device(o.cu_seqlens, o.stream);
        a.texts.offsets = c.offsets.as<std::int64_t>();
    }
    a.x = x.data(), a.type = x.type();
    a.weight = c.weight.as<float>(), a.bias = o.bias ? c.bias.as<float>() : nullptr, a.window = c.window.as<float>();
    a.channels = a.x_row = n.channels, a.taps = n.taps, a.silu = n.silu;
    return c;
}

}  // namespace
}  // namespace around

ConvolutionResult short_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& o) {
    const around::Call c = around::check(x, weight, o);
    ConvolutionResult out{Tensor(x.dtype(), x.shape(), o.stream), Tensor(DType::f32, c.sizes.state_shape(), o.stream)};
    around::convolve(c.args, out.y.data(), o.stream);
    around::keep_inputs(c.args, out.state.as<float>(), o.stream);
    return out;
}

ConvolutionGradient short_convolution_grad(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                           const ConvolutionOptions& o, const std::optional<Tensor>& dstate) {
    const around::Call c = around::check(x, weight, o);
    const auto& n = c.sizes;
    causeway::around::check_arriving("dy", dy.form(), x.form());
    if (dstate) causeway::around::check_parameter("dstate", dstate->form(), n.state_shape(), n.compute);
    const Tensor dlast =
        dstate ? dstate->to(DType::f32, o.stream) : Tensor::zeros(DType::f32, n.state_shape(), o.stream);
    const Tensor slope(DType::f32, x.shape(), o.stream);
    around::convolution_slopes(c.args, dy.data(), slope.as<float>(), o.stream);
    ConvolutionGradient out{
        Tensor(x.dtype(), x.shape(), o.stream), {}, {}, Tensor(DType::f32, n.state_shape(), o.stream)};
    around::convolution_inputs(c.args, slope.as<float>(), dlast.as<float>(), out.dx.data(), out.dstate.as<float>(),
                               o.stream);
    const around::Parts parts(x.size() > 0 ? c.args.texts.rows : 0);
    const Index sums = (n.taps + 1) * n.channels;
    const Buffer partial(static_cast<std::size_t>(parts.count * sums) * sizeof(double), o.stream);
    around::convolution_weights(c.args, slope.as<float>(), partial.as<double>(), o.stream);
    const Tensor total(DType::f32, {sums}, o.stream);
    around::add_parts(partial.as<double>(), parts.count, sums, total.as<float>(), o.stream);
    out.dweight = Tensor::view(DType::f32, weight.shape(), total.data()).own(weight.dtype(), o.stream);
    if (o.bias)
        out.dbias = Tensor::view(DType::f32, {n.channels}, total.as<float>() + n.taps * n.channels)
                        .own(o.bias->dtype(), o.stream);
    return out;
}

}  // namespace causeway::gpu
