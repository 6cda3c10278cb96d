// BlockSource: the messages of a scheme on one item and their sums, block by block. An ItemAccount
// (item_account.h) owns it. The derived classes are in float_blocks.h for schemes that scale and
// round to a float grid, in phase_blocks.h for two-phase reductions of such schemes, and in
// exchange_blocks.h for all other schemes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/replay/row_device.h"
#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/result_row.h"
#include "analysis/statistics/split_kernels.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/schemes/codecs/block_use.h"

namespace apscope::detail {

// Facts about a result row, other than its sums.
struct RowFacts {
    std::string topology;  // empty at the wire
    bool exact = false;    // true for the reduced row that is the fp64 sum of the messages
    // The row's moments are the sums of the messages' moments, plus those of the row's hops.
    bool adds_moments = false;
    bool hops_draw = false;  // the hops round stochastically
    bool sampled = false;    // the row's moments are estimated from K draws
    Moments moments = Moments::none;
    bool float_grid = false;         // the row has the columns of a float format, such as max_ulp
    std::optional<BlockUse> blocks;  // only for the wire row, if each block has its own scale
};

struct SourceFacts {
    RowFacts wire;
    std::vector<RowFacts> reduced;  // the exact one first; empty if the item has no reduced rows
    bool skipped = false;           // the step sends nothing
    // True if a message is the gradient, rounded element by element to a float grid, so that its
    // error can be split by cause (error_split.h).
    bool splits = false;
    // True if the workers intend to send values other than the gradient, such as a momentum.
    // Results are then also compared with the intended values (SentBlock::meant).
    bool compares_intended = false;
    // The scale for errors in units in the last place, if all elements of a result have the same
    // scale and are on a float grid.
    std::optional<FloatScale> ulps;
};

// One worker's message for a block.
struct SentBlock {
    template <class Real, class Saturated>
    struct Values {
        const Real *x, *y;    // x is sent as y
        Saturated saturated;  // which elements saturated, if `saturates`
    };
    using Floats = Values<float, BeyondLargest<float>>;
    using Doubles = Values<double, BeyondLargest<double>>;
    using MarkedDoubles = Values<double, Marked>;

    ErrorStatistics statistics;  // errors of this block alone
    std::variant<Floats, Doubles, MarkedDoubles> values;
    bool saturates = false;
    std::span<const double> bias, variance;  // moments of each element's rounding; may be empty
    // Only used if SourceFacts::compares_intended: the values that the worker intended to send, and
    // those that it sent.
    std::span<const double> meant, sent;
};

class BlockSource {
public:
    explicit BlockSource(SourceFacts facts) : facts_(std::move(facts)) {}
    virtual ~BlockSource() = default;

    const SourceFacts& facts() const { return facts_; }

    // Worker w's message for elements first .. first + count - 1. Valid until the next call.
    virtual SentBlock send(std::size_t w, std::size_t first, std::size_t count) = 0;
    // Makes draw d of elements first .. first + count - 1 the current one. Sources whose owner
    // makes the draws do nothing here (ItemAccount::take_draw).
    virtual void draw(std::size_t, std::size_t, std::size_t) {}
    // y = worker w's decoded message for elements from `first` on, in the current block or draw.
    virtual void read_sent(std::size_t w, std::size_t first, std::span<double> y) = 0;
    // y = the result of reduced row r, after the division by the item's divisor; row 0 is exact. If
    // `hops` is given, adds to it the moments of the rounding in the sums, before the division.
    virtual void reduce(std::size_t r, std::size_t first, std::span<double> y,
                        HopMoments* hops) = 0;
    // The largest error of y in units in the last place, if each element has its own scale;
    // otherwise 0.
    virtual double max_ulp(std::size_t, std::span<const double>, std::span<const double>) const {
        return 0.0;
    }

    // The work of this source as a task for a device, or no value if a device cannot do it.
    virtual std::optional<RowTask> task() { return std::nullopt; }
    // Takes the device's totals of the task that are facts about the wire row.
    virtual void take(const RowTotals&) {}

protected:
    SourceFacts facts_;
};

}  // namespace apscope::detail
