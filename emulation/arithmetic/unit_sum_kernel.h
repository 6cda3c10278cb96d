// NVIDIA's rule for `Lanes` outputs side by side, in fp32 and int32 arithmetic that is exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix_unit.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// The exponent of a zero operand: a product with it has less than `no_product`.
inline constexpr std::int16_t zero_operand = -8000;
inline constexpr int no_product = -4000;

// Whether the kernel below gives the rule's bits for finite operands whose products have at most 24
// significant bits and exponents in [-100, 100].
// - A product p, and p 2^(F - E), is then exact in fp32 (a smaller one than 1 may lose bits: it is
//   truncated to 0), and the conversion to int32 truncates it.
// - |p 2^(F - E)| < 2^(F + 2), so `terms_of_group` terms fit in int32; fp64 adds the groups
// exactly.
// - 2^(E - F) is at least 2^-125, so a sum of products and C is 0 or a normal fp32 number.
// - Without a product, or with an infinite C, C is the result, cut to R bits: F >= R, and a zero
//   product's exponent is at most that of the smallest normal number, so that it cuts nothing. A NaN
//   is 0x7FFFFFFF.
inline bool unit_kernel_serves(const MatrixUnit& unit) {
    return unit.rule == MatrixUnit::Rule::aligned && !unit.half && !unit.nearest &&
           unit.fraction <= 25 && unit.fraction >= unit.result &&
           unit.zero_exponent() <= unit.smallest_exponent();
}
inline int terms_of_group(const MatrixUnit& unit) { return 1 << (28 - unit.fraction); }

// Adds `count` products and C: c[j] = D of a[k] b[k][j] and c[j], block by block. `ea` and `eb` are
// the operands' exponents.
template <std::size_t Lanes>
struct AddUnitBlocks {
    static APSCOPE_INLINE void run(const float* a, const std::int16_t* ea, const float* b,
                                   const std::int16_t* eb, std::size_t count, float* c,
                                   const MatrixUnit* unit) {
        const std::size_t block = static_cast<std::size_t>(unit->block),
                          group = static_cast<std::size_t>(terms_of_group(*unit));
        const int fraction = unit->fraction;
        const std::uint32_t kept = ~std::uint32_t{0} << (23 - unit->result);
        const std::uint64_t kept_of_sum = ~std::uint64_t{0} << (52 - unit->result);
        for (std::size_t first = 0; first < count; first += block) {
            const std::size_t end = first + block < count ? first + block : count;
            std::int16_t top[Lanes];
            for (std::size_t j = 0; j < Lanes; ++j)
                top[j] = static_cast<std::int16_t>(ea[first] + eb[first * Lanes + j]);
            for (std::size_t k = first + 1; k < end; ++k) {
                for (std::size_t j = 0; j < Lanes; ++j) {
                    const auto e = static_cast<std::int16_t>(ea[k] + eb[k * Lanes + j]);
                    top[j] = e > top[j] ? e : top[j];
                }
            }
            // E, 2^(F - E), and C's term.
            std::int32_t exponent[Lanes], passes[Lanes];
            float scale[Lanes];
            double sum[Lanes];
            for (std::size_t j = 0; j < Lanes; ++j) {
                const std::uint32_t bits = bits_cast<std::uint32_t>(c[j]);
                const auto field = static_cast<std::int32_t>(bits >> 23 & 0xFF);
                const std::int32_t of_c = (bits << 1) == 0 ? -127 : (field > 1 ? field : 1) - 127;
                passes[j] = (top[j] < no_product) | (field == 255) ? -1 : 0;
                const std::int32_t e = top[j] > of_c ? top[j] : of_c;
                exponent[j] = e & ~passes[j];
                const auto counts = ~static_cast<std::uint32_t>(passes[j]);
                scale[j] = bits_cast<float>(
                    static_cast<std::uint32_t>(fraction - exponent[j] + 127) << 23 & counts);
                const float cut_c = bits_cast<float>(bits & counts) * scale[j];
                sum[j] = static_cast<double>(static_cast<std::int32_t>(cut_c));
            }
            const auto term = [&](std::size_t k, std::size_t j) __attribute__((always_inline)) {
                return static_cast<std::int32_t>(a[k] * b[k * Lanes + j] * scale[j]);
            };
            for (std::size_t k = first; k < end;) {
                const std::size_t last = k + group < end ? k + group : end;
                std::int32_t part[Lanes];
                for (std::size_t j = 0; j < Lanes; ++j) part[j] = term(k, j);
                while (++k < last)
                    for (std::size_t j = 0; j < Lanes; ++j) part[j] += term(k, j);
                for (std::size_t j = 0; j < Lanes; ++j) sum[j] += static_cast<double>(part[j]);
            }
            for (std::size_t j = 0; j < Lanes; ++j) {
                const double cut =
                    bits_cast<double>(bits_cast<std::uint64_t>(sum[j]) & kept_of_sum);
                const double unscale =
                    bits_cast<double>(static_cast<std::uint64_t>(
                                          static_cast<std::uint32_t>(exponent[j] - fraction + 1023))
                                      << 52);
                const auto result = bits_cast<std::uint32_t>(static_cast<float>(cut * unscale));
                std::uint32_t carried = bits_cast<std::uint32_t>(c[j]) & kept;
                carried = (carried << 1) == 0 ? 0 : carried;
                carried =
                    (bits_cast<std::uint32_t>(c[j]) << 1) > 0xFF000000u ? 0x7FFFFFFFu : carried;
                c[j] = bits_cast<float>(select(passes[j] != 0, carried, result));
            }
        }
    }
};

}  // namespace apscope::detail
