// Stochastic rounding of fp32 numbers in the two halves of quantize_split.h, if 32 digits suffice
// (added_digits.h): the digits are added to the discarded bits, or to the fraction of a quantum.
#pragma once

#include <cstdint>

#include "emulation/cast/added_digits.h"
#include "emulation/cast/quantize_split.h"

namespace apscope::detail {

// Rounds v to an integer; 0 <= v < 2^22. Few means that 16 digits suffice.
template <RoundingMode M, bool Few>
APSCOPE_HD float drawn_part(float v, AddedDigits<M, std::uint32_t> drawn) {
    // Converts sixteen digits of the fraction at a time, because vector units convert only to
    // signed integers.
    const auto digits_of = [](float part) {
        return static_cast<std::uint32_t>(static_cast<std::int32_t>(part));
    };
    const auto k = static_cast<std::int32_t>(v);
    const float whole = static_cast<float>(k), above = (v - whole) * 65536.0f;
    std::uint32_t digits = digits_of(above);
    float rest = above - static_cast<float>(static_cast<std::int32_t>(digits));
    digits <<= 16;
    if constexpr (!Few) {
        const float below = rest * 65536.0f;
        const std::uint32_t low = digits_of(below);
        rest = below - static_cast<float>(static_cast<std::int32_t>(low));
        digits |= low;
    }
    if constexpr (asks_what_is_lost<M>) digits |= static_cast<std::uint32_t>(rest != 0.0f);
    return digits + drawn.digits < digits ? whole + 1.0f : whole;
}

// Rounds x; Limited is as in finish_split(), HasParts as in round_split(). Every step is a
// selection, so that compilers vectorise loops over this function.
template <RoundingMode M, bool HasParts, bool Few, bool Limited>
APSCOPE_HD float draw_split(float x, const SplitCast& s, AddedDigits<M, std::uint32_t> drawn) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFFu;
    // Eta has no digits below the discarded bits, so lower added digits cannot carry.
    std::uint32_t rounded = (magnitude + (drawn.digits >> (32 - s.shift))) & ~s.rest;
    if constexpr (HasParts) {
        const float q = drawn_part<M, Few>(quanta_below_normal(magnitude, s), drawn) * s.quantum;
        rounded = select(magnitude < s.first_normal, bits_cast<std::uint32_t>(q), rounded);
    }
    return finish_split<Limited>(bits, rounded, s.cast);
}

}  // namespace apscope::detail
