#include "core/codec.h"

namespace apscope {

Codec make_codec(const FloatFormat& f) {
    Codec c{};
    c.mantissa_bits = f.mantissa_bits;
    c.exponent_bits = f.exponent_bits;
    c.bias = f.bias;
    c.subnormal_exponent = f.subnormal_exponent;
    c.subnormals = f.subnormals;
    c.is_signed = f.is_signed;
    c.code_zero_is_zero = f.zero != Zero::none;
    c.sign_code = f.is_signed ? static_cast<std::uint32_t>(f.magnitude_codes()) : 0;
    c.top_finite = static_cast<std::uint32_t>(f.top_finite_code());
    c.has_infinity = f.has_infinity;
    c.has_nan = f.has_nan();
    c.nan_at_negative_zero = f.nan_at_negative_zero;
    c.has_negative_zero = f.zero == Zero::both_signs;
    c.infinity_code = f.has_infinity ? static_cast<std::uint32_t>(f.infinity_code()) : 0;
    c.nan_code = f.has_nan() ? static_cast<std::uint32_t>(f.nan_code()) : 0;
    return c;
}

}  // namespace apscope
