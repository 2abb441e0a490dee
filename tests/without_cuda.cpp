// Stands in the place of the tests of tests/gpu in a build without CUDA, under their tags.
#include "tests/catch.hpp"

TEST_CASE("tests of the CUDA library, in a build without it", CAUSEWAY_GPU_TAGS) {
    causeway::test::skip("tests of the CUDA library",
                         "they need CUDA, and this was built without; ./lab build gpu builds it in");
}
