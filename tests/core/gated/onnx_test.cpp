// The test cases of the ONNX operator LinearAttention, and longer ones by its reference implementation
// (tests/data/onnx/make.py).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/gated/step.hpp"
#include "core/tensor/safetensors.hpp"
#include "tests/catch.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/paths.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

std::vector<std::string> case_files() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/data/onnx"))
        if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    return files;
}

struct OnnxCase {
    GatedInputs in;
    Tensor output, present_state;

    explicit OnnxCase(const std::string& file) {
        const NamedTensors read = load_safetensors(file);
        const auto optional = [&](const char* name) {
            const auto at = read.tensors.find(name);
            return at == read.tensors.end() ? std::optional<Tensor>() : at->second;
        };
        in = {read.tensors.at("q"), read.tensors.at("k"), read.tensors.at("v"), {}};
        in.options.update = read.metadata.at("update");
        in.options.scale = std::strtod(read.metadata.at("scale").c_str(), nullptr);
        in.options.log_decay = optional("log_decay");
        in.options.beta = optional("beta");
        in.options.state = optional("past_state");
        output = read.tensors.at("output");
        present_state = read.tensors.at("present_state");
    }

    // ONNX computes in Float32 and rounds the results to the type of q.
    double tolerance() const { return output.dtype() == DType::f16 ? 5e-4 : 1e-5; }
};

}  // namespace

TEST_CASE("the cases of the ONNX operator come out in every mode", "[gated]") {
    const Poison poison;
    const auto files = case_files();
    REQUIRE(files.size() == 20);
    for (const auto& file : files) {
        const OnnxCase c(file);
        for (const char* mode : {"recurrent", "chunkwise", "parallel"}) {
            CAPTURE(file, mode);
            LinearOptions o = c.in.options;
            o.mode = mode;
            const LinearResult got = linear_attention(c.in.q, c.in.k, c.in.v, o);
            CHECK(got.O.dtype() == c.output.dtype());
            CHECK(relative_error(got.O, c.output) <= c.tolerance());
            CHECK(relative_error(got.state, c.present_state) <= c.tolerance());
        }
    }
}

TEST_CASE("the cases of the ONNX operator come out token by token", "[gated]") {
    const Poison poison;
    for (const auto& file : case_files()) {
        CAPTURE(file);
        const OnnxCase c(file);
        const Index N = c.in.q.shape()[2];
        Tensor state =
            c.in.options.state ? c.in.options.state->copy() : Tensor::zeros(DType::f32, c.present_state.shape());
        Shape one = c.output.shape();
        one[2] = 1;
        Tensor O(c.output.dtype(), one), all(c.output.dtype(), c.output.shape());
        // Token t of A [b, h, N(, w)].
        const auto token = [&](const Tensor& A, Index t) {
            Shape shape = A.shape();
            shape[2] = 1;
            Tensor out(A.dtype(), shape);
            const Index width = A.ndim() == 4 ? shape[3] : 1;
            for (Index i = 0; i < out.size(); ++i) out.set(i, A.get((i / width * N + t) * width + i % width));
            return out;
        };
        for (Index t = 0; t < N; ++t) {
            LinearOptions o = c.in.options;
            o.state.reset();
            if (o.log_decay) o.log_decay = token(*o.log_decay, t);
            if (o.beta) o.beta = token(*o.beta, t);
            linear_attention_step(token(c.in.q, t), token(c.in.k, t), token(c.in.v, t), state, O, o);
            const Index width = one[3];
            for (Index i = 0; i < O.size(); ++i) all.set((i / width * N + t) * width + i % width, O.get(i));
        }
        CHECK(relative_error(all, c.output) <= c.tolerance());
        CHECK(relative_error(state, c.present_state) <= c.tolerance());
    }
}
