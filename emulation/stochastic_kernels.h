// The loops of stochastic rounding, one struct each with a static run(), compiled per instruction set by
// simd::run().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/philox.h"
#include "core/rounding.h"
#include "emulation/narrow_draws.h"
#include "emulation/simd.h"
#include "emulation/stochastic_split.h"

namespace apscope {

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
// From here on `first` begins a block of the stream.
template <class Round>
APSCOPE_INLINE void draw_narrow(const float* in, float* out, std::size_t count, const RandomStream& stream, std::uint64_t first, Round&& round) {
    NarrowDraws draws(stream);
    for (std::size_t begin = 0; begin < count; begin += NarrowDraws::size) {
        const std::size_t n = count - begin < NarrowDraws::size ? count - begin : NarrowDraws::size;
        const std::uint32_t* drawn = draws.at(first + begin, n);
        for (std::size_t i = 0; i < n; ++i) out[begin + i] = round(in[begin + i], drawn[i]);
    }
}

template <RoundingMode M>
struct DrawNarrowByRule {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const Cast<float>* given,
                                   const RandomStream* stream, std::uint64_t first) {
        const Cast<float> cast = known<true>(*given);
        draw_narrow(in, out, count, *stream, first, [&](float x, std::uint32_t drawn) __attribute__((always_inline)) {
            return round_to_format<M, float>(x, cast, Word32{drawn});
        });
    }
};

template <RoundingMode M, bool HasParts, bool Few>
struct DrawBySplit {
    static APSCOPE_INLINE void run(const float* in, float* out, std::size_t count, const SplitCast* given, const RandomStream* stream,
                                   std::uint64_t first) {
        const SplitCast s = *given;
        draw_narrow(in, out, count, *stream, first, [&](float x, std::uint32_t drawn) __attribute__((always_inline)) {
            return draw_split<M, HasParts, Few, true>(x, s, drawn);
        });
    }
};

}  // namespace apscope
