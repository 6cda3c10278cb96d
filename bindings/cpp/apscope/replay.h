// Replay: recorded gradients through the schemes and reduction orders of training systems, and what that loses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "export.h"
#include "trace.h"

namespace apscope {

/// @addtogroup replay Replay
/// @{

/// What of a trace is replayed, and how.
struct ReplayOptions {
    /// Reduction orders; `exact` is always among the rows. The first is what summaries speak of.
    std::vector<std::string> topologies = {"ring", "tree", "hierarchical:4", "sequential"};
    std::optional<int> workers = {};            ///< ranks 0..workers-1; all without it
    std::optional<std::int64_t> first_step = {}, end_step = {};  ///< recorded steps, half open
    std::string tensors = {};                   ///< an ECMAScript regular expression that names are searched for; empty: all
    std::uint64_t seed = 0;                     ///< of all draws
    int threads = 0;                            ///< 0 takes all of the machine's; their number changes no bit
    std::size_t memory = 0;                     ///< bytes that tensors may take at once; 0: half of the machine's
    int draws = 1;                              ///< 3 or more sample what has no closed form
    std::size_t shard = 0, shards = 1;          ///< items shard, shard + shards, ...
    std::function<void(std::size_t done, std::size_t total)> progress = {};  ///< values visited so far
};

/// One scheme with one reduction order: docs/definitions.md, section 14. NaN where a scheme needs what the trace lacks.
struct SummaryRow {
    std::string scheme, family, format, topology;
    double error_over_noise = 0;  ///< typical block's squared error over the noise of the batch: what ranks; NaN for one worker
    double pooled_error_over_noise = 0;  ///< mean over the steps of the step's squared error over its noise
    double step_nmse = 0;       ///< mean over the steps of the step's NMSE: what ranks where the noise is not known
    double layer_cosine = 0;    ///< mean over layers and steps
    double worst_nmse = 0;      ///< the largest NMSE of one layer at one step, infinite with overflow
    std::string worst_layer;    ///< where that is, and when; empty without one
    std::optional<std::int64_t> worst_step;
    double nmse = 0;            ///< pooled over everything, infinite with overflow
    double relative_bias = 0;
    double expected_variance = 0;   ///< of the draws, over the mean squared reference
    double underflow_wire = 0, underflow_reduced = 0;  ///< shares of nonzero values that became 0
    double volume = 0;          ///< bytes of the busiest rank, of a hierarchy between its nodes, over those of an fp32 ring all-reduce
    std::int64_t skipped = 0, overflowed = 0;  ///< steps in which that happened
    std::int64_t nonfinite = 0;                ///< steps of the trace with gradients that are NaN or infinite, which are left out
};

/// What a column of Results holds.
enum class ColumnKind { text, integer, real, flag };

/// A column of Results.
struct Column {
    std::string_view name;
    ColumnKind kind;
};

/// What a replay found: one row a step, tensor, scheme, stage and topology, with the columns of docs/definitions.md,
/// section 3. Copies are cheap.
class APSCOPE_API Results {
public:
    std::size_t size() const;  ///< number of rows
    /// All columns, in the order of results.csv.
    static std::span<const Column> columns();

    /// One number; NaN where it is empty, 1 and 0 for a flag.
    /// @throws std::out_of_range      There is no such row.
    /// @throws std::invalid_argument  There is no such column of numbers.
    double number(std::size_t row, std::string_view column) const;
    /// One text.
    /// @throws std::out_of_range      There is no such row.
    /// @throws std::invalid_argument  There is no such column of text.
    std::string_view text(std::size_t row, std::string_view column) const;
    /// A whole column of numbers, and one of texts.
    /// @throws std::invalid_argument  There is no such column.
    std::vector<double> numbers(std::string_view column) const;
    std::vector<std::string_view> texts(std::string_view column) const;

    const std::string& trace() const;
    std::vector<std::int64_t> steps() const;       ///< that were replayed
    std::vector<std::string> tensors() const;
    std::vector<std::string> schemes() const;      ///< canonical specs, in the order of the request
    std::vector<std::string> topologies() const;

    /// Which scheme lost least: one row a scheme and topology, ranked: `exact`, an ideal, last; those without
    /// overflow first; then by `error_over_noise`, then by `step_nmse`.
    std::vector<SummaryRow> summary() const;

    struct Data;  // of the library's own
    explicit Results(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

private:
    std::shared_ptr<const Data> data_;
};

/// Puts recorded gradients through schemes, and compares with what was recorded. Rows are those of `apscope.replay` in
/// Python, bit for bit.
///
/// @param trace    The gradients.
/// @param schemes  Specs, such as `aps:e4m3`, `loss_scaling:e4m3,scale=best`; docs/schemes.md lists them.
/// @param options  What of the trace, in which reduction orders.
/// @throws std::invalid_argument  Unknown schemes, topologies, steps or tensors; more workers than recorded; a damaged
///                                trace.
APSCOPE_API Results replay(const Trace& trace, const std::vector<std::string>& schemes, const ReplayOptions& options = {});

/// @}

}  // namespace apscope
