// Replacements by name.
#include "core/model/swap.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/text.hpp"
#include "core/distributed/decode.hpp"
#include "core/distributed/mpi.hpp"
#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/lowrank/lowrank.hpp"
#include "core/lowrank/masked_norms.hpp"
#include "core/lowrank/output_error.hpp"
#include "core/softmax/softmax_attention.hpp"

namespace causeway::model {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::count(names.begin(), names.end(), name) > 0;
}

// The names of a family's registry.
template <class Methods>
std::vector<std::string> names_of(const Methods& methods) {
    std::vector<std::string> out;
    for (const auto& m : methods) out.push_back(m.name);
    return out;
}

std::vector<std::string> feature_names() {
    std::vector<std::string> out;
    for (const auto& m : lowrank::methods())
        if (!m.future) out.push_back(m.name);
    out.push_back(no_features);
    return out;
}

// Whether Ã is more than B Cᵀ: some of its entries are to be taken exactly, or its rows have factors, which normalising
// takes out again.
bool needs_extras(const LowRank& f, bool normalize) {
    return f.extras.count("query_block") > 0 || f.extras.count("exact_rows") > 0 ||
           (!normalize && f.extras.count("log_rows") > 0);
}

// With a seed: what stands in the place of attention is one function, the same for every text and every run.
LowRankOptions with_seed(LowRankOptions o) {
    if (!o.seed) o.seed = 0;
    return o;
}

LowRank factors(const std::string& name, const SwapOptions& o, const Tensor& q, const Tensor& k, const Tensor& v,
                double scale) {
    LowRankOptions options = with_seed(o.lowrank);
    options.scale = scale;
    if (lowrank::method(name).values) options.v = v;
    return low_rank(name, q, k, options);
}

LowRank features(const SwapOptions& o, const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
    if (o.features != no_features) return factors(o.features, o, q, k, v, scale);
    Tensor scaled = q.copy();
    for (Index i = 0; i < scaled.size(); ++i) scaled.data<float>()[i] *= static_cast<float>(scale);
    return {scaled, k, {}};
}

// (M ⊙ B Cᵀ) V by an exact method, normalised where that is asked for.
Tensor masked_product(const Tensor& B, const Tensor& C, const Tensor& v, const std::string& method, bool normalize,
                      const SwapOptions& o) {
    CausalOptions options;
    options.method = method, options.normalize = normalize, options.block = o.block;
    return causal_linear_attention(B, C, v, options).O;
}

// The same for an Ã that is more than B Cᵀ, in tiles: O(N²) a head.
Tensor masked_product_with_extras(const LowRank& f, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                                  bool normalize) {
    using namespace lowrank;
    const Index N = q.shape().back(1), d = q.shape().back(), r = f.B.shape().back(), w = v.shape().back();
    const Tensor Q = q.to(DType::f64), K = k.to(DType::f64), B = f.B.to(DType::f64), C = f.C.to(DType::f64);
    const auto extra = [&](const char* name, Index head) {
        const auto at = f.extras.find(name);
        return at == f.extras.end() ? nullptr : at->second.data<double>() + head * N;
    };
    Tensor O(DType::f32, v.shape());
    parallel_for(q.size() / (N * d), [&](Index head) {
        Matrix<double> scaled = scale * ConstView<double>(Q.data<double>() + head * N * d, N, d);
        const Pair pair{{scaled.data(), N, d},
                        {K.data<double>() + head * N * d, N, d},
                        {B.data<double>() + head * N * r, N, r},
                        {C.data<double>() + head * N * r, N, r},
                        extra("log_rows", head),
                        extra("query_block", head),
                        extra("key_block", head),
                        extra("exact_rows", head)};
        const Matrix<double> V = ConstView<float>(v.data<float>() + head * N * w, N, w).cast<double>();
        for (Index i = 0; i < N; i += tile_rows) {
            const Index m = std::min(tile_rows, N - i);
            Matrix<double> sums = Matrix<double>::Zero(m, 1), out = Matrix<double>::Zero(m, w), A, delta;
            for (Index j = 0; j < i + m; j += tile_columns) {
                const Index n = std::min(tile_columns, N - j);
                pair.tile(i, m, j, n, A, delta);
                A -= delta;
                for (Index a = 0; a < m; ++a) A.row(a).tail(n - kept(i, a, j, n)).setZero();
                sums += A.rowwise().sum();
                kit::add_product(out, A, V.middleRows(j, n));
            }
            for (Index a = 0; a < m; ++a)
                View<float>(O.data<float>() + (head * N + i + a) * w, 1, w) =
                    (out.row(a) / (normalize ? sums(a, 0) : 1)).cast<float>();
        }
    });
    return O;
}

Replacement by_exact_method(const std::string& method, const SwapOptions& o) {
    return {method, [=](const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
                const LowRank f = features(o, q, k, v, scale);
                return masked_product(f.B, f.C, v, method, o.normalize.value_or(true), o);
            }};
}

Replacement by_factorisation(const std::string& name, const SwapOptions& o) {
    return {name, [=](const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
                const LowRank f = factors(name, o, q, k, v, scale);
                const bool normalize = o.normalize.value_or(true);
                if (needs_extras(f, normalize)) return masked_product_with_extras(f, q, k, v, scale, normalize);
                return masked_product(f.B, f.C, v, o.method, normalize, o);
            }};
}

// x with a column of ones behind the last one.
Tensor with_ones(const Tensor& x) {
    const Index rows = x.size() / x.shape().back(), w = x.shape().back();
    Shape shape = x.shape();
    shape[shape.ndim() - 1] = w + 1;
    Tensor out(DType::f32, shape);
    for (Index i = 0; i < rows; ++i) {
        std::copy_n(x.data<float>() + i * w, w, out.data<float>() + i * (w + 1));
        out.data<float>()[i * (w + 1) + w] = 1;
    }
    return out;
}

// Rows divided by their last number, without it.
Tensor divided(const Tensor& x) {
    const Index rows = x.size() / x.shape().back(), w = x.shape().back() - 1;
    Shape shape = x.shape();
    shape[shape.ndim() - 1] = w;
    Tensor out(DType::f32, shape);
    for (Index i = 0; i < rows; ++i) {
        const float* row = x.data<float>() + i * (w + 1);
        for (Index e = 0; e < w; ++e) out.data<float>()[i * w + e] = row[e] / row[w];
    }
    return out;
}

// Rows divided by their length, as the delta rule wants its keys.
Tensor of_length_one(const Tensor& x) {
    const Index rows = x.size() / x.shape().back(), w = x.shape().back();
    Tensor out(DType::f32, x.shape());
    for (Index i = 0; i < rows; ++i) {
        const float* row = x.data<float>() + i * w;
        double square = 0;
        for (Index e = 0; e < w; ++e) square += static_cast<double>(row[e]) * static_cast<double>(row[e]);
        const float factor = square > 0 ? static_cast<float>(1 / std::sqrt(square)) : 0.0f;
        for (Index e = 0; e < w; ++e) out.data<float>()[i * w + e] = factor * row[e];
    }
    return out;
}

Replacement by_update(const std::string& update, const SwapOptions& o) {
    const gated::Update rule = gated::updates()[update].update;
    const bool normalize = o.normalize.value_or(!gated::has_delta(rule));
    if (normalize && gated::has_delta(rule))
        fail("normalize: true, expected false for \"", update, "\", whose weights do not add up");
    if (!(o.log_decay <= 0)) fail("log_decay: ", number_text(o.log_decay), ", expected a number up to 0");
    if (!std::isfinite(o.beta)) fail("beta: ", number_text(o.beta), ", expected a finite number");
    return {update, [=](const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
                const LowRank f = features(o, q, k, v, scale);
                const Shape gates{v.shape()[0], v.shape()[1], v.shape()[2]};
                LinearOptions options;
                options.update = update;
                if (o.chunk) options.chunk = *o.chunk;
                if (gated::has_gate(rule)) options.log_decay = Tensor::full(DType::f32, gates, o.log_decay);
                if (gated::has_delta(rule)) options.beta = Tensor::full(DType::f32, gates, o.beta);
                const Tensor C = gated::has_delta(rule) ? of_length_one(f.C) : f.C;
                if (!normalize) return linear_attention(f.B, C, v, options).O;
                return divided(linear_attention(f.B, C, with_ones(v), options).O);
            }};
}

Replacement by_softmax(const std::string& method) {
    return {method,
            [=](const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
                SoftmaxOptions options;
                options.method = method, options.scale = scale;
                return softmax_attention(q, k, v, options).O;
            },
            true};
}

Replacement by_sharded_decoding(const std::string& method, const SwapOptions& o) {
    return {method,
            [=](const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
                DecodeOptions options;
                options.causal = true, options.scale = scale, options.shards = o.shards;
                return (method == "tree" ? tree_decode : ring_decode)(q, k, v, options).O;
            },
            true};
}

const std::vector<std::string> sharded{"tree", "ring"}, engines{"threads", "mpi"};

// The prompt as "flash" computes it, and the tokens behind over all ranks.
Replacement by_ranks(const std::string& method, const SwapOptions& o) {
    distributed::start_mpi();
    const int p = distributed::mpi_size();
    if (o.shards != 0 && o.shards != p)
        fail("shards: ", o.shards, ", expected ", p, ", the number of MPI ranks, or none");
    Replacement made = by_softmax("flash");
    made.name = method, made.ranks = method == "tree" ? Ranks::tree : Ranks::ring;
    made.settings = sentence("shards ", p, ", ranks of MPI");
    return made;
}

// ---- what it was made with ----

std::string with_comma(const std::string& text) { return text.empty() ? "" : ", " + text; }

// 0.5 -> "0.5", 8.0 -> "8"
std::string short_number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", x);
    return text;
}

// "rank 64, seed 0, samples 2" of a factorisation; what was not given is what it takes then.
std::string settings_of(const lowrank::Method& m, const LowRankOptions& o) {
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
    if (o.rank) add(sentence("rank ", *o.rank));
    else if (m.default_rank > 0) add(sentence("rank ", m.default_rank));
    if (m.seeded) add(sentence("seed ", *with_seed(o).seed));
    for (const auto& option : m.options) {
        const auto given = o.own.find(option.name);
        if (given != o.own.end()) add(option.name + " " + short_number(given->second));
    }
    return text;
}

std::string features_of(const SwapOptions& o) {
    if (o.features == no_features) return "q and k as they are";
    return "features " + o.features + with_comma(settings_of(lowrank::method(o.features), o.lowrank));
}

std::string normalised(bool normalize) { return normalize ? ", rows over their sums" : ", rows not over their sums"; }

std::string block_of(const SwapOptions& o) { return o.block ? sentence(", block ", *o.block) : ""; }

std::string settings_of_update(const std::string& update, const SwapOptions& o) {
    const gated::Update rule = gated::updates()[update].update;
    std::string text = features_of(o);
    if (gated::has_gate(rule)) text += ", log_decay " + short_number(o.log_decay);
    if (gated::has_delta(rule)) text += ", beta " + short_number(o.beta) + ", keys of length 1";
    if (o.chunk) text += sentence(", chunk ", *o.chunk);
    return text + normalised(o.normalize.value_or(!gated::has_delta(rule)));
}

Replacement with_settings(Replacement made, std::string settings, bool in_parts) {
    made.settings = std::move(settings), made.in_parts = in_parts;
    return made;
}

}  // namespace

std::vector<std::string> replacement_names() {
    std::vector<std::string> out{"auto"};
    const auto add = [&](const std::vector<std::string>& names) {
        for (const auto& name : names)
            if (!contains(out, name)) out.push_back(name);
    };
    add(names_of(exact::methods()));
    add(names_of(lowrank::methods()));
    add(names_of(gated::updates()));
    add(names_of(attention::methods()));
    add(sharded);
    return out;
}

bool is_exact_method(const std::string& name) {
    const auto& all = exact::methods();
    return name == "auto" || std::any_of(all.begin(), all.end(), [&](const exact::Method& m) {
               return m.name == name || m.short_name == name;
           });
}

Replacement replacement(const std::string& with, const SwapOptions& o) {
    if (!contains(feature_names(), o.features)) {
        std::string names;
        for (const std::string& name : feature_names()) names += (names.empty() ? "" : ", ") + in_quotes(name);
        fail("features: ", in_quotes(o.features),
             ", expected a factorisation that looks at one token at a time or none: ", names,
             did_you_mean(o.features, feature_names()));
    }
    if (!is_exact_method(o.method)) exact::method(o.method);  // which says what is known
    if (o.block && *o.block < 1) fail("block: ", *o.block, ", expected 1 or more");
    if (o.chunk && *o.chunk < 1) fail("chunk: ", *o.chunk, ", expected 1 or more");
    if (o.lowrank.rank && *o.lowrank.rank < 1) fail("rank: ", *o.lowrank.rank, ", expected 1 or more");
    if (o.shards < 0) fail("shards: ", o.shards, ", expected 0 or more");
    const bool normalize = o.normalize.value_or(true);
    const std::string rows = normalised(normalize) + block_of(o);
    // Features have a factor that is chosen for the whole text, which only normalising takes out again.
    if (is_exact_method(with)) return with_settings(by_exact_method(with, o), features_of(o) + rows, normalize);
    if (contains(names_of(lowrank::methods()), with)) {
        const std::string own = settings_of(lowrank::method(with), o.lowrank);
        return with_settings(by_factorisation(with, o),
                             (own.empty() ? "masked product by " : own + ", masked product by ") + o.method + rows,
                             normalize && !lowrank::method(with).future);
    }
    if (contains(names_of(gated::updates()), with))
        return with_settings(by_update(with, o), settings_of_update(with, o),
                             normalize && !gated::has_delta(gated::updates()[with].update));
    if (contains(names_of(attention::methods()), with)) return by_softmax(with);
    if (!contains(engines, o.engine))
        fail("engine: ", in_quotes(o.engine), ", expected \"threads\" or \"mpi\"", did_you_mean(o.engine, engines));
    if (contains(sharded, with) && o.engine == "mpi") return by_ranks(with, o);
    if (contains(sharded, with)) {
        return with_settings(by_sharded_decoding(with, o),
                             o.shards > 0 ? sentence("shards ", o.shards) : "as many shards as threads", true);
    }
    fail("with: ", in_quotes(with), ", expected an exact method, a factorisation, an update of linear_attention, ",
         "\"flash\", \"standard\", \"tree\" or \"ring\"", did_you_mean(with, replacement_names()));
}

}  // namespace causeway::model
