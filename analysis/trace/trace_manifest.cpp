#include "analysis/trace/trace_manifest.h"

#include <cstdio>
#include <initializer_list>
#include <limits>
#include <span>
#include <stdexcept>

#include "analysis/trace/one_line.h"
#include "analysis/trace/strict_json.h"
#include "core/error.h"
#include "core/limits.h"

namespace apscope::detail {
namespace {

using nlohmann::json;

// Reads one object of the manifest field by field; `where` begins every error message.
class Fields {
public:
    Fields(const json& object, std::string where, std::initializer_list<std::string_view> known)
        : object_(object), where_(std::move(where)) {
        if (!object.is_object()) refuse("must be an object");
        for (const auto& [key, value] : object.items()) {
            bool is_known = false;
            for (const auto name : known) is_known |= name == key;
            if (!is_known) refuse("has the unknown field '" + limits::clipped(key) + "'");
        }
    }
    [[noreturn]] void refuse(const std::string& what) const {
        throw error(one_line(where_ + " " + what), ErrorKind::unreadable_file);
    }
    bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }
    const json& at(const char* key) const {
        if (!has(key)) refuse(std::string("lacks the field '") + key + "'");
        return object_[key];
    }
    std::string text(const char* key) const {
        if (!at(key).is_string()) refuse_type(key, "a string");
        return at(key).get<std::string>();
    }
    std::string one_of(const char* key, std::span<const std::string_view> allowed) const {
        const std::string value = text(key);
        std::string list;
        for (const auto name : allowed) {
            if (value == name) return value;
            list += (list.empty() ? "" : ", ") + std::string(name);
        }
        refuse(std::string("has ") + key + " '" + limits::clipped(value) + "'; it must be one of " +
               list);
    }
    bool boolean(const char* key) const {
        if (!at(key).is_boolean()) refuse_type(key, "true or false");
        return at(key).get<bool>();
    }
    std::int64_t natural(const char* key) const {
        const json& value = at(key);
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
            refuse_type(key, "an integer of at least 0");
        return value.get<std::int64_t>();
    }
    // JSON has no NaN and no infinity; a diverged loss is written as a string.
    std::optional<double> number(const char* key) const {
        if (!has(key)) return std::nullopt;
        const json& value = at(key);
        if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
        if (value == "Infinity") return std::numeric_limits<double>::infinity();
        if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
        if (!value.is_number()) refuse_type(key, "a number");
        return value.get<double>();
    }
    const json& array(const char* key) const {
        if (!at(key).is_array()) refuse_type(key, "an array");
        return at(key);
    }

private:
    [[noreturn]] void refuse_type(const char* key, const char* what) const {
        refuse(std::string("has ") + key + " " + limits::clipped(at(key).dump()) + "; it must be " +
               what);
    }
    const json& object_;
    std::string where_;
};

TensorInfo parse_tensor(const json& object, const std::string& where) {
    const Fields fields(object, where, {"name", "shape", "role", "sampled_from"});
    TensorInfo tensor;
    tensor.name = fields.text("name");
    if (tensor.name.size() > limits::name_length)
        fields.refuse("has the name '" + limits::clipped(tensor.name) + "' of " +
                      std::to_string(tensor.name.size()) + " bytes; at most " +
                      std::to_string(limits::name_length) + " are read");
    tensor.role = fields.has("role") ? fields.text("role") : "other";
    std::uint64_t elements = 1;
    for (const auto& extent : fields.array("shape")) {
        const bool natural =
            extent.is_number_unsigned() && extent.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
        if (!natural || __builtin_mul_overflow(elements, extent.get<std::uint64_t>(), &elements))
            fields.refuse("has shape " + limits::clipped(object["shape"].dump()) +
                          "; it must be integers of at least 0");
        tensor.shape.push_back(extent.get<std::int64_t>());
    }
    if (fields.has("sampled_from")) {
        tensor.sampled_from = fields.natural("sampled_from");
        if (static_cast<std::uint64_t>(*tensor.sampled_from) < elements || elements == 0)
            fields.refuse("has sampled_from " + std::to_string(*tensor.sampled_from) +
                          "; a sample of it has " + std::to_string(elements) + " elements");
    }
    return tensor;
}

// `allowed` has the names of all files of a step.
StepInfo parse_step(const json& object, const std::string& where, int workers,
                    const std::set<std::string>& allowed) {
    const Fields fields(object, where, {"number", "loss", "learning_rate", "loss_scale", "files"});
    StepInfo step;
    step.number = fields.natural("number");
    step.loss = fields.number("loss");
    step.learning_rate = fields.number("learning_rate");
    step.loss_scale = fields.number("loss_scale");

    const json& files = fields.at("files");
    if (!files.is_object()) fields.refuse("has files that are not an object");
    for (const auto& [name, value] : files.items()) {
        const std::string file_where = where + ", file '" + name + "',";
        const Fields file_fields(value, file_where, {"bytes", "sha256"});
        if (!allowed.contains(name))
            file_fields.refuse("is not a file of a trace with " + std::to_string(workers) +
                               " workers");
        FileInfo file{name, static_cast<std::uint64_t>(file_fields.natural("bytes")),
                      file_fields.text("sha256")};
        if (!is_sha256(file.sha256))
            file_fields.refuse("has a sha256 that is not 64 lower-case hexadecimal digits");
        step.files.push_back(std::move(file));
    }
    for (int worker = 0; worker < workers; ++worker)
        if (!files.contains(file_name(Kind::gradient, worker)))
            fields.refuse("(number " + std::to_string(step.number) + ") lists no file '" +
                          file_name(Kind::gradient, worker) + "', but the trace has " +
                          std::to_string(workers) + (workers == 1 ? " worker" : " workers"));
    return step;
}

}  // namespace

std::size_t TensorInfo::size() const {
    std::size_t elements = 1;
    for (const auto extent : shape) elements *= static_cast<std::size_t>(extent);
    return elements;
}

std::size_t TensorInfo::whole_size() const {
    return sampled_from ? static_cast<std::size_t>(*sampled_from) : size();
}

double TensorInfo::stands_for() const {
    return sampled_from ? static_cast<double>(whole_size()) / static_cast<double>(size()) : 1.0;
}

std::string_view to_string(Kind kind) {
    switch (kind) {
        case Kind::gradient: return "gradient";
        case Kind::weights: return "weights";
        case Kind::full_batch: return "full_batch";
        case Kind::activation_gradient: return "activation_gradient";
        case Kind::layer_input: return "layer_input";
    }
    throw std::invalid_argument("no such kind of record");
}

Kind parse_kind(std::string_view name) {
    for (const Kind kind : {Kind::gradient, Kind::weights, Kind::full_batch,
                            Kind::activation_gradient, Kind::layer_input})
        if (to_string(kind) == name) return kind;
    throw std::invalid_argument(
        "unknown kind '" + std::string(name) +
        "'; it must be gradient, weights, full_batch, activation_gradient or layer_input");
}

std::string step_folder(std::int64_t number) {
    char text[40];
    std::snprintf(text, sizeof text, "step_%08lld", static_cast<long long>(number));
    return text;
}

std::string file_name(Kind kind, int worker) {
    char text[64];
    switch (kind) {
        case Kind::weights: return "weights.safetensors";
        case Kind::full_batch: return "full_batch.safetensors";
        case Kind::gradient:
            std::snprintf(text, sizeof text, "worker_%04d.safetensors", worker);
            break;
        default: std::snprintf(text, sizeof text, "activations_worker_%04d.safetensors", worker);
    }
    return text;
}

std::set<std::string> step_files(int workers) {
    std::set<std::string> names{file_name(Kind::weights, 0), file_name(Kind::full_batch, 0)};
    for (int worker = 0; worker < workers; ++worker) {
        names.insert(file_name(Kind::gradient, worker));
        names.insert(file_name(Kind::layer_input, worker));
    }
    return names;
}

bool is_sha256(std::string_view text) {
    return text.size() == 64 &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Manifest parse_manifest(std::string_view bytes, const std::filesystem::path& path) {
    const std::string where = one_line(path.string()) + ":";
    const json root = parse_strict_json(bytes, one_line(path.string()));
    // The version comes first: a later version may have new fields.
    if (root.is_object() && root.contains("schema_version") &&
        root["schema_version"] != trace_schema_version)
        throw error(where + " schema_version is " + limits::clipped(root["schema_version"].dump()) +
                        "; this apscope reads " + std::to_string(trace_schema_version),
                    ErrorKind::unsupported);
    const Fields fields(root, where + " the manifest",
                        {"schema_version", "name", "model", "stage", "reduction",
                         "loss_divided_by_workers", "workers", "metadata", "tensors", "steps"});
    Manifest manifest;
    manifest.schema_version = static_cast<int>(fields.natural("schema_version"));
    manifest.name = fields.has("name") ? fields.text("name") : "";
    if (manifest.name.empty())
        manifest.name = one_line(
            std::filesystem::absolute(path).lexically_normal().parent_path().filename().string());
    manifest.model = fields.has("model") ? fields.text("model") : "";
    manifest.stage = fields.one_of("stage", trace_stages);
    manifest.reduction = fields.one_of("reduction", trace_reductions);
    manifest.loss_divided_by_workers =
        fields.has("loss_divided_by_workers") && fields.boolean("loss_divided_by_workers");
    const std::int64_t workers = fields.natural("workers");
    if (workers < 1 || workers > limits::workers)
        fields.refuse("has workers " + std::to_string(workers) + "; it must be between 1 and " +
                      std::to_string(limits::workers));
    manifest.workers = static_cast<int>(workers);
    if (fields.has("metadata")) {
        if (!fields.at("metadata").is_object()) fields.refuse("has metadata that is not an object");
        for (const auto& [key, value] : fields.at("metadata").items()) {
            if (!value.is_string())
                fields.refuse("has metadata '" + limits::clipped(key) + "' that is not a string");
            manifest.metadata[key] = value.get<std::string>();
        }
    }

    std::set<std::string> seen;
    for (const auto& object : fields.array("tensors")) {
        manifest.tensors.push_back(parse_tensor(
            object, where + " tensors[" + std::to_string(manifest.tensors.size()) + "]"));
        if (!seen.insert(manifest.tensors.back().name).second)
            fields.refuse("names the tensor '" + limits::clipped(manifest.tensors.back().name) +
                          "' twice");
    }
    const json& steps = fields.array("steps");
    const std::set<std::string> files = step_files(steps.empty() ? 0 : manifest.workers);
    for (const auto& object : steps) {
        manifest.steps.push_back(
            parse_step(object, where + " steps[" + std::to_string(manifest.steps.size()) + "]",
                       manifest.workers, files));
        const auto n = manifest.steps.size();
        if (n > 1 && manifest.steps[n - 1].number <= manifest.steps[n - 2].number)
            fields.refuse("has step " + std::to_string(manifest.steps[n - 1].number) +
                          " after step " + std::to_string(manifest.steps[n - 2].number) +
                          "; numbers must ascend");
    }
    return manifest;
}

}  // namespace apscope::detail
