// NVIDIA's rule of a matrix unit (core/matrix_unit.h) in fp32 and int32 arithmetic that is exact:
// when it gives the rule's bits, and the operations of a block, for host and device.
//
//      E, biased   the largest of no_product, of ea + eb of the products, of C's exponent
//      f           2^(F - E)                             block_factor()
//      D           cut(sum of int(a b f) + int(C f)) / f cut_sum()
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/matrix_unit.h"

namespace apscope::detail {

// Exponents of a's operands are biased as those of fp32, exponents of b's are not. That of a zero
// is so small that a product with it has an exponent below `no_product`.
inline constexpr std::int16_t exponent_bias = 127, zero_operand = -8000;
// E, biased, of a block whose products and C are zeros.
inline constexpr std::int16_t no_product = 26;

// Whether this gives the rule's bits for finite operands whose products have at most 24 significant
// bits and exponents in [-75, 90], and for C that are 0 or in [2^-100, 2^100].
// - A product p, and p 2^(F - E), is then exact in fp32 (a smaller one than 1 may lose bits: it is
//   truncated to 0), and the conversion to int32 truncates it.
// - |trunc(p 2^(F - E))| < 2^(F + 2), so `terms_of_group` terms fit in int32.
// - D is 0 or, as a multiple of 2^(-75 - F), at least 2^-100, and no sum of 2^32 products
// overflows.
// - Without a product, C is the result, cut to R bits: F >= R, and a zero product's exponent is at
//   most that of the smallest normal number, so that it cuts nothing.
inline bool unit_kernel_serves(const MatrixUnit& unit) {
    // FP4's groups are below 2^(F + 12): four and C fit in fp64.
    if (unit.rule == MatrixUnit::Rule::grouped) return unit.fraction <= 38;
    return unit.rule == MatrixUnit::Rule::aligned && !unit.half && !unit.nearest &&
           unit.fraction <= 25 && unit.fraction >= unit.result &&
           unit.zero_exponent() <= unit.smallest_exponent();
}
APSCOPE_HD int terms_of_group(const MatrixUnit& unit) { return 1 << (29 - unit.fraction); }
// True if the products of a block, and C, fit in int32.
inline bool block_fits_int32(const MatrixUnit& unit) { return unit.block < terms_of_group(unit); }

// What numbers have in common: the bits of the least magnitude other than 0 (0x7FFFFFFF if there is
// none) and of the largest, and the bits that some number has.
struct NumberRange {
    std::uint32_t least = 0x7FFFFFFF, most = 0, all = 0;

    int significant_bits() const { return 24 - std::countr_zero(all | 1u << 23); }
    bool is_finite() const { return most < infinity_bits<float>; }
};
// The exponents of numbers other than 0, of a format whose smallest normal number has the exponent
// `smallest`.
struct ExponentRange {
    int least, most;

    static ExponentRange of(const NumberRange& x, int smallest) {
        const auto exponent = [&](std::uint32_t magnitude) {
            const int own = static_cast<int>(magnitude >> 23) - exponent_bias;
            return own > smallest ? own : smallest;
        };
        return {exponent(x.least), exponent(x.most)};
    }
};
inline bool products_fit(const ExponentRange& a, const ExponentRange& b, int most = 90) {
    return a.least + b.least >= -75 && a.most + b.most <= most;
}
inline bool addends_fit(const NumberRange& c) {
    return c.least >= bits_cast<std::uint32_t>(0x1p-100f) &&
           c.most <= bits_cast<std::uint32_t>(0x1p100f);
}

// The exponent of a finite operand, plus `bias`.
APSCOPE_HD std::int32_t operand_exponent(float x, int smallest, int bias) {
    const std::uint32_t magnitude = bits_cast<std::uint32_t>(x) & 0x7FFFFFFF;
    const std::int32_t own = static_cast<std::int32_t>(magnitude >> 23) - exponent_bias;
    return magnitude == 0 ? zero_operand : (own > smallest ? own : smallest) + bias;
}
// 2^(F - E); `top` is E without C.
APSCOPE_HD float block_factor(std::int32_t top, float c, int fraction) {
    const auto of_c = static_cast<std::int32_t>(bits_cast<std::uint32_t>(c) >> 23 & 0xFF);
    const std::int32_t e = top > of_c ? top : of_c;
    return bits_cast<float>(static_cast<std::uint32_t>(fraction + 2 * exponent_bias - e) << 23);
}
// 1 / x of a power of two.
APSCOPE_HD float inverse_power(float x) {
    return bits_cast<float>((2u * exponent_bias << 23) - bits_cast<std::uint32_t>(x));
}

// The bits of an fp32 number that cut() leaves.
APSCOPE_HD std::uint32_t kept_bits(const MatrixUnit& unit) {
    return ~std::uint32_t{0} << (23 - unit.result);
}
// cut() of an integer.
APSCOPE_HD float cut_sum(std::int32_t sum, std::uint32_t kept) {
    const std::int32_t magnitude = sum < 0 ? -sum : sum;
    // Without the first bit beyond 24, the conversion to fp32 rounds toward zero.
    const auto bits = bits_cast<std::uint32_t>(static_cast<float>(magnitude & ~(magnitude >> 24)));
    return bits_cast<float>((bits & kept) | (static_cast<std::uint32_t>(sum) & sign_bit<float>));
}
APSCOPE_HD float cut_sum(double sum, std::uint32_t kept) {
    const std::uint64_t fp64_kept = ~(std::uint64_t{~kept + 1} * (1u << 29) - 1);
    return static_cast<float>(bits_cast<double>(bits_cast<std::uint64_t>(sum) & fp64_kept));
}

}  // namespace apscope::detail
