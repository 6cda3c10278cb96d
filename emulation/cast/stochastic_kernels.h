// The loops of stochastic rounding, one struct each with a static run(), compiled per instruction set by
// simd::run().
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

// The rule with random integers that are left-aligned in their words once these are shifted by `left`.
template <RoundingMode M, class Real, bool Plain>
struct DrawByRule {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given, const std::uint64_t* words, int left) {
        const Cast<Real> cast = assume_plain<Plain>(*given);
        for (std::size_t i = 0; i < count; ++i) out[i] = round_to_format<M, Real>(in[i], cast, words[i] << left);
    }
};

// fp32 numbers and at most 32 random bits: words first, a buffer at a time, then their use, both as vector code.
template <RoundingMode M>
struct DrawNarrowByRule {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const Cast<float>* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const Cast<float> cast = assume_plain<true>(*given);
        for_drawn<std::uint32_t>(*stream, first, count,
                                 [&](std::size_t begin, std::size_t n, const std::uint32_t* drawn) __attribute__((always_inline)) {
            for (std::size_t i = 0; i < n; ++i) out[begin + i] = round_to_format<M, float>(in[begin + i], cast, Word32{drawn[i]});
        });
    }
};

template <RoundingMode M, bool HasParts, bool Few>
struct DrawBySplit {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const SplitCast* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const SplitCast s = *given;
        for_drawn<std::uint32_t>(*stream, first, count,
                                 [&](std::size_t begin, std::size_t n, const std::uint32_t* drawn) __attribute__((always_inline)) {
            const float* x = in + begin;
            float* rounded = out + begin;
            by_overflow(x, n, s.cast.largest, [&]<bool Limited>(std::size_t from, std::size_t length) __attribute__((always_inline)) {
                for (std::size_t i = from; i < from + length; ++i) rounded[i] = draw_split<M, HasParts, Few, Limited>(x[i], s, drawn[i]);
            });
        });
    }
};

// Few: at most 16 random bits.
template <bool Few>
struct DrawScaled {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const ScaledCast* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const ScaledCast s = *given;
        using Drawn = std::conditional_t<Few, std::uint16_t, std::uint32_t>;
        for_drawn<Drawn>(*stream, first, count, [&](std::size_t begin, std::size_t n, const Drawn* drawn) __attribute__((always_inline)) {
            const float* x = in + begin;
            float* rounded = out + begin;
            by_overflow(x, n, s.cast.largest, [&]<bool Limited>(std::size_t from, std::size_t length) __attribute__((always_inline)) {
                for (std::size_t i = from; i < from + length; ++i) rounded[i] = draw_scaled<Limited>(x[i], s, drawn[i]);
            });
        });
    }
};

}  // namespace apscope::detail
