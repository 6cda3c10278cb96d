// Arithmetic that rounds once: sum, difference, product, quotient, root and fused multiply-add.
//
// For fp32 operands (stored in fp64), a function returns the exact result (a product has 48 bits),
// or the exact result rounded to odd in fp64's 53 bits, which is enough for every later rounding
// that needs at most 51 bits (Boldo and Melquiond, IEEE TC 57(4), 2008). For any fp64 operands, and
// for roundings that need more bits, other functions return a wide number. Infinities, NaNs and
// signs of zeros follow IEEE 754's operations on fp64; the final cast converts them to the format.
#pragma once

#include "core/exact_sum.h"

namespace apscope::detail {

enum class Operation { add, subtract, multiply, divide, sqrt, fma };
inline constexpr int operation_count = 6;

// Moves a rounded x by one ulp towards the exact number if the last bit of x is even and the exact
// number is farther from zero than x (`farther`) or nearer to zero (`nearer`).
APSCOPE_HD double step_to_odd(double x, bool farther, bool nearer) {
    const std::uint64_t bits = bits_cast<std::uint64_t>(x);
    const bool step = (farther | nearer) & ((bits & 1) == 0) &
                      ((bits & ~sign_bit<double>) < infinity_bits<double>);
    const std::uint64_t ulp = static_cast<std::uint64_t>(step);
    return bits_cast<double>(farther ? bits + ulp : bits - ulp);
}

// Returns x with its last `bits` significand bits cleared, so that products of such numbers are
// exact.
APSCOPE_HD double high_part(double x, int bits) {
    return bits_cast<double>(bits_cast<std::uint64_t>(x) & ~std::uint64_t{0} << bits);
}

// The remainder a - q b is exact without a fused multiply-add, because q is split into parts of 29
// and 24 bits, and b has 24 bits.
APSCOPE_HD double divide_to_odd(double a, double b) {
    const double q = a / b;
    const double high = high_part(q, 24);
    const double remainder = (a - high * b) - (q - high) * b;
    // The exact quotient is farther from zero if the remainder has a's sign. (Comparisons with NaN
    // are false.)
    const bool positive = remainder > 0, negative = remainder < 0;
    return step_to_odd(q, a > 0 ? positive : negative, a > 0 ? negative : positive);
}

// Compares x with r^2 = high^2 + 2 high low + low^2, where high and low have 26 and 27 bits of r.
// All terms but low^2 are exact, and low^2 has an error of at most one unit of its 54 bits; x - r^2
// is never one such unit, because r^2 would then end in ...0001 with more zeros than an odd r of 53
// bits allows.
APSCOPE_HD double sqrt_to_odd(double x) {
    const double r = __builtin_sqrt(x);
    const double high = high_part(r, 27), low = r - high;
    const double rest = (x - high * high) - 2 * high * low;
    const double square = low * low;
    return step_to_odd(r, rest > square, rest < square);
}

// The result of an operation on fp32 operands, exact or rounded to odd. Operands that the operation
// does not take are ignored.
template <Operation Op>
APSCOPE_HD double to_odd(double a, double b, double c, bool down) {
    if constexpr (Op == Operation::add) return sum_to_odd(a, b, down);
    if constexpr (Op == Operation::subtract) return sum_to_odd(a, -b, down);
    if constexpr (Op == Operation::multiply) return a * b;
    if constexpr (Op == Operation::divide) return divide_to_odd(a, b);
    if constexpr (Op == Operation::sqrt) return sqrt_to_odd(a);
    if constexpr (Op == Operation::fma) return sum_to_odd(a * b, c, down);
}

// Wide results of finite fp64 operands ---------------------------------------------------------

// Returns the exact product, which has up to 106 bits.
APSCOPE_HD WideNumber multiply_wide(double a, double b) {
    const WideNumber x = wide(a), y = wide(b);
    const bool negative = x.negative != y.negative;
    if (x.significand == 0 || y.significand == 0) return {0, 0, negative};
    // Both significands have 53 bits, from bit 73 up.
    return aligned((x.significand >> 73) * (y.significand >> 73), x.unit + y.unit + 2 * 73,
                   negative);
}

// The quotient of two nonzero numbers in 124 or 125 bits, the last of them sticky. Two integer
// divisions give 64 bits, then 60 more.
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

// The square root of an integer x, rounded down, and its remainder: rest = x - root^2 <= 2 root.
struct Root {
    unsigned __int128 root;
    __int128 rest;
};
// Extends the root of an integer to the root of that integer times 4^digits, for 2^digits <= root.
// The quotient q of the rest and twice the root gives the next digits, or one unit too much if q^2
// exceeds the remainder (Zimmermann, INRIA RR-3805, 1999).
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

// The root of a positive number in 122 bits, the last of them sticky. fp64's root gives 53 bits;
// with_more_digits() then gives 9 and 60 more.
APSCOPE_HD WideNumber sqrt_wide(double x) {
    using Wide = unsigned __int128;
    const Significand53 s = significand53(bits_cast<std::uint64_t>(x));
    const int parity = s.unit & 1;
    const std::uint64_t radicand = s.bits << parity;  // x is radicand times an even power of two
    // fp64's root is at least 2^26, so the last place of the root is at least 2^-26, and `rounded`
    // is at most one unit too large.
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

// Returns whether the operands are special (infinite, NaN, a negative radicand, or zeros that make
// the result zero or infinite). Then fp64's own result is correct.
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

// Computes one operation on any fp64 numbers and rounds the exact result once to the cast's format.
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
