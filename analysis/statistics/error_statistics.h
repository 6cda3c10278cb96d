// ErrorStatistics: counters and fixed-shape sums of the error of y against x. add_block() takes one
// block of a tensor (fixed_shape_sum.h), merge() the statistics of the next worker; the columns
// follow from the totals by the formulas of docs/definitions.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "analysis/statistics/error_split.h"
#include "core/rounding.h"
#include "emulation/allreduce/batch_noise.h"

namespace apscope::detail {

// Inputs of the columns about a float format's limits; absent for other grids.
struct FloatScale {
    Cast<double> cast;
    double scale = 1.0;  // the scheme's scale
    // The number in the format is units * scale * x. units is W / D if x was divided by W and the
    // scheme divides by D before it rounds; W or D is 1 without such a division.
    double units = 1.0;
    double smallest_normal = 0.0;  // smallest normal number of the format, in scaled units
    double largest = 0.0;          // largest number of the format
};

// The sums of add_block() that depend only on x, for callers that compare several results with the
// same x. They are not finite if an element of x is not.
struct ReferenceSums {
    double squared = 0.0, absolute = 0.0;
    std::uint64_t zeros = 0;
};
// The sums of one block.
ReferenceSums reference_sums(std::span<const double> x);

struct ErrorStatistics {
    enum Sum {
        error,
        squared_error,
        squared_reference,
        absolute_reference,
        signed_error,
        product,
        squared_result,
        expected_error,
        expected_variance,
        sum_count
    };

    std::uint64_t count = 0, counted = 0, nonzero = 0, underflow = 0, subnormal = 0, saturated = 0,
                  overflow = 0, nan = 0, infinite = 0;
    std::array<double, sum_count> sums{};
    ErrorSplit split;      // for float grids; the loops in split_kernels.h add to it
    OverNoise over_noise;  // for reduced rows with several workers; the caller adds to it
    double max_ulp = 0.0;
    bool moments_defined = true;  // expected_* are valid; false once a draw could have overflowed

    // x, y: one block, at most 4096 values, both fp64 or both fp32 numbers. bias and variance: one
    // value per element, or empty. `known`, for fp64 numbers: the block's reference_sums(), if the
    // caller has them.
    template <class Real>
    void add_block(std::span<const Real> x, std::span<const Real> y, const FloatScale* scale,
                   std::span<const double> bias, std::span<const double> variance,
                   const ReferenceSums* known = nullptr);
    // Counts subnormal and saturated elements of a wire row; `codes` are the scaled, rounded
    // values.
    void count_limits(std::span<const double> x, std::span<const double> codes,
                      const FloatScale& scale);
    // Counts subnormal and saturated elements, for values y and limits in the units of x.
    void count_limits(std::span<const float> x, std::span<const float> y, float smallest_normal,
                      float largest);
    // Adds the statistics of the next worker, in rank order.
    void merge(const ErrorStatistics& next);
};

}  // namespace apscope::detail
