#include "tests/oracle/mpfr_oracle.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

namespace apscope::oracle {
namespace {

// Wider than any sum of two fp32 numbers, so that every operation below but the division is exact.
constexpr mpfr_prec_t working_precision = 512;

const float quiet_nan = std::bit_cast<float>(0x7FC00000u);
const float infinity = std::numeric_limits<float>::infinity();

}  // namespace

MpfrOracle::MpfrOracle(const FloatFormat& format, const Projection& projection)
    : format_(format), projection_(projection) {
    validate(projection, format);
    mpfr_inits2(working_precision, gap_lower_, gap_upper_, smallest_, largest_, magnitude_, lower_,
                upper_, scratch_, width_, static_cast<mpfr_ptr>(nullptr));
    set_to_code(largest_, format.top_finite_code());
    set_to_code(smallest_, format.zero == Zero::none ? 0 : 1);

    const int m = format.mantissa_bits;
    if (!format.subnormals) {  // nothing between 0 and the smallest value
        has_gap_ = true;
        mpfr_set_zero(gap_lower_, +1);
        mpfr_set(gap_upper_, smallest_, MPFR_RNDN);
    } else if (format.subnormal_exponent != 1 - format.bias) {
        has_gap_ = true;  // between the last value of field 0 (at precision 1, zero) and the first normal
        set_to_code(gap_lower_, (std::uint64_t{1} << m) - 1);
        set_to_code(gap_upper_, std::uint64_t{1} << m);
        gap_lower_is_odd_ = m > 0;
    }
}

MpfrOracle::~MpfrOracle() {
    mpfr_clears(gap_lower_, gap_upper_, smallest_, largest_, magnitude_, lower_, upper_, scratch_,
                width_, static_cast<mpfr_ptr>(nullptr));
}

void MpfrOracle::set_to_code(mpfr_ptr value, std::uint64_t code) const {
    const int m = format_.mantissa_bits;
    const std::uint64_t hidden = std::uint64_t{1} << m;
    const auto field = static_cast<int>(code / hidden);
    const std::uint64_t fraction = code % hidden;
    if (field == 0 && format_.subnormals)
        mpfr_set_ui_2exp(value, fraction, format_.subnormal_exponent - m, MPFR_RNDN);
    else if (code == 0 && format_.zero != Zero::none)
        mpfr_set_zero(value, +1);
    else
        mpfr_set_ui_2exp(value, hidden + fraction, field - format_.bias - m, MPFR_RNDN);
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
        const unsigned long kept = mpfr_get_ui(scratch_, MPFR_RNDZ);
        mpfr_set_ui_2exp(lower_, kept, exponent - m, MPFR_RNDN);
        mpfr_set_ui_2exp(upper_, kept + 1, exponent - m, MPFR_RNDN);
        step.lower_is_odd = kept % 2 != 0;
        if (format_.even_code_ties && m == 0)
            step.lower_is_odd = !subnormal && (exponent + format_.bias) % 2 != 0;
    }
    mpfr_sub(scratch_, magnitude_, lower_, MPFR_RNDN);
    mpfr_sub(width_, upper_, lower_, MPFR_RNDN);
    step.exact = mpfr_zero_p(scratch_) && !inexact;
    if (projection_.rounding == RoundingMode::stochastic) {
        mpfr_mul_2si(scratch_, scratch_, projection_.random_bits, MPFR_RNDN);
        mpfr_div(scratch_, scratch_, width_, MPFR_RNDZ);  // truncation never passes an integer
        step.discarded = mpfr_get_ui(scratch_, MPFR_RNDZ);
    } else {
        mpfr_mul_2ui(scratch_, scratch_, 1, MPFR_RNDN);
        const int order = mpfr_cmp(scratch_, width_);
        step.against_half = order != 0 ? order : inexact;
    }
    return step;
}

bool MpfrOracle::rounds_away(const Step& step, bool negative, std::uint64_t random) const {
    if (step.exact) return false;
    switch (projection_.rounding) {
        case RoundingMode::ties_to_even:
            return step.against_half > 0 || (step.against_half == 0 && step.lower_is_odd);
        case RoundingMode::ties_to_away: return step.against_half >= 0;
        case RoundingMode::toward_zero: return false;
        case RoundingMode::toward_positive: return !negative;
        case RoundingMode::toward_negative: return negative;
        case RoundingMode::to_odd: return !step.lower_is_odd;
        case RoundingMode::stochastic: {
            __extension__ using Wide = unsigned __int128;
            const int n = projection_.random_bits;
            return Wide{step.discarded} + (random >> (64 - n)) >= Wide{1} << n;
        }
    }
    throw std::logic_error("unknown rounding mode");
}

float MpfrOracle::to_float(mpfr_srcptr value, bool negative) const {
    const float result = mpfr_get_flt(value, MPFR_RNDN);
    if (mpfr_cmp_d(value, result) != 0)
        throw std::logic_error("the format holds a value that fp32 does not");
    return negative ? -result : result;
}

float MpfrOracle::overflowed(bool negative, bool infinite_input) const {
    const float signed_infinity = negative ? -infinity : infinity;
    const float signed_largest = to_float(largest_, negative);
    switch (projection_.overflow) {
        case Overflow::saturate: return signed_largest;
        case Overflow::infinity: return signed_infinity;
        case Overflow::nan: return quiet_nan;
        case Overflow::ieee: break;
    }
    const RoundingMode mode = projection_.rounding;
    const bool stays_finite = mode == RoundingMode::toward_zero || mode == RoundingMode::to_odd ||
                              (mode == RoundingMode::toward_positive && negative) ||
                              (mode == RoundingMode::toward_negative && !negative);
    if (stays_finite && !infinite_input) return signed_largest;
    if (format_.has_infinity) return signed_infinity;
    return format_.has_nan() ? quiet_nan : signed_largest;
}

float MpfrOracle::below_an_unsigned_format(bool infinite_input) const {
    const float lowest = format_.zero == Zero::none ? to_float(smallest_, false) : 0.0f;
    switch (projection_.overflow) {
        case Overflow::saturate: return lowest;
        case Overflow::nan: return quiet_nan;
        case Overflow::infinity: break;
        case Overflow::ieee: {
            const RoundingMode mode = projection_.rounding;
            const bool upwards = mode == RoundingMode::toward_zero || mode == RoundingMode::to_odd ||
                                 mode == RoundingMode::toward_positive;
            if (upwards && !infinite_input) return lowest;
            break;
        }
    }
    return format_.has_nan() ? quiet_nan : lowest;
}

float MpfrOracle::project(mpfr_srcptr truncated, bool inexact, std::uint64_t random) {
    if (mpfr_nan_p(truncated)) return quiet_nan;
    const bool negative = mpfr_signbit(truncated) != 0;
    if (mpfr_inf_p(truncated))
        return negative && !format_.is_signed ? below_an_unsigned_format(true)
                                              : overflowed(negative, true);
    mpfr_abs(magnitude_, truncated, MPFR_RNDN);
    if (format_.zero == Zero::none) {
        const bool is_zero = mpfr_zero_p(magnitude_) && !inexact;
        const bool to_nan = projection_.overflow != Overflow::saturate && format_.has_nan();
        if (is_zero) return to_nan ? quiet_nan : to_float(smallest_, false);
        if (negative && !format_.is_signed) return below_an_unsigned_format(false);
    }
    const Step step = bracket(inexact);
    mpfr_srcptr rounded = rounds_away(step, negative, random) ? upper_ : lower_;

    if (mpfr_zero_p(rounded)) {
        if (format_.zero == Zero::none) return to_float(smallest_, false);
        return negative && format_.zero == Zero::both_signs ? -0.0f : 0.0f;
    }
    if (negative && !format_.is_signed) return below_an_unsigned_format(false);
    if (mpfr_greater_p(rounded, largest_)) return overflowed(negative, false);
    return to_float(rounded, negative);
}

float MpfrOracle::project(float x, std::uint64_t random) {
    mpfr_t exact;
    unsigned long limb[1] = {0};
    mpfr_custom_init(limb, 24);
    mpfr_custom_init_set(exact, MPFR_NAN_KIND, 0, 24, limb);
    mpfr_set_flt(exact, x, MPFR_RNDN);
    return project(exact, false, random);
}

std::uint64_t MpfrOracle::discarded(float x) {
    mpfr_set_flt(magnitude_, x, MPFR_RNDN);
    if (!mpfr_number_p(magnitude_)) return 0;
    mpfr_abs(magnitude_, magnitude_, MPFR_RNDN);
    return bracket(false).discarded;
}

}  // namespace apscope::oracle
