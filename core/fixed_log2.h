// log2 by a fixed sequence of IEEE operations, so that every machine gives the same bits
// (docs/definitions.md, section 4).
#pragma once

#include <cstdint>

#include "core/rounding.h"

namespace apscope::detail {

// The log2 of a positive, finite fp64 number, which may be subnormal.
inline double fixed_log2(double x) {
    int k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    std::uint64_t bits = bits_cast<std::uint64_t>(x);
    k += static_cast<int>(bits >> 52) - 1023;
    double m = bits_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1023}
                                                                               << 52);  // [1, 2)
    if (m > 1.4142135623730951) {
        m *= 0.5;
        k += 1;
    }
    const double z = (m - 1.0) / (m + 1.0);
    const double z2 = z * z;
    double series = 1.0 / 25.0;
    for (int odd = 23; odd >= 1; odd -= 2) series = series * z2 + 1.0 / odd;
    return static_cast<double>(k) + 2.8853900817779268 * (z * series);  // 2 / ln 2
}

}  // namespace apscope::detail
