// Variance-optimal levels: k points, least and largest element among them, that minimise the
// variance of stochastic rounding between neighbours,
//
//      sum over i of (x_i - below)(above - x_i)
//
// Some optimum has all its points at elements, because the sum is linear in a point between two
// elements. A dynamic programme over the sorted elements finds this optimum; the costs of segments
// come from prefix sums:
//
//      T[j, t] = min over i < j of (T[i, t - 1] + cost(i, j))
//
//      exact         every i for every j: O(k n^2)
//      fast          the best i rises with j, as the costs satisfy the quadrangle inequality:
//                    divide and conquer, O(k n log n)
//      candidates    points from a subset only: half of its elements evenly spaced in rank, half
//                    in value, both ends among them. Costs still count every element.
//
// The searches `fast` and `candidates` first try a programme without layers, in which every level
// has a price (priced_levels.h). It finds the same points many times faster, or reports that it
// cannot.
//
// Equal elements are treated as one element with their number as weight. With k or fewer distinct
// elements, the points are these elements, and the variance is 0.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "emulation/schemes/codecs/ascending.h"
#include "emulation/schemes/codecs/priced_levels.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

enum class LevelSearch { exact, fast, candidates };
LevelSearch parse_level_search(std::string_view name);  // throws std::invalid_argument

struct OptimalLevels {
    Row levels;             // ascending, at most k
    double variance = 0.0;  // the sum above for these levels
};

// Chooses the levels of one row after another, in the same buffers.
class LevelChooser {
public:
    // k >= 2, candidates >= 2; throws std::invalid_argument.
    LevelChooser(std::size_t k, LevelSearch search, std::size_t candidates);

    // x: finite fp32 numbers, in any order; candidates are fp32 numbers too.
    Row levels(std::span<const double> x);
    const Row& sorted() const { return sorted_; }  // the last x

private:
    std::size_t k_;
    LevelSearch search_;
    std::size_t candidates_;
    AscendingSort sorter_;
    PricedLevels priced_;
    Row sorted_, distinct_;
};

OptimalLevels optimal_levels(std::span<const double> x, std::size_t k, LevelSearch search,
                             std::size_t candidates = 512);

}  // namespace apscope::detail
