#include "core/model/quantised.hpp"

namespace causeway::model {
namespace {

struct TypeFacts {
    const char* name;
    Index weights, bytes;
};

// In the order of WeightType.
constexpr TypeFacts facts[] = {{"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},
                               {"Q8_0", 32, 34},   {"Q4_0", 32, 18},   {"Q4_1", 32, 20},
                               {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210}};

const TypeFacts& facts_of(WeightType t) { return facts[static_cast<int>(t)]; }

void unpack_f16(const unsigned char* p, Index count, float* out) {
    for (Index i = 0; i < count; ++i) out[i] = half_at(p + 2 * i);
}

void unpack_bf16(const unsigned char* p, Index count, float* out) {
    for (Index i = 0; i < count; ++i) {
        std::uint16_t high;
        std::memcpy(&high, p + 2 * i, sizeof high);
        const std::uint32_t bits = std::uint32_t{high} << 16;
        std::memcpy(out + i, &bits, sizeof bits);
    }
}

// One block each.

void unpack_q8_0(const unsigned char* p, float* out) {
    const float d = half_at(p);
    for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(static_cast<signed char>(p[2 + j]));
}

void unpack_q4_0(const unsigned char* p, float* out) {
    const float d = half_at(p);
    for (int j = 0; j < 16; ++j) {
        out[j] = d * static_cast<float>((p[2 + j] & 15) - 8);
        out[j + 16] = d * static_cast<float>((p[2 + j] >> 4) - 8);
    }
}

void unpack_q4_1(const unsigned char* p, float* out) {
    const float d = half_at(p), m = half_at(p + 2);
    for (int j = 0; j < 16; ++j) {
        out[j] = d * static_cast<float>(p[4 + j] & 15) + m;
        out[j + 16] = d * static_cast<float>(p[4 + j] >> 4) + m;
    }
}

// Q4_K, and with the fifth bits Q5_K.
template <bool fifth>
void unpack_q45_k(const unsigned char* p, float* out) {
    const float d = half_at(p), m = half_at(p + 2);
    const GroupScales groups = group_scales(p + 4);
    const unsigned char *high = p + 16, *q = fifth ? p + 48 : p + 16;
    for (int k = 0; k < 8; ++k) {
        const float scale = d * static_cast<float>(groups.scales[k]),
                    offset = m * static_cast<float>(groups.offsets[k]);
        const unsigned char* bytes = q + 32 * (k / 2);
        for (int j = 0; j < 32; ++j) {
            int value = k % 2 ? bytes[j] >> 4 : bytes[j] & 15;
            if (fifth) value |= (high[j] >> k & 1) << 4;
            out[32 * k + j] = scale * static_cast<float>(value) - offset;
        }
    }
}

void unpack_q6_k(const unsigned char* p, float* out) {
    const float d = half_at(p + 208);
    for (int part = 0; part < 8; ++part) {
        // Four parts of 32 weights share 64 low and 32 high bytes.
        const int at = part % 4;
        const unsigned char *low = p + 64 * (part / 4) + 32 * (at % 2), *high = p + 128 + 32 * (part / 4);
        for (int j = 0; j < 32; ++j) {
            const int value = (at < 2 ? low[j] & 15 : low[j] >> 4) | (high[j] >> 2 * at & 3) << 4;
            const auto scale = static_cast<signed char>(p[192 + 2 * part + j / 16]);
            out[32 * part + j] = d * static_cast<float>(scale) * static_cast<float>(value - 32);
        }
    }
}

template <void one(const unsigned char*, float*)>
void unpack_blocks(WeightType type, const unsigned char* p, Index count, float* out) {
    const Index weights = weights_in_block(type), bytes = bytes_of_block(type);
    for (Index i = 0; i < count / weights; ++i) one(p + i * bytes, out + i * weights);
}

}  // namespace

const char* name(WeightType t) noexcept { return facts_of(t).name; }
Index weights_in_block(WeightType t) noexcept { return facts_of(t).weights; }
Index bytes_of_block(WeightType t) noexcept { return facts_of(t).bytes; }

void unpack(WeightType type, const unsigned char* p, Index count, float* out) {
    switch (type) {
        case WeightType::f32:
            if (count > 0) std::memcpy(out, p, static_cast<std::size_t>(count) * sizeof(float));
            return;
        case WeightType::f16: return unpack_f16(p, count, out);
        case WeightType::bf16: return unpack_bf16(p, count, out);
        case WeightType::q8_0: return unpack_blocks<unpack_q8_0>(type, p, count, out);
        case WeightType::q4_0: return unpack_blocks<unpack_q4_0>(type, p, count, out);
        case WeightType::q4_1: return unpack_blocks<unpack_q4_1>(type, p, count, out);
        case WeightType::q4_k: return unpack_blocks<unpack_q45_k<false>>(type, p, count, out);
        case WeightType::q5_k: return unpack_blocks<unpack_q45_k<true>>(type, p, count, out);
        case WeightType::q6_k: return unpack_blocks<unpack_q6_k>(type, p, count, out);
    }
}

}  // namespace causeway::model
