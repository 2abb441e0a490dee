// The blocks of ggml's quantised types, in the order of their bytes:
//
//   Q8_0  32 weights, 34 bytes    d, q[32]                        w = d q                      q: 8 bits, signed
//   Q4_0  32          18          d, q[16]                        w = d (q - 8)                q: 4 bits
//   Q4_1  32          20          d, m, q[16]                     w = d q + m
//   Q4_K  256         144         d, m, s[12], q[128]             w = d s_k q - m m_k          k: one of 8 groups of 32
//   Q5_K  256         176         d, m, s[12], h[32], q[128]      w = d s_k q - m m_k          h: the fifth bit of q
//   Q6_K  256         210         q[128], h[64], s[16], d         w = d s_k (q - 32)           k: one of 16 groups of
//   16
//
// d and m are Float16. A byte of q holds two weights half a group (Q4_0, Q4_1) or a group (K) apart, the earlier one in
// its low bits. The 12 bytes s hold 8 scales s_k and 8 offsets m_k of 6 bits each.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/base/eigen.hpp"  // half
#include "core/model/weight.hpp"

namespace causeway::model {

inline float half_at(const unsigned char* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits));
}

// The scales s_k and offsets m_k of the 8 groups in the 12 bytes of Q4_K and Q5_K: the first four have the low 6 bits
// of bytes 0-3 and 4-7; the others have their low 4 bits in bytes 8-11 and their upper 2 above those of the first four.
struct GroupScales {
    unsigned char scales[8], offsets[8];
};
inline GroupScales group_scales(const unsigned char* s) {
    std::uint32_t a, b, c;
    std::memcpy(&a, s, 4), std::memcpy(&b, s + 4, 4), std::memcpy(&c, s + 8, 4);
    const std::uint32_t scales[] = {a & 0x3F3F3F3F, (c & 0x0F0F0F0F) | (a >> 6 & 0x03030303) << 4};
    const std::uint32_t offsets[] = {b & 0x3F3F3F3F, (c >> 4 & 0x0F0F0F0F) | (b >> 6 & 0x03030303) << 4};
    GroupScales out;
    std::memcpy(out.scales, scales, 8);
    std::memcpy(out.offsets, offsets, 8);
    return out;
}

// `count` weights, a whole number of blocks, as Float32.
void unpack(WeightType type, const unsigned char* blocks, Index count, float* out);

}  // namespace causeway::model
