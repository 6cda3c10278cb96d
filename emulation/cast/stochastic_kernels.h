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
#include "emulation/draws/narrow_draws.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// work(begin, n) for as many elements at a time as words are drawn for.
template <class Work>
APSCOPE_INLINE void for_draw_buffers(std::size_t count, Work&& work) {
    for (std::size_t begin = 0; begin < count; begin += NarrowDraws::size) {
        work(begin, count - begin < NarrowDraws::size ? count - begin : NarrowDraws::size);
    }
}

// The rule with random integers from a stream, whose blocks serve several elements each.
template <RoundingMode M, class Real, bool Plain>
struct DrawByRule {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given,
                                   const RandomStream* given_stream, std::uint64_t first) {
        const Cast<Real> cast = known<Plain>(*given);
        const RandomStream stream = *given_stream;
        const int slots = RandomStream::slots(stream.random_bits);
        std::size_t i = 0;
        while (i < count) {
            const std::uint64_t element = first + i;
            const PhiloxBlock block = stream.block(element / slots);
            for (int slot = static_cast<int>(element % slots); slot < slots && i < count; ++slot, ++i) {
                out[i] = round_to_format<M, Real>(in[i], cast, stream.slot(block, slot));
            }
        }
    }
};

// The rule with random integers of the caller's, in the low bits of a word each.
template <RoundingMode M, class Real>
struct DrawGivenWords {
    static APSCOPE_INLINE void run(const Real* in, Real* out, std::size_t count, const Cast<Real>* given, const std::uint64_t* words) {
        const Cast<Real> cast = *given;
        const int left = 64 - cast.random_bits;
        for (std::size_t i = 0; i < count; ++i) out[i] = round_to_format<M, Real>(in[i], cast, words[i] << left);
    }
};

// fp32 numbers and at most 32 random bits: words first, a buffer at a time, then their use, both as vector code.
// `first` begins a block of the stream.
template <RoundingMode M>
struct DrawNarrowByRule {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const Cast<float>* given,
                                   const RandomStream* stream, std::uint64_t first) {
        const Cast<float> cast = known<true>(*given);
        NarrowDraws draws(*stream);
        for_draw_buffers(count, [&](std::size_t begin, std::size_t n) __attribute__((always_inline)) {
            const std::uint32_t* drawn = draws.at(first + begin, n);
            for (std::size_t i = 0; i < n; ++i) out[begin + i] = round_to_format<M, float>(in[begin + i], cast, Word32{drawn[i]});
        });
    }
};

template <RoundingMode M, bool HasParts, bool Few>
struct DrawBySplit {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const SplitCast* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const SplitCast s = *given;
        NarrowDraws draws(*stream);
        for_draw_buffers(count, [&](std::size_t begin, std::size_t n) __attribute__((always_inline)) {
            const std::uint32_t* drawn = draws.at(first + begin, n);
            const float* x = in + begin;
            float* rounded = out + begin;
            by_overflow(x, n, s.cast.largest, [&]<bool Full>(std::size_t from, std::size_t length) __attribute__((always_inline)) {
                for (std::size_t i = from; i < from + length; ++i) rounded[i] = draw_split<M, HasParts, Few, Full>(x[i], s, drawn[i]);
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
        NarrowDraws draws(*stream);
        for_draw_buffers(count, [&](std::size_t begin, std::size_t n) __attribute__((always_inline)) {
            const std::conditional_t<Few, std::uint16_t, std::uint32_t>* drawn;
            if constexpr (Few) drawn = draws.halves_at(first + begin, n);
            else drawn = draws.at(first + begin, n);
            const float* x = in + begin;
            float* rounded = out + begin;
            by_overflow(x, n, s.cast.largest, [&]<bool Full>(std::size_t from, std::size_t length) __attribute__((always_inline)) {
                for (std::size_t i = from; i < from + length; ++i) rounded[i] = draw_scaled<Full>(x[i], s, drawn[i]);
            });
        });
    }
};

}  // namespace apscope::detail
