// a + b, rounded once.
//
// Fast path: the fp64 sum rounded to odd. TwoSum gives the rounded sum and its exact error; if the
// error is not zero and the sum's last bit is even, the sum moves one ulp towards the error. A
// round-to-odd intermediate with 2 spare bits (N + 2 for stochastic rounding with N bits) serves
// every later rounding exactly (Boldo and Melquiond, IEEE TC 57(4), 2008).
// General path: both operands as integers in 128 bits with a sticky bit, for the stochastic
// roundings that need more bits than fp64 has. (Not inside an irregular gap: there a probability is
// that of the 53 bits.)
#pragma once

#include "core/rounding.h"

namespace apscope {

// Operands must be fp32-born (at most 53 significant bits, exponents far inside fp64's range).
APSCOPE_HD double add_to_odd(double a, double b) {
    const double sum = a + b;
    const double b_seen = sum - a;
    const double error = (a - (sum - b_seen)) + (b - b_seen);
    const std::uint64_t bits = bits_cast<std::uint64_t>(sum);
    const std::uint64_t magnitude = bits & ~sign_bit<double>;
    // Towards the error: away from zero if it has the sum's sign, else towards zero.
    const bool same_sign = ((bits_cast<std::uint64_t>(error) ^ bits) >> 63) == 0;
    const bool step = error != 0.0 && (bits & 1) == 0 && magnitude < infinity_bits<double>;
    const std::uint64_t moved = same_sign ? bits + 1 : bits - 1;
    return bits_cast<double>(step ? moved : bits);
}

// Do the 53 bits of a round-to-odd sum suffice for this rounding?
APSCOPE_HD bool odd_sum_suffices(int mantissa_bits, RoundingMode mode, int random_bits) {
    return !is_stochastic(mode) || mantissa_bits + 1 + random_bits + 2 <= 53;
}

// The exact sum as significand * 2^unit, the significand's last bit sticky.
struct WideSum {
    unsigned __int128 significand;
    int unit;
    bool negative;
};

APSCOPE_HD WideSum add_wide(double a, double b) {
    using Wide = unsigned __int128;
    std::uint64_t x = bits_cast<std::uint64_t>(a), y = bits_cast<std::uint64_t>(b);
    if ((x & ~sign_bit<double>) < (y & ~sign_bit<double>)) {
        const std::uint64_t t = x;
        x = y;
        y = t;
    }
    const auto significand = [](std::uint64_t v) -> Wide {
        const std::uint64_t fraction = v & ((std::uint64_t{1} << 52) - 1);
        return (v >> 52 & 0x7FF) != 0 ? fraction | std::uint64_t{1} << 52 : 0;  // no fp64 subnormals here
    };
    const int large = static_cast<int>(x >> 52 & 0x7FF), small = static_cast<int>(y >> 52 & 0x7FF);
    const Wide high = significand(x) << 73;  // leading one at bit 125
    Wide low = significand(y) << 73;
    const int drop = large - small;
    if (drop > 0) {
        const Wide lost = drop < 128 ? low & ((Wide{1} << drop) - 1) : low;
        low = (drop < 128 ? low >> drop : 0) | (lost != 0 ? 1 : 0);
    }
    const bool opposite = ((x ^ y) >> 63) != 0;
    return {opposite ? high - low : high + low, large - 1023 - 52 - 73, (x >> 63) != 0};
}

template <RoundingMode M>
APSCOPE_HD double round_wide(const WideSum& sum, const Cast<double>& cast, std::uint64_t random) {
    using Wide = unsigned __int128;
    const std::uint64_t top = static_cast<std::uint64_t>(sum.significand >> 64);
    const int leading = top != 0 ? 127 - __builtin_clzll(top) : 63 - __builtin_clzll(static_cast<std::uint64_t>(sum.significand));
    const int exponent = leading + sum.unit;
    const int quantum_exponent = (exponent > cast.emin ? exponent : cast.emin) - cast.mantissa_bits;
    const int shift = quantum_exponent > sum.unit ? quantum_exponent - sum.unit : 0;
    const int capped = shift < 127 ? shift : 127;
    const Wide kept = sum.significand >> capped;
    // Further down than 127 places the sum is below half a unit: only that it is not zero counts,
    // except to random words, which look at the true shift.
    const Wide rest = shift > 127 && !is_stochastic(M) ? 1 : sum.significand & ((Wide{1} << capped) - 1);
    Wide odd = kept & 1;
    if (cast.even_code_ties) odd &= static_cast<Wide>(exponent + cast.bias);
    const bool up = round_up<M, Wide>(1, rest, shift, static_cast<Wide>(capped), odd, sum.negative, cast.random_bits, random);
    // kept + up has at most mantissa_bits + 2 bits: exact in fp64, and so is the power of two.
    const double unit = bits_cast<double>(static_cast<std::uint64_t>(sum.unit + shift + 1023) << 52);
    const double rounded = static_cast<double>(static_cast<std::uint64_t>(kept + (up ? 1 : 0))) * unit;
    return rounded;
}

// One hop of a reduction: a + b rounded once into the cast's format.
template <RoundingMode M>
APSCOPE_HD double add_rounded(double a, double b, const Cast<double>& cast, std::uint64_t random) {
    double odd = add_to_odd(a, b);
    // IEEE 754 6.3: x + (-x) is -0 under roundTowardNegative, else +0.
    if (M == RoundingMode::toward_negative) {
        const bool opposite = ((bits_cast<std::uint64_t>(a) ^ bits_cast<std::uint64_t>(b)) >> 63) != 0;
        odd = odd == 0.0 && opposite ? -0.0 : odd;
    }
    if (is_stochastic(M) && !odd_sum_suffices(cast.mantissa_bits, M, cast.random_bits)) {
        const std::uint64_t bits = bits_cast<std::uint64_t>(odd);
        const std::uint64_t magnitude = bits & ~sign_bit<double>;
        const bool in_gap = magnitude > cast.gap_low && magnitude < cast.gap_high;
        if (magnitude != 0 && magnitude < infinity_bits<double> && !in_gap) {
            const std::uint64_t rounded = bits_cast<std::uint64_t>(round_wide<M>(add_wide(a, b), cast, random));
            return bits_cast<double>(finish<double>(rounded, magnitude, bits & sign_bit<double>, cast));
        }
    }
    return round_to_format<M, double>(odd, cast, random);
}

}  // namespace apscope
