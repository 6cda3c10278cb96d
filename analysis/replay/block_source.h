// BlockSource: what a scheme sends of each block of one item and what its sums come to. An
// ItemAccount (item_account.h) owns it and asks it, block by block: float_blocks.h for schemes that
// scale and round to a float grid, phase_blocks.h for two phases of them, exchange_blocks.h for all
// others.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/result_row.h"
#include "analysis/statistics/split_kernels.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/schemes/codecs/block_use.h"

namespace apscope::detail {

// What is known of a row beside its sums.
struct RowFacts {
    std::string topology;       // empty at the wire
    bool exact = false;         // of a reduced row: the fp64 sum of what was sent
    bool adds_moments = false;  // and its moments are the sums of the messages', its hops' added
    bool hops_draw = false;
    bool sampled = false;  // K draws are taken of it
    Moments moments = Moments::none;
    bool float_grid = false;         // the statistics count limits and ulps of a float format
    std::optional<BlockUse> blocks;  // of the wire, of schemes whose scales are blocks' own
};

struct SourceFacts {
    RowFacts wire;
    std::vector<RowFacts> reduced;  // the exact one first; none where the item has none
    bool skipped = false;           // the step sends nothing
    // The message is the gradient, rounded element by element to a float grid: errors have parts.
    bool splits = false;
    // The workers send something else (a momentum), which is a separate truth (SentBlock::meant).
    bool has_own = false;
    // For results whose elements share a scale on a float grid.
    std::optional<FloatScale> ulps;
};

// What one worker sends of a block.
struct SentBlock {
    template <class Real, class Saturated>
    struct Values {
        const Real *x, *y;    // x is sent as y
        Saturated saturated;  // which elements saturated, if `saturates`
    };
    using Floats = Values<float, BeyondLargest<float>>;
    using Doubles = Values<double, BeyondLargest<double>>;
    using MarkedDoubles = Values<double, Marked>;

    ErrorStatistics statistics;  // of this block alone
    std::variant<Floats, Doubles, MarkedDoubles> values;
    bool saturates = false;
    std::span<const double> bias, variance;  // of every element over the draws, or empty
    std::span<const double> meant, sent;     // of a scheme with a truth of its own
};

class BlockSource {
public:
    explicit BlockSource(SourceFacts facts) : facts_(std::move(facts)) {}
    virtual ~BlockSource() = default;

    const SourceFacts& facts() const { return facts_; }

    // What worker w sends of elements first .. first + count - 1. Good until the next call.
    virtual SentBlock send(std::size_t w, std::size_t first, std::size_t count) = 0;
    // Turns to draw d of these elements, unless the caller of the account does.
    virtual void draw(std::size_t, std::size_t, std::size_t) {}
    // y = what worker w sends of elements from `first` on, of the block or the draw at hand.
    virtual void read_sent(std::size_t w, std::size_t first, std::span<double> y) = 0;
    // y = the sum by reduced row r, divided; the first is exact. hops, if given, is added to: the
    // moments of its draws, before the division.
    virtual void reduce(std::size_t r, std::size_t first, std::span<double> y,
                        HopMoments* hops) = 0;
    // The largest error of y in units in the last place, where elements have scales of their own.
    virtual double max_ulp(std::size_t, std::span<const double>, std::span<const double>) const {
        return 0.0;
    }

protected:
    SourceFacts facts_;
};

}  // namespace apscope::detail
