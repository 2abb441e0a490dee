// The functions of single numbers that models know.
#pragma once

namespace causeway::model {

enum class Activation { none, sigmoid, silu, gelu };

}  // namespace causeway::model
