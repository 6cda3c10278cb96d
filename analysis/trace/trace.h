// A recorded gradient trace: a directory of safetensors files and a manifest that describes them.
//
// docs/trace_format.md is the full description. Opening reads the manifest and checks that every
// file it lists exists with its full length; a file's header is checked when it is first read.
// Nothing is copied: fp32 values are views of the memory-mapped files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/safetensors.h"
#include "analysis/trace/trace_manifest.h"

namespace apscope::detail {

class Trace {
public:
    // Throws std::invalid_argument with one sentence that names the file and the field. `arriving`:
    // the files that the manifest lists need not exist before they are read.
    static Trace open(const std::filesystem::path& folder, bool arriving = false);

    const Manifest& manifest() const;
    const std::filesystem::path& path() const;
    // The bytes of the manifest as read: their SHA-256 is the trace's hash.
    const std::string& manifest_bytes() const;

    // The local gradient of one worker, in the manifest's shape. Safe to call from several
    // threads. Throws std::out_of_range for an index beyond the manifest's.
    TensorView gradient(std::size_t step_index, std::size_t tensor_index, int worker) const;

    // Any recorded tensor; `worker` is ignored if the kind exists once per step. Throws
    // std::invalid_argument, with the step, the worker or the name that the trace lacks.
    TensorView read(std::int64_t step_number, const std::string& name, int worker,
                    Kind kind = Kind::gradient) const;

    // Throws std::invalid_argument, naming the file, unless every file that was read is unchanged
    // since it was opened.
    void check_unchanged() const;
    // Throws std::invalid_argument, with both shapes, if the header of worker 0's file differs from
    // the manifest.
    void check_shapes(std::size_t step_index, std::span<const std::size_t> tensors) const;

    bool has(std::size_t step_index, Kind kind) const;
    // The names that worker 0 recorded as `kind` at this step; empty if there are none.
    std::vector<std::string> names(std::size_t step_index, Kind kind) const;

private:
    struct State;  // the manifest and the open files, shared by copies of the trace
    std::shared_ptr<State> state_;
};

}  // namespace apscope::detail
