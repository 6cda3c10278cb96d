// The rounding rule with a random integer of N bits, as vector code for every stochastic mode
// except stochastic_exact. The sum of added_digits.h, with 32 or 64 digits, decides each rounding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding.h"
#include "emulation/cast/added_digits.h"
#include "emulation/draws/random_words.h"

namespace apscope::detail {

// The rounding rule calls this function to compare a random number with eta = bits / 2^shift. This
// overload returns whether the sum of the digits of eta and `random` carries. `bits` has fewer
// significant bits than Word.
template <RoundingMode M, class Bits, class Word>
APSCOPE_HD bool drawn_below(Bits bits, int shift, const AddedDigits<M, Word>& random) {
    constexpr int width = static_cast<int>(sizeof(Word) * 8);
    const Word rest = bits;
    const Word up = static_cast<Word>(width - shift) & (width - 1);  // if shift is 0, rest is 0 too
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
    return 0;  // called only in irregular gaps, which plain casts do not have
}

// Rounds by a plain cast. Word must have as many digits as digits_serve() requires.
template <RoundingMode M, class Real, class Word>
struct DrawByDigits {
    static APSCOPE_INLINE Cast<Real> asked(const Cast<Real>& given) {
        Cast<Real> cast = assume_plain<true>(given);
        cast.rounding = RoundingMode::stochastic_exact;  // in this mode, the rule calls
                                                         // drawn_below()
        return cast;
    }
    static APSCOPE_INLINE Real round(Real x, const Cast<Real>& cast, Word word) {
        return round_to_format<RoundingMode::stochastic_exact, Real>(
            x, cast, added_digits<M, Word>(word, cast.random_bits));
    }

    // Rounds with random words from the caller, whose lowest `random_bits` bits are random.
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
