// Statistics of runs of elements that share a scale, for the columns about blocks.
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
    // Blocks with a finite element other than 0; those of them in which an element saturated.
    std::uint64_t blocks = 0, saturated = 0;
    // Binades between a block's smallest such element and its largest.
    std::uint64_t range_sum = 0;
    int range_max = 0;
    // floor(log2 X) over these blocks, X what a code of 1 stands for; a block with X = 0 has none.
    int scale_min = std::numeric_limits<int>::max(), scale_max = std::numeric_limits<int>::min();

    // A block, or what of it lies in one piece of a row.
    struct Part {
        std::uint64_t least = infinity_bits<double>,
                      most = 0;  // the bits of magnitudes are in their order
        bool saturated = false;
        double scale = 0.0;
    };
    // Of blocks that the piece at hand has the end of, or no end, and the beginning of.
    std::optional<Part> head, tail;
    bool head_ends = false;

    // The elements first .. first + count - 1 of a piece: a whole block, or what the piece has of
    // it at one of its ends. marks: of the piece's elements that saturated, or empty.
    void add(std::span<const double> piece, std::span<const std::uint8_t> marks, std::size_t first,
             std::size_t count, double scale, bool begins = true, bool ends = true);
    void add(const Part& block);
    // The next piece of the same row.
    void append(const BlockUse& next);
    // Another row's.
    void merge(const BlockUse& other) {
        blocks += other.blocks;
        saturated += other.saturated;
        range_sum += other.range_sum;
        range_max = std::max(range_max, other.range_max);
        scale_min = std::min(scale_min, other.scale_min);
        scale_max = std::max(scale_max, other.scale_max);
    }
    // Of the blocks' scales; none where no block has one.
    std::optional<int> scale_spread() const {
        return scale_min <= scale_max ? std::optional(scale_max - scale_min) : std::nullopt;
    }
};

}  // namespace apscope::detail
