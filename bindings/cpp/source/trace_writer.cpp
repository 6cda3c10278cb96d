#include "bindings/cpp/apscope/trace_writer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "analysis/trace/trace_manifest.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/held.h"
#include "bindings/cpp/source/hidden_names.h"
#include "bindings/cpp/source/json_text.h"
#include "bindings/cpp/source/lock.h"
#include "bindings/cpp/source/manifest_text.h"
#include "bindings/cpp/source/new_file.h"
#include "bindings/cpp/source/recorded_step.h"
#include "bindings/cpp/source/sentences.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/sizes.h"

namespace apscope {
namespace {

namespace fs = std::filesystem;
using detail::Kind;

[[noreturn]] void refuse(const std::string& sentence, ErrorKind kind = ErrorKind::invalid_value) {
    throw error(sentence, kind);
}

// The hidden name of a file before its commit.
std::string waiting_name(const std::string& name, const std::string& sha256) {
    return hidden_name(name, std::string_view(sha256).substr(0, 8));
}

}  // namespace

struct TraceWriter::Data {
    fs::path folder;
    TraceWriterOptions options;
    std::optional<std::int64_t> step;
    RecordedStep pending;
    Shapes shapes;     // those of the first step
    std::string head;  // the manifest without its steps; empty before the first
    std::vector<std::int64_t> committed;
    std::vector<std::string> lines;  // those of the committed steps in the manifest
    std::optional<Lock> lock;
    Json metadata;
    std::string written;  // the manifest that this writer read or wrote last; empty before it

    fs::path place(std::int64_t number) const { return folder / detail::step_folder(number); }
    fs::path manifest() const { return folder / "manifest.json"; }
    std::int64_t last() const { return committed.empty() ? -1 : committed.back(); }

    // The bytes of the manifest; empty if there is none.
    std::string read() const {
        std::ostringstream there;
        if (std::ifstream file(manifest(), std::ios::binary); file) there << file.rdbuf();
        return there.str();
    }
    void take_over();
    void hold() {
        if (lock && !lock->is_held())
            refuse(shown(folder) + " was removed, or another process uses it now; record into a "
                                   "new folder");
        if (lock) return;
        lock.emplace(folder / lock_name("manifest.json"), "apscope::TraceWriter", folder);
        if (read() != written) {
            lock.reset();
            refuse(shown(folder) + " has a trace, which another process wrote; record into a "
                                   "new folder",
                   ErrorKind::existing_file);
        }
    }
    void check_workers(std::int64_t number, const auto& is_there) const {
        for (int worker = 0; worker < options.workers; ++worker)
            if (!is_there(worker))
                refuse("step " + std::to_string(number) + " lacks the gradients of worker " +
                       std::to_string(worker) + " of " + std::to_string(options.workers));
    }
    void add(std::int64_t number, int worker, std::string_view name,
             std::span<const std::byte> bytes, std::string_view dtype, const Shape& shape,
             std::string_view kind);
    std::vector<TraceFile> write(std::int64_t number, bool at_once);
    void list(std::int64_t number, std::vector<TraceFile> files, const StepFacts& facts);
    void drop_step() {
        pending = {};
        step.reset();
    }
    void remove_left() const;
    void let_go() {
        // Other writers may wait for the process that commits.
        const bool commits = !head.empty();
        if (commits && lock && lock->is_held()) remove_left();
        lock.reset();
    }
    ~Data() { let_go(); }
};

// Continues the trace in the folder.
void TraceWriter::Data::take_over() {
    written = read();
    try {
        detail::parse_manifest(written, manifest());
    } catch (const std::invalid_argument& damaged) {
        refuse(std::string(damaged.what()) + "; record into a new folder",
               ErrorKind::unreadable_file);
    }
    const Json old = Json::parse(written);
    const auto compare = [&](const char* key, const Json& own) {
        const auto text = [](const Json& value) {
            return value.is_string() ? in_quotes(value.get<std::string>()) : json_line(value);
        };
        if (old[key] != own)
            refuse(shown(folder) + " has a trace with " + key + " " + text(old[key]) + ", not " +
                       text(own) + "; record into a new folder",
                   ErrorKind::existing_file);
    };
    compare("workers", options.workers);
    compare("stage", options.stage);
    compare("reduction", options.reduction);
    for (const Json& tensor : old["tensors"]) {
        const auto& [name, shape] =
            shapes.emplace_back(tensor["name"].get<std::string>(), tensor["shape"].get<Shape>());
        if (tensor.contains("sampled_from"))
            options.sampled_from[name] = tensor["sampled_from"].get<std::int64_t>();
    }
    Json all = old.value("metadata", Json::object());
    for (const auto& [key, text] : metadata.items()) all[key] = text;
    metadata = std::move(all);
    for (const Json& one : old["steps"]) {
        committed.push_back(one["number"].get<std::int64_t>());
        lines.push_back(json_line(one));
    }
}

// Removes the files that killed processes left under hidden names, and the folders of steps that
// then are empty.
void TraceWriter::Data::remove_left() const {
    const std::set<std::string> names = detail::step_files(options.workers);
    const auto remove_in = [](const fs::path& place, const auto& is_ours) {
        std::error_code ignored;
        for (const fs::directory_entry& entry : fs::directory_iterator(place, ignored)) {
            const std::string hidden = entry.path().filename().string();
            const std::size_t end = hidden.rfind(".apscope-");
            if (!hidden.starts_with('.') || end == std::string::npos || end == 0) continue;
            const std::string name = hidden.substr(1, end - 1);
            if (is_ours(name) && is_fresh_name(hidden, name)) fs::remove(entry.path(), ignored);
        }
    };
    remove_in(folder, [](const std::string& name) { return name == "manifest.json"; });
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with("step_") ||
            entry.symlink_status(ignored).type() != fs::file_type::directory)
            continue;
        remove_in(entry.path(), [&](const std::string& file) { return names.contains(file); });
        const bool listed = std::ranges::any_of(
            committed, [&](std::int64_t number) { return detail::step_folder(number) == name; });
        if (!listed) fs::remove(entry.path(), ignored);  // fails if there are files
    }
}

std::vector<TraceFile> TraceWriter::Data::write(std::int64_t number, bool at_once) {
    if (step != number) refuse("nothing was added for step " + std::to_string(number));
    Shapes found = pending.shapes(shapes, number);
    std::error_code error;
    fs::create_directory(place(number), error);
    if (error)
        throw std::runtime_error(shown(place(number)) + " cannot be made: " + error.message());
    std::vector<TraceFile> files;
    for (const auto& [name, content] : pending.files(number, options.stage)) {
        const auto hidden = [&](const Written& file) { return waiting_name(name, file.sha256); };
        const Written file = put_file(
            place(number) / name, [&](std::ostream& out) { content.write(out); },
            at_once ? std::function<std::string(const Written&)>() : hidden);
        files.push_back({name, file.bytes, file.sha256});
    }
    if (shapes.empty()) shapes = std::move(found);
    return files;
}

// Adds a step to the manifest. The manifest's name may not be on the disk yet.
void TraceWriter::Data::list(std::int64_t number, std::vector<TraceFile> files,
                             const StepFacts& facts) {
    const std::set<std::string> names = detail::step_files(options.workers);
    for (const TraceFile& file : files)
        if (!names.contains(file.name) || !detail::is_sha256(file.sha256))
            refuse(in_quotes(file.name) + " with the sha256 " + in_quotes(file.sha256) +
                   " is not a file of a trace with workers=" + std::to_string(options.workers) +
                   "; give what write_files returned");
    // Every rank may write weights and full_batch: equal files are one.
    const auto content = [](const TraceFile& f) { return std::tie(f.name, f.bytes, f.sha256); };
    std::ranges::sort(files, {}, content);
    const auto repeated = std::ranges::unique(files, {}, content);
    files.erase(repeated.begin(), repeated.end());
    check_workers(number, [&](int worker) {
        return std::ranges::binary_search(files, detail::file_name(Kind::gradient, worker), {},
                                          &TraceFile::name);
    });
    if (number <= last())
        refuse("step " + std::to_string(number) + " is not above step " + std::to_string(last()) +
               ", the last committed one");
    if (shapes.empty())
        refuse("this process wrote no gradients into " + shown(folder) +
               "; call commit in a process that called write_files for a worker");
    const auto differs = std::ranges::adjacent_find(files, {}, &TraceFile::name);
    if (differs != files.end())
        refuse("two processes wrote different " + in_quotes(differs->name) + " of step " +
               std::to_string(number) + "; let one process write it, or all the same values");
    Json listed, entry{{"number", number}};
    for (const TraceFile& file : files) {
        const fs::path path = place(number) / file.name;
        std::error_code error;
        // Fails if the file already has its final name; the length is checked next.
        fs::rename(place(number) / waiting_name(file.name, file.sha256), path, error);
        if (fs::file_size(path, error) != file.bytes || error)
            refuse(shown(path) + " of " + std::to_string(file.bytes) +
                       " bytes is missing; write_files writes it, into the same folder",
                   ErrorKind::missing_file);
        listed[file.name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
    }
    const std::pair<const char*, std::optional<double>> numbers[] = {
        {"loss", facts.loss},
        {"learning_rate", facts.learning_rate},
        {"loss_scale", facts.loss_scale}};
    for (const auto& [key, value] : numbers)
        if (value) entry[key] = *value;
    entry["files"] = std::move(listed);
    std::vector<std::string> all = lines;
    all.push_back(json_line(entry));
    if (head.empty()) head = manifest_head(options, shapes, metadata);
    std::string text = manifest_text(head, all);
    sync(place(number));
    sync(folder);
    put_file(manifest(), [&](std::ostream& out) { out << text; });
    written.swap(text);
    lines.swap(all);
    committed.push_back(number);
}

TraceWriter::TraceWriter(const fs::path& folder, TraceWriterOptions options)
    : data_(std::make_unique<Data>()) {
    const auto one_of = [](const char* what, const std::string& value,
                           std::span<const std::string_view> words) {
        if (std::ranges::find(words, value) != words.end()) return;
        std::string list;
        for (const std::string_view word : words)
            list += (list.empty() ? "" : ", ") + in_quotes(word);
        refuse(std::string(what) + " is " + in_quotes(value) + "; it must be one of " + list);
    };
    if (options.workers < 1 || options.workers > detail::limits::workers)
        refuse("workers is " + std::to_string(options.workers) + "; a trace has from 1 to " +
               std::to_string(detail::limits::workers));
    one_of("stage", options.stage, detail::trace_stages);
    one_of("reduction", options.reduction, detail::trace_reductions);
    check_utf8(options.model, "the model");
    check_utf8(options.name, "the name");
    for (const auto* texts : {&options.roles, &options.metadata}) {
        for (const auto& [key, value] : *texts) {
            check_utf8(key, "the key");
            check_utf8(value, "the text");
        }
    }
    for (const auto& [name, whole] : options.sampled_from)
        if (whole < 1)
            refuse("sampled_from of " + in_quotes(name) + " is " + std::to_string(whole) +
                   "; it must be at least 1");
    if (folder.empty()) refuse("the folder's name is empty; give a folder");
    std::error_code error;
    const fs::file_status there = fs::status(folder, error);
    if (fs::exists(there) && !fs::is_directory(there))
        refuse(shown(folder) + " is not a folder; give another name for the trace",
               ErrorKind::existing_file);
    const bool exists = fs::exists(folder / "manifest.json");
    if (exists && !options.resume)
        refuse(shown(folder) + " already has a trace; record into a new folder",
               ErrorKind::existing_file);
    fs::create_directories(folder, error);
    if (error) throw std::runtime_error(shown(folder) + " cannot be made: " + error.message());
    data_->folder = folder;
    data_->metadata = options.metadata;
    data_->options = std::move(options);
    if (exists) data_->take_over();
}

TraceWriter::~TraceWriter() = default;
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;

TraceWriter::Data& TraceWriter::data() const { return held(data_, "TraceWriter"); }

void TraceWriter::Data::add(std::int64_t number, int worker, std::string_view name,
                            std::span<const std::byte> bytes, std::string_view dtype,
                            const Shape& shape, std::string_view kind) {
    const Kind what = detail::parse_kind(kind);
    if (worker < 0 || worker >= options.workers)
        refuse("worker=" + std::to_string(worker) + " must be from 0 to " +
               std::to_string(options.workers - 1));
    if (step ? number != *step : number <= last()) {
        const std::string text = std::to_string(number);
        refuse(step ? "step " + std::to_string(*step) + " must be ended before step " + text +
                          " begins"
                    : "step " + text + " must be " + std::to_string(last() + 1) +
                          " or more; steps are recorded in ascending order");
    }
    check_utf8(name, "the name");
    if (name.size() > detail::limits::name_length)
        refuse("the name " + in_quotes(name) + " has " + std::to_string(name.size()) +
               " bytes; names in a trace have at most " +
               std::to_string(detail::limits::name_length));
    if (name == safetensors_metadata && !is_of_layers(what))
        refuse("the name " + in_quotes(name) +
               " is reserved in safetensors files for their metadata; give another name");
    const std::span<const std::int64_t> lengths = shape;
    const std::size_t count = bytes.size() / (dtype == "F32" ? 4 : 2);
    if (detail::checked_size(lengths, "the shape of " + in_quotes(name)) != count)
        refuse("the tensor " + in_quotes(name) + " has " + std::to_string(count) +
               " values, which do not fill the shape " + detail::shape_text(lengths));
    const auto whole = options.sampled_from.find(std::string(name));
    if (what == Kind::gradient && whole != options.sampled_from.end() &&
        (count == 0 || std::cmp_less(whole->second, count)))
        refuse("sampled_from of " + in_quotes(name) + " is " + std::to_string(whole->second) +
               ", but a sample of " + std::to_string(count) +
               " elements was added; a sample has from 1 to sampled_from elements");
    if (!pending.add(what, worker,
                     {std::string(name),
                      shape,
                      dtype,
                      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}}))
        refuse(std::string(kind) + " " + in_quotes(name) + " of step " + std::to_string(number) +
               ", worker " + std::to_string(worker) + ", was added twice");
    step = number;
}

void TraceWriter::add(std::int64_t step, int worker, std::string_view name,
                      std::span<const float> values, const Shape& shape,
                      std::string_view kind) try {
    data().add(step, worker, name, std::as_bytes(values), "F32", shape, kind);
} catch (...) {
    detail::throw_error();
}

void TraceWriter::add(std::int64_t step, int worker, std::string_view name,
                      std::span<const std::uint16_t> codes, const FloatFormat& format,
                      const Shape& shape, std::string_view kind) try {
    const bool is_fp16 = format == apscope::format("fp16");
    if (!is_fp16 && format != apscope::format("bf16"))
        refuse("the tensor " + in_quotes(name) + " has codes of " + format.name() +
               "; a trace stores fp16, bf16 and fp32, so decode them");
    data().add(step, worker, name, std::as_bytes(codes), is_fp16 ? "F16" : "BF16", shape, kind);
} catch (...) {
    detail::throw_error();
}

void TraceWriter::add(std::int64_t step, int worker, std::string_view name,
                      std::span<const float> values) {
    add(step, worker, name, values, {static_cast<std::int64_t>(values.size())});
}

std::vector<TraceFile> TraceWriter::write_files(std::int64_t step) {
    std::vector<TraceFile> files = data().write(step, false);
    data().drop_step();
    return files;
}

void TraceWriter::commit(std::int64_t step, std::vector<TraceFile> files, const StepFacts& facts) {
    data().hold();
    data().list(step, std::move(files), facts);
    sync(data().folder);
}

void TraceWriter::end_step(std::int64_t step, const StepFacts& facts) {
    Data& d = data();
    d.check_workers(step, [&](int worker) { return d.pending.has_gradients(worker); });
    d.hold();
    d.list(step, d.write(step, true), facts);
    d.drop_step();
    sync(d.folder);
}

std::vector<std::int64_t> TraceWriter::committed() const { return data().committed; }

void TraceWriter::close() {
    Data& d = data();
    d.drop_step();
    d.let_go();
}

}  // namespace apscope
