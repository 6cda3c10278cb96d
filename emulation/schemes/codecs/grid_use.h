// How values lie in the float grid they are rounded to: what the columns subnormal, saturated and max_ulp are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/rounding.h"

namespace apscope::detail {

// What of a format the three speak of.
struct GridLimits {
    int emin = 0, mantissa_bits = 0;
    double smallest_normal = 0.0, largest = 0.0;  // 0: no normal number
};
inline GridLimits limits_of(const FloatFormat& format, const Cast<double>& cast) {
    return {cast.emin, cast.mantissa_bits, format.smallest_normal(), format.largest()};
}

// abs(error) scale in units in the last place of scale x; x stands for `units` x (docs/definitions.md, max_ulp).
inline double in_ulps(double x, double error, double scale, double units, const GridLimits& grid) {
    const double at = std::abs(x) * units * scale;
    const int exponent = std::max(at == 0.0 ? grid.emin : std::ilogb(at), grid.emin);
    return std::ldexp(std::abs(error) * units * scale, grid.mantissa_bits - exponent);
}

struct GridUse {
    std::uint64_t subnormal = 0, saturated = 0;
    double max_ulp = 0.0;

    // A finite x that was rounded to `code` under a scale and is read as `value`.
    void add(double x, double code, double value, double scale, const GridLimits& grid) {
        const double scaled = std::abs(x * scale);
        subnormal += scaled != 0.0 && scaled < grid.smallest_normal;
        saturated += scaled > grid.largest && std::abs(code) == grid.largest;
        if (std::isfinite(value)) max_ulp = std::max(max_ulp, in_ulps(x, value - x, scale, 1.0, grid));
    }
    void merge(const GridUse& other) {
        subnormal += other.subnormal;
        saturated += other.saturated;
        max_ulp = std::max(max_ulp, other.max_ulp);
    }
};

}  // namespace apscope::detail
