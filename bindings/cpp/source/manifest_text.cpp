#include "bindings/cpp/source/manifest_text.h"

#include <algorithm>
#include <cstddef>

#include "analysis/trace/guess_role.h"
#include "analysis/trace/trace_manifest.h"

namespace apscope {
namespace {

std::string list(const char* key, const std::vector<std::string>& lines) {
    std::string out = std::string(",\n \"") + key + "\": [\n  ";
    for (std::size_t i = 0; i < lines.size(); ++i) out += (i == 0 ? "" : ",\n  ") + lines[i];
    return out + "\n ]";
}

// The metadata's remark on roles that were not given; `all` is the number of tensors.
std::string remark(const std::vector<std::string>& guessed, std::size_t all) {
    constexpr std::size_t shown = 6;
    if (guessed.size() == all) return "all";
    std::string which = std::to_string(guessed.size()) + " of " + std::to_string(all) + ": ";
    for (std::size_t i = 0; i < std::min(shown, guessed.size()); ++i)
        which += (i == 0 ? "" : ", ") + guessed[i];
    return which + (guessed.size() > shown ? ", ..." : "");
}

}  // namespace

std::string manifest_head(const TraceWriterOptions& options, const Shapes& shapes, Json metadata) {
    std::vector<std::string> tensors, guessed;
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
        tensors.push_back(json_line(about));
    }
    if (!guessed.empty())
        metadata["roles_guessed_by_name_and_shape"] = remark(guessed, shapes.size());
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
    return out + list("tensors", tensors);
}

std::string manifest_text(const std::string& head, const std::vector<std::string>& steps) {
    return head + list("steps", steps) + "\n}\n";
}

}  // namespace apscope
