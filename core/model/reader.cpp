#include "core/model/reader.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/text.hpp"

namespace causeway::model {

Reader::Reader(const Checkpoint& checkpoint)
    : checkpoint_(checkpoint),
      architecture_(checkpoint.text(checkpoint.gguf() ? "general.architecture" : "model_type").value_or("")) {}

std::string Reader::full(const Key& key) const { return gguf() ? architecture_ + "." + key.gguf : key.folder; }

Index Reader::size(const Key& key, std::optional<Index> fallback, Index least) const {
    return whole(key, number(key, fallback ? static_cast<double>(*fallback) : std::optional<double>()), least, 1 << 20);
}

Index Reader::tokens(const Key& key) const {
    return whole(key, number(key, 0), 0, std::numeric_limits<std::int32_t>::max());
}

Index Reader::whole(const Key& key, double value, Index least, Index most) const {
    if (!(std::floor(value) == value && value >= static_cast<double>(least) && value <= static_cast<double>(most)))
        refuse(full(key), ": ", number_text(value), ", expected a whole number from ", least, " to ", most);
    return static_cast<Index>(value);
}

double Reader::number(const Key& key, std::optional<double> fallback) const {
    const auto x = knows(key) ? checkpoint_.number(full(key)) : std::nullopt;
    if (!x && !fallback) refuse(full(key), ": missing, expected a number");
    const double value = x ? *x : *fallback;
    if (!std::isfinite(value)) refuse(full(key), ": ", number_text(value), ", expected a finite number");
    return value;
}

bool Reader::flag(const Key& key, bool fallback) const {
    return knows(key) ? checkpoint_.flag(full(key)).value_or(fallback) : fallback;
}

std::string Reader::text(const Key& key, const std::string& fallback) const {
    return knows(key) ? checkpoint_.text(full(key)).value_or(fallback) : fallback;
}

const Weight& Reader::find(const std::string& tensor) {
    const Weight* weight = checkpoint_.find(tensor);
    if (!weight) refuse("tensor ", in_quotes(tensor), ": missing");
    return used_.emplace(tensor, *weight).first->second;
}

Weight Reader::matrix(const std::string& tensor, Index rows, Index columns) {
    const Weight& w = find(tensor);
    if (w.rows != rows || w.columns != columns)
        refuse("tensor ", in_quotes(tensor), ": ", w.rows, "×", w.columns, ", expected ", rows, "×", columns);
    return w;
}

Weight Reader::matrix(const std::string& tensor, Index columns) {
    const Weight& w = find(tensor);
    if (w.rows < 1 || w.columns != columns)
        refuse("tensor ", in_quotes(tensor), ": ", w.rows, "×", w.columns, ", expected rows of ", columns);
    return w;
}

Buffer<float> Reader::vector(const std::string& tensor, Index n) {
    const Weight& w = find(tensor);
    if (w.rows * w.columns != n)
        refuse("tensor ", in_quotes(tensor), ": ", w.rows * w.columns, " numbers, expected ", n);
    Buffer<float> out(n);
    for (Index row = 0; row < w.rows; ++row) read_row(w, row, out.data() + row * w.columns);
    return out;
}

Index Reader::parameters() const {
    Index sum = 0;
    for (const auto& [name, w] : used_) sum += w.rows * w.columns;
    return sum;
}

Index Reader::bytes() const {
    Index sum = 0;
    for (const auto& [name, w] : used_) sum += static_cast<Index>(w.bytes());
    return sum;
}

}  // namespace causeway::model
