#include "gpu/model/swap.hpp"

#include <cmath>

#include "gpu/calls/linear_attention.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/exact/check.hpp"
#include "gpu/exact/normalize.hpp"
#include "gpu/features/low_rank.hpp"
#include "gpu/model/rows.hpp"
#include "gpu/softmax/softmax_attention.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu {

using causeway::model::LayerInfo;
using causeway::model::no_features;
using causeway::model::SwapOptions;

namespace {

// With the seed that the CPU takes.
LowRankOptions with_seed(LowRankOptions o) {
    o.seed = o.seed.value_or(0);
    return o;
}

// Columns of these features of heads of a width; none where they are not made here.
std::optional<Index> columns(const std::string& features, const LowRankOptions& o, Index width) {
    constexpr Index any_length = Index{1} << 20;
    if (features == no_features) return width;
    if (!low_rank_takes(features)) return {};
    return lowrank::settle(lowrank::method(features), {any_length, width}, with_seed(o)).rank;
}

struct Features {
    Tensor B, C;
};

Features features_of(const std::string& features, const SwapOptions& o, const Tensor& q, const Tensor& k, double scale,
                     cudaStream_t stream) {
    if (features == no_features) {
        Tensor scaled = q.copy(stream);
        scale_by(scaled.data(), scaled.type(), scaled.size(), static_cast<float>(scale), stream);
        return {scaled, k};
    }
    LowRankOptions options = with_seed(o.lowrank);
    options.scale = scale;
    LowRank f = low_rank(features, q, k, options, stream);
    return {f.B, f.C};
}

Attention::Run by_masked_product(const std::string& features, const std::string& method, const SwapOptions& o) {
    return [=](const Tensor& q, const Tensor& k, const Tensor& v, double scale, cudaStream_t stream) {
        const Features f = features_of(features, o, q, k, scale, stream);
        CausalOptions options;
        options.method = method, options.normalize = o.normalize.value_or(true), options.block = o.block;
        options.stream = stream;
        return causal_linear_attention(f.B, f.C, v, options).O;
    };
}

// Rows divided by their length, and rows of zeros as they are.
Tensor of_length_one(const Tensor& x, cudaStream_t stream) {
    const Index width = x.shape().back(), rows = x.size() / width;
    Tensor out(DType::f32, x.shape(), stream);
    models::Norm norm;
    norm.width = width, norm.eps = 1e-37f;
    models::norm_rows(norm, x.as<float>(), width, rows, out.data(), Type::Float32, false, stream);
    scale_by(out.data(), Type::Float32, out.size(), static_cast<float>(1 / std::sqrt(static_cast<double>(width))),
             stream);
    return out;
}

// Rows of O over the sums of their weights, which γ multiplies from one token to the next.
void divide_by_sums(const Tensor& B, const Tensor& C, const Tensor& O, double gamma, cudaStream_t stream) {
    const auto n = causeway::exact::check_inputs(B.form(), C.form(), O.form());
    const std::vector<double> decay(static_cast<std::size_t>(n.heads), gamma);
    CausalArgs a = causal_args(B, C, O, n, decay, default_precision);
    a.o = O.data();
    const Buffer room(normalize_workspace(a), stream);
    a.workspace = {room.data(), room.bytes()};
    normalize(a, stream);
}

Tensor filled(const Shape& shape, double value, cudaStream_t stream) {
    Tensor out(DType::f32, shape, stream);
    fill(out.as<float>(), out.size(), static_cast<float>(value), stream);
    return out;
}

Attention::Run by_update(const std::string& update, const SwapOptions& o) {
    const causeway::gated::Update rule = causeway::gated::updates()[update].update;
    const bool gate = has_gate(rule), delta = has_delta(rule), normalized = o.normalize.value_or(!delta);
    return [=](const Tensor& q, const Tensor& k, const Tensor& v, double scale, cudaStream_t stream) {
        const Features f = features_of(o.features, o, q, k, scale, stream);
        const Shape gates{v.shape()[0], v.shape()[1], v.shape()[2]};
        LinearOptions options;
        options.update = update, options.check_gates = false, options.stream = stream;
        if (o.chunk) options.chunk = *o.chunk;
        if (gate) options.log_decay = filled(gates, o.log_decay, stream);
        if (delta) options.beta = filled(gates, o.beta, stream);
        const Tensor C = delta ? of_length_one(f.C, stream) : f.C, O = linear_attention(f.B, C, v, options).O;
        if (normalized) divide_by_sums(f.B, C, O, gate ? std::exp(o.log_decay) : 1, stream);
        return O;
    };
}

Tensor by_flash(const Tensor& q, const Tensor& k, const Tensor& v, double scale, cudaStream_t stream) {
    SoftmaxOptions options;
    options.scale = scale, options.stream = stream;
    return softmax_attention(q, k, v, options).O;
}

template <class Methods>
bool has(const Methods& methods, const std::string& name) {
    for (const auto& m : methods)
        if (m.name == name) return true;
    return false;
}

std::shared_ptr<const Attention> made(Attention::Run run) { return std::make_shared<const Attention>(std::move(run)); }

}  // namespace

bool runs_method(const std::string& method) {
    return method == "auto" || find_causal_method(causeway::exact::method(method).name);
}

std::shared_ptr<const Attention> attention_for(const std::string& with, const SwapOptions& o, const LayerInfo& layer) {
    const bool exact = causeway::model::is_exact_method(with), alone = !exact && has(lowrank::methods(), with),
               update = !exact && !alone && has(causeway::gated::updates(), with);
    if (layer.value_width > max_width || layer.width > max_width) return nullptr;
    if (with == "flash") return made(by_flash);
    if (!exact && !alone && !update) return nullptr;
    const std::string& features = alone ? with : o.features;
    const auto r = columns(features, o.lowrank, layer.width);
    if (!r || *r > max_width) return nullptr;
    if (update) {
        const auto rule = causeway::gated::updates()[with].update;
        const bool sums = o.normalize.value_or(!has_delta(rule)) && has_gate(rule);
        return sums && !(std::exp(o.log_decay) > 0) ? nullptr : made(by_update(with, o));
    }
    const std::string& method = alone ? o.method : with;
    // Not divided by their sums, rows that have a factor each need it back, which is done on the CPU.
    const auto rows = o.lowrank.own.find("rows");
    if (alone && !o.normalize.value_or(true) && rows != o.lowrank.own.end() && rows->second != 0) return nullptr;
    if (!runs_method(method)) return nullptr;
    method_for(method, o.block);  // throws where it is not built for the block
    return made(by_masked_product(features, method, o));
}

}  // namespace causeway::gpu
