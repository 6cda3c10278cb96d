// Statistics of blocks of elements with a common scale, for the columns about blocks in results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "core/bits.h"

namespace apscope::detail {

struct BlockUse {
    // `blocks` is the number of blocks with a finite element other than 0, `saturated` the number
    // of these blocks in which an element saturated.
    std::uint64_t blocks = 0, saturated = 0;
    // Sum and maximum, over the blocks, of the number of binades between the smallest and the
    // largest magnitude of the finite elements other than 0 of a block.
    std::uint64_t range_sum = 0;
    int range_max = 0;
    // Minimum and maximum of floor(log2 X) over these blocks, where X is the decoded value of the
    // number 1 of the format; blocks with X = 0 do not count.
    int scale_min = std::numeric_limits<int>::max(), scale_max = std::numeric_limits<int>::min();

    // A block, or the part of a block that lies in one piece of a row.
    struct Part {
        std::uint64_t least = infinity_bits<double>,
                      most = 0;  // smallest and largest magnitude as bit patterns, which have the
                                 // order of the magnitudes
        bool saturated = false;
        double scale = 0.0;
    };
    // `head` is the part of a block that began in an earlier piece; `head_ends` is true if that
    // block ends in this piece. `tail` is the part of a block that continues in the next piece.
    std::optional<Part> head, tail;
    bool head_ends = false;

    // Adds elements first .. first + count - 1 of a piece: a complete block, or a part of a block
    // at one end of the piece. `begins` and `ends` are true if the block begins and ends there.
    // marks: 1 for each saturated element of the piece; empty if there is none.
    void add(std::span<const double> piece, std::span<const std::uint8_t> marks, std::size_t first,
             std::size_t count, double scale, bool begins = true, bool ends = true);
    void add(const Part& block);
    // Adds the next piece of the same row.
    void append(const BlockUse& next);
    // Adds the statistics of another row.
    void merge(const BlockUse& other) {
        blocks += other.blocks;
        saturated += other.saturated;
        range_sum += other.range_sum;
        range_max = std::max(range_max, other.range_max);
        scale_min = std::min(scale_min, other.scale_min);
        scale_max = std::max(scale_max, other.scale_max);
    }
    // The spread of the blocks' scales in binades; no value if no block has a scale other than 0.
    std::optional<int> scale_spread() const {
        return scale_min <= scale_max ? std::optional(scale_max - scale_min) : std::nullopt;
    }
};

}  // namespace apscope::detail
