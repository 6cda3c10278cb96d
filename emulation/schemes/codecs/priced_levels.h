// The dynamic programme of optimal_levels.h without its layers: a price on every level in place of
// their number.
//
//      F[j] = price + min over i < j of (F[i] + cost(i, j))
//
// The fewer levels the higher the price, so some price makes the best path to the last point one of
// k levels. That path is the best of all with k levels, and the only best one if no other i comes
// near in F[j] of its own points: any other path leaves it at one of them. A price that does not
// lead there proves nothing, and the layers (level_search.h) have to. O(n^2 / k) for a price, some
// five prices; the i of F[j] rises with j.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulation/schemes/codecs/level_points.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// For one row after another: the price found for one is tried first for the next.
class PricedLevels {
public:
    // The k levels of least cost among the points, k >= 2; nothing where fp64 cannot tell that they
    // are the only ones, or no price was found. points.size() > k.
    std::optional<Row> find(const LevelPoints& points, std::size_t k);

    static constexpr std::size_t most_points = 4096;  // from here on the layers are faster

private:
    Row before_;
    Buffer<std::uint32_t> lowest_;
    double price_ = 0.0;  // that was found last, in units of the cost of no levels between the ends
};

}  // namespace apscope::detail
