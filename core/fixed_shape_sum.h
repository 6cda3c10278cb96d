// Sums whose shape depends only on the data's length, so that no instruction set, thread count or
// device changes a bit.
//
//      block      4096 elements, counted from the start of the tensor
//      lane       element i of a block adds to fp64 lane i mod 16, in order of i
//      join       lane j += lane j+8, then j+4, j+2, j+1
//      total      blocks in block order, then workers in rank order
//
// If the last block is shorter, the missing elements add nothing. This code is compiled without FMA
// contraction.
#pragma once

#include <cstddef>

#include "core/host_device.h"

namespace apscope::detail {

inline constexpr std::size_t sum_block = 4096;
inline constexpr std::size_t sum_lanes = 16;

// Returns the sum of a block's lanes, added in the order above, and overwrites the lanes.
APSCOPE_HD double join_lanes(double* lane) {
    for (std::size_t width = sum_lanes / 2; width > 0; width /= 2) {
        for (std::size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
    }
    return lane[0];
}

// The sum of term(i), i = 0..count-1, over one block; count <= sum_block.
template <class Term>
APSCOPE_HD double block_sum(std::size_t count, Term&& term) {
    double lane[sum_lanes] = {};
    std::size_t i = 0;
    for (; i + sum_lanes <= count; i += sum_lanes) {
        for (std::size_t j = 0; j < sum_lanes; ++j) lane[j] += term(i + j);
    }
    for (std::size_t j = 0; i + j < count; ++j) lane[j] += term(i + j);
    return join_lanes(lane);
}

// K sums over the same elements of a block: in sum k, element i adds to lane[k][i % sum_lanes].
template <std::size_t K>
struct LaneSums {
    double lane[K][sum_lanes] = {};

    // Returns sum k; the lanes are not changed.
    APSCOPE_HD double join(std::size_t k) const {
        double l[sum_lanes];
        for (std::size_t j = 0; j < sum_lanes; ++j) l[j] = lane[k][j];
        return join_lanes(l);
    }
};

}  // namespace apscope::detail
