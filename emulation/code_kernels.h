// The loops between fp32 values and codes, as vector code, for formats with subnormal numbers and an
// exponent range that fp32's covers, or shares at its lower end:
//
//      value     sign | exponent, bias 127 | fraction, 23 bits
//      code      sign | exponent, bias b   | fraction, m bits        code = (bits >> s) - (127 - b) 2^m
//
// Below 2^emin a code is the number of quanta. core/codec.h is the same element by element, for every format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/codec.h"
#include "emulation/simd.h"

namespace apscope {

struct CodeMap {
    int shift;                     // s = 23 - m
    std::uint32_t offset;          // (127 - b) 2^m
    std::uint32_t first_normal;    // bits of 2^emin, 0 where fp32's subnormal numbers are the format's
    std::uint32_t normal_code;     // 2^m, the code of 2^emin
    float per_quantum, quantum;
    std::uint32_t sign_code, nan_code, nan_sign, top_finite;
    std::uint32_t infinity_code;   // nan_code where the format has none
    bool has_infinity;
    std::uint32_t negative_zero;   // of the sign's code alone: -0, NaN or 0
};

inline bool code_map_serves(const FloatFormat& f) {
    const bool shared_end = f.bias == 127 && f.subnormal_exponent == -126;
    const int quantum = f.subnormal_exponent - f.mantissa_bits;
    return f.subnormals && f.subnormal_exponent == 1 - f.bias && f.zero != Zero::none && f.mantissa_bits <= 22 && f.fits_fp32() &&
           (shared_end || (quantum >= -126 && f.subnormal_exponent > -126 && quantum <= 0));
}

inline CodeMap make_code_map(const FloatFormat& f) {
    const Codec c = make_codec<float>(f);
    CodeMap m{};
    m.shift = 23 - f.mantissa_bits;
    m.offset = static_cast<std::uint32_t>(127 - f.bias) << f.mantissa_bits;
    m.normal_code = std::uint32_t{1} << f.mantissa_bits;
    m.per_quantum = m.quantum = 1.0f;
    if (f.subnormal_exponent > -126) {
        m.first_normal = static_cast<std::uint32_t>(f.subnormal_exponent + 127) << 23;
        m.per_quantum = bits_cast<float>(static_cast<std::uint32_t>(f.mantissa_bits - f.subnormal_exponent + 127) << 23);
        m.quantum = bits_cast<float>(static_cast<std::uint32_t>(f.subnormal_exponent - f.mantissa_bits + 127) << 23);
    }
    m.sign_code = c.sign_code;
    m.infinity_code = c.has_infinity ? c.infinity_code : c.nan_code;
    m.has_infinity = c.has_infinity;
    m.nan_code = c.nan_code;
    m.nan_sign = c.nan_has_sign ? c.sign_code : 0;
    m.top_finite = c.top_finite;
    m.negative_zero = c.has_negative_zero ? 0x80000000u : c.nan_at_negative_zero ? nan_bits<float> : 0u;
    return m;
}

// Values that the format holds; NaN as nan_code, infinities only where the format has them.
template <class Code>
struct EncodeValues {
    static APSCOPE_INLINE void run(const float* in, Code* out, std::size_t count, const CodeMap* given) {
        const CodeMap m = *given;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t bits = bits_cast<std::uint32_t>(in[i]), magnitude = bits & 0x7FFFFFFFu;
            const std::uint32_t sign = bits >> 31 != 0 ? m.sign_code : 0;
            const std::uint32_t part = select(magnitude < m.first_normal, magnitude, 0u);
            const auto quanta = static_cast<std::uint32_t>(static_cast<std::int32_t>(bits_cast<float>(part) * m.per_quantum));
            std::uint32_t code = select(magnitude < m.first_normal, quanta, (magnitude >> m.shift) - m.offset);
            code = magnitude == 0x7F800000u ? m.infinity_code : code;
            code = magnitude > 0x7F800000u ? m.nan_code | (sign & m.nan_sign) : code | sign;
            out[i] = static_cast<Code>(code);
        }
    }
};

// Any codes of the format's width.
template <class Code>
struct DecodeCodes {
    static APSCOPE_INLINE void run(const Code* in, float* out, std::size_t count, const CodeMap* given) {
        const CodeMap m = *given;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t code = in[i];
            const std::uint32_t sign = (code & m.sign_code) != 0 ? 0x80000000u : 0;
            const std::uint32_t magnitude = code & ~m.sign_code;
            const std::uint32_t normal = (magnitude + m.offset) << m.shift;
            const float part = static_cast<float>(static_cast<std::int32_t>(select(magnitude < m.normal_code, magnitude, 0u))) * m.quantum;
            std::uint32_t value = select((m.first_normal != 0) & (magnitude < m.normal_code), bits_cast<std::uint32_t>(part), normal) | sign;
            value = magnitude > m.top_finite ? nan_bits<float> : value;
            value = (magnitude == m.infinity_code) & m.has_infinity ? infinity_bits<float> | sign : value;
            value = code == m.sign_code && sign != 0 ? m.negative_zero : value;
            out[i] = bits_cast<float>(value);
        }
    }
};

}  // namespace apscope
