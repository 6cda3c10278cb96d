// The effect of errors over several steps: how much of them does not average out, and how far they
// turn an optimizer's update (docs/definitions.md, sections 14 and 16).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/statistics/update_sums.h"
#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/figures.h"
#include "analysis/summary/optimizer.h"

namespace apscope::detail {

// A row of the table of persistence: the errors of one reduction of a tensor by a scheme, summed
// over a window of consecutive steps (analysis/statistics/error_windows.h).
struct WindowRow {
    // Codes of the texts in WindowTable.
    std::int32_t trace = 0, tensor = 0, scheme = 0, topology = 0;
    std::int64_t step = 0,     // number of the first step
        steps = 0;             // number of steps of the window
    double squared_error = 0,  // infinite with overflow
        noise = 0;             // NaN if unknown
    std::int64_t noise_blocks = 0;
    double log2_over_noise = 0;
    UpdateSums sgd, adam;
};

struct WindowTable {
    std::vector<WindowRow> rows;
    std::vector<std::string> traces, tensors, schemes, topologies;  // the texts of the codes
    std::vector<std::optional<Optimizer>> optimizers;               // by trace; none if unknown
};

// Adds columns for every length k of windows and every group of these rows, which has all steps of
// some layers: persistence_k, its interval over the windows (persistence_k_low, _high), and
// typical_persistence_k; NaN without windows of this length. `noise_factor` multiplies these
// columns. For k > 1 also adds update_loss_k and its interval, for `optimizer`, by default the
// trace's; NaN without an optimizer.
void add_persistence(Figures& figures, const RowTable& table, const ChosenRows& rows,
                     const Groups& groups, const WindowTable* windows, double noise_factor,
                     std::optional<Optimizer> optimizer);

// The names of the columns of `persistence` or `update_loss`, in order.
std::vector<std::string> window_columns(std::string_view figure);

}  // namespace apscope::detail
