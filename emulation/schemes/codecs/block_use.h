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

    // The block first .. first + count - 1 of a row. marks: of the row's elements that saturated, or empty.
    void add(std::span<const double> row, std::span<const std::uint8_t> marks, std::size_t first, std::size_t count, double scale) {
        std::uint64_t least = infinity_bits<double>, most = 0;  // the bits of magnitudes are in their order
        for (const double v : row.subspan(first, count)) {
            const std::uint64_t size = bits_cast<std::uint64_t>(v) & ~sign_bit<double>;
            const bool counts = size != 0 && size < infinity_bits<double>;
            least = counts && size < least ? size : least;
            most = counts && size > most ? size : most;
        }
        if (most == 0) return;
        const int range = std::ilogb(bits_cast<double>(most)) - std::ilogb(bits_cast<double>(least));
        ++blocks;
        if (!marks.empty()) {
            const auto begin = marks.begin() + static_cast<std::ptrdiff_t>(first);
            saturated += std::any_of(begin, begin + static_cast<std::ptrdiff_t>(count), [](std::uint8_t mark) { return mark != 0; });
        }
        range_sum += static_cast<std::uint64_t>(range);
        range_max = std::max(range_max, range);
        if (!(scale > 0.0)) return;
        scale_min = std::min(scale_min, std::ilogb(scale));
        scale_max = std::max(scale_max, std::ilogb(scale));
    }
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
