// The data of a replay's tasks for the steps of row_step.h, derived once per item on the host: the
// reduced rows as programs, the memory that a block of elements needs, and the places of a task's
// sums in the results.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/cuda/block_row_step.h"
#include "analysis/cuda/draw_step.h"
#include "analysis/cuda/noise_step.h"
#include "analysis/cuda/reduced_step.h"
#include "analysis/cuda/shard_pieces.h"
#include "analysis/cuda/wide_messages.h"
#include "analysis/replay/row_device.h"
#include "emulation/cuda/allreduce/phase_step.h"

namespace apscope::detail {

// The sums of a piece as a device returns them, line by line (piece.h), task after task: a task has
// the lines of its messages, one row per worker, then those of its reduced rows.
struct PieceSums {
    std::span<const LineSums> rows;
    std::span<const BlockUseSums> uses;    // of messages in blocks, one row per worker
    std::span<const RatioProduct> ratios;  // of reduced rows; empty if the noise is not known
    std::span<const DrawSums> draws;       // of sampled rows
};

inline WireScale wire_scale_of(const WireTask& wire) {
    return {wire.scale.scale, wire.inverse, wire.narrow.has_value()};
}

class RowPlan {
public:
    RowPlan(std::span<const RowTask> tasks, int workers, std::uint64_t elements, double divisor,
            bool has_noise);

    // Neighbouring workers that share a scale. `wire` is null for messages in a block format, whose
    // values are stored as they are.
    struct Messages {
        WorkerRange workers;
        WireScale scale;
        const WireTask* wire;
    };
    struct Task {
        std::vector<Messages> messages;  // of all workers; empty with a scale for each unit
        FloatScale scale;                // of the results; scale.units is the divisor
        // The index in rows() of the task's first row. The task has all its reduced rows there,
        // then its sampled rows a second time.
        std::uint64_t first_row;
        std::uint64_t row_count = 0, sampled_count = 0;
        std::uint64_t draws = 0;  // number of draws that are compared; 0 without sampled rows
        std::uint64_t closed_forms = 0;  // number of reduced rows whose moments have one
        // The task's first entries in the arrays of PieceSums, in entries per block.
        std::uint64_t first_sum = 0, first_use = 0, first_ratio = 0, first_draw = 0;
        std::uint64_t first_amax = 0;  // the task's first entry in amax_bits()
        // In two phases whose sums are encoded: the task's number among those tasks, and if they
        // are encoded in blocks, its first entry in the array of their amax or norms, and the
        // entries of a shard.
        std::optional<std::uint64_t> encoded_sum = {};
        std::uint64_t first_sum_block = 0, blocks_of_shard = 0;
        std::uint64_t edge = 0;  // the task's number among those whose sums have edges
    };
    const std::vector<Task>& tasks() const { return plans_; }
    const std::vector<ReducedRow>& rows() const { return rows_; }
    const std::vector<HopInstruction>& instructions() const { return instructions_; }
    const RowTask& intended(std::size_t task) const { return tasks_[task]; }
    int workers() const { return workers_; }
    // The number of tasks in two phases whose sums are encoded, of blocks of all these sums, and of
    // those tasks that keep something of each part of a shard for the next one: 16 numbers.
    std::uint64_t encoded_sums() const { return encoded_sums_; }
    std::uint64_t sum_blocks() const { return sum_blocks_; }
    std::uint64_t edged_sums() const { return edged_sums_; }
    // The bits of the amax from which tensor scales follow, one per worker of a task that has them.
    const std::vector<std::uint32_t>& amax_bits() const { return amax_bits_; }
    double divisor() const { return divisor_; }
    bool has_noise() const { return has_noise_; }

    // The numbers that are stored per block of elements: of PieceSums for all tasks together, of
    // the others for the task with the largest need.
    struct Sizes {
        std::uint64_t sums = 0, uses = 0, ratios = 0, draws = 0,  // of PieceSums
            row_floats = 0,                                       // the workers' values
            codes = 0, scales = 0,                                // of messages in blocks
            exponents = 0,                                        // of the scales of units
            norms = 0,                                            // of buckets
            wide = 0, in_use = 0,   // of wide messages: values, and as many of both moments; lines
            sent = 3 * sum_block,   // SentSums
            results = 0,            // ReducedResults
            drawn = 0,              // the results of draws, and their spread
            noise = 0, errors = 0,  // noise blocks, and errors of reduced rows
            phase_sums = 0,         // fp32 sums of two phases
            slots = 0;
    };
    const Sizes& sizes() const { return sizes_; }
    std::uint64_t bytes() const;  // per block
    // How the sum of a shard is encoded: by a scale, or in blocks whose tensor scale follows from
    // its largest finite magnitude.
    struct SumEncoding {
        std::optional<WireTask> wire;
        float largest;
    };
    // For every task in two phases whose sums are encoded, the encodings of its shards' sums, from
    // the extents of one task after another.
    std::vector<std::vector<SumEncoding>> encodings(std::span<const SumExtent> extents,
                                                    const ShardPieces& parts) const;

    // Returns totals of zero, to which add() adds the sums of a piece, block by block.
    std::vector<RowTotals> no_totals(std::uint64_t elements) const;
    void add(const PieceSums& sums, std::uint64_t blocks, std::vector<RowTotals>& totals) const;

private:
    std::span<const RowTask> tasks_;
    int workers_;
    double divisor_;
    bool has_noise_;
    std::uint64_t encoded_sums_ = 0, sum_blocks_ = 0, edged_sums_ = 0;
    std::vector<std::uint32_t> amax_bits_;
    std::vector<Task> plans_;
    std::vector<ReducedRow> rows_;
    std::vector<HopInstruction> instructions_;
    Sizes sizes_;
};

}  // namespace apscope::detail
