// Stochastic rounding with a random integer R of N bits as a sum of two numbers below 1:
//
//      eta's first 16, 32 or 64 digits    d d d d d d d d ... d s   s: also 1 if a lower digit is
//                                                                   1 and may decide
//      R                                  R R R R h 0 0 0 ... 0 0   h: half of R's last place, if
//                                                                   the count is rounded
//
// A carry rounds up. For StochasticB, floor(eta 2^N + 1/2) + R >= 2^N is equivalent to eta 2^N + R
// + 1/2 >= 2^N. StochasticC differs only where eta 2^N is a tie, k + 1/2, and eta 2^N + R + 1/2 is
// exactly 2^N: R = 2^N - 1 - k, so k is even if R is odd. Then StochasticC's count is k, and k + R
// does not reach 2^N. For this case, the second number is reduced by one in its last place if R is
// odd, so that its sum does not carry either.
#pragma once

#include "core/bits.h"
#include "core/projection.h"

namespace apscope::detail {

// The second of the two numbers, R with h, for mode M.
template <RoundingMode M, class Word>
struct AddedDigits {
    Word digits;
};
template <RoundingMode M, class Word>
APSCOPE_HD AddedDigits<M, Word> added_digits(Word random, int random_bits) {
    constexpr int width = static_cast<int>(sizeof(Word) * 8);
    if constexpr (M == RoundingMode::stochastic_equal) {
        return {static_cast<Word>(Word{0} - (random >> (width - 1)))};
    }
    if constexpr (M == RoundingMode::stochastic) return {random};
    const Word half = Word{1} << (width - 1 - random_bits);
    const Word with_half = static_cast<Word>(random | half);
    if constexpr (M == RoundingMode::stochastic_b) return {with_half};
    return {static_cast<Word>(with_half - (random >> (width - random_bits) & 1))};
}

// True if digits of eta below the first 16, 32 or 64 may decide the rounding (s above).
template <RoundingMode M>
inline constexpr bool asks_what_is_lost =
    M == RoundingMode::stochastic_c || M == RoundingMode::stochastic_equal;

// True if sums of `digits` digits have room for R and, if the count is rounded, for h and s.
APSCOPE_HD constexpr bool digits_serve(RoundingMode mode, int random_bits, int digits) {
    const bool rounded = mode == RoundingMode::stochastic_b || mode == RoundingMode::stochastic_c;
    return mode != RoundingMode::stochastic_exact && random_bits <= digits - (rounded ? 2 : 0);
}

}  // namespace apscope::detail
