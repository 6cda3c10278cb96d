// Replay: runs recorded gradients through the schemes and reduction orders of training systems.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "export.h"
#include "summary.h"
#include "trace.h"

namespace apscope {

/// @addtogroup replay Replay
/// @{

/// The selected part of a trace, and options of the replay.
struct ReplayOptions {
    /// Reduction orders; `exact` is always among the rows. Summaries use the first.
    std::vector<std::string> topologies = {"ring", "two_phase", "tree", "hierarchical:4",
                                           "sequential"};
    std::optional<int> workers = {};  ///< ranks 0..workers-1; by default all
    /// The recorded steps from first_step to end_step - 1; by default all.
    std::optional<std::int64_t> first_step = {}, end_step = {};
    /// The numbers of the recorded steps, in any order; empty: the range above. Schemes with memory
    /// keep it from one of these steps to the next.
    std::vector<std::int64_t> steps = {};
    /// A regular expression in RE2's syntax; tensors are selected if their names contain a match.
    /// Empty: all.
    std::string tensors = {};
    std::uint64_t seed = 0;  ///< seed of all draws
    int threads = 0;         ///< 0: all processors of the process; the number changes no bit
    std::size_t memory = 0;  ///< limit on the bytes of tensors; 0: half of the machine's memory
    int draws = 1;           ///< 3 or more: moments without a closed form are estimated from draws
    /// True: errors and updates are also added up over consecutive steps, for
    /// `SummaryRow::persistence` and `update_loss`; these sums count as memory.
    bool persistence = false;
    /// The optimizer of `SummaryRow::update_loss`, unless SummaryOptions names another.
    std::optional<std::string> optimizer = {};
    /// Divides a replay among `shards` processes: this one has every `shards`-th pair of a tensor
    /// and a step, beginning with pair `shard`; for schemes with memory every `shards`-th tensor.
    std::size_t shard = 0, shards = 1;
    /// Receives the number of values visited so far, and the number of all values to visit.
    std::function<void(std::size_t done, std::size_t total)> progress = {};
};

/// The type of a column of Results.
enum class ColumnKind { text, integer, real, flag };

/// A column of Results.
struct Column {
    std::string_view name;
    ColumnKind kind;
};

/// How results are written.
struct WriteOptions {
    /// True: results.csv is written, too; by default if there are at most 200,000 rows.
    std::optional<bool> csv = {};
    /// True: earlier results in the folder are replaced; files of other names stay.
    bool replace = false;
};

/// The results of a replay: one row per step, tensor, scheme, stage and topology, with the columns
/// of docs/definitions.md, section 3. Copies are cheap, and a move is a copy: Results that were
/// moved from still have their rows.
class APSCOPE_API Results {
public:
    Results(const Results&) = default;
    Results& operator=(const Results&) = default;

    [[nodiscard]] std::size_t size() const;  ///< number of rows
    /// All columns, in the order of results.csv.
    static std::span<const Column> columns();

    /// One number; NaN for an empty cell, 1 and 0 for a flag.
    /// @throws std::out_of_range      There is no such row.
    /// @throws std::invalid_argument  There is no such column of numbers.
    [[nodiscard]] double number(std::size_t row, std::string_view column) const;
    /// One text.
    /// @throws std::out_of_range      There is no such row.
    /// @throws std::invalid_argument  There is no such column of text.
    [[nodiscard]] std::string_view text(std::size_t row, std::string_view column) const&;
    std::string_view text(std::size_t row, std::string_view column) const&& = delete;
    /// A complete column of numbers, and one of texts. Texts are valid as long as a copy of these
    /// results exists; for a temporary object the function is therefore deleted.
    /// @throws std::invalid_argument  There is no such column.
    [[nodiscard]] std::vector<double> numbers(std::string_view column) const;
    [[nodiscard]] std::vector<std::string_view> texts(std::string_view column) const&;
    std::vector<std::string_view> texts(std::string_view column) const&& = delete;

    [[nodiscard]] const std::string& trace() const;
    [[nodiscard]] std::vector<std::int64_t> steps() const;  ///< replayed steps
    [[nodiscard]] std::vector<std::string> tensors() const;
    /// Canonical specs, in the order of the request.
    [[nodiscard]] std::vector<std::string> schemes() const;
    [[nodiscard]] std::vector<std::string> topologies() const;

    /// Schemes ranked by error, one row per scheme and topology. `exact`, an ideal, comes last.
    /// Schemes without gaps in their memory come before others; among equals, schemes without
    /// overflow come first, then schemes without lost layers. Ties are broken by `step_nmse`, then
    /// by `error_over_noise`.
    /// @throws std::invalid_argument  An impossible option.
    [[nodiscard]] std::vector<SummaryRow> summary(const SummaryOptions& options = {}) const;
    /// Scheme `a` against scheme `b`: a row for all layers, then one per layer.
    /// @param a,b       Specs, or `SPEC@TOPOLOGY` to choose the reduction, such as
    ///                  `aps:e3m4@two_phase` against `aps:e3m4@ring`.
    /// @param topology  The topology of a side that names none; by default the other side's,
    ///                  otherwise the first that both have and that is not `exact`. A scheme that
    ///                  has only its own reduction uses its own, except if `topology` is `exact`,
    ///                  or `wire`, which compares the messages before any sum.
    /// @throws std::invalid_argument  A scheme or topology that the results do not have, or schemes
    ///                                without a common topology.
    [[nodiscard]] std::vector<ComparisonRow> compare(
        std::string_view a, std::string_view b,
        std::optional<std::string_view> topology = {}) const;
    /// Scheme `a` against scheme `b` of other results, such as those of another seed, recording or
    /// version. Layers and steps that only one of the results has are omitted.
    /// @throws std::invalid_argument  As above; no layer and step in common.
    [[nodiscard]] std::vector<ComparisonRow> compare(
        std::string_view a, std::string_view b, const Results& other,
        std::optional<std::string_view> topology = {}) const;
    /// Every scheme against itself in other results, in the order of these results, then the
    /// schemes that only the others have.
    /// @throws std::invalid_argument  No layer and step in common.
    [[nodiscard]] std::vector<AgainstRow> against(
        const Results& other, std::optional<std::string_view> topology = {}) const;
    /// A summary by `layer`, `role` or `step`: schemes in the order of `summary`, layers in the
    /// trace's order, steps ascending.
    /// @throws std::invalid_argument  No such part or topology; an impossible option.
    [[nodiscard]] std::vector<BreakdownRow> by(std::string_view part,
                                               const BreakdownOptions& options = {}) const;
    /// The noise of the batch, independent of schemes; empty for one worker, or gradients that are
    /// not local.
    /// @param by            Some of trace, step, tensor, role.
    /// @param batch_factor  The noise is that of a batch larger by this factor.
    /// @throws std::invalid_argument  No such column; an impossible batch factor.
    std::vector<NoiseFacts> noise_facts(const std::vector<std::string>& by = {"trace"},
                                        double batch_factor = 1) const;
    /// Errors pooled over everything that is not in `by`: sums are added, then divided.
    /// @param by  Some of trace, step, tensor, role, scheme, format, topology, stage. Without
    ///            topology the pooled rows are those of the ranking; with it, the rows of all
    ///            topologies, each with all tensors. With stage or topology, wire rows are added.
    /// @throws std::invalid_argument  No such column; no `scheme` although there are several.
    [[nodiscard]] PooledTable pool(const std::vector<std::string>& by) const;
    /// Modelled seconds per step of every scheme and topology.
    /// @throws std::invalid_argument  An impossible option.
    [[nodiscard]] std::vector<StepTime> step_times(const StepTimeOptions& options = {}) const;

    /// Writes the folder of results that the commands `apscope report`, `summary`, `compare`,
    /// `merge` and `check` read, and `apscope.Results.open` in Python (docs/results_format.md).
    /// results.csv has the bytes that Python writes; the Parquet files have the same tables, but
    /// are not compressed. A new folder appears with all its files or not at all; while earlier
    /// results are replaced, every reader refuses the folder until all files are in their places,
    /// and an error restores the earlier ones. One process at a time, C++ or Python, writes a
    /// folder: it holds the folder's lock.
    /// @param folder   A new folder, or an empty one; its parent folders are made if necessary.
    /// @param options  Whether to write results.csv, and whether to replace earlier results.
    /// @throws std::invalid_argument  The folder has files, and `replace` is false, or it is no
    ///                                folder of results; another process writes it.
    /// @throws std::runtime_error     The folder cannot be written; the message says why.
    void write(const std::filesystem::path& folder, const WriteOptions& options = {}) const;
    /// Writes all rows as CSV: the bytes of results.csv.
    /// @throws std::runtime_error  Writing to the stream failed.
    void write_csv(std::ostream& out) const;

    struct Data;  // internal

private:
    friend APSCOPE_API Results replay(const Trace& trace, const std::vector<std::string>& schemes,
                                      const ReplayOptions& options);
    explicit Results(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
    std::shared_ptr<const Data> data_;
};

/// Runs recorded gradients through schemes, and compares the results with the recorded gradients.
/// Rows equal those of `apscope.replay` in Python, bit for bit.
///
/// @param trace    The gradients.
/// @param schemes  Specs, such as `aps:e4m3`, `loss_scaling:e4m3,scale=largest`; docs/schemes.md
///                 lists them.
/// @param options  The part of the trace, and the reduction orders.
/// @throws std::invalid_argument  Unknown schemes, topologies, steps or tensors; more workers than
///                                recorded; a damaged trace.
[[nodiscard]] APSCOPE_API Results replay(const Trace& trace,
                                         const std::vector<std::string>& schemes,
                                         const ReplayOptions& options = {});

/// @}

}  // namespace apscope
