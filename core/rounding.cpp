#include "core/rounding.h"

#include "core/float_environment.h"

namespace apscope::detail {

namespace {

template <class Real>
BitsOf<Real> bits_of(double value) {
    return bits_cast<BitsOf<Real>>(static_cast<Real>(value));
}

// Returns whether the mode rounds an overflow of the given sign to the largest finite magnitude.
bool shrinks(RoundingMode mode, bool negative) {
    switch (mode) {
        case RoundingMode::toward_zero:
        case RoundingMode::to_odd: return true;
        case RoundingMode::toward_positive: return negative;
        case RoundingMode::toward_negative: return !negative;
        default: return false;
    }
}

// The smallest magnitude inside the irregular gap that rounds up, or the gap's upper end if none
// does. Rounding is monotone, so bisection finds this magnitude.
template <class Real>
BitsOf<Real> gap_up(const Cast<Real>& cast, bool negative) {
    BitsOf<Real> low = cast.gap_low, high = cast.gap_high;
    while (high - low > 1) {
        const BitsOf<Real> middle = low + (high - low) / 2;
        const bool up = dispatch(cast.rounding, [&]<RoundingMode M>() {
            return round_in_gap<M, Real>(middle, negative, cast, std::uint64_t{0}) == cast.gap_high;
        });
        (up ? high : low) = middle;
    }
    return high;
}

}  // namespace

template <class Real>
Cast<Real> make_cast(const FloatFormat& f, const Projection& p) {
    using Bits = BitsOf<Real>;
    // Limits may be fp32 subnormals, which the caller's settings may flush.
    const FloatEnvironment environment;
    const Bits largest = bits_of<Real>(f.largest());
    const Bits nan = nan_bits<Real>;
    const Bits infinity = infinity_bits<Real>;

    Cast<Real> c{};
    c.rounding = p.rounding;
    c.saturates = clamps(p.overflow);
    c.mantissa_bits = f.mantissa_bits;
    c.emin = f.subnormals ? f.subnormal_exponent : f.emin();
    c.bias = f.bias;
    c.random_bits = p.random_bits;
    c.even_code_ties = f.even_code_ties && f.mantissa_bits == 0;
    c.is_signed = f.is_signed;
    c.one = 1;
    c.input_floor = p.flushes_input() ? bits_of<Real>(f.smallest_normal()) : 0;
    c.result_floor = p.flushes_result() ? bits_of<Real>(f.smallest_normal()) : 0;
    if (p.keep_payload && f.is_signed && f.nan_codes > 0 && !f.nan_at_negative_zero) {
        // If the format has one NaN per sign, a NaN keeps its sign. If it has IEEE 754's NaNs, a
        // NaN also keeps as many payload bits as the codes have.
        const bool has_payloads = f.has_infinity && f.nan_codes + 1 == std::uint64_t{1}
                                                                           << f.mantissa_bits;
        const int lost = Layout<Real>::fraction_bits - f.mantissa_bits;
        const Bits payload = (Bits{1} << Layout<Real>::fraction_bits) - (Bits{1} << lost);
        c.nan_kept = sign_bit<Real> | (has_payloads ? payload : 0);
    }
    c.quantum = bits_of<Real>(__builtin_ldexp(1.0, c.emin - f.mantissa_bits));
    c.largest = largest;
    if (f.subnormals && f.subnormal_exponent != f.emin()) {
        const std::uint64_t first_normal = std::uint64_t{1} << f.mantissa_bits;
        // Numbers are rounded before they overflow, so the gap exists even if its upper end is not
        // a finite value of the format.
        c.gap_low = bits_of<Real>(f.magnitude(first_normal - 1));
        c.gap_high = bits_of<Real>(f.magnitude(first_normal));
        c.gap_low_odd = (first_normal - 1) & 1;
    } else if (!f.subnormals && (f.zero != Zero::none || f.mantissa_bits > 0)) {
        // There is no value between 0 and the smallest one, although the quantum there is finer. (A
        // format of precision 1 without a zero, such as E8M0, is excluded: its quantum equals its
        // smallest value.)
        c.gap_high = bits_of<Real>(f.smallest_positive());
    }
    if (c.gap_high != 0 && !is_stochastic(p.rounding)) {
        c.gap_up_positive = gap_up(c, false);
        c.gap_up_negative = gap_up(c, true);
    }
    if (f.zero == Zero::none) {
        c.rounded_zero = bits_of<Real>(f.smallest_positive());
        c.exact_zero = !clamps(p.overflow) && f.has_nan() ? nan : c.rounded_zero;
    }
    c.negative_zero = f.zero == Zero::both_signs ? sign_bit<Real> : 0;
    struct Results {
        Bits finite, infinite;
    };
    const auto results = [&](bool negative) -> Results {
        const Bits sign = negative ? sign_bit<Real> : 0;
        const Bits special = f.has_infinity ? infinity | sign : f.has_nan() ? nan : largest | sign;
        switch (p.overflow) {
            case Overflow::ieee:
                return {shrinks(p.rounding, negative) ? largest | sign : special, special};
            case Overflow::saturate: return {largest | sign, largest | sign};
            case Overflow::propagate:
                return {largest | sign, (f.has_infinity ? infinity : largest) | sign};
            case Overflow::infinity: return {infinity | sign, infinity | sign};
            case Overflow::nan: break;
        }
        return {nan, nan};
    };
    c.overflow_positive = results(false).finite;
    c.infinite_positive = results(false).infinite;
    c.overflow_negative = results(true).finite;
    c.infinite_negative = results(true).infinite;
    if (!f.is_signed) {
        const Bits lowest = c.rounded_zero;
        const bool to_lowest = clamps(p.overflow) || !f.has_nan();
        c.infinite_negative = to_lowest ? lowest : nan;
        c.below_zero =
            to_lowest || (p.overflow == Overflow::ieee && shrinks(p.rounding, true)) ? lowest : nan;
        c.overflow_negative = c.below_zero;
    }
    return c;
}

template <class Real>
Real round_one(Real x, const Cast<Real>& cast, std::uint64_t random) {
    return dispatch(cast.rounding,
                    [&]<RoundingMode M>() { return round_to_format<M, Real>(x, cast, random); });
}

template Cast<float> make_cast<float>(const FloatFormat&, const Projection&);
template Cast<double> make_cast<double>(const FloatFormat&, const Projection&);
template float round_one<float>(float, const Cast<float>&, std::uint64_t);
template double round_one<double>(double, const Cast<double>&, std::uint64_t);

}  // namespace apscope::detail
