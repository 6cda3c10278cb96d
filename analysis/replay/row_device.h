// The tasks that replay() gives to a device: float schemes on the rows of one item; and its
// results, the sums from which rows are computed. FloatBlocks (float_blocks.h) writes the tasks, an
// ItemAccount (item_account.h) takes the totals; without a device they do the same work, block by
// block, with the same bits.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "analysis/statistics/error_statistics.h"
#include "core/float_format.h"
#include "core/philox.h"
#include "core/projection.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/allreduce/topology.h"
#include "emulation/arithmetic/rounding_steps.h"

namespace apscope::detail {

// One scheme that rounds to a format of fp32 numbers. Every worker sends round(scale x), which
// decodes to itself times `inverse`, or divided by the scale.
struct RowTask {
    FloatScale wire;        // the cast and the scale
    Projection projection;  // of the cast
    // If the decoded values are fp32 numbers: the format of such values, whose cast includes the
    // scale; and if their sums can be added in fp32, each rounded by a step
    // (emulation/allreduce/fp32_sums.h), the step.
    std::optional<FloatFormat> narrow;
    std::optional<StepCast<float>> step;
    double inverse = 1.0;        // of a scale that is a power of two; 0 for others
    Cast<double> accumulator;    // of the hops, whatever the step
    bool wire_draws = false;     // the wire's rows have moments
    bool wants_moments = false;  // some reduced row has a closed form with draws in it
    // Of draw 0, which makes the rows, and of all K if some row is sampled.
    std::vector<PhiloxKey> keys;

    struct Reduced {
        Topology topology;
        bool exact = false;        // decoded values are added in fp64, whatever the topology
        bool closed_form = false;  // moments of wire and hops
        bool sampled = false;      // all K draws are compared
    };
    std::vector<Reduced> reduced;
};

struct RowTotals {
    std::vector<ErrorStatistics> wire;  // one a worker
    bool wire_moments_defined = true;

    struct Reduced {
        ErrorStatistics statistics;
        // Per draw: the sum of errors, and of variances without that draw; the sum of variances.
        std::vector<double> draw_error, left_out;
        double variance_sum = 0.0;
    };
    std::vector<Reduced> reduced;
};

class RowDevice {
public:
    virtual ~RowDevice() = default;
    // Every task on an item: `gradients` holds one row a worker, `divisor` is what sums and the
    // reference are divided by, `noise` the noise of every block (batch_noise.h) or is empty.
    // Called by several threads at once. Throws std::bad_alloc if the device has no memory for one
    // block of 4096 elements, std::runtime_error if it fails.
    virtual std::vector<RowTotals> run(std::span<const std::span<const float>> gradients,
                                       double divisor, std::span<const double> noise,
                                       std::span<const RowTask> tasks) = 0;
};

}  // namespace apscope::detail
