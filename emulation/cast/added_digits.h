// Stochastic rounding with a random integer R of N bits as a sum of two numbers below 1:
//
//      eta's first 16, 32 or 64 digits    d d d d d d d d ... d s   s: 1 too where a digit behind
//                                                                   it is, if that may decide
//      R                                  R R R R h 0 0 0 ... 0 0   h: half of R's last place, if
//                                                                   the count is rounded
//
// A carry rounds up. StochasticB: floor(eta 2^N + 1/2) + R >= 2^N is eta 2^N + R + 1/2 >= 2^N.
// StochasticC differs where eta 2^N is a tie, k + 1/2, and the sum is exactly 2^N: R = 2^N - 1 - k,
// and k is even where R is odd. The even k does not reach 2^N then: the word of an odd R is one
// less in its last place, and the sum does not reach it either.
#pragma once

#include "core/bits.h"
#include "core/projection.h"

namespace apscope::detail {

// The second number for mode M.
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

// Whether digits behind those that are added may decide: s above.
template <RoundingMode M>
inline constexpr bool asks_what_is_lost =
    M == RoundingMode::stochastic_c || M == RoundingMode::stochastic_equal;

// Whether so many digits have room for R: for h and s too where the count is rounded.
APSCOPE_HD constexpr bool digits_serve(RoundingMode mode, int random_bits, int digits) {
    const bool rounded = mode == RoundingMode::stochastic_b || mode == RoundingMode::stochastic_c;
    return mode != RoundingMode::stochastic_exact && random_bits <= digits - (rounded ? 2 : 0);
}

}  // namespace apscope::detail
