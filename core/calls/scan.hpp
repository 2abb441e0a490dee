// The options of scan, which all stand in its one table: the step is a function of the shell, and the C++ function
// (core/scan/scan.hpp) takes recorded values in its place.
#pragma once

#include "core/calls/layout.hpp"

namespace causeway::calls {

struct ScanCallOptions {
    using TensorType = Tensor;

    bool reverse = false;
};

const Call<ScanCallOptions>& scan();

}  // namespace causeway::calls
