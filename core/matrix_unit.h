// How a matrix unit adds the products of one instruction: one block of products a_k b_k and C.
//
// NVIDIA's rule (a model; the presets' table has the evidence of each device): with e_k the sum of
// the exponents of product k's factors, e_C the exponent of C, and E the largest of them,
//   D = cut(sum over k of trunc(a_k b_k 2^(F - E)) + trunc(C 2^(F - E))) 2^(E - F),
// where trunc() rounds toward zero to an integer, the sum is exact, and cut() rounds to R fraction
// bits of the sum's own exponent.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/bits.h"
#include "core/exact_sum.h"
#include "core/host_device.h"

namespace apscope::detail {

struct MatrixUnit {
    enum class Rule : std::uint8_t {
        aligned,   // NVIDIA's rule, above
        exact,     // CDNA 1: products and C exactly, rounded once, ties to even
        pairwise,  // CDNA 2: products, and their sums in pairs, then C's, in fp32, ties to even
        cdna3,     // CDNA 3: products aligned without C, then their sum and C rounded down
        grouped,   // FP4 products of groups of 16 exactly; the groups aligned as products are
    };
    enum class Interleave : std::uint8_t { none, mod4, even_odd };

    int block = 16;     // K, the products that are added at a time
    int fraction = 25;  // F
    int result = 23;    // R
    Rule rule = Rule::aligned;
    bool half = false;     // results and C are fp16 numbers; otherwise fp32
    bool nearest = false;  // cut() rounds to nearest, ties to even; otherwise toward zero
    bool c_last = false;  // blocks begin at +0; C is added to an instruction's result, ties to even
    Interleave interleave = Interleave::none;  // which products make a block
    bool flush = false;                        // subnormal operands, and C, are +0
    int scaled = 0;  // consecutive products whose factors have one scale each; 0: no scales

    // The products of one instruction: one block, or two of interleaved products.
    APSCOPE_HD int instruction() const {
        return interleave != Interleave::none && rule == Rule::aligned ? 2 * block : block;
    }
    // The product at a place of an instruction: mod4 has first those with k mod 4 in {0, 1}.
    APSCOPE_HD int product_at(int place) const {
        if (instruction() == block) return place;
        const int part = place / block, i = place % block;
        return interleave == Interleave::mod4 ? i / 2 * 4 + i % 2 + 2 * part : 2 * i + part;
    }
    APSCOPE_HD int smallest_exponent() const { return half ? -14 : -126; }
    // The exponent of a zero among the terms. It matters only if all other terms lie below it. With
    // F = 13, of FP8 products, no bit lies so low that 24 or 25 cut it: they are multiples of
    // 2^-32.
    APSCOPE_HD int zero_exponent() const {
        if (rule == Rule::grouped) return -139;
        return smallest_exponent() + 18 - (fraction == 13 ? 24 : fraction);
    }

    friend bool operator==(const MatrixUnit&, const MatrixUnit&) = default;
};

// An operand: significand 2^(exponent - 23). The exponent is at least that of the smallest normal
// number of the operand's format. `value` is the number itself, which may be infinite or NaN.
struct UnitNumber {
    float value = 0;
    std::int32_t significand = 0;
    std::int32_t exponent = 0;
};

APSCOPE_HD UnitNumber unit_number(float x, int smallest_exponent) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x);
    const int field = static_cast<int>(bits >> 23 & 0xFF);
    std::int32_t significand = static_cast<std::int32_t>(bits & 0x7FFFFF) | (field > 0) << 23;
    int exponent = (field > 0 ? field : 1) - 127;
    if (exponent < smallest_exponent) {
        const int shift = smallest_exponent - exponent;
        significand = shift > 24 ? 0 : significand >> shift;
        exponent = smallest_exponent;
    }
    return {x, bits >> 31 != 0 ? -significand : significand, exponent};
}

// x 2^shift, rounded toward zero to an integer.
APSCOPE_HD std::int64_t shift_toward_zero(std::int64_t x, int shift) {
    if (x == 0) return 0;  // its shift may be any
    const std::int64_t magnitude = x < 0 ? -x : x;
    const std::int64_t shifted =
        shift >= 0 ? magnitude << shift : magnitude >> (shift < -63 ? 63 : -shift);
    return x < 0 ? -shifted : shifted;
}
// x 2^shift, rounded down to an integer.
APSCOPE_HD std::int64_t shift_down(std::int64_t x, int shift) {
    if (x == 0) return 0;
    return shift >= 0 ? x * (std::int64_t{1} << shift) : x >> (shift < -63 ? 63 : -shift);
}

APSCOPE_HD int exponent_of(std::uint64_t x) { return 63 - __builtin_clzll(x | 1); }

// sum 2^unit, rounded to `result` fraction bits of its own exponent; a number beyond the format is
// infinite.
APSCOPE_HD float unit_result(std::int64_t sum, int unit, int result, bool nearest, bool half) {
    const std::uint64_t magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
    const int smallest = half ? -14 : -126, own = exponent_of(magnitude) + unit,
              drop = (own > smallest ? own : smallest) - result - unit;
    std::uint64_t kept = magnitude;
    if (drop > 62) {
        kept = 0;
    } else if (drop > 0) {
        const std::uint64_t rest = magnitude & ((std::uint64_t{1} << drop) - 1),
                            half_unit = std::uint64_t{1} << (drop - 1);
        kept = magnitude >> drop;
        if (nearest && (rest > half_unit || (rest == half_unit && (kept & 1) != 0))) ++kept;
        kept <<= drop;
    }
    const double value = static_cast<double>(kept) * double_power_of_two(unit);
    const float rounded = value >= (half ? 0x1p16 : 0x1p128)
                              ? bits_cast<float>(infinity_bits<float>)
                              : static_cast<float>(value);
    return sum < 0 ? -rounded : rounded;
}

// Operands are arrays of UnitNumber, or objects whose operator[] makes it.

// NVIDIA's step, of finite operands.
template <class A, class B>
APSCOPE_HD float add_aligned_block(const MatrixUnit& unit, const A& a, const B& b, int count,
                                   float c) {
    const UnitNumber last = unit_number(c, unit.smallest_exponent());
    const int zero = unit.zero_exponent();
    int top = last.significand == 0 ? zero : last.exponent;
    for (int k = 0; k < count; ++k) {
        const UnitNumber x = a[k], y = b[k];
        const bool none = x.significand == 0 || y.significand == 0;
        const int exponent = none ? zero : x.exponent + y.exponent;
        top = exponent > top ? exponent : top;
    }
    std::int64_t sum =
        shift_toward_zero(last.significand, unit.fraction - 23 + last.exponent - top);
    for (int k = 0; k < count; ++k) {
        const UnitNumber x = a[k], y = b[k];
        sum += shift_toward_zero(std::int64_t{x.significand} * y.significand,
                                 unit.fraction - 46 + x.exponent + y.exponent - top);
    }
    // A zero result is +0.
    return unit_result(sum, top - unit.fraction, unit.result, unit.nearest, unit.half) + 0.0f;
}

// CDNA 1's step, of finite operands, at most 4 products. The exact sum is a row of fp64 numbers
// that do not overlap, smallest first, to which terms are added one by one (Shewchuk, Discrete and
// Computational Geometry 18, 1997: grow-expansion); its rounding to odd determines the fp32 result.
template <class A, class B>
APSCOPE_HD float add_exact_block(const A& a, const B& b, int count, float c) {
    double parts[5] = {};
    for (int k = 0; k <= count; ++k) {
        double sum = static_cast<double>(c);
        if (k < count) sum = static_cast<double>(a[k].value) * static_cast<double>(b[k].value);
        for (int i = 0; i < k; ++i) {
            const double total = sum + parts[i], seen = total - sum;
            parts[i] = (sum - (total - seen)) + (parts[i] - seen);
            sum = total;
        }
        parts[k] = sum;
    }
    double sum = parts[count], rest = 0;
    for (int i = count - 1; i >= 0 && rest == 0; --i) {
        const double total = sum + parts[i];
        rest = parts[i] - (total - sum);
        sum = total;
    }
    return static_cast<float>(add_to_odd(sum, rest)) + 0.0f;
}

APSCOPE_HD float flush_subnormal(float x) {
    return (bits_cast<std::uint32_t>(x) & 0x7F800000) == 0
               ? bits_cast<float>(bits_cast<std::uint32_t>(x) & 0x80000000)
               : x;
}

// CDNA 2's step: at most 4 products.
template <class A, class B>
APSCOPE_HD float add_pairwise_block(const A& a, const B& b, int count, float c) {
    float sums[4] = {};
    for (int k = 0; k < count; ++k) sums[k] = flush_subnormal(a[k].value * b[k].value);
    const float first = flush_subnormal(sums[0] + sums[1]);
    if (count <= 2) return flush_subnormal(c + first);
    return flush_subnormal(c + flush_subnormal(first + flush_subnormal(sums[2] + sums[3])));
}

// CDNA 3's step, of finite operands: the sum of the products cut F bits below their largest
// exponent is rounded down 32 bits below the larger of that and C's exponent, C 24 bits below; the
// total is rounded down to 31 bits, then ties to even to fp32. FP8's products of even and of odd k
// are cut apart, and C counts as zero if it lies more than 25 below.
template <class A, class B>
APSCOPE_HD float add_cdna3_block(const MatrixUnit& unit, const A& a, const B& b, int count,
                                 float c) {
    constexpr int none = -999;
    const int parts = unit.interleave == MatrixUnit::Interleave::even_odd ? 2 : 1;
    int tops[2] = {none, none};
    std::int64_t sums[2] = {0, 0};
    for (int k = 0; k < count; ++k) {
        int& top = tops[k % parts];
        const UnitNumber x = a[k], y = b[k];
        if (x.significand != 0 && y.significand != 0 && x.exponent + y.exponent > top)
            top = x.exponent + y.exponent;
    }
    for (int k = 0; k < count; ++k) {
        const UnitNumber x = a[k], y = b[k];
        sums[k % parts] +=
            shift_toward_zero(std::int64_t{x.significand} * y.significand,
                              unit.fraction - 46 + x.exponent + y.exponent - tops[k % parts]);
    }
    const int of_products = tops[0] > tops[1] ? tops[0] : tops[1];
    std::int64_t products = 0;
    for (int part = 0; part < parts; ++part)
        products += shift_down(sums[part], tops[part] - of_products);
    const UnitNumber last = unit_number(c, -126);
    const int top = of_products > last.exponent ? of_products : last.exponent;
    const bool forgotten = parts == 2 && last.exponent < top - 25;
    const std::int64_t of_c =
        forgotten ? 0 : shift_down(last.significand, 24 - 23 + last.exponent - top);
    std::int64_t total = shift_down(products, 32 - unit.fraction + of_products - top) + of_c * 256;
    const int unit_of_total = top - 32;
    const int own = exponent_of(static_cast<std::uint64_t>(total < 0 ? -total : total)) +
                    unit_of_total,
              drop = (own > -126 ? own : -126) - 31 - unit_of_total;
    if (drop > 0) total = shift_down(total, -drop) * (std::int64_t{1} << drop);
    return unit_result(total, unit_of_total, 23, true, false);
}

// The step of FP4 instructions, of finite operands: scaled_operand() has given each the exponent of
// its scale. A group of 16 products is added exactly, and has the exponent of its scales' product,
// or that of a zero if all its products are zeros.
template <class A, class B>
APSCOPE_HD float add_grouped_block(const MatrixUnit& unit, const A& a, const B& b, int count,
                                   float c) {
    constexpr int group = 16, most = 4;
    const UnitNumber last = unit_number(c, unit.smallest_exponent());
    const int zero = unit.zero_exponent();
    std::int64_t sums[most] = {};
    int exponents[most] = {}, top = last.significand == 0 ? zero : last.exponent;
    for (int g = 0; g * group < count; ++g) {
        exponents[g] = zero;
        for (int k = g * group; k < (g + 1) * group; ++k) {
            const UnitNumber x = a[k], y = b[k];
            const std::int64_t product = std::int64_t{x.significand} * y.significand;
            sums[g] += product;
            if (product != 0) exponents[g] = x.exponent + y.exponent;
        }
        top = exponents[g] > top ? exponents[g] : top;
    }
    std::int64_t sum =
        shift_toward_zero(last.significand, unit.fraction - 23 + last.exponent - top);
    for (int g = 0; g * group < count; ++g)
        sum += shift_toward_zero(sums[g], unit.fraction - 46 + exponents[g] - top);
    return unit_result(sum, top - unit.fraction, unit.result, unit.nearest, unit.half) + 0.0f;
}

APSCOPE_HD bool unit_is_finite(float x) {
    return (bits_cast<std::uint32_t>(x) & ~sign_bit<float>) < infinity_bits<float>;
}

// D of one block of at most `block` products. A NaN, infinity times zero, and infinities of both
// signs give NaN (0x7FFFFFFF); infinities of one sign give that infinity.
template <class A, class B>
APSCOPE_HD float add_block(const MatrixUnit& unit, const A& a, const B& b, int count, float c) {
    if (unit.rule == MatrixUnit::Rule::pairwise) return add_pairwise_block(a, b, count, c);
    const bool limited = unit.rule == MatrixUnit::Rule::cdna3;
    double total = c;
    for (int k = 0; k < count; ++k) {
        const double product = static_cast<double>(a[k].value) * static_cast<double>(b[k].value);
        if (limited && (product >= 0x1p128 || product <= -0x1p128))
            total += product > 0 ? bits_cast<double>(infinity_bits<double>)
                                 : -bits_cast<double>(infinity_bits<double>);
        else total += product;
    }
    if ((bits_cast<std::uint64_t>(total) & ~sign_bit<double>) >= infinity_bits<double>)
        return total != total ? bits_cast<float>(std::uint32_t{0x7FFFFFFF})
                              : static_cast<float>(total);
    if (unit.rule == MatrixUnit::Rule::exact) return add_exact_block(a, b, count, c);
    if (unit.rule == MatrixUnit::Rule::grouped) return add_grouped_block(unit, a, b, count, c);
    return limited ? add_cdna3_block(unit, a, b, count, c)
                   : add_aligned_block(unit, a, b, count, c);
}

// The sum of two results in their format, ties to even: C and an instruction's result, or a
// chain's.
APSCOPE_HD float add_results(float x, float y, bool half) {
    if (!half || !unit_is_finite(x) || !unit_is_finite(y)) return x + y;
    // fp16 numbers are multiples of 2^-24.
    const double sum = (static_cast<double>(x) + static_cast<double>(y)) * 0x1p24;
    return unit_result(static_cast<std::int64_t>(sum), -24, 10, true, true);
}

}  // namespace apscope::detail
