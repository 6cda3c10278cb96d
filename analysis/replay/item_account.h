// ItemAccount: computes the result rows of one scheme on one item, block by block. It compares the
// messages with the gradients and every result with the gradients' sum. Every column of a replay is
// computed here: the error (error_statistics.h), its parts by cause (error_split.h), its
// expectation and variance, its ratio to the noise (batch_noise.h), the comparison with the values
// that the workers intended to send, and the estimates from K draws (draw_samples.h). The account
// owns a BlockSource (block_source.h), which supplies messages and sums. A GPU computes the same
// totals (analysis/cuda/row_step.h); take() takes them in place of blocks.
//
//      add(first, reference)       adds a block; blocks come in order
//      take_draw(d, first, count)  for draws that the caller makes: K times, then add_draws()
//      rows(sent)                  the rows of the wire, of exact, and of the scheme's own
//                                  reduction or the item's topologies; with
//                                  ItemContext::last_alone only the first and the last of these
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

// The facts about a scheme's messages that result rows contain.
struct SentItem {
    const Transport& transport;
    std::uint64_t wire_bits = 0,  // bits of one worker's payload
        side_bits = 0;            // bits of one worker's side information
    // The part of side_bits that does not depend on the tensor's length.
    std::uint64_t tensor_bits = 0;
    std::optional<int> scale_exponent;
    bool skipped = false;  // the step sends nothing: statistics compare x with itself
};

// The sums of one row.
struct RowSums {
    ErrorStatistics statistics;
    ErrorStatistics intended;  // compares with the values that the workers intended to send
    DrawSamples samples;       // empty if the row is not sampled
};

// The buffers for one block. All items of a thread may use them one after another.
struct AccountBuffers {
    Buffer<double> lost,            // the exact sum's error due to underflow
        clipped;                    // the exact sum's error due to saturation
    Buffer<double> bias, variance;  // sums over the workers of their messages' moments
    Buffer<double> intended;        // the divided sum of the values that workers intended to send
    Buffer<double> exact,           // the result of the exact row
        y;                          // the result of another row
    Buffer<double> result_bias, result_variance;  // the moments of a result
    // K draws of every worker's messages, then of every reduced row.
    std::vector<Buffer<double>> drawn;
};

class ItemAccount {
public:
    // `buffers` and the data to which `item` refers must outlive the account.
    ItemAccount(const ItemContext& item, AccountBuffers& buffers,
                std::unique_ptr<BlockSource> source);

    // Adds the block that begins at `first`. reference: R of its elements (ItemContext::add_up).
    void add(std::size_t first, std::span<const double> reference);
    // Adds elements first .. first + count - 1, where `first` begins a block.
    void add(std::size_t first, std::size_t count);

    // Prepares every row without expected columns for K draws. Returns false if no row needs draws;
    // otherwise take_draw() and add_draws() must follow.
    bool sample_missing(std::span<const ResultRow> rows);
    // Stores draw d, which the source has made current, of elements first .. first + count - 1.
    // After all K draws of the same elements, call add_draws(first).
    void take_draw(std::size_t d, std::size_t first, std::size_t count);
    void add_draws(std::size_t first);

    // The work of the source as a task for a device (BlockSource::task), and what takes the totals
    // that the device computed, in place of add() and of draws.
    std::optional<RowTask> task() { return facts().skipped ? std::nullopt : source_->task(); }
    void take(RowTotals totals);

    std::vector<ResultRow> rows(const SentItem& sent) const;

private:
    const SourceFacts& facts() const { return source_->facts(); }
    DrawSamples no_samples() const { return DrawSamples(static_cast<std::size_t>(item_.draws)); }
    bool samples() const;  // true if some row is sampled
    void start(std::size_t first, std::span<const double> reference);
    // For a step that sends nothing: compares the gradients and their sum with themselves.
    void skip();
    void add_sent(std::size_t w);
    void split(SentBlock& sent);
    void sum_moments(std::size_t w, std::span<const double> bias, std::span<const double> variance);
    // False if ItemContext::last_alone excludes reduced row r.
    bool is_wanted(std::size_t r) const { return !item_.last_alone || r + 1 == reduced_.size(); }
    void end_sent();
    void add_result(std::size_t r);
    void add_to_windows(std::size_t r, std::span<const double> result, bool overflows);
    RowSums wire_sums() const;
    std::size_t count() const { return reference_.size(); }

    ItemContext item_;
    AccountBuffers& buffers_;
    std::unique_ptr<BlockSource> source_;
    std::vector<RowSums> reduced_;       // one per reduced row
    std::vector<ErrorStatistics> sent_;  // one per worker
    // The comparisons with the intended values: one per worker, or empty.
    std::vector<ErrorStatistics> own_sent_;
    std::vector<DrawSamples> sent_samples_;  // one per worker, or empty
    // The current block.
    std::size_t first_ = 0;
    std::span<const double> reference_, noise_;
    ReferenceSums known_;
    std::size_t drawn_ = 0;       // number of elements in each of the current draws
    bool classed_ = false;        // some worker's value underflowed or saturated
    bool has_moments_ = false,    // buffers_.bias and variance have the messages' moments
        moments_defined_ = true;  // no draw of a message could overflow
};

}  // namespace apscope::detail
