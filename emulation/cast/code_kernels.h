// Loops that convert between fp32 values and codes, as vector code, for formats with subnormal
// numbers whose exponent range is inside fp32's range or has the same lower end:
//
//      value     sign | exponent, bias 127 | fraction, 23 bits
//      code      sign | exponent, bias b   | fraction, m bits
//
//      code = (bits >> s) - (127 - b) 2^m      s = 23 - m
//
// Below 2^emin a code is the number of quanta, which are the leading fraction bits of |x| + 2^emin.
// From 2^emin on, half of that sum is less than |x|. So the greater of |x| and that half, as bits,
// is shifted in both cases. core/codec.h converts element by element, for every format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/codec.h"
#include "emulation/cast/quantize_buffers.h"

namespace apscope::detail {

struct CodeMap {
    int shift;             // s = 23 - m
    std::uint32_t offset;  // (127 - b) 2^m
    // Bits of 2^emin; 0 if the lower end of the format is fp32's.
    std::uint32_t first_normal;
    std::uint32_t normal_code;  // 2^m, the code of 2^emin
    // smallest_normal: 2^emin, 0 if first_normal is 0.
    // quantum: 2^(emin - m), 1 if first_normal is 0.
    float smallest_normal, quantum;
    // Codes as in BasicCodec (core/codec.h); nan_sign is sign_code if NaNs have a sign, else 0.
    std::uint32_t sign_code, nan_code, nan_sign, top_finite;
    std::uint32_t infinity_code;  // nan_code if the format has no infinity
    bool has_infinity;
    std::uint32_t negative_zero;  // bits of the value of the code sign_code: -0, NaN or 0
};

// The format must be one that make_code_plan() (cast_plan.h) accepts.
inline CodeMap make_code_map(const FloatFormat& f) {
    const Codec c = make_codec<float>(f);
    CodeMap m{};
    m.shift = 23 - f.mantissa_bits;
    m.offset = static_cast<std::uint32_t>(127 - f.bias) << f.mantissa_bits;
    m.normal_code = std::uint32_t{1} << f.mantissa_bits;
    m.quantum = 1.0f;
    if (f.subnormal_exponent > -126) {
        m.first_normal = static_cast<std::uint32_t>(f.subnormal_exponent + 127) << 23;
        m.smallest_normal = bits_cast<float>(m.first_normal);
        m.quantum = bits_cast<float>(
            static_cast<std::uint32_t>(f.subnormal_exponent - f.mantissa_bits + 127) << 23);
    }
    m.sign_code = c.sign_code;
    m.infinity_code = c.has_infinity ? c.infinity_code : c.nan_code;
    m.has_infinity = c.has_infinity;
    m.nan_code = c.nan_code;
    m.nan_sign = c.nan_has_sign ? c.sign_code : 0;
    m.top_finite = c.top_finite;
    m.negative_zero = c.has_negative_zero      ? 0x80000000u
                      : c.nan_at_negative_zero ? nan_bits<float>
                                               : 0u;
    return m;
}

// The code of a finite magnitude of the format, given as bits.
APSCOPE_HD std::uint32_t magnitude_code(std::uint32_t magnitude, const CodeMap& m) {
    const float value = bits_cast<float>(magnitude);
    const float from_zero =
        bits_cast<float>(bits_cast<std::uint32_t>(value + m.smallest_normal) - (1u << 23));
    const float greater = from_zero > value ? from_zero : value;
    return (bits_cast<std::uint32_t>(greater) >> m.shift) - m.offset;
}

// The code of a finite value of the format, from its bits.
APSCOPE_HD std::uint32_t finite_code(std::uint32_t bits, const CodeMap& m) {
    const std::uint32_t negative =
        static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31);
    return magnitude_code(bits & 0x7FFFFFFFu, m) | (negative & m.sign_code);
}

// The code of any value of the format, an infinity or a NaN. Infinities become nan_code if the
// format has no infinity.
APSCOPE_HD std::uint32_t value_code(std::uint32_t bits, const CodeMap& m) {
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    const std::uint32_t sign =
        static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31) & m.sign_code;
    std::uint32_t code = magnitude_code(magnitude, m);
    code = select(magnitude == 0x7F800000u, m.infinity_code, code) | sign;
    return select(magnitude > 0x7F800000u, m.nan_code | (sign & m.nan_sign), code);
}

// Writes codes, one buffer at a time: fill(in, codes, n) computes codes of 32 bits, which are then
// converted to Code. If one loop did both, g++ would use narrow vectors for both.
template <class Code, class Fill>
APSCOPE_INLINE void write_codes(const float* in, Code* out, std::size_t count, Fill&& fill) {
    std::uint32_t codes[buffer_elements];
    for (std::size_t begin = 0; begin < count; begin += buffer_elements) {
        const std::size_t n = count - begin < buffer_elements ? count - begin : buffer_elements;
        fill(in + begin, static_cast<std::uint32_t*>(codes), n);
        for (std::size_t i = 0; i < n; ++i) out[begin + i] = static_cast<Code>(codes[i]);
    }
}

// Encodes values of the format.
template <class Code>
struct EncodeValues {
    static APSCOPE_INLINE void run(const float* in, Code* out, std::size_t count,
                                   const CodeMap* given) {
        const CodeMap m = *given;
        write_codes(in, out, count,
                    [&](const float* from, std::uint32_t* codes, std::size_t n)
                        __attribute__((always_inline)) {
                            for (std::size_t i = 0; i < n; ++i)
                                codes[i] = value_code(bits_cast<std::uint32_t>(from[i]), m);
                        });
    }
};

// The value of any code that is not wider than the format.
APSCOPE_HD float code_value(std::uint32_t code, const CodeMap& m) {
    const std::uint32_t sign = (code & m.sign_code) != 0 ? 0x80000000u : 0;
    const std::uint32_t magnitude = code & ~m.sign_code;
    const std::uint32_t normal = (magnitude + m.offset) << m.shift;
    const float part = static_cast<float>(static_cast<std::int32_t>(
                           select(magnitude < m.normal_code, magnitude, 0u))) *
                       m.quantum;
    std::uint32_t value = select((m.first_normal != 0) & (magnitude < m.normal_code),
                                 bits_cast<std::uint32_t>(part), normal) |
                          sign;
    value = magnitude > m.top_finite ? nan_bits<float> : value;
    value = (magnitude == m.infinity_code) & m.has_infinity ? infinity_bits<float> | sign : value;
    value = code == m.sign_code && sign != 0 ? m.negative_zero : value;
    return bits_cast<float>(value);
}

template <class Code>
struct DecodeCodes {
    static APSCOPE_INLINE void run(const Code* in, float* out, std::size_t count,
                                   const CodeMap* given) {
        const CodeMap m = *given;
        for (std::size_t i = 0; i < count; ++i) out[i] = code_value(in[i], m);
    }
};

}  // namespace apscope::detail
