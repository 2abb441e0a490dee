// Claims F3 to F9 (proofs/gates.md): linear attention in its three forms, what chunks cost, the gated delta rule.
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/bounds/causal_error.hpp"
#include "core/bounds/stability.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/tensor/dense.hpp"
#include "core/tensor/linalg.hpp"

namespace causeway::bounds {
namespace {

LinearOptions options_of(const Given& given, const std::string& mode) {
    LinearOptions o;
    o.mode = mode, o.chunk = std::min(given.whole("chunk", 64), given.size('N'));
    return o;
}

// The worst entry of all heads in a mode without gates.
Row mode_error(const Given& given, const std::string& mode, double roundings) {
    const LinearOptions o = options_of(given, mode);
    return worst_head(
        given, {"q", "k", "v"}, mode, roundings, 1,
        [&](const Tensor& q, const Tensor& k, const Tensor& v) { return linear_attention(q, k, v, o).O; });
}

// Multiplies of one head.
Index multiplies(const Given& given, const std::string& mode, bool delta) {
    LinearOptions o = options_of(given, mode);
    if (delta) o.update = "delta", o.beta = Tensor::full(DType::f64, {given.size('N')}, 0.5);
    OperationCount count;
    const auto in_f64 = [&](const char* name) { return given.head(name, 0).to(DType::f64); };
    linear_attention_counted(in_f64("q"), in_f64("k"), in_f64("v"), o, count);
    return count.multiplies;
}

std::vector<Row> token_by_token(const Given& given) {
    const Index N = given.size('N'), dk = given.size('r'), dv = given.size('d');
    const double k = real(N + dk);
    return {mode_error(given, "recurrent", k), mode_error(given, "parallel", k),
            counted_row("recurrent: 2n dk dv multiplies", multiplies(given, "recurrent", false), 2 * N * dk * dv)};
}

std::vector<Row> in_chunks(const Given& given) {
    const Index N = given.size('N'), C = options_of(given, "chunkwise").chunk;
    return {mode_error(given, "chunkwise", real(2 * C + ceil_div(N, C) + given.size('r')))};
}

std::vector<Row> cost_of_chunks(const Given& given) {
    const Index N = given.size('N'), dk = given.size('r'), dv = given.size('d'),
                C = options_of(given, "chunkwise").chunk;
    if (N % C != 0) fail("chunk: ", C, ", expected one that divides the length ", N);
    return {counted_row("n(C+1)/2 (dk+dv) + 2n dk dv", multiplies(given, "chunkwise", false),
                        N * (C + 1) / 2 * (dk + dv) + (N * (C + 1) % 2) * (dk + dv) / 2 + 2 * N * dk * dv)};
}

std::vector<Row> cost_of_delta(const Given& given) {
    const Index N = given.size('N'), dk = given.size('r'), dv = given.size('d'),
                C = options_of(given, "chunkwise").chunk;
    const Index last = N % C, squares = N / C * C * C + last * last;
    return {counted_row("ΣC_i² (dk+dv) + 3n dk dv + n dv", multiplies(given, "chunkwise", true),
                        squares * (dk + dv) + N * (3 * dk * dv + dv))};
}

// Keys that were divided by their length may be longer than 1 by roundings of their type: those are divided once more.
Matrix keys_of_length_one(const Given& given) {
    Matrix k = given.matrix("k");
    const double longest = 1 + 2 * given.u() * real(k.cols());
    for (Index t = 0; t < k.rows(); ++t) {
        const double length = k.row(t).norm();
        if (length > 1 && length <= longest) k.row(t) /= length;
    }
    return k;
}

std::vector<Row> stable(const Given& given) {
    const Matrix k = keys_of_length_one(given);
    const Point beta = given.numbers("beta"), a = given.has("a") ? given.numbers("a") : Point(beta.size(), 1);
    for (std::size_t t = 0; t < beta.size(); ++t) {
        const double squared = k.row(static_cast<Index>(t)).squaredNorm();
        const auto refuse = [&](const auto&... what) { fail(what..., " at token ", t + 1, ", as the claim asks"); };
        if (!(squared <= own_roundings))
            refuse("k: a key of length ", number_text(std::sqrt(squared)),
                   ", expected at most 1, but for roundings (l2norm)");
        if (!(beta[t] >= 0 && beta[t] * squared <= 2 * own_roundings))
            refuse("beta: ", number_text(beta[t]), ", expected β from 0 to 2/|k|²");
        if (!(a[t] >= 0 && a[t] <= 1)) refuse("a: ", number_text(a[t]), ", expected a gate in [0, 1]");
    }
    const auto column = [](const Point& x) {
        return Matrix(Eigen::Map<const Eigen::VectorXd>(x.data(), static_cast<Index>(x.size())));
    };
    const DeltaInverse y(k, column(beta), column(a));
    std::vector<Row> out{y.entries(), y.operator_norm()};
    for (Row& row : out) row.bound *= own_roundings;
    return out;
}

const std::vector<Input> sequence{
    {"q", "[..., N, r]", "queries"}, {"k", "[..., N, r]", "keys"}, {"v", "[..., N, d]", "values"}};
const std::string terms_of_counts =
    "n: tokens; C: tokens of a chunk, C_i those of chunk i; dk, dv: widths of keys and values";
const Input chunk_length{"chunk", "whole number", "chunk length; 64", true};

std::vector<Input> and_chunk(std::vector<Input> inputs) {
    inputs.push_back(chunk_length);
    return inputs;
}

}  // namespace

DeltaInverse::DeltaInverse(const Matrix& k, const Matrix& beta_, const Matrix& a) : beta(beta_) {
    const Index n = k.rows();
    const LongMatrix K = k.cast<Long>();
    inverse = LongMatrix::Identity(n, n);
    LongMatrix products = LongMatrix::Zero(n, n);  // Λ_tj
    for (Index t = 0; t < n; ++t) {
        for (Index j = 0; j < t; ++j) products(t, j) = products(t - 1, j) * a(t, 0);
        products(t, t) = 1;
        for (Index j = 0; j < t; ++j) {
            const Long T = beta(t, 0) * products(t, j) * K.row(t).dot(K.row(j));
            inverse.row(t) -= T * inverse.row(j);
        }
    }
}

Row DeltaInverse::entries() const {
    double most = 0;
    for (Index t = 0; t < inverse.rows(); ++t)
        for (Index j = 0; j < t; ++j) {
            const double entry = static_cast<double>(std::abs(inverse(t, j)));
            most = worst(most, entry == 0 ? 0 : entry / beta(t, 0));
        }
    return {"max |((I+T)⁻¹)_tj| / β_t, j < t", most, 1};
}

Row DeltaInverse::operator_norm() const {
    const double norm = opnorm(dense::matrix(inverse.cast<double>()));
    return {"‖(I+T)⁻¹‖ ≤ 1 + C max β", norm, 1 + real(inverse.rows()) * beta.maxCoeff()};
}

std::vector<Claim> gated_claims() {
    const std::string proof = "proofs/gates.md";
    return {
        {"F3", "linear attention by tokens or at once: error over Π", proof, "gates 1", sequence, token_by_token,
         terms_over_pi},
        {"F4", "linear attention in chunks: error over Π", proof, "gates 1", and_chunk(sequence), in_chunks,
         terms_over_pi},
        {"F5", "what linear attention in chunks costs", proof, "gates 1", and_chunk(sequence), cost_of_chunks,
         terms_of_counts},
        {"F8", "what the delta rule in chunks costs", proof, "derived", and_chunk(sequence), cost_of_delta,
         terms_of_counts},
        {"F9",
         "a chunk of the delta rule is stable: (I+T)⁻¹",
         proof,
         "derived",
         {{"k", "[C, r]",
           "the keys of a chunk, at most 1 long; those longer by up to r eps are divided by their length"},
          {"beta", "[C]", "β of each, from 0 to 2/|k|²"},
          {"a", "[C]", "gates in [0, 1]; 1", true}},
         stable,
         "T_tj = β_t Λ_tj k_t·k_j below the diagonal, Λ_tj: the product of the gates behind j up to t; C: tokens of "
         "the "
         "chunk"},
    };
}

}  // namespace causeway::bounds
