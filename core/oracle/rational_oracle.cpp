#include "core/oracle/rational_oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/oracle/decision.h"

namespace apscope::detail::oracle {
namespace {

template <class Real>
constexpr int unit_exponent = std::is_same_v<Real, float> ? -149 : -1074;
template <class Real>
constexpr int precision = std::numeric_limits<Real>::digits;
template <class Real>
constexpr int top_exponent = std::numeric_limits<Real>::max_exponent - 1;

bool odd(std::uint64_t code) { return (code & 1) != 0; }

}  // namespace

template <class Real>
Magnitude<Real> to_magnitude(Real x) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(static_cast<double>(x)), &exponent);
    const auto significand = static_cast<std::uint64_t>(std::ldexp(fraction, precision<Real>));
    if (significand == 0) return 0;
    const int shift = exponent - precision<Real> - unit_exponent<Real>;
    return shift >= 0 ? Magnitude<Real>(significand) << shift
                      : Magnitude<Real>(significand >> -shift);
}

template <class Real>
Real to_real(const Magnitude<Real>& magnitude) {
    if (magnitude == 0) return 0;
    const int top = static_cast<int>(msb(magnitude));
    const int shift = std::max(top - precision<Real> + 1, 0);
    const auto significand = static_cast<std::uint64_t>(magnitude >> shift);
    if (Magnitude<Real>(significand) << shift != magnitude ||
        top + unit_exponent<Real> > top_exponent<Real>)
        throw std::logic_error("the format holds a value that the number type does not");
    return static_cast<Real>(
        std::ldexp(static_cast<double>(significand), shift + unit_exponent<Real>));
}

template <class Real>
BasicRationalOracle<Real>::BasicRationalOracle(const FloatFormat& format,
                                               const Projection& projection)
    : format_(format), projection_(projection) {
    validate(projection, format);
    const int field = std::max(top_exponent<Real> + 2 + format.bias, 1);
    last_code_ = static_cast<std::uint64_t>(field) << format.mantissa_bits;
    const std::uint64_t first_above_zero = format.zero == Zero::none ? 0 : 1;
    smallest_normal_ =
        value(format.subnormals ? std::uint64_t{1} << format.mantissa_bits : first_above_zero);
    // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): value() needs the members above
    largest_ = value(format.top_finite_code());
}

template <class Real>
Magnitude<Real> BasicRationalOracle<Real>::value(std::uint64_t code) const {
    const int m = format_.mantissa_bits;
    const auto field = static_cast<std::int64_t>(code >> m);
    std::uint64_t significand = code - (static_cast<std::uint64_t>(field) << m);
    std::int64_t exponent = format_.subnormal_exponent;
    if (code == 0 && format_.zero != Zero::none) return 0;
    if (field > 0 || !format_.subnormals) {
        significand += std::uint64_t{1} << m;
        exponent = field - format_.bias;
    }
    const std::int64_t shift = exponent - m - unit_exponent<Real>;
    if (shift < 0) {
        if ((significand >> -shift) << -shift != significand)
            throw std::logic_error("the format holds a value that the number type does not");
        return significand >> -shift;
    }
    return Magnitude<Real>(significand) << static_cast<unsigned>(shift);
}

template <class Real>
typename BasicRationalOracle<Real>::Neighbours BasicRationalOracle<Real>::neighbours(Real x) const {
    const Magnitude<Real> magnitude = to_magnitude(x);
    Neighbours result;
    const Magnitude<Real> lowest = value(0);
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

// A quiet NaN with the leading bits of a payload of `payload_bits` bits, as far as the format
// distinguishes NaNs.
template <class Real>
Real BasicRationalOracle<Real>::nan(bool negative, std::uint64_t payload, int payload_bits) const {
    const Real canonical = std::numeric_limits<Real>::quiet_NaN();
    const std::uint64_t codes = std::uint64_t{1}
                                << format_.mantissa_bits;  // codes of one exponent field
    if (!projection_.keep_payload || !format_.is_signed || format_.nan_codes == 0) return canonical;
    using Bits = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
    constexpr int real_bits = precision<Real> - 1;
    Bits fraction = Bits{1} << (real_bits - 1);
    if (format_.has_infinity && format_.nan_codes + 1 == codes) {
        const int more = format_.mantissa_bits - payload_bits;
        const std::uint64_t leading = more >= 0 ? payload << more : payload >> -more;  // in m bits
        fraction |= static_cast<Bits>(leading << (real_bits - format_.mantissa_bits));
    }
    const Real positive =
        std::bit_cast<Real>(std::bit_cast<Bits>(std::numeric_limits<Real>::infinity()) + fraction);
    return std::copysign(positive, negative ? Real{-1} : Real{1});
}

template <class Real>
Real BasicRationalOracle<Real>::out_of_range(bool negative, bool infinite_input) const {
    const Real nan = std::numeric_limits<Real>::quiet_NaN();
    const Real infinity = std::numeric_limits<Real>::infinity();
    const bool below_zero = negative && !format_.is_signed;
    const bool has_infinity = !below_zero && format_.has_infinity;
    const Real bound = below_zero ? to_real<Real>(value(0))
                       : negative ? -to_real<Real>(largest_)
                                  : to_real<Real>(largest_);
    const Real signed_infinity = negative ? -infinity : infinity;
    if (projection_.overflow == Overflow::saturate) return bound;
    if (projection_.overflow == Overflow::propagate)
        return infinite_input && has_infinity ? signed_infinity : bound;
    if (projection_.overflow == Overflow::nan) return nan;

    // If the mode rounds towards the bound, IEEE 754's overflow gives the bound: the bound lies
    // above a negative number and below a positive one.
    if (projection_.overflow == Overflow::ieee && !infinite_input &&
        stays_finite(projection_.rounding, negative))
        return bound;
    if (has_infinity) return signed_infinity;
    return format_.has_nan() ? nan : bound;
}

template <class Real>
bool BasicRationalOracle<Real>::takes_upper(const Neighbours& n, const Magnitude<Real>& magnitude,
                                            bool negative, std::uint64_t random) const {
    const Magnitude<Real> to_lower = magnitude - n.lower;
    if (to_lower == 0) return false;
    const Magnitude<Real> step = n.upper - n.lower, to_upper = n.upper - magnitude;

    // The last bit of the significand is the last bit of the code, except at precision 1, where
    // every significand is 1 (odd) unless ties go to the even code.
    bool lower_odd = odd(n.lower_code);
    if (format_.mantissa_bits == 0 && !format_.even_code_ties) lower_odd = n.lower != 0;
    if (n.below_the_lowest) lower_odd = false;

    // Stochastic modes compare `drawn`, one of 2^N integers, with eta = to_lower / step.
    const auto bits = static_cast<unsigned>(projection_.random_bits);
    const std::uint64_t drawn = random >> (64 - bits);
    const auto reaches_one = [&](const Magnitude<Real>& count) {
        return count + drawn >= Magnitude<Real>(1) << bits;
    };

    switch (projection_.rounding) {
        case RoundingMode::stochastic: return reaches_one((to_lower << bits) / step);
        case RoundingMode::stochastic_b:
            return reaches_one(((to_lower << (bits + 1)) + step) / (2 * step));
        case RoundingMode::stochastic_c: {
            const Magnitude<Real> scaled = to_lower << bits;
            Magnitude<Real> count = scaled / step;
            const Magnitude<Real> twice_rest = 2 * (scaled - count * step);
            if (twice_rest > step || (twice_rest == step && (count & 1) != 0)) ++count;
            return reaches_one(count);
        }
        case RoundingMode::stochastic_equal: return drawn >= std::uint64_t{1} << (bits - 1);
        case RoundingMode::stochastic_exact: return random * step < to_lower << 64;
        default: {
            const int against_half = to_lower < to_upper ? -1 : to_lower > to_upper ? 1 : 0;
            return oracle::takes_upper(projection_.rounding, against_half, lower_odd, negative);
        }
    }
}

template <class Real>
std::optional<Real> BasicRationalOracle<Real>::special(Real x) const {
    const bool negative = std::signbit(x);
    if (std::isnan(x)) {
        if (!projection_.keep_payload) return std::numeric_limits<Real>::quiet_NaN();
        constexpr int payload_bits = precision<Real> - 1;
        using Bits = std::conditional_t<std::is_same_v<Real, float>, std::uint32_t, std::uint64_t>;
        return nan(negative, std::bit_cast<Bits>(x) % (Bits{1} << payload_bits), payload_bits);
    }
    if (std::isinf(x)) return out_of_range(negative, true);
    // In a format without a zero, 0 has no counterpart, and negative numbers lie below the lowest
    // value.
    if (format_.zero != Zero::none) return std::nullopt;
    if (x == 0) {
        const bool to_nan = format_.has_nan() && !clamps(projection_.overflow);
        return to_nan ? std::numeric_limits<Real>::quiet_NaN() : to_real<Real>(value(0));
    }
    if (negative) return out_of_range(true, false);
    return std::nullopt;
}

template <class Real>
void BasicRationalOracle<Real>::project(Real x, std::span<const std::uint64_t> words,
                                        std::span<Real> results) const {
    const bool finite = std::isfinite(x), negative = std::signbit(x);
    if (finite && projection_.flushes_input() && to_magnitude(x) < smallest_normal_)
        x = std::copysign(Real{0}, x);
    if (const std::optional<Real> result = special(x)) {
        std::fill_n(results.begin(), words.size(), *result);
        return;
    }
    const Magnitude<Real> magnitude = to_magnitude(x);
    const Neighbours n = neighbours(x);
    for (std::size_t i = 0; i < words.size(); ++i) {
        Magnitude<Real> rounded = takes_upper(n, magnitude, negative, words[i]) ? n.upper : n.lower;
        if (format_.zero == Zero::none && rounded == 0) rounded = value(0);
        if (projection_.flushes_result() && rounded < smallest_normal_) rounded = 0;
        const bool in_range = !(negative && !format_.is_signed) && rounded <= largest_;
        if (rounded == 0)
            results[i] = negative && format_.zero == Zero::both_signs ? Real{-0.0} : Real{0};
        else if (!in_range) results[i] = out_of_range(negative, false);
        else results[i] = negative ? -to_real<Real>(rounded) : to_real<Real>(rounded);
    }
}

template <class Real>
Real BasicRationalOracle<Real>::project(Real x, std::uint64_t random) const {
    Real result{};
    project(x, {&random, 1}, {&result, 1});
    return result;
}

template <class Real>
Real BasicRationalOracle<Real>::decode(std::uint64_t code) const {
    const std::uint64_t count = std::uint64_t{1} << (format_.exponent_bits + format_.mantissa_bits);
    const bool negative = code >= count;
    const std::uint64_t magnitude_code = code % count;
    if (negative && magnitude_code == 0 && format_.zero != Zero::none) {
        if (format_.nan_at_negative_zero) return std::numeric_limits<Real>::quiet_NaN();
        return format_.zero == Zero::both_signs ? Real{-0.0} : Real{0};
    }
    if (magnitude_code >= count - format_.nan_codes)
        return nan(negative, magnitude_code % (std::uint64_t{1} << format_.mantissa_bits),
                   format_.mantissa_bits);
    Real result = std::numeric_limits<Real>::infinity();
    if (!(format_.has_infinity && magnitude_code == count - format_.nan_codes - 1))
        result = to_real<Real>(value(magnitude_code));
    return negative ? -result : result;
}

template Magnitude<float> to_magnitude(float);
template Magnitude<double> to_magnitude(double);
template float to_real<float>(const Magnitude<float>&);
template double to_real<double>(const Magnitude<double>&);
template class BasicRationalOracle<float>;
template class BasicRationalOracle<double>;

}  // namespace apscope::detail::oracle
