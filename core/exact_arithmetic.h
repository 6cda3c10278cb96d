// Sum, product, quotient, root and fused multiply-add, each rounded once.
//
// Of fp32 numbers (held in fp64): the exact result (a product has 48 bits), or the exact result
// rounded to odd in fp64's 53 bits, which is enough for every later rounding that needs at most 51
// of them (Boldo and Melquiond, IEEE TC 57(4), 2008). Of any fp64 numbers, and for more bits: a
// wide number. Infinities, NaN and signs of zero are those of IEEE 754's operations on fp64, which
// the final cast then projects.
#pragma once

#include "core/exact_sum.h"

namespace apscope::detail {

enum class Operation { add, subtract, multiply, divide, sqrt, fma };
inline constexpr int operation_count = 6;

// The rounded x moved to odd, if the exact number is farther from zero or nearer to it than x.
APSCOPE_HD double step_to_odd(double x, bool farther, bool nearer) {
    const std::uint64_t bits = bits_cast<std::uint64_t>(x);
    const bool step = (farther | nearer) & ((bits & 1) == 0) &
                      ((bits & ~sign_bit<double>) < infinity_bits<double>);
    const std::uint64_t ulp = static_cast<std::uint64_t>(step);
    return bits_cast<double>(farther ? bits + ulp : bits - ulp);
}

// x without its last `bits` significand bits: the high part of an exact product of two halves.
APSCOPE_HD double high_part(double x, int bits) {
    return bits_cast<double>(bits_cast<std::uint64_t>(x) & ~std::uint64_t{0} << bits);
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

// x against r^2 = high^2 + 2 high low + low^2, with 26 and 27 bits of r. All but low^2 is exact,
// and low^2 is off by one unit of its 54 at most; x - r^2 is never one such unit, as r^2 would then
// end in ...0001 with more zeros than an odd r of 53 bits allows.
APSCOPE_HD double sqrt_to_odd(double x) {
    const double r = __builtin_sqrt(x);
    const double high = high_part(r, 27), low = r - high;
    const double rest = (x - high * high) - 2 * high * low;
    const double square = low * low;
    return step_to_odd(r, rest > square, rest < square);
}

// The exact result, or the odd one, of fp32 numbers. Unused operands are ignored.
template <Operation Op>
APSCOPE_HD double to_odd(double a, double b, double c, bool down) {
    if constexpr (Op == Operation::add) return sum_to_odd(a, b, down);
    if constexpr (Op == Operation::subtract) return sum_to_odd(a, -b, down);
    if constexpr (Op == Operation::multiply) return a * b;
    if constexpr (Op == Operation::divide) return divide_to_odd(a, b);
    if constexpr (Op == Operation::sqrt) return sqrt_to_odd(a);
    if constexpr (Op == Operation::fma) return sum_to_odd(a * b, c, down);
}

// Wide results, of finite fp64 numbers
// ----------------------------------------------------------------

// All 106 bits.
APSCOPE_HD WideNumber multiply_wide(double a, double b) {
    const WideNumber x = wide(a), y = wide(b);
    const bool negative = x.negative != y.negative;
    if (x.significand == 0 || y.significand == 0) return {0, 0, negative};
    // Both have 53 bits from bit 73 up.
    return aligned((x.significand >> 73) * (y.significand >> 73), x.unit + y.unit + 2 * 73,
                   negative);
}

// 124 or 125 bits of the quotient of two numbers that are not zero, the last sticky: 64 and then 60
// more.
APSCOPE_HD WideNumber divide_wide(double a, double b) {
    using Wide = unsigned __int128;
    const WideNumber x = wide(a), y = wide(b);
    const auto divisor = static_cast<std::uint64_t>(y.significand >> 73);
    const Wide dividend = x.significand >> 73 << 64;
    const Wide rest = (dividend % divisor) << 60;
    const Wide quotient = (dividend / divisor) << 60 | rest / divisor;
    return {quotient | (rest % divisor != 0 ? 1 : 0), x.unit - y.unit - 124,
            x.negative != y.negative};
}

// An integer's root, rounded down, and the remainder of its square: rest = x - root^2 <= 2 root.
struct Root {
    unsigned __int128 root;
    __int128 rest;
};
// That of x 4^digits, for 2^digits <= root: the quotient q of the rest and twice the root gives the
// next digits, or one unit too much if q^2 exceeds the remainder (Zimmermann, INRIA RR-3805, 1999).
APSCOPE_HD Root with_more_digits(Root x, int digits) {
    using Wide = unsigned __int128;
    const Wide rest = static_cast<Wide>(x.rest) << digits, q = rest / (x.root << 1);
    Root next{(x.root << digits) + q, static_cast<__int128>((rest - q * (x.root << 1)) << digits) -
                                          static_cast<__int128>(q * q)};
    if (next.rest < 0) {
        next.rest += static_cast<__int128>((next.root << 1) - 1);
        --next.root;
    }
    return next;
}

// 122 bits of the root of a positive number, the last sticky: 53 from fp64's root, then 9 and 60
// more.
APSCOPE_HD WideNumber sqrt_wide(double x) {
    using Wide = unsigned __int128;
    const Significand53 s = significand53(bits_cast<std::uint64_t>(x));
    const int parity = s.unit & 1;
    const std::uint64_t radicand = s.bits << parity;  // times an even power of two
    // fp64's root of at least 2^26 counts units of 2^-26, and is one unit too large at most.
    const auto rounded =
        static_cast<std::uint64_t>(__builtin_sqrt(static_cast<double>(radicand)) * 0x1p26);
    Root root{rounded, static_cast<__int128>(static_cast<Wide>(radicand) << 52) -
                           static_cast<__int128>(static_cast<Wide>(rounded) * rounded)};
    if (root.rest < 0) {
        root.rest += static_cast<__int128>(2 * rounded - 1);
        --root.root;
    }
    root = with_more_digits(with_more_digits(root, 9), 60);
    return {root.root | (root.rest != 0 ? 1 : 0), (s.unit - parity) / 2 - (26 + 9 + 60), false};
}

template <Operation Op>
APSCOPE_HD WideNumber exact_wide(double a, double b, double c) {
    if constexpr (Op == Operation::add) return add_aligned(wide(a), wide(b));
    if constexpr (Op == Operation::subtract) return add_aligned(wide(a), wide(-b));
    if constexpr (Op == Operation::multiply) return multiply_wide(a, b);
    if constexpr (Op == Operation::divide) return divide_wide(a, b);
    if constexpr (Op == Operation::sqrt) return sqrt_wide(a);
    if constexpr (Op == Operation::fma) return add_aligned(multiply_wide(a, b), wide(c));
}

APSCOPE_HD bool is_finite(double x) {
    return (bits_cast<std::uint64_t>(x) & ~sign_bit<double>) < infinity_bits<double>;
}

// Operands whose result is infinite, NaN or an exact zero: fp64 is correct.
template <Operation Op>
APSCOPE_HD bool is_special(double a, double b, double c) {
    if constexpr (Op == Operation::sqrt) return !(is_finite(a) && a > 0);
    if constexpr (Op == Operation::multiply || Op == Operation::divide)
        return !(is_finite(a) && is_finite(b)) || a == 0 || b == 0;
    if constexpr (Op == Operation::fma)
        return !(is_finite(a) && is_finite(b) && is_finite(c)) || ((a == 0 || b == 0) && c == 0);
    return !(is_finite(a) && is_finite(b)) || (a == 0 && b == 0);
}
template <Operation Op>
APSCOPE_HD double special_result(double a, double b, double c, bool down) {
    if constexpr (Op == Operation::divide) return a / b;
    if constexpr (Op == Operation::sqrt) return __builtin_sqrt(a);
    if constexpr (Op == Operation::fma) {
        // fp64's product of finite numbers may be infinite although the exact one is not.
        if (is_finite(a) && is_finite(b) && !is_finite(c)) return c;
    }
    return to_odd<Op>(a, b, c, down);
}

// The rule of arithmetic on any fp64 numbers: one operation, one rounding.
template <Operation Op, RoundingMode M>
APSCOPE_HD double operate_wide(double a, double b, double c, const Cast<double>& cast,
                               std::uint64_t random) {
    constexpr bool down = M == RoundingMode::toward_negative;
    if (is_special<Op>(a, b, c))
        return round_to_format<M, double>(special_result<Op>(a, b, c, down), cast, random);
    const WideNumber exact = exact_wide<Op>(a, b, c);
    if (exact.significand == 0) return round_to_format<M, double>(down ? -0.0 : 0.0, cast, random);
    return wide_to_format<M>(exact, cast, random);
}

}  // namespace apscope::detail
