// Codes: the bit pattern of a value of a format, and back. encode_one() takes a value that the
// format holds (round first); decode_one() takes any code, reserved high bits zero.
#pragma once

#include <cstdint>

#include "core/float_format.h"
#include "core/rounding.h"

namespace apscope {

// A format, made ready for coding.
struct Codec {
    int mantissa_bits, exponent_bits, bias;
    int subnormal_exponent;      // of exponent field 0
    bool subnormals, is_signed, code_zero_is_zero;
    std::uint32_t sign_code;     // the sign bit's place, 0 if unsigned
    std::uint32_t top_finite;    // magnitude code of the largest finite value
    std::uint32_t infinity_code, nan_code;  // meaningless where absent
    bool has_infinity, has_nan, nan_at_negative_zero;
    bool has_negative_zero;      // otherwise the code of -0 is NaN or a second code of 0
};

Codec make_codec(const FloatFormat& format);

// `value` must be a value of the format, an infinity only if the format has one, and NaN only if
// it has one (nan_code of `codec` is written otherwise: callers put the caller's choice there).
APSCOPE_HD std::uint32_t encode_one(float value, const Codec& codec) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFF;
    const std::uint32_t sign = bits >> 31 ? codec.sign_code : 0;
    if (magnitude > 0x7F800000) return codec.nan_code;
    if (magnitude == 0x7F800000) return codec.infinity_code | sign;
    if (magnitude == 0) return sign;
    const int exponent = exponent_of<float>(magnitude);
    const std::uint32_t fraction = magnitude & 0x7FFFFF;
    // Left-aligned to 24 bits with the leading one at bit 23, for fp32 subnormals too.
    const std::uint32_t significand = magnitude >= 0x800000 ? fraction | 0x800000 : fraction << (-126 - exponent);
    const int field = exponent + codec.bias;
    if (codec.subnormals && field < 1) {
        return sign | significand >> (23 - codec.mantissa_bits + codec.subnormal_exponent - exponent);
    }
    return sign | static_cast<std::uint32_t>(field) << codec.mantissa_bits |
           (significand & 0x7FFFFF) >> (23 - codec.mantissa_bits);
}

APSCOPE_HD float decode_one(std::uint32_t code, const Codec& codec) {
    const bool negative = (code & codec.sign_code) != 0;
    const std::uint32_t magnitude = code & ~codec.sign_code;
    const float nan = bits_cast<float>(nan_bits<float>);
    if (negative && magnitude == 0 && !codec.has_negative_zero) return codec.nan_at_negative_zero ? nan : 0.0f;
    if (magnitude > codec.top_finite) {
        if (!codec.has_infinity || magnitude != codec.infinity_code) return nan;
        return bits_cast<float>(infinity_bits<float> | (negative ? 0x80000000u : 0));
    }
    const std::uint32_t field = magnitude >> codec.mantissa_bits;
    const std::uint32_t fraction = magnitude & ((1u << codec.mantissa_bits) - 1);
    const bool subnormal = field == 0 && codec.subnormals;
    std::uint32_t significand = subnormal ? fraction : fraction | 1u << codec.mantissa_bits;
    int unit = (subnormal ? codec.subnormal_exponent : static_cast<int>(field) - codec.bias) - codec.mantissa_bits;
    if (magnitude == 0 && codec.code_zero_is_zero) significand = 0;
    // significand * 2^unit, both exact in fp64; 2^unit by its exponent field.
    const double scale = bits_cast<double>(static_cast<std::uint64_t>(unit + 1023) << 52);
    const float value = static_cast<float>(static_cast<double>(significand) * scale);
    return negative ? -value : value;
}

}  // namespace apscope
