#include "analysis/replay/selection.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/limits.h"
#include "core/nearest_names.h"
#include "emulation/schemes/shared/pattern.h"

namespace apscope::detail {

namespace {

void check_steps(const Manifest& manifest) {
    if (manifest.steps.empty())
        throw std::invalid_argument("trace '" + manifest.name +
                                    "' has no complete step, so there is nothing to replay");
}

std::string its_steps(const Manifest& manifest) {
    const std::size_t count = manifest.steps.size();
    const std::string first = std::to_string(manifest.steps.front().number);
    if (count == 1) return "; it has step " + first + " alone";
    return "; it has " + std::to_string(count) + " steps from " + first + " to " +
           std::to_string(manifest.steps.back().number);
}

// For an error message: similar names of tensors; if there are none, the first names.
std::string hint(const Manifest& manifest, std::string_view pattern) {
    constexpr std::size_t shown = 6;
    std::vector<std::string_view> names;
    for (const TensorInfo& tensor : manifest.tensors) names.push_back(tensor.name);
    if (std::string near = did_you_mean(pattern, names); !near.empty()) return near;
    std::string list = "; it has ";
    for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
        list += (i ? ", " : "") + limits::clipped(names[i]);
    if (names.size() > shown) list += " and " + std::to_string(names.size() - shown) + " more";
    return names.empty() ? list + "none" : list;
}

Pattern parsed(std::string_view pattern) {
    try {
        return Pattern(pattern);
    } catch (const std::invalid_argument& error) {
        throw std::invalid_argument("tensors " + std::string(error.what()));
    }
}

}  // namespace

std::vector<std::size_t> steps_between(const Manifest& manifest, std::optional<std::int64_t> first,
                                       std::optional<std::int64_t> end) {
    check_steps(manifest);
    const std::int64_t low = first.value_or(manifest.steps.front().number);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < manifest.steps.size(); ++i) {
        const std::int64_t number = manifest.steps[i].number;
        if (low <= number && (!end || number < *end)) chosen.push_back(i);
    }
    if (!chosen.empty()) return chosen;
    // The last step may be the largest int64; the number after it fits into a uint64.
    const std::string high =
        end ? std::to_string(*end)
            : std::to_string(static_cast<std::uint64_t>(manifest.steps.back().number) + 1);
    throw std::invalid_argument("no recorded step of trace '" + manifest.name + "' is in " +
                                std::to_string(low) + ":" + high + its_steps(manifest));
}

std::vector<std::size_t> steps_numbered(const Manifest& manifest,
                                        const std::vector<std::int64_t>& numbers) {
    check_steps(manifest);
    std::vector<std::size_t> chosen;
    for (const std::int64_t number : numbers) {
        const auto match = std::ranges::find(manifest.steps, number, &StepInfo::number);
        if (match == manifest.steps.end())
            throw std::invalid_argument("trace '" + manifest.name + "' has no step " +
                                        std::to_string(number) + its_steps(manifest));
        chosen.push_back(static_cast<std::size_t>(match - manifest.steps.begin()));
    }
    return chosen;
}

std::vector<std::size_t> tensors_matching(const Manifest& manifest, std::string_view pattern) {
    const Pattern expression = parsed(pattern);
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
        if (expression.found_in(manifest.tensors[i].name)) chosen.push_back(i);
    }
    if (chosen.empty())
        throw std::invalid_argument("tensors '" + limits::clipped(pattern) +
                                    "' matches no name in trace '" + manifest.name + "'" +
                                    hint(manifest, pattern));
    return chosen;
}

void check_shard(std::int64_t shard, std::int64_t shards) {
    if (shard < 0 || shard >= shards)
        throw std::invalid_argument("shard " + std::to_string(shard) + "/" +
                                    std::to_string(shards) +
                                    " does not exist; shards count from 0 to N-1");
}

}  // namespace apscope::detail
