#include "core/base/sha256.hpp"

#include <numeric>
#include <vector>

#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;

namespace {

Bytes bytes_of(const std::string& text) { return {reinterpret_cast<const unsigned char*>(text.data()), text.size()}; }

std::string sum_of(const std::string& text) {
    Sha256 sum;
    sum.add(bytes_of(text));
    return sum.text();
}

}  // namespace

TEST_CASE("SHA-256 gives the published sums", "[base][sha256]") {
    // FIPS 180-4's examples, and a million a.
    CHECK(sum_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sum_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(sum_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(sum_of(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the bytes come", "[base][sha256]") {
    std::string text(300, '\0');
    std::iota(text.begin(), text.end(), '\0');
    for (std::size_t size = 0; size <= text.size(); size += 7) {
        for (const std::size_t piece : {1u, 3u, 63u, 64u, 65u, 128u}) {
            Sha256 sum;
            for (std::size_t at = 0; at < size; at += piece)
                sum.add(bytes_of(text.substr(at, std::min(piece, size - at))));
            CHECK(sum.text() == sum_of(text.substr(0, size)));
        }
    }
    const testing::TemporaryFolder folder;
    const std::string large(3'000'001, 'x');
    testing::write_bytes(folder / "large", large);
    CHECK(sha256_of_file(folder / "large") == sum_of(large));
}
