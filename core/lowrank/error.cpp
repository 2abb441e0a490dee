#include "core/lowrank/error.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "core/base/error.hpp"
#include "core/lowrank/lowrank.hpp"
#include "core/lowrank/masked_norms.hpp"
#include "core/lowrank/output_error.hpp"

namespace causeway {
namespace {

using kit::ConstView;
using kit::Matrix;
using kit::Scratch;
using lowrank::Pair;

MaskedNorms norms(const std::array<double, lowrank::kinds>& x) { return {x[0], x[1], x[2], x[3]}; }

double square(double x) { return x * x; }

// The heads as blocks of one matrix: squares add in Frobenius norm, the largest counts in operator norm.
LowRankError together(const std::vector<LowRankError>& heads) {
    LowRankError all = heads[0];
    for (std::size_t h = 1; h < heads.size(); ++h) {
        const LowRankError& one = heads[h];
        for (auto part :
             {&MaskedNorms::error, &MaskedNorms::error_masked, &MaskedNorms::matrix, &MaskedNorms::matrix_masked}) {
            all.frobenius.*part = std::sqrt(square(all.frobenius.*part) + square(one.frobenius.*part));
            all.operator_norm.*part = std::max(all.operator_norm.*part, one.operator_norm.*part);
        }
        all.residual = std::max(all.residual, one.residual);
        if (!one.output) continue;
        for (auto part :
             {&OutputError::error, &OutputError::output, &OutputError::error_masked, &OutputError::output_masked,
              &OutputError::row_bound, &OutputError::frobenius_bound, &OutputError::operator_bound})
            (*all.output).*part = std::sqrt(square((*all.output).*part) + square((*one.output).*part));
        all.output->row_share = std::max(all.output->row_share, one.output->row_share);
        all.output->min_sum = std::min(all.output->min_sum, one.output->min_sum);
    }
    return all;
}

// The tensors of a call, checked and in Float64.
struct Inputs {
    lowrank::Heads heads;
    Index r, w;
    double scale;
    Tensor q, k, B, C, v;
    std::optional<Tensor> log_rows, exact_rows, query_block, key_block;
};

// A number for each row of q, by its name; none where it was not given.
std::optional<Tensor> check_extra(const char* name, Index rows, const LowRankErrorOptions& o) {
    const auto at = o.extras.find(name);
    if (at == o.extras.end()) return {};
    if (at->second.size() != rows)
        fail(name, ": ", at->second.shape().text(), ", expected a number for each of the ", rows, " rows of q");
    lowrank::check_finite(name, at->second);
    return at->second.to(DType::f64);
}

Inputs check(const Tensor& q, const Tensor& k, const Tensor& B, const Tensor& C, const LowRankErrorOptions& o) {
    Inputs in{};
    in.heads = lowrank::check_inputs(q, k);
    lowrank::check_rows("B", B, q);
    if (C.shape() != B.shape()) fail("C: ", C.shape().text(), ", expected ", B.shape().text(), " like B");
    lowrank::check_finite("C", C);
    if (o.v) lowrank::check_rows("v", *o.v, q);
    in.scale = lowrank::check_scale(o.scale, in.heads.d);
    if (!(o.tolerance > 0 && o.tolerance < 1)) fail("tolerance: ", o.tolerance, ", expected a number between 0 and 1");
    if (o.iterations < 1) fail("iterations: ", o.iterations, ", expected 1 or more");
    const Index rows = in.heads.count * in.heads.N;
    in.log_rows = check_extra("log_rows", rows, o), in.exact_rows = check_extra("exact_rows", rows, o);
    in.query_block = check_extra("query_block", rows, o), in.key_block = check_extra("key_block", rows, o);
    if (in.query_block.has_value() != in.key_block.has_value())
        fail(in.query_block ? "key_block" : "query_block", ": missing, expected beside ",
             in.query_block ? "query_block" : "key_block");
    in.q = q.to(DType::f64), in.k = k.to(DType::f64), in.B = B.to(DType::f64), in.C = C.to(DType::f64);
    if (o.v) in.v = o.v->to(DType::f64);
    in.r = B.shape().back(), in.w = o.v ? o.v->shape().back() : 0;
    return in;
}

// Head h, whose scaled queries go into `scaled` [N, d].
Pair pair_of(const Inputs& in, Index h, Scratch<double>& scaled) {
    const Index N = in.heads.N, d = in.heads.d, r = in.r;
    scaled = in.scale * ConstView<double>(in.q.data<double>() + h * N * d, N, d);
    const auto rows_of = [&](const std::optional<Tensor>& x) { return x ? x->data<double>() + h * N : nullptr; };
    return {{scaled.data(), N, d},
            {in.k.data<double>() + h * N * d, N, d},
            {in.B.data<double>() + h * N * r, N, r},
            {in.C.data<double>() + h * N * r, N, r},
            rows_of(in.log_rows),
            rows_of(in.query_block),
            rows_of(in.key_block),
            rows_of(in.exact_rows)};
}

// The error of the output with its bounds, of which those of A10 take the norms of Δ.
OutputError output_error(const Pair& pair, const ConstView<double>& v, bool mask, const LowRankError& e) {
    const auto [errors, reach, min_sum] = lowrank::output_errors(pair, v, mask);
    OutputError out = errors;
    if (!mask) return out;
    const double radius = std::sqrt((v.rowwise() - v.colwise().mean()).rowwise().squaredNorm().maxCoeff());
    out.frobenius_bound = reach * e.frobenius.error;
    out.operator_bound = min_sum == 0 ? std::numeric_limits<double>::infinity()
                                      : 2 * std::sqrt(static_cast<double>(pair.N())) * e.operator_constant *
                                            e.operator_norm.error * radius / min_sum;
    return out;
}

LowRankError error_of_head(const Pair& pair, const Inputs& in, Index h, const LowRankErrorOptions& o) {
    const lowrank::Tile tile = [&](Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta) {
        pair.tile(i, m, j, n, A, delta);
    };
    const Index N = in.heads.N;
    const lowrank::TiledNorms found = lowrank::norms_of(tile, N, o.mask, o.tolerance, o.iterations);
    if (std::isfinite(found.frobenius[2]) && !std::isfinite(found.frobenius[0]))
        fail("B: B Cᵀ overflows, expected smaller factors");
    if (!std::isfinite(found.frobenius[2]))
        fail("q: exp(scale q kᵀ) overflows, expected smaller queries, keys or scale");
    LowRankError e{norms(found.frobenius), norms(found.operators), masking_constant(N), found.residual, {}};
    if (o.v) e.output = output_error(pair, ConstView<double>(in.v.data<double>() + h * N * in.w, N, in.w), o.mask, e);
    return e;
}

}  // namespace

LowRankErrors lowrank_error(const Tensor& q, const Tensor& k, const Tensor& B, const Tensor& C,
                            const LowRankErrorOptions& o) {
    const Inputs in = check(q, k, B, C, o);
    Scratch<double> scaled(in.heads.N, in.heads.d);
    LowRankErrors out;
    for (Index h = 0; h < in.heads.count; ++h) {
        const Pair pair = pair_of(in, h, scaled);
        out.heads.push_back(error_of_head(pair, in, h, o));
    }
    if (in.heads.count == 0) fail("q: ", q.shape().text(), ", expected at least one head");
    out.all = together(out.heads);
    return out;
}

MatrixNorms masked_norms(const Tensor& X) {
    if (X.ndim() != 2 || X.shape()[0] != X.shape()[1] || X.size() == 0)
        fail("X: a ", X.summary(), ", expected a square matrix");
    lowrank::check_finite("X", X);
    const Index N = X.shape()[0];
    const Tensor x = X.to(DType::f64);
    const ConstView<double> all(x.data<double>(), N, N);
    // Entries below 1, by a power of two: their squares neither overflow nor vanish.
    int exponent = 0;
    std::frexp(all.cwiseAbs().maxCoeff(), &exponent);
    const auto scaled = [&](double value, int by) { return std::ldexp(std::ldexp(value, by / 2), by - by / 2); };
    const lowrank::Tile tile = [&](Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta) {
        delta = all.block(i, j, m, n).unaryExpr([&](double value) { return scaled(value, -exponent); });
        A.setZero(m, n);
    };
    lowrank::TiledNorms found = lowrank::norms_of(tile, N, true, 1e-6, 300);
    for (double& value : found.frobenius) value = scaled(value, exponent);
    for (double& value : found.operators) value = scaled(value, exponent);
    return {norms(found.frobenius), norms(found.operators)};
}

}  // namespace causeway
