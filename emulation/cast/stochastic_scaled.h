// Stochastic rounding as a sum of integers, if 32 digits suffice (added_digits.h):
//
//      e = max(exponent(x), emin)
//      T = floor(|x| 2^(16 + m - e))               kept bits, then the first 16 digits of the rest
//      |x| becomes ((T + A) >> 16) 2^(e - m)       A: the first 16 of the added digits
//
// If 16 digits do not suffice, the next 16 digits of the rest and of the added digits are added
// first, and their sum carries into T + A. Normal and subnormal numbers need the same steps, half
// as many operations as in stochastic_split.h.
#pragma once

#include <cstdint>

#include "emulation/cast/added_digits.h"
#include "emulation/cast/quantize_split.h"

namespace apscope::detail {

struct ScaledCast {
    Cast<float> cast;
    std::uint32_t top;    // bits of the power of two above the largest value; it replaces greater
                          // magnitudes, which overflow too
    std::uint32_t least;  // bits of 2^emin
    // `up` minus the bits of 2^e gives the bits of 2^(16 + m - e); the bits of 2^e minus `down` are
    // the bits of 2^(e - m).
    std::uint32_t up, down;
};

// The exponent of the smallest power of two above the largest value.
inline int top_exponent(const Cast<float>& cast) {
    return static_cast<int>(cast.largest >> 23) - 127 + 1;
}

inline ScaledCast make_scaled_cast(const SplitCast& s) {
    const auto exponent = [](int e) { return static_cast<std::uint32_t>(e + 127) << 23; };
    const auto places = static_cast<std::uint32_t>(s.cast.mantissa_bits);
    return {s.cast, exponent(top_exponent(s.cast)), exponent(s.cast.emin),
            (127u + 127u + 16u + places) << 23, places << 23};
}

// Rounds x. Few means that 16 digits suffice; Limited is as in finish_split().
template <RoundingMode M, bool Few, bool Limited>
APSCOPE_HD float draw_scaled(float x, const ScaledCast& s, AddedDigits<M, std::uint32_t> drawn) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x);
    std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    magnitude = magnitude > 0x00800000u ? magnitude : 0x00800000u;
    // The limit is needed without Limited too: in C++ the conversion of a NaN or of 2^40 to an int
    // is undefined.
    magnitude = magnitude < s.top ? magnitude : s.top;
    std::uint32_t e = magnitude & 0x7F800000u;
    e = e > s.least ? e : s.least;
    const float scaled = bits_cast<float>(magnitude) * bits_cast<float>(s.up - e);
    const auto t = static_cast<std::int32_t>(scaled);
    std::uint32_t sum = static_cast<std::uint32_t>(t);
    float rest = scaled - static_cast<float>(t);
    std::uint32_t next = 0;
    if constexpr (!Few) {
        rest *= 65536.0f;
        next = static_cast<std::uint32_t>(static_cast<std::int32_t>(rest));
        rest -= static_cast<float>(static_cast<std::int32_t>(next));
    }
    // The smallest normal number replaced a zero; the rest of a zero must count as 0.
    if constexpr (asks_what_is_lost<M>) {
        (Few ? sum : next) |= static_cast<std::uint32_t>((rest != 0.0f) & ((bits << 1) != 0));
    }
    sum += drawn.digits >> 16;
    if constexpr (!Few) sum += (next + (drawn.digits & 0xFFFFu)) >> 16;
    const float rounded =
        static_cast<float>(static_cast<std::int32_t>(sum >> 16)) * bits_cast<float>(e - s.down);
    return finish_split<Limited>(bits, bits_cast<std::uint32_t>(rounded), s.cast);
}

}  // namespace apscope::detail
