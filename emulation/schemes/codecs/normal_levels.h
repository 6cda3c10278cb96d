// Levels for normally distributed numbers: K of the points (2 j / g - 1) T, j = 0..g, including j =
// 0 and j = g. The levels are those for which stochastic rounding of N(0, 1) on [-T, T] has the
// least variance: among all choices, or among the symmetric ones, which consist of K / 2 integers 0
// = j_1 < ... <= g / 2 and their mirror images g - j. Of the symmetric ones, j = g / 2 is its own
// mirror image and counts twice.
//
// The levels are found by dynamic programming over the points. Mirror images are equally good, so
// if two choices differ only by rounding errors, the search takes the higher point.
#pragma once

#include <vector>

namespace apscope::detail {

struct NormalPoints {
    int g;
    double clamp;  // T

    double level(int j) const { return (2.0 * j / g - 1.0) * clamp; }
};

// The j of the `count` levels, in ascending order; 2 <= count <= g + 1.
std::vector<int> normal_levels(int count, const NormalPoints& points);
// The j of the best symmetric table, in ascending order; g / 2 may be among them twice. `count` is
// even and at most 2 (g / 2 + 1).
std::vector<int> symmetric_normal_levels(int count, const NormalPoints& points);

}  // namespace apscope::detail
