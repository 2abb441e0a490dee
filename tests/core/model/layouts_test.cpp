// Every layout against the model as it is written down, in Float64, on small random weights.
#include "core/model/layout.hpp"

#include "core/model/model.hpp"
#include "tests/catch.hpp"
#include "tests/core/model/plain.hpp"
#include "tests/core/model/qwen3_next_folder.hpp"
#include "tests/core/model/tiny.hpp"

using namespace causeway;
using namespace causeway::test;
using model::Ids;
using model::Model;
using model::Session;
using plain::Matrix;
using testing::message_of;
using testing::TemporaryFolder;

namespace {

constexpr Index vocabulary = 37;

Ids some_ids(Index n) {
    Ids out;
    for (Index i = 0; i < n; ++i) out.push_back(static_cast<std::int32_t>((i * i * 5 + 3 * i + 1) % vocabulary));
    return out;
}

// Relative to the largest.
double off_by(const Tensor& logits, const Matrix& expected) {
    double most = 0;
    for (Index i = 0; i < logits.size(); ++i) {
        const double off = std::abs(logits.get(i) - expected.data()[i]);
        if (!(off <= most)) most = off;
    }
    return logits.size() == expected.size() ? most / expected.cwiseAbs().maxCoeff() : INFINITY;
}

// The model computes what the plain one does, by chunks and token by token too, and no token changes earlier ones.
void check_model(const Model& m, const Ids& ids, const Matrix& expected) {
    const Tensor all = m.logits(ids);
    CHECK(off_by(all, expected) < 2e-5);
    for (const Index chunk : {1, 5}) {
        model::RunOptions options;
        options.chunk = chunk;
        CHECK(off_by(m.logits(ids, options), expected) < 2e-5);
    }
    Ids other = ids;
    other.back() = (other.back() + 1) % vocabulary;
    const Tensor two = m.logits(std::vector<Ids>{other, ids});
    CHECK(distance(two.data<float>() + all.size(), all.data<float>(), all.size()) < 2e-5 * expected.maxCoeff());
    CHECK(distance(two.data<float>(), all.data<float>(), all.size() - vocabulary) < 2e-5 * expected.maxCoeff());
    Session session(m);
    session.advance(std::span(ids).first(7));
    Session copied = session.copy();
    session.advance(std::span(other).subspan(3));
    const Tensor last = copied.advance(std::span(ids).subspan(7));
    CHECK(distance(last.data<float>(), all.data<float>() + all.size() - vocabulary, vocabulary) <
          2e-5 * expected.maxCoeff());
}

// ----------------------------------------------------------------------------------------------------------------
// Llama

RandomFolder llama_folder(Index head = 8) {
    RandomFolder f;
    f.config = {{"model_type", "llama"},    {"hidden_size", 24},        {"num_hidden_layers", 2},
                {"num_attention_heads", 6}, {"num_key_value_heads", 2}, {"head_dim", head},
                {"intermediate_size", 20},  {"rms_norm_eps", 1e-5},     {"rope_theta", 500.0}};
    f.matrix("model.embed_tokens.weight", vocabulary, 24, 5);
    f.matrix("lm_head.weight", vocabulary, 24);
    f.vector("model.norm.weight", 24, 1);
    for (Index i = 0; i < 2; ++i) {
        const std::string at = plain::layer_name(i);
        f.matrix(at + "self_attn.q_proj.weight", 6 * head, 24, 2);
        f.matrix(at + "self_attn.k_proj.weight", 2 * head, 24, 2);
        f.matrix(at + "self_attn.v_proj.weight", 2 * head, 24);
        f.matrix(at + "self_attn.o_proj.weight", 24, 6 * head);
        f.matrix(at + "mlp.gate_proj.weight", 20, 24);
        f.matrix(at + "mlp.up_proj.weight", 20, 24);
        f.matrix(at + "mlp.down_proj.weight", 24, 20);
        f.vector(at + "input_layernorm.weight", 24, 1);
        f.vector(at + "post_attention_layernorm.weight", 24, 1);
    }
    return f;
}

// `frequency` of pair i.
Matrix plain_llama(const model::Checkpoint& c, const Ids& ids, const std::function<double(Index)>& frequency) {
    const Index heads = plain::whole(c, "num_attention_heads"),
                shared =
                    heads / static_cast<Index>(c.number("num_key_value_heads").value_or(static_cast<double>(heads))),
                layers = plain::whole(c, "num_hidden_layers");
    const double eps = c.number("rms_norm_eps").value();
    Matrix x = plain::embedding(c, ids);
    for (Index l = 0; l < layers; ++l) {
        const std::string at = plain::layer_name(l);
        Matrix h = plain::rms(x, eps, plain::weight(c, at + "input_layernorm.weight"));
        const Matrix q = plain::linear(c, h, at + "self_attn.q_proj"), k = plain::linear(c, h, at + "self_attn.k_proj"),
                     v = plain::linear(c, h, at + "self_attn.v_proj");
        const Index d = q.cols() / heads;
        Matrix o(x.rows(), q.cols());
        for (Index i = 0; i < heads; ++i) {
            Matrix qi = plain::columns(q, i * d, d), ki = plain::columns(k, i / shared * d, d);
            if (c.has(at + "self_attn.q_norm.weight")) {
                qi = plain::rms(qi, eps, plain::weight(c, at + "self_attn.q_norm.weight"));
                ki = plain::rms(ki, eps, plain::weight(c, at + "self_attn.k_norm.weight"));
            }
            o.middleCols(i * d, d) =
                plain::softmax(plain::rotated(qi, d, false, frequency), plain::rotated(ki, d, false, frequency),
                               plain::columns(v, i / shared * d, d));
        }
        x += plain::linear(c, o, at + "self_attn.o_proj");
        h = plain::rms(x, eps, plain::weight(c, at + "post_attention_layernorm.weight"));
        x += plain::gated_mlp(c, h, at + "mlp.gate_proj", at + "mlp.up_proj", at + "mlp.down_proj", plain::silu);
    }
    x = plain::rms(x, eps, plain::weight(c, "model.norm.weight"));
    return x * plain::weight(c, c.has("lm_head.weight") ? "lm_head.weight" : "model.embed_tokens.weight").transpose();
}

std::function<double(Index)> geometric(double theta, Index pairs) {
    return [=](Index i) { return std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)); };
}

void check_llama(const RandomFolder& f, const std::function<double(Index)>& frequency) {
    TemporaryFolder folder;
    f.write(folder.path());
    const Model m = Model::load(folder.path());
    const Ids ids = some_ids(23);
    check_model(m, ids, plain_llama(*m.checkpoint(), ids, frequency));
}

// -------------------------------------------------------------------------------------------------------------- the
// rest

RandomFolder transnormer_folder() {
    RandomFolder f;
    f.config = {{"model_type", "transnormer"},
                {"decoder_embed_dim", 24},
                {"decoder_attention_heads", 3},
                {"hidden_dim", 18},
                {"glu_dim", 20},
                {"decoder_layers", 3},
                {"linear_use_lrpe_list", {1, 0, 1}}};
    f.matrix("model.embed_tokens.weight", vocabulary, 24);
    f.matrix("lm_head.weight", vocabulary, 24);
    for (Index i = 0; i < 3; ++i) {
        const std::string at = plain::layer_name(i);
        f.matrix(at + "token_mixer.qkvu_proj.weight", 4 * 18, 24, 2);
        f.matrix(at + "token_mixer.out_proj.weight", 24, 18);
        if (i != 1) f.add(at + "token_mixer.lrpe.theta", {3, 1, 6}, 0, 1);
        f.matrix(at + "channel_mixer.l1.weight", 20, 24);
        f.matrix(at + "channel_mixer.l2.weight", 20, 24);
        f.matrix(at + "channel_mixer.l3.weight", 24, 20);
    }
    return f;
}

Matrix plain_transnormer(const model::Checkpoint& c, const Ids& ids) {
    constexpr double eps = 1e-8;
    const Index heads = plain::whole(c, "decoder_attention_heads"), hidden = plain::whole(c, "hidden_dim"),
                layers = plain::whole(c, "decoder_layers"), d = hidden / heads;
    // Of three heads, and of four.
    const std::vector<double> slopes = heads == 3 ? std::vector<double>{1.0 / 16, 1.0 / 256, 1.0 / 4}
                                                  : std::vector<double>{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256};
    Matrix x = plain::embedding(c, ids);
    x *= std::sqrt(static_cast<double>(x.cols()));
    const auto identity = [](double e) { return e; };
    for (Index l = 0; l < layers; ++l) {
        const std::string at = plain::layer_name(l), mlp = at + "channel_mixer.";
        const Matrix qkvu = plain::linear(c, plain::rms(x, eps), at + "token_mixer.qkvu_proj");
        Matrix o(x.rows(), hidden);
        for (Index h = 0; h < heads; ++h) {
            Matrix q = plain::each(plain::columns(qkvu, h * d, d), plain::silu),
                   k = plain::each(plain::columns(qkvu, hidden + h * d, d), plain::silu);
            if (c.has(at + "token_mixer.lrpe.theta")) {
                const Matrix theta = plain::weight(c, at + "token_mixer.lrpe.theta");
                const auto placed = [&](const Matrix& y) {
                    Matrix out(y.rows(), 2 * d);
                    for (Index t = 0; t < y.rows(); ++t)
                        for (Index e = 0; e < d; ++e)
                            out(t, e) = y(t, e) * std::cos(static_cast<double>(t) * theta(h, e)),
                                   out(t, e + d) = y(t, e) * std::sin(static_cast<double>(t) * theta(h, e));
                    return out;
                };
                q = placed(q), k = placed(k);
            }
            const double far = static_cast<double>(l) / static_cast<double>(layers - 1),
                         gamma = std::exp(-slopes[static_cast<std::size_t>(h)] * (1 - far + 1e-5));
            o.middleCols(h * d, d) = plain::decayed(q, k, plain::columns(qkvu, 2 * hidden + h * d, d), gamma);
        }
        x += plain::linear(c, plain::rms(o, eps).cwiseProduct(plain::columns(qkvu, 3 * hidden, hidden)),
                           at + "token_mixer.out_proj");
        x += plain::gated_mlp(c, plain::rms(x, eps), mlp + "l1", mlp + "l2", mlp + "l3", identity);
    }
    return plain::linear(c, plain::rms(x, eps), "lm_head");
}

RandomFolder retnet_folder() {
    RandomFolder f;
    f.config = {{"model_type", "retnet"},      {"decoder_embed_dim", 24}, {"decoder_value_embed_dim", 30},
                {"decoder_ffn_embed_dim", 20}, {"decoder_layers", 2},     {"decoder_retention_heads", 3},
                {"layernorm_eps", 1e-6},       {"activation_fn", "gelu"}, {"no_scale_embedding", false}};
    f.matrix("model.embed_tokens.weight", vocabulary, 24);
    f.matrix("lm_head.weight", vocabulary, 24);
    f.vector("model.layer_norm.weight", 24, 1);
    for (Index i = 0; i < 2; ++i) {
        const std::string at = plain::layer_name(i);
        for (const std::string name : {"q_proj", "k_proj"}) f.matrix(at + "retention." + name + ".weight", 24, 24, 2);
        for (const std::string name : {"v_proj", "g_proj"}) f.matrix(at + "retention." + name + ".weight", 30, 24);
        f.matrix(at + "retention.out_proj.weight", 24, 30);
        f.vector(at + "retention_layer_norm.weight", 24, 1);
        f.vector(at + "final_layer_norm.weight", 24, 1);
        f.matrix(at + "ffn.fc1.weight", 20, 24);
        f.matrix(at + "ffn.gate.weight", 20, 24);
        f.matrix(at + "ffn.fc2.weight", 24, 20);
    }
    return f;
}

Matrix plain_retnet(const model::Checkpoint& c, const Ids& ids) {
    constexpr double eps = 1e-6;
    constexpr Index heads = 3, d = 8, w = 10;
    Matrix x = plain::embedding(c, ids) * std::sqrt(24.0);
    const auto frequency = [](Index i) { return std::pow(10000.0, -static_cast<double>(i) / 3); };
    for (Index l = 0; l < 2; ++l) {
        const std::string at = plain::layer_name(l);
        Matrix h = plain::rms(x, eps, plain::weight(c, at + "retention_layer_norm.weight"));
        const Matrix q = plain::linear(c, h, at + "retention.q_proj"), k = plain::linear(c, h, at + "retention.k_proj"),
                     v = plain::linear(c, h, at + "retention.v_proj"), g = plain::linear(c, h, at + "retention.g_proj");
        Matrix o(x.rows(), heads * w);
        for (Index i = 0; i < heads; ++i) {
            const Matrix qi = plain::rotated(plain::columns(q, i * d, d), d, true, frequency),
                         ki = plain::rotated(plain::columns(k, i * d, d), d, true, frequency) / std::sqrt(8.0);
            const double gamma = 1 - std::exp2(-5 - static_cast<double>(i));
            o.middleCols(i * w, w) = plain::rms(plain::decayed(qi, ki, plain::columns(v, i * w, w), gamma), eps);
        }
        x += plain::linear(c, o.cwiseProduct(plain::each(g, plain::silu)), at + "retention.out_proj");
        h = plain::rms(x, eps, plain::weight(c, at + "final_layer_norm.weight"));
        x += plain::gated_mlp(c, h, at + "ffn.fc1", at + "ffn.gate", at + "ffn.fc2", plain::gelu);
    }
    return plain::linear(c, plain::rms(x, eps, plain::weight(c, "model.layer_norm.weight")), "lm_head");
}

// Heads of a gated delta net: rows of qkvz by key head [q, k, three v, three z], of ba [three b, three a].
Matrix plain_delta_net(const model::Checkpoint& c, const Matrix& x, const std::string& at) {
    constexpr Index d = 5, w = 7, key_heads = 2, shared = 3, group = 2 * d + 2 * shared * w, keys = key_heads * d,
                    values = key_heads * shared * w;
    const Index n = x.rows();
    const Matrix qkvz = plain::linear(c, x, at + "in_proj_qkvz"), ba = plain::linear(c, x, at + "in_proj_ba"),
                 taps = plain::weight(c, at + "conv1d.weight"), A = plain::weight(c, at + "A_log"),
                 bias = plain::weight(c, at + "dt_bias"), norm = plain::weight(c, at + "norm.weight");
    Matrix mixed(n, 2 * keys + values), z(n, values);
    for (Index h = 0; h < key_heads; ++h) {
        mixed.middleCols(h * d, d) = plain::columns(qkvz, h * group, d);
        mixed.middleCols(keys + h * d, d) = plain::columns(qkvz, h * group + d, d);
        mixed.middleCols(2 * keys + h * shared * w, shared * w) = plain::columns(qkvz, h * group + 2 * d, shared * w);
        z.middleCols(h * shared * w, shared * w) = plain::columns(qkvz, h * group + 2 * d + shared * w, shared * w);
    }
    Matrix y = Matrix::Zero(n, mixed.cols());
    for (Index t = 0; t < n; ++t)
        for (Index s = std::max<Index>(t - 3, 0); s <= t; ++s)
            for (Index e = 0; e < y.cols(); ++e) y(t, e) += taps(e, 3 - (t - s)) * mixed(s, e);
    y = plain::each(y, plain::silu);
    const auto of_length_one = [](Matrix m) {
        for (Index t = 0; t < m.rows(); ++t) m.row(t) /= std::sqrt(m.row(t).squaredNorm() + 1e-6);
        return m;
    };
    Matrix o(n, values);
    for (Index h = 0; h < key_heads * shared; ++h) {
        const Index key = h / shared, at_b = key * 2 * shared + h % shared;
        Eigen::VectorXd g(n), beta(n);
        for (Index t = 0; t < n; ++t) {
            beta[t] = plain::sigmoid(ba(t, at_b));
            g[t] = -std::exp(A(0, h)) * std::log1p(std::exp(ba(t, at_b + shared) + bias(0, h)));
        }
        const Matrix out = plain::gated_delta(of_length_one(plain::columns(y, key * d, d)),
                                              of_length_one(plain::columns(y, keys + key * d, d)),
                                              plain::columns(y, 2 * keys + h * w, w), g, beta);
        o.middleCols(h * w, w) =
            plain::rms(out, 1e-6, norm).cwiseProduct(plain::each(plain::columns(z, h * w, w), plain::silu));
    }
    return plain::linear(c, o, at + "out_proj");
}

// Softmax attention with rotary positions on the first `turned` numbers of a head.
Matrix plain_full(const model::Checkpoint& c, const Matrix& x, const std::string& at, Index heads, Index shared,
                  Index d, Index turned, double theta, bool gated) {
    const Matrix q = plain::linear(c, x, at + "q_proj"), k = plain::linear(c, x, at + "k_proj"),
                 v = plain::linear(c, x, at + "v_proj");
    Matrix o(x.rows(), heads * d);
    for (Index h = 0; h < heads; ++h) {
        const Index step = gated ? 2 * d : d, key = h / shared * d;
        Matrix qh = plain::columns(q, h * step, d), kh = plain::columns(k, key, d);
        if (gated) {
            qh = plain::rms(qh, 1e-6, plain::weight(c, at + "q_norm.weight"), 1);
            kh = plain::rms(kh, 1e-6, plain::weight(c, at + "k_norm.weight"), 1);
        }
        const auto frequency = geometric(theta, turned / 2);
        Matrix oh = plain::softmax(plain::rotated(qh, turned, false, frequency),
                                   plain::rotated(kh, turned, false, frequency), plain::columns(v, key, d));
        if (gated) oh = oh.cwiseProduct(plain::each(plain::columns(q, h * step + d, d), plain::sigmoid));
        o.middleCols(h * d, d) = oh;
    }
    return plain::linear(c, o, at + "o_proj");
}

Matrix plain_qwen3_next(const model::Checkpoint& c, const Ids& ids) {
    Matrix x = plain::embedding(c, ids);
    for (Index l = 0; l < 3; ++l) {
        const std::string at = plain::layer_name(l);
        Matrix h = plain::rms(x, 1e-6, plain::weight(c, at + "input_layernorm.weight"), 1);
        x += l == 1 ? plain_full(c, h, at + "self_attn.", 4, 2, 8, 4, 1000, true)
                    : plain_delta_net(c, h, at + "linear_attn.");
        h = plain::rms(x, 1e-6, plain::weight(c, at + "post_attention_layernorm.weight"), 1);
        x += plain::gated_mlp(c, h, at + "mlp.gate_proj", at + "mlp.up_proj", at + "mlp.down_proj", plain::silu);
    }
    return plain::linear(c, plain::rms(x, 1e-6, plain::weight(c, "model.norm.weight"), 1), "lm_head");
}

RandomFolder minimax_folder() {
    RandomFolder f;
    f.config = {{"model_type", "minimax"},
                {"hidden_size", 24},
                {"num_hidden_layers", 3},
                {"num_attention_heads", 4},
                {"num_key_value_heads", 2},
                {"head_dim", 8},
                {"intermediate_size", 20},
                {"rms_norm_eps", 1e-5},
                {"num_local_experts", 1},
                {"layer_types", {"linear_attention", "full_attention", "linear_attention"}},
                {"rope_theta", 1000.0},
                {"linear_attn_alpha_factor", 1.5},
                {"linear_attn_beta_factor", 0.75},
                {"full_attn_alpha_factor", 1.25},
                {"mlp_beta_factor", 0.5}};
    f.matrix("model.embed_tokens.weight", vocabulary, 24, 5);
    f.matrix("lm_head.weight", vocabulary, 24);
    f.vector("model.norm.weight", 24, 1);
    for (Index i = 0; i < 3; ++i) {
        const std::string at = plain::layer_name(i);
        if (i == 1) {
            add_softmax(f, at + "self_attn.", 4 * 8, 2 * 8, 4 * 8);
        } else {
            f.matrix(at + "self_attn.qkv_proj.weight", 3 * 32, 24, 2);
            f.matrix(at + "self_attn.output_gate.weight", 32, 24);
            f.matrix(at + "self_attn.out_proj.weight", 24, 32);
            f.vector(at + "self_attn.norm.weight", 32, 1);
        }
        f.vector(at + "input_layernorm.weight", 24, 1);
        f.vector(at + "post_attention_layernorm.weight", 24, 1);
        for (const std::string name : {"w1", "w3"})
            f.matrix(at + "block_sparse_moe.experts.0." + name + ".weight", 20, 24);
        f.matrix(at + "block_sparse_moe.experts.0.w2.weight", 24, 20);
    }
    return f;
}

Matrix plain_minimax(const model::Checkpoint& c, const Ids& ids) {
    Matrix x = plain::embedding(c, ids);
    for (Index l = 0; l < 3; ++l) {
        const std::string at = plain::layer_name(l), self = at + "self_attn.",
                          expert = at + "block_sparse_moe.experts.0.";
        x = plain::rms(x, 1e-5, plain::weight(c, at + "input_layernorm.weight"));
        if (l == 1) {
            x = 1.25 * x + plain_full(c, x, self, 4, 2, 8, 8, 1000, false);
        } else {
            const Matrix qkv = plain::each(plain::linear(c, x, self + "qkv_proj"), plain::silu);
            Matrix o(x.rows(), 32);
            for (Index h = 0; h < 4; ++h) {
                const double slope =
                    std::exp2(-2.0 * static_cast<double>(h + 1)) * (1 - static_cast<double>(l) / (2 + 1e-5) + 1e-5);
                o.middleCols(h * 8, 8) =
                    plain::decayed(plain::columns(qkv, h * 24, 8), plain::columns(qkv, h * 24 + 8, 8),
                                   plain::columns(qkv, h * 24 + 16, 8), std::exp(-slope));
            }
            o = plain::rms(o, 1e-6, plain::weight(c, self + "norm.weight"))
                    .cwiseProduct(plain::each(plain::linear(c, x, self + "output_gate"), plain::sigmoid));
            x = 1.5 * x + 0.75 * plain::linear(c, o, self + "out_proj");
        }
        x = plain::rms(x, 1e-5, plain::weight(c, at + "post_attention_layernorm.weight"));
        x = x + 0.5 * plain::gated_mlp(c, x, expert + "w1", expert + "w3", expert + "w2", plain::silu);
    }
    return plain::linear(c, plain::rms(x, 1e-5, plain::weight(c, "model.norm.weight")), "lm_head");
}

void check_layout(const RandomFolder& f, Matrix (*expected)(const model::Checkpoint&, const Ids&)) {
    TemporaryFolder folder;
    f.write(folder.path());
    const Model m = Model::load(folder.path());
    const Ids ids = some_ids(23);
    check_model(m, ids, expected(*m.checkpoint(), ids));
}

// What is said of a folder that was changed.
template <class Change>
std::string refusal(RandomFolder f, Change&& change) {
    change(f);
    TemporaryFolder folder;
    f.write(folder.path());
    const std::string message = message_of([&] { Model::load(folder.path()); }), start = folder.path() + ": ";
    CHECK(message.rfind(start, 0) == 0);
    return message.substr(std::min(start.size(), message.size()));
}

}  // namespace

TEST_CASE("Llama's layout is the model as it is written down", "[model]") {
    check_llama(llama_folder(), geometric(500, 4));
    RandomFolder wide = llama_folder(14);
    check_llama(wide, geometric(500, 7));
}

TEST_CASE("Llama's relatives: tied embeddings, biases, norms of heads", "[model]") {
    RandomFolder f = llama_folder();
    f.tensors.erase("lm_head.weight");
    check_llama(f, geometric(500, 4));
    f = llama_folder();
    f.config["model_type"] = "qwen2";
    f.config["sliding_window"] = 4;
    f.config["use_sliding_window"] = false;
    for (Index i = 0; i < 2; ++i) {
        f.vector(plain::layer_name(i) + "self_attn.q_proj.bias", 48, 0, 1);
        f.vector(plain::layer_name(i) + "self_attn.k_proj.bias", 16, 0, 1);
        f.vector(plain::layer_name(i) + "self_attn.v_proj.bias", 16, 0, 1);
    }
    check_llama(f, geometric(500, 4));
    f = llama_folder();
    f.config["model_type"] = "qwen3";
    for (Index i = 0; i < 2; ++i) {
        f.vector(plain::layer_name(i) + "self_attn.q_norm.weight", 8, 1);
        f.vector(plain::layer_name(i) + "self_attn.k_norm.weight", 8, 1);
    }
    check_llama(f, geometric(500, 4));
}

TEST_CASE("rotary positions that are scaled", "[model]") {
    RandomFolder f = llama_folder();
    f.config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
    check_llama(f, [](Index i) { return geometric(500, 4)(i) / 4; });
    // Wavelengths of the four pairs are 6.3, 29.7, 140 and 664 tokens: below 64/4, between, and above 64/1.
    f.config["rope_scaling"] = {{"rope_type", "llama3"},
                                {"factor", 8.0},
                                {"low_freq_factor", 1.0},
                                {"high_freq_factor", 4.0},
                                {"original_max_position_embeddings", 64}};
    check_llama(f, [](Index i) {
        const double own = geometric(500, 4)(i), length = 2 * std::numbers::pi / own;
        if (length < 64 / 4.0) return own;
        if (length > 64 / 1.0) return own / 8;
        const double smooth = (64 / length - 1) / (4 - 1);
        return (1 - smooth) * own / 8 + smooth * own;
    });
    f.config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 8.0}};
    CHECK(refusal(f, [](auto&) {}) ==
          "the rotary positions are scaled as \"yarn\", expected \"llama3\", \"linear\" or not");
}

TEST_CASE("a GGUF file of a Llama computes what its folder does", "[model]") {
    const RandomFolder f = llama_folder();
    testing::GgufFile file;
    const auto number = [&](const std::string& key, std::uint32_t value) {
        file.key("llama." + key, 4, testing::raw(value));
    };
    file.key("general.architecture", 8, testing::gguf_text("llama"));
    number("embedding_length", 24), number("block_count", 2), number("feed_forward_length", 20);
    number("attention.head_count", 6), number("attention.head_count_kv", 2), number("attention.key_length", 8);
    number("rope.dimension_count", 8), number("context_length", 99);
    file.key("llama.rope.freq_base", 6, testing::raw(500.0f));
    file.key("llama.attention.layer_norm_rms_epsilon", 6, testing::raw(1e-5f));
    const auto tensor = [&](const std::string& name, const Tensor& x) {
        std::vector<std::uint64_t> shape;
        for (int i = x.ndim() - 1; i >= 0; --i) shape.push_back(static_cast<std::uint64_t>(x.shape()[i]));
        file.tensor(name, shape, 0, bytes_of(x));
    };
    tensor("token_embd.weight", f.tensors.at("model.embed_tokens.weight"));
    tensor("output.weight", f.tensors.at("lm_head.weight"));
    tensor("output_norm.weight", f.tensors.at("model.norm.weight"));
    for (Index i = 0; i < 2; ++i) {
        const std::string from = plain::layer_name(i), to = "blk." + std::to_string(i) + ".";
        tensor(to + "attn_q.weight", interleaved(f.tensors.at(from + "self_attn.q_proj.weight"), 6));
        tensor(to + "attn_k.weight", interleaved(f.tensors.at(from + "self_attn.k_proj.weight"), 2));
        const std::map<std::string, std::string> names{
            {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"},
            {"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
            {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},
            {"ffn_down", "mlp.down_proj"}};
        for (const auto& [gguf, folder] : names) tensor(to + gguf + ".weight", f.tensors.at(from + folder + ".weight"));
    }
    TemporaryFolder folder;
    f.write(folder / "folder");
    testing::write_bytes(folder / "model.gguf", file.bytes());
    const Model a = Model::load(folder / "folder"), b = Model::load(folder / "model.gguf");
    const Ids ids = some_ids(30);
    CHECK(distance(a.logits(ids), b.logits(ids)) < 1e-4);
    CHECK(b.about().context == 99);
    CHECK(a.about().parameters == b.about().parameters);
}

TEST_CASE("TransNormerLLM's, RetNet's, Qwen3-Next's and MiniMax's layouts are the models as they are written down",
          "[model]") {
    check_layout(transnormer_folder(), plain_transnormer);
    check_layout(retnet_folder(), plain_retnet);
    check_layout(qwen3_next_folder(), plain_qwen3_next);
    check_layout(minimax_folder(), plain_minimax);
}

TEST_CASE("the trained models are the plain ones too", "[model]") {
    const Ids ids = held_out(40000, 60);
    CHECK(off_by(tiny_llama().logits(ids), plain_llama(*tiny_llama().checkpoint(), ids, geometric(10000, 32))) < 2e-5);
    CHECK(off_by(tiny_transnormer().logits(ids), plain_transnormer(*tiny_transnormer().checkpoint(), ids)) < 2e-5);
}

TEST_CASE("a checkpoint that is no model of a layout is refused in a sentence", "[model]") {
    const RandomFolder f = llama_folder();
    const std::string at = plain::layer_name(1);
    CHECK(refusal(f, [](auto& x) { x.config["model_type"] = "mamba"; }) ==
          "model_type: \"mamba\", expected \"llama\", \"mistral\", \"qwen2\", \"qwen3\", \"transnormer\", \"retnet\", "
          "\"qwen3_next\" or \"minimax\"");
    CHECK_THAT(refusal(f, [](auto& x) { x.config.erase("model_type"); }), contains_text("model_type: missing"));
    CHECK(refusal(f, [&](auto& x) { x.tensors.erase(at + "mlp.up_proj.weight"); }) ==
          "tensor \"model.layers.1.mlp.up_proj.weight\": missing");
    CHECK(refusal(f, [&](auto& x) { x.matrix(at + "mlp.up_proj.weight", 20, 23); }) ==
          "tensor \"model.layers.1.mlp.up_proj.weight\": 20×23, expected 20×24");
    CHECK(refusal(f, [&](auto& x) { x.vector(at + "input_layernorm.weight", 23, 1); }) ==
          "tensor \"model.layers.1.input_layernorm.weight\": 23 numbers, expected 24");
    CHECK(refusal(f, [&](auto& x) { x.matrix("lm_head.weight", 36, 24); }) ==
          "the embedding has 37 tokens and the head 36, expected as many");
    CHECK(refusal(f, [](auto& x) { x.config.erase("hidden_size"); }) == "hidden_size: missing, expected a number");
    CHECK(refusal(f, [](auto& x) { x.config["hidden_size"] = 24.5; }) ==
          "hidden_size: 24.5, expected a whole number from 1 to 1048576");
    CHECK(refusal(f, [](auto& x) { x.config["num_attention_heads"] = 0; }) ==
          "num_attention_heads: 0.0, expected a whole number from 1 to 1048576");
    CHECK(refusal(f, [](auto& x) { x.config["num_key_value_heads"] = 4; }) ==
          "num_key_value_heads: 4, expected a divisor of the 6 heads");
    CHECK(refusal(llama_folder(7), [](auto&) {}) ==
          "rotary positions on 7 numbers, expected an even part of a head's 7");
    CHECK(refusal(f, [](auto& x) { x.config["hidden_act"] = "relu"; }) == "hidden_act: \"relu\", expected \"silu\"");
    CHECK(refusal(f, [](auto& x) { x.config["rope_theta"] = -1; }) == "rope_theta: -1.0, expected a number above 0");
    CHECK(refusal(f, [](auto& x) { x.config["num_hidden_layers"] = 1000000; }) ==
          "tensor \"model.layers.2.self_attn.q_proj.weight\": missing");
    CHECK(refusal(qwen3_next_folder(), [](auto& x) { x.config["num_experts"] = 8; }) ==
          "num_experts: 8, expected 0: mixtures of experts are not read");
    CHECK(refusal(qwen3_next_folder(), [](auto& x) { x.config["layer_types"] = {"linear_attention"}; }) ==
          "layer_types: of 1 layers, expected one for each of num_hidden_layers");
    CHECK(refusal(minimax_folder(), [](auto& x) { x.config["num_local_experts"] = 8; }) ==
          "num_local_experts: 8, expected 1: mixtures of experts are not read");
    CHECK(refusal(minimax_folder(), [](auto& x) { x.config["layer_types"][1] = "mamba"; }) ==
          "layer_types: \"mamba\", expected \"full_attention\" or \"linear_attention\"");
    CHECK(refusal(retnet_folder(), [](auto& x) { x.config["activation_fn"] = "relu"; }) ==
          "activation_fn: \"relu\", expected \"gelu\" or \"swish\"");
    CHECK(refusal(retnet_folder(), [](auto& x) { x.config["use_glu"] = false; }) == "use_glu: false, expected true");
    CHECK(refusal(transnormer_folder(), [](auto& x) { x.config["norm_type"] = "layernorm"; }) ==
          "norm_type: \"layernorm\", expected \"simplermsnorm\"");
}

TEST_CASE("a window that slides is as far as a text may go", "[model]") {
    RandomFolder f = llama_folder();
    f.config["model_type"] = "mistral";
    f.config["max_position_embeddings"] = 100;
    f.config["sliding_window"] = 20;
    TemporaryFolder folder;
    f.write(folder.path());
    const Model m = Model::load(folder.path());
    CHECK(m.logits(some_ids(20)).shape() == Shape{20, vocabulary});
    CHECK(message_of([&] { m.logits(some_ids(21)); }) ==
          "ids: 21 tokens, expected at most the 20 of the model's sliding window");
}
