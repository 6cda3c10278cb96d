// The rule with a random integer of N bits, as vector code for every mode that counts them: the sum
// of added_digits.h over 32 or 64 digits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding.h"
#include "emulation/cast/added_digits.h"
#include "emulation/draws/random_words.h"

namespace apscope::detail {

// The rule's question to a random number, whether it lies below eta = bits / 2^shift; for these,
// whether the sum carries. The bits are fewer than a word has.
template <RoundingMode M, class Bits, class Word>
APSCOPE_HD bool drawn_below(Bits bits, int shift, const AddedDigits<M, Word>& random) {
    constexpr int width = static_cast<int>(sizeof(Word) * 8);
    const Word rest = bits;
    const Word up = static_cast<Word>(width - shift) & (width - 1);  // rest is 0 where shift is
    const Word down =
        static_cast<Word>(shift < 2 * width - 1 ? shift - width : width - 1) & (width - 1);
    Word digits =
        select(shift <= width, static_cast<Word>(rest << up), static_cast<Word>(rest >> down));
    if constexpr (asks_what_is_lost<M>) {
        const bool lost = (shift > width) & (static_cast<Word>((rest >> down) << down) != rest);
        digits |= static_cast<Word>(lost);
    }
    return static_cast<Word>(digits + random.digits) < digits;
}
template <RoundingMode M, class Word>
APSCOPE_HD std::uint64_t random_digits(const AddedDigits<M, Word>&, int) {
    return 0;  // inside irregular gaps, which plain casts have none of
}

// Plain casts; Word has as many digits as digits_serve() asks for.
template <RoundingMode M, class Real, class Word>
struct DrawByDigits {
    static APSCOPE_INLINE Cast<Real> asked(const Cast<Real>& given) {
        Cast<Real> cast = assume_plain<true>(given);
        cast.rounding = RoundingMode::stochastic_exact;  // which asks the number
        return cast;
    }
    static APSCOPE_INLINE Real round(Real x, const Cast<Real>& cast, Word word) {
        return round_to_format<RoundingMode::stochastic_exact, Real>(
            x, cast, added_digits<M, Word>(word, cast.random_bits));
    }

    // The caller's words, right-aligned.
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count,
                                   const Cast<Real>* given, const std::uint64_t* words) {
        const Cast<Real> cast = asked(*given);
        const int left = 64 - cast.random_bits;
        for (std::size_t i = 0; i < count; ++i)
            out[i] =
                round(in[i], cast, static_cast<Word>(words[i] << left >> (64 - sizeof(Word) * 8)));
    }
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count,
                                   const Cast<Real>* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const Cast<Real> cast = asked(*given);
        for_drawn<Word>(*stream, first, count,
                        [&](std::size_t begin, std::size_t n, const Word* drawn)
                            __attribute__((always_inline)) {
                                for (std::size_t i = 0; i < n; ++i)
                                    out[begin + i] = round(in[begin + i], cast, drawn[i]);
                            });
    }
};

}  // namespace apscope::detail
