// Models of any size without a file of weights: times and memory do not depend on the numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/checkpoint.hpp"

namespace causeway::model {

// A tensor to make up. Its numbers are uniform with this mean and standard deviation; where the deviation is left at 0
// it is that which keeps the size of what a matrix multiplies, 1/√columns.
struct RandomTensor {
    std::string name;
    std::vector<Index> shape;  // outermost first, no dimension 0
    double mean = 0, deviation = 0;
};

// A checkpoint like that of a folder, with the metadata of this config.json, named `name` in messages. All weights have
// the type, Float32, Float16 or BFloat16. The numbers are a function of the seed and of the order of the tensors, the
// same on every machine and for every number of threads. With `matrices` false, tensors of two dimensions are not made
// here: their Weight says how a GPU makes them. Throws Error for another type, a name that is given twice or a
// shape without elements, OutOfMemory where the weights do not fit.
std::shared_ptr<const Checkpoint> random_checkpoint(const std::string& name, std::string_view config,
                                                    const std::vector<RandomTensor>& tensors, WeightType type,
                                                    std::uint64_t seed, bool matrices = true);

}  // namespace causeway::model
