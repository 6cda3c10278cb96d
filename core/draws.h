// Stochastic rounding as counting: the number of the 2^N random integers that round up a value that
// is eta of a step above its lower neighbour, and the comparison of that count with a random
// integer.
#pragma once

#include <cstdint>

#include "core/bits.h"
#include "core/projection.h"

namespace apscope::detail {

// eta = rest / 2^shift: `digits` has the first 64 binary digits, as the integer floor(eta 2^64),
// and `below` says whether any later digit is not zero.
struct Eta {
    std::uint64_t digits;
    bool below;
};
template <class Word>
APSCOPE_HD Eta eta_of(Word rest, int shift) {
    constexpr int width = static_cast<int>(sizeof(Word) * 8);
    const int down = shift - 64;
    if (shift <= 0) return {0, false};
    if (down <= 0) return {static_cast<std::uint64_t>(rest) << -down, false};
    if (down >= width) return {0, rest != 0};
    return {static_cast<std::uint64_t>(rest >> down), (rest & ((Word{1} << down) - 1)) != 0};
}

// The number of the 2^N random integers that round up (see RoundingMode), left-aligned in 64 bits;
// `all` means that all 2^N of them round up.
struct UpCount {
    std::uint64_t count;
    bool all;
};
template <RoundingMode M>
APSCOPE_HD UpCount up_count(Eta eta, int random_bits) {
    const std::uint64_t mask = ~std::uint64_t{0} << (64 - random_bits);
    if constexpr (M == RoundingMode::stochastic_equal) {
        return {static_cast<std::uint64_t>((eta.digits != 0) | eta.below) << 63, false};
    } else if constexpr (M == RoundingMode::stochastic_exact) {
        return eta.digits == ~std::uint64_t{0} && eta.below
                   ? UpCount{0, true}
                   : UpCount{eta.digits + (eta.below ? 1 : 0), false};
    } else if constexpr (M == RoundingMode::stochastic_b || M == RoundingMode::stochastic_c) {
        const std::uint64_t half = std::uint64_t{1} << (63 - random_bits);
        // The last digit becomes a sticky bit. Because N is at most 62, it weighs less than half a
        // unit of the count.
        const std::uint64_t digits = eta.digits | (eta.below ? 1 : 0);
        const std::uint64_t odd = digits >> (64 - random_bits) & 1;
        const std::uint64_t sum =
            digits + (M == RoundingMode::stochastic_b ? half : half - 1 + odd);
        return {sum & mask, sum < digits};
    } else {
        return {eta.digits & mask, false};
    }
}

APSCOPE_HD UpCount up_count(RoundingMode mode, Eta eta, int random_bits) {
    switch (mode) {
        case RoundingMode::stochastic_b:
            return up_count<RoundingMode::stochastic_b>(eta, random_bits);
        case RoundingMode::stochastic_c:
            return up_count<RoundingMode::stochastic_c>(eta, random_bits);
        case RoundingMode::stochastic_equal:
            return up_count<RoundingMode::stochastic_equal>(eta, random_bits);
        case RoundingMode::stochastic_exact:
            return up_count<RoundingMode::stochastic_exact>(eta, random_bits);
        default: return up_count<RoundingMode::stochastic>(eta, random_bits);
    }
}

// Returns whether a magnitude that is eta steps above its lower neighbour rounds up. The function
// is for numbers whose eta is not a field of the bits of a Real: numbers inside an irregular gap,
// and exact results wider than fp64. It does not support stochastic_exact, which may need more than
// 64 digits of eta.
template <RoundingMode M>
APSCOPE_HD bool eta_rounds_up(Eta eta, bool odd, bool negative, int random_bits,
                              std::uint64_t random) {
    constexpr std::uint64_t half = std::uint64_t{1} << 63;
    const bool inexact = (eta.digits != 0) | eta.below;
    const bool tie = (eta.digits == half) & !eta.below;
    const bool above = (eta.digits >= half) & !tie;
    if constexpr (is_nearest(M))
        return above | (tie & (tie_goes_up<M, unsigned>(1, odd ? 1 : 0, negative ? 1 : 0) != 0));
    if constexpr (M == RoundingMode::toward_zero) return false;
    if constexpr (M == RoundingMode::toward_positive) return inexact & !negative;
    if constexpr (M == RoundingMode::toward_negative) return inexact & negative;
    if constexpr (M == RoundingMode::away_from_zero) return inexact;
    if constexpr (M == RoundingMode::to_odd) return inexact & !odd;
    const UpCount up = up_count(M, eta, random_bits);
    return up.all | (up.count + random < up.count);
}

// Returns digits 64 index .. 64 index + 63 of a random number U in [0, 1). A single word has only
// zeros after its 64 digits; the overload for streams (core/philox.h) has any number of digits.
APSCOPE_HD std::uint64_t random_digits(std::uint64_t word, int index) {
    return index == 0 ? word : 0;
}

// Returns whether U, whose digits are random_digits(random, 0), random_digits(random, 1), ..., is
// less than rest / 2^shift. The function compares as many digits as it needs.
template <class Word, class Random>
APSCOPE_HD bool drawn_below(Word rest, int shift, const Random& random) {
    for (int index = 0; rest != 0; ++index, shift -= 64) {
        const std::uint64_t digits = eta_of(rest, shift).digits;
        const std::uint64_t drawn = random_digits(random, index);
        if (drawn != digits) return drawn < digits;
        if (shift <= 64) break;
        const int left = shift - 64;  // the number of digits not yet compared
        if (left < static_cast<int>(sizeof(Word) * 8)) rest &= (Word{1} << left) - 1;
    }
    return false;
}

}  // namespace apscope::detail
