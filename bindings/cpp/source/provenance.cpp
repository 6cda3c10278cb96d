#include "bindings/cpp/source/provenance.h"

#include <apscope/version.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace apscope {
namespace {

using Data = Results::Data;

// A word, in quotes if a shell's command line needs them.
std::string quoted(const std::string& word) {
    constexpr std::string_view safe =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
    if (!word.empty() && word.find_first_not_of(safe) == std::string::npos) return word;
    std::string out = "'";
    for (const char c : word) c == '\'' ? out += "'\"'\"'" : out += c;
    return out + "'";
}

std::string steps_text(const ReplayOptions& o) {
    const auto bound = [](const std::optional<std::int64_t>& number) {
        return number ? std::to_string(std::max<std::int64_t>(*number, 0)) : "";
    };
    if (o.steps.empty()) return bound(o.first_step) + ":" + bound(o.end_step);
    if (o.steps.size() == 1)
        return std::to_string(o.steps[0]) + ":" + std::to_string(o.steps[0] + 1);
    std::string text;
    for (const std::int64_t step : o.steps)
        text += (text.empty() ? "" : ",") + std::to_string(step);
    return text;
}

// The options of `apscope replay` that select a part of the trace, the seed and the number of
// draws.
std::vector<std::string> selection_of(const ReplayOptions& o) {
    std::vector<std::string> words;
    const auto add = [&](const char* option, const std::string& value) {
        words.insert(words.end(), {option, value});
    };
    if (o.workers) add("--workers", std::to_string(*o.workers));
    if (o.first_step || o.end_step || !o.steps.empty()) add("--steps", steps_text(o));
    if (!o.tensors.empty()) words.push_back("--tensors=" + o.tensors);
    add("--seed", std::to_string(o.seed));
    if (o.draws != 1) add("--draws", std::to_string(o.draws));
    return words;
}

std::string command_of(const Data& d) {
    std::vector<std::string> words{"apscope", "replay", d.source};
    for (const std::string& spec : d.schemes) words.insert(words.end(), {"--scheme", spec});
    for (const std::string& name : d.topologies) words.insert(words.end(), {"--topology", name});
    if (d.topologies.empty()) words.insert(words.end(), {"--topology", "exact"});
    for (const std::string& word : selection_of(d.options)) words.push_back(word);
    if (d.options.persistence) words.emplace_back("--persistence");
    if (d.options.optimizer) words.insert(words.end(), {"--optimizer", *d.options.optimizer});
    std::string command;
    for (const std::string& word : words) command += (command.empty() ? "" : " ") + quoted(word);
    return command;
}

Json described(const Data& d) {
    const auto number = [](const std::optional<double>& value) {
        return value ? Json(*value) : Json();
    };
    Json steps = Json::array(), losses = steps, rates = steps, tensors = steps;
    for (const std::size_t i : d.steps) {
        const detail::StepInfo& step = d.manifest.steps[i];
        steps.emplace_back(step.number);
        losses.push_back(number(step.loss));
        rates.push_back(number(step.learning_rate));
    }
    for (const std::size_t i : d.tensors) {
        const detail::TensorInfo& tensor = d.manifest.tensors[i];
        Json about{{"name", tensor.name}, {"role", tensor.role}, {"shape", tensor.shape}};
        if (tensor.sampled_from) about["sampled_from"] = *tensor.sampled_from;
        tensors.emplace_back(std::move(about));
    }
    Json about{{"name", d.trace},
               {"hash", d.hash},
               {"model", d.manifest.model},
               {"stage", d.manifest.stage},
               {"reduction", d.manifest.reduction},
               {"workers", d.workers}};
    if (const auto optimizer = d.windows.optimizers.at(0))
        about["optimizer"] = detail::optimizer_names[static_cast<std::size_t>(*optimizer)];
    about["steps"] = std::move(steps);
    about["loss"] = std::move(losses);
    about["learning_rate"] = std::move(rates);
    about["tensors"] = std::move(tensors);
    return about;
}

}  // namespace

std::string provenance(const Data& d, Json files) {
    const ReplayOptions& o = d.options;
    const std::string whole = command_of(d);
    const std::string shard =
        " --shard " + std::to_string(o.shard) + "/" + std::to_string(o.shards);
    return indented({{"command", whole + (o.shards > 1 ? shard : "")},
                     {"command_of_whole", whole},
                     {"version", APSCOPE_VERSION},
                     {"seed", o.seed},
                     {"draws", o.draws},
                     {"persistence", o.persistence},
                     {"schemes", d.schemes},
                     {"topologies", d.topologies},
                     {"selection", selection_of(o)},
                     {"shard", {o.shard, o.shards}},
                     {"traces", Json::array({described(d)})},
                     {"files", std::move(files)}}) +
           "\n";
}

}  // namespace apscope
