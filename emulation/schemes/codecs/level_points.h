// The points that levels are chosen from, and what it costs to leave out those between two of them:
//
//      cost(i, j) = sum over the elements x from point i to point j of (x - at[i]) (at[j] - x)
//
// Once to about 100 bits, from prefix sums of the elements and their squares, and once for vector
// code: with N elements of sum S and of squares Q up to a point a,
//
//      above      = N a - S
//      bend       = S a - Q
//      cost(i, j) = at[j] above[i] - at[i] above[j] + bend[j] - bend[i]
//
// in two multiplications and three additions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "emulation/schemes/codecs/pair_sum.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

class LevelPoints {
public:
    // Both ascend, `points` strictly, within the elements' range and with its ends. fp32 numbers.
    LevelPoints(std::span<const double> elements, std::span<const double> points);

    std::size_t size() const { return size_; }
    double exact_cost(std::size_t i, std::size_t j);

    // Beyond size(), `padding` more that count for nothing.
    static constexpr std::size_t padding = 8;
    Row at, above, bend;
    // T + cost(i, j) in fp64, T at most a cost itself, is this far from the truth at most.
    double error = 0.0;

private:
    struct Sums {
        Pair count, sum, squares;
    };
    const Sums& sums_at(std::size_t i);

    std::size_t size_;
    std::span<const double> elements_;
    std::vector<Sums> sums_;  // of the points asked for so far, and all before
    Sums last_;
    std::size_t summed_ = 0;  // elements in last_
};

}  // namespace apscope::detail
