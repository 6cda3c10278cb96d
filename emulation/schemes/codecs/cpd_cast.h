// The cast of CPD, the published emulator of Auto Precision Scaling, with the behaviour of CPD's
// code instead of IEEE 754's. It rounds to nearest, ties to even (at m = 0, where the implicit bit
// decides, ties go up), but
//
// - overflow is decided before rounding: a number that rounds up beyond the largest number gives
//   2^(E+1), not infinity;
// - before a subnormal result is rounded, the bits that are shifted out are lost, so that a number
//   just above a tie counts as a tie;
// - inputs that are subnormal in fp32 give +0, for both signs and every format.
//
// Infinities, NaNs and zeros are not changed. The rounding of core/rounding.h is independent of
// this cast.
#pragma once

#include <span>

namespace apscope::detail {

// The cast of a number; exponent_bits from 2 to 8, mantissa_bits from 0 to 22, IEEE 754's bias.
float cpd_cast(float x, int exponent_bits, int mantissa_bits);
// The cast of a row; `out` may be `in`.
void cpd_cast(std::span<const float> in, std::span<float> out, int exponent_bits,
              int mantissa_bits);

// CPD's exponent of a magnitude: ceil(fl32(log2 x)), the logarithm rounded once to fp32. If x
// exceeds a power of two by so little that the logarithm is rounded to an integer, the result is
// floor(log2 x), not floor(log2 x) + 1. The result is -inf for 0, and x for infinity and NaN.
float cpd_exponent(float x);

}  // namespace apscope::detail
