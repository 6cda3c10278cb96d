// What runs of elements that share a scale look like: the columns that speak of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

// The blocks of one worker's messages, or of several.
class BlockUse {
public:
    // A piece of a message, which may begin and end within a block; pieces in order. row: what was rounded, the piece's first
    // element being element `first` of the tensor's.
    void add(std::span<const double> row, const Message& message, std::size_t first);
    void merge(const BlockUse& other);

    // Blocks with a finite element other than 0; those of them in which an element saturated.
    std::uint64_t blocks() const { return totals().blocks_; }
    std::uint64_t saturated() const { return totals().saturated_; }
    // Binades between such a block's smallest element other than 0 and its largest.
    std::uint64_t range_sum() const { return totals().range_sum_; }
    int range_max() const { return totals().range_max_; }
    // Binades between the smallest and the largest of their scales X, what a code of 1 stands for; a block with X = 0 has none.
    std::optional<int> scale_spread() const;

private:
    struct Totals {
        std::uint64_t blocks_ = 0, saturated_ = 0, range_sum_ = 0;
        int range_max_ = 0, scale_min_ = std::numeric_limits<int>::max(), scale_max_ = std::numeric_limits<int>::min();
        void merge(const Totals& other);
    };
    // A block of which more may come: bits of magnitudes, which are in their order.
    struct Open {
        std::optional<std::size_t> index;
        std::uint64_t least = 0, most = 0;
        bool saturated = false;
        double scale = 0.0;
    };
    Totals totals() const;

    Totals closed_;
    Open open_;
};

}  // namespace apscope::detail
