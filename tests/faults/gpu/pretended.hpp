// A CUDA device that does not exist: memory is that of the CPU, set to zero, copies copy, kernels and messages do
// nothing.
#pragma once

namespace causeway::faults {

// The function in the place of this one; null: one that does nothing and says that it succeeded.
void* pretended(const char* name);

void set_pretended_devices(int devices);

}  // namespace causeway::faults
