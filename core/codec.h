// Conversion between the values of a format and their codes (bit patterns). encode_one() takes a
// value of the format, so callers round first; decode_one() takes any code that is not wider than
// the format.
#pragma once

#include <cstdint>

#include "core/float_format.h"
#include "core/rounding.h"

namespace apscope::detail {

// The constants of a format for encoding from and decoding to Real.
template <class Real>
struct BasicCodec {
    using Bits = BitsOf<Real>;
    int mantissa_bits, exponent_bits, bias;
    int subnormal_exponent;  // exponent of field 0, if `subnormals`
    bool subnormals, is_signed, code_zero_is_zero;
    Bits sign_code;                // the sign bit of a code; 0 if unsigned
    Bits top_finite;               // magnitude code of the largest finite value
    Bits infinity_code, nan_code;  // unspecified if the format has no such code
    bool has_infinity, has_nan, nan_at_negative_zero;
    bool has_negative_zero;  // false: the code of -0 is NaN or a second code of 0
    bool nan_has_sign;       // every NaN code exists with either sign
    bool nan_has_payload;    // all significands but 0 of the top exponent field are NaN (IEEE 754)
    bool keep_payload;       // decode_one() preserves the sign and payload of a NaN code
};
using Codec = BasicCodec<float>;

// Derives the constants. Real must be able to represent every value of the format.
template <class Real = float>
BasicCodec<Real> make_codec(const FloatFormat& format);

// `value` must be a value of the format. It must not be infinite if the format has no infinity. If
// the format has no NaN, a NaN gives codec.nan_code, which the caller must have set.
template <class Real>
APSCOPE_HD BitsOf<Real> encode_one(Real value, const BasicCodec<Real>& codec) {
    using Bits = BitsOf<Real>;
    using L = Layout<Real>;
    constexpr Bits one = 1, fraction_mask = (one << L::fraction_bits) - 1;
    const Bits bits = bits_cast<Bits>(value);
    const Bits magnitude = bits & ~sign_bit<Real>;
    const Bits sign = (bits & sign_bit<Real>) != 0 ? codec.sign_code : 0;
    const Bits fraction = magnitude & fraction_mask;
    if (magnitude > infinity_bits<Real>) {
        // The code takes the leading bits of the payload; the quiet bit alone is the canonical NaN.
        const Bits code =
            codec.nan_has_payload
                ? codec.infinity_code + (fraction >> (L::fraction_bits - codec.mantissa_bits))
                : codec.nan_code;
        return codec.nan_has_sign ? code | sign : code;
    }
    if (magnitude == infinity_bits<Real>) return codec.infinity_code | sign;
    if (magnitude == 0) return sign;
    const int exponent = exponent_of<Real>(magnitude);
    // The significand is aligned: its leading one is at bit fraction_bits, also for subnormals of
    // Real.
    const Bits significand = magnitude > fraction_mask ? fraction | one << L::fraction_bits
                                                       : fraction << (1 - L::bias - exponent);
    const int field = exponent + codec.bias;
    if (codec.subnormals && field < 1) {
        return sign | significand >> (L::fraction_bits - codec.mantissa_bits +
                                      codec.subnormal_exponent - exponent);
    }
    return sign | static_cast<Bits>(field) << codec.mantissa_bits |
           (significand & fraction_mask) >> (L::fraction_bits - codec.mantissa_bits);
}

template <class Real>
APSCOPE_HD Real decode_one(BitsOf<Real> code, const BasicCodec<Real>& codec) {
    using Bits = BitsOf<Real>;
    using L = Layout<Real>;
    const bool negative = (code & codec.sign_code) != 0;
    const Bits magnitude = code & ~codec.sign_code;
    const Real nan = bits_cast<Real>(nan_bits<Real>);
    if (negative && magnitude == 0 && !codec.has_negative_zero)
        return codec.nan_at_negative_zero ? nan : Real{0};
    if (magnitude > codec.top_finite) {
        if (codec.has_infinity && magnitude == codec.infinity_code)
            return bits_cast<Real>(infinity_bits<Real> | (negative ? sign_bit<Real> : 0));
        if (!codec.keep_payload || !codec.nan_has_sign) return nan;
        const Bits payload = codec.nan_has_payload ? (magnitude - codec.infinity_code)
                                                         << (L::fraction_bits - codec.mantissa_bits)
                                                   : 0;
        return bits_cast<Real>(nan_bits<Real> | payload | (negative ? sign_bit<Real> : 0));
    }
    const Bits field = magnitude >> codec.mantissa_bits;
    const Bits fraction = magnitude & ((Bits{1} << codec.mantissa_bits) - 1);
    const bool subnormal = field == 0 && codec.subnormals;
    Bits significand = subnormal ? fraction : fraction | Bits{1} << codec.mantissa_bits;
    int unit = (subnormal ? codec.subnormal_exponent : static_cast<int>(field) - codec.bias) -
               codec.mantissa_bits;
    if (magnitude == 0 && codec.code_zero_is_zero) significand = 0;
    // The value is significand * 2^unit. Both factors are exact in fp64; 2^unit is built from its
    // exponent field.
    double value = static_cast<double>(significand);
    if constexpr (std::is_same_v<Real, double>) {
        constexpr int least = -1022;  // 2^unit may be subnormal, so it is applied in two steps
        const int below = unit < least ? unit - least : 0;
        unit -= below;
        value *= bits_cast<double>(static_cast<std::uint64_t>(below + 1023) << 52);
    }
    value *= bits_cast<double>(static_cast<std::uint64_t>(unit + 1023) << 52);
    const Real result = static_cast<Real>(value);
    return negative ? -result : result;
}

}  // namespace apscope::detail
