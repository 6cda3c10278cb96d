// A piece of a row: complete blocks of the fixed-shape sums (core/fixed_shape_sum.h), of which a
// group of 16 threads adds one. Thread j of the group adds the elements with i mod 16 = j, in order
// of i, and the group combines its lanes by a butterfly (emulation/cuda/machine/lane_group.h),
// whose additions are those of join_lanes().
//
// A line is one block of one row. The rows of a task that share inputs are neighbours:
//
//      line = block * rows + row           item of a step = line * 16 + lane
#pragma once

#include <cstdint>

#include "core/fixed_shape_sum.h"
#include "core/host_device.h"

namespace apscope::detail {

// The most blocks of a piece: enough for the threads of a GPU, and few enough that a large item has
// several pieces, whose copies then overlap with steps.
inline constexpr std::uint64_t most_piece_blocks = 512;

// Elements first .. first + count - 1 of a row of `elements`; the first is the beginning of a
// block.
struct Piece {
    std::uint64_t elements, first, count;

    APSCOPE_HD std::uint64_t blocks() const { return (count + sum_block - 1) / sum_block; }
    // Calls f(i) for the elements of a lane, counted from the beginning of the piece.
    template <class F>
    APSCOPE_HD void each(std::uint64_t block, std::uint64_t lane, const F& f) const {
        const std::uint64_t begin = block * sum_block, left = count - begin;
        const std::uint64_t end = begin + (left < sum_block ? left : std::uint64_t{sum_block});
        for (std::uint64_t i = begin + lane; i < end; i += sum_lanes) f(i);
    }
};

// The width of a step's groups that add blocks.
inline constexpr int lanes_of_block = static_cast<int>(sum_lanes);

struct LaneItem {
    std::uint64_t line, lane;
    APSCOPE_HD explicit LaneItem(std::uint64_t item)
        : line(item / sum_lanes), lane(item % sum_lanes) {}
};

}  // namespace apscope::detail
