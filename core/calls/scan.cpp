#include "core/calls/scan.hpp"

namespace causeway::calls {
namespace {

// A call needs step, state and inputs, so the example of each has all three.
constexpr const char* example =
    "step = function(S, x) return S + x.v, S + x.v end,\n  state = zeros(2), inputs = {v = randn(4, 2)}";

}  // namespace

const Call<ScanCallOptions>& scan() {
    using S = ScanCallOptions;
    static const auto& reversed_example = *new std::string(std::string(example) + ", reverse = true");
    static const auto& call = *new Call<S>{
        "scan",
        {},
        {{.name = "step",
          .member = {},
          .text = "step(state, x) returns the output of one token of one head and the new state",
          .type = "a function",
          .standard = "to be given",
          .example = example},
         {.name = "inputs",
          .member = {},
          .text = "Tensors by name, [batch, heads, N, d] or [batch, heads, N], or [N, d] and [N]; a batch, head or "
                  "token of length 1 is repeated",
          .type = "a table of Tensors",
          .standard = "to be given",
          .example = example},
         {.name = "state",
          .member = {},
          .text = "the state before the first token, [batch, heads, ...] (1 is repeated) or a number; or several by "
                  "name",
          .type = "a Tensor, a number or a table of them",
          .standard = "to be given",
          .example = example},
         {.name = "reverse",
          .member = &S::reverse,
          .text = "from the last token to the first",
          .example = reversed_example.c_str()},
         {.name = "layout",
          .member = {},
          .text =
              "order of the dimensions of inputs and outputs: [batch, heads, N, d], or [batch, N, heads, d]; states "
              "keep theirs",
          .standard = "\"bhnd\"",
          .choices = layouts}}};
    return call;
}

}  // namespace causeway::calls
