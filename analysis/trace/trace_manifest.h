// manifest.json: its content, its checks, and the names of the files of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace apscope::detail {

inline constexpr int trace_schema_version = 1;
// Where gradients are taken, and how training combines those of the workers.
inline constexpr std::string_view trace_stages[] = {"local", "reduced", "clipped"};
inline constexpr std::string_view trace_reductions[] = {"mean", "sum"};

struct TensorInfo {
    std::string name;
    std::vector<std::int64_t> shape;
    std::string role;  // conv, linear, attention, norm, bias, embedding, head or other
    // Number of elements of the sampled tensor; empty: not a sample.
    std::optional<std::int64_t> sampled_from;
    std::size_t size() const;        // number of recorded elements
    std::size_t whole_size() const;  // number of elements of the complete tensor
    double stands_for() const;       // whole_size() / size()
};

struct FileInfo {
    std::string name;  // path inside the step's folder
    std::uint64_t bytes = 0;
    std::string sha256;  // lower-case hexadecimal
};

struct StepInfo {
    std::int64_t number = 0;  // the training step, counted from 0
    std::optional<double> loss, learning_rate;
    // The loss scale that the recorded gradients still contain; empty: none.
    std::optional<double> loss_scale;
    std::vector<FileInfo> files;
};

struct Manifest {
    int schema_version = trace_schema_version;
    std::string name;   // the folder's name if the manifest has none
    std::string model;  // free text
    std::vector<TensorInfo> tensors;
    std::vector<StepInfo> steps;  // by ascending number
    int workers = 0;
    std::string stage;      // "local", "reduced" or "clipped"
    std::string reduction;  // "sum" or "mean" of the workers' gradients, as training used it
    bool loss_divided_by_workers = false;
    std::map<std::string, std::string> metadata;  // about the recording; free text
};

// Kinds of records of a step. Weights and the full-batch gradient exist once per step, the others
// once per worker. Activations are named after layers, the others after tensors.
enum class Kind { gradient, weights, full_batch, activation_gradient, layer_input };
std::string_view to_string(Kind kind);
Kind parse_kind(std::string_view name);  // throws std::invalid_argument

// The names of a step's folder and of its files, such as "step_00000100" and
// "worker_0003.safetensors".
std::string step_folder(std::int64_t number);
std::string file_name(Kind kind, int worker);
std::set<std::string> step_files(int workers);  // all names that files of a step may have
bool is_sha256(std::string_view text);          // 64 lower-case hexadecimal digits

// Reads `bytes` (the manifest at `path`); throws std::invalid_argument with one sentence that
// names the file and the field. Unknown fields are refused: they may change the meaning of the
// rest.
Manifest parse_manifest(std::string_view bytes, const std::filesystem::path& path);

}  // namespace apscope::detail
