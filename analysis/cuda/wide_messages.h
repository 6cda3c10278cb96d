// Messages whose decoded values are fp64 numbers, in a replay on a GPU (row_step.h): those of
// rotated blocks (rotated_step.h) and of uniform levels (uniform_step.h). Values and moments are
// stored one worker after another; the sums in fp32 add the values as they are rounded to fp32.
#pragma once

#include <cstdint>

#include "analysis/cuda/message_wire_step.h"

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
    APSCOPE_HD void add_to(RowLane& lane, float x, const SentValue& sent) const {
        lane.pairs.add_pair(x, sent.value, scale);
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

struct WideWireStep : MessageWireStep<WideMessages> {
    const BasisUse* in_use;  // of every line, or null

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
