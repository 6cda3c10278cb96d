// ItemAccount: the rows of one scheme on one item, from its blocks: what the workers sent and every
// result, compared with the gradients and their sum. Every column of a replay comes from here: the
// error of a pair (error_statistics.h), where it comes from (error_split.h), its expectation and
// variance, its ratio to the noise (batch_noise.h), the comparison with the scheme's own truth, and
// the estimates from K draws (draw_samples.h). A BlockSource says what is sent and how it is added:
// float_blocks.h for schemes that scale and round to a float grid, exchange_blocks.h for all
// others. The updates of an element are those of the GPU's steps (analysis/cuda/row_step.h), whose
// totals take() gets instead of blocks.
//
//      add(source, first, reference)       a block, in order; or skip()
//      take_draw(source, d, count)         K times, then add_draws()
//      rows(sent)                          wire, exact, then the scheme's own reduction or the
//                                          topologies that it crosses with; or the wire and the
//                                          last of these (ItemContext::last_alone)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/replay/item_context.h"
#include "analysis/replay/row_device.h"
#include "analysis/statistics/draw_samples.h"
#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/result_row.h"
#include "analysis/statistics/split_kernels.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/machine/buffers.h"
#include "emulation/schemes/codecs/block_use.h"
#include "emulation/schemes/transport.h"

namespace apscope::detail {

// The facts about messages in the rows.
struct SentItem {
    const Transport& transport;
    std::uint64_t wire_bits = 0, side_bits = 0;  // of one worker
    std::uint64_t tensor_bits = 0;               // of side_bits, those of a tensor of any length
    std::optional<int> scale_exponent;
    bool skipped = false;  // statistics are then of a reference with itself
};

// One row in the making.
struct RowSums {
    std::string topology;       // empty at the wire
    bool exact = false;         // of a reduced row: the fp64 sum of what was sent
    bool adds_moments = false;  // and its moments are the sums of the messages', its hops' added
    bool hops_draw = false;
    Moments moments = Moments::none;
    bool float_grid = false;  // the statistics count limits and ulps of a float format
    ErrorStatistics statistics;
    ErrorStatistics own;             // against the scheme's own truth
    std::optional<BlockUse> blocks;  // of the wire, of schemes whose scales are blocks' own
    DrawSamples samples;             // empty where none are taken
};

class ItemAccount;

// The block at hand of a scheme that is being replayed.
class BlockSource {
public:
    // Hands what worker w sends to add_sent().
    virtual void send(std::size_t w, ItemAccount& account) = 0;
    // y = what it sends, of a block or a piece that draws are taken of.
    virtual void read_sent(std::size_t w, std::span<double> y) = 0;
    // y = the sum by reduced row r, divided; the first is exact. hops, if given, is added to: the
    // moments of its draws, before the division.
    virtual void reduce(std::size_t r, std::span<double> y, HopMoments* hops) = 0;

protected:
    ~BlockSource() = default;
};

// What a block is worked on in. All items of a thread may share it, one after another.
struct AccountBuffers {
    Buffer<double> lost, clipped;   // of the exact sum's error: underflow and saturation
    Buffer<double> bias, variance;  // of the messages, added up
    Buffer<double> own;             // the sum of what the workers meant to send, divided
    Buffer<double> exact, y;        // the exact row's result, another's
    Buffer<double> result_bias, result_variance;
    std::vector<Buffer<double>> drawn;  // K draws: of every worker's messages, every reduced row
};

class ItemAccount {
public:
    // The arguments must outlive it. reduced: the reduced rows, the exact one first; none where the
    // item has none.
    ItemAccount(const ItemContext& item, AccountBuffers& buffers, std::vector<RowSums> reduced);

    // The message is the gradient, rounded element by element to a float grid: errors have parts.
    bool splits = false;
    // The workers send something else (a momentum), which is a separate truth: add_own() gets it.
    bool has_own = false;
    // For results whose elements share a scale on a float grid.
    std::optional<FloatScale> ulps;

    void add(BlockSource& source, std::size_t first, std::span<const double> reference);
    // For a step that sends nothing: compares the gradients and their sum with themselves.
    void skip(std::size_t first, std::span<const double> reference);

    // Worker w's block x, sent as y, of which `sent` has the statistics of this block alone.
    // saturated: one of split_kernels.h, or null where no element did. bias, variance: of every
    // element over the draws, or empty.
    template <class Real, class Saturated>
    void add_sent(std::size_t w, ErrorStatistics& sent, const Real* x, const Real* y,
                  const Saturated* saturated, std::span<const double> bias = {},
                  std::span<const double> variance = {});
    void add_own(std::size_t w, std::span<const double> meant, std::span<const double> sent);

    // Takes K draws of what the workers send.
    void sample_sent();
    bool samples_sent() const { return !sent_samples_.empty(); }
    // Takes K draws of every row that lacks its expected columns. Whether there is one.
    bool sample_lacking(std::span<const ResultRow> rows);
    // Draw d of `count` elements, of which the same of all K draws come one after another; then
    // add_draws(), with the place where they begin.
    void take_draw(BlockSource& source, std::size_t d, std::size_t count);
    void add_draws(std::size_t first);

    void take(RowTotals totals);

    RowSums& wire() { return rows_[0]; }
    std::span<RowSums> reduced() { return std::span(rows_).subspan(1); }
    std::span<const RowSums> reduced() const { return std::span(rows_).subspan(1); }
    ErrorStatistics& sent_by(std::size_t w) { return sent_[w]; }
    // Of the block at hand.
    std::size_t count() const { return reference_.size(); }
    std::span<const double> reference() const { return reference_; }

    std::vector<ResultRow> rows(const SentItem& sent) const;

private:
    void start(std::size_t first, std::span<const double> reference);
    template <class Real, class Saturated>
    void split(ErrorStatistics& sent, const Real* x, const Real* y, const Saturated* saturated);
    void sum_moments(std::size_t w, std::span<const double> bias, std::span<const double> variance);
    // Unless the last row alone is.
    bool is_wanted(const RowSums& row) const { return !item_.last_alone || &row == &rows_.back(); }
    void end_sent();
    void add_result(BlockSource& source, std::size_t r);
    void add_to_windows(const RowSums& row, std::span<const double> result, bool overflows);
    RowSums wire_sums() const;

    ItemContext item_;
    AccountBuffers& buffers_;
    std::vector<RowSums> rows_;  // the wire's, without what is each worker's, and the reduced ones
    std::vector<ErrorStatistics> sent_;      // one a worker
    std::vector<ErrorStatistics> own_sent_;  // the same, or none
    std::vector<DrawSamples> sent_samples_;  // one a worker, or none
    // Of the block at hand.
    std::size_t first_ = 0;
    std::span<const double> reference_, noise_;
    ReferenceSums known_;
    std::size_t drawn_ = 0;  // elements of the draws at hand
    bool classed_ = false;   // some worker's value underflowed or saturated
    bool has_moments_ = false, moments_defined_ = true;  // of the messages
};

template <class Real, class Saturated>
void ItemAccount::add_sent(std::size_t w, ErrorStatistics& sent, const Real* x, const Real* y,
                           const Saturated* saturated, std::span<const double> bias,
                           std::span<const double> variance) {
    if (splits) split(sent, x, y, saturated);
    moments_defined_ = moments_defined_ && sent.moments_defined;
    sent_[w].merge(sent);
    if (item_.reduces && !bias.empty()) sum_moments(w, bias, variance);
}

template <class Real, class Saturated>
void ItemAccount::split(ErrorStatistics& sent, const Real* x, const Real* y,
                        const Saturated* saturated) {
    if (sent.underflow == 0 && saturated == nullptr) {
        sent.split.sums[ErrorSplit::rounding] = sent.sums[ErrorStatistics::squared_error];
        return;
    }
    if (!classed_) {
        buffers_.lost.assign(count(), 0.0);
        buffers_.clipped.assign(count(), 0.0);
    }
    classed_ = true;
    double *lost = buffers_.lost.data(), *clipped = buffers_.clipped.data();
    if (saturated != nullptr) {
        simd::run<SplitSent<Real, Saturated>>(x, y, *saturated, count(), lost, clipped,
                                              &sent.split);
    } else {
        simd::run<SplitSent<Real, NoneSaturated>>(x, y, NoneSaturated{}, count(), lost, clipped,
                                                  &sent.split);
    }
}

}  // namespace apscope::detail
