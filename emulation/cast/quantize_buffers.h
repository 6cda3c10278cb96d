// Loops over buffers of numbers. Handling overflow, infinities and NaN would take a third of the
// time of a cast, but such numbers are rare. So the loops round without handling them, compute the
// largest magnitude of a buffer, and round the buffer again if it has such numbers.
#pragma once

#include <cstddef>

#include "core/rounding.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

inline constexpr std::size_t buffer_elements = 512;

// Sets out[i] = round.operator()<Limited>(in[i]) for at most buffer_elements numbers of arrays that
// do not overlap. Limited is false if all magnitudes are at most `largest`; as bits, infinities and
// NaN are above every number.
template <class Real, class Out, class Round>
APSCOPE_INLINE void round_buffer(const Real* in, Out* out, std::size_t n, BitsOf<Real> largest,
                                 Round&& round) {
    using Bits = BitsOf<Real>;
    Bits found = 0;
#pragma GCC ivdep
    for (std::size_t i = 0; i < n; ++i) {
        const Bits magnitude = bits_cast<Bits>(in[i]) & ~sign_bit<Real>;
        found = found > magnitude ? found : magnitude;
        out[i] = round.template operator()<false>(in[i]);
    }
    if (found <= largest) return;
#pragma GCC ivdep
    for (std::size_t i = 0; i < n; ++i) out[i] = round.template operator()<true>(in[i]);
}

// Applies round_buffer() to any number of elements. `out` may be `in`; the second pass then reads a
// copy of the numbers.
template <class Real, class Round>
APSCOPE_INLINE void round_buffers(const Real* in, Real* out, std::size_t count,
                                  BitsOf<Real> largest, Round&& round) {
    Real aside[buffer_elements];
    for (std::size_t begin = 0; begin < count; begin += buffer_elements) {
        const std::size_t n = count - begin < buffer_elements ? count - begin : buffer_elements;
        const Real* from = in + begin;
        if (in == out) {
            __builtin_memcpy(aside, from, n * sizeof(Real));
            from = aside;
        }
        round_buffer(from, out + begin, n, largest, round);
    }
}

// The same for loops that must not process a number twice: computes the largest magnitude of each
// buffer first, then calls loop.operator()<Limited>(begin, n) for the buffer.
template <class Real, class Loop>
APSCOPE_INLINE void by_overflow(const Real* in, std::size_t count, BitsOf<Real> largest,
                                Loop&& loop) {
    using Bits = BitsOf<Real>;
    for (std::size_t begin = 0; begin < count; begin += buffer_elements) {
        const std::size_t n = count - begin < buffer_elements ? count - begin : buffer_elements;
        Bits found = 0;
        for (std::size_t i = begin; i < begin + n; ++i) {
            const Bits magnitude = bits_cast<Bits>(in[i]) & ~sign_bit<Real>;
            found = found > magnitude ? found : magnitude;
        }
        if (found <= largest) loop.template operator()<false>(begin, n);
        else loop.template operator()<true>(begin, n);
    }
}

// Applies the overflow and the special values of a plain cast to a signed format. `bits` are the
// bits of the number; `rounded` are the bits of the number rounded without an upper limit, with its
// sign.
template <class Real>
APSCOPE_HD BitsOf<Real> limited(BitsOf<Real> rounded, BitsOf<Real> bits, const Cast<Real>& cast) {
    using Bits = BitsOf<Real>;
    constexpr Bits infinity = infinity_bits<Real>, sign = sign_bit<Real>;
    const Bits magnitude = bits & ~sign;
    const bool negative = (bits & sign) != 0;
    const Bits overflow = negative ? cast.overflow_negative : cast.overflow_positive;
    const Bits infinite = negative ? cast.infinite_negative : cast.infinite_positive;
    Bits result = (rounded & ~sign) > cast.largest ? overflow : rounded;
    result = magnitude == infinity ? infinite : result;
    return magnitude > infinity ? nan_bits<Real> : result;
}

}  // namespace apscope::detail
