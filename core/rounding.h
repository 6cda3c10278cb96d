// The rounding rule. All rounding code in apscope (the scalar reference, the vector loops, the CUDA
// kernels and the tests) calls round_to_format() or is proved equal to it for all inputs. The
// format is data (a Cast, derived from a FloatFormat and a Projection), the rounding mode a
// template argument, so that a loop over elements has no branch on it.
//
//      x = (-1)^sign * significand * 2^ulp_exponent
//
//      significand   1xxxxxxxx|rrrrrrrrrrrrrr      kept | discarded ("rest"), `shift` bits wide
//
// The quantum of the result is 2^(max(floor(log2|x|), emin) - mantissa_bits). The kept part grows
// by one unit if round_up() returns true; a carry runs into the exponent field automatically,
// because the result is formed in place in the bits of x.
#pragma once

#include <cassert>
#include <cstdint>
#include <type_traits>

#include "core/bits.h"
#include "core/draws.h"
#include "core/float_format.h"
#include "core/host_device.h"
#include "core/projection.h"

namespace apscope::detail {

// A format and a projection, prepared for Real: every limit is the bits of a magnitude. A Cast is
// made for one mode, `rounding`, which dispatch() turns into the template argument;
// round_to_format() asserts that the two are equal.
template <class Real>
struct Cast {
    using Bits = BitsOf<Real>;
    RoundingMode rounding;
    bool saturates;       // finite numbers beyond the largest value become the largest value
    int mantissa_bits;    // stored significand bits of the target
    int emin;             // exponent below which the quantum no longer shrinks
    int bias;             // exponent bias, for the parity of codes at precision 1
    int random_bits;      // N of stochastic rounding
    bool even_code_ties;  // precision 1 rounds ties to the even code
    bool is_signed;       // false: the format has no sign bit
    Bits one;             // always 1, but not a constant: g++ vectorises `one << n`, not `1 << n`
    Bits quantum;         // the quantum below 2^emin, 2^(emin - mantissa_bits)
    Bits largest;         // largest finite magnitude
    Bits gap_low, gap_high;  // the one irregular gap between neighbours, if gap_high != 0
    bool gap_low_odd;        // parity of gap_low's code
    Bits gap_up_positive, gap_up_negative;  // deterministic modes: the smallest magnitude in the
                                            // gap that rounds up, per sign
    Bits exact_zero;     // result for a zero, without the sign of -0; 0 if the format has zero
    Bits rounded_zero;   // result for a magnitude that rounds to zero, without the sign of -0
    Bits negative_zero;  // the sign bit if the format has a -0, else 0
    Bits overflow_positive, overflow_negative;  // result of a finite overflow, per sign
    Bits infinite_positive, infinite_negative;  // result for an infinity, per sign
    Bits below_zero;                            // result for a negative number in unsigned formats
    // Inputs of smaller magnitude count as zero; the smallest normal number if inputs are flushed,
    // else 0.
    Bits input_floor;
    // Results of smaller magnitude become zero; the smallest normal number if results are flushed,
    // else 0.
    Bits result_floor;
    Bits nan_kept;  // mask of the bits that a NaN keeps: sign and leading payload, or none
};

// Most casts have no irregular gap, flush nothing and keep no payload. For such a Cast,
// assume_plain<true>() tells the compiler that the fields for these cases are 0, so the vector code
// omits the steps for them.
template <class Real>
APSCOPE_HD bool is_plain(const Cast<Real>& c) {
    return c.gap_high == 0 && c.input_floor == 0 && c.result_floor == 0 && c.nan_kept == 0;
}
template <bool Plain, class Real>
APSCOPE_HD Cast<Real> assume_plain(Cast<Real> c) {
    if (Plain) c.gap_high = c.input_floor = c.result_floor = c.nan_kept = 0;
    return c;
}

// Returns whether the magnitude `kept + rest / 2^shift` units rounds to kept + 1. `odd` is the
// parity of kept (or of its code, depending on the format): 0 or 1 as a number, because vectorisers
// support no conversion to bool except a comparison. `one` is 1 (see Cast). `capped_shift` is the
// shift, limited to the width of Word. `random` has N bits, left-aligned.
template <RoundingMode M, class Word, class Random>
APSCOPE_HD bool round_up(Word one, Word rest, int shift, Word capped_shift, Word odd, bool negative,
                         int random_bits, const Random& random) {
    const bool inexact = rest != 0;
    if constexpr (is_nearest(M)) {
        // Compares twice the rest with one unit. If the shift was capped, the unit is still larger
        // than twice any rest; if the unit is 1, the rest is 0. (Vectorisers do not support >=.)
        const Word twice = static_cast<Word>(rest << 1);
        const Word unit = static_cast<Word>(one << capped_shift);
        return twice + tie_goes_up<M, Word>(one, odd, negative ? 1 : 0) > unit;
    } else if constexpr (M == RoundingMode::toward_zero) {
        return false;
    } else if constexpr (M == RoundingMode::toward_positive) {
        return inexact & !negative;
    } else if constexpr (M == RoundingMode::toward_negative) {
        return inexact & negative;
    } else if constexpr (M == RoundingMode::away_from_zero) {
        return inexact;
    } else if constexpr (M == RoundingMode::to_odd) {
        return (rest & (odd - 1)) != 0;
    } else if constexpr (M == RoundingMode::stochastic_exact) {
        return drawn_below(rest, shift, random);
    } else {
        const UpCount up = up_count<M>(eta_of(rest, shift), random_bits);
        return up.all | (up.count + random < up.count);  // the sum carries out of 64 bits
    }
}

// Returns floor(log2(magnitude)); the magnitude, given as its bits, is finite and not zero.
template <class Real>
APSCOPE_HD int exponent_of(BitsOf<Real> magnitude) {
    using L = Layout<Real>;
    const int field = static_cast<int>(magnitude >> L::fraction_bits);
    if constexpr (std::is_same_v<Real, float>) {
        // For a subnormal, the fraction as an integer converts to fp32 exactly; the exponent of the
        // converted number gives that of the subnormal.
        const int fraction_exponent =
            static_cast<int>(bits_cast<std::uint32_t>(static_cast<float>(
                                 static_cast<std::int32_t>(magnitude & 0x7FFFFF))) >>
                             23);
        return field != 0 ? field - 127 : fraction_exponent - 127 - 149;
    } else {
        // For a subnormal, 1.fraction - 1 is exact and a normal number; its exponent gives that of
        // the subnormal.
        const double fraction = bits_cast<double>((magnitude & ((std::uint64_t{1} << 52) - 1)) |
                                                  std::uint64_t{1023} << 52) -
                                1.0;
        const int fraction_exponent = static_cast<int>(bits_cast<std::uint64_t>(fraction) >> 52);
        return field != 0 ? field - L::bias : fraction_exponent - L::bias - 1022;
    }
}

// Rounds a magnitude strictly inside the irregular gap to one of the two ends of the gap.
template <RoundingMode M, class Real, class Random>
APSCOPE_HD BitsOf<Real> round_in_gap(BitsOf<Real> magnitude, bool negative, const Cast<Real>& cast,
                                     const Random& random);

// Returns the rounded magnitude, as bits of Real, without an upper limit of the exponent.
template <RoundingMode M, class Real, class Random>
APSCOPE_HD BitsOf<Real> round_magnitude(BitsOf<Real> magnitude, bool negative,
                                        const Cast<Real>& cast, const Random& random) {
    using Bits = BitsOf<Real>;
    using L = Layout<Real>;
    constexpr int fraction_bits = L::fraction_bits;
    const int field = static_cast<int>(magnitude >> fraction_bits);
    const Bits fraction = magnitude & ((Bits{1} << fraction_bits) - 1);
    const Bits significand = field != 0 ? fraction | Bits{1} << fraction_bits : fraction;
    const int ulp_exponent = (field != 0 ? field : 1) - L::bias - fraction_bits;
    const int exponent = exponent_of<Real>(magnitude);
    const int quantum_exponent = (exponent > cast.emin ? exponent : cast.emin) - cast.mantissa_bits;
    const int shift = quantum_exponent > ulp_exponent ? quantum_exponent - ulp_exponent : 0;
    // For shifts of fraction_bits + 2 and more, the kept part is 0 and the rest is less than half a
    // unit. `capped` has the width of the shifted value, as vector shifts require.
    const Bits capped = static_cast<Bits>(shift < fraction_bits + 2 ? shift : fraction_bits + 2);
    const Bits kept = significand >> capped;
    const Bits rest = significand - (kept << capped);
    const Bits odd =
        kept & (static_cast<Bits>(!cast.even_code_ties) | static_cast<Bits>(exponent + cast.bias)) &
        1;
    const bool up =
        round_up<M, Bits>(cast.one, rest, shift, capped, odd, negative, cast.random_bits, random);
    const Bits in_place = capped <= fraction_bits ? capped : 0;
    const Bits rounded = ((magnitude >> in_place) + (up ? 1 : 0)) << in_place;
    return select(capped <= fraction_bits, rounded, select(up, cast.quantum, Bits{0}));
}

// Applies the overflow, the zeros and the sign: the last steps of casts and sums. Every step is a
// selection, never a branch, so that compilers vectorise loops over the rule.
template <class Real>
APSCOPE_HD BitsOf<Real> finish(BitsOf<Real> rounded, BitsOf<Real> magnitude, BitsOf<Real> sign,
                               const Cast<Real>& cast) {
    using Bits = BitsOf<Real>;
    const bool negative = sign != 0;
    const Bits zero_sign = sign & cast.negative_zero;
    rounded = select(rounded < cast.result_floor, Bits{0}, rounded);
    Bits result = select(rounded == 0, cast.rounded_zero | zero_sign, rounded | sign);
    result = select(magnitude == 0, cast.exact_zero | zero_sign, result);
    result = select(rounded > cast.largest,
                    select(negative, cast.overflow_negative, cast.overflow_positive), result);
    // An unsigned format cannot represent a negative result; -0 and numbers that round to it become
    // 0.
    const bool below = !cast.is_signed & negative &
                       ((rounded != 0) | ((cast.rounded_zero != 0) & (magnitude != 0)));
    result = select(below, cast.below_zero, result);
    result = select(magnitude == infinity_bits<Real>,
                    select(negative, cast.infinite_negative, cast.infinite_positive), result);
    return select(magnitude > infinity_bits<Real>,
                  nan_bits<Real> | ((magnitude | sign) & cast.nan_kept), result);
}

// Rounds x to the cast's format: the rounding rule. Only stochastic modes use `random`, which has N
// bits, left-aligned in 64; for stochastic_exact it is a StreamWord (core/philox.h).
template <RoundingMode M, class Real, class Random>
APSCOPE_HD Real round_to_format(Real x, const Cast<Real>& cast, const Random& random) {
    using Bits = BitsOf<Real>;
    assert(cast.rounding == M);
    const Bits bits = bits_cast<Bits>(x);
    const Bits sign = bits & sign_bit<Real>;
    Bits magnitude = bits ^ sign;
    magnitude = select(magnitude < cast.input_floor, Bits{0}, magnitude);
    Bits rounded = round_magnitude<M, Real>(magnitude, sign != 0, cast, random);
    const bool in_gap = (magnitude > cast.gap_low) & (magnitude < cast.gap_high);
    if constexpr (is_stochastic(M)) {
        if (in_gap) rounded = round_in_gap<M, Real>(magnitude, sign != 0, cast, random);
    } else {
        const Bits up_from = select(sign != 0, cast.gap_up_negative, cast.gap_up_positive);
        rounded =
            select(in_gap, select(magnitude >= up_from, cast.gap_high, cast.gap_low), rounded);
    }
    return bits_cast<Real>(finish<Real>(rounded, magnitude, sign, cast));
}

// The position of a magnitude in the irregular gap: (x - low) / (high - low) = numerator 2^-drop /
// denominator.
struct GapPlace {
    unsigned __int128 numerator, denominator;
    int drop;
};
template <class Real>
APSCOPE_HD GapPlace gap_place(BitsOf<Real> magnitude, const Cast<Real>& cast) {
    using L = Layout<Real>;
    // A value is significand * 2^(exponent - fraction_bits), with an integer significand.
    const auto exponent = [](BitsOf<Real> m) { return exponent_of<Real>(m); };
    const auto significand = [&](BitsOf<Real> m) {
        const BitsOf<Real> fraction = m & ((BitsOf<Real>{1} << L::fraction_bits) - 1);
        const int field = static_cast<int>(m >> L::fraction_bits);
        return field != 0 ? fraction | BitsOf<Real>{1} << L::fraction_bits
                          : fraction << (1 - L::bias - exponent(m));
    };
    const int high_exponent = exponent(cast.gap_high);
    GapPlace place{significand(magnitude), significand(cast.gap_high),
                   high_exponent - exponent(magnitude)};
    if (cast.gap_low != 0) {
        // low, x and high lie within two binades, so the ulp of low is their common unit.
        const int low_exponent = exponent(cast.gap_low);
        const unsigned __int128 low = significand(cast.gap_low);
        place.numerator = (place.numerator << (exponent(magnitude) - low_exponent)) - low;
        place.denominator = (place.denominator << (high_exponent - low_exponent)) - low;
        place.drop = 0;
    }
    return place;
}

// Removes the next 64 binary digits from the position and returns them; `below` says whether any
// digit after them is not zero.
APSCOPE_HD Eta next_digits(GapPlace& place) {
    if (place.drop > 64) {  // the position is below 2^-64, because the numerator is less than twice
                            // the denominator
        place.drop -= 64;
        return {0, place.numerator != 0};
    }
    place.numerator <<= 64 - place.drop;
    place.drop = 0;
    const auto digits = static_cast<std::uint64_t>(place.numerator / place.denominator);
    place.numerator %= place.denominator;
    return {digits, place.numerator != 0};
}

template <RoundingMode M, class Real, class Random>
APSCOPE_HD BitsOf<Real> round_in_gap(BitsOf<Real> magnitude, bool negative, const Cast<Real>& cast,
                                     const Random& random) {
    bool up = false;
    GapPlace place = gap_place<Real>(magnitude, cast);
    if constexpr (M == RoundingMode::stochastic_exact) {
        for (int index = 0; place.numerator != 0; ++index) {
            const std::uint64_t digits = next_digits(place).digits;
            const std::uint64_t drawn = random_digits(random, index);
            up = drawn < digits;
            if (drawn != digits) break;
        }
    } else {
        up = eta_rounds_up<M>(next_digits(place), cast.gap_low_odd, negative, cast.random_bits,
                              random_digits(random, 0));
    }
    return up ? cast.gap_high : cast.gap_low;
}

// Derives a Cast, on the host only. The arguments must have been validated.
template <class Real>
Cast<Real> make_cast(const FloatFormat& format, const Projection& projection);

// Rounds a scalar in the cast's mode.
template <class Real>
Real round_one(Real x, const Cast<Real>& cast, std::uint64_t random = 0);

}  // namespace apscope::detail
