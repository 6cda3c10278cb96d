// Stochastic rounding with at most 32 random bits as a sum of integers:
//
//      e = max(exponent(x), emin)
//      T = floor(|x| 2^(16 + m - e))            kept bits, then the first 16 digits of the rest
//      |x| becomes ((T + R) >> 16) 2^(e - m)    R is the random integer, its N bits the leading ones of 16
//
// T + R carries out of the digits where the leading N of them and R make a whole step; those of T behind the
// N-th meet zeros. With more than 16 bits the next 16 digits and the rest of R carry into T + R first. Numbers of
// full precision and subnormal ones take the same way, in half the operations of stochastic_split.h.
#pragma once

#include <cstdint>

#include "emulation/cast/quantize_split.h"

namespace apscope::detail {

struct ScaledCast {
    Cast<float> cast;
    std::uint32_t top;         // bits of the power of two above the largest number: what is greater overflows as it does
    std::uint32_t least;       // bits of 2^emin
    std::uint32_t up, down;    // less the bits of 2^e, those of 2^(16 + m - e); from there, less those of 2^(e - m)
    std::uint32_t mask;        // the N bits of R, if they are at most 16
};

// The exponent of the largest number, and of the one above it a power of two.
inline int top_exponent(const Cast<float>& cast) { return static_cast<int>(cast.largest >> 23) - 127 + 1; }

inline ScaledCast make_scaled_cast(const SplitCast& s) {
    const auto exponent = [](int e) { return static_cast<std::uint32_t>(e + 127) << 23; };
    const auto places = static_cast<std::uint32_t>(s.cast.mantissa_bits);
    return {s.cast,
            exponent(top_exponent(s.cast)),
            exponent(s.cast.emin),
            (127u + 127u + 16u + places) << 23,
            places << 23,
            s.cast.random_bits <= 16 ? 0xFFFFu & ~std::uint32_t{0} << (16 - s.cast.random_bits) : 0u};
}

// Drawn holds R's bits, the leading ones of 16 (what stands behind them is cut off) or of 32 (zeros do). Limited as in
// finish_split().
template <bool Limited, class Drawn>
APSCOPE_HD float draw_scaled(float x, const ScaledCast& s, Drawn drawn) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x);
    std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    magnitude = magnitude > 0x00800000u ? magnitude : 0x00800000u;
    magnitude = magnitude < s.top ? magnitude : s.top;  // unlimited, too: C++ leaves open what integer a NaN or 2^40 is
    std::uint32_t e = magnitude & 0x7F800000u;
    e = e > s.least ? e : s.least;
    const float scaled = bits_cast<float>(magnitude) * bits_cast<float>(s.up - e);
    const auto t = static_cast<std::int32_t>(scaled);
    std::uint32_t sum = static_cast<std::uint32_t>(t);
    if constexpr (sizeof(Drawn) == 2) {
        sum += drawn & s.mask;
    } else {
        const auto next = static_cast<std::uint32_t>(static_cast<std::int32_t>((scaled - static_cast<float>(t)) * 65536.0f));
        sum += (drawn >> 16) + ((next + (drawn & 0xFFFFu)) >> 16);
    }
    const float rounded = static_cast<float>(static_cast<std::int32_t>(sum >> 16)) * bits_cast<float>(e - s.down);
    return finish_split<Limited>(bits, bits_cast<std::uint32_t>(rounded), s.cast);
}

}  // namespace apscope::detail
