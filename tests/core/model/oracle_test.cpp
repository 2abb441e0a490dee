// A whole small Qwen3-Next of random weights gives the logits of transformers (tests/data/oracles/make.py): the text at
// once, and token by token.
#include <cmath>
#include <span>

#include "core/model/model.hpp"
#include "core/tensor/safetensors.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

// The greatest difference from row `first` on, over the largest expected logit.
double off_by(const Tensor& got, const Tensor& want, Index first) {
    const Index width = want.shape()[1];
    double most = 0, largest = 0;
    for (Index i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(want.get(i)));
    for (Index i = 0; i < got.size(); ++i) {
        const double off = std::abs(got.get(i) - want.get(first * width + i)) / largest;
        if (!(off <= most)) most = off;
    }
    return most;
}

}  // namespace

TEST_CASE("a small Qwen3-Next gives the logits of transformers, at once and token by token", "[model][oracles]") {
    const std::string folder = source_dir() + "/tests/data/oracles/qwen3_next";
    const NamedTensors expected = load_safetensors(folder + "/expected.safetensors");
    const Tensor &text = expected.tensors.at("ids"), &prefill = expected.tensors.at("prefill"),
                 &steps = expected.tensors.at("steps");
    model::Ids ids;
    for (Index i = 0; i < text.size(); ++i) ids.push_back(static_cast<std::int32_t>(text.get(i)));
    const model::Model m = model::Model::load(folder);
    const Tensor all = m.logits(ids);
    REQUIRE(all.size() == prefill.size());
    CHECK(off_by(all, prefill, 0) <= 1e-5);
    model::Session session(m);
    for (Index t = 0; t < text.size(); ++t) {
        INFO("token " << t);
        const Tensor one = session.advance(std::span(ids).subspan(static_cast<std::size_t>(t), 1));
        REQUIRE(one.size() == prefill.shape()[1]);
        REQUIRE(off_by(one, steps, t) <= 1e-5);
    }
}
