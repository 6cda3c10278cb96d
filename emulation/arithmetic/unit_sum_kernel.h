// NVIDIA's rule for `Lanes` outputs side by side, in fp32 and int32 arithmetic that is exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "emulation/arithmetic/unit_fp32.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// Adds `count` products and C: c[j] = D of a[k] b[k][j] and c[j], block by block. `ea` and `eb` are
// the operands' exponents. Sum is std::int32_t if the products of a block, and C, fit; otherwise
// double, to which groups of products are added.
template <std::size_t Lanes, class Sum>
struct AddUnitBlocks {
    static APSCOPE_INLINE void run(const float* a, const std::int16_t* ea, const float* b,
                                   const std::int16_t* eb, std::size_t count, float* c,
                                   const MatrixUnit* unit) {
        const std::size_t block = static_cast<std::size_t>(unit->block),
                          group = static_cast<std::size_t>(terms_of_group(*unit));
        const std::uint32_t kept = kept_bits(*unit);
        for (std::size_t first = 0; first < count; first += block) {
            const std::size_t end = first + block < count ? first + block : count;
            std::int16_t top[Lanes];
            for (std::size_t j = 0; j < Lanes; ++j) top[j] = no_product;
            for (std::size_t k = first; k < end; ++k) {
                for (std::size_t j = 0; j < Lanes; ++j) {
                    const auto e = static_cast<std::int16_t>(ea[k] + eb[k * Lanes + j]);
                    top[j] = e > top[j] ? e : top[j];
                }
            }
            float scale[Lanes];
            for (std::size_t j = 0; j < Lanes; ++j)
                scale[j] = block_factor(top[j], c[j], unit->fraction);
            const auto term = [&](std::size_t k, std::size_t j) __attribute__((always_inline)) {
                return static_cast<std::int32_t>(a[k] * b[k * Lanes + j] * scale[j]);
            };
            Sum sum[Lanes];
            for (std::size_t j = 0; j < Lanes; ++j)
                sum[j] = static_cast<Sum>(static_cast<std::int32_t>(c[j] * scale[j]));
            if constexpr (std::is_same_v<Sum, std::int32_t>) {
                for (std::size_t k = first; k < end; ++k)
                    for (std::size_t j = 0; j < Lanes; ++j) sum[j] += term(k, j);
            } else {
                for (std::size_t k = first; k < end;) {
                    const std::size_t last = k + group < end ? k + group : end;
                    std::int32_t part[Lanes];
                    for (std::size_t j = 0; j < Lanes; ++j) part[j] = term(k, j);
                    while (++k < last)
                        for (std::size_t j = 0; j < Lanes; ++j) part[j] += term(k, j);
                    for (std::size_t j = 0; j < Lanes; ++j) sum[j] += static_cast<double>(part[j]);
                }
            }
            for (std::size_t j = 0; j < Lanes; ++j)
                c[j] = cut_sum(sum[j], kept) * inverse_power(scale[j]);
        }
    }
};

// The number of products that FP4's rule adds exactly, with one exponent.
inline constexpr std::size_t products_of_group = 16;

// FP4's rule for `Lanes` outputs side by side, in int16 and fp64 arithmetic that is exact. `a` and
// `b` are the elements in halves; sa, sb, ea, eb the significands and the exponents of the scales
// of each group of products, those of b for every lane. Scales that are 0 have the exponent
// zero_operand.
template <std::size_t Lanes>
struct AddGroupedBlocks {
    static APSCOPE_INLINE void run(const std::int16_t* a, const float* sa, const std::int16_t* ea,
                                   const std::int16_t* b, const float* sb, const std::int16_t* eb,
                                   std::size_t count, float* c, const MatrixUnit* unit) {
        constexpr std::size_t groups = 4;
        const std::uint32_t kept = kept_bits(*unit);
        const auto power_of_two = [](std::int32_t exponent) __attribute__((always_inline)) {
            return bits_cast<double>(static_cast<std::int64_t>(exponent + 1023) << 52);
        };
        for (std::size_t first = 0; first < count; first += groups * products_of_group) {
            std::int32_t exponents[groups][Lanes], top[Lanes];
            float terms[groups][Lanes];
            for (std::size_t j = 0; j < Lanes; ++j) {
                const auto of_c =
                    static_cast<std::int32_t>(bits_cast<std::uint32_t>(c[j]) >> 23 & 0xFF);
                top[j] = (of_c > no_product ? of_c : no_product) - exponent_bias;
            }
            for (std::size_t g = 0; g < groups; ++g) {
                std::int16_t sum[Lanes], any[Lanes];
                for (std::size_t j = 0; j < Lanes; ++j) sum[j] = any[j] = 0;
                for (std::size_t i = 0; i < products_of_group; ++i) {
                    const std::size_t k = first + g * products_of_group + i;
                    const std::int16_t x = a[k];
                    const auto counts = static_cast<std::int16_t>(-(x != 0));
                    for (std::size_t j = 0; j < Lanes; ++j) {
                        const std::int16_t y = b[k * Lanes + j];
                        sum[j] = static_cast<std::int16_t>(sum[j] + x * y);
                        any[j] = static_cast<std::int16_t>(any[j] | (y & counts));
                    }
                }
                const std::size_t group = first / products_of_group + g;
                for (std::size_t j = 0; j < Lanes; ++j) {
                    const std::int32_t e =
                        any[j] == 0 ? zero_operand : ea[group] + eb[group * Lanes + j];
                    terms[g][j] = static_cast<float>(sum[j]) * sa[group] * sb[group * Lanes + j];
                    exponents[g][j] = e;
                    top[j] = e > top[j] ? e : top[j];
                }
            }
            for (std::size_t j = 0; j < Lanes; ++j) {
                double sum = __builtin_trunc(static_cast<double>(c[j]) *
                                             power_of_two(unit->fraction - top[j]));
                for (std::size_t g = 0; g < groups; ++g) {
                    // Without a product the term is 0. A term is in quarters.
                    const std::int32_t below =
                        exponents[g][j] < no_product - exponent_bias ? 0 : exponents[g][j] - top[j];
                    sum += __builtin_trunc(static_cast<double>(terms[g][j]) *
                                           power_of_two(unit->fraction - 2 + below));
                }
                c[j] = static_cast<float>(static_cast<double>(cut_sum(sum, kept)) *
                                          power_of_two(top[j] - unit->fraction));
            }
        }
    }
};

// The biased exponents of finite operands; `smallest` is that of their format's normal numbers.
struct OperandExponents {
    static APSCOPE_INLINE void run(const float* x, std::size_t count, int smallest, int bias,
                                   std::int16_t* out) {
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = static_cast<std::int16_t>(operand_exponent(x[i], smallest, bias));
        }
    }
};

struct FindNumberRange {
    static APSCOPE_INLINE void run(const float* x, std::size_t count, NumberRange* range) {
        std::uint32_t least = NumberRange().least, most = 0, all = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t magnitude = bits_cast<std::uint32_t>(x[i]) & 0x7FFFFFFF;
            const std::uint32_t other_than_0 = magnitude == 0 ? 0x7FFFFFFF : magnitude;
            least = other_than_0 < least ? other_than_0 : least;
            most = magnitude > most ? magnitude : most;
            all |= magnitude;
        }
        *range = {least, most, all};
    }
};

}  // namespace apscope::detail
