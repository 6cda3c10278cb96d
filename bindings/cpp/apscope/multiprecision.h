// Conversions from and to Boost.Multiprecision: the exact value of a code as a rational number, and
// rationals, integers and binary floating-point numbers of any precision, rounded once to a format.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <boost/multiprecision/number.hpp>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "error.h"
#include "quantizer.h"

namespace apscope {

/// @addtogroup multiprecision Boost.Multiprecision
/// @{

/// The exact value of a code.
/// @throws std::invalid_argument  The code is an infinity or a NaN, or wider than the format.
inline boost::multiprecision::cpp_rational exact_value(const FloatFormat& format,
                                                       std::uint64_t code) {
    const double value =
        Quantizer(format).decode(code);  // every value of a format is an fp64 number
    if (!std::isfinite(value)) {
        throw error("code " + std::to_string(code) + " of " + format.name() + " is " +
                    (std::isnan(value) ? "NaN" : "an infinity") + ", which has no value");
    }
    return boost::multiprecision::cpp_rational(value);
}

namespace detail {

// The leading 124 or 125 bits of numerator / denominator, both positive, and a flag that is set if
// the quotient has further bits.
inline ExactNumber leading_bits(const boost::multiprecision::cpp_int& numerator,
                                const boost::multiprecision::cpp_int& denominator) {
    using boost::multiprecision::cpp_int;
    const long shift = 124 + static_cast<long>(msb(denominator)) -
                       static_cast<long>(msb(numerator));  // a quotient of 124 or 125 bits
    cpp_int quotient, rest;
    divide_qr(shift > 0 ? cpp_int(numerator << shift) : numerator,
              shift < 0 ? cpp_int(denominator << -shift) : denominator, quotient, rest);
    ExactNumber x;
    x.low = static_cast<std::uint64_t>(cpp_int(quotient & ~std::uint64_t{0}));
    x.high = static_cast<std::uint64_t>(cpp_int(quotient >> 64));
    x.exponent = -shift;
    x.inexact = rest != 0;
    return x;
}

template <class Backend, boost::multiprecision::number_category_type Kind>
concept OfKind = boost::multiprecision::number_category<Backend>::value == Kind;

template <OfKind<boost::multiprecision::number_kind_integer> Backend,
          boost::multiprecision::expression_template_option Option>
ExactNumber exact_number(const boost::multiprecision::number<Backend, Option>& value) {
    if (value == 0) return {};
    ExactNumber x = leading_bits(abs(boost::multiprecision::cpp_int(value)), 1);
    x.negative = value < 0;
    return x;
}
template <OfKind<boost::multiprecision::number_kind_rational> Backend,
          boost::multiprecision::expression_template_option Option>
ExactNumber exact_number(const boost::multiprecision::number<Backend, Option>& value) {
    using boost::multiprecision::cpp_int;
    if (value == 0) return {};
    ExactNumber x = leading_bits(abs(cpp_int(numerator(value))), cpp_int(denominator(value)));
    x.negative = value < 0;
    return x;
}

// Takes the leading bits of a finite binary number, 62 bits at a time; every operation is exact in
// the number's precision.
template <OfKind<boost::multiprecision::number_kind_floating_point> Backend,
          boost::multiprecision::expression_template_option Option>
ExactNumber exact_number(const boost::multiprecision::number<Backend, Option>& value) {
    using std::frexp;
    using std::ldexp;
    using Float = boost::multiprecision::number<Backend, Option>;
    ExactNumber x;
    x.negative = signbit(value) != 0;
    if (value == 0) return x;
    Float rest = value;
    if (x.negative) rest.backend().negate();
    int exponent = 0;
    rest = frexp(rest, &exponent);
    const auto take = [&] {
        rest = ldexp(rest, 62);
        const auto digits = rest.template convert_to<std::uint64_t>();  // towards zero
        rest -= digits;
        return digits;
    };
    const std::uint64_t first = take(), second = take();
    x.high = first >> 2;
    x.low = first << 62 | second;
    x.exponent = exponent - 124L;
    x.inexact = rest != 0;
    return x;
}

}  // namespace detail

/// A Boost.Multiprecision number in the format: one rounding of the exact number, never through
/// fp64.
///
/// @param value    An integer (cpp_int, int128_t, mpz_int), a rational number (cpp_rational,
///                 mpq_rational), or a binary floating-point number of any precision
///                 (cpp_bin_float, mpfr_float, mpf_float).
/// @param q        The format and the rounding; not stochastic_exact, which needs all digits.
/// @param element  Index of the word of the stream for stochastic rounding.
/// @return         The result, which is an fp64 number.
/// @throws std::invalid_argument  The rounding is stochastic_exact.
template <class Backend, boost::multiprecision::expression_template_option Option>
double round(const boost::multiprecision::number<Backend, Option>& value, const Quantizer& q,
             std::uint64_t element = 0) {
    if constexpr (detail::OfKind<Backend, boost::multiprecision::number_kind_floating_point>) {
        constexpr int radix =
            std::numeric_limits<boost::multiprecision::number<Backend, Option>>::radix;
        static_assert(radix == 2 || radix == 0,
                      "decimal numbers are not binary ones: give a cpp_rational");
        if (isnan(value)) return q(std::numeric_limits<double>::quiet_NaN(), element);
        if (isinf(value))
            return q(value < 0 ? -std::numeric_limits<double>::infinity()
                               : std::numeric_limits<double>::infinity(),
                     element);
    }
    return q(detail::exact_number(value), element);
}
/// Rounds an expression, such as a / b, which Boost first evaluates to its type and precision.
template <class Tag, class A, class B, class C, class D>
double round(const boost::multiprecision::detail::expression<Tag, A, B, C, D>& value,
             const Quantizer& q, std::uint64_t element = 0) {
    return round(
        typename boost::multiprecision::detail::expression<Tag, A, B, C, D>::result_type(value), q,
        element);
}

/// Rounds a number to a format; stochastic rounding uses word 0 of seed 0.
template <class Backend, boost::multiprecision::expression_template_option Option>
double round(const boost::multiprecision::number<Backend, Option>& value, const FloatFormat& format,
             const Projection& projection = {}) {
    return round(value, Quantizer(format, projection));
}
template <class Tag, class A, class B, class C, class D>
double round(const boost::multiprecision::detail::expression<Tag, A, B, C, D>& value,
             const FloatFormat& format, const Projection& projection = {}) {
    return round(value, Quantizer(format, projection));
}

/// @}

}  // namespace apscope
