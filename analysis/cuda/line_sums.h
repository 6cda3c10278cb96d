// The sums of one block of one row, and the lanes from which they are combined.
#pragma once

#include <cstdint>

#include "analysis/cuda/error_totals.h"
#include "analysis/cuda/piece.h"

namespace apscope::detail {

// Made of 4-byte words, because a group of threads combines it by shuffles.
struct LineSums {
    ErrorBlock totals;
    double split[ErrorSplit::part_count];

    APSCOPE_HD static LineSums combined(const LineSums& a, const LineSums& b) {
        LineSums all{detail::combined(a.totals, b.totals), {}};
        for (int k = 0; k < ErrorSplit::part_count; ++k) all.split[k] = a.split[k] + b.split[k];
        return all;
    }
};

// The message of one element: its decoded value, the number of the format that was sent, and the
// factor by which the element was multiplied before it was rounded to this number.
struct SentValue {
    double value, code, factor;

    // `limits`: the limits of the format.
    APSCOPE_HD SentError error(double x, const FloatScale& limits) const {
        return sent_error(x, value,
                          is_saturated(absolute(x * factor), absolute(code), limits.largest));
    }
};

// The factor of the elements of a block before they were rounded, and the decoded value of the
// number 1 of the format.
struct BlockFactor {
    double factor, scale;
};

// The sums of one lane.
struct RowLane {
    ErrorLane pairs;
    MomentLane moments;
    double split[ErrorSplit::part_count] = {};

    // Adds an element x and its message.
    APSCOPE_HD void add_sent(double x, const SentValue& sent, FloatScale limits) {
        limits.scale = sent.factor;
        pairs.add_limits(x, sent.code, limits);
        pairs.add_pair(x, sent.value, limits);
        update_sent_split(sent.error(x, limits), [&](int k) -> double& { return split[k]; });
    }

    APSCOPE_HD LineSums sums() const {
        LineSums s{totals_of(pairs, moments), {}};
        for (int k = 0; k < ErrorSplit::part_count; ++k) s.split[k] = split[k];
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
