// The point of a uniform grid that is nearest to a row, as multipoint's line search sees it: two inner products.
#pragma once

#include <span>

#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

// i / largest, i = -largest..largest.
Row uniform_levels(int largest);

// (2 i + 1 - count) / (count - 1), i = 0..count - 1: from -1 to 1 without 0, for an even count of at least 2.
Row offset_levels(int count);

struct PointProducts {
    double along, length;  // <r, z> and <z, z>, sums of fixed shape (core/fixed_shape_sum.h)
};

// z[i] = the level that encode_levels (levels.h) gives r[i] / unit with LevelRule::nearest. r finite, unit finite;
// 0 counts as 1. levels: uniform_levels(largest), 1 <= largest <= 2^16, or offset_levels(count), count <= 2^16.
PointProducts nearest_point_products(std::span<const double> r, std::span<const double> levels, double unit);

}  // namespace apscope::detail
