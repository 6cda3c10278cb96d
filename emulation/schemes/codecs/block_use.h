// What runs of elements that share a scale look like: the columns that speak of blocks.
#pragma once

#include <algorithm>
#include <cmath>
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
        std::uint64_t least = infinity_bits<double>, most = 0;  // the bits of magnitudes are in their order
        bool saturated = false;
        double scale = 0.0;
    };
    // Of blocks that the piece at hand has the end of, or no end, and the beginning of.
    std::optional<Part> head, tail;
    bool head_ends = false;

    // The elements first .. first + count - 1 of a piece: a whole block, or what the piece has of it at one of its ends.
    // marks: of the piece's elements that saturated, or empty.
    void add(std::span<const double> piece, std::span<const std::uint8_t> marks, std::size_t first, std::size_t count, double scale,
             bool begins = true, bool ends = true) {
        Part part;
        part.scale = scale;
        for (const double v : piece.subspan(first, count)) {
            const std::uint64_t size = bits_cast<std::uint64_t>(v) & ~sign_bit<double>;
            const bool counts = size != 0 && size < infinity_bits<double>;
            part.least = counts && size < part.least ? size : part.least;
            part.most = counts && size > part.most ? size : part.most;
        }
        for (std::size_t i = first; i < first + count && !marks.empty(); ++i) part.saturated = part.saturated || marks[i] != 0;
        if (begins && ends) {
            add(part);
        } else if (begins) {
            tail = part;
        } else {
            head = part;
            head_ends = ends;
        }
    }
    void add(const Part& block) {
        if (block.most == 0) return;
        const int range = std::ilogb(bits_cast<double>(block.most)) - std::ilogb(bits_cast<double>(block.least));
        ++blocks;
        saturated += block.saturated ? 1 : 0;
        range_sum += static_cast<std::uint64_t>(range);
        range_max = std::max(range_max, range);
        if (!(block.scale > 0.0)) return;
        scale_min = std::min(scale_min, std::ilogb(block.scale));
        scale_max = std::max(scale_max, std::ilogb(block.scale));
    }
    // The next piece of the same row.
    void append(const BlockUse& next) {
        if (next.head) {
            Part block = *next.head;
            if (tail) {
                block.least = std::min(block.least, tail->least);
                block.most = std::max(block.most, tail->most);
                block.saturated = block.saturated || tail->saturated;
            }
            tail.reset();
            if (next.head_ends) add(block);
            else tail = block;
        }
        if (next.tail) tail = next.tail;
        merge(next);
    }
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
    std::optional<int> scale_spread() const { return scale_min <= scale_max ? std::optional(scale_max - scale_min) : std::nullopt; }
};

}  // namespace apscope::detail
