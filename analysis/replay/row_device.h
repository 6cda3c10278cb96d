// The tasks that replay() gives to a device, namely schemes that round the gradients of one item to
// a float or block format, and the device's results, the sums from which result rows are computed.
// FloatBlocks (float_blocks.h), PhaseBlocks (phase_blocks.h) and ExchangeBlocks (exchange_blocks.h)
// make the tasks, and ItemAccount (item_account.h) takes the totals; without a device they compute
// the same bits, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "analysis/statistics/error_statistics.h"
#include "core/fixed_shape_sum.h"
#include "core/float_format.h"
#include "core/philox.h"
#include "core/projection.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/allreduce/topology.h"
#include "emulation/arithmetic/rounding_steps.h"
#include "emulation/schemes/block_encoding.h"
#include "emulation/schemes/codecs/block_use.h"
#include "emulation/schemes/codecs/uniform_grid.h"

namespace apscope::detail {

// Rounding to a format of fp32 numbers under one scale: the code round(scale x) is sent; decoding
// multiplies it by `inverse` or divides it by the scale.
struct WireTask {
    FloatScale scale;       // the cast and the scale
    Projection projection;  // the projection of the cast
    // The format of the decoded values if they are fp32 numbers; its cast includes the scale.
    std::optional<FloatFormat> narrow;
    double inverse = 1.0;  // 1 / scale for a power of two; 0 for other scales
};

// True if a device rounds to the format: every block of the fixed-shape sums consists of whole
// blocks of the format, and a tensor scale is so large that no factor of an element is NaN.
inline bool has_device_blocks(const BlockFormat& format) {
    const double range = format.element.largest() * format.scale.largest();
    return sum_block % static_cast<std::size_t>(format.block_size) == 0 &&
           (!format.tensor_scale || range >= 4.0);
}
// Rounding to a block format; only if has_device_blocks() is true.
struct BlockTask {
    BlockFormat format;
    Projection projection;
    // The largest finite magnitude from which the tensor scale of each worker's message follows;
    // empty if the format has no tensor scale.
    std::vector<float> amax = {};
    bool rotates = false;  // BlockEncoding::rotates
};

// Rounding to a float grid under a power of two for every `unit` consecutive elements, of which the
// blocks of the fixed-shape sums consist.
struct UnitTask {
    WireTask wire;  // without a scale; codes are stored
    // The format, if scaled numbers may be rounded to fp32 before they are rounded to it: it has a
    // zero, its other values are far above fp32's subnormal numbers, and the mode rounds tiny
    // numbers to 0.
    std::optional<FloatFormat> of_fp32;
    std::size_t unit;
    std::function<int(double)> shift;  // UnitEncoding::shift for the workers that agree
    // True if all workers agree on the scales; false: every worker has its own.
    bool agrees = false;
};

// A reduction in two phases (emulation/schemes/two_phase.h): the owner of a shard adds the messages
// in fp32, in rank order, and encodes the sum.
struct PhaseTask {
    // The encoding of a shard's sum, from the sum's largest finite magnitude, the number of its
    // elements that are not finite, and its length. Null if the sums are not encoded so.
    std::function<WireTask(float, std::uint64_t, std::size_t)> encoding;
    // The sums are rounded to this format, and `amax` is empty, because it is that of a sum.
    std::optional<BlockTask> blocks = {};
    std::optional<UnitTask> units = {};
    std::optional<UniformGrid> uniform = {};

    bool encodes() const { return encoding || blocks || units || uniform; }
};

// One scheme whose messages are rounded to a format.
struct RowTask {
    std::vector<WireTask> wires;  // one for all workers, or one for each; empty with the next three
    std::optional<BlockTask> blocks = {};
    std::optional<UnitTask> units = {};
    std::optional<UniformGrid> uniform = {};
    bool wire_draws = false;  // wire rows have moments
    // True if decoded values are fp64 numbers; the sums in fp32 round them.
    bool is_wide() const { return uniform || (blocks && blocks->rotates); }
    // Set for a reduction in two phases, which has two reduced rows, the exact one and its own, of
    // which only the first may have moments, and neither `step` nor `accumulator`.
    std::optional<PhaseTask> phases;
    // The step that rounds each partial sum (emulation/allreduce/fp32_sums.h), if the decoded
    // values can be added in fp32.
    std::optional<StepCast<float>> step;
    Cast<double> accumulator{};  // the cast of the hops' sums, also if `step` is given
    bool wants_moments = false;  // the sums of the messages' moments are needed for reduced rows
    // The key of draw 0, which the rows describe; if some row is sampled, the keys of all K draws.
    std::vector<PhiloxKey> keys;

    struct Reduced {
        Topology topology;
        bool exact = false;        // decoded values are added in fp64
        bool closed_form = false;  // the row's moments are those of the messages and the hops
        bool sampled = false;      // the row's moments are estimated from K draws
    };
    std::vector<Reduced> reduced;
};

struct RowTotals {
    std::vector<ErrorStatistics> wire;  // one per worker
    std::vector<BlockUse> blocks;  // of messages in blocks or units, one per worker; else empty
    // The smallest and the largest exponent of the scales of units.
    int least_exponent = std::numeric_limits<int>::max(),
        largest_exponent = std::numeric_limits<int>::min();
    bool wire_moments_defined = true;

    struct Reduced {
        ErrorStatistics statistics;
        // The sums of DrawSamples: for every draw the sum of its errors and the sum of the
        // variances without it; then the sum of the variances.
        std::vector<double> draw_error, left_out;
        double variance_sum = 0.0;
    };
    std::vector<Reduced> reduced;
};

class RowDevice {
public:
    explicit RowDevice(std::uint64_t min_values = 0) : min_values_(min_values) {}
    RowDevice(const RowDevice&) = delete;
    RowDevice& operator=(const RowDevice&) = delete;
    virtual ~RowDevice() = default;
    // Items with fewer values, elements times workers, are faster without the device; replay() does
    // not give them to it.
    std::uint64_t min_values() const { return min_values_; }
    // Runs every task on an item. gradients: one row per worker. divisor: divides the sums and the
    // reference. noise: the noise of every noise block (batch_noise.h), or empty. Several threads
    // may call run() at once. Throws std::bad_alloc if the device has no memory for one block of
    // 4096 elements and, in two phases, for 4 bytes of every block of a task's sums;
    // std::runtime_error if it fails.
    virtual std::vector<RowTotals> run(std::span<const std::span<const float>> gradients,
                                       double divisor, std::span<const double> noise,
                                       std::span<const RowTask> tasks) = 0;

private:
    std::uint64_t min_values_;
};

}  // namespace apscope::detail
