// Sum, product, quotient, root and fused multiply-add, each rounded once.
//
// Operands are fp32 numbers held in fp64. Fast path: the exact result (a product has 48 bits), or
// the exact result rounded to odd in fp64's 53 bits, which serves every later rounding that needs
// at most 51 of them (Boldo and Melquiond, IEEE TC 57(4), 2008). Stochastic rounding with more
// random bits takes the result as a 128-bit integer with a sticky bit instead. Infinities, NaN and
// signs of zero are those of IEEE 754's operations on fp64, which the final cast then projects.
#pragma once

#include "core/exact_sum.h"

namespace apscope {

enum class Operation { add, subtract, multiply, divide, sqrt, fma };
inline constexpr int operation_count = 6;

// The rounded x moved to odd, where the exact number is farther from zero or nearer to it than x.
APSCOPE_HD double step_to_odd(double x, bool farther, bool nearer) {
    const std::uint64_t bits = bits_cast<std::uint64_t>(x);
    const bool step = (farther | nearer) & ((bits & 1) == 0) & ((bits & ~sign_bit<double>) < infinity_bits<double>);
    const std::uint64_t ulp = static_cast<std::uint64_t>(step);
    return bits_cast<double>(farther ? bits + ulp : bits - ulp);
}

// x without its last `bits` significand bits: the high part of an exact product of two halves.
APSCOPE_HD double high_part(double x, int bits) {
    return bits_cast<double>(bits_cast<std::uint64_t>(x) & ~std::uint64_t{0} << bits);
}

// The sum of two numbers of at most 53 bits. IEEE 754 6.3: an exact zero from operands of different
// signs is -0 when rounding `down` (toward_negative), else +0.
APSCOPE_HD double sum_to_odd(double a, double b, bool down) {
    const double odd = add_to_odd(a, b);
    const bool opposite = ((bits_cast<std::uint64_t>(a) ^ bits_cast<std::uint64_t>(b)) >> 63) != 0;
    return down & opposite & (odd == 0.0) ? -0.0 : odd;
}

// The remainder a - q b is exact without a fused multiply-add: 29 and 24 bits of q times 24 of b.
APSCOPE_HD double divide_to_odd(double a, double b) {
    const double q = a / b;
    const double high = high_part(q, 24);
    const double remainder = (a - high * b) - (q - high) * b;
    // The exact quotient is farther from zero if the remainder has a's sign. (NaN compares false.)
    const bool positive = remainder > 0, negative = remainder < 0;
    return step_to_odd(q, a > 0 ? positive : negative, a > 0 ? negative : positive);
}

// x against r^2 = high^2 + 2 high low + low^2, with 26 and 27 bits of r. All but low^2 is exact, and
// low^2 is off by one unit of its 54 at most; x - r^2 is never one such unit, as r^2 would then end
// in ...0001 with more zeros than an odd r of 53 bits allows.
APSCOPE_HD double sqrt_to_odd(double x) {
    const double r = __builtin_sqrt(x);
    const double high = high_part(r, 27), low = r - high;
    const double rest = (x - high * high) - 2 * high * low;
    const double square = low * low;
    return step_to_odd(r, rest > square, rest < square);
}

// The exact result, or the odd one. Unused operands are ignored.
template <Operation Op>
APSCOPE_HD double to_odd(double a, double b, double c, bool down) {
    if constexpr (Op == Operation::add) return sum_to_odd(a, b, down);
    if constexpr (Op == Operation::subtract) return sum_to_odd(a, -b, down);
    if constexpr (Op == Operation::multiply) return a * b;
    if constexpr (Op == Operation::divide) return divide_to_odd(a, b);
    if constexpr (Op == Operation::sqrt) return sqrt_to_odd(a);
    if constexpr (Op == Operation::fma) return sum_to_odd(a * b, c, down);
}

// 24 significand bits and the exponent of the last of them, of a nonzero fp32 number.
struct Significand24 {
    std::uint64_t significand;
    int unit;
};
APSCOPE_HD Significand24 significand24(double x) {
    const std::uint64_t bits = bits_cast<std::uint64_t>(x);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    return {(fraction | std::uint64_t{1} << 52) >> 29, static_cast<int>(bits >> 52 & 0x7FF) - 1023 - 23};
}

// The quotient with 102 or 103 bits, the last sticky.
APSCOPE_HD WideSum divide_wide(double a, double b) {
    using Wide = unsigned __int128;
    const Significand24 x = significand24(a), y = significand24(b);
    const Wide dividend = static_cast<Wide>(x.significand) << 102;
    const Wide quotient = dividend / y.significand;
    const Wide sticky = quotient * y.significand != dividend ? 1 : 0;
    const bool negative = ((bits_cast<std::uint64_t>(a) ^ bits_cast<std::uint64_t>(b)) >> 63) != 0;
    return {quotient | sticky, x.unit - y.unit - 102, negative};
}

// The root of a positive number digit by digit, with 104 bits or so, the last sticky.
APSCOPE_HD WideSum sqrt_wide(double x) {
    using Wide = unsigned __int128;
    const Significand24 s = significand24(x);
    // The radicand is an even power of two times 26 bits, read two at a time, then zeros.
    const int parity = s.unit & 1;
    const std::uint64_t radicand = s.significand << parity;
    constexpr int leading_pairs = 13, digits = 104;
    Wide root = 0, rest = 0;
    for (int i = 0; i < digits; ++i) {
        const std::uint64_t pair = i < leading_pairs ? radicand >> (2 * (leading_pairs - 1 - i)) & 3 : 0;
        rest = rest << 2 | pair;
        const Wide trial = root << 2 | 1;
        root <<= 1;
        if (rest >= trial) {
            rest -= trial;
            root |= 1;
        }
    }
    return {root | (rest != 0 ? 1 : 0), (s.unit - parity) / 2 - (digits - leading_pairs), false};
}

template <Operation Op>
APSCOPE_HD WideSum exact_wide(double a, double b, double c) {
    if constexpr (Op == Operation::subtract) return add_wide(a, -b);
    if constexpr (Op == Operation::divide) return divide_wide(a, b);
    if constexpr (Op == Operation::sqrt) return sqrt_wide(a);
    if constexpr (Op == Operation::fma) return add_wide(a * b, c);
    return add_wide(a, b);
}

// A nonzero wide number into the cast's format, which must have no irregular gap.
template <RoundingMode M>
APSCOPE_HD double wide_to_format(const WideSum& exact, const Cast<double>& cast, std::uint64_t random) {
    const std::uint64_t rounded = bits_cast<std::uint64_t>(round_wide<M>(exact, cast, random));
    return bits_cast<double>(
        finish<double>(rounded, bits_cast<std::uint64_t>(1.0), exact.negative ? sign_bit<double> : 0, cast));
}

// The rule of arithmetic: one operation, one rounding. Where a format has an irregular gap, the odd
// number must suffice (odd_sum_suffices); callers refuse more random bits.
template <Operation Op, RoundingMode M>
APSCOPE_HD double operate(double a, double b, double c, const Cast<double>& cast, std::uint64_t random) {
    const double odd = to_odd<Op>(a, b, c, M == RoundingMode::toward_negative);
    if constexpr (is_stochastic(M) && Op != Operation::multiply) {
        const std::uint64_t magnitude = bits_cast<std::uint64_t>(odd) & ~sign_bit<double>;
        if (!odd_sum_suffices(cast.mantissa_bits, M, cast.random_bits) && cast.gap_high == 0 && magnitude != 0 &&
            magnitude < infinity_bits<double>) {
            // A sum with an infinite operand is not finite; a quotient by one is zero.
            return wide_to_format<M>(exact_wide<Op>(a, b, c), cast, random);
        }
    }
    return round_to_format<M, double>(odd, cast, random);
}

}  // namespace apscope
