// Variance-optimal levels are k points, including the least and the largest element, that minimise
// the variance of stochastic rounding to neighbouring points,
//
//      sum over i of (x_i - below)(above - x_i)
//
// There is an optimum whose points are all elements, because the sum is linear in a point between
// two elements. A dynamic programme over the sorted elements finds this optimum; the costs of
// segments come from prefix sums:
//
//      T[j, t] = min over i < j of (T[i, t - 1] + cost(i, j))
//
//      exact         tries every i for every j: O(k n^2)
//      fast          divide and conquer, O(k n log n), because the best i rises with j, as the
//                    costs satisfy the quadrangle inequality
//      candidates    chooses points from a subset that has both ends: half of the subset is evenly
//                    spaced in rank, half in value. Costs still count every element.
//
// The searches `fast` and `candidates` first try a programme without layers, in which every level
// has a price (priced_levels.h). This programme finds the same points many times faster, or returns
// no result.
//
// Equal elements are treated as one element with a weight. If there are at most k distinct
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
// Throws std::invalid_argument for any other name.
LevelSearch parse_level_search(std::string_view name);

struct OptimalLevels {
    Row levels;             // ascending, at most k
    double variance = 0.0;  // the sum above for these levels
};

// Chooses the levels of one row after another, in the same buffers.
class LevelChooser {
public:
    // Throws std::invalid_argument unless k >= 2 and candidates >= 2. candidates: used by
    // LevelSearch::candidates only.
    LevelChooser(std::size_t k, LevelSearch search, std::size_t candidates);

    // The levels of a row x of finite fp32 numbers, in any order. The levels are fp32 numbers too.
    Row levels(std::span<const double> x);
    const Row& sorted() const { return sorted_; }  // the last row, in ascending order

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
