// The small trained models of experiments/data and the text they were held from: a token is a byte.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/model/model.hpp"
#include "tests/paths.hpp"
#include "tests/temporary.hpp"

namespace causeway::test {

inline std::string data_path(const std::string& name) { return source_dir() + "/experiments/data/" + name; }

// Loaded once for all tests.
inline const model::Model& tiny_llama() {
    static const model::Model m = model::Model::load(data_path("tiny-llama"));
    return m;
}
inline const model::Model& tiny_transnormer() {
    static const model::Model m = model::Model::load(data_path("tiny-transnormer"));
    return m;
}

// Bytes of the held-out text.
inline model::Ids held_out(Index from, Index n) {
    static const std::string text = testing::read_bytes(data_path("heldout.txt"));
    model::Ids out;
    for (Index i = from; i < from + n; ++i)
        out.push_back(static_cast<unsigned char>(text.at(static_cast<std::size_t>(i))));
    return out;
}

struct Expected {
    Index offset, length;
    double bits_per_byte;
    std::vector<double> last_logits;
};
inline Expected expected_of(const std::string& name) {
    std::ifstream in(data_path(name + "/expected.json"));
    const auto file = nlohmann::json::parse(in);
    return {file["text_offset"], file["length"], file["bits_per_byte"], file["last_logits"]};
}

// The largest difference of two rows of numbers.
inline double distance(const float* a, const float* b, Index n) {
    double most = 0;
    for (Index i = 0; i < n; ++i) {
        const double off = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        if (!(off <= most)) most = off;
    }
    return most;
}
inline double distance(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() ? distance(a.data<float>(), b.data<float>(), a.size()) : INFINITY;
}

}  // namespace causeway::test
