#include "emulation/codecs/cpd_cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace apscope {

float cpd_cast(float x, int exponent_bits, int mantissa_bits) {
    if (x == 0.0f || !std::isfinite(x)) return x;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const int field = static_cast<int>(bits >> 23 & 0xff), exponent = field - 127, bias = (1 << (exponent_bits - 1)) - 1;
    if (field == 0) return 0.0f;
    if (exponent > bias) return std::copysign(std::numeric_limits<float>::infinity(), x);
    const int least = std::max(exponent, 1 - bias), shift = least - exponent;
    std::uint32_t significand = (bits & 0x7fffff) | 0x800000;
    significand = shift < 32 ? significand >> shift : 0;  // what leaves here is forgotten
    const std::uint32_t unit = std::uint32_t{1} << (23 - mantissa_bits), rest = significand & (unit - 1);
    significand -= rest;
    if (2 * rest > unit || (2 * rest == unit && (significand & unit) != 0)) significand += unit;
    return std::copysign(std::ldexp(static_cast<float>(significand), least - 23), x);
}

float cpd_exponent(float x) {
    if (std::isnan(x)) return x;
    if (x == 0.0f) return -std::numeric_limits<float>::infinity();
    if (std::isinf(x)) return x;
    int k = 0;
    const float fraction = std::frexp(x, &k);  // x = 2 fraction 2^(k-1)
    --k;
    // x = 2^k (1 + j 2^-23). log2 x = k + j 2^-23 / ln 2 - ..., and fp32 numbers lie 2^(e-23) apart above k, e =
    // floor(log2 |k|), less by one where |k| is a power of two and k < 0. It rounds to k if j < 2^e (ln 2) / 2: no such
    // product comes near an integer (0.35, 0.69, 1.39, 2.77, 5.55, 11.09, 22.18, 44.36), so neither does the second term count.
    const auto j = static_cast<std::int64_t>(std::ldexp(2.0 * fraction - 1.0, 23));
    if (j == 0) return static_cast<float>(k);
    constexpr int rounds_down_to[] = {0, 0, 1, 2, 5, 11, 22, 44};
    const auto size = static_cast<unsigned>(std::abs(k));
    if (size == 0) return 1.0f;
    const int e = std::bit_width(size) - 1 - (k < 0 && std::has_single_bit(size) ? 1 : 0);
    return static_cast<float>(e >= 0 && j <= rounds_down_to[e] ? k : k + 1);
}

}  // namespace apscope
