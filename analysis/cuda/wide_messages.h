// Messages whose decoded values are fp64 numbers, in a replay on a GPU (row_step.h): those of
// rotated blocks (rotated_step.h) and of uniform levels (uniform_step.h). Values and moments are
// stored one worker after another; the sums in fp32 add the values as they are rounded to fp32.
#pragma once

#include <cstdint>

#include "analysis/cuda/line_sums.h"
#include "analysis/cuda/piece.h"

namespace apscope::detail {

struct WideMessages {
    double *values, *bias, *variance;  // null if they are not stored
    std::uint64_t pitch;               // from one worker's values to the next one's
    FloatScale scale;                  // of the limits, which no column of these messages uses

    APSCOPE_HD const FloatScale& limits() const { return scale; }
    APSCOPE_HD SentValue at(std::uint64_t worker, std::uint64_t i) const {
        const double value = values[worker * pitch + i];
        return {value, value, 1.0};
    }
    APSCOPE_HD RoundingMoments moments(std::uint64_t worker, std::uint64_t i, float, double) const {
        return {bias[worker * pitch + i], variance[worker * pitch + i], true};
    }
    APSCOPE_HD void store(std::uint64_t worker, std::uint64_t i, double value, double of_bias,
                          double of_variance) const {
        if (values == nullptr) return;
        const std::uint64_t at = worker * pitch + i;
        values[at] = value;
        bias[at] = of_bias;
        variance[at] = of_variance;
    }
};

// What the elements of a worker's 4096 that were rounded in another basis did to the format.
struct BasisUse {
    std::uint32_t subnormal = 0, saturated = 0;
    double max_ulp = 0.0;
};

// Compares the messages with the elements; a line's rows are the workers.
struct WideWireStep : LineSumsStep {
    const float* rows;
    Piece piece;
    int workers;
    WideMessages messages;
    bool moments;            // see WireStep
    const BasisUse* in_use;  // of every line, or null

    APSCOPE_HD std::uint64_t count() const {
        return static_cast<std::uint64_t>(workers) * piece.blocks() * sum_lanes;
    }
    APSCOPE_HD RowLane begin(std::uint64_t item) const {
        const LaneItem at(item);
        const auto w = static_cast<std::uint64_t>(workers);
        const std::uint64_t worker = at.line % w;
        RowLane lane;
        piece.each(at.line / w, at.lane, [&](std::uint64_t i) {
            const float x = rows[worker * piece.count + i];
            const double y = messages.at(worker, i).value;
            lane.pairs.add_pair(x, y, messages.scale);
            if (moments) lane.moments.add(x, y, messages.moments(worker, i, x, y));
        });
        return lane;
    }
    APSCOPE_HD void finish(std::uint64_t item, const RowLane&, const LineSums& all) const {
        const LaneItem at(item);
        if (at.lane != 0) return;
        const BasisUse use = in_use != nullptr ? in_use[at.line] : BasisUse{};
        out[at.line] = all;
        out[at.line].totals.count[ErrorCounts::subnormal] = use.subnormal;
        out[at.line].totals.count[ErrorCounts::saturated] = use.saturated;
        out[at.line].totals.max_ulp = use.max_ulp;
    }
};

}  // namespace apscope::detail
