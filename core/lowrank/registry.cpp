#include "core/lowrank/registry.hpp"

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace causeway::lowrank {

const std::vector<Method>& methods() {
    static const auto& list = *new std::vector<Method>{
        favor_method(),     rfa_method(),         lara_method(),           nystrom_method(), linformer_method(),
        skyformer_method(), skeinformer_method(), transformer_vq_method(), hyper_method(),   taylor_method(),
        hedgehog_method(),  svd_method(),         rsvd_method(),
    };
    return list;
}

const Method& method(const std::string& name) {
    std::vector<std::string> names;
    for (const Method& m : methods()) {
        if (m.name == name) return m;
        names.push_back(m.name);
    }
    const std::string near = did_you_mean(name, names);
    if (!near.empty()) fail("name: no factorisation is named ", in_quotes(name), near);
    std::string known;
    for (const auto& one : names) known += (known.empty() ? "" : ", ") + in_quotes(one);
    fail("name: no factorisation is named ", in_quotes(name), ", expected one of ", known);
}

}  // namespace causeway::lowrank
