#include "core/sharded/exchange.hpp"

#include "core/calls/linear_model.hpp"
#include "core/kit/check.hpp"

namespace causeway {

std::vector<std::string> calls::state_exchanges() {
    std::vector<std::string> names{"auto"};
    for (const auto& form : sharded::exchanges()) names.push_back(form.name);
    return names;
}

std::vector<std::string> calls::named_exchanges() { return sharded::exchanges().names(); }

std::vector<std::string> calls::ring_exchanges() { return {"auto", "ring", "heads"}; }

namespace sharded {

const kit::Registry<ExchangeForm>& exchanges() {
    static const auto& list = *new kit::Registry<ExchangeForm>(
        "exchange", {{"ring", Exchange::ring, "LASP: Sun et al., arXiv:2404.02882, 2024"},
                     {"all-scan", Exchange::all_scan,
                      "ZeCO: Zero Communication Overhead Sequence Parallelism, arXiv:2507.01004, 2025"},
                     {"all-gather", Exchange::all_gather, "LASP-2: Sun et al., arXiv:2502.07563, 2025"},
                     {"heads", Exchange::heads, "DeepSpeed Ulysses: Jacobs et al., arXiv:2309.14509, 2023"}});
    return list;
}

std::string chosen_exchange(const std::string& asked, bool same_bits, Index states, int ranks, int together) {
    kit::check_choice("exchange", asked, calls::state_exchanges());
    if (asked != "auto") return asked;
    return same_bits || states >= 2 * static_cast<Index>(ranks - 1) * together ? "ring" : "all-scan";
}

bool heads_are_shorter(const Sharding& o, bool causal, Index heads, int ranks) {
    return o.exchange == "auto" && o.sizes.empty() && causal && ranks > 1 && heads % ranks == 0;
}

std::string chosen_softmax_exchange(const Sharding& o, bool causal, Index heads, int ranks) {
    const bool by_heads = kit::check_choice("exchange", o.exchange, calls::ring_exchanges()) == 2;
    return by_heads || heads_are_shorter(o, causal, heads, ranks) ? "heads" : "ring";
}

}  // namespace sharded
}  // namespace causeway
