#include "core/codec.h"

namespace apscope::detail {

template <class Real>
BasicCodec<Real> make_codec(const FloatFormat& f) {
    using Bits = BitsOf<Real>;
    BasicCodec<Real> c{};
    c.mantissa_bits = f.mantissa_bits;
    c.exponent_bits = f.exponent_bits;
    c.bias = f.bias;
    c.subnormal_exponent = f.subnormal_exponent;
    c.subnormals = f.subnormals;
    c.is_signed = f.is_signed;
    c.code_zero_is_zero = f.zero != Zero::none;
    c.sign_code = f.is_signed ? static_cast<Bits>(f.magnitude_codes()) : 0;
    c.top_finite = static_cast<Bits>(f.top_finite_code());
    c.has_infinity = f.has_infinity;
    c.has_nan = f.has_nan();
    c.nan_at_negative_zero = f.nan_at_negative_zero;
    c.has_negative_zero = f.zero == Zero::both_signs;
    c.nan_has_sign = f.is_signed && f.nan_codes > 0 && !f.nan_at_negative_zero;
    c.nan_has_payload =
        c.nan_has_sign && f.has_infinity && f.nan_codes + 1 == std::uint64_t{1} << f.mantissa_bits;
    c.infinity_code = f.has_infinity ? static_cast<Bits>(f.infinity_code()) : 0;
    c.nan_code = f.has_nan() ? static_cast<Bits>(f.nan_code()) : 0;
    return c;
}

template BasicCodec<float> make_codec<float>(const FloatFormat&);
template BasicCodec<double> make_codec<double>(const FloatFormat&);

}  // namespace apscope::detail
