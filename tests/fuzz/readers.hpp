// What a fuzzer does with one input, and what the replay of the corpus does with one file. Each returns whether the
// bytes were accepted; an Error is the other allowed outcome, whatever else is thrown is a fault.
#pragma once

#include <lauxlib.h>
#include <lua.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/csv.hpp"
#include "core/model/folder.hpp"
#include "core/model/gguf.hpp"
#include "core/model/tokenizer.hpp"
#include "core/tensor/npy.hpp"
#include "core/tensor/npz.hpp"
#include "core/tensor/safetensors.hpp"
#include "lua/bind/json.hpp"

namespace causeway::fuzz {

// Ends the program where an accepted input breaks what its reader promises.
inline void require(bool holds) {
    if (!holds) std::abort();
}

// Reads every byte, for the address sanitizer to see; the elements have the size of their shape.
inline void touch(const Tensor& t) {
    const volatile unsigned char* bytes = t.raw();
    for (std::size_t i = 0; i < t.bytes(); ++i) (void)bytes[i];
}

template <class F>
bool accepts(F&& read) {
    try {
        read();
        return true;
    } catch (const Error&) {
        return false;
    }
}

inline bool npy(Bytes bytes) {
    return accepts([&] { touch(read_npy(bytes, "input")); });
}

inline bool npz(Bytes bytes) {
    return accepts([&] {
        for (const auto& [name, tensor] : read_npz(bytes, "input")) touch(tensor);
    });
}

// What is accepted whole is so in parts, along any dimension.
inline bool safetensors(Bytes bytes) {
    return accepts([&] {
        for (const auto& named : read_safetensors(bytes, "input").tensors) {
            const std::string& name = named.first;
            const Tensor& tensor = named.second;
            touch(tensor);
            for (int dim = 0; dim < tensor.ndim(); ++dim) {
                const Index length = tensor.shape()[dim], first = length / 3, n = length - first - length / 4;
                const auto part = [&](const Shape&, const std::string&) { return TensorPart{dim, first, n}; };
                bool read = false;
                accepts([&] {
                    touch(read_safetensors(Source(bytes, "input"), Wanted{{name}, part}).tensors.at(name));
                    read = true;
                });
                require(read);
            }
        }
    });
}

// Everything that a checkpoint can be asked for.
inline void touch(const model::Checkpoint& c) {
    for (const auto& key : c.metadata().keys()) {
        const auto count = static_cast<std::size_t>(c.count(key).value_or(0));
        const std::size_t lists = c.numbers(key).size() + c.flags(key).size() + c.texts(key).size();
        require(lists == count && c.number(key).has_value() + c.flag(key).has_value() + c.text(key).has_value() <= 1);
    }
    std::vector<float> row;
    for (const auto& name : c.names()) {
        const model::Weight* w = nullptr;
        if (!accepts([&] { w = c.find(name); })) continue;
        require(w && w->rows > 0 && w->columns > 0);
        row.resize(static_cast<std::size_t>(w->columns));
        for (Index i = 0; i < w->rows; ++i) model::read_row(*w, i, row.data());
    }
}

inline bool gguf(Bytes bytes) {
    return accepts([&] { touch(model::Checkpoint("input", true, model::read_gguf(bytes, "input"))); });
}

// The two JSON files of a model's folder.
inline bool model_json(Bytes bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    accepts([&] {
        for (const auto& [tensor, file] : model::read_shard_index(text, "input"))
            require(!file.empty() && file != ".." && file.find('/') == file.npos);
    });
    return accepts([&] {
        model::Contents contents;
        contents.metadata = model::read_json_entries(text, "input");
        touch(model::Checkpoint("input", false, std::move(contents)));
    });
}

inline std::string csv_text(csv::Reader& reader) {
    std::string out;
    csv::append_header(out, reader.columns());
    for (std::vector<csv::Cell> row; reader.next(row);) {
        require(row.size() == reader.columns().size());
        csv::append_row(out, row);
    }
    return out;
}

// What was read, written and read again must be the same.
inline bool csv(Bytes bytes) {
    return accepts([&] {
        causeway::csv::Reader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "input");
        const std::string first = csv_text(reader);
        causeway::csv::Reader again(first, "output");
        require(csv_text(again) == first);
    });
}

// Likewise, but for null in objects, which the first reading leaves out.
inline bool json(Bytes bytes) {
    const std::unique_ptr<lua_State, decltype(&lua_close)> L(luaL_newstate(), lua_close);
    lua_newtable(L.get());
    lua_setfield(L.get(), LUA_REGISTRYINDEX, "causeway");
    lua::open_json(L.get());
    return accepts([&] {
        lua::push_json(L.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "input", true);
        require(lua_gettop(L.get()) == 1);
        const std::string first = lua::encode_json(L.get(), 1, "input", true);
        lua::push_json(L.get(), first, "output", true);
        require(lua::encode_json(L.get(), 2, "output", true) == first);
    });
}

// Text that a tokenizer takes comes back, unless a byte has no token or the text is composed first.
inline void require_round_trip(const model::Tokenizer& tokenizer, std::string_view text, bool composes) {
    for (const bool special : {true, false}) {
        Index lost = 0;
        const auto ids = tokenizer.encode(text, special, &lost);
        const std::string back = tokenizer.decode(ids);
        require(composes || lost > 0 || back == text);
    }
}

// A tokenizer.json, used on its own text where it is one.
inline bool tokenizer(Bytes bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return accepts([&] {
        const auto parts = model::parts_of_json(text, "input");
        require_round_trip(model::Tokenizer::of(parts), text, parts.nfc);
    });
}

// Any bytes through the cuts of all models that are known, and some merges and added tokens.
inline bool words(Bytes bytes) {
    static const std::vector<model::Tokenizer> tokenizers = [] {
        std::vector<model::Tokenizer> all;
        for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm"}) {
            model::TokenizerParts parts;
            parts.name = pre;
            for (int byte = 0; byte < 256; ++byte) parts.tokens.emplace_back(std::string(1, static_cast<char>(byte)));
            for (const char* pair : {"aa", "  ", "\r\n", "\xC3\xA9", " a", "12", "\n\n"}) {
                parts.merges.emplace_back(std::string(1, pair[0]), std::string(1, pair[1]));
                parts.tokens.emplace_back(pair);
            }
            parts.merges.emplace_back("aa", "aa");
            parts.tokens.emplace_back("aaaa");
            for (std::size_t id = 0; id < parts.tokens.size(); ++id)
                parts.words.push_back(static_cast<model::Token>(id));
            for (const char* added : {"<a>", "<a", "aaa", "\n<a>"}) {
                parts.added.push_back({static_cast<model::Token>(parts.tokens.size()), added, added[0] == '<'});
                parts.tokens.emplace_back(added);
            }
            parts.splitter = *model::Splitter::named(pre);
            parts.ignore_merges = parts.name == "llama-bpe";
            all.push_back(model::Tokenizer::of(parts));
        }
        return all;
    }();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return accepts([&] {
        for (const auto& one : tokenizers) require_round_trip(one, text, false);
    });
}

}  // namespace causeway::fuzz
