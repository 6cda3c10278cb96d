// TraceWriter: records gradients as a trace, step by step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "export.h"
#include "formats.h"

namespace apscope {

/// @addtogroup trace Traces
/// @{

/// The entries of a trace's manifest that hold for all its steps.
struct TraceWriterOptions {
    int workers = 1;         ///< every worker records every tensor at every step
    std::string model = {};  ///< free text
    std::string name = {};   ///< the trace's name in reports; empty: the folder's name
    /// Where gradients are taken: `local`, before the all-reduce; `reduced`, after it; `clipped`,
    /// after clipping too. Only a local trace replays reductions.
    std::string stage = "local";
    std::string reduction = "mean";        ///< how training combines gradients: `mean` or `sum`
    bool loss_divided_by_workers = false;  ///< each worker's loss was divided by their number
    /// Tensor name -> role (conv, linear, attention, norm, bias, embedding, head, other). The roles
    /// of tensors that are not in the map are guessed from name and shape; the metadata then name
    /// these tensors.
    std::map<std::string, std::string> roles = {};
    std::map<std::string, std::string> metadata = {};  ///< free text about the recording
    /// Tensor name -> number of elements of the complete tensor, if only a sample of them is
    /// recorded.
    std::map<std::string, std::int64_t> sampled_from = {};
    /// Continues after the steps of an existing trace with the same workers, stage and reduction,
    /// whose tensors, metadata and `sampled_from` stay; `roles` are given again. Without a trace a
    /// new one begins.
    bool resume = false;
};

/// Facts about a step.
struct StepFacts {
    std::optional<double> loss = {};           ///< the mean over the workers, before the update
    std::optional<double> learning_rate = {};  ///< of this step's update
    std::optional<double> loss_scale = {};     ///< a factor that the recorded gradients still have
};

/// A file of one process for a step that is not yet committed.
struct TraceFile {
    std::string name;  ///< inside the step's folder, such as worker_0000.safetensors
    std::uint64_t bytes = 0;
    std::string sha256;
};

/// Writes a trace (docs/trace_format.md), which `open_trace` and the Python package read. The bytes
/// are those of `apscope.record.TraceWriter` in Python for the same arrays of fp32, fp16 or bf16,
/// if Python gets the metadata in ascending order of their keys.
///
/// A step is in the trace once end_step() returns: its files and then the manifest are on the disk.
/// A program that is killed leaves a readable trace of every complete step. One writer at a time
/// commits steps to a folder: it holds the folder's lock from the first commit to close().
///
/// Several processes may write one trace, each with a writer on the same folder: every process adds
/// the gradients of its workers and calls write_files(). One of the processes, which wrote
/// gradients itself, collects the results of all these calls, and passes them to commit().
///
/// Only one thread at a time may use a writer. A writer that was moved from throws
/// std::invalid_argument, until another is assigned to it.
class APSCOPE_API TraceWriter {
public:
    /// @param folder   The folder of the trace. It is made if it does not exist; without `resume`
    /// it
    ///                 must not have a trace.
    /// @param options  The entries of the manifest.
    /// @throws std::invalid_argument  An impossible option, a text that is not UTF-8, a file, a
    ///                                folder with a trace or, with `resume`, with one of other
    ///                                workers, stage or reduction, or whose manifest is damaged.
    /// @throws std::runtime_error     The folder cannot be made.
    explicit TraceWriter(const std::filesystem::path& folder, TraceWriterOptions options = {});
    ~TraceWriter();
    TraceWriter(TraceWriter&&) noexcept;
    TraceWriter& operator=(TraceWriter&&) noexcept;

    /// Copies one tensor of the current step. The first step fixes names, shapes and their order.
    /// @param step    The training step's number: larger than every committed one, and the same in
    ///                all calls until end_step() or write_files().
    /// @param worker  The rank, from 0; for `weights` and `full_batch`, which exist once per step,
    ///                all ranks have the same effect.
    /// @param name    The parameter's dotted name, UTF-8, at most 4096 bytes; for activations the
    ///                layer's.
    /// @param values  The numbers in C order.
    /// @param shape   The lengths of the axes, whose product is the number of values; `{}` is a
    ///                scalar.
    /// @param kind    `gradient`, `weights`, `full_batch`, `activation_gradient` or `layer_input`.
    /// @throws std::invalid_argument  Another step is open, or this one is committed; the tensor is
    ///                                added twice; an impossible worker, kind, name or shape; no
    ///                                sample of `sampled_from` elements.
    void add(std::int64_t step, int worker, std::string_view name, std::span<const float> values,
             const std::vector<std::int64_t>& shape, std::string_view kind = "gradient");
    /// Copies a gradient with one axis.
    void add(std::int64_t step, int worker, std::string_view name, std::span<const float> values);
    /// Copies one tensor of fp16 or bf16 numbers, which the trace stores as they are.
    /// @param step    Of the training, 0 or above.
    /// @param worker  From 0.
    /// @param name    Of the tensor.
    /// @param codes   The bit patterns, in C order.
    /// @param format  `format("fp16")` or `format("bf16")`.
    /// @param shape   Of the tensor.
    /// @param kind    What the numbers are.
    /// @throws std::invalid_argument  Another format; as for fp32 numbers.
    void add(std::int64_t step, int worker, std::string_view name,
             std::span<const std::uint16_t> codes, const FloatFormat& format,
             const std::vector<std::int64_t>& shape, std::string_view kind = "gradient");

    /// Writes the step and adds it to the trace.
    /// @throws std::invalid_argument  The gradients of a worker are missing, tensors or shapes
    ///                                differ from those of the first step, or another process
    ///                                records into the folder; nothing is committed then.
    /// @throws std::runtime_error     A file cannot be written. Unless committed() has the step, it
    ///                                keeps its tensors, so that end_step() may be called again.
    void end_step(std::int64_t step, const StepFacts& facts = {});

    /// Writes the values that were added for the step to files with hidden names.
    /// @returns the files, for the process that calls commit().
    /// @throws std::invalid_argument  Nothing was added, or other tensors or shapes than before.
    /// @throws std::runtime_error     A file cannot be written.
    std::vector<TraceFile> write_files(std::int64_t step);
    /// Adds a step to the trace.
    /// @param step   The step's number.
    /// @param files  The files that write_files() returned in all processes. Several of them may
    ///               have written `weights` or `full_batch`, with equal values.
    /// @param facts  Facts about the step.
    /// @throws std::invalid_argument  As end_step(); a file that no step has, or that is not in the
    ///                                folder; two files with one name and different bytes; this
    ///                                process wrote no gradients, so it does not know the tensors.
    void commit(std::int64_t step, std::vector<TraceFile> files, const StepFacts& facts = {});

    std::vector<std::int64_t> committed() const;  ///< the steps in the trace
    /// Drops a step that was not ended, and releases the folder's lock; files that killed processes
    /// left half-written are then removed. The destructor does the same.
    void close();

private:
    struct Data;
    Data& data() const;
    std::unique_ptr<Data> data_;
};

/// @}

}  // namespace apscope
