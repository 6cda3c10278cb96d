// a + b, rounded once: the hop of an all-reduce.
//
// The fast path is the fp64 sum rounded to odd. TwoSum gives the rounded sum and its exact error;
// if the error is not zero and the sum's last bit is even, the sum moves one ulp towards the error.
// A second rounding of the round-to-odd sum equals one rounding of the exact sum if fp64 has 2 bits
// more than the format (N + 2 for stochastic rounding with N bits) (Boldo and Melquiond, IEEE TC
// 57(4), 2008). The general path is a wide number (core/wide_number.h), for the stochastic
// roundings that need more bits than fp64 has.
#pragma once

#include "core/wide_number.h"

namespace apscope::detail {

// Returns a + b rounded to odd. The operands must be fp32 numbers, or products of two of them, so
// that their exponents are far inside fp64's range.
APSCOPE_HD double add_to_odd(double a, double b) {
    const double sum = a + b;
    const double b_seen = sum - a;
    const double error = (a - (sum - b_seen)) + (b - b_seen);
    const std::uint64_t bits = bits_cast<std::uint64_t>(sum);
    const std::uint64_t magnitude = bits & ~sign_bit<double>;
    // The step goes away from zero if the error has the sum's sign, else towards zero.
    const bool same_sign = ((bits_cast<std::uint64_t>(error) ^ bits) >> 63) == 0;
    const bool step = error != 0.0 && (bits & 1) == 0 && magnitude < infinity_bits<double>;
    const std::uint64_t moved = same_sign ? bits + 1 : bits - 1;
    return bits_cast<double>(step ? moved : bits);
}

// Returns a + b rounded to odd, with the sign of IEEE 754 6.3: an exact zero from operands of
// different signs is -0 when rounding `down` (toward_negative), else +0.
APSCOPE_HD double sum_to_odd(double a, double b, bool down) {
    const double odd = add_to_odd(a, b);
    const bool opposite = ((bits_cast<std::uint64_t>(a) ^ bits_cast<std::uint64_t>(b)) >> 63) != 0;
    return down & opposite & (odd == 0.0) ? -0.0 : odd;
}

// Returns whether the 53 bits of a round-to-odd number suffice for the cast's rounding. The
// boundaries of a step in the irregular gap have up to two bits more than the boundaries of other
// steps.
APSCOPE_HD bool odd_suffices(const Cast<double>& cast) {
    return cast.mantissa_bits + 1 + (is_stochastic(cast.rounding) ? cast.random_bits : 0) + 2 +
               (cast.gap_high != 0 ? 2 : 0) <=
           53;
}

// One hop of a reduction: a + b rounded once into the cast's format.
template <RoundingMode M>
APSCOPE_HD double add_rounded(double a, double b, const Cast<double>& cast, std::uint64_t random) {
    const double odd = sum_to_odd(a, b, M == RoundingMode::toward_negative);
    if (is_stochastic(M) && !odd_suffices(cast)) {
        const std::uint64_t magnitude = bits_cast<std::uint64_t>(odd) & ~sign_bit<double>;
        if (magnitude != 0 && magnitude < infinity_bits<double>) {
            return wide_to_format<M>(add_aligned(wide(a), wide(b)), cast, random);
        }
    }
    return round_to_format<M, double>(odd, cast, random);
}

}  // namespace apscope::detail
