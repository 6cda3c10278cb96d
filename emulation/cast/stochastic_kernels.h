// The loops of stochastic rounding, one struct each with a static run(), compiled per instruction
// set by simd::run().
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/philox.h"
#include "core/rounding.h"
#include "emulation/cast/stochastic_scaled.h"
#include "emulation/cast/stochastic_split.h"
#include "emulation/draws/random_words.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// Applies the rounding rule with the random integers words[i] << left, which are left-aligned.
template <RoundingMode M, class Real>
struct DrawByRule {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count,
                                   const Cast<Real>* given, const std::uint64_t* words, int left) {
        const Cast<Real> cast = *given;
        for (std::size_t i = 0; i < count; ++i)
            out[i] = round_to_format<M, Real>(in[i], cast, words[i] << left);
    }
};

// Does the same as round_buffers() (quantize_buffers.h) with a random word per number: calls
// round.operator()<Limited>(in[i], word of element first + i).
template <class Word, class Round>
APSCOPE_INLINE void round_drawn(const float* in, float* out, std::size_t count,
                                std::uint32_t largest, const RandomStream& stream,
                                std::uint64_t first, Round&& round) {
    float aside[buffer_elements];
    for_drawn<Word>(
        stream, first, count,
        [&](std::size_t group, std::size_t drawn,
            const Word* words) __attribute__((always_inline)) {
            for (std::size_t begin = 0; begin < drawn; begin += buffer_elements) {
                const std::size_t n =
                    drawn - begin < buffer_elements ? drawn - begin : buffer_elements;
                const float* x = in + group + begin;
                const Word* word = words + begin;
                float* rounded = out + group + begin;
                if (in == out) {
                    __builtin_memcpy(aside, x, n * sizeof(float));
                    x = aside;
                }
                std::uint32_t found = 0;
#pragma GCC ivdep
                for (std::size_t i = 0; i < n; ++i) {
                    const std::uint32_t magnitude = bits_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
                    found = found > magnitude ? found : magnitude;
                    rounded[i] = round.template operator()<false>(x[i], word[i]);
                }
                if (found <= largest) continue;
#pragma GCC ivdep
                for (std::size_t i = 0; i < n; ++i)
                    rounded[i] = round.template operator()<true>(x[i], word[i]);
            }
        },
        in);
}

// Few means that 16 digits suffice (digits_serve()), so that random words have 16 bits.
template <bool Few>
using DrawnWord = std::conditional_t<Few, std::uint16_t, std::uint32_t>;

template <RoundingMode M, bool Few>
APSCOPE_INLINE AddedDigits<M, std::uint32_t> added_of_word(DrawnWord<Few> word, int random_bits) {
    return added_digits<M>(std::uint32_t{word} << (Few ? 16 : 0), random_bits);
}

template <RoundingMode M, bool HasParts, bool Few>
struct DrawBySplit {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count,
                                   const SplitCast* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const SplitCast s = *given;
        round_drawn<DrawnWord<Few>>(
            in, out, count, s.cast.largest, *stream, first,
            [&]<bool Limited>(float x, DrawnWord<Few> word) __attribute__((always_inline)) {
                const auto drawn = added_of_word<M, Few>(word, s.cast.random_bits);
                return draw_split<M, HasParts, Few, Limited>(x, s, drawn);
            });
    }
};

// Rounds as draw_scaled() does. SignedZero means that the format has a -0, which saves two
// operations.
template <RoundingMode M, bool Few, bool SignedZero>
struct DrawScaled {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count,
                                   const ScaledCast* given, const RandomStream* stream,
                                   std::uint64_t first) {
        ScaledCast s = *given;
        if constexpr (SignedZero) s.cast.negative_zero = sign_bit<float>;
        round_drawn<DrawnWord<Few>>(
            in, out, count, s.cast.largest, *stream, first,
            [&]<bool Limited>(float x, DrawnWord<Few> word) __attribute__((always_inline)) {
                const auto drawn = added_of_word<M, Few>(word, s.cast.random_bits);
                return draw_scaled<M, Few, Limited>(x, s, drawn);
            });
    }
};

}  // namespace apscope::detail
