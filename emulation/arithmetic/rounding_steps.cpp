#include "emulation/arithmetic/rounding_steps.h"

#include <type_traits>

#include "core/float_environment.h"

namespace apscope::detail {

namespace {

// Returns whether the format is fp32, to which the hardware rounds.
bool is_fp32(const FloatFormat& f) { return f == make_format(8, 23, Specials::ieee); }

// Sets up_positive and up_negative of Step::threshold and returns true; returns false for modes
// that do not round by a threshold.
template <class Real>
bool set_thresholds(StepCast<Real>& s, RoundingMode mode) {
    const Real never = 2, half = Real(0.5);
    const Real below_half = bits_cast<Real>(bits_cast<BitsOf<Real>>(half) - 1);
    const auto set = [&](Real positive, Real negative) {
        s.up_positive = bits_cast<BitsOf<Real>>(positive);
        s.up_negative = bits_cast<BitsOf<Real>>(negative);
        return true;
    };
    if (is_nearest(mode) && !asks_parity(mode)) {
        return dispatch(mode, [&]<RoundingMode M>() {
            if constexpr (is_nearest(M)) {
                const auto from = [&](unsigned negative) {
                    return tie_goes_up<M, unsigned>(1, 0, negative) != 0 ? below_half : half;
                };
                return set(from(0), from(1));
            }
            return false;
        });
    }
    switch (mode) {
        case RoundingMode::toward_zero: return set(never, never);
        case RoundingMode::toward_positive: return set(0, never);
        case RoundingMode::toward_negative: return set(never, 0);
        case RoundingMode::away_from_zero: return set(0, 0);
        default: return false;
    }
}

}  // namespace

template <class Real>
std::optional<StepCast<Real>> make_step(const FloatFormat& f, const Projection& p) {
    using Bits = BitsOf<Real>;
    constexpr int fraction_bits = Layout<Real>::fraction_bits, bias = Layout<Real>::bias;
    // Limits may be fp32 subnormals, which the caller's environment may flush.
    const FloatEnvironment environment;
    if (is_stochastic(p.rounding) || p.underflow != Underflow::gradual || p.keep_payload ||
        !f.is_signed || f.zero == Zero::none || !f.fits_fp32())
        return {};
    if (std::is_same_v<Real, float> && p.rounding != RoundingMode::ties_to_even) return {};
    const Cast<Real> cast = make_cast<Real>(f, p);
    if (cast.gap_high != 0 || cast.even_code_ties || f.emax() < cast.emin) return {};
    const auto magnitude = [](Bits bits) { return bits & ~sign_bit<Real>; };
    const bool one_overflow =
        magnitude(cast.overflow_positive) == magnitude(cast.infinite_positive);

    StepCast<Real> s;
    s.largest = cast.largest;
    s.overflow_positive = magnitude(cast.overflow_positive);
    s.overflow_negative = magnitude(cast.overflow_negative);
    s.infinite_positive = magnitude(cast.infinite_positive);
    s.infinite_negative = magnitude(cast.infinite_negative);
    s.down_sign = p.rounding == RoundingMode::toward_negative ? sign_bit<Real> : 0;
    s.zero_sign = cast.negative_zero;
    if (p.rounding == RoundingMode::ties_to_even && !one_overflow) return {};
    if constexpr (std::is_same_v<Real, float>) {
        if (is_fp32(f))
            return s.overflow_positive == infinity_bits<float> ? std::optional(s) : std::nullopt;
        // Without mantissa bits the last bit kept would be one of the exponent, which decides no
        // tie.
        if (cast.emin == 1 - bias && f.mantissa_bits > 0 && f.mantissa_bits < fraction_bits) {
            s.step = Step::bits;
            s.shift = fraction_bits - f.mantissa_bits;
            s.rest = (Bits{1} << s.shift) - 1;
            return s;
        }
    }
    if (!grid_serves(f, cast)) return {};
    s.grid = make_grid<Real>(cast.emin, f.mantissa_bits);
    if (p.rounding == RoundingMode::ties_to_even) {
        s.step = Step::addition;
        s.overflow_from = bits_cast<Real>(first_overflow(cast));
    } else if (p.rounding == RoundingMode::to_odd) {
        s.step = Step::odd;
    } else if (set_thresholds(s, p.rounding)) {
        s.step = Step::threshold;
    } else {
        return {};
    }
    return s;
}

template std::optional<StepCast<float>> make_step<float>(const FloatFormat&, const Projection&);
template std::optional<StepCast<double>> make_step<double>(const FloatFormat&, const Projection&);

}  // namespace apscope::detail
