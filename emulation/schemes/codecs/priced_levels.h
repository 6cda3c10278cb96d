// The dynamic programme of optimal_levels.h without layers: instead of a given number of levels,
// every level has a price.
//
//      F[j] = price + min over i < j of (F[i] + cost(i, j))
//
// A higher price gives fewer levels, so for some price the best path to the last point usually has
// k levels. Such a path is the best of all paths with k levels. It is the only best path if at each
// of its points j only one i gives a total near the minimum, because every other path differs from
// it in the i of one of these points. If no price gives k levels, the search with layers
// (level_search.h) is needed. About five prices are tried, in O(n^2 / k) each, because the best i
// of F[j] rises with j.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulation/schemes/codecs/level_points.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// Finds the levels of one row after another. The price of a row is the first one tried for the next
// row.
class PricedLevels {
public:
    // The k levels of least cost among the points, 2 <= k < points.size(). No value if rounding
    // errors leave open whether these levels are the only best ones, or if no price gives k levels.
    std::optional<Row> find(const LevelPoints& points, std::size_t k);

    // From this number of points on, the search with layers is faster.
    static constexpr std::size_t most_points = 4096;

private:
    Row before_;
    Buffer<std::uint32_t> lowest_;
    // The price of the last row, in units of the cost without levels between the ends; 0 before the
    // first row.
    double price_ = 0.0;
};

}  // namespace apscope::detail
