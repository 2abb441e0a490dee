// Calls on several workers, and how their results are compared with those of one.
#pragma once

#include <cmath>
#include <cstring>
#include <string>

#include "core/calls/sharding.hpp"
#include "core/tensor/tensor.hpp"
#include "tests/catch.hpp"

namespace causeway::test {

inline Sharding on(int shards, const std::string& exchange = "auto") {
    Sharding out;
    out.shards = shards, out.exchange = exchange;
    return out;
}

// Every element within bound · (1 + |largest|); what is no number on one side has to be none on the other.
inline void check_close(const Tensor& got, const Tensor& want, double bound) {
    REQUIRE(got.shape() == want.shape());
    REQUIRE(got.dtype() == want.dtype());
    double largest = 0;
    for (Index i = 0; i < want.size(); ++i)
        if (std::isfinite(want.get(i))) largest = std::max(largest, std::abs(want.get(i)));
    Index wrong = -1;
    for (Index i = 0; i < want.size() && wrong < 0; ++i) {
        const double a = got.get(i), b = want.get(i);
        const bool same = a == b || (std::isnan(a) && std::isnan(b));
        if (!same && !(std::abs(a - b) <= bound * (1 + largest))) wrong = i;
    }
    INFO("element " << wrong << ": " << (wrong < 0 ? 0 : got.get(wrong)) << ", expected "
                    << (wrong < 0 ? 0 : want.get(wrong)));
    CHECK(wrong < 0);
}

// Every row within bound times its own largest, however large others are.
inline void check_rows_close(const Tensor& got, const Tensor& want, double bound) {
    REQUIRE(got.shape() == want.shape());
    const Index columns = want.shape().back();
    for (Index row = 0; row < want.size() / columns; ++row) {
        double largest = 0;
        for (Index i = row * columns; i < (row + 1) * columns; ++i)
            if (std::isfinite(want.get(i))) largest = std::max(largest, std::abs(want.get(i)));
        for (Index i = row * columns; i < (row + 1) * columns; ++i) {
            const double a = got.get(i), b = want.get(i);
            INFO("element " << i << ": " << a << ", expected " << b);
            REQUIRE((a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= bound * largest));
        }
    }
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace causeway::test
