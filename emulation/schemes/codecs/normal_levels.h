// Levels for normally distributed numbers: K of the points (2 j / g - 1) T, j = 0..g, including j =
// 0 and j = g. The levels are those for which stochastic rounding of N(0, 1) on [-T, T] has the
// least variance. 1/32 of the distribution lies outside of [-T, T].
//
// The levels are found by dynamic programming over the points. Mirror images are equally good, so
// if two choices differ only by rounding errors, the search takes the higher point.
#pragma once

#include <vector>

namespace apscope::detail {

inline constexpr double normal_clamp = 2.1538746940614573;  // T: P(|N(0, 1)| > T) = 1/32

inline double normal_level(int j, int g) { return (2.0 * j / g - 1.0) * normal_clamp; }

// The j of the `count` levels, in ascending order; 2 <= count <= g + 1.
std::vector<int> normal_levels(int count, int g);

}  // namespace apscope::detail
