// Stochastic rounding of fp32 numbers as one addition of 64-bit integers, on a GPU:
//
//      from 2^emin on    the bits of |x|, then 32 zeros
//      below             the bits of 2^emin plus |x| as a multiple of 2^(emin - 23), then the next
//                        32 digits of |x|
//
//                        exponent | kept m bits | rest: s = 23 - m bits | 32 digits
//                                               + the added digits (added_digits.h)
//
// The digits behind the kept bits are those of eta, so that the sum carries into the kept bits
// where the rule's does. After the rest is cut off, the numbers below lose the 2^emin again, by a
// subtraction that is exact.
//
// stochastic_exact adds the complement of its first 64 digits. The sum carries if eta's digits are
// greater than these, and behind the kept bits it has only ones if they are equal: then the further
// digits decide.
#pragma once

#include <cstdint>

#include "emulation/cast/added_digits.h"
#include "emulation/cast/quantize_split.h"

namespace apscope::detail {

// True for plain casts to signed formats with a zero and even spacing, if the s + 32 digits of eta
// suffice. The power of two above 2^emin must be finite.
inline bool bits_serve(const FloatFormat& f, const Cast<float>& cast) {
    const int digits = 23 - f.mantissa_bits + 32;
    return is_stochastic(cast.rounding) && is_plain(cast) && f.is_signed && f.zero != Zero::none &&
           f.mantissa_bits <= 22 && cast.emin >= -126 && cast.emin <= 126 &&
           (cast.rounding == RoundingMode::stochastic_exact ||
            digits_serve(cast.rounding, cast.random_bits, digits));
}

// The digits that are added in mode M; `word` is the random integer, left-aligned.
template <RoundingMode M>
APSCOPE_HD std::uint64_t added_bits(std::uint64_t word, int random_bits) {
    if constexpr (M == RoundingMode::stochastic_exact) return ~word;
    else return added_digits<M>(word, random_bits).digits;
}

// Returns whether the digits of `random` (core/draws.h), all of them, are less than eta.
template <class Random>
APSCOPE_HD bool drawn_below_bits(std::uint32_t magnitude, const SplitCast& s,
                                 const Random& random) {
    const int field = static_cast<int>(magnitude >> 23);
    const int ulps = static_cast<int>(s.first_normal >> 23) - (field != 0 ? field : 1);
    const int shift = s.shift + (ulps > 0 ? ulps : 0);
    const std::uint32_t significand =
        field != 0 ? (magnitude & 0x007FFFFFu) | 0x00800000u : magnitude;
    const std::uint32_t rest =
        shift < 24 ? significand & ((std::uint32_t{1} << shift) - 1) : significand;
    return drawn_below(rest, shift, random);
}

// Rounds x. `added`: of added_bits(). further(magnitude) is called in mode stochastic_exact if
// `added` does not decide, and returns what drawn_below_bits() does.
template <RoundingMode M, bool Limited, class Further>
APSCOPE_HD float draw_bits(float x, const SplitCast& s, std::uint64_t added, Further&& further) {
    const std::uint32_t bits = bits_cast<std::uint32_t>(x), magnitude = bits & 0x7FFFFFFFu;
    const bool below = magnitude < s.first_normal;
    const std::uint32_t part = below ? magnitude : 0;
    const std::uint32_t hidden = part < 0x00800000u ? part : 0x00800000u;
    const std::uint32_t significand = (part & 0x007FFFFFu) | (hidden & 0xFF800000u);
    const int field = static_cast<int>(part >> 23);
    const int down =
        static_cast<int>(s.first_normal >> 23) - (field > s.lowest_field ? field : s.lowest_field);
    const std::uint64_t whole = std::uint64_t{significand} << 32;
    std::uint64_t digits = whole >> down;
    if constexpr (asks_what_is_lost<M>)
        digits |= static_cast<std::uint64_t>(digits << down != whole);
    const std::uint32_t base = below ? s.first_normal : magnitude;
    std::uint64_t sum = (std::uint64_t{base} << 32) + digits + (added >> (32 - s.shift));
    if constexpr (M == RoundingMode::stochastic_exact) {
        const auto high = static_cast<std::uint32_t>(sum >> 32);
        if ((static_cast<std::uint32_t>(sum) & (high | ~s.rest)) == ~std::uint32_t{0})
            sum += static_cast<std::uint64_t>(further(magnitude));
    }
    const float rounded = bits_cast<float>(static_cast<std::uint32_t>(sum >> 32) & ~s.rest) -
                          bits_cast<float>(below ? s.first_normal : 0u);
    return finish_split<Limited>(bits, bits_cast<std::uint32_t>(rounded), s.cast);
}

}  // namespace apscope::detail
