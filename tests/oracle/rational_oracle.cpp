#include "tests/oracle/rational_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace apscope::oracle {
namespace {

constexpr int unit_exponent = -149;

bool odd(std::uint64_t code) { return (code & 1) != 0; }

}  // namespace

Magnitude to_magnitude(float x) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(static_cast<double>(x)), &exponent);
    const auto significand = static_cast<std::uint64_t>(std::ldexp(fraction, 24));
    if (significand == 0) return 0;
    const int shift = exponent - 24 - unit_exponent;
    return shift >= 0 ? Magnitude(significand) << shift : Magnitude(significand >> -shift);
}

float to_float(const Magnitude& magnitude) {
    if (magnitude == 0) return 0.0f;
    const int top = static_cast<int>(msb(magnitude));
    const int shift = std::max(top - 23, 0);
    const auto significand = static_cast<std::uint64_t>(magnitude >> shift);
    if (Magnitude(significand) << shift != magnitude || top + unit_exponent > 127)
        throw std::logic_error("the format holds a value that fp32 does not");
    return static_cast<float>(std::ldexp(static_cast<double>(significand), shift + unit_exponent));
}

RationalOracle::RationalOracle(const FloatFormat& format, const Projection& projection)
    : format_(format), projection_(projection) {
    validate(projection, format);
    const int field = std::max(129 + format.bias, 1);
    last_code_ = static_cast<std::uint64_t>(field) << format.mantissa_bits;
}

Magnitude RationalOracle::value(std::uint64_t code) const {
    const int m = format_.mantissa_bits;
    const auto field = static_cast<std::int64_t>(code >> m);
    std::uint64_t significand = code - (static_cast<std::uint64_t>(field) << m);
    std::int64_t exponent = format_.subnormal_exponent;
    if (code == 0 && format_.zero != Zero::none) return 0;
    if (field > 0 || !format_.subnormals) {
        significand += std::uint64_t{1} << m;
        exponent = field - format_.bias;
    }
    const std::int64_t shift = exponent - m - unit_exponent;
    if (shift < 0) {
        if ((significand >> -shift) << -shift != significand)
            throw std::logic_error("the format holds a value that fp32 does not");
        return significand >> -shift;
    }
    return Magnitude(significand) << static_cast<unsigned>(shift);
}

RationalOracle::Neighbours RationalOracle::neighbours(float x) const {
    const Magnitude magnitude = to_magnitude(x);
    Neighbours result;
    Magnitude lowest = value(0);
    if (magnitude < lowest) {
        result.upper = lowest;
        result.below_the_lowest = true;
        return result;
    }
    std::uint64_t below = 0, above = last_code_;  // value(below) <= magnitude < value(above)
    while (above - below > 1) {
        const std::uint64_t middle = below + (above - below) / 2;
        (value(middle) <= magnitude ? below : above) = middle;
    }
    result.lower = value(below);
    result.upper = value(above);
    result.lower_code = below;
    return result;
}

float RationalOracle::out_of_range(bool negative, bool infinite_input) const {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    const bool below_zero = negative && !format_.is_signed;
    const float bound = below_zero ? to_float(value(0))
                        : negative ? -to_float(value(format_.top_finite_code()))
                                   : to_float(value(format_.top_finite_code()));
    if (projection_.overflow == Overflow::saturate) return bound;
    if (projection_.overflow == Overflow::nan) return nan;

    // The bound is on the way of the rounding: above a negative number, below a positive one.
    bool bound_is_next = false;
    if (projection_.overflow == Overflow::ieee && !infinite_input) {
        switch (projection_.rounding) {
            case RoundingMode::toward_zero:
            case RoundingMode::to_odd: bound_is_next = true; break;
            case RoundingMode::toward_positive: bound_is_next = negative; break;
            case RoundingMode::toward_negative: bound_is_next = !negative; break;
            default: break;
        }
    }
    if (bound_is_next) return bound;
    if (!below_zero && format_.has_infinity) return negative ? -infinity : infinity;
    return format_.has_nan() ? nan : bound;
}

float RationalOracle::project(float x, std::uint64_t random) const {
    if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
    const bool negative = std::signbit(x);
    if (std::isinf(x)) return out_of_range(negative, true);

    // Without a zero, 0 has no counterpart and everything negative lies below the lowest value.
    const bool zeroless = format_.zero == Zero::none;
    if (zeroless && x == 0) {
        const bool nan = format_.has_nan() && projection_.overflow != Overflow::saturate;
        return nan ? std::numeric_limits<float>::quiet_NaN() : to_float(value(0));
    }
    if (zeroless && negative) return out_of_range(true, false);

    const Neighbours n = neighbours(x);
    const Magnitude magnitude = to_magnitude(x);
    const Magnitude to_lower = magnitude - n.lower, to_upper = n.upper - magnitude;

    // The significand's last bit is the code's, but for precision 1, where every significand is 1
    // (odd) unless the format counts codes.
    bool lower_odd = odd(n.lower_code);
    if (format_.mantissa_bits == 0 && !format_.even_code_ties) lower_odd = n.lower != 0;
    if (n.below_the_lowest) lower_odd = false;

    bool upper = false;
    switch (projection_.rounding) {
        case RoundingMode::ties_to_even:
            upper = to_upper < to_lower || (to_upper == to_lower && lower_odd);
            break;
        case RoundingMode::ties_to_away: upper = to_upper <= to_lower; break;
        case RoundingMode::toward_zero: break;
        case RoundingMode::toward_positive: upper = to_lower != 0 && !negative; break;
        case RoundingMode::toward_negative: upper = to_lower != 0 && negative; break;
        case RoundingMode::to_odd: upper = to_lower != 0 && !lower_odd; break;
        case RoundingMode::stochastic: {
            const auto bits = static_cast<unsigned>(projection_.random_bits);
            const Magnitude ones = Magnitude(1) << bits;
            const Magnitude eta = (to_lower << bits) / (to_lower + to_upper);
            upper = eta + (random >> (64 - bits)) >= ones;
            break;
        }
    }
    const Magnitude rounded = upper ? n.upper : n.lower;
    if (rounded == 0) {
        if (zeroless) return to_float(value(0));
        return negative && format_.zero == Zero::both_signs ? -0.0f : 0.0f;
    }
    const bool in_range = !(negative && !format_.is_signed) && rounded <= value(format_.top_finite_code());
    if (!in_range) return out_of_range(negative, false);
    return negative ? -to_float(rounded) : to_float(rounded);
}

float RationalOracle::decode(std::uint64_t code) const {
    const std::uint64_t count = std::uint64_t{1} << (format_.exponent_bits + format_.mantissa_bits);
    const bool negative = code >= count;
    const std::uint64_t magnitude_code = code % count;
    if (negative && magnitude_code == 0 && format_.zero != Zero::none) {
        if (format_.nan_at_negative_zero) return std::numeric_limits<float>::quiet_NaN();
        return format_.zero == Zero::both_signs ? -0.0f : 0.0f;
    }
    if (magnitude_code >= count - format_.nan_codes) return std::numeric_limits<float>::quiet_NaN();
    float result = std::numeric_limits<float>::infinity();
    if (!(format_.has_infinity && magnitude_code == count - format_.nan_codes - 1))
        result = to_float(value(magnitude_code));
    return negative ? -result : result;
}

}  // namespace apscope::oracle
