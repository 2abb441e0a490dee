#include "core/calls/scan.hpp"

namespace causeway::calls {

const Call<ScanCallOptions>& scan() {
    using S = ScanCallOptions;
    static const Call<S> call{
        "scan",
        {},
        {{.name = "step",
          .member = {},
          .text = "step(state, x) returns the output of one token of one head and the new state",
          .type = "a function",
          .standard = "none"},
         {.name = "inputs",
          .member = {},
          .text = "Tensors by name, [batch, heads, N, d] or [batch, heads, N], or [N, d] and [N]; a batch, head or "
                  "token of length 1 is repeated",
          .type = "a table of Tensors",
          .standard = "none"},
         {.name = "state",
          .member = {},
          .text = "the state before the first token, [batch, heads, ...] (1 is repeated) or a number; or several by "
                  "name",
          .type = "a Tensor, a number or a table of them",
          .standard = "none"},
         {.name = "reverse", .member = &S::reverse, .text = "from the last token to the first"},
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
