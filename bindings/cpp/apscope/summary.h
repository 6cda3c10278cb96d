// The types that the functions of Results return: summaries, comparisons, pools and modelled times
// of the rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost.h"
#include "export.h"

namespace apscope {

/// @addtogroup summary Summaries
/// @{

/// Options of a summary.
struct SummaryOptions {
    Network network = {};  ///< network of the modelled times
    /// The modelled times are those of a model with this many parameters: one factor scales all
    /// tensors of the trace. None: sizes as recorded.
    std::optional<double> elements = 25.6e6;
    double batch_factor = 1;  ///< the noise is that of a batch larger by this factor
    /// The optimizer of `SummaryRow::update_loss`: `sgd`, `adam` or `lars`; by default that of the
    /// replay, otherwise that of the trace's metadata, if it is one of these.
    std::optional<std::string> optimizer = {};
};

/// Errors added up over windows of consecutive steps: docs/definitions.md, section 16.
struct Persistence {
    int steps = 0;  ///< steps of a window
    /// `pooled` is the squared sums of the errors divided by the sums of the noise, over all
    /// windows and layers; `low` and `high` are the ends of its 95 % interval over the windows.
    /// `typical` is the geometric mean of this quotient over blocks of 32 elements. NaN without
    /// windows of this length or if the noise is unknown.
    double pooled = 0, low = 0, high = 0, typical = 0;
};

/// How far an exchange turns an optimizer's update over a window of consecutive steps
/// (docs/definitions.md, section 16). `loss` is 1 - the cosine between the updates with the
/// exchange and with exact sums, as the mean over the windows; `low` and `high` are the ends of its
/// 95 % interval over the windows. NaN without windows of this length or without an optimizer.
struct UpdateLoss {
    int steps = 0;  ///< steps of a window
    double loss = 0, low = 0, high = 0;
};

/// One scheme with one reduction order: docs/definitions.md, section 14. The figures are NaN if the
/// trace lacks inputs of the scheme.
struct SummaryRow {
    std::string scheme, family, format, topology;
    // summary_figures.inc describes every figure.
#define APSCOPE_FIGURE(name, unit, section, page, value, says) double name = 0;
#define APSCOPE_COUNT(name, unit, section, page, value, says) std::int64_t name = 0;
#include "analysis/summary/summary_figures.inc"
    /// Errors added up over 1, 3, 10 and 30 steps; computed with `ReplayOptions::persistence`.
    std::array<Persistence, 4> persistence = {};
    std::array<UpdateLoss, 3> update_loss = {};  ///< losses of updates over 3, 10 and 30 steps
    std::string worst_layer;  ///< the layer and step of `worst_nmse`; empty without one
    std::optional<std::int64_t> worst_step;
    double time = 0, speedup = 0;  ///< modelled seconds per step, and speedup over the fp32 ring
};

/// Options of a breakdown by layer, role or step.
struct BreakdownOptions {
    /// The topology of schemes without their own reduction; by default the first topology of the
    /// results that adds in a format.
    std::optional<std::string> topology = {};
    double batch_factor = 1;  ///< the noise is that of a batch larger by this factor
    std::optional<std::string> optimizer = {};  ///< as in SummaryOptions
};

/// One scheme in one layer, role or step. `time` and `speedup`, which refer to a whole step, are
/// NaN.
struct BreakdownRow {
    std::string part;  ///< the layer, role or number of the step
    SummaryRow summary;
};

/// The noise of the batch, of a group of layers and steps: docs/definitions.md, section 16.
struct NoiseFacts {
    std::vector<std::string> group;       ///< the cells of the columns of `by`, in its order
    std::int64_t workers = 0, steps = 0;  ///< number of workers, and of steps of the group
    /// Numbers of blocks of 32 elements over all layers and steps: all blocks, those in which the
    /// workers do not differ, and those in which only one worker adds noise.
    std::int64_t blocks = 0, blocks_without_noise = 0, lone_blocks = 0;
    double noise_ratio = 0;  ///< mean over the steps of the noise over the squared gradient
    double noise_scale = 0;  ///< gradient noise scale in batches of all workers
    /// Factors by which an error over this noise is multiplied to get the ends of its 95 %
    /// interval.
    double low = 0, high = 0;
};

/// The 0.975 quantile of Student's t with `freedom` degrees of freedom, for intervals of 95 %; NaN
/// below one degree of freedom.
[[nodiscard]] APSCOPE_API double student_t(double freedom);

/// One of the two schemes of a ComparisonRow.
struct ComparedScheme {
    std::string scheme, topology;
    double error_over_noise = 0;  ///< of the typical block; NaN if the noise is unknown
    double step_nmse = 0;         ///< mean over the steps
    double nmse = 0;              ///< pooled, infinite with overflow
    /// Shares of nonzero values that became 0, in the messages and in the sum.
    double underflow_wire = 0, underflow_reduced = 0;
    double cosine = 0;            ///< mean over layers and steps
    std::int64_t overflowed = 0;  ///< number of steps with overflow
    double accumulation = 0;      ///< share of the squared error that is due to rounding sums
    /// Shares of the parts of the squared error; NaN if a row has no split.
    double share_underflow = 0, share_rounding = 0, share_saturation = 0, share_accumulation = 0,
           share_interaction = 0;
};

/// Scheme a against scheme b in one layer, or in all: docs/definitions.md, section 14. A ratio
/// below 1, and a win, mean that a has the smaller error.
struct ComparisonRow {
    std::string layer;   ///< `all` for all layers
    bool whole = false;  ///< true for all layers; a single layer may also be named `all`
    std::int64_t steps = 0, wins = 0, losses = 0, ties = 0;
    double median_ratio = 0, worst_ratio = 0;  ///< median and largest ratio over the steps
    double geometric_ratio = 0;                ///< geometric mean over layers and steps
    ComparedScheme a, b;
};

/// A scheme of one Results against itself in another.
struct AgainstRow {
    std::string scheme;
    std::string held_by;  ///< the results with the scheme: `both`, `first` or `second`
    std::optional<ComparisonRow> compared;  ///< all layers together, if both have the scheme
};

/// Errors pooled by groups of rows: a row per group, in order of appearance.
struct APSCOPE_API PooledTable {
    std::vector<std::string> by;                   ///< columns that name a group
    std::vector<std::vector<std::string>> groups;  ///< per row, the cells of the columns in `by`
    std::vector<std::string> columns;  ///< columns of numbers: docs/definitions.md, section 14
    std::vector<std::vector<double>> values;  ///< per column, a number per row; NaN: empty

    [[nodiscard]] std::size_t size() const { return groups.size(); }  ///< number of rows
    /// One number.
    /// @throws std::out_of_range      There is no such row.
    /// @throws std::invalid_argument  There is no such column.
    [[nodiscard]] double number(std::size_t row, std::string_view column) const;
};

/// Options of modelled times.
struct StepTimeOptions {
    Network network = {};
    /// Number of parameters of the model; one factor scales all tensors of the trace. None: sizes
    /// as recorded.
    std::optional<double> elements = {};
    std::optional<double> bucket_bytes = {};  ///< fp32 bytes per message; 0: one message per tensor
    /// The way in which the values that workers agree on before encoding are sent: fused, bucket or
    /// delayed; docs/definitions.md, section 12.
    std::string side = "fused";
    std::string side_collective = "ring";  ///< collective of these values: ring, tree or halving
    std::string baseline = "ring";         ///< the topology of the fp32 all-reduce
};

/// Modelled time of one scheme with one reduction order, means over the steps:
/// docs/definitions.md, section 12. NaN for `exact`, which is not an algorithm.
struct StepTime {
    std::string scheme, topology;
    double messages = 0;  ///< messages, one after another
    /// Bytes that one worker sends between nodes, without `side_bytes`, and inside a node.
    double payload_bytes = 0, intra_bytes = 0;
    double node_bytes = 0;  ///< bytes that the busiest node sends to the others
    double side_bytes = 0;  ///< bytes of side information that one worker sends
    /// Seconds of the side information, seconds of passes over memory, and all seconds of a step.
    double side_seconds = 0, pass_seconds = 0, seconds = 0;
    double side_share = 0;                 ///< side_seconds / seconds
    double fp32_seconds = 0, speedup = 0;  ///< seconds of the fp32 baseline; fp32_seconds / seconds
};

/// @}

}  // namespace apscope
