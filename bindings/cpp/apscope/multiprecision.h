// Boost.Multiprecision in and out: the exact value of a code as a rational number, and rationals, integers and binary
// floating-point numbers of any precision rounded into a format, once.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <boost/multiprecision/number.hpp>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "quantizer.h"

namespace apscope {

/// @addtogroup multiprecision Boost.Multiprecision
/// @{

/// The exact value of a code.
/// @throws std::invalid_argument  The code is an infinity or a NaN, or wider than the format.
inline boost::multiprecision::cpp_rational exact_value(const FloatFormat& format, std::uint64_t code) {
    const double value = Quantizer(format).decode(code);  // every value of a format is an fp64 number
    if (!std::isfinite(value)) {
        throw std::invalid_argument("code " + std::to_string(code) + " of " + format.name() + " is " + (std::isnan(value) ? "NaN" : "an infinity") +
                                    ", which has no value");
    }
    return boost::multiprecision::cpp_rational(value);
}

namespace detail {

// The 124 leading bits of numerator / denominator, both positive, and whether there is more.
inline ExactNumber leading_bits(const boost::multiprecision::cpp_int& numerator, const boost::multiprecision::cpp_int& denominator) {
    using boost::multiprecision::cpp_int;
    const long shift = 124 + static_cast<long>(msb(denominator)) - static_cast<long>(msb(numerator));  // a quotient of 124 or 125 bits
    cpp_int quotient, rest;
    divide_qr(shift > 0 ? cpp_int(numerator << shift) : numerator, shift < 0 ? cpp_int(denominator << -shift) : denominator, quotient, rest);
    ExactNumber x;
    x.low = static_cast<std::uint64_t>(cpp_int(quotient & ~std::uint64_t{0}));
    x.high = static_cast<std::uint64_t>(cpp_int(quotient >> 64));
    x.exponent = -shift;
    x.inexact = rest != 0;
    return x;
}

inline ExactNumber exact_number(const boost::multiprecision::cpp_rational& value) {
    if (value == 0) return {};
    ExactNumber x = leading_bits(abs(boost::multiprecision::numerator(value)), boost::multiprecision::denominator(value));
    x.negative = value < 0;
    return x;
}
inline ExactNumber exact_number(const boost::multiprecision::cpp_int& value) {
    if (value == 0) return {};
    ExactNumber x = leading_bits(abs(value), 1);
    x.negative = value < 0;
    return x;
}

// A finite binary floating-point number, 62 bits at a time: every step is exact in its own precision.
template <class Float>
ExactNumber exact_number_of_float(const Float& value) {
    using std::frexp;
    using std::ldexp;
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

/// A number of Boost.Multiprecision as the format holds it: one rounding of the exact number, never through fp64.
///
/// @param value    cpp_rational, cpp_int, or a binary floating-point number: cpp_bin_float of any precision, mpfr_float.
/// @param q        The format and how to round to it; not stochastic_exact, which asks for all digits.
/// @param element  Which word of the stream stochastic rounding draws.
/// @return         The result, which is an fp64 number.
/// @throws std::invalid_argument  The rounding is stochastic_exact.
inline double round(const boost::multiprecision::cpp_rational& value, const Quantizer& q, std::uint64_t element = 0) {
    return q(detail::exact_number(value), element);
}
inline double round(const boost::multiprecision::cpp_int& value, const Quantizer& q, std::uint64_t element = 0) {
    return q(detail::exact_number(value), element);
}
template <class Backend, boost::multiprecision::expression_template_option Option>
    requires(boost::multiprecision::number_category<Backend>::value == boost::multiprecision::number_kind_floating_point)
double round(const boost::multiprecision::number<Backend, Option>& value, const Quantizer& q, std::uint64_t element = 0) {
    using Float = boost::multiprecision::number<Backend, Option>;
    static_assert(std::numeric_limits<Float>::radix == 2 || std::numeric_limits<Float>::radix == 0,
                  "decimal numbers are no binary ones: give a cpp_rational");
    if (isnan(value)) return q(std::numeric_limits<double>::quiet_NaN(), element);
    if (isinf(value)) return q(signbit(value) != 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity(), element);
    return q(detail::exact_number_of_float(value), element);
}

/// The same with a format and a projection; of stochastic rounding word 0 of seed 0.
template <class Backend, boost::multiprecision::expression_template_option Option>
double round(const boost::multiprecision::number<Backend, Option>& value, const FloatFormat& format, const Projection& projection = {}) {
    return round(value, Quantizer(format, projection));
}

/// @}

}  // namespace apscope
