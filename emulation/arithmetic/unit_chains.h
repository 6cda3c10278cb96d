// How a product of many terms is made of a matrix unit's instructions: chains of blocks through C,
// in the order of k. For host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix_unit.h"

namespace apscope::detail {

// Chains of consecutive terms: one that begins at C, or, of `promote` terms or `split` chains in
// all, those that begin at +0 and are added to C in fp32, in order.
struct UnitChains {
    std::uint64_t terms;
    std::uint64_t promote = 0, split = 0;

    APSCOPE_HD bool begin_at_zero() const { return promote != 0 || split != 0; }
    APSCOPE_HD std::uint64_t count() const {
        if (promote != 0) return terms / promote + (terms % promote != 0);
        // Of more chains than terms, the others are empty, and add +0.
        if (split == 0 || terms == 0) return 1;
        return split < terms ? split : terms;
    }
    // The first term of a chain; that of chain count() is `terms`.
    APSCOPE_HD std::uint64_t first(std::uint64_t chain) const {
        if (promote != 0) return chain < count() ? chain * promote : terms;
        if (split == 0) return chain * terms;
        return static_cast<std::uint64_t>(static_cast<unsigned __int128>(chain) * terms / count());
    }
};

// Adds the chains to `Lanes` outputs, which are C before; add(chain, first, end, carry) adds the
// terms first .. end - 1 of a chain, block by block, to the carries.
template <std::size_t Lanes, class Add>
APSCOPE_HD void add_chains(const UnitChains& chains, const MatrixUnit& unit, float* out,
                           const Add& add) {
    const auto add_to = [&](float* sums, const float* x, bool half) {
        for (std::size_t j = 0; j < Lanes; ++j) sums[j] = add_results(sums[j], x[j], half);
    };
    const auto instruction = static_cast<std::uint64_t>(unit.instruction());
    for (std::uint64_t chain = 0; chain < chains.count(); ++chain) {
        const std::uint64_t begin = chains.first(chain), end = chains.first(chain + 1);
        float from_zero[Lanes] = {};
        float* const sums = chains.begin_at_zero() ? from_zero : out;
        if (unit.c_last) {
            for (std::uint64_t first = begin; first < end; first += instruction) {
                const std::uint64_t next = end - first < instruction ? end : first + instruction;
                float d[Lanes] = {};
                add(chain, first, next, d);
                add_to(sums, d, unit.half);
            }
        } else if (begin < end) {
            add(chain, begin, end, sums);
        }
        if (chains.begin_at_zero()) add_to(out, from_zero, false);
    }
}

// An operand as the unit takes it; `smallest` is the exponent of its format's smallest normal
// number.
APSCOPE_HD UnitNumber unit_operand(float x, int smallest, const MatrixUnit& unit) {
    const UnitNumber number = unit_number(x, smallest);
    const bool subnormal = number.significand < 1 << 23 && number.significand > -(1 << 23);
    return unit.flush && subnormal && unit_is_finite(x) ? UnitNumber{} : number;
}

// An operand times its scale: a power of two, whose exponent is added, or, of grouped products, any
// scale of at most 4 significant bits, whose exponent the result has. `smallest` is the exponent of
// the smallest normal number of the scales' format.
APSCOPE_HD UnitNumber scaled_operand(const UnitNumber& x, float scale, int smallest,
                                     const MatrixUnit& unit) {
    UnitNumber of_scale = unit_number(scale, smallest < -126 ? -126 : smallest);
    if (smallest < -126 && of_scale.significand < 1 << 23) {  // 2^-127, of fp32's subnormal numbers
        of_scale.significand = 1 << 23;
        of_scale.exponent = -127;
    }
    const float value = scale != scale ? scale : x.value;
    if (unit.rule != MatrixUnit::Rule::grouped)
        return {value, x.significand, x.exponent + of_scale.exponent};
    // Elements are halves, scales eighths of their exponent's power of two.
    const auto halves = static_cast<std::int32_t>(2 * x.value);
    return {value, halves * (of_scale.significand >> 20) * (1 << 19), of_scale.exponent};
}

// C in the format of the unit's results.
APSCOPE_HD float unit_addend(float c, const MatrixUnit& unit) {
    if (unit.flush && c != 0 && c < 0x1p-126f && c > -0x1p-126f) return 0;
    if (!unit.half || !unit_is_finite(c)) return c;
    const UnitNumber number = unit_number(c, -126);
    return number.significand == 0
               ? c
               : unit_result(number.significand, number.exponent - 23, 10, true, true);
}

}  // namespace apscope::detail
