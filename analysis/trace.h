// A recorded gradient trace: a directory of safetensors files and a manifest that describes them.
//
// docs/trace_format.md is the full description. Opening reads the manifest and checks that every
// file it lists is there in full length; a file's own header is checked when it is first read.
// Nothing is copied: fp32 values are views of the memory-mapped files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/safetensors.h"

namespace apscope {

inline constexpr int trace_schema_version = 1;

struct TensorInfo {
    std::string name;
    std::vector<std::int64_t> shape;
    std::string role;  // conv, linear, attention, norm, bias, embedding, head or other
    std::size_t size() const;
};

struct FileInfo {
    std::string name;  // inside the step's folder
    std::uint64_t bytes = 0;
    std::string sha256;  // lower-case hexadecimal
};

struct StepInfo {
    std::int64_t number = 0;  // the training step, counted from 0
    std::optional<double> loss, learning_rate;
    std::optional<double> loss_scale;  // the factor still in the recorded gradients; empty: none
    std::vector<FileInfo> files;
};

struct Manifest {
    int schema_version = trace_schema_version;
    std::string name;   // the folder's name where the manifest gives none
    std::string model;  // free text
    std::vector<TensorInfo> tensors;
    std::vector<StepInfo> steps;  // by ascending number
    int workers = 0;
    std::string stage;      // "local", "reduced" or "clipped"
    std::string reduction;  // "sum" or "mean": what training did with the workers' gradients
    bool loss_divided_by_workers = false;
    std::map<std::string, std::string> metadata;  // how it was recorded; free text
};

// What may be recorded at a step. Weights and the full-batch gradient exist once a step, the
// others once a worker. Activations are named after layers, the others after tensors.
enum class Kind { gradient, weights, full_batch, activation_gradient, layer_input };
std::string_view to_string(Kind kind);
Kind parse_kind(std::string_view name);  // throws std::invalid_argument

class Trace {
public:
    // Throws std::invalid_argument with one sentence that names the file and the field.
    static Trace open(const std::filesystem::path& folder);

    const Manifest& manifest() const;
    const std::filesystem::path& path() const;
    // The manifest as read, byte for byte: its SHA-256 is the trace's hash.
    const std::string& manifest_bytes() const;

    // The local gradient of one worker, in the manifest's shape. Safe to call from several
    // threads. Throws std::out_of_range for an index beyond the manifest's.
    TensorView gradient(std::size_t step_index, std::size_t tensor_index, int worker) const;

    // Anything recorded; `worker` is ignored where the kind exists once a step. Throws
    // std::invalid_argument naming the step, the worker or the name that the trace lacks.
    TensorView read(std::int64_t step_number, const std::string& name, int worker,
                    Kind kind = Kind::gradient) const;

    bool has(std::size_t step_index, Kind kind) const;
    // The names under which `kind` was recorded by worker 0 at this step; empty where it was not.
    std::vector<std::string> names(std::size_t step_index, Kind kind) const;

private:
    struct State;  // the manifest and the open files, shared by copies of the trace
    std::shared_ptr<State> state_;
};

}  // namespace apscope
