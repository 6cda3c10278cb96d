// The k levels whose stochastic rounding has the least variance, sum of (x - low)(high - x), over given
// data. The ends are the data's, and some optimum lies on data points (Zhang et al., ZipML).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace apscope {

enum class LevelSearch {
    exact,       // the dynamic programme over all distinct values, O(k n^2)
    fast,        // the same optimum by divide and conquer, O(k n log n)
    candidates,  // the fast one over at most `candidates` of the values, evenly spaced in rank, ends included
};

// At most k levels, ascending; fewer where there are no more distinct values, whose variance is then 0. No
// data: the level 0. `x` is finite; k is at least 2.
std::vector<double> optimal_levels(std::span<const double> x, std::size_t k, LevelSearch search, std::size_t candidates = 512);

// The variance of rounding x stochastically to the levels; x outside them goes to the nearest end.
double level_variance(std::span<const double> x, std::span<const double> levels);

}  // namespace apscope
