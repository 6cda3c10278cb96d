// Levels for normally distributed numbers: K of the points (2 j / g - 1) T, j = 0..g, with j = 0
// and j = g among them. Of all such choices, stochastic rounding to these levels adds the least
// variance to N(0, 1) on [-T, T]. T leaves 1/32 of the distribution outside.
//
// The levels are found by dynamic programming over the points. Mirror images are equally good, so
// if choices are equal except for rounding errors, the higher point is taken.
#pragma once

#include <vector>

namespace apscope::detail {

inline constexpr double normal_clamp = 2.1538746940614573;  // T: P(|N(0, 1)| > T) = 1/32

inline double normal_level(int j, int g) { return (2.0 * j / g - 1.0) * normal_clamp; }

// The chosen j's, ascending. 2 <= count <= g + 1.
std::vector<int> normal_levels(int count, int g);

}  // namespace apscope::detail
