// What one pair of numbers, x and what became of it, adds to the statistics of an error: the formulas of
// docs/definitions.md over elements, for vector loops on the host and threads on a GPU.
#pragma once

#include <cstdint>

#include "analysis/statistics/error_statistics.h"

namespace apscope::detail {

inline constexpr int error_sums = 7;  // the first of ErrorStatistics::Sum: those of pairs

// What a loop knows of its numbers.
struct PairTraits {
    bool fuses = false;            // x x, x y, y y are exact: fused with their addition, which changes no bit
    bool fuses_error = false;      // e e likewise
    bool knows_reference = false;  // sums of x alone are known
};

template <bool Fused>
APSCOPE_HD void add_product(double& sum, double a, double b) {
    if constexpr (Fused) sum = __builtin_fma(a, b, sum);
    else sum += a * b;
}

// x and y are finite, e = y - x; sum(k) is where ErrorStatistics::Sum k goes. is_zero: x = 0, or false where e is 0
// for such x, whose sign then changes no sum: a sum starts at +0 and x + (-x) is +0, so none is ever -0.
template <PairTraits T, class SumOf>
APSCOPE_HD void update_sums(double x, double y, double e, bool is_zero, const SumOf& sum) {
    using S = ErrorStatistics;
    const std::uint64_t bits = bits_cast<std::uint64_t>(x), sign = bits & sign_bit<double>;
    const double turned = bits_cast<double>(bits_cast<std::uint64_t>(e) ^ sign);  // sign(x) e
    sum(S::error) += e;
    add_product<T.fuses_error>(sum(S::squared_error), e, e);
    if constexpr (!T.knows_reference) {
        add_product<T.fuses>(sum(S::squared_reference), x, x);
        sum(S::absolute_reference) += bits_cast<double>(bits ^ sign);
    }
    sum(S::signed_error) += is_zero ? 0.0 : turned;
    add_product<T.fuses>(sum(S::product), x, y);
    add_product<T.fuses>(sum(S::squared_result), y, y);
}

// How the largest error in units in the last place is found: not at all; with U = 1 and S a power of two, which move
// exponents only; or by the definition, |e| U S 2^-q in this order, q = max(floor(log2 (U S |x|)), emin) - m.
enum class Ulps { none, shifted, scaled };

// 2^-q is formed in place: `top` less the exponent field of U S |x|, at least `least`.
struct UlpScale {
    std::int64_t least, top;
    double units, scale;
};
template <Ulps U>
APSCOPE_HD UlpScale ulp_scale(const FloatScale& s) {
    constexpr std::int64_t one = std::int64_t{1} << 52;
    const std::int64_t moved = U == Ulps::shifted ? static_cast<std::int64_t>(bits_cast<std::uint64_t>(s.scale) >> 52) - 1023 : 0;
    return {(s.cast.emin + 1023 - moved) * one, (2046 + s.cast.mantissa_bits) * one, s.units, s.scale};
}
template <Ulps U>
APSCOPE_HD double in_ulps(double size, double error_size, const UlpScale& s) {
    const double at = U == Ulps::scaled ? size * s.units * s.scale : size;
    const auto exponent = static_cast<std::int64_t>(bits_cast<std::uint64_t>(at) & infinity_bits<double>);
    const double per_ulp = bits_cast<double>(s.top - (exponent > s.least ? exponent : s.least));
    return U == Ulps::scaled ? error_size * s.units * s.scale * per_ulp : error_size * per_ulp;
}

// Sizes of a number and of what it was sent as, in units of the limits: finite ones below the smallest normal number,
// and beyond the largest that ended there.
template <class Real, class Count>
APSCOPE_HD void update_limits(Real size, Real sent, Real smallest_normal, Real largest, Count& subnormal, Count& saturated) {
    subnormal += (size != 0) & (size < smallest_normal);
    saturated += (size > largest) & (size < bits_cast<Real>(infinity_bits<Real>)) & (sent == largest);
}

template <class Real>
APSCOPE_HD Real absolute(Real x) {
    return bits_cast<Real>(bits_cast<BitsOf<Real>>(x) & ~sign_bit<Real>);
}

}  // namespace apscope::detail
