// Exact numbers wider than fp64: a 128-bit significand whose last bit is sticky, and their
// rounding.
//
//      (-1)^negative * significand * 2^unit         significand   0|0|1xxxxxxxxxxxx...xxxs
//                                                   bit           127 125               0
// s = 1 means that nonzero bits below bit 0 were cut off: the exact number is strictly between the
// two neighbouring wide numbers, both even. A rounding to precision p with N random bits compares
// the number with the values of the format, their midpoints and the multiples of 2^-N of a step,
// which have at most p + N + 2 <= 53 + 64 + 2 = 119 bits. A wide number has at least 122 (a root; a
// quotient has 124, the others 125), so an odd wide number equals none of these numbers and lies on
// the same side of each as the exact number: both are rounded to the same value (Boldo and
// Melquiond, IEEE TC 57(4), 2008).
#pragma once

#include "core/rounding.h"

namespace apscope::detail {

struct WideNumber {
    unsigned __int128 significand;  // 0 for zero
    int unit;
    bool negative;
};

APSCOPE_HD int leading_bit(std::uint64_t x) { return 63 - __builtin_clzll(x); }
APSCOPE_HD int leading_bit(unsigned __int128 x) {
    const std::uint64_t top = static_cast<std::uint64_t>(x >> 64);
    return top != 0 ? 64 + leading_bit(top) : leading_bit(static_cast<std::uint64_t>(x));
}

// The significand of a finite, nonzero fp64 number: 53 bits, the leading one at bit 52, in units of
// 2^unit.
struct Significand53 {
    std::uint64_t bits;
    int unit;
};
APSCOPE_HD Significand53 significand53(std::uint64_t magnitude) {
    const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << 52) - 1);
    const int field = static_cast<int>(magnitude >> 52);
    if (field != 0) return {fraction | std::uint64_t{1} << 52, field - 1075};
    const int up = 52 - leading_bit(fraction);
    return {fraction << up, -1074 - up};
}

// Returns the wide number with its leading one moved to bit 125. The leading one may be at bit 126
// after a carry; then the bit that is shifted out is combined with the sticky bit.
APSCOPE_HD WideNumber aligned(unsigned __int128 significand, int unit, bool negative) {
    const int up = 125 - leading_bit(significand);
    if (up < 0) return {significand >> 1 | (significand & 1), unit + 1, negative};
    return {significand << up, unit - up, negative};
}
APSCOPE_HD WideNumber wide(double x) {
    const std::uint64_t bits = bits_cast<std::uint64_t>(x), magnitude = bits & ~sign_bit<double>;
    const bool negative = bits != magnitude;
    if (magnitude == 0) return {0, 0, negative};
    const Significand53 s = significand53(magnitude);
    return aligned(s.bits, s.unit, negative);
}

// The sum of two aligned numbers, or of one and zero. A product has 106 of the 126 bits, an fp64
// number 53, so the lowest 20 bits of both are zeros. If the smaller one loses bits, it was
// therefore shifted down by more than 20 places, is below 2^-20 of the larger, and cancels at most
// one bit: the leading bit of the sum is at 124 or above. The last bit of the sum is sticky,
// because the last bit of the larger number is 0 and `low` is made odd.
APSCOPE_HD WideNumber add_aligned(WideNumber x, WideNumber y) {
    using Wide = unsigned __int128;
    if (y.significand == 0) return x;
    if (x.significand == 0) return y;
    if (x.unit < y.unit || (x.unit == y.unit && x.significand < y.significand)) {
        const WideNumber t = x;
        x = y;
        y = t;
    }
    const int drop = x.unit - y.unit;
    const Wide lost = drop < 128 ? y.significand & ((Wide{1} << drop) - 1) : y.significand;
    const Wide low = (drop < 128 ? y.significand >> drop : 0) | (lost != 0 ? 1 : 0);
    return {x.negative != y.negative ? x.significand - low : x.significand + low, x.unit,
            x.negative};
}

// Compares |w|, which is not zero, with an fp64 magnitude: -1 if |w| is smaller, 0 if they are
// equal, 1 if it is larger.
APSCOPE_HD int compare_magnitude(const WideNumber& w, std::uint64_t magnitude) {
    const WideNumber x = aligned(w.significand, w.unit, false),
                     y = wide(bits_cast<double>(magnitude));
    if (y.significand == 0) return 1;
    if (x.unit != y.unit) return x.unit < y.unit ? -1 : 1;
    return x.significand < y.significand ? -1 : x.significand > y.significand;
}

// The position of a wide number in the irregular gap, as a fraction of the gap (eta).
APSCOPE_HD Eta gap_eta(const WideNumber& w, const Cast<double>& cast) {
    using Wide = unsigned __int128;
    const Significand53 high = significand53(cast.gap_high);
    Wide numerator = w.significand, denominator = high.bits;
    int unit = high.unit;  // the unit of the denominator
    if (cast.gap_low != 0) {
        const Significand53 low = significand53(cast.gap_low);
        unit = low.unit;  // the numerator's unit is far smaller, because the leading ones are at
                          // most two places apart
        denominator = (denominator << (high.unit - low.unit)) - low.bits;
        numerator -= static_cast<Wide>(low.bits) << (low.unit - w.unit);
    }
    // eta 2^64 = (quotient + rest / denominator) 2^-down
    const Wide quotient = numerator / denominator, rest = numerator % denominator;
    // `down` is at least 7, because w has 125 bits below its leading one.
    const int down = unit - w.unit - 64;
    if (down >= 128) return {0, true};
    return {static_cast<std::uint64_t>(quotient >> down),
            (quotient & ((Wide{1} << down) - 1)) != 0 || rest != 0};
}

// The bits of k 2^unit as an fp64 magnitude, or of infinity if the number is too large. The number
// must be representable without rounding.
APSCOPE_HD std::uint64_t assemble(std::uint64_t k, int unit) {
    if (k == 0) return 0;
    const int leading = leading_bit(k), exponent = leading + unit;
    if (exponent > 1023) return infinity_bits<double>;
    if (exponent < -1022) return k << (unit + 1074);
    const std::uint64_t aligned_k = leading <= 52 ? k << (52 - leading) : k >> (leading - 52);
    return static_cast<std::uint64_t>(exponent + 1023) << 52 |
           (aligned_k & ((std::uint64_t{1} << 52) - 1));
}

// The magnitude of a wide number that is not zero, rounded as round_magnitude() does.
template <RoundingMode M>
APSCOPE_HD std::uint64_t round_wide(const WideNumber& w, const Cast<double>& cast,
                                    std::uint64_t random) {
    using Wide = unsigned __int128;
    if (cast.gap_high != 0 && compare_magnitude(w, cast.gap_low) > 0 &&
        compare_magnitude(w, cast.gap_high) < 0) {
        const Eta eta = gap_eta(aligned(w.significand, w.unit, false), cast);
        return eta_rounds_up<M>(eta, cast.gap_low_odd, w.negative, cast.random_bits, random)
                   ? cast.gap_high
                   : cast.gap_low;
    }
    const int exponent = leading_bit(w.significand) + w.unit;
    const int quantum_exponent = (exponent > cast.emin ? exponent : cast.emin) - cast.mantissa_bits;
    const int shift = quantum_exponent > w.unit ? quantum_exponent - w.unit : 0;
    const Wide kept = shift < 128 ? w.significand >> shift : 0;  // at most 53 bits
    const Wide rest = shift < 128 ? w.significand - (kept << shift) : w.significand;
    const bool odd = ((kept & 1) != 0) & (!cast.even_code_ties | ((exponent + cast.bias) % 2 != 0));
    const bool up =
        eta_rounds_up<M>(eta_of(rest, shift), odd, w.negative, cast.random_bits, random);
    return assemble(static_cast<std::uint64_t>(kept) + (up ? 1 : 0), w.unit + shift);
}

// Rounds a nonzero wide number to the cast's format.
template <RoundingMode M>
APSCOPE_HD double wide_to_format(const WideNumber& w, const Cast<double>& cast,
                                 std::uint64_t random) {
    const std::uint64_t rounded = round_wide<M>(w, cast, random);
    return bits_cast<double>(finish<double>(rounded, bits_cast<std::uint64_t>(1.0),
                                            w.negative ? sign_bit<double> : 0, cast));
}

}  // namespace apscope::detail
