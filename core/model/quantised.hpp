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

#include <Eigen/Core>  // half

#include "core/model/weight.hpp"

namespace causeway::model {

inline float half_at(const unsigned char* p) {
    std::uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits));
}

// Scale s_k and offset m_k of group k < 8 in the 12 bytes of Q4_K and Q5_K.
struct GroupScale {
    int scale, offset;
};
inline GroupScale group_scale(const unsigned char* s, int k) {
    if (k < 4) return {s[k] & 63, s[k + 4] & 63};
    return {(s[k + 4] & 15) | (s[k - 4] >> 6) << 4, (s[k + 4] >> 4) | (s[k] >> 6) << 4};
}

// `count` weights, a whole number of blocks, as Float32.
void unpack(WeightType type, const unsigned char* blocks, Index count, float* out);

}  // namespace causeway::model
