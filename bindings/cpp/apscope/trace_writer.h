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

namespace apscope {

/// @addtogroup trace Traces
/// @{

/// What a trace says about itself.
struct TraceWriterOptions {
    int workers = 1;         ///< every worker records every tensor at every step
    std::string model = {};  ///< free text
    std::string name = {};   ///< the trace's name in reports; empty: the folder's name
    /// Where gradients are taken: `local`, before the all-reduce; `reduced`, after it; `clipped`,
    /// after clipping too. Only a local trace replays reductions.
    std::string stage = "local";
    std::string reduction = "mean";  ///< how training combines the workers' gradients: or `sum`
    bool loss_divided_by_workers = false;  ///< each worker's loss was divided by their number
    /// Tensor name -> role (conv, linear, attention, norm, bias, embedding, head, other). The roles
    /// of other tensors are guessed from name and shape, which the metadata say.
    std::map<std::string, std::string> roles = {};
    std::map<std::string, std::string> metadata = {};  ///< how it was recorded; free text
    /// Tensor name -> the elements of the whole tensor, of which a sample is recorded.
    std::map<std::string, std::int64_t> sampled_from = {};
};

/// Facts about a step.
struct StepFacts {
    std::optional<double> loss = {};           ///< the mean over the workers, before the update
    std::optional<double> learning_rate = {};  ///< of this step's update
    std::optional<double> loss_scale = {};     ///< the factor still in the recorded gradients
};

/// A file of a step that was written, and is not yet in the trace.
struct TraceFile {
    std::string name;  ///< inside the step's folder, such as worker_0000.safetensors
    std::uint64_t bytes = 0;
    std::string sha256;
};

/// Writes a trace (docs/trace_format.md), which `open_trace` and the Python package read. The bytes
/// are those of `apscope.record.TraceWriter` in Python for the same fp32 arrays; metadata have the
/// order of their keys.
///
/// A step is in the trace once end_step() returns: its files and then the manifest are on the disk.
/// A program that is killed leaves a readable trace of every complete step. One writer at a time
/// commits steps to a folder: it holds the folder's lock from the first commit to close().
///
/// Several processes make one trace, each with a writer on the same folder: every process adds the
/// gradients of its workers and calls write_files(); one of them gets all files, and commits.
/// A writer is for one thread at a time. One that was moved from throws std::invalid_argument,
/// until another is assigned to it.
class APSCOPE_API TraceWriter {
public:
    /// @param folder   Made if it does not exist; must not have a trace.
    /// @param options  What the trace says about itself.
    /// @throws std::invalid_argument  An impossible option, a text that is not UTF-8, a folder with
    ///                                a trace.
    /// @throws std::runtime_error     The folder cannot be made.
    explicit TraceWriter(const std::filesystem::path& folder, TraceWriterOptions options = {});
    ~TraceWriter();
    TraceWriter(TraceWriter&&) noexcept;
    TraceWriter& operator=(TraceWriter&&) noexcept;

    /// Copies one tensor of the current step. The first step fixes names, shapes and their order.
    /// @param step    The training step's number: above every committed one, the same until
    ///                end_step().
    /// @param worker  The rank, from 0; ignored for `weights` and `full_batch`, which exist once
    /// per
    ///                step.
    /// @param name    The parameter's dotted name, UTF-8, at most 4096 bytes; for activations the
    ///                layer's.
    /// @param values  The numbers in C order.
    /// @param shape   Their product is the number of values; `{}` is a scalar.
    /// @param kind    `gradient`, `weights`, `full_batch`, `activation_gradient` or `layer_input`.
    /// @throws std::invalid_argument  Another step is open, or this one is committed; the tensor
    /// was
    ///                                added already; an impossible worker, kind, name or shape.
    void add(std::int64_t step, int worker, std::string_view name, std::span<const float> values,
             const std::vector<std::int64_t>& shape, std::string_view kind = "gradient");
    /// The same for an array with one axis.
    void add(std::int64_t step, int worker, std::string_view name, std::span<const float> values);

    /// Writes the step and adds it to the trace.
    /// @throws std::invalid_argument  The gradients of a worker are missing, tensors or shapes
    ///                                differ from the first ones, or another process records into
    ///                                the folder; nothing is committed then.
    /// @throws std::runtime_error     A file cannot be written.
    void end_step(std::int64_t step, const StepFacts& facts = {});

    /// Writes what was added for the step, under hidden names, for the process that commits.
    /// @throws std::invalid_argument  Nothing was added, or other tensors or shapes than before.
    /// @throws std::runtime_error     A file cannot be written.
    std::vector<TraceFile> write_files(std::int64_t step);
    /// Adds a step to the trace, of files that write_files() of all processes returned.
    /// @throws std::invalid_argument  As end_step(); a file that is not in the folder.
    void commit(std::int64_t step, std::vector<TraceFile> files, const StepFacts& facts = {});

    std::vector<std::int64_t> committed() const;  ///< the steps in the trace
    /// Drops a step that was not ended, and lets other writers into the folder. Called by the
    /// destructor.
    void close();

private:
    struct Data;
    Data& data() const;
    std::unique_ptr<Data> data_;
};

/// @}

}  // namespace apscope
