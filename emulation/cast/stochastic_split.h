// Stochastic rounding of fp32 numbers with at most 32 random bits, in the two halves of quantize_split.h: a
// random integer is added to the discarded bits, or compared with the fraction of a quantum.
#pragma once

#include <cstdint>

#include "emulation/cast/quantize_split.h"

namespace apscope::detail {

// What is added to the bits of a magnitude, whose low `s` bits are then cut off.
template <RoundingMode M>
APSCOPE_HD std::uint32_t drawn_addend(std::uint32_t magnitude, int s, std::uint32_t rest, std::uint32_t drawn) {
    if constexpr (M == RoundingMode::stochastic_equal) return (magnitude & rest) != 0 ? (drawn >> 31) * (rest + 1) : 0;
    return drawn >> (32 - s);  // eta 2^s + R 2^s >= 2^s, R cut to s bits
}

// v, at least 0 and below 2^22, rounded to an integer. Few: at most 16 random bits.
template <RoundingMode M, bool Few>
APSCOPE_HD float drawn_part(float v, std::uint32_t mask, std::uint32_t drawn) {
    const auto k = static_cast<std::int32_t>(v);
    const float whole = static_cast<float>(k), r = v - whole;
    if constexpr (M == RoundingMode::stochastic_equal) return r != 0.0f ? whole + static_cast<float>(static_cast<std::int32_t>(drawn >> 31)) : whole;
    // The first 32 binary digits of r, or 16 if more meet no random bit; sixteen at a time, which fits a signed
    // conversion.
    const float above = r * 65536.0f;
    const auto high = static_cast<std::int32_t>(above);
    if constexpr (Few) {
        const std::uint32_t count = (static_cast<std::uint32_t>(high) << 16) & mask;
        return count + drawn < count ? whole + 1.0f : whole;
    }
    const auto low = static_cast<std::int32_t>((above - static_cast<float>(high)) * 65536.0f);
    const std::uint32_t count = (static_cast<std::uint32_t>(high) << 16 | static_cast<std::uint32_t>(low)) & mask;
    return count + drawn < count ? whole + 1.0f : whole;
}

// `drawn` is left-aligned in 32 bits; Full as in finish_split(). Every step is a selection, so that loops over it become vector code.
template <RoundingMode M, bool HasParts, bool Few, bool Full>
APSCOPE_HD float draw_split(float x, const SplitCast& s, std::uint32_t drawn) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFFu;
    std::uint32_t rounded = (magnitude + drawn_addend<M>(magnitude, s.shift, s.rest, drawn)) & ~s.rest;
    if constexpr (HasParts) {
        const float q = drawn_part<M, Few>(quanta_below_normal(magnitude, s), s.random_mask, drawn) * s.quantum;
        rounded = select(magnitude < s.first_normal, bits_cast<std::uint32_t>(q), rounded);
    }
    return finish_split<Full>(bits, rounded, s.cast);
}

}  // namespace apscope::detail
