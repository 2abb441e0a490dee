// What processes compare that make one call on their GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/gated/linear_attention.hpp"
#include "core/gated/registry.hpp"
#include "core/sharded/run.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/sharded/run.hpp"

namespace causeway::gpu::sharded {

using causeway::sharded::given_number;
using causeway::sharded::given_type;
using distributed::Given;

inline Given given_text(const char* name, std::string_view text) {
    std::vector<float> letters(text.begin(), text.end());
    return {name, distributed::checksum(letters.data(), static_cast<Index>(letters.size()))};
}

// N: of whole tensors.
inline void add_sharding(std::vector<Given>& out, const Sharding& sharding, const Workers& workers, Index N) {
    out.push_back(given_text("exchange: with the checksum", sharding.exchange));
    out.push_back({"sizes: number of lengths", static_cast<std::int64_t>(sharding.sizes.size())});
    if (!workers.parts) out.push_back({"q: length", N});
}

// The tensors of a call on whole ones.
template <class Options>
std::vector<std::pair<const char*, const Tensor*>> compared(const Tensor& q, const Tensor& k, const Tensor& v,
                                                            const gated::Call& call, const Options& o) {
    std::vector<std::pair<const char*, const Tensor*>> out{
        {"q: values with the checksum", &q}, {"k: values with the checksum", &k}, {"v: values with the checksum", &v}};
    if (call.sizes.gates > 0) out.emplace_back("log_decay: values with the checksum", &call.log_decay);
    if (causeway::gated::has_delta(call.sizes.update)) out.emplace_back("beta: values with the checksum", &call.beta);
    if (o.state) out.emplace_back("state: values with the checksum", &*o.state);
    return out;
}

template <class Options>
std::vector<Given> given_of(const causeway::gated::Sizes& n, const Options& o, const Sharding& sharding,
                            const Workers& workers) {
    std::vector<Given> out{given_type("q:", n.dtype),
                           {"v: batch", n.batch},
                           {"v: heads", n.heads},
                           {"q: heads", n.heads * n.group / n.shared_queries},
                           {"k: heads", n.heads / n.shared_keys},
                           {"q: width", n.dk},
                           {"v: width", n.dv},
                           {"log_decay: columns", n.gates},
                           given_text("update: with the checksum", o.update),
                           given_text("mode: with the checksum", o.mode),
                           given_number("scale:", o.scale),
                           {"state: given", o.state.has_value(), distributed::truth}};
    add_sharding(out, sharding, workers, n.N);
    return out;
}

}  // namespace causeway::gpu::sharded
