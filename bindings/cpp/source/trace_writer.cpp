#include "bindings/cpp/apscope/trace_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "analysis/trace/guess_role.h"
#include "analysis/trace/trace_manifest.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/held.h"
#include "bindings/cpp/source/json_text.h"
#include "bindings/cpp/source/new_files.h"
#include "core/error.h"
#include "core/limits.h"

namespace apscope {
namespace {

namespace fs = std::filesystem;
using detail::Kind;
using Shape = std::vector<std::int64_t>;
using Shapes = std::vector<std::pair<std::string, Shape>>;

[[noreturn]] void refuse(const std::string& sentence, ErrorKind kind = ErrorKind::invalid_value) {
    throw error(sentence, kind);
}

std::string in_quotes(std::string_view name) { return "'" + detail::limits::clipped(name) + "'"; }

bool is_per_step(Kind kind) { return kind == Kind::weights || kind == Kind::full_batch; }

std::string text_of(const Shape& shape) {
    std::string text = "(";
    for (const std::int64_t axis : shape)
        text += (text.size() > 1 ? ", " : "") + std::to_string(axis);
    return text + (shape.size() == 1 ? ",)" : ")");
}

// True if a shape has this number of elements.
bool fills(std::size_t count, const Shape& shape) {
    const auto is_negative = [](std::int64_t axis) { return axis < 0; };
    if (std::ranges::any_of(shape, is_negative)) return false;
    if (count == 0) return std::ranges::count(shape, 0) > 0;
    for (const std::int64_t axis : shape) {
        if (axis == 0 || count % static_cast<std::size_t>(axis) != 0) return false;
        count /= static_cast<std::size_t>(axis);
    }
    return count == 1;
}

struct Tensor {
    std::string name;
    Shape shape;
    std::vector<float> values;
};

// The tensors of one kind that a worker has at a step; worker 0 if the kind exists once per step.
struct Group {
    Kind kind;
    int worker;
    std::vector<Tensor> tensors = {};

    Shapes shapes() const {
        Shapes all;
        for (const Tensor& tensor : tensors) all.emplace_back(tensor.name, tensor.shape);
        return all;
    }
};

const Shape* find(const Shapes& shapes, const std::string& name) {
    const auto found = std::ranges::find(shapes, name, &Shapes::value_type::first);
    return found == shapes.end() ? nullptr : &found->second;
}

void compare(const Shapes& found, const Shapes& expected, const std::string& where) {
    for (const auto& [name, shape] : expected) {
        const Shape* own = find(found, name);
        if (own == nullptr) refuse(where + " lacks the tensor " + in_quotes(name));
        if (*own != shape)
            refuse(where + ": tensor " + in_quotes(name) + " has shape " + text_of(*own) +
                   ", but had " + text_of(shape) + " before");
    }
    for (const auto& [name, shape] : found)
        if (find(expected, name) == nullptr)
            refuse(where + " has the tensor " + in_quotes(name) +
                   ", which the trace does not have");
}

void append_little(float value, std::string& out) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift & 0xff);
}

// A safetensors file: the length of its header, the header, padded to 8 bytes, and the values.
struct Content {
    std::string name;
    Json about;
    std::vector<std::pair<std::string, const Tensor*>> tensors = {};

    void write(std::ostream& out) const {
        Json::object_t header{{"__metadata__", about}};
        std::uint64_t end = 0;
        for (const auto& [key, tensor] : tensors) {
            const std::uint64_t begin = std::exchange(end, end + 4 * tensor->values.size());
            header.emplace_back(
                key,
                Json{{"dtype", "F32"}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}});
        }
        std::string text = Json(std::move(header)).dump(-1, ' ', true);
        text.append((8 - text.size() % 8) % 8, ' ');
        std::string bytes;
        for (int shift = 0; shift < 64; shift += 8)
            bytes += static_cast<char>(std::uint64_t{text.size()} >> shift & 0xff);
        out << bytes << text;
        for (const auto& [key, tensor] : tensors) {
            constexpr std::size_t some = 1 << 16;
            const std::span<const float> all = tensor->values;
            for (std::size_t first = 0; first < all.size(); first += some) {
                bytes.clear();
                for (const float value : all.subspan(first, std::min(some, all.size() - first)))
                    append_little(value, bytes);
                out << bytes;
            }
        }
    }
};

// The Python package's lock of a trace's manifest: a locked file whose text names the process that
// locked it.
class Lock {
public:
    explicit Lock(const fs::path& folder) : path_(folder / ".manifest.json.apscope-lock") {
        while (!try_lock(folder)) {}
        const std::string who = one_line(this_process("apscope::TraceWriter"));
        if (::ftruncate(file_, 0) != 0 || ::write(file_, who.data(), who.size()) < 0)
            errno = 0;  // the file is locked even if its text cannot be written
    }
    ~Lock() {
        if (is_held()) ::unlink(path_.c_str());
        ::close(file_);
    }
    // True if the path still names the locked file. If it names another, another process may have
    // locked that one.
    bool is_held() const {
        struct stat mine{}, there{};
        return ::fstat(file_, &mine) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
               mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

private:
    // Opens and locks the file. Returns false if its last holder removed it between these two.
    bool try_lock(const fs::path& folder) {
        file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (file_ < 0)
            throw std::runtime_error(folder.string() +
                                     " cannot be written: " + std::strerror(errno));
        const bool is_locked = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
        if (is_locked && is_held()) return true;
        ::close(file_);
        if (!is_locked)
            refuse("another process writes " + folder.string() +
                   "; wait for it, or record into a new folder");
        return false;
    }

    fs::path path_;
    int file_ = -1;
};

std::string waiting_name(const TraceFile& file) {
    return "." + file.name + ".apscope-" + file.sha256.substr(0, 8);
}

}  // namespace

struct TraceWriter::Data {
    fs::path folder;
    TraceWriterOptions options;
    std::optional<std::int64_t> step;
    std::vector<Group> pending;
    Shapes shapes;  // those of the first step
    // Per committed step, its number and its line of the manifest.
    std::vector<std::pair<std::int64_t, std::string>> committed;
    std::optional<Lock> lock;
    std::string written;  // the manifest that this writer wrote last; empty before the first

    fs::path place(std::int64_t number) const { return folder / detail::step_folder(number); }
    fs::path manifest() const { return folder / "manifest.json"; }
    std::int64_t last() const { return committed.empty() ? -1 : committed.back().first; }

    void hold() {
        if (lock && !lock->is_held())
            refuse(folder.string() + " was removed, or another process uses it now; record into a "
                                     "new folder");
        if (lock) return;
        lock.emplace(folder);
        std::ostringstream there;
        if (std::ifstream file(manifest(), std::ios::binary); file) there << file.rdbuf();
        if (there.str() != written) {
            lock.reset();
            refuse(folder.string() + " has a trace, which another process wrote; record into a "
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
    std::vector<TraceFile> write(std::int64_t number, bool at_once);
    void drop_step() {
        pending.clear();
        step.reset();
    }
    std::string text() const;
    std::vector<Content> contents(std::int64_t number) const;
};

std::vector<Content> TraceWriter::Data::contents(std::int64_t number) const {
    std::vector<Content> all;
    for (const Group& group : pending) {
        const std::string name = detail::file_name(group.kind, group.worker);
        auto at = std::ranges::find(all, name, &Content::name);
        if (at == all.end()) {
            Json about{{"step", std::to_string(number)}, {"stage", options.stage}};
            if (!is_per_step(group.kind)) about["worker"] = std::to_string(group.worker);
            at = all.insert(all.end(), {name, std::move(about)});
        }
        const bool is_layer =
            group.kind == Kind::activation_gradient || group.kind == Kind::layer_input;
        const std::string prefix = is_layer ? std::string(detail::to_string(group.kind)) + "/" : "";
        for (const Tensor& tensor : group.tensors)
            at->tensors.emplace_back(prefix + tensor.name, &tensor);
    }
    std::ranges::sort(all, {}, &Content::name);
    return all;
}

std::vector<TraceFile> TraceWriter::Data::write(std::int64_t number, bool at_once) {
    if (step != number) refuse("nothing was added for step " + std::to_string(number));
    const std::string at = " at step " + std::to_string(number);
    Shapes found;
    const auto check = [&](const Group& group, const std::string& what) {
        const Shapes own = group.shapes();
        compare(own, !shapes.empty() ? shapes : !found.empty() ? found : own, what + at);
        return own;
    };
    for (const Group& group : pending)
        if (group.kind == Kind::gradient)
            found = check(group, "worker " + std::to_string(group.worker));
    for (const Group& group : pending)
        if (is_per_step(group.kind)) check(group, std::string(detail::to_string(group.kind)));
    std::error_code error;
    fs::create_directory(place(number), error);
    if (error)
        throw std::runtime_error(place(number).string() + " cannot be made: " + error.message());
    std::vector<TraceFile> files;
    for (const Content& content : contents(number)) {
        const fs::path path = place(number) / content.name;
        const auto write_to = [&](std::ostream& out) { content.write(out); };
        const fs::path first = at_once ? path : place(number) / hidden_name(content.name);
        const NewFolder::Written written = put_file(first, write_to);
        files.push_back({content.name, written.bytes, written.sha256});
        if (!at_once) fs::rename(first, place(number) / waiting_name(files.back()));
    }
    if (shapes.empty()) shapes = found;
    return files;
}

// The manifest: one line per tensor and step.
std::string TraceWriter::Data::text() const {
    std::vector<std::string> tensors, steps, guessed;
    for (const auto& [name, shape] : shapes) {
        const auto given = options.roles.find(name);
        const bool guesses = given == options.roles.end();
        if (guesses) guessed.push_back(name);
        Json about{{"name", name},
                   {"shape", shape},
                   {"role",
                    guesses ? std::string(detail::guess_role(name, shape.size())) : given->second}};
        const auto whole = options.sampled_from.find(name);
        if (whole != options.sampled_from.end()) about["sampled_from"] = whole->second;
        tensors.push_back(one_line(about));
    }
    for (const auto& [number, line] : committed) steps.push_back(line);
    Json metadata = options.metadata;
    if (!guessed.empty()) {
        std::string which = "all";
        if (guessed.size() != shapes.size()) {
            which = std::to_string(guessed.size()) + " of " + std::to_string(shapes.size()) + ": ";
            constexpr std::size_t shown = 6;
            for (std::size_t i = 0; i < std::min(shown, guessed.size()); ++i)
                which += (i == 0 ? "" : ", ") + guessed[i];
            if (guessed.size() > shown) which += ", ...";
        }
        metadata.erase("roles_guessed_by_name_and_shape");  // the new entry is the last one
        metadata["roles_guessed_by_name_and_shape"] = which;
    }
    Json head{{"schema_version", detail::trace_schema_version}};
    if (!options.name.empty()) head["name"] = options.name;
    head["model"] = options.model;
    head["stage"] = options.stage;
    head["reduction"] = options.reduction;
    head["loss_divided_by_workers"] = options.loss_divided_by_workers;
    head["workers"] = options.workers;
    head["metadata"] = std::move(metadata);
    std::string out = indented(head);
    out.resize(out.size() - 2);  // without the end of the object
    const auto list = [&](const char* key, const std::vector<std::string>& rows) {
        out += std::string(",\n \"") + key + "\": [\n  ";
        for (std::size_t i = 0; i < rows.size(); ++i) out += (i == 0 ? "" : ",\n  ") + rows[i];
        out += "\n ]";
    };
    list("tensors", tensors);
    list("steps", steps);
    return out + "\n}\n";
}

TraceWriter::TraceWriter(const fs::path& folder, TraceWriterOptions options)
    : data_(std::make_unique<Data>()) {
    const auto one_of = [](const char* what, const std::string& value,
                           std::initializer_list<std::string_view> words) {
        if (std::ranges::find(words, value) != words.end()) return;
        std::string list;
        for (const std::string_view word : words)
            list += (list.empty() ? "'" : ", '") + std::string(word) + "'";
        refuse(std::string(what) + " is " + in_quotes(value) + "; it must be one of " + list);
    };
    if (options.workers < 1)
        refuse("workers is " + std::to_string(options.workers) + "; a trace has at least 1");
    one_of("stage", options.stage, {"local", "reduced", "clipped"});
    one_of("reduction", options.reduction, {"mean", "sum"});
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
    if (fs::exists(folder / "manifest.json"))
        refuse(folder.string() + " already has a trace; record into a new folder",
               ErrorKind::existing_file);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw std::runtime_error(folder.string() + " cannot be made: " + error.message());
    data_->folder = folder;
    data_->options = std::move(options);
}

TraceWriter::~TraceWriter() = default;
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;

TraceWriter::Data& TraceWriter::data() const { return held(data_, "TraceWriter"); }

void TraceWriter::add(std::int64_t step, int worker, std::string_view name,
                      std::span<const float> values, const Shape& shape,
                      std::string_view kind) try {
    const Kind what = detail::parse_kind(kind);
    Data& d = data();
    if (worker < 0 || worker >= d.options.workers)
        refuse("worker=" + std::to_string(worker) + " must be from 0 to " +
               std::to_string(d.options.workers - 1));
    if (d.step ? step != *d.step : step <= d.last()) {
        const std::string number = std::to_string(step);
        refuse(d.step ? "step " + std::to_string(*d.step) + " must be ended before step " + number +
                            " begins"
                      : "step " + number + " must be " + std::to_string(d.last() + 1) +
                            " or more; steps are recorded in ascending order");
    }
    check_utf8(name, "the name");
    if (name.size() > detail::limits::name_length)
        refuse("the name " + in_quotes(name) + " has " + std::to_string(name.size()) +
               " bytes; names in a trace have at most " +
               std::to_string(detail::limits::name_length));
    if (!fills(values.size(), shape))
        refuse("the tensor " + in_quotes(name) + " has " + std::to_string(values.size()) +
               " values, which do not fill the shape " + text_of(shape));
    const int rank = is_per_step(what) ? 0 : worker;
    const auto is_same = [&](const Group& g) { return g.kind == what && g.worker == rank; };
    auto group = std::ranges::find_if(d.pending, is_same);
    if (group == d.pending.end()) group = d.pending.insert(group, {what, rank});
    if (std::ranges::find(group->tensors, name, &Tensor::name) != group->tensors.end())
        refuse(std::string(kind) + " " + in_quotes(name) + " of step " + std::to_string(step) +
               ", worker " + std::to_string(worker) + ", was added twice");
    group->tensors.push_back({std::string(name), shape, {values.begin(), values.end()}});
    d.step = step;
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
    Data& d = data();
    d.hold();
    d.check_workers(step, [&](int worker) {
        return std::ranges::find(files, detail::file_name(Kind::gradient, worker),
                                 &TraceFile::name) != files.end();
    });
    if (step <= d.last())
        refuse("step " + std::to_string(step) + " is not above step " + std::to_string(d.last()) +
               ", the last committed one");
    if (d.shapes.empty())
        refuse("this process wrote no gradients into " + d.folder.string() +
               "; call commit in a process that called write_files for a worker");
    // Every rank may write weights and full_batch: equal files are one.
    const auto content = [](const TraceFile& f) { return std::tie(f.name, f.bytes, f.sha256); };
    std::ranges::sort(files, {}, content);
    const auto repeated = std::ranges::unique(files, {}, content);
    files.erase(repeated.begin(), repeated.end());
    const auto differs = std::ranges::adjacent_find(files, {}, &TraceFile::name);
    if (differs != files.end())
        refuse("two processes wrote different " + in_quotes(differs->name) + " of step " +
               std::to_string(step) + "; let one process write it, or all the same values");
    Json listed, entry{{"number", step}};
    for (const TraceFile& file : files) {
        const fs::path path = d.place(step) / file.name;
        std::error_code error;
        // Fails if the file already has its final name; the length is checked next.
        fs::rename(d.place(step) / waiting_name(file), path, error);
        if (fs::file_size(path, error) != file.bytes || error)
            refuse(path.string() + " of " + std::to_string(file.bytes) +
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
    d.committed.emplace_back(step, one_line(entry));
    try {
        sync(d.place(step));
        sync(d.folder);
        std::string manifest = d.text();
        put_file(d.manifest(), [&](std::ostream& out) { out << manifest; });
        d.written = std::move(manifest);
        sync(d.folder);
    } catch (...) {
        d.committed.pop_back();  // the manifest on the disk does not have this step
        throw;
    }
}

void TraceWriter::end_step(std::int64_t step, const StepFacts& facts) {
    Data& d = data();
    d.check_workers(step, [&](int worker) {
        return std::ranges::any_of(d.pending, [&](const Group& group) {
            return group.kind == Kind::gradient && group.worker == worker;
        });
    });
    d.hold();
    commit(step, d.write(step, true), facts);
    d.drop_step();
}

std::vector<std::int64_t> TraceWriter::committed() const {
    std::vector<std::int64_t> steps;
    for (const auto& [number, line] : data().committed) steps.push_back(number);
    return steps;
}

void TraceWriter::close() {
    data().drop_step();
    data().lock.reset();
}

}  // namespace apscope
