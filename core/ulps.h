// The position of a number in a float grid: its error in units in the last place, and whether it is
// below the smallest normal number or beyond the largest.
#pragma once

#include <cstdint>

#include "core/bits.h"

namespace apscope::detail {

// On a GPU the magnitude of an fp64 number is an operand of an instruction, at no cost.
template <class Real>
APSCOPE_HD Real absolute(Real x) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(Real) == sizeof(double)) return fabs(x);
#endif
    return bits_cast<Real>(bits_cast<BitsOf<Real>>(x) & ~sign_bit<Real>);
}

// The way to convert an error e of a number x to ulps. x and e are in units of U, and the format
// rounds S times the number. `scaled` gives |e| U S 2^-q, multiplied in this order, with q =
// max(floor(log2(U S |x|)), emin) - m; `shifted` gives the same for U = 1 and S = 2^k, by exponents
// alone; `none` computes nothing.
enum class Ulps { none, shifted, scaled };

// The constants of the conversion. The bits of 2^-q are `top` minus the larger of `min` and the
// exponent field of U S |x|. All values of the format must be fp32 numbers.
struct UlpScale {
    std::int64_t min;
    std::uint64_t top;    // unsigned, because it is beyond the range of a signed number
    double scale, units;  // S and U
};
template <Ulps How = Ulps::scaled>
constexpr APSCOPE_HD UlpScale ulp_scale(int emin, int mantissa_bits, double scale, double units) {
    constexpr std::int64_t one = std::int64_t{1} << 52;
    const std::int64_t k =
        How == Ulps::shifted
            ? static_cast<std::int64_t>(bits_cast<std::uint64_t>(scale) >> 52) - 1023
            : 0;
    return {(emin + 1023 - k) * one, static_cast<std::uint64_t>(2046 + mantissa_bits) << 52, scale,
            units};
}
// The error in ulps, from size = |x| and error = |e|.
template <Ulps How = Ulps::scaled>
APSCOPE_HD double in_ulps(double size, double error, const UlpScale& s) {
    const double at = How == Ulps::shifted ? size : size * s.units * s.scale;
    const auto exponent =
        static_cast<std::int64_t>(bits_cast<std::uint64_t>(at) & infinity_bits<double>);
    const double per_ulp =
        bits_cast<double>(s.top - static_cast<std::uint64_t>(exponent > s.min ? exponent : s.min));
    return How == Ulps::shifted ? error * per_ulp : error * s.units * s.scale * per_ulp;
}

// Returns whether a number saturated: it is finite, beyond the largest value, and was rounded to
// that value. `size` is the magnitude of the number and `rounded` the magnitude of the result, both
// in the units of `largest`.
template <class Real>
APSCOPE_HD bool is_saturated(Real size, Real rounded, Real largest) {
    return (size > largest) & (size < bits_cast<Real>(infinity_bits<Real>)) & (rounded == largest);
}

// Adds 1 to `subnormal` if the number is not zero and below the smallest normal number, and 1 to
// `saturated` if it saturated.
template <class Real, class Count>
APSCOPE_HD void count_limits(Real size, Real rounded, Real smallest_normal, Real largest,
                             Count& subnormal, Count& saturated) {
    subnormal += (size != 0) & (size < smallest_normal);
    saturated += is_saturated(size, rounded, largest);
}

}  // namespace apscope::detail
