// The point z of a uniform grid that is nearest to a row r, for the line search of multipoint,
// which needs two inner products of z.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/bits.h"
#include "emulation/machine/simd.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// The levels i / largest, i = -largest..largest.
Row uniform_levels(int largest);

// The levels (2 i + 1 - count) / (count - 1), i = 0..count - 1: from -1 to 1 without 0, for an even
// count of at least 2.
Row offset_levels(int count);

struct PointProducts {
    double along, length;  // <r, z> and <z, z>, sums of fixed shape (core/fixed_shape_sum.h)
};

// The products for each unit, where z[i] is the level that encode_levels (levels.h) gives to
// r[i] / unit with LevelRule::nearest. r and units are finite; a unit of 0 counts as 1. levels:
// uniform_levels(largest), 1 <= largest <= 2^16, or offset_levels(count), count <= 2^16.
std::vector<PointProducts> nearest_point_products(const RowReader& r,
                                                  std::span<const double> levels,
                                                  std::span<const double> units);

// Encodes a row with the levels of nearest_point_products(): codes[i] is the index of z[i] in
// `levels`, values[i] = fl(z[i] scale), as encode_levels() computes them for this unit.
void encode_nearest_points(std::span<const double> r, std::span<const double> levels, double unit,
                           double scale, double* codes, double* values);

// fl(k / largest) without a division, for k that is an integer or half of an odd integer, |k| <=
// largest <= 2^16; reciprocal = fl(1 / largest). The product k reciprocal is off by at most two
// units in its last place. The correction is computed from the remainder k - q largest, whose two
// products are exact, because q is split into two parts with few bits. No such quotient lies near
// the middle of two fp64 numbers.
APSCOPE_INLINE double quotient(double k, double largest, double reciprocal) {
    const double q = k * reciprocal;
    const double high =
        bits_cast<double>(bits_cast<std::uint64_t>(q) & ~((std::uint64_t{1} << 26) - 1));
    const double left = (k - high * largest) - (q - high) * largest;
    return q + left * reciprocal;
}

}  // namespace apscope::detail
