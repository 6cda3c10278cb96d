// The data of a replay's tasks for the steps of row_step.h, derived once per item on the host: the
// reduced rows as programs, the memory that a block of elements needs, and the places of a task's
// sums in the results.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/cuda/row_step.h"
#include "analysis/replay/row_device.h"

namespace apscope::detail {

class RowPlan {
public:
    RowPlan(std::span<const RowTask> tasks, int workers, double divisor, bool has_noise);

    struct Task {
        WireCast cast;
        FloatScale scale;  // scale of the results
        // The index in rows() of the task's first row. The task has all its reduced rows there,
        // then its sampled rows a second time.
        std::uint64_t first_row;
        std::uint64_t row_count = 0, sampled_count = 0;
        std::uint64_t draws = 0;  // number of draws that are compared; 0 without sampled rows
        // The number of the task's first quantity; its sums begin at this number times the blocks
        // of a piece.
        std::uint64_t first_quantity = 0;

        std::uint64_t all_rows(int workers) const {
            return row_count + static_cast<std::uint64_t>(workers);
        }
        std::uint64_t row_quantities(int workers) const {
            return RowQuantities::size * all_rows(workers);
        }
        // The quantities of RatioProduct, if the noise is known.
        std::uint64_t noise_quantities() const { return 3 * row_count; }
        std::uint64_t draw_quantities() const {
            return draws == 0 ? 0 : (2 * draws + 1) * sampled_count;
        }
    };
    const std::vector<Task>& tasks() const { return plans_; }
    const std::vector<ReducedRow>& rows() const { return rows_; }
    const std::vector<HopInstruction>& instructions() const { return instructions_; }
    const RowTask& intended(std::size_t task) const { return tasks_[task]; }
    int workers() const { return workers_; }
    double divisor() const { return divisor_; }
    bool has_noise() const { return has_noise_; }

    // The numbers that the task with the largest need stores per block of elements.
    std::uint64_t lane_doubles() const { return lane_doubles_; }
    std::uint64_t slots() const { return slots_; }
    std::uint64_t draw_doubles() const { return draw_doubles_; }
    std::uint64_t square_doubles() const { return has_noise_ ? sum_block / 2 * most_rows_ : 0; }
    std::uint64_t error_doubles() const { return has_noise_ ? noise_blocks_a_sum * most_rows_ : 0; }
    std::uint64_t noise_doubles() const { return has_noise_ ? noise_blocks_a_sum : 0; }
    static std::uint64_t split_doubles() { return 3 * sum_block; }
    std::uint64_t moment_doubles() const { return wants_moments_ ? 2 * sum_block : 0; }
    std::uint64_t result_doubles() const { return result_doubles_; }  // over all tasks
    std::uint64_t row_floats() const { return static_cast<std::uint64_t>(workers_) * sum_block; }
    std::uint64_t bytes() const;

    // Returns totals of zero, to which add() adds the results of a piece, block by block.
    std::vector<RowTotals> no_totals(std::uint64_t elements) const;
    void add(const std::vector<double>& results, std::uint64_t blocks,
             std::vector<RowTotals>& totals) const;

private:
    std::span<const RowTask> tasks_;
    int workers_;
    double divisor_;
    bool has_noise_;
    std::vector<Task> plans_;
    std::vector<ReducedRow> rows_;
    std::vector<HopInstruction> instructions_;
    std::uint64_t lane_doubles_ = 0, slots_ = 0, draw_doubles_ = 0, result_doubles_ = 0,
                  most_rows_ = 0;
    bool wants_moments_ = false;
};

}  // namespace apscope::detail
