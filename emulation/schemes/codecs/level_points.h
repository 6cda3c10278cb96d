// The points from which levels are chosen, and the cost if no point between points i and j is a
// level:
//
//      cost(i, j) = sum over the elements x from point i to point j of (x - at[i]) (at[j] - x)
//
// exact_cost() computes the cost to about 100 bits, from prefix sums of the elements and their
// squares. Vector code computes the cost in fp64, with two multiplications and three additions.
// With N elements up to a point a, their sum S and their sum of squares Q,
//
//      above      = N a - S
//      bend       = S a - Q
//      cost(i, j) = at[j] above[i] - at[i] above[j] + bend[j] - bend[i]
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulation/schemes/codecs/pair_sum.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

class LevelPoints {
public:
    // elements and points: ascending fp32 numbers. `points` ascends strictly, within the range of
    // the elements, and includes the ends of this range.
    LevelPoints(std::span<const double> elements, std::span<const double> points);

    std::size_t size() const { return size_; }
    double exact_cost(std::size_t i, std::size_t j);

    // The rows have size() numbers, one per point, and `padding` more numbers, which have no
    // effect.
    static constexpr std::size_t padding = 8;
    Row at, above, bend;
    // A bound of the error of T + cost(i, j) in fp64, for a T that is not above the largest cost.
    double error = 0.0;

private:
    struct Sums {
        Pair count, sum, squares;
    };
    const Sums& sums_at(std::size_t i);

    std::size_t size_;
    std::span<const double> elements_;
    std::vector<Sums> sums_;  // sums up to point 0, 1, ..., for the points requested so far
    Sums last_;
    std::size_t summed_ = 0;  // number of elements in last_
};

}  // namespace apscope::detail
