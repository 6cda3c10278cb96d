// The sums of one block of one row, and the lanes from which they are combined.
#pragma once

#include <cstdint>

#include "analysis/cuda/error_step.h"

namespace apscope::detail {

// Made of 4-byte words, because a group of threads combines it by shuffles.
struct LineSums {
    double sums[ErrorStatistics::sum_count], split[ErrorSplit::part_count], max_ulp;
    std::uint32_t counts[ErrorCounts::size],
        undefined;  // roundings without moments

    APSCOPE_HD static LineSums combined(const LineSums& a, const LineSums& b) {
        LineSums all{};
        for (int k = 0; k < ErrorStatistics::sum_count; ++k) all.sums[k] = a.sums[k] + b.sums[k];
        for (int k = 0; k < ErrorSplit::part_count; ++k) all.split[k] = a.split[k] + b.split[k];
        all.max_ulp = a.max_ulp > b.max_ulp ? a.max_ulp : b.max_ulp;
        for (int k = 0; k < ErrorCounts::size; ++k) all.counts[k] = a.counts[k] + b.counts[k];
        all.undefined = a.undefined + b.undefined;
        return all;
    }
};

// The sums of one lane.
struct RowLane {
    ErrorLane pairs;
    MomentLane moments;
    double split[ErrorSplit::part_count] = {};

    APSCOPE_HD LineSums sums() const {
        LineSums s{};
        for (int k = 0; k < error_sums; ++k) s.sums[k] = pairs.sum[k];
        s.sums[ErrorStatistics::expected_error] = moments.error;
        s.sums[ErrorStatistics::expected_variance] = moments.variance;
        for (int k = 0; k < ErrorSplit::part_count; ++k) s.split[k] = split[k];
        s.max_ulp = pairs.max_ulp;
        for (int k = 0; k < ErrorCounts::size; ++k) s.counts[k] = pairs.count[k];
        s.undefined = moments.undefined;
        return s;
    }
};

// The part of a LaneGroupStep in which groups of 16 lanes add the blocks of rows. The step has
// begin(), which returns a lane, and `out`, which receives the sums of every line.
struct LineSumsStep {
    static constexpr int width = lanes_of_block;
    using Lane = RowLane;

    LineSums* out;

    APSCOPE_HD static LineSums share(const RowLane& lane) { return lane.sums(); }
    APSCOPE_HD static LineSums combine(const LineSums& a, const LineSums& b) {
        return LineSums::combined(a, b);
    }
    APSCOPE_HD void finish(std::uint64_t i, const RowLane&, const LineSums& all) const {
        if (out != nullptr && i % width == 0) out[i / width] = all;
    }
};

}  // namespace apscope::detail
