// Rounds fp32 numbers in two halves, from 2^emin on and below 2^emin, both as vector code
// (stochastic modes: stochastic_split.h):
//
//      from 2^emin on    the low s = 23 - m bits of x are discarded: add the addend of the mode,
//                        then cut them off
//
//                        sign | exponent | kept m bits | rest: s bits      a carry runs into the
//                                                                          exponent
//
//      below             x = v 2^(emin - m), v an integer k plus a fraction r, both exact in fp32
//
// The rounding rule (core/rounding.h) gives the same results at three times the cost. cast_plan.h
// decides which casts are rounded in this way. Formats whose emin is fp32's have no second half:
// the same bits are discarded from fp32's subnormal numbers as from its normal numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding.h"
#include "emulation/cast/quantize_buffers.h"

namespace apscope::detail {

// A format and a projection, prepared for the two halves.
struct SplitCast {
    Cast<float> cast;
    int shift;                   // s, the number of discarded bits
    std::uint32_t rest;          // mask of the s discarded bits
    std::uint32_t first_normal;  // bits of 2^emin; 0 if there is no second half
    // per_quantum: 2^(m - emin); quantum: 2^(emin - m). Both are 1 if first_normal is 0.
    float per_quantum, quantum;
    // Stochastic rounding as a sum of bits (stochastic_bits.h): replaces lower exponent fields,
    // because numbers of this field have no digit among those that are added.
    int lowest_field;
};

inline SplitCast make_split_cast(const Cast<float>& cast) {
    const int shift = 23 - cast.mantissa_bits;
    SplitCast s{cast, shift, (std::uint32_t{1} << shift) - 1, 0, 1.0f, 1.0f, 0};
    if (cast.emin > -126) {
        s.first_normal = static_cast<std::uint32_t>(cast.emin + 127) << 23;
        s.lowest_field = cast.emin + 127 > 64 ? cast.emin + 127 - 63 : 1;
        s.per_quantum = bits_cast<float>(
            static_cast<std::uint32_t>(cast.mantissa_bits - cast.emin + 127) << 23);
        s.quantum = bits_cast<float>(
            static_cast<std::uint32_t>(cast.emin - cast.mantissa_bits + 127) << 23);
    }
    return s;
}

// The number that the mode adds to the bits of a magnitude before the bits of the mask `rest` are
// cleared. `negative` is 0 or 1.
template <RoundingMode M>
APSCOPE_HD std::uint32_t addend(std::uint32_t magnitude, std::uint32_t negative,
                                std::uint32_t rest) {
    const std::uint32_t half = (rest >> 1) + 1, odd = magnitude & (rest + 1);
    if constexpr (M == RoundingMode::ties_to_even) return select(odd != 0, half, half - 1);
    if constexpr (is_nearest(M))
        return half - 1 + tie_goes_up<M, std::uint32_t>(1, odd != 0 ? 1 : 0, negative);
    if constexpr (M == RoundingMode::toward_positive) return rest & (negative - 1);
    if constexpr (M == RoundingMode::toward_negative) return rest & (0 - negative);
    if constexpr (M == RoundingMode::away_from_zero) return rest;
    if constexpr (M == RoundingMode::to_odd) return select(odd != 0, 0u, rest);
    return 0;  // toward_zero
}

// Rounds v to an integer in mode M; 0 <= v < 2^22.
template <RoundingMode M>
APSCOPE_HD float rounded_part(float v, std::uint32_t negative) {
    if constexpr (M == RoundingMode::ties_to_even) return (v + 8388608.0f) - 8388608.0f;
    const auto k = static_cast<std::int32_t>(v);
    const float whole = static_cast<float>(k);
    if constexpr (M == RoundingMode::toward_zero) return whole;
    const float r = v - whole;
    if constexpr (is_nearest(M) && !asks_parity(M)) {
        const bool up = tie_goes_up<M, std::uint32_t>(1, 0, negative) != 0;
        return r > (up ? 0x1.fffffep-2f : 0.5f) ? whole + 1.0f : whole;
    }
    if constexpr (M == RoundingMode::toward_positive)
        return r != 0.0f ? whole + static_cast<float>(static_cast<std::int32_t>(1 - negative))
                         : whole;
    if constexpr (M == RoundingMode::toward_negative)
        return r != 0.0f ? whole + static_cast<float>(static_cast<std::int32_t>(negative)) : whole;
    if constexpr (M == RoundingMode::to_odd) return static_cast<float>(r != 0.0f ? k | 1 : k);
    return r != 0.0f ? whole + 1.0f : whole;  // away_from_zero
}

// Returns the number of quanta in `magnitude` (v of the file's head) if it is below 2^emin; the
// result for larger magnitudes is not used. The
// smallest normal number replaces fp32's subnormal numbers: they are so small that only the fact
// that they are not zero affects a rounding (see split_serves()).
APSCOPE_HD float quanta_below_normal(std::uint32_t magnitude, const SplitCast& s) {
    std::uint32_t part = select(magnitude < s.first_normal, magnitude, 0u);
    part = select(part - 1 < 0x007FFFFFu, 0x00800000u, part);
    return bits_cast<float>(part) * s.per_quantum;
}

// The result whose magnitude is `rounded`: sets the sign and, if Limited, handles overflow and
// special values (quantize_buffers.h).
template <bool Limited>
APSCOPE_HD float finish_split(std::uint32_t bits, std::uint32_t rounded, const Cast<float>& cast) {
    const std::uint32_t sign = bits & 0x80000000u,
                        result = rounded | (rounded == 0 ? sign & cast.negative_zero : sign);
    return bits_cast<float>(Limited ? limited<float>(result, bits, cast) : result);
}

// Rounds in a deterministic mode. Every step is a selection, so that loops over this function
// become vector code. HasParts means that the format has a second half. SignedZero means that the
// format has a -0; then, without HasParts and Limited, the sign needs no separate step.
template <RoundingMode M, bool HasParts, bool Limited, bool SignedZero = false>
APSCOPE_HD float round_split(float x, const SplitCast& s) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFFu,
                        negative = bits >> 31;
    if constexpr (SignedZero && !HasParts && !Limited)
        return bits_cast<float>((bits + addend<M>(bits, negative, s.rest)) & ~s.rest);
    std::uint32_t rounded = (magnitude + addend<M>(magnitude, negative, s.rest)) & ~s.rest;
    if constexpr (HasParts) {
        const float q = rounded_part<M>(quanta_below_normal(magnitude, s), negative) * s.quantum;
        rounded = select(magnitude < s.first_normal, bits_cast<std::uint32_t>(q), rounded);
    }
    return finish_split<Limited>(bits, rounded, s.cast);
}

template <RoundingMode M, bool HasParts, bool SignedZero>
struct QuantizeBySplit {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count,
                                   const SplitCast* given) {
        SplitCast s = *given;
        if constexpr (SignedZero) s.cast.negative_zero = sign_bit<float>;
        round_buffers(in, out, count, s.cast.largest,
                      [&]<bool Limited>(float x) __attribute__((always_inline)) {
                          return round_split<M, HasParts, Limited, SignedZero>(x, s);
                      });
    }
};

}  // namespace apscope::detail
