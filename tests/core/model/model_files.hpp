// GGUF and safetensors files for tests, as bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.hpp"

namespace causeway::testing {

template <class T>
std::string raw(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
}

inline std::string gguf_text(const std::string& text) { return raw<std::uint64_t>(text.size()) + text; }

// Builds a GGUF file; its parts can be set wrong one by one.
struct GgufFile {
    std::string magic = "GGUF";
    std::uint32_t version = 3;
    std::uint64_t alignment = 32;
    std::vector<std::string> keys, tensors;
    std::string data;

    void key(const std::string& name, std::uint32_t kind, const std::string& value) {
        keys.push_back(gguf_text(name) + raw(kind) + value);
    }
    void list(const std::string& name, std::uint32_t kind, std::uint64_t count, const std::string& values) {
        key(name, 9, raw(kind) + raw(count) + values);
    }
    void texts(const std::string& name, const std::vector<std::string>& values) {
        std::string all;
        for (const auto& value : values) all += gguf_text(value);
        list(name, 8, values.size(), all);
    }
    // The shape has the innermost dimension first, as the file has it.
    void entry(const std::string& name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
               std::uint64_t offset) {
        std::string out = gguf_text(name) + raw(static_cast<std::uint32_t>(shape.size()));
        for (const auto n : shape) out += raw(n);
        tensors.push_back(out + raw(type) + raw(offset));
    }
    // A tensor with its data, behind those before it.
    void tensor(const std::string& name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
                const std::string& values) {
        data.resize((data.size() + alignment - 1) / alignment * alignment, '\0');
        entry(name, shape, type, data.size());
        data += values;
    }

    std::string bytes() const {
        std::string out = magic + raw(version) + raw<std::uint64_t>(tensors.size()) + raw<std::uint64_t>(keys.size());
        for (const auto& part : keys) out += part;
        for (const auto& part : tensors) out += part;
        out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
        return out + data;
    }
};

// A .safetensors file with this header.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
    return raw<std::uint64_t>(header.size()) + header + data;
}

inline Bytes as_bytes(const std::string& text) {
    return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

}  // namespace causeway::testing
