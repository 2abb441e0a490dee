#include "core/base/digest.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/interrupt.hpp"

namespace causeway {
namespace {

constexpr std::size_t piece_of_file = 1u << 20;

// The finaliser of MurmurHash3: every bit of x reaches every bit of the result.
std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
}

}  // namespace

// FNV-1a over words instead of bytes; the shift brings the high bits of a word, which a product moves only upwards,
// back to the low ones.
void Digest::step(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x100000001b3u;
    hash_ ^= hash_ >> 29;
}

void Digest::add(Bytes bytes) {
    std::size_t i = 0;
    const auto take_byte = [&] {
        open_ |= std::uint64_t{bytes[i++]} << (size_++ % 8 * 8);
        if (size_ % 8 != 0) return;
        step(open_);
        open_ = 0;
    };
    while (i < bytes.size() && size_ % 8 != 0) take_byte();
    for (; i + 8 <= bytes.size(); i += 8, size_ += 8) {
        std::uint64_t word;
        std::memcpy(&word, bytes.data() + i, sizeof word);
        step(word);
    }
    while (i < bytes.size()) take_byte();
}

void Digest::add(std::string_view text) {
    add(Bytes(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

std::string Digest::text() const {
    std::uint64_t rest = mixed(mixed(hash_ ^ open_) ^ size_);
    std::string digits(16, '0');
    for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, rest >>= 4)
        *digit = "0123456789abcdef"[rest & 15];
    return digits;
}

std::string digest_of_file(const std::string& path) {
    const Source file(path);
    std::vector<unsigned char> piece(piece_of_file);
    Digest digest;
    for (std::uint64_t at = 0; at < file.size(); at += piece_of_file) {
        interrupt::check();
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece_of_file, file.size() - at));
        const std::span<unsigned char> part(piece.data(), size);
        file.read(at, part);
        digest.add(Bytes(part));
    }
    return digest.text();
}

}  // namespace causeway
