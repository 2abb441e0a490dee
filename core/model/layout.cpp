#include "core/model/layout.hpp"

#include <algorithm>

#include "core/base/text.hpp"

namespace causeway::model {

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{llama_layout(), transnormer_layout(), retnet_layout(), qwen3_next_layout(),
                                         minimax_layout()};
    return all;
}

namespace {

const Layout& layout_of(const Reader& reader) {
    std::vector<std::string> known;
    for (const Layout& layout : layouts()) {
        const auto& names = reader.gguf() ? layout.gguf : layout.folder;
        if (std::count(names.begin(), names.end(), reader.architecture()) > 0) return layout;
        known.insert(known.end(), names.begin(), names.end());
    }
    std::string list;
    for (std::size_t i = 0; i < known.size(); ++i)
        list += (i == 0 ? "" : i + 1 < known.size() ? ", " : " or ") + in_quotes(known[i]);
    reader.refuse(reader.gguf() ? "general.architecture: " : "model_type: ",
                  reader.architecture().empty() ? "missing" : in_quotes(reader.architecture()), ", expected ", list);
}

}  // namespace

Network build(const std::shared_ptr<const Checkpoint>& checkpoint) {
    Reader reader(*checkpoint);
    const Layout& layout = layout_of(reader);
    Network out = layout.build(reader);
    out.checkpoint = checkpoint;
    out.about.path = checkpoint->path();
    out.about.layout = layout.name;
    out.about.vocabulary = out.head.weight.rows;
    out.about.layers = static_cast<Index>(out.layers.size());
    out.about.parameters = reader.parameters();
    out.about.bytes = reader.bytes();
    if (out.embedding.rows != out.about.vocabulary)
        reader.refuse("the embedding has ", out.embedding.rows, " tokens and the head ", out.about.vocabulary,
                      ", expected as many");
    return out;
}

}  // namespace causeway::model
