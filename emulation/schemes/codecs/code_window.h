// A range-based float has N bits, and its exponent range ends at the largest number of a row. The
// bits of an fp32 magnitude, rounded to m fraction bits, are a monotone integer code (code32). The
// window is the 2^(N-1) - 1 largest codes up to the code of the largest number; smaller magnitudes
// become 0.
//
//      code32(x) = bits of |x| >> (23 - m), to nearest
//      base      = max(code32(largest) - (2^(N-1) - 1), 0)
//      code      = max(code32(x) - base, 0), and a sign bit
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/bits.h"

namespace apscope::detail {

struct CodeWindow {
    int shift;           // 23 - m
    std::uint32_t base;  // the code32 that becomes the code 0

    static std::uint32_t code32(float x, int shift) {
        const std::uint32_t magnitude = bits_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
        const std::uint32_t half =
            shift == 0 ? 0 : (std::uint32_t{1} << (shift - 1)) - 1 + (magnitude >> shift & 1);
        // Rounding must not turn the largest fp32 numbers into an infinity.
        return std::min(magnitude + half, (0x7F7FFFFFu >> shift) << shift) >> shift;
    }
    CodeWindow(float largest, int bits, int mantissa_bits) : shift(23 - mantissa_bits) {
        const std::uint32_t top = code32(largest, shift),
                            room = (std::uint32_t{1} << (bits - 1)) - 1;
        base = top > room ? top - room : 0;
    }
    // The code of |x|, from 0 to 2^(N-1) - 1.
    std::uint32_t encode(float x) const {
        const std::uint32_t code = code32(x, shift);
        return code > base ? code - base : 0;
    }
    float decode(std::uint32_t code) const {
        return code == 0 ? 0.0f : bits_cast<float>((code + base) << shift);
    }
};

}  // namespace apscope::detail
