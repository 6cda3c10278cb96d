// Overflow, infinities and NaN cost every number a third of its cast, and are rare: a loop looks at a buffer's
// largest magnitude first, and asks about them where it must. Two reads, the second from the first-level cache.
#pragma once

#include <cstddef>

#include "core/bits.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

// loop.operator()<Full>(begin, n) for a buffer's length at a time; Full unless all its magnitudes are at most
// `largest`. Infinities and NaN lie above every number.
template <class Real, class Loop>
APSCOPE_INLINE void by_overflow(const Real* in, std::size_t count, BitsOf<Real> largest, Loop&& loop) {
    using Bits = BitsOf<Real>;
    constexpr std::size_t buffer = 512;
    for (std::size_t begin = 0; begin < count; begin += buffer) {
        const std::size_t n = count - begin < buffer ? count - begin : buffer;
        Bits found = 0;
        for (std::size_t i = begin; i < begin + n; ++i) {
            const Bits magnitude = bits_cast<Bits>(in[i]) & ~sign_bit<Real>;
            found = found > magnitude ? found : magnitude;
        }
        if (found <= largest) loop.template operator()<false>(begin, n);
        else loop.template operator()<true>(begin, n);
    }
}

}  // namespace apscope::detail
