// Counts of subnormal and saturated values of a float grid and the largest error in ulps, for the
// columns subnormal, saturated and max_ulp of results.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/rounding.h"
#include "core/ulps.h"

namespace apscope::detail {

// The limits of a format that the columns subnormal, saturated and max_ulp depend on.
struct GridLimits {
    int emin = 0, mantissa_bits = 0;
    double smallest_normal = 0.0,  // 0: the format has no normal number
        largest = 0.0;
    double divisor = 1.0;  // the divisor of rounded numbers before they are sent
};
inline GridLimits limits_of(const FloatFormat& format, const Cast<double>& cast,
                            double divisor = 1.0) {
    return {cast.emin, cast.mantissa_bits, format.smallest_normal() * divisor, format.largest(),
            divisor};
}

// The size of U error scale in units in the last place of U scale x, where U = units / grid.divisor
// (docs/definitions.md, max_ulp).
inline double in_ulps(double x, double error, double scale, double units, const GridLimits& grid) {
    return in_ulps(absolute(x), absolute(error),
                   ulp_scale(grid.emin, grid.mantissa_bits, scale, units / grid.divisor));
}

// The numbers of subnormal and saturated elements, and the largest error in ulps.
struct GridUse {
    std::uint64_t subnormal = 0, saturated = 0;
    double max_ulp = 0.0;

    // Counts a finite x that was rounded to `code` with a scale and decodes to `value`. Returns
    // true if x saturated.
    bool add(double x, double code, double value, double scale, const GridLimits& grid) {
        const std::uint64_t before = saturated;
        count_limits(absolute(x * scale), absolute(code), grid.smallest_normal, grid.largest,
                     subnormal, saturated);
        if (std::isfinite(value))
            max_ulp = std::max(max_ulp, in_ulps(x, value - x, scale, 1.0, grid));
        return saturated != before;
    }
    void merge(const GridUse& other) {
        subnormal += other.subnormal;
        saturated += other.saturated;
        max_ulp = std::max(max_ulp, other.max_ulp);
    }
};

// Sets the mark of element i of n elements; `marks` is empty before the first call.
inline void mark(std::vector<std::uint8_t>& marks, std::size_t i, std::size_t n) {
    marks.resize(n);
    marks[i] = 1;
}

}  // namespace apscope::detail
