#include "core/base/digest.hpp"

#include <random>
#include <set>

#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using causeway::Digest;

namespace {

std::string digest_of(const std::string& text) {
    Digest digest;
    digest.add(text);
    return digest.text();
}

}  // namespace

TEST_CASE("a digest depends on every byte and on their number, not on how they came", "[base]") {
    std::mt19937 random(1);
    std::string text(100, '\0');
    for (char& c : text) c = static_cast<char>(random());

    std::set<std::string> seen;
    for (std::size_t n = 0; n <= text.size(); ++n) seen.insert(digest_of(text.substr(0, n)));
    CHECK(seen.size() == text.size() + 1);
    for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
        std::string other = text;
        other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
        seen.insert(digest_of(other));
    }
    CHECK(seen.size() == 9 * text.size() + 1);
    CHECK(digest_of(std::string(3, '\0')) != digest_of(std::string(4, '\0')));

    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        Digest digest;
        digest.add(text.substr(0, cut / 2));
        digest.add(text.substr(cut / 2, cut - cut / 2));
        digest.add(text.substr(cut));
        CHECK(digest.text() == digest_of(text));
    }
}

TEST_CASE("the digest of a file is that of its bytes", "[base]") {
    const causeway::testing::TemporaryFolder folder;
    const std::string text((1u << 20) + 13, 'x');  // more than it reads at once
    causeway::testing::write_bytes(folder / "data", text);
    CHECK(causeway::digest_of_file(folder / "data") == digest_of(text));
    CHECK(causeway::testing::message_of([&] { causeway::digest_of_file(folder / "missing"); }) != "");
}
