// The rule with a random integer of N bits, as vector code for every mode that counts them. Two numbers are added:
//
//      eta's first 32 or 64 digits    d d d d d d d d ... d s       s: 1 too where a digit behind it is, if that may decide
//      the random integer R           R R R R h 0 0 0 ... 0 0       h: half of R's last place, if the count is rounded
//
// and a carry rounds up. StochasticB: floor(eta 2^N + 1/2) + R >= 2^N is eta 2^N + R + 1/2 >= 2^N. StochasticC differs
// where eta 2^N is a tie, k + 1/2, and its sum is 2^N sharp: R = 2^N - 1 - k, and k is even where R is odd. The even k does
// not reach 2^N then: one less in the last place of an odd R's word, and the sum does not either.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding.h"
#include "emulation/draws/random_words.h"

namespace apscope::detail {

// The second number for mode M.
template <RoundingMode M, class Word>
struct AddedDigits {
    Word digits;
};
template <RoundingMode M, class Word>
APSCOPE_HD AddedDigits<M, Word> added_digits(Word random, int random_bits) {
    constexpr int width = static_cast<int>(sizeof(Word) * 8);
    if constexpr (M == RoundingMode::stochastic_equal) return {static_cast<Word>(Word{0} - (random >> (width - 1)))};
    if constexpr (M == RoundingMode::stochastic) return {random};
    const Word with_half = static_cast<Word>(random | Word{1} << (width - 1 - random_bits));
    if constexpr (M == RoundingMode::stochastic_b) return {with_half};
    return {static_cast<Word>(with_half - (random >> (width - random_bits) & 1))};
}

// Whether a word has room for it: h and one place more where the count is rounded, which is what 64 bits always have.
template <RoundingMode M, class Word>
bool digits_serve(int random_bits) {
    constexpr bool rounded = M == RoundingMode::stochastic_b || M == RoundingMode::stochastic_c;
    return random_bits <= static_cast<int>(sizeof(Word) * 8) - (rounded ? 2 : 0);
}

// The rule's question to a random number, whether it lies below eta = bits / 2^shift; for these, whether the sum carries.
// The bits are fewer than a word has.
template <RoundingMode M, class Bits, class Word>
APSCOPE_HD bool drawn_below(Bits bits, int shift, const AddedDigits<M, Word>& random) {
    constexpr int width = static_cast<int>(sizeof(Word) * 8);
    const Word rest = bits;
    const Word up = static_cast<Word>(width - shift) & (width - 1);  // rest is 0 where shift is
    const Word down = static_cast<Word>(shift < 2 * width - 1 ? shift - width : width - 1) & (width - 1);
    Word digits = select(shift <= width, static_cast<Word>(rest << up), static_cast<Word>(rest >> down));
    if constexpr (M == RoundingMode::stochastic_c || M == RoundingMode::stochastic_equal) {
        const bool lost = (shift > width) & (static_cast<Word>((rest >> down) << down) != rest);
        digits |= static_cast<Word>(lost);
    }
    return static_cast<Word>(digits + random.digits) < digits;
}
template <RoundingMode M, class Word>
APSCOPE_HD std::uint64_t random_digits(const AddedDigits<M, Word>&, int) {
    return 0;  // inside irregular gaps, which plain casts have none of
}

// Plain casts; Word as digits_serve() has it.
template <RoundingMode M, class Real, class Word>
struct DrawByDigits {
    static APSCOPE_INLINE Cast<Real> asked(const Cast<Real>& given) {
        Cast<Real> cast = assume_plain<true>(given);
        cast.rounding = RoundingMode::stochastic_exact;  // which asks the number
        return cast;
    }
    static APSCOPE_INLINE Real round(Real x, const Cast<Real>& cast, Word word) {
        return round_to_format<RoundingMode::stochastic_exact, Real>(x, cast, added_digits<M, Word>(word, cast.random_bits));
    }

    // The caller's words, right-aligned.
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given, const std::uint64_t* words) {
        const Cast<Real> cast = asked(*given);
        const int left = 64 - cast.random_bits;
        for (std::size_t i = 0; i < count; ++i) out[i] = round(in[i], cast, static_cast<Word>(words[i] << left >> (64 - sizeof(Word) * 8)));
    }
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const Cast<Real> cast = asked(*given);
        for_drawn<Word>(*stream, first, count, [&](std::size_t begin, std::size_t n, const Word* drawn) __attribute__((always_inline)) {
            for (std::size_t i = 0; i < n; ++i) out[begin + i] = round(in[begin + i], cast, drawn[i]);
        });
    }
};

}  // namespace apscope::detail
