// ItemAccount: the rows of one scheme on one item, from its blocks: what the workers sent and every
// result, compared with the gradients and their sum. Every column of a replay comes from here: the
// error of a pair (error_statistics.h), where it comes from (error_split.h), its expectation and
// variance, its ratio to the noise (batch_noise.h), the comparison with the scheme's own truth, and
// the estimates from K draws (draw_samples.h). The account owns a BlockSource (block_source.h),
// which says what is sent and how it is added. The updates of an element are those of the GPU's
// steps (analysis/cuda/row_step.h), whose totals take() gets instead of blocks.
//
//      add(first, reference)       a block, in order
//      take_draw(d, first, count)  K times, then add_draws(): of sources that do not draw themselves
//      rows(sent)                  wire, exact, then the scheme's own reduction or the topologies
//                                  that it crosses with; or the wire and the last of these
//                                  (ItemContext::last_alone)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "analysis/replay/block_source.h"
#include "analysis/replay/item_context.h"
#include "analysis/replay/row_device.h"
#include "analysis/statistics/draw_samples.h"
#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/result_row.h"
#include "emulation/machine/buffers.h"
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

// The sums of one row.
struct RowSums {
    ErrorStatistics statistics;
    ErrorStatistics own;  // against the scheme's own truth
    DrawSamples samples;  // empty where none are taken
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
    // The arguments must outlive it.
    ItemAccount(const ItemContext& item, AccountBuffers& buffers,
                std::unique_ptr<BlockSource> source);

    // A block that begins at `first`. reference: R.
    void add(std::size_t first, std::span<const double> reference);
    // Elements first .. first + count - 1, of which the first begins a block.
    void add(std::size_t first, std::size_t count);

    // Takes K draws of every row that lacks its expected columns. Whether there is one.
    bool sample_lacking(std::span<const ResultRow> rows);
    // Draw d of `count` elements, of which the same of all K draws come one after another; then
    // add_draws(), with the place where they begin.
    void take_draw(std::size_t d, std::size_t first, std::size_t count);
    void add_draws(std::size_t first);

    void take(RowTotals totals);

    std::vector<ResultRow> rows(const SentItem& sent) const;

private:
    const SourceFacts& facts() const { return source_->facts(); }
    DrawSamples no_samples() const { return DrawSamples(static_cast<std::size_t>(item_.draws)); }
    bool samples() const;  // whether some row takes K draws
    void start(std::size_t first, std::span<const double> reference);
    // Of a step that sends nothing: compares the gradients and their sum with themselves.
    void skip();
    void add_sent(std::size_t w);
    void split(SentBlock& sent);
    void sum_moments(std::size_t w, std::span<const double> bias, std::span<const double> variance);
    // Unless the last row alone is.
    bool is_wanted(std::size_t r) const { return !item_.last_alone || r + 1 == reduced_.size(); }
    void end_sent();
    void add_result(std::size_t r);
    void add_to_windows(std::size_t r, std::span<const double> result, bool overflows);
    RowSums wire_sums() const;
    std::size_t count() const { return reference_.size(); }

    ItemContext item_;
    AccountBuffers& buffers_;
    std::unique_ptr<BlockSource> source_;
    std::vector<RowSums> reduced_;           // one a reduced row
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

}  // namespace apscope::detail
