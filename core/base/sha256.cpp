#include "core/base/sha256.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/base/interrupt.hpp"

namespace causeway {
namespace {

constexpr std::size_t piece_of_file = 1u << 20;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::step(const unsigned char* block) {
    std::uint32_t w[64];
    for (std::size_t i = 0; i < 16; ++i)
        w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
               std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
    for (std::size_t i = 16; i < 64; ++i) {
        const std::uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
        const std::uint32_t first =
            h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
        const std::uint32_t second =
            (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const std::uint32_t after[8] = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += after[i];
}

void Sha256::add(Bytes bytes) {
    while (!bytes.empty()) {
        const std::size_t held = size_ % 64, n = std::min<std::size_t>(64 - held, bytes.size());
        size_ += n;
        if (n == 64) {
            step(bytes.data());
        } else {
            std::copy_n(bytes.begin(), n, open_.begin() + static_cast<std::ptrdiff_t>(held));
            if (held + n == 64) step(open_.data());
        }
        bytes = bytes.subspan(n);
    }
}

std::string Sha256::text() const {
    Sha256 whole = *this;
    const std::uint64_t bits = size_ * 8;
    std::vector<unsigned char> end(size_ % 64 < 56 ? 64 - size_ % 64 : 128 - size_ % 64, 0);
    end[0] = 0x80;
    for (std::size_t i = 0; i < 8; ++i) end[end.size() - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
    whole.add(end);
    std::string digits;
    for (const std::uint32_t word : whole.state_)
        for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
    return digits;
}

std::string sha256_of_file(const std::string& path) {
    const Source file(path);
    std::vector<unsigned char> piece(piece_of_file);
    Sha256 sum;
    for (std::uint64_t at = 0; at < file.size(); at += piece_of_file) {
        interrupt::check();
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece_of_file, file.size() - at));
        const std::span<unsigned char> part(piece.data(), size);
        file.read(at, part);
        sum.add(part);
    }
    return sum.text();
}

}  // namespace causeway
