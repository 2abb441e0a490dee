#include "tests/fuzz/readers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    causeway::fuzz::gguf({data, size});
    return 0;
}
