#include "core/lowrank/registry.hpp"

#include "core/base/text.hpp"
#include "core/base/unknown_name.hpp"

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
    throw UnknownName("name: no factorisation is named " + in_quotes(name), name, names, expected_one_of(names));
}

}  // namespace causeway::lowrank
