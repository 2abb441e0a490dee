// Language models on the GPU against the same models on the CPU, and what every way of running has in common.
#include "gpu/model/model.hpp"

#include <chrono>

#include "core/base/interrupt.hpp"
#include "core/model/blocks/decay.hpp"
#include "core/model/blocks/gated_delta.hpp"
#include "core/model/blocks/softmax.hpp"
#include "core/model/checkpoint.hpp"
#include "core/model/evaluate.hpp"
#include "core/model/known_sizes.hpp"
#include "core/model/network.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/model/swap.hpp"
#include "gpu/tensor/elementwise.hpp"
#include "tests/core/model/qwen3_next_folder.hpp"
#include "tests/core/model/tiny.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;
using namespace causeway::test;
using model::Ids;
using model::Model;
using model::Session;
using model::WeightType;
using testing::message_of;

namespace {

Model placed(const std::shared_ptr<const model::Checkpoint>& checkpoint, gpu::Type type, bool graph = true) {
    gpu::ModelOptions options;
    options.type = type, options.graph = graph;
    return Model(checkpoint, [&](const model::Network& network) { return gpu::on_gpu(network, options); });
}

// On the CPU and on the GPU in Float32.
struct Pair {
    std::string name;
    Model cpu, gpu;
};

Pair trained(const char* name) {
    const Model& m = std::string(name) == "tiny-llama" ? tiny_llama() : tiny_transnormer();
    return {name, m, placed(m.checkpoint(), gpu::Type::Float32)};
}

Pair random_pair(const char* architecture, const char* size, Index layers, WeightType type = WeightType::f32) {
    const auto checkpoint = model::random_model(architecture, size, type, 5, layers);
    return {std::string(architecture) + " " + size, Model(checkpoint), placed(checkpoint, gpu::Type::Float32)};
}

// Small ones of all that the GPU has: all kinds of attention, heads that share keys, keys and values in parts.
std::vector<Pair> pairs() {
    std::vector<Pair> out;
    out.push_back(trained("tiny-llama"));
    out.push_back(trained("tiny-transnormer"));
    out.push_back(random_pair("retnet", "tiny", 3));
    out.push_back(random_pair("minimax", "tiny", 3));
    out.push_back(random_pair("llama", "135m", 2));
    out.push_back(random_pair("qwen3_next", "tiny", 3));
    return out;
}

// Ids of a vocabulary that all models here have.
Ids some_ids(Index from, Index n) { return held_out(from, n); }

double largest(const Tensor& x) {
    double most = 0;
    for (Index i = 0; i < x.size(); ++i) most = std::max(most, std::abs(static_cast<double>(x.data<float>()[i])));
    return most;
}

// |a − b|_F / |b|_F.
double relative(const Tensor& a, const Tensor& b) {
    double off = 0, all = 0;
    if (a.shape() != b.shape()) return INFINITY;
    for (Index i = 0; i < b.size(); ++i) {
        off += std::pow(static_cast<double>(a.data<float>()[i]) - static_cast<double>(b.data<float>()[i]), 2);
        all += std::pow(static_cast<double>(b.data<float>()[i]), 2);
    }
    return std::sqrt(off / all);
}

Tensor row(const Tensor& logits, Index i) {
    const Index words = logits.shape().back();
    Tensor out(DType::f32, {1, words});
    std::copy_n(logits.data<float>() + i * words, words, out.data<float>());
    return out;
}

}  // namespace

TEST_CASE("a model on the GPU computes the logits that it has on the CPU", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    for (const Pair& p : pairs()) {
        INFO(p.name);
        CHECK(p.gpu.accelerator() != nullptr);
        for (const Index n : {1, 2, 65, 300}) {
            INFO(n << " tokens");
            const Ids ids = some_ids(1000, n);
            const Tensor expected = p.cpu.logits(ids), found = p.gpu.logits(ids);
            REQUIRE(found.shape() == expected.shape());
            CHECK(distance(found, expected) < 2e-3 * std::max(1.0, 0.1 * largest(expected)));
        }
    }
}

namespace {

constexpr Index few_words = 37;

Ids few_ids(Index n) {
    Ids out;
    for (Index i = 0; i < n; ++i) out.push_back(static_cast<std::int32_t>((i * i * 5 + 3 * i + 1) % few_words));
    return out;
}

// Rows that are no whole 16-byte pieces in BFloat16, biases, heads of 6 whose q and k are normed.
RandomFolder awkward_folder() {
    RandomFolder f;
    f.config = {{"model_type", "qwen3"},    {"hidden_size", 24},        {"num_hidden_layers", 2},
                {"num_attention_heads", 6}, {"num_key_value_heads", 2}, {"head_dim", 6},
                {"intermediate_size", 20},  {"rms_norm_eps", 1e-5},     {"rope_theta", 500.0}};
    f.matrix("model.embed_tokens.weight", few_words, 24, 5);
    f.vector("model.norm.weight", 24, 1);
    for (Index i = 0; i < 2; ++i) {
        const std::string at = "model.layers." + std::to_string(i) + ".", mixer = at + "self_attn.";
        for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
            const Index rows = name[0] == 'q' ? 36 : 12;
            f.matrix(mixer + name + ".weight", rows, 24, 2);
            f.vector(mixer + name + ".bias", rows, 0, 1);
        }
        f.matrix(mixer + "o_proj.weight", 24, 36), f.vector(mixer + "o_proj.bias", 24, 0, 1);
        f.vector(mixer + "q_norm.weight", 6, 1), f.vector(mixer + "k_norm.weight", 6, 1);
        f.matrix(at + "mlp.gate_proj.weight", 20, 24), f.vector(at + "mlp.gate_proj.bias", 20, 0, 1);
        f.matrix(at + "mlp.up_proj.weight", 20, 24);
        f.matrix(at + "mlp.down_proj.weight", 24, 20);
        f.vector(at + "input_layernorm.weight", 24, 1), f.vector(at + "post_attention_layernorm.weight", 24, 1);
    }
    return f;
}

// Blocks of 32 weights of these types with random numbers in them.
std::string quantised(WeightType type, Index weights) {
    std::string out;
    for (Index i = 0; i < weights / 32; ++i) {
        double numbers[32];
        random::uniforms(3, static_cast<std::uint64_t>(i), numbers, 32);
        out += testing::raw(static_cast<Eigen::half>(type == WeightType::q8_0 ? 0.001f : 0.02f));
        if (type == WeightType::q4_1) out += testing::raw(static_cast<Eigen::half>(-0.15f));
        for (Index k = 0; k < (type == WeightType::q8_0 ? 32 : 16); ++k) out += static_cast<char>(256 * numbers[k]);
    }
    return out;
}

// A Llama as GGUF with several types of weights.
std::string quantised_file() {
    testing::GgufFile file;
    const auto number = [&](const std::string& key, std::uint32_t value) {
        file.key("llama." + key, 4, testing::raw(value));
    };
    file.key("general.architecture", 8, testing::gguf_text("llama"));
    number("embedding_length", 64), number("block_count", 1), number("feed_forward_length", 96);
    number("attention.head_count", 4), number("attention.head_count_kv", 2), number("rope.dimension_count", 16);
    file.key("llama.rope.freq_base", 6, testing::raw(500.0f));
    file.key("llama.attention.layer_norm_rms_epsilon", 6, testing::raw(1e-5f));
    const std::map<WeightType, std::uint32_t> codes{
        {WeightType::q4_0, 2}, {WeightType::q4_1, 3}, {WeightType::q8_0, 8}};
    const auto matrix = [&](const std::string& name, Index rows, Index columns, WeightType type) {
        file.tensor(name, {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)}, codes.at(type),
                    quantised(type, rows * columns));
    };
    const auto ones = [&](const std::string& name) {
        std::string all;
        for (int i = 0; i < 64; ++i) all += testing::raw(1.0f);
        file.tensor(name, {64}, 0, all);
    };
    matrix("token_embd.weight", few_words, 64, WeightType::q8_0),
        matrix("output.weight", few_words, 64, WeightType::q4_1);
    ones("output_norm.weight"), ones("blk.0.attn_norm.weight"), ones("blk.0.ffn_norm.weight");
    matrix("blk.0.attn_q.weight", 64, 64, WeightType::q4_0), matrix("blk.0.attn_k.weight", 32, 64, WeightType::q8_0);
    matrix("blk.0.attn_v.weight", 32, 64, WeightType::q4_1),
        matrix("blk.0.attn_output.weight", 64, 64, WeightType::q4_0);
    matrix("blk.0.ffn_gate.weight", 96, 64, WeightType::q8_0), matrix("blk.0.ffn_up.weight", 96, 64, WeightType::q4_1);
    matrix("blk.0.ffn_down.weight", 64, 96, WeightType::q4_0);
    return file.bytes();
}

}  // namespace

TEST_CASE("biases, norms of heads, awkward sizes and quantised weights on the GPU", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    const testing::TemporaryFolder folder;
    awkward_folder().write(folder / "awkward");
    RandomFolder qwen = qwen3_next_folder(few_words);
    qwen.write(folder / "qwen3_next");
    for (auto& [name, x] : qwen.tensors) x = x.to(DType::bf16).to(DType::f32);
    qwen.write(folder / "qwen3_next_rounded");
    testing::write_bytes(folder / "quantised.gguf", quantised_file());
    const Ids ids = few_ids(23);
    for (const char* name : {"awkward", "quantised.gguf", "qwen3_next"}) {
        INFO(name);
        const Model cpu = Model::load(folder / name), fine = placed(cpu.checkpoint(), gpu::Type::Float32),
                    rough = placed(cpu.checkpoint(), gpu::Type::BFloat16);
        const Tensor expected = cpu.logits(ids);
        const double bound = 2e-4 * largest(expected);
        // In 16 bits: of these hybrids' large weights, three times what their rounding alone does on the CPU.
        const double rough_bound = name == std::string("qwen3_next")
                                       ? 3 * relative(Model::load(folder / "qwen3_next_rounded").logits(ids), expected)
                                       : 5e-2;
        CHECK(distance(fine.logits(ids), expected) < bound);
        CHECK(relative(rough.logits(ids), expected) < rough_bound);
        for (const Model* m : {&fine, &rough}) {
            Session session(*m);
            Tensor last;
            for (std::size_t t = 0; t < ids.size(); ++t) last = session.advance(std::span(ids).subspan(t, 1));
            CHECK(relative(last, row(expected, 22)) < (m == &fine ? 2e-4 : rough_bound));
        }
    }
}

// In 16 bits chunks run on tensor cores, where the GPU has them for this.
TEST_CASE("gated delta nets in 16 bits on the GPU, at once, in chunks and by replays of a graph", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    const auto checkpoint = model::random_model("qwen3_next", "tiny", WeightType::bf16, 7);
    const Model cpu(checkpoint);
    const Index n = 333;
    const Ids ids = some_ids(500, n);
    const Tensor expected = cpu.logits(ids);
    for (const gpu::Type type : {gpu::Type::BFloat16, gpu::Type::Float16}) {
        const Model replayed = placed(checkpoint, type), plain = placed(checkpoint, type, false);
        CHECK(relative(replayed.logits(ids), expected) < 5e-2);
        model::RunOptions chunks;
        chunks.chunk = 100;
        CHECK(relative(replayed.logits(ids, chunks), expected) < 5e-2);
        for (const Index batch : {1, 3}) {
            Session a(replayed, batch), b(plain, batch);
            Ids prompt;
            for (Index i = 0; i < batch; ++i) prompt.insert(prompt.end(), ids.begin(), ids.begin() + 300);
            a.advance(prompt), b.advance(prompt);
            Tensor last;
            for (std::size_t t = 300; t < ids.size(); ++t) {
                const Ids next(static_cast<std::size_t>(batch), ids[t]);
                last = a.advance(next);
                REQUIRE(distance(last, b.advance(next)) == 0);
            }
            CHECK(relative(row(last, batch - 1), row(expected, n - 1)) < 5e-2);
        }
    }
}

TEST_CASE("what stands in the place of a gated delta net on the GPU is what stands there on the CPU",
          "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    const Pair p = random_pair("qwen3_next", "tiny", 3);
    const Ids ids = some_ids(40, 70);
    for (const char* with : {"fleet", "gated_delta", "flash", "svd"}) {
        INFO(with);
        model::SwapOptions o;
        o.features = "hedgehog";
        Model cpu = p.cpu, gpu = p.gpu;
        for (Model* m : {&cpu, &gpu}) m->attention({1}, with, o);
        const Tensor expected = cpu.logits(ids);
        const double bound = 2e-3 * std::max(1.0, 0.1 * largest(expected));
        CHECK(distance(gpu.logits(ids), expected) < bound);
        Session session(gpu);
        session.advance(std::span(ids).first(60));
        Session here(cpu);
        here.advance(std::span(ids).first(60));
        for (std::size_t t = 60; t < 63; ++t)
            CHECK(distance(session.advance(std::span(ids).subspan(t, 1)), here.advance(std::span(ids).subspan(t, 1))) <
                  bound);
    }
}

TEST_CASE("wide heads of linear attention go through the kernels in parts", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    const Ids ids = some_ids(0, 150);
    for (const char* architecture : {"retnet", "transnormer"}) {
        INFO(architecture);
        const Pair p =
            random_pair(architecture, std::string(architecture) == "retnet" ? "1.3b" : "7b", 1, WeightType::bf16);
        const Tensor expected = p.cpu.logits(ids);
        CHECK(distance(p.gpu.logits(ids), expected) < 2e-3 * std::max(1.0, 0.1 * largest(expected)));
    }
}

TEST_CASE("bits per byte of the trained models on the GPU are those of the CPU", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    for (const char* name : {"tiny-llama", "tiny-transnormer"}) {
        INFO(name);
        const Expected e = expected_of(name);
        const Ids ids = held_out(e.offset, e.length);
        const Pair p = trained(name);
        const model::Prediction cpu = model::predict(p.cpu, ids), gpu = model::predict(p.gpu, ids);
        CHECK(std::abs(gpu.per_byte(e.length - 1) - e.bits_per_byte) < 1e-3);
        CHECK(std::abs(gpu.per_byte(e.length - 1) - cpu.per_byte(e.length - 1)) < 1e-4);
        CHECK(gpu.tokens == cpu.tokens);
        CHECK(std::abs(gpu.right - cpu.right) <= 2);
        // In BFloat16 numbers have 8 bits; of the text the model knows as much.
        const Model rough = placed(p.cpu.checkpoint(), gpu::Type::BFloat16);
        const double bits = model::bits_per_byte(rough, ids, e.length - 1);
        CHECK(std::abs(bits - e.bits_per_byte) < 2e-2);
    }
}

TEST_CASE("on the GPU a text in chunks and token by token has the logits of all at once", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    const Index n = 150;
    const Ids ids = some_ids(1000, n);
    for (const Pair& p : pairs()) {
        INFO(p.name);
        const Tensor all = p.gpu.logits(ids);
        const double bound = 1e-3 * std::max(1.0, 0.1 * largest(all));
        for (const Index chunk : {Index(1), Index(7), Index(64), n}) {
            INFO("chunk " << chunk);
            model::RunOptions options;
            options.chunk = chunk;
            CHECK(distance(p.gpu.logits(ids, options), all) < bound);
        }
        Session session(p.gpu);
        session.advance(std::span(ids).first(40));
        for (std::size_t t = 40; t < ids.size(); ++t) {
            const Tensor next = session.advance(std::span(ids).subspan(t, 1));
            CHECK(distance(next, row(all, static_cast<Index>(t))) < bound);
        }
        CHECK(session.length() == n);
    }
}

TEST_CASE("texts that run together on the GPU compute what each does alone", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    for (const Pair& p : pairs()) {
        for (const std::size_t batch : {2u, 3u, 6u}) {
            INFO(p.name << ", " << batch << " texts");
            std::vector<Ids> texts;
            for (std::size_t i = 0; i < batch; ++i) texts.push_back(some_ids(static_cast<Index>(777 * i), 33));
            const Tensor together = p.gpu.logits(texts);
            const Index words = together.shape()[2];
            Session session(p.gpu, static_cast<Index>(batch));
            Ids first, last;
            for (const Ids& text : texts) first.insert(first.end(), text.begin(), text.end() - 3);
            session.advance(first);
            Tensor next;
            for (std::size_t t = 30; t < 33; ++t) {
                Ids step;
                for (const Ids& text : texts) step.push_back(text[t]);
                next = session.advance(step);
            }
            for (std::size_t i = 0; i < batch; ++i) {
                const Tensor alone = p.gpu.logits(texts[i]);
                const double bound = 1e-3 * std::max(1.0, 0.1 * largest(alone));
                const auto at = static_cast<Index>(i);
                CHECK(distance(together.data<float>() + at * 33 * words, alone.data<float>(), 33 * words) < bound);
                CHECK(distance(next.data<float>() + at * words, alone.data<float>() + 32 * words, words) < bound);
            }
        }
    }
}

TEST_CASE("greedy texts of the GPU are those of the CPU, and sampled ones too", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    for (const char* name : {"tiny-llama", "tiny-transnormer"}) {
        INFO(name);
        const Pair p = trained(name);
        model::GenerateOptions options;
        options.tokens = 64;
        const Ids prompt = held_out(2000, 100);
        CHECK(p.gpu.generate(prompt, options) == p.cpu.generate(prompt, options));
        options.temperature = 0.8, options.top_k = 40, options.seed = 3;
        CHECK(p.gpu.generate(prompt, options) == p.cpu.generate(prompt, options));
        options.temperature = 0;
        const std::vector<Ids> two{held_out(10, 50), held_out(6000, 50)};
        CHECK(p.gpu.generate(two, options) == p.cpu.generate(two, options));
    }
}

TEST_CASE("replays of the graph of a token are what its kernels compute one by one", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    for (const char* name : {"tiny-llama", "tiny-transnormer"}) {
        for (const gpu::Type type : {gpu::Type::Float32, gpu::Type::BFloat16}) {
            for (const Index batch : {1, 6}) {
                INFO(name << ", " << batch << " texts");
                const auto checkpoint = trained(name).cpu.checkpoint();
                const Model replayed = placed(checkpoint, type), plain = placed(checkpoint, type, false);
                Session a(replayed, batch), b(plain, batch);
                Ids prompt;
                for (Index i = 0; i < batch; ++i) {
                    const Ids text = held_out(100 * i, 20);
                    prompt.insert(prompt.end(), text.begin(), text.end());
                }
                Ids next = a.likeliest(prompt);
                CHECK(b.likeliest(prompt) == next);
                // Beyond the room that the cache has at first: it grows, and the graph is captured anew.
                for (int t = 0; t < 600; ++t) {
                    const Tensor left = a.advance(next), right = b.advance(next);
                    REQUIRE(distance(left, right) == 0);
                    for (Index i = 0; i < batch; ++i)
                        next[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((t * 31 + i * 7) % 256);
                }
                CHECK(a.length() == 620);
            }
        }
    }
}

TEST_CASE("a cache that has grown on the GPU has lost nothing", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    const Pair p = trained("tiny-llama");
    const Ids ids = held_out(3000, 700);
    Session session(p.gpu);
    session.advance(std::span(ids).first(5));
    Tensor last;
    for (std::size_t t = 5; t < ids.size(); ++t) last = session.advance(std::span(ids).subspan(t, 1));
    CHECK(distance(last, row(p.cpu.logits(ids), 699)) < 2e-3);
}

TEST_CASE("a copied session on the GPU goes on by itself, and choices are scored as on the CPU", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    for (const char* name : {"tiny-llama", "tiny-transnormer"}) {
        INFO(name);
        const Pair p = trained(name);
        Session session(p.gpu);
        const Ids ids = held_out(0, 60), others = held_out(9000, 10);
        session.advance(std::span(ids).first(50));
        Session other = session.copy();
        other.advance(others);
        const Tensor own = session.advance(std::span(ids).subspan(50));
        CHECK(distance(own, row(p.gpu.logits(ids), 59)) < 1e-3);
        CHECK(session.bytes() > 0);
        const std::vector<Ids> choices{held_out(50, 1), held_out(50, 9), held_out(4000, 5)};
        const auto cpu = model::score(p.cpu, held_out(0, 50), choices),
                   gpu = model::score(p.gpu, held_out(0, 50), choices);
        for (std::size_t i = 0; i < choices.size(); ++i) {
            CHECK(std::abs(cpu[i].log_probability - gpu[i].log_probability) < 1e-3);
            CHECK(cpu[i].greedy == gpu[i].greedy);
        }
    }
}

TEST_CASE("random weights made on the GPU are those that the CPU makes", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    const Ids ids = some_ids(0, 40);
    for (const char* architecture : {"llama", "transnormer", "retnet", "qwen3_next"}) {
        for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
            INFO(architecture);
            const Model here(model::random_model(architecture, "tiny", type, 9));
            const Model there =
                            placed(model::random_model(architecture, "tiny", type, 9, 0, false), gpu::Type::Float32),
                        other =
                            placed(model::random_model(architecture, "tiny", type, 8, 0, false), gpu::Type::Float32);
            const Tensor expected = here.logits(ids);
            CHECK(distance(there.logits(ids), expected) < 2e-3);
            CHECK(distance(other.logits(ids), expected) > 0.1);
        }
    }
}

TEST_CASE("large models with random weights are built on the GPU, and decode as they read", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    struct Case {
        const char *architecture, *size;
        Index layers;
    };
    for (const Case& c :
         {Case{"llama", "1b", 0}, Case{"llama", "8b", 2}, Case{"transnormer", "7b", 2}, Case{"retnet", "1.3b", 2}}) {
        INFO(c.architecture << " " << c.size);
        const auto build = [&](std::uint64_t seed) {
            return placed(model::random_model(c.architecture, c.size, WeightType::bf16, seed, c.layers, false),
                          gpu::Type::BFloat16);
        };
        const Model m = build(1);
        const Ids ids = some_ids(0, 200);
        const Tensor all = m.logits(ids);
        Session session(m);
        session.advance(std::span(ids).first(190));
        Tensor last;
        for (std::size_t t = 190; t < 200; ++t) last = session.advance(std::span(ids).subspan(t, 1));
        CHECK(relative(last, row(all, 199)) < 3e-2);
        const Model again = build(1), other = build(2);
        CHECK(distance(again.logits(ids), all) == 0);
        CHECK(relative(other.logits(ids), all) > 0.5);
        model::GenerateOptions options;
        options.tokens = 8;
        CHECK(again.generate(ids, options) == m.generate(ids, options));
    }
}

// All tokens are one chunk, of which everything is queued long before it is computed.
TEST_CASE("a time limit ends a text on the GPU in the middle of a chunk", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point begun) {
        return std::chrono::duration<double>(Clock::now() - begun).count();
    };
    const Model m = placed(model::random_model("llama", "1b", WeightType::bf16, 1, 8, false), gpu::Type::Float32);
    const Ids ids = few_ids(8192);
    Session(m).hidden(ids);
    auto begun = Clock::now();
    Session(m).hidden(ids);
    const double whole = since(begun);
    Session session(m);
    begun = Clock::now();
    interrupt::set_deadline(whole / 4);
    CHECK_THROWS_AS(session.hidden(ids), Timeout);
    const double taken = since(begun);
    interrupt::set_deadline(0);
    CAPTURE(whole, taken);
    CHECK(taken < 0.75 * whole);
    CHECK(message_of([&] { session.advance(few_ids(1)); }) ==
          "session: its last run was stopped, expected one that ran to its end");
}

namespace {

// What both models compute with a replacement: all at once, in two parts and then token by token, and in a batch.
void check_replaced(const Pair& p, const std::string& with) {
    INFO(p.name << ", " << with << ", " << p.gpu.layers()[1].settings);
    const Index n = 70;
    const Ids ids = some_ids(1000, n);
    const Tensor expected = p.cpu.logits(ids), found = p.gpu.logits(ids);
    const double bound = 2e-3 * std::max(1.0, 0.1 * largest(expected));
    CHECK(distance(found, expected) < bound);
    Session cpu(p.cpu), gpu(p.gpu);
    cpu.advance(std::span(ids).first(40)), gpu.advance(std::span(ids).first(40));
    CHECK(distance(gpu.advance(std::span(ids).subspan(40, 20)), cpu.advance(std::span(ids).subspan(40, 20))) < bound);
    Session copy = gpu.copy();
    for (std::size_t t = 60; t < 64; ++t) {
        const Tensor next = cpu.advance(std::span(ids).subspan(t, 1));
        CHECK(distance(gpu.advance(std::span(ids).subspan(t, 1)), next) < bound);
        CHECK(distance(copy.advance(std::span(ids).subspan(t, 1)), next) < bound);
    }
    const std::vector<Ids> two{some_ids(50, 33), some_ids(900, 33)};
    CHECK(distance(p.gpu.logits(two), p.cpu.logits(two)) < bound);
}

struct With {
    std::string name, features;
    bool on_gpu = true;
    std::optional<bool> normalize = {};
    double log_decay = 0, beta = 1;
};

std::vector<With> replacements() {
    std::vector<With> all{{"auto", "favor+"}};
    for (const auto& m : gpu::causal_methods()) all.push_back({m.name, "favor+"});
    for (const char* features : {"rfa", "hedgehog", "none"}) all.push_back({"fleet", features});
    all.push_back({"fleet", "hedgehog", true, false});
    for (const char* alone : {"favor+", "hedgehog"}) all.push_back({alone, ""});
    all.push_back({"taylor", "", false});  // 2145 columns
    all.push_back({"linear", "hedgehog"}), all.push_back({"linear", "hedgehog", true, false});
    all.push_back({"gated", "favor+", true, {}, -0.02});
    all.push_back({"gated", "hedgehog", true, {}, -INFINITY}), all.back().on_gpu = false;
    all.push_back({"delta", "hedgehog", true, {}, 0, 0.5});
    all.push_back({"gated_delta", "hedgehog", true, {}, -0.1, 0.7});
    all.push_back({"flash", ""}), all.push_back({"standard", "", false}), all.push_back({"tree", "", false});
    all.push_back({"nystrom", "", false}), all.push_back({"svd", "", false});
    return all;
}

model::SwapOptions options_of(const With& with) {
    model::SwapOptions o;
    if (!with.features.empty()) o.features = with.features;
    const std::string& ranked = with.features.empty() ? with.name : o.features;
    if (ranked == "favor+" || ranked == "rfa" || ranked == "nystrom" || ranked == "svd") o.lowrank.rank = 16;
    o.normalize = with.normalize, o.log_decay = with.log_decay, o.beta = with.beta;
    return o;
}

// Whether it wants scores of the size of softmax attention's, for exp(scale q kᵀ) to be a number.
bool wants_small_scores(const With& with) {
    return with.name == "favor+" || with.name == "nystrom" || with.name == "svd" ||
           (with.name == "gated" && with.features == "favor+");
}

}  // namespace

TEST_CASE("what stands in the place of attention on the GPU is what stands there on the CPU", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    for (const char* name : {"tiny-llama", "tiny-transnormer"}) {
        for (const With& with : replacements()) {
            if (std::string(name) == "tiny-transnormer" && wants_small_scores(with)) continue;
            Pair p = trained(name);
            for (Model* m : {&p.cpu, &p.gpu}) m->attention({2}, with.name, options_of(with));
            const model::LayerInfo layer = p.gpu.layers()[1];
            CHECK(layer.replaced == p.cpu.layers()[1].replaced);
            CHECK(layer.settings.ends_with("on the CPU") == !with.on_gpu);
            check_replaced(p, with.name);
            p.cpu.reset(), p.gpu.reset({2});
            CHECK(distance(p.gpu.logits(some_ids(0, 40)), p.cpu.logits(some_ids(0, 40))) < 5e-3);
        }
    }
}

TEST_CASE("replaced layers on the GPU in 16 bits, with wide heads, and all at once", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    model::SwapOptions o;
    o.features = "hedgehog";
    const Ids ids = some_ids(10, 60);
    for (const gpu::Type type : {gpu::Type::BFloat16, gpu::Type::Float16}) {
        Model cpu = tiny_llama(), gpu = placed(cpu.checkpoint(), type);
        for (Model* m : {&cpu, &gpu}) m->attention({}, "fleet", o);
        CHECK(relative(gpu.logits(ids), cpu.logits(ids)) < 5e-2);
    }
    // Values of 432 columns, which no kernel takes: the CPU computes what stands there.
    Pair wide = random_pair("retnet", "1.3b", 2, WeightType::bf16);
    for (Model* m : {&wide.cpu, &wide.gpu}) m->attention({2}, "linear", o);
    CHECK(wide.gpu.layers()[1].settings.ends_with("on the CPU"));
    const Tensor expected = wide.cpu.logits(ids);
    CHECK(distance(wide.gpu.logits(ids), expected) < 2e-3 * std::max(1.0, 0.1 * largest(expected)));
}

TEST_CASE("a function in the place of attention gets tensors on the GPU", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    // The mean of the values so far: what softmax attention is without scores.
    const auto mean = [](const Tensor& v) {
        const Index N = v.shape()[2], d = v.shape()[3];
        Tensor o(DType::f32, v.shape());
        for (Index h = 0; h < v.size() / (N * d); ++h)
            for (Index e = 0; e < d; ++e) {
                double sum = 0;
                for (Index t = 0; t < N; ++t) {
                    sum += static_cast<double>(v.data<float>()[(h * N + t) * d + e]);
                    o.data<float>()[(h * N + t) * d + e] = static_cast<float>(sum / static_cast<double>(t + 1));
                }
            }
        return o;
    };
    model::Replacement function{"a function",
                                [&](const Tensor&, const Tensor&, const Tensor& v, double) { return mean(v); }};
    Pair p = trained("tiny-llama");
    p.cpu.attention({1}, function), p.gpu.attention({1}, function);
    check_replaced(p, "a function of the CPU");

    int calls = 0;
    function.elsewhere = std::make_shared<const gpu::Attention>(
        [&](const gpu::Tensor& q, const gpu::Tensor&, const gpu::Tensor& v, double scale, cudaStream_t stream) {
            ++calls;
            CHECK(q.dtype() == DType::f32);
            CHECK(scale > 0);
            return gpu::Tensor(mean(v.cpu(stream)), stream);
        });
    p.gpu.attention({1}, function);
    check_replaced(p, "a function of the GPU");
    CHECK(calls > 5);

    // What is not finite, or of another shape, is refused.
    const auto give = [&](const Tensor& o) {
        function.elsewhere =
            std::make_shared<const gpu::Attention>([o](const gpu::Tensor&, const gpu::Tensor&, const gpu::Tensor&,
                                                       double, cudaStream_t stream) { return gpu::Tensor(o, stream); });
        p.gpu.attention({1}, function);
        return message_of([&] { p.gpu.logits(Ids{1, 2, 3}); });
    };
    const model::LayerInfo info = p.gpu.layers()[0];
    Tensor o = Tensor::zeros(DType::f32, {1, info.heads, 3, info.value_width});
    CHECK(give(o) == "");
    o.data<float>()[info.value_width] = NAN;
    CHECK(give(o) == "a function: its output for token 2 has Inf or NaN, expected finite numbers");
    CHECK(give(Tensor::zeros(DType::f32, {1, 1, 3, 1})).starts_with("a function: returned a 1×1×3×1 gpu Tensor"));
}

TEST_CASE("layers of linear attention on the GPU run by every exact method", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    for (const auto& method : gpu::causal_methods()) {
        std::vector<Pair> all;
        all.push_back(trained("tiny-transnormer"));
        all.push_back(random_pair("retnet", "tiny", 3));
        for (Pair& p : all) {
            const Ids ids = some_ids(1000, 150);
            const Tensor expected = p.cpu.logits(ids);
            p.gpu.attention({}, method.name), p.cpu.attention({}, method.name);
            INFO(p.name << ", " << method.name);
            CHECK(p.gpu.layers()[0].replaced == method.name);
            CHECK(distance(p.gpu.logits(ids), expected) < 2e-3 * std::max(1.0, 0.1 * largest(expected)));
            check_replaced(p, method.name);
        }
    }
}

TEST_CASE("what a layer computes on the GPU is what it computes on the CPU", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    const Ids ids = some_ids(20, 45);
    for (const Pair& p : pairs()) {
        for (const Index layer : {1, 2}) {
            const auto cpu = p.cpu.capture(ids, layer, Model::captured()),
                       gpu = p.gpu.capture(ids, layer, Model::captured());
            for (const std::string& what : Model::captured()) {
                INFO(p.name << ", layer " << layer << ", " << what);
                REQUIRE(gpu.at(what).shape() == cpu.at(what).shape());
                CHECK(relative(gpu.at(what), cpu.at(what)) < 1e-3);
            }
        }
    }
    Pair p = trained("tiny-llama");
    model::SwapOptions o;
    o.lowrank.rank = 8;
    for (Model* m : {&p.cpu, &p.gpu}) m->attention({2}, "favor+", o);
    CHECK(relative(p.gpu.capture(ids, 2, {"output"}).at("output"), p.cpu.capture(ids, 2, {"output"}).at("output")) <
          1e-3);
    const auto cpu = model::swap_report(p.cpu, ids, {2}, "favor+", o),
               gpu = model::swap_report(p.gpu, ids, {2}, "favor+", o);
    CHECK(std::abs(gpu.layers[0].output - cpu.layers[0].output) < 1e-3 * cpu.layers[0].output);
    CHECK(std::abs(gpu.layers[0].scores.frobenius.error_masked - cpu.layers[0].scores.frobenius.error_masked) <
          1e-3 * cpu.layers[0].scores.frobenius.error_masked);
    CHECK(std::abs(gpu.before.bits - cpu.before.bits) < 1e-3 * cpu.before.bits);
    CHECK(std::abs(gpu.after.bits - cpu.after.bits) < 1e-3 * cpu.after.bits);
}

TEST_CASE("what a model on the GPU does not do is said in a sentence", "[gpu][gpu-model]") {
    if (!on_gpu()) return;
    // Norms in attention that no layout has yet.
    const auto with_norm = [](const std::shared_ptr<const model::Checkpoint>& checkpoint, auto&& change) {
        return message_of([&] {
            Model(checkpoint, [&](const model::Network& network) {
                change(*network.layers[0].mixer);
                return gpu::on_gpu(network, {});
            });
        });
    };
    const auto softmax = [](const model::Mixer& mixer) {
        return const_cast<model::SoftmaxParts*>(mixer.softmax_parts());  // of a network of this test's own
    };
    const std::string in_attention = " in its attention, expected one that only scales on the GPU",
                      first = "device: layer 1 has a norm with a ";
    CHECK(with_norm(tiny_llama().checkpoint(), [&](const model::Mixer& mixer) {
              softmax(mixer)->q_norm.centred = true;
          }) == first + "mean" + in_attention);
    CHECK(with_norm(tiny_llama().checkpoint(), [&](const model::Mixer& mixer) {
              softmax(mixer)->k_norm.bias = Buffer<float>(4);
          }) == first + "bias" + in_attention);
    CHECK(with_norm(tiny_transnormer().checkpoint(), [](const model::Mixer& mixer) {
              const_cast<model::DecayParts*>(mixer.decay_parts())->norm.centred = true;
          }) == first + "mean" + in_attention);
    CHECK(with_norm(model::random_model("qwen3_next", "tiny", WeightType::f32, 1), [](const model::Mixer& mixer) {
              const_cast<model::GatedDeltaParts*>(mixer.delta_parts())->norm.centred = true;
          }) == first + "mean" + in_attention);
    Model m = trained("tiny-llama").gpu;
    CHECK(message_of([&] { m.capture(Ids{1, 2}, 99, {"q"}); }).starts_with("layers: has 99, expected"));
    model::SwapOptions block;
    block.block = 48;
    CHECK(message_of([&] { m.attention({1}, "fleet", block); }).starts_with("block: 48, expected "));
    CHECK(message_of([&] { m.logits(Ids{1, 300}); }) == "ids: has 300, expected token ids from 0 to 255");
    model::RunOptions none;
    none.chunk = 0;
    CHECK(message_of([&] { m.logits(Ids{1, 2}, none); }) == "chunk: 0, expected 1 or more");
}
