// 2^x by a fixed sequence of IEEE operations, so that every machine gives the same bits: the
// inverse of fixed_log2.h (docs/definitions.md, section 4).
#pragma once

#include <cmath>

namespace apscope::detail {

// Returns 2^x; x must be within the range of fp64's exponents, infinite or NaN.
inline double fixed_exp2(double x) {
    if (!std::isfinite(x)) return x < 0.0 ? 0.0 : x;
    const double k = std::floor(x + 0.5), z = (x - k) * 0.6931471805599453;  // ln 2
    double series = 1.0;
    for (int n = 18; n >= 1; --n) series = 1.0 + series * z / n;
    return std::ldexp(series, static_cast<int>(k));
}

}  // namespace apscope::detail
