// Upper bounds of rounded numbers, and of sums that are rounded. With eps = 2^-m of a format with m
// mantissa bits, and t the larger of its smallest normal and its smallest positive number, x >= 0
// is rounded to at most (1 + eps) x + t, in any rounding mode. So a sum of W terms, rounded at each
// of at most W hops, is at most (1 + eps)^W (sum of the terms + W t).
#pragma once

#include <algorithm>
#include <cmath>

#include "core/float_format.h"
#include "emulation/allreduce/additions.h"

namespace apscope::detail {

struct RoundingBound {
    double growth,  // 1 + eps
        least;      // t

    explicit RoundingBound(const FloatFormat& format)
        : growth(1.0 + std::ldexp(1.0, -format.mantissa_bits)),
          least(std::max(format.smallest_normal(), format.smallest_positive())) {}
    // A bound that holds for both formats of a topology's partial sums. A partial sum is rounded at
    // most W times.
    explicit RoundingBound(const Additions& by) : RoundingBound(by.narrow.format) {
        if (!by.wide) return;
        const RoundingBound wide(by.wide->format);
        growth = std::max(growth, wide.growth);
        least = std::max(least, wide.least);
    }

    // The bound of x >= 0, rounded once.
    double rounded(double x) const { return growth * x + least; }
    // The bound of a rounded sum of `terms` numbers >= 0, whose exact sum is `total`.
    double summed(double total, int terms) const {
        return std::pow(growth, terms) * (total + terms * least);
    }
};

}  // namespace apscope::detail
