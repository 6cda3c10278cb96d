// The dynamic programme of optimal_levels.h without layers: every level has a price, instead of a
// given number of levels.
//
//      F[j] = price + min over i < j of (F[i] + cost(i, j))
//
// A higher price gives fewer levels, so for some price the best path to the last point has k
// levels. This path is the best of all paths with k levels. It is the only best one if no other i
// comes near the minimum at any of its points, because every other path leaves it at one of them.
// If no price leads to k levels, the layers (level_search.h) are needed. About five prices are
// tried, in O(n^2 / k) each, because the best i of F[j] rises with j.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulation/schemes/codecs/level_points.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// Finds levels for one row after another. The price of one row is tried first for the next.
class PricedLevels {
public:
    // The k levels of least cost among the points, k >= 2; none if fp64 does not prove that they
    // are the only best ones, or if no price was found. points.size() > k.
    std::optional<Row> find(const LevelPoints& points, std::size_t k);

    static constexpr std::size_t most_points = 4096;  // from this number on, the layers are faster

private:
    Row before_;
    Buffer<std::uint32_t> lowest_;
    // The last price found, in units of the cost without levels between the ends; 0 before the
    // first.
    double price_ = 0.0;
};

}  // namespace apscope::detail
