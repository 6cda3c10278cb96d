// DrawSamples: estimates the expectation and the variance of the error of one row from K draws,
// with standard errors (docs/definitions.md, section 5, `--draws`). The row's other columns
// describe draw 0.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "analysis/statistics/result_row.h"

namespace apscope::detail {

struct DrawSamples {
    std::vector<double> draw_error;  // per draw: sum of errors
    std::vector<double> left_out;    // per draw: sum of variances without that draw
    double variance_sum = 0.0;       // sum over elements of the sample variance

    DrawSamples() = default;
    explicit DrawSamples(std::size_t draws) : draw_error(draws, 0.0), left_out(draws, 0.0) {}
    bool empty() const { return draw_error.empty(); }

    // Adds one block of a tensor, at most 4096 elements; values(d) is the result of draw d.
    void add_block(std::span<const double> reference,
                   const std::function<const double*(std::size_t d)>& values);
    void merge(const DrawSamples& next);  // `next`: the next worker's
    // Fills the row's four expected columns; leaves them empty if a pair was not finite, or a draw
    // overflowed.
    void fill(ResultRow& row) const;
};

}  // namespace apscope::detail
