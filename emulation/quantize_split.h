// Any counted rounding of fp32 numbers to a common format, in two halves that both are vector code:
//
//   from 2^emin on    the discarded bits are the low s = 23 - m of x's own: add what the mode adds, cut them off
//
//                     sign | exponent | kept m bits | rest: s bits       a carry runs into the exponent
//
//   below             x is v quanta, 2^(emin - m) each: an integer k and a fraction r, both exact in fp32
//
// The rule (core/rounding.h) is the same for both; here it costs a third. Formats whose emin is fp32's have
// no second half: fp32's subnormal numbers are cut off at the same place as its normal ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding.h"
#include "emulation/narrow_draws.h"
#include "emulation/simd.h"

namespace apscope {

// A format and a projection as the two halves need them.
struct SplitCast {
    Cast<float> cast;
    int shift;                   // s
    std::uint32_t rest;          // its bits
    std::uint32_t random_mask;   // the bits of a random integer, left-aligned
    std::uint32_t first_normal;  // bits of 2^emin; 0 without a second half
    float per_quantum, quantum;  // 2^(m - emin), 2^(emin - m)
};

inline SplitCast make_split_cast(const FloatFormat& f, const Cast<float>& cast) {
    const int shift = 23 - f.mantissa_bits, bits = cast.random_bits < 32 ? cast.random_bits : 32;
    SplitCast s{cast, shift, (std::uint32_t{1} << shift) - 1, ~std::uint32_t{0} << (32 - bits), 0, 1.0f, 1.0f};
    if (cast.emin > -126) {
        s.first_normal = static_cast<std::uint32_t>(cast.emin + 127) << 23;
        s.per_quantum = bits_cast<float>(static_cast<std::uint32_t>(f.mantissa_bits - cast.emin + 127) << 23);
        s.quantum = bits_cast<float>(static_cast<std::uint32_t>(cast.emin - f.mantissa_bits + 127) << 23);
    }
    return s;
}

// Plain casts to signed formats with a zero and even spacing, whose emin is fp32's, or whose quantum is at
// most 1 (v is a normal number) and at least 2^-93 (fp32's subnormal numbers are less than 2^-33 quanta); at
// precision 1 no mode that asks for a code's parity.
inline bool split_serves(const FloatFormat& f, const Projection& p, const Cast<float>& cast) {
    const bool asks_parity = p.rounding == RoundingMode::ties_to_even || p.rounding == RoundingMode::to_odd;
    const bool narrow = p.rounding == RoundingMode::stochastic || p.rounding == RoundingMode::stochastic_equal;
    if (is_stochastic(p.rounding) && (!narrow || p.drawn_bits() > 32)) return false;
    const bool halves = cast.emin == -126 || (cast.emin - f.mantissa_bits >= -93 && cast.emin - f.mantissa_bits <= 0);
    return is_plain(cast) && f.is_signed && f.zero != Zero::none && f.mantissa_bits <= 22 && halves &&
           (f.mantissa_bits > 0 || !asks_parity);
}

// What the mode adds to the bits of a magnitude, whose low `s` bits are then cut off. negative is 0 or 1.
template <RoundingMode M>
APSCOPE_HD std::uint32_t addend(std::uint32_t magnitude, std::uint32_t negative, int s, std::uint32_t rest, std::uint32_t drawn) {
    const std::uint32_t half = (rest >> 1) + 1;
    if constexpr (M == RoundingMode::ties_to_even) return half - 1 + (magnitude >> s & 1);
    if constexpr (M == RoundingMode::ties_to_away) return half;
    if constexpr (M == RoundingMode::ties_to_zero) return half - 1;
    if constexpr (M == RoundingMode::toward_positive) return rest & (negative - 1);
    if constexpr (M == RoundingMode::toward_negative) return rest & (0 - negative);
    if constexpr (M == RoundingMode::away_from_zero) return rest;
    if constexpr (M == RoundingMode::to_odd) return rest & ((magnitude >> s & 1) - 1);
    if constexpr (M == RoundingMode::stochastic) return drawn >> (32 - s);  // eta 2^s + R 2^s >= 2^s, R cut to s bits
    if constexpr (M == RoundingMode::stochastic_equal) return (magnitude & rest) != 0 ? (drawn >> 31) * (rest + 1) : 0;
    return 0;  // toward_zero
}

// v, at least 0 and below 2^22, rounded to an integer.
template <RoundingMode M, bool Few>
APSCOPE_HD float rounded_part(float v, std::uint32_t negative, std::uint32_t mask, std::uint32_t drawn) {
    if constexpr (M == RoundingMode::ties_to_even) return (v + 8388608.0f) - 8388608.0f;
    const auto k = static_cast<std::int32_t>(v);
    const float whole = static_cast<float>(k);
    if constexpr (M == RoundingMode::toward_zero) return whole;
    const float r = v - whole;
    if constexpr (M == RoundingMode::ties_to_away) return r >= 0.5f ? whole + 1.0f : whole;
    if constexpr (M == RoundingMode::ties_to_zero) return r > 0.5f ? whole + 1.0f : whole;
    if constexpr (M == RoundingMode::toward_positive) return r != 0.0f ? whole + static_cast<float>(static_cast<std::int32_t>(1 - negative)) : whole;
    if constexpr (M == RoundingMode::toward_negative) return r != 0.0f ? whole + static_cast<float>(static_cast<std::int32_t>(negative)) : whole;
    if constexpr (M == RoundingMode::away_from_zero) return r != 0.0f ? whole + 1.0f : whole;
    if constexpr (M == RoundingMode::to_odd) return static_cast<float>(r != 0.0f ? k | 1 : k);
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

// `drawn` is left-aligned in 32 bits. Every step is a selection, so that loops over it become vector code.
// Few: at most 16 random bits.
template <RoundingMode M, bool HasParts, bool Few>
APSCOPE_HD float round_split(float x, const SplitCast& s, std::uint32_t drawn) {
    const Cast<float>& cast = s.cast;
    const std::uint32_t bits = bits_cast<std::uint32_t>(x);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu, sign = bits & 0x80000000u, negative = bits >> 31;
    std::uint32_t rounded = (magnitude + addend<M>(magnitude, negative, s.shift, s.rest, drawn)) & ~s.rest;
    if constexpr (HasParts) {
        // fp32's subnormal numbers are less than any random number's step: as good as the smallest normal one.
        std::uint32_t part = select(magnitude < s.first_normal, magnitude, 0u);
        part = select(part - 1 < 0x007FFFFFu, 0x00800000u, part);
        const float q = rounded_part<M, Few>(bits_cast<float>(part) * s.per_quantum, negative, s.random_mask, drawn) * s.quantum;
        rounded = select(magnitude < s.first_normal, bits_cast<std::uint32_t>(q), rounded);
    }
    const std::uint32_t overflow = negative != 0 ? cast.overflow_negative : cast.overflow_positive;
    const std::uint32_t infinite = negative != 0 ? cast.infinite_negative : cast.infinite_positive;
    std::uint32_t result = rounded | (rounded == 0 ? sign & cast.negative_zero : sign);
    result = rounded > cast.largest ? overflow : result;
    result = magnitude == 0x7F800000u ? infinite : result;
    result = magnitude > 0x7F800000u ? nan_bits<float> : result;
    return bits_cast<float>(result);
}

template <RoundingMode M, bool HasParts>
struct QuantizeBySplit {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const SplitCast* given) {
        const SplitCast s = *given;
        for (std::size_t i = 0; i < count; ++i) out[i] = round_split<M, HasParts, false>(in[i], s, 0);
    }
};

// With at most 32 random bits an element: words first, a buffer at a time. Starts at a whole block.
template <RoundingMode M, bool HasParts, bool Few>
struct DrawBySplit {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const SplitCast* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const SplitCast s = *given;
        NarrowDraws draws(*stream);
        for (std::size_t begin = 0; begin < count; begin += NarrowDraws::size) {
            const std::size_t n = count - begin < NarrowDraws::size ? count - begin : NarrowDraws::size;
            const std::uint32_t* drawn = draws.at(first + begin, n);
            for (std::size_t i = 0; i < n; ++i) out[begin + i] = round_split<M, HasParts, Few>(in[begin + i], s, drawn[i]);
        }
    }
};

}  // namespace apscope
