#include "core/oracle/mpfr_oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/oracle/decision.h"

namespace apscope::detail::oracle {
namespace {

// Enough bits for the exact difference between a number of most_precision bits and a neighbour of
// at most 53 bits, which is at most one step or one irregular gap away.
constexpr mpfr_prec_t working_precision = MpfrOracle::most_precision + 64;

const double quiet_nan = std::bit_cast<double>(std::uint64_t{0x7FF8000000000000});
const double infinity = std::numeric_limits<double>::infinity();

// The projection's result for a NaN.
template <class Bits>
Bits nan_result(Bits input, int fraction_bits, const FloatFormat& format,
                const Projection& projection) {
    constexpr Bits one = 1, sign = one << (sizeof(Bits) * 8 - 1);
    const Bits quiet = one << (fraction_bits - 1);
    const Bits canonical = ((sign >> fraction_bits) - 1) << fraction_bits | quiet;
    if (!projection.keep_payload || !format.is_signed || format.nan_codes == 0) return canonical;
    Bits payload = input & sign;
    const bool every_ieee_nan =
        format.has_infinity && format.nan_codes == (std::uint64_t{1} << format.mantissa_bits) - 1;
    if (every_ieee_nan) {
        for (int i = 1; i <= format.mantissa_bits; ++i)
            payload |= input & one << (fraction_bits - i);
    }
    return canonical | payload;
}

}  // namespace

std::string version_of_mpfr() { return mpfr_get_version(); }

MpfrOracle::MpfrOracle(const FloatFormat& format, const Projection& projection)
    : format_(format), projection_(projection) {
    validate(projection, format);
    mpfr_inits2(working_precision, gap_lower_, gap_upper_, smallest_, smallest_normal_, largest_,
                magnitude_, lower_, upper_, scratch_, width_, static_cast<mpfr_ptr>(nullptr));
    set_to_code(largest_, format.top_finite_code());
    set_to_code(smallest_, format.zero == Zero::none ? 0 : 1);
    if (format.subnormals) set_to_code(smallest_normal_, std::uint64_t{1} << format.mantissa_bits);
    else mpfr_set(smallest_normal_, smallest_, MPFR_RNDN);

    const int m = format.mantissa_bits;
    if (!format.subnormals) {  // there is no value between 0 and the smallest one
        has_gap_ = true;
        mpfr_set_zero(gap_lower_, +1);
        mpfr_set(gap_upper_, smallest_, MPFR_RNDN);
    } else if (format.subnormal_exponent != 1 - format.bias) {
        // The gap lies between the last value of field 0 (zero, at precision 1) and the first
        // normal number.
        has_gap_ = true;
        set_to_code(gap_lower_, (std::uint64_t{1} << m) - 1);
        set_to_code(gap_upper_, std::uint64_t{1} << m);
        gap_lower_is_odd_ = m > 0;
    }
}

MpfrOracle::~MpfrOracle() {
    mpfr_clears(gap_lower_, gap_upper_, smallest_, smallest_normal_, largest_, magnitude_, lower_,
                upper_, scratch_, width_, static_cast<mpfr_ptr>(nullptr));
}

void MpfrOracle::set_to_code(mpfr_ptr value, std::uint64_t code) const {
    const int m = format_.mantissa_bits;
    const std::uint64_t hidden = std::uint64_t{1} << m;
    const auto field = static_cast<int>(code / hidden);
    const std::uint64_t fraction = code % hidden;
    if (field == 0 && format_.subnormals)
        mpfr_set_ui_2exp(value, fraction, format_.subnormal_exponent - m, MPFR_RNDN);
    else if (code == 0 && format_.zero != Zero::none) mpfr_set_zero(value, +1);
    else mpfr_set_ui_2exp(value, hidden + fraction, field - format_.bias - m, MPFR_RNDN);
}

MpfrOracle::Step MpfrOracle::bracket(bool inexact) {
    Step step{};
    const bool above_gap_lower = has_gap_ && (mpfr_cmp(magnitude_, gap_lower_) > 0 ||
                                              (inexact && mpfr_equal_p(magnitude_, gap_lower_)));
    if (above_gap_lower && mpfr_less_p(magnitude_, gap_upper_)) {
        mpfr_set(lower_, gap_lower_, MPFR_RNDN);
        mpfr_set(upper_, gap_upper_, MPFR_RNDN);
        step.lower_is_odd = gap_lower_is_odd_;
    } else {
        const int m = format_.mantissa_bits;
        const int emin = format_.emin();
        // MPFR's significands lie in [1/2, 1), so its exponents are one more than IEEE 754's.
        const long floor_log2 = mpfr_zero_p(magnitude_) ? emin - 1 : mpfr_get_exp(magnitude_) - 1;
        const bool subnormal = floor_log2 < emin;
        const long exponent = !subnormal           ? floor_log2
                              : format_.subnormals ? format_.subnormal_exponent
                                                   : emin;
        mpfr_div_2si(scratch_, magnitude_, exponent - m, MPFR_RNDN);
        const unsigned long lower = mpfr_get_ui(scratch_, MPFR_RNDZ);
        mpfr_set_ui_2exp(lower_, lower, exponent - m, MPFR_RNDN);
        mpfr_set_ui_2exp(upper_, lower + 1, exponent - m, MPFR_RNDN);
        step.lower_is_odd = lower % 2 != 0;
        if (format_.even_code_ties && m == 0)
            step.lower_is_odd = !subnormal && (exponent + format_.bias) % 2 != 0;
    }
    const bool lost = mpfr_sub(scratch_, magnitude_, lower_, MPFR_RNDN) != 0 ||
                      mpfr_sub(width_, upper_, lower_, MPFR_RNDN) != 0;
    if (lost) throw std::logic_error("a difference is longer than the oracle's precision");
    step.exact = mpfr_zero_p(scratch_) && !inexact;
    if (is_stochastic(projection_.rounding)) {
        step.up_count = step.exact ? 0 : count_of(inexact);
    } else {
        mpfr_mul_2ui(scratch_, scratch_, 1, MPFR_RNDN);
        const int order = mpfr_cmp(scratch_, width_);
        step.against_half = order != 0 ? order : inexact;
    }
    return step;
}

// Computes the count from eta > 0, which is scratch_ / width_, or slightly more if `inexact`. If
// the mode rounds the count to nearest, the function first computes floor(2 eta 2^N), the count in
// halves, and whether any digit was cut off.
MpfrOracle::Count MpfrOracle::count_of(bool inexact) {
    const RoundingMode mode = projection_.rounding;
    const int n = projection_.random_bits;
    if (mode == RoundingMode::stochastic_equal) return Count{1} << (n - 1);
    const bool halves = mode == RoundingMode::stochastic_b || mode == RoundingMode::stochastic_c;
    mpfr_mul_2si(scratch_, scratch_,
                 mode == RoundingMode::stochastic_exact ? 64
                 : halves                               ? n + 1
                                                        : n,
                 MPFR_RNDN);
    // Truncation does not change the integer part.
    const int cut = mpfr_div(scratch_, scratch_, width_, MPFR_RNDZ);
    const Count integer = mpfr_get_ui(scratch_, MPFR_RNDZ);
    const bool more = cut != 0 || inexact || !mpfr_integer_p(scratch_);
    switch (mode) {
        case RoundingMode::stochastic_b: return (integer + 1) / 2;
        case RoundingMode::stochastic_c: {
            const bool tie = integer % 2 != 0 && !more;
            const Count below = integer / 2;
            return tie ? below + below % 2 : below + integer % 2;
        }
        case RoundingMode::stochastic_exact:
            return integer + more;  // the number of 64-bit words below eta 2^64
        default: return integer;
    }
}

bool MpfrOracle::rounds_away(const Step& step, bool negative, std::uint64_t random) const {
    if (step.exact) return false;
    switch (projection_.rounding) {
        case RoundingMode::stochastic:
        case RoundingMode::stochastic_b:
        case RoundingMode::stochastic_c:
        case RoundingMode::stochastic_equal: {
            const int n = projection_.random_bits;
            return step.up_count + (random >> (64 - n)) >= Count{1} << n;
        }
        case RoundingMode::stochastic_exact: return random < step.up_count;
        default:
            return takes_upper(projection_.rounding, step.against_half, step.lower_is_odd,
                               negative);
    }
}

// This function does not need `this`, but is a member like the other steps of the oracle.
// NOLINTNEXTLINE(readability-convert-member-functions-to-static)
double MpfrOracle::to_double(mpfr_srcptr value, bool negative) const {
    const double result = mpfr_get_d(value, MPFR_RNDN);
    if (mpfr_cmp_d(value, result) != 0)
        throw std::logic_error("the format holds a value that fp64 does not");
    return negative ? -result : result;
}

double MpfrOracle::overflowed(bool negative, bool infinite_input) const {
    const double signed_infinity = negative ? -infinity : infinity;
    const double signed_largest = to_double(largest_, negative);
    switch (projection_.overflow) {
        case Overflow::saturate: return signed_largest;
        case Overflow::propagate:
            return infinite_input && format_.has_infinity ? signed_infinity : signed_largest;
        case Overflow::infinity: return signed_infinity;
        case Overflow::nan: return quiet_nan;
        case Overflow::ieee: break;
    }
    if (stays_finite(projection_.rounding, negative) && !infinite_input) return signed_largest;
    if (format_.has_infinity) return signed_infinity;
    return format_.has_nan() ? quiet_nan : signed_largest;
}

double MpfrOracle::below_an_unsigned_format(bool infinite_input) const {
    const double lowest = format_.zero == Zero::none ? to_double(smallest_, false) : 0.0;
    switch (projection_.overflow) {
        case Overflow::saturate:
        case Overflow::propagate: return lowest;
        case Overflow::nan: return quiet_nan;
        case Overflow::infinity: break;
        case Overflow::ieee:
            if (stays_finite(projection_.rounding, true) && !infinite_input) return lowest;
            break;
    }
    return format_.has_nan() ? quiet_nan : lowest;
}

double MpfrOracle::project(mpfr_srcptr truncated, bool inexact, std::uint64_t random) {
    if (mpfr_nan_p(truncated)) return quiet_nan;
    const bool negative = mpfr_signbit(truncated) != 0;
    if (mpfr_inf_p(truncated))
        return negative && !format_.is_signed ? below_an_unsigned_format(true)
                                              : overflowed(negative, true);
    if (mpfr_get_prec(truncated) > most_precision)
        throw std::logic_error("more bits than the oracle works with");
    mpfr_abs(magnitude_, truncated, MPFR_RNDN);
    if (projection_.flushes_input() && mpfr_less_p(magnitude_, smallest_normal_)) {
        mpfr_set_zero(magnitude_, +1);
        inexact = false;
    }
    if (format_.zero == Zero::none) {
        const bool is_zero = mpfr_zero_p(magnitude_) && !inexact;
        const bool to_nan = !clamps(projection_.overflow) && format_.has_nan();
        if (is_zero) return to_nan ? quiet_nan : to_double(smallest_, false);
        if (negative && !format_.is_signed) return below_an_unsigned_format(false);
    }
    const Step step = bracket(inexact);
    mpfr_srcptr rounded = rounds_away(step, negative, random) ? upper_ : lower_;

    // The smallest value replaces a zero that the format does not have. It is a normal number, so
    // it is not flushed.
    const bool no_zero = format_.zero == Zero::none && mpfr_zero_p(rounded);
    if (no_zero) return to_double(smallest_, negative);
    const bool flushed = projection_.flushes_result() && mpfr_less_p(rounded, smallest_normal_);
    if (mpfr_zero_p(rounded) || flushed)
        return negative && format_.zero == Zero::both_signs ? -0.0 : 0.0;
    if (negative && !format_.is_signed) return below_an_unsigned_format(false);
    if (mpfr_greater_p(rounded, largest_)) return overflowed(negative, false);
    return to_double(rounded, negative);
}

double MpfrOracle::project(double x, std::uint64_t random) {
    if (std::isnan(x))
        return std::bit_cast<double>(
            nan_result(std::bit_cast<std::uint64_t>(x), 52, format_, projection_));
    mpfr_t exact;
    unsigned long limb[1] = {0};
    mpfr_custom_init(limb, 53);
    mpfr_custom_init_set(exact, MPFR_NAN_KIND, 0, 53, limb);
    mpfr_set_d(exact, x, MPFR_RNDN);
    return project(exact, false, random);
}

float MpfrOracle::project(float x, std::uint64_t random) {
    if (std::isnan(x))
        return std::bit_cast<float>(
            nan_result(std::bit_cast<std::uint32_t>(x), 23, format_, projection_));
    const double wide = project(static_cast<double>(x), random);
    const auto result = static_cast<float>(wide);
    if (!std::isnan(wide) && static_cast<double>(result) != wide)
        throw std::logic_error("the format holds a value that fp32 does not");
    return result;
}

MpfrOracle::Count MpfrOracle::up_count(double x) {
    mpfr_set_d(magnitude_, x, MPFR_RNDN);
    if (!mpfr_number_p(magnitude_)) return 0;
    mpfr_abs(magnitude_, magnitude_, MPFR_RNDN);
    return bracket(false).up_count;
}

}  // namespace apscope::detail::oracle
