// Replacements of attention: what is exact changes nothing, what is not is what its definition says.
#include "core/model/swap.hpp"

#include "core/exact/registry.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/lowrank/lowrank.hpp"
#include "core/model/evaluate.hpp"
#include "core/tensor/random.hpp"
#include "tests/catch.hpp"
#include "tests/core/model/tiny.hpp"

using namespace causeway;
using namespace causeway::test;
using model::Ids;
using model::Model;
using model::Replacement;
using model::Session;
using model::SwapOptions;
using testing::message_of;

namespace {

Tensor normals(std::uint64_t stream, const Shape& shape) {
    Tensor wide(DType::f64, shape);
    random::normals(91, stream, wide.data<double>(), wide.size());
    return wide.to(DType::f32);
}

struct Inputs {
    Tensor q = normals(1, {1, 2, 70, 16}), k = normals(2, {1, 2, 70, 16}), v = normals(3, {1, 2, 70, 12});
    double scale = 0.25;
};

// Row i: Σ_{j<=i} Ã_ij v_j / Σ_{j<=i} Ã_ij, in Float64, of the factors with what stands beside them.
Tensor by_definition(const LowRank& f, const Inputs& x, bool normalize) {
    const Index N = 70, d = 16, w = 12, r = f.B.shape().back();
    const auto extra = [&](const char* name, Index at) { return f.extras.count(name) ? f.extras.at(name).get(at) : 0; };
    Tensor out(DType::f32, x.v.shape());
    for (Index h = 0; h < 2; ++h) {
        for (Index i = 0; i < N; ++i) {
            double sum = 0;
            std::vector<double> o(w, 0);
            for (Index j = 0; j <= i; ++j) {
                double approximate = 0, exact = 0;
                for (Index e = 0; e < r; ++e)
                    approximate += f.B.get((h * N + i) * r + e) * f.C.get((h * N + j) * r + e);
                approximate *= std::exp(extra("log_rows", h * N + i));
                for (Index e = 0; e < d; ++e) exact += x.q.get((h * N + i) * d + e) * x.k.get((h * N + j) * d + e);
                const bool kept =
                    extra("exact_rows", h * N + i) != 0 ||
                    (f.extras.count("query_block") && extra("query_block", h * N + i) == extra("key_block", h * N + j));
                const double a = kept ? std::exp(x.scale * exact) : approximate;
                sum += a;
                for (Index e = 0; e < w; ++e) o[static_cast<std::size_t>(e)] += a * x.v.get((h * N + j) * w + e);
            }
            for (Index e = 0; e < w; ++e)
                out.set((h * N + i) * w + e, o[static_cast<std::size_t>(e)] / (normalize ? sum : 1));
        }
    }
    return out;
}

double largest(const Tensor& x) {
    double most = 0;
    for (Index i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x.get(i)));
    return most;
}

SwapOptions seeded(std::optional<Index> rank = {}) {
    SwapOptions o;
    o.lowrank.seed = 5;
    o.lowrank.rank = rank;
    return o;
}

// Every chunk and every step gets what the whole text gives.
void check_steps(const Model& m, const Ids& ids, double tolerance) {
    const Tensor all = m.logits(ids);
    Session session(m);
    session.advance(std::span(ids).first(ids.size() - 3));
    for (std::size_t t = ids.size() - 3; t < ids.size(); ++t) {
        const Tensor next = session.advance(std::span(ids).subspan(t, 1));
        CHECK(distance(next.data<float>(), all.data<float>() + t * 256, 256) < tolerance);
    }
}

}  // namespace

TEST_CASE("softmax by another method is the model's own attention", "[model]") {
    const Ids ids = held_out(100, 80);
    const Tensor own = tiny_llama().logits(ids);
    for (const std::string with : {"flash", "standard", "tree", "ring"}) {
        INFO(with);
        Model m = tiny_llama();
        m.attention({}, with);
        CHECK(distance(m.logits(ids), own) < 2e-4);
        check_steps(m, ids, 2e-4);
        model::GenerateOptions o;
        o.tokens = 10;
        CHECK(m.generate(ids, o) == tiny_llama().generate(ids, o));
    }
}

TEST_CASE("a factorisation of full rank loses nothing, one of low rank does, and reset undoes both", "[model]") {
    const Ids ids = held_out(100, 60);
    const Tensor own = tiny_llama().logits(ids);
    Model m = tiny_llama();
    m.attention({2, 5}, "svd", seeded(60));
    CHECK(m.layers()[1].replaced == "svd");
    CHECK(m.layers()[2].replaced.empty());
    CHECK(distance(m.logits(ids), own) < 1e-2);
    m.attention({2, 5}, "svd", seeded(2));
    CHECK(distance(m.logits(ids), own) > 0.1);
    m.reset({2});
    CHECK(m.layers()[1].replaced.empty());
    CHECK(m.layers()[4].replaced == "svd");
    m.reset();
    CHECK(distance(m.logits(ids), own) == 0);
}

TEST_CASE("every factorisation in the place of attention is its masked product by definition", "[model]") {
    const Inputs x;
    for (const auto& method : lowrank::methods()) {
        INFO(method.name);
        for (const bool normalize : {true, false}) {
            INFO("normalize " << normalize);
            SwapOptions o = seeded();
            o.normalize = normalize;
            LowRankOptions factors = o.lowrank;
            factors.scale = x.scale;
            if (method.values) factors.v = x.v;
            const Tensor expected = by_definition(low_rank(method.name, x.q, x.k, factors), x, normalize);
            const Tensor got = model::replacement(method.name, o).run(x.q, x.k, x.v, x.scale);
            // Row sums of either sign may cancel: rounding then shows at the size of the largest output.
            CHECK(distance(got, expected) < 1e-3 * largest(expected));
        }
    }
}

TEST_CASE("an exact method and an update after features are the factorisation that the features are of", "[model]") {
    const Inputs x;
    for (const std::string features : {"favor+", "taylor", "hedgehog"}) {
        INFO(features);
        SwapOptions o = seeded();
        o.features = features;
        const Tensor expected = model::replacement(features, o).run(x.q, x.k, x.v, x.scale);
        for (const std::string with : {"recursion", "lightning-attention-2", "linear"}) {
            INFO(with);
            const Tensor got = model::replacement(with, o).run(x.q, x.k, x.v, x.scale);
            CHECK(distance(got, expected) < 1e-4 * largest(expected));
        }
    }
}

TEST_CASE("updates with gates and delta rules get them", "[model]") {
    const Inputs x;
    SwapOptions o;
    o.features = "none", o.log_decay = -0.1, o.beta = 0.5, o.normalize = false;
    Tensor keys = x.k.copy();
    for (Index i = 0; i < 2 * 70; ++i) {
        double square = 0;
        for (Index e = 0; e < 16; ++e) square += x.k.get(i * 16 + e) * x.k.get(i * 16 + e);
        for (Index e = 0; e < 16; ++e) keys.set(i * 16 + e, x.k.get(i * 16 + e) / std::sqrt(square));
    }
    for (const std::string update : {"gated", "delta", "gated_delta"}) {
        INFO(update);
        LinearOptions options;
        options.update = update, options.scale = x.scale, options.mode = "recurrent";
        if (update != "delta") options.log_decay = Tensor::full(DType::f32, {1, 2, 70}, -0.1);
        if (update != "gated") options.beta = Tensor::full(DType::f32, {1, 2, 70}, 0.5);
        const Tensor expected = linear_attention(x.q, update == "gated" ? x.k : keys, x.v, options).O;
        const Tensor got = model::replacement(update, o).run(x.q, x.k, x.v, x.scale);
        CHECK(distance(got, expected) < 1e-4 * largest(expected));
    }
}

TEST_CASE("replacements that look at the whole text give each new token what the whole text gives", "[model]") {
    const Ids ids = held_out(700, 40);
    for (const std::string with : {"favor+", "fleet", "delta", "hedgehog"}) {
        INFO(with);
        Model m = tiny_llama();
        m.attention({3, 6}, with, seeded());
        check_steps(m, ids, 1e-3);
    }
}

TEST_CASE("a function in the place of attention gets the layer's own heads, and may be of any layer", "[model]") {
    const Ids ids = held_out(0, 30);
    for (const Model* own : {&tiny_llama(), &tiny_transnormer()}) {
        const auto x = own->capture(ids, 4, {"q", "k", "v", "output"});
        int calls = 0;
        Model m = *own;
        m.attention({4}, Replacement{"stored", [&](const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
                                         ++calls;
                                         CHECK(distance(q, x.at("q")) == 0);
                                         CHECK(distance(k, x.at("k")) == 0);
                                         CHECK(distance(v, x.at("v")) == 0);
                                         CHECK(scale == own->layers()[3].scale);
                                         return x.at("output").to(DType::f64);
                                     }});
        CHECK(distance(m.logits(ids), own->logits(ids)) == 0);
        CHECK(calls == 1);
        CHECK(own->layers()[3].replaced.empty());
        CHECK(m.layers()[3].replaced == "stored");
    }
}

TEST_CASE("replacements that cannot be are refused", "[model]") {
    Model m = tiny_llama();
    const Ids ids{1, 2, 3};
    const auto message = [&](const std::string& with, const SwapOptions& o = {}) {
        return message_of([&] { m.attention({1}, with, o); });
    };
    CHECK(message("flesh") ==
          "with: \"flesh\", expected an exact method, a factorisation, an update of linear_attention, \"flash\", "
          "\"standard\", \"tree\" or \"ring\" (did you mean \"flash\"?)");
    SwapOptions o;
    o.features = "nystrom";
    CHECK_THAT(message("fleet", o), contains_text("features: \"nystrom\", expected a factorisation that looks at one"));
    o = {};
    o.normalize = true;
    CHECK(message("delta", o) == "normalize: true, expected false for \"delta\", whose weights do not add up");
    o = {};
    o.log_decay = 1;
    CHECK(message("gated", o) == "log_decay: 1.0, expected a number up to 0");
    o = {};
    o.block = 0;
    CHECK(message("block-based", o) == "block: 0, expected 1 or more");
    o = {};
    o.lowrank.rank = 0;
    CHECK(message("favor+", o) == "rank: 0, expected 1 or more");
    CHECK(message_of([&] { m.attention({0}, "fleet"); }) == "layers: has 0, expected layers from 1 to 6");
    CHECK(message_of([&] { m.attention({7}, "fleet"); }) == "layers: has 7, expected layers from 1 to 6");
    CHECK(message_of([&] { m.attention({1}, Replacement{}); }) ==
          "replacement: has no function, expected one of q, k, v and scale");
    for (const auto& layer : m.layers()) CHECK(layer.replaced.empty());
    m.attention({2}, Replacement{"short", [](const Tensor&, const Tensor&, const Tensor&, double) {
                                     return Tensor(DType::f32, {1, 4, 2, 64});
                                 }});
    CHECK(message_of([&] { m.logits(ids); }) ==
          "short: returned a 1×4×2×64 Tensor{Float32}, expected o as 1×4×3×64 in Float32 or Float64");
    m.attention({2}, Replacement{"broken", [](const Tensor&, const Tensor&, const Tensor& v, double) {
                                     Tensor out = Tensor::zeros(DType::f32, v.shape());
                                     out.set(70, NAN);
                                     return out;
                                 }});
    CHECK(message_of([&] { m.logits(ids); }) ==
          "broken: its output for token 2 has Inf or NaN, expected finite numbers");
}
