// Checkpoints of random weights for tests: a Hugging Face folder, or the same model as a GGUF file.
#pragma once

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/model/checkpoint.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/safetensors.hpp"
#include "tests/core/model/model_files.hpp"
#include "tests/temporary.hpp"

namespace causeway::test {

// A folder that is written when it is asked for its path.
struct RandomFolder {
    nlohmann::json config;
    std::map<std::string, Tensor> tensors;
    std::uint64_t seed = 17;

    // Normal numbers of about this length a row.
    void matrix(const std::string& name, Index rows, Index columns, double size = 1) {
        add(name, {rows, columns}, 0, size / std::sqrt(static_cast<double>(columns)));
    }
    void vector(const std::string& name, Index n, double middle, double spread = 0.2) {
        add(name, {n}, middle, spread);
    }
    void add(const std::string& name, const Shape& shape, double middle, double spread) {
        Tensor x(DType::f64, shape);
        random::normals(seed, tensors.size(), x.data<double>(), x.size());
        for (Index i = 0; i < x.size(); ++i) x.set(i, middle + spread * x.get(i));
        tensors[name] = x.to(DType::f32);
    }

    void write(const std::string& path) const {
        std::filesystem::create_directories(path);
        testing::write_bytes(path + "/config.json", config.dump());
        NamedTensors all;
        all.tensors = tensors;
        save_safetensors(path + "/model.safetensors", all);
    }
};

inline std::string bytes_of(const Tensor& x) { return {reinterpret_cast<const char*>(x.raw()), x.bytes()}; }

// A layer of a Llama folder as GGUF has it: the rows of q and k by pairs.
inline Tensor interleaved(const Tensor& x, Index heads) {
    const Index rows = x.shape()[0], columns = x.shape()[1], d = rows / heads;
    Tensor out(DType::f32, x.shape());
    for (Index h = 0; h < heads; ++h)
        for (Index i = 0; i < d; ++i)
            std::copy_n(x.data<float>() + (h * d + i) * columns, columns,
                        out.data<float>() + (h * d + i % (d / 2) * 2 + i / (d / 2)) * columns);
    return out;
}

}  // namespace causeway::test
