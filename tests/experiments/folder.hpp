// Where the experiments are, with a slash behind it.
#pragma once

#include "tests/paths.hpp"

namespace causeway::testing {

inline const std::string experiments = source_dir() + "/experiments/";

}  // namespace causeway::testing

using causeway::testing::experiments;
