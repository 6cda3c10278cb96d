// The significant bits, the quantum and the largest exponent of a set of numbers. The theorems
// below, about sums and products in fp32 or fp64 registers, depend on these properties alone.
#pragma once

#include <span>

#include "core/float_format.h"

namespace apscope::detail {

// Every finite number of the set has at most `precision` significant bits, is a multiple of
// 2^quantum and smaller than 2^(top + 1). Infinities and NaN are allowed. A set of zeros has
// precision 0.
struct ValueRange {
    int precision = 0, quantum = 1 << 20, top = -(1 << 20);
    bool only_zeros() const { return precision == 0; }
};

// The range of the values of a format.
ValueRange range_of(const FloatFormat& format);
// The range of the numbers of an array, in one pass.
ValueRange range_of(std::span<const float> values);
// The range of the exact products of a number of set a and a number of set b, and the range of the
// union of both sets.
ValueRange product_range(const ValueRange& a, const ValueRange& b);
ValueRange union_range(const ValueRange& a, const ValueRange& b);

// A floating-point type of the processor, fp32 or fp64, with properties as in ValueRange.
struct Hardware {
    int precision, quantum, top;
};
inline constexpr Hardware fp32_hardware{24, -149, 127}, fp64_hardware{53, -1074, 1023};

// Returns whether the type can represent every number of the set.
bool holds(const Hardware& hardware, const ValueRange& values);
// Returns whether the type can represent every sum of two numbers of the set. Sums are multiples of
// the set's quantum below 2^(top + 2).
// The parameters of the definition have names of one letter, because it is a formula.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
bool sums_are_exact(const Hardware& hardware, const ValueRange& terms);
// Returns whether RN_p(RN_hardware(x + y)) = RN_p(x + y) for numbers x, y of the set, with any rule
// for ties of RN_p, where RN_p rounds to nearest with `precision` bits and `quantum`. The equation
// is true if 2p + 1 <= the hardware's precision and all x, y are numbers of the format with
// unbounded range above (Figueroa, 1995; Flocq, Double_rounding.v, round_round_plus_FLT): an
// inexact hardware sum has a larger operand x on the format's grid and a smaller one below a
// quarter of x's quantum, so both sides are x.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): as above
bool sum_rounds_twice_safely(const Hardware& hardware, const ValueRange& terms, int precision,
                             int quantum);
// Returns whether RN_p(RO_hardware(x + y)) = RN_p(x + y) for any numbers x, y of the type, where RO
// is the rounding to odd. The equation is true if the type has two significant bits more than the
// format, and two binades more at the lower end (Boldo and Melquiond, 2008); a sum beyond the range
// of the type is also beyond the range of the format.
bool sum_to_odd_rounds_safely(const Hardware& hardware, const ValueRange& format);
// Returns whether RN_p(RN_hardware(x y)) = RN_p(x y), with ties to even. The equation is true if
// the hardware has at least P bits, the bits of both factors together, and the hardware's quantum
// is at most 2^(q - P), where q = `quantum`. A product of at least 2^(q - 1), half the least
// number, is then exact. A smaller product becomes 0 on both sides: no rounding moves it past the
// tie, and the tie goes to the even 0.
bool product_rounds_twice_safely(const Hardware& hardware, const ValueRange& a, const ValueRange& b,
                                 int quantum);

}  // namespace apscope::detail
