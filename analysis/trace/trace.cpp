#include "analysis/trace/trace.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <tuple>

#include "analysis/trace/one_line.h"
#include "analysis/trace/trace_manifest.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/sizes.h"

namespace apscope::detail {
namespace {

namespace fs = std::filesystem;

// The number of files that stay open for the next read; views keep their files mapped for longer.
// More files stay open if their total size is small, because opening and parsing them again would
// be most of the work.
constexpr std::size_t open_files = 256, small_together = std::size_t{8} << 20;

// Identifies a file of a trace: step index, kind, worker.
using FileKey = std::tuple<std::size_t, Kind, int>;

// Closes the least recently used file first. Safe to call from several threads.
class FileCache {
public:
    template <class Path>
    std::shared_ptr<const SafetensorsFile> open(const FileKey& key, Path&& path) {
        {
            const std::lock_guard lock(mutex_);
            if (const auto match = index_.find(key); match != index_.end()) {
                order_.splice(order_.begin(), order_, match->second);
                return order_.front().second;
            }
        }
        auto file =
            SafetensorsFile::open(path(), &headers_,
                                  known(key));  // outside the lock, because it reads and parses
        const std::lock_guard lock(mutex_);
        opened_.try_emplace(key, file->path(), file->state());
        if (const auto match = index_.find(key); match != index_.end())
            return match->second->second;
        order_.emplace_front(key, file);
        index_[key] = order_.begin();
        bytes_ += file->length();
        while (order_.size() > open_files && bytes_ > small_together) {
            bytes_ -= order_.back().second->length();
            index_.erase(order_.back().first);
            order_.pop_back();
        }
        return file;
    }

    // Throws std::invalid_argument unless every opened file is unchanged.
    void check_unchanged() {
        const std::lock_guard lock(mutex_);
        for (const auto& [key, file] : opened_) check_file_unchanged(file.first, *file.second);
    }

private:
    using Order = std::list<std::pair<FileKey, std::shared_ptr<const SafetensorsFile>>>;
    std::shared_ptr<FileState> known(const FileKey& key) {
        const std::lock_guard lock(mutex_);
        const auto match = opened_.find(key);
        return match == opened_.end() ? nullptr : match->second.second;
    }
    std::mutex mutex_;
    // All opened files, including closed ones.
    std::map<FileKey, std::pair<fs::path, std::shared_ptr<FileState>>> opened_;
    Order order_;
    std::map<FileKey, Order::iterator> index_;
    std::size_t bytes_ = 0;
    SafetensorsHeaders headers_;
};

std::string read_whole(const fs::path& path) {
    std::error_code unknown;
    if (const auto size = fs::file_size(path, unknown); !unknown && size > limits::manifest_length)
        throw error(one_line(path.string()) + " has " + std::to_string(size) +
                        " bytes; a manifest has at most " + std::to_string(limits::manifest_length),
                    ErrorKind::unreadable_file);
    std::ifstream stream(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    if (!stream)
        throw error(one_line(path.string()) + " cannot be read", ErrorKind::unreadable_file);
    return bytes;
}

void check_shape(const SafetensorsFile& file, const TensorInfo& tensor,
                 const std::vector<std::int64_t>& shape) {
    if (shape != tensor.shape)
        throw error(one_line(file.path().string()) + ": tensor '" +
                        one_line(limits::clipped(tensor.name)) + "' has shape " +
                        shape_text(shape) + ", but the manifest says " + shape_text(tensor.shape),
                    ErrorKind::unreadable_file);
}

bool per_step(Kind kind) { return kind == Kind::weights || kind == Kind::full_batch; }
bool of_layers(Kind kind) { return kind == Kind::activation_gradient || kind == Kind::layer_input; }
std::string prefix_of(Kind kind) {
    return of_layers(kind) ? std::string(to_string(kind)) + "/" : "";
}

}  // namespace

struct Trace::State {
    fs::path folder;
    std::string manifest_bytes;
    Manifest manifest;
    FileCache files;

    const FileInfo* file(std::size_t step_index, Kind kind, int worker) const {
        const std::string name = file_name(kind, worker);
        for (const auto& file : manifest.steps.at(step_index).files)
            if (file.name == name) return &file;
        return nullptr;
    }
    std::shared_ptr<const SafetensorsFile> open(std::size_t step_index, Kind kind, int worker) {
        const FileKey key{step_index, of_layers(kind) ? Kind::activation_gradient : kind,
                          per_step(kind) ? 0 : worker};
        return files.open(key, [&] {
            return folder / step_folder(manifest.steps[step_index].number) /
                   file_name(kind, worker);
        });
    }
    TensorView read_tensor(std::size_t step_index, const TensorInfo& tensor, int worker,
                           Kind kind) {
        const auto file = open(step_index, kind, worker);
        TensorView view = file->read(tensor.name);
        check_shape(*file, tensor, view.shape);
        return view;
    }
};

Trace Trace::open(const fs::path& folder, bool arriving) {
    const fs::path manifest_path = folder / "manifest.json";
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored))
        throw error(one_line(folder.string()) +
                        " is not a trace: a trace is a folder with a manifest.json",
                    ErrorKind::missing_file);
    if (!fs::is_regular_file(manifest_path, ignored))
        throw error(one_line(folder.string()) + " is not a trace: it has no manifest.json",
                    ErrorKind::missing_file);

    Trace trace;
    trace.state_ = std::make_shared<State>();
    State& state = *trace.state_;
    state.folder = folder;
    state.manifest_bytes = read_whole(manifest_path);
    state.manifest = parse_manifest(state.manifest_bytes, manifest_path);
    if (arriving) return trace;
    for (const auto& step : state.manifest.steps) {
        for (const auto& file : step.files) {
            const fs::path path = folder / step_folder(step.number) / file.name;
            std::error_code unknown;
            const auto bytes = fs::file_size(path, unknown);
            if (unknown)
                throw error(one_line(path.string()) + " is missing, but the manifest lists it",
                            ErrorKind::missing_file);
            if (bytes != file.bytes)
                throw error(one_line(path.string()) +
                                (bytes < file.bytes ? " is truncated: it" : "") + " has " +
                                std::to_string(bytes) + " bytes, but the manifest says " +
                                std::to_string(file.bytes),
                            ErrorKind::unreadable_file);
        }
    }
    return trace;
}

const Manifest& Trace::manifest() const { return state_->manifest; }
const fs::path& Trace::path() const { return state_->folder; }
const std::string& Trace::manifest_bytes() const { return state_->manifest_bytes; }

TensorView Trace::gradient(std::size_t step_index, std::size_t tensor_index, int worker) const {
    const Manifest& manifest = state_->manifest;
    if (step_index >= manifest.steps.size() || tensor_index >= manifest.tensors.size() ||
        worker < 0 || worker >= manifest.workers)
        throw std::out_of_range("no such step, tensor or worker in " +
                                one_line(state_->folder.string()));
    return state_->read_tensor(step_index, manifest.tensors[tensor_index], worker, Kind::gradient);
}

TensorView Trace::read(std::int64_t step_number, const std::string& name, int worker,
                       Kind kind) const {
    const Manifest& manifest = state_->manifest;
    const std::string where = one_line(state_->folder.string()) + ": ";
    const auto step = std::find_if(manifest.steps.begin(), manifest.steps.end(),
                                   [&](const StepInfo& s) { return s.number == step_number; });
    if (step == manifest.steps.end()) {
        std::string range = "it has none";
        if (manifest.steps.size() == 1)
            range = "its one step is " + std::to_string(manifest.steps.front().number);
        else if (!manifest.steps.empty())
            range = "its " + std::to_string(manifest.steps.size()) + " steps lie between " +
                    std::to_string(manifest.steps.front().number) + " and " +
                    std::to_string(manifest.steps.back().number);
        throw std::invalid_argument(where + "step " + std::to_string(step_number) +
                                    " was not recorded; " + range);
    }
    if (!per_step(kind) && (worker < 0 || worker >= manifest.workers))
        throw std::invalid_argument(where + "no worker " + std::to_string(worker) +
                                    "; the trace has workers 0 to " +
                                    std::to_string(manifest.workers - 1));
    const auto step_index = static_cast<std::size_t>(step - manifest.steps.begin());
    if (!state_->file(step_index, kind, worker))
        throw std::invalid_argument(where + std::string(to_string(kind)) +
                                    " was not recorded at step " + std::to_string(step_number));
    const auto file = state_->open(step_index, kind, worker);
    check_file_unchanged(file->path(), *file->state());
    if (of_layers(kind)) {
        const std::string layer = prefix_of(kind) + name;
        if (!file->entries().contains(layer))
            throw error(one_line(file->path().string() + ": no tensor '" + limits::clipped(layer) +
                                 "' in this file"));
        return file->read(layer);
    }
    const auto tensor = std::find_if(manifest.tensors.begin(), manifest.tensors.end(),
                                     [&](const TensorInfo& t) { return t.name == name; });
    if (tensor == manifest.tensors.end())
        throw std::invalid_argument(where + "no tensor '" + one_line(limits::clipped(name)) +
                                    "' in the manifest");
    return state_->read_tensor(step_index, *tensor, worker, kind);
}

void Trace::check_unchanged() const { state_->files.check_unchanged(); }

void Trace::check_shapes(std::size_t step_index, std::span<const std::size_t> tensors) const {
    const auto place = state_->folder / step_folder(state_->manifest.steps.at(step_index).number) /
                       file_name(Kind::gradient, 0);
    if (std::error_code unknown; !fs::exists(place, unknown))
        return;  // the trace is being fetched: the file is missing so far, or not requested
    const auto file = state_->open(step_index, Kind::gradient, 0);
    for (const std::size_t tensor : tensors) {
        const TensorInfo& info = state_->manifest.tensors.at(tensor);
        const auto match = file->entries().find(info.name);
        if (match != file->entries().end()) check_shape(*file, info, match->second.shape);
    }
}

bool Trace::has(std::size_t step_index, Kind kind) const {
    if (!of_layers(kind)) return state_->file(step_index, kind, 0) != nullptr;
    return !names(step_index, kind).empty();
}

std::vector<std::string> Trace::names(std::size_t step_index, Kind kind) const {
    std::vector<std::string> result;
    if (!state_->file(step_index, kind, 0)) return result;
    const std::string prefix = prefix_of(kind);
    for (const auto& [name, entry] : state_->open(step_index, kind, 0)->entries())
        if (name.starts_with(prefix)) result.push_back(name.substr(prefix.size()));
    return result;
}

}  // namespace apscope::detail
