// Conversions between fp32 and fp64 that preserve a NaN's sign and payload, like the conversions of
// x86. A GPU's conversion instructions turn every NaN into the NaN with all payload bits set.
#pragma once

#include "core/bits.h"

namespace apscope::detail {

APSCOPE_HD float narrowed(double x) {
    if (x == x) return static_cast<float>(x);
    const std::uint64_t bits = bits_cast<std::uint64_t>(x);
    const auto payload = static_cast<std::uint32_t>(bits >> 29) & 0x007FFFFFu;
    return bits_cast<float>(static_cast<std::uint32_t>(bits >> 32 & 0x80000000u) | nan_bits<float> |
                            payload);
}

APSCOPE_HD double widened(float x) {
    if (x == x) return x;
    const std::uint64_t bits = bits_cast<std::uint32_t>(x);
    return bits_cast<double>((bits & 0x80000000u) << 32 | nan_bits<double> |
                             (bits & 0x007FFFFFu) << 29);
}

}  // namespace apscope::detail
