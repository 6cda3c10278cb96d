#include "emulation/schemes/policy.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/limits.h"
#include "core/parse.h"
#include "core/spec_text.h"
#include "emulation/schemes/scheme.h"
#include "emulation/schemes/shared/pattern.h"

namespace apscope::detail {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

using limits::clipped;
using Steps = std::pair<std::int64_t, std::int64_t>;  // first step and the step after the last

// A bound of steps:A:B; `missing` if the text is empty.
std::int64_t bound(std::string_view text, std::int64_t missing, std::string_view condition) {
    if (text.empty()) return missing;
    const auto number = parse_number<std::int64_t>(text);
    if (!number || *number < 0) {
        refuse("condition '" + clipped(condition) +
               "' is not steps:A:B with step numbers, such as steps:0:500 or steps:500:");
    }
    return *number;
}
Steps parse_steps(std::string_view part) {
    const std::string_view range = part.substr(6);
    const std::size_t colon = range.find(':');
    if (colon == std::string_view::npos) bound("?", 0, part);
    return {bound(range.substr(0, colon), 0, part),
            bound(range.substr(colon + 1), std::numeric_limits<std::int64_t>::max(), part)};
}

std::function<bool(const PolicyTensor&)> parse_part(std::string_view part) {
    if (part == "else") return [](const PolicyTensor&) { return true; };
    if (part == "first") return [](const PolicyTensor& tensor) { return tensor.first; };
    if (part == "last") return [](const PolicyTensor& tensor) { return tensor.last; };
    if (part.starts_with("role:")) {
        return [role = std::string(part.substr(5))](const PolicyTensor& tensor) {
            return tensor.role == role;
        };
    }
    if (part.starts_with("name:")) {
        return [pattern = Pattern(part.substr(5))](const PolicyTensor& tensor) {
            return pattern.found_in(tensor.name);
        };
    }
    refuse("unknown condition '" + clipped(part) +
           "'; use first, last, role:R, name:REGEX, steps:A:B or else");
}

std::string layer_of(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(0, dot);
}

}  // namespace

std::vector<PolicyTensor> policy_tensors(std::span<const std::string> names,
                                         std::span<const std::string> roles) {
    std::vector<PolicyTensor> tensors;
    std::string last;
    bool head = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
        tensors.push_back({names[i], roles[i], layer_of(names[i]) == layer_of(names[0]), false});
        if (roles[i] == "head" || (!head && roles[i] != "norm" && roles[i] != "bias"))
            last = layer_of(names[i]);
        head = head || roles[i] == "head";
    }
    for (PolicyTensor& t : tensors) t.last = layer_of(t.name) == last;
    return tensors;
}

Condition::Condition(std::string_view text) : text_(text) {
    for (const std::string_view part : split_outside(text, '&')) {
        if (!part.starts_with("steps:")) {
            parts_.push_back(parse_part(part));
            continue;
        }
        const auto [begin, end] = parse_steps(part);
        begin_ = std::max(begin_, begin);
        end_ = std::min(end_, end);
    }
}

bool Condition::holds(const PolicyTensor& tensor) const {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const auto& part) { return part(tensor); });
}

std::string Policy::text() const {
    std::string text;
    for (const PolicyBranch& b : branches)
        text += (text.empty() ? "" : ";") + b.condition.text() + "=" + b.scheme->spec;
    return text;
}

std::vector<std::size_t> Policy::branches_for(const PolicyTensor& tensor,
                                              std::span<const std::int64_t> steps) const {
    std::vector<std::size_t> holding;
    for (std::size_t i = 0; i < branches.size(); ++i) {
        if (branches[i].condition.holds(tensor)) holding.push_back(i);
    }
    std::vector<std::size_t> chosen;
    // The last branch is else, which has every step, also one that no range of steps can name.
    for (const std::int64_t step : steps) {
        const auto named = std::find_if(holding.begin(), holding.end(), [&](std::size_t i) {
            return branches[i].condition.names(step);
        });
        chosen.push_back(named != holding.end() ? *named : holding.back());
    }
    return chosen;
}

Policy parse_policy(std::string_view body, const std::function<Scheme(std::string_view)>& parse) {
    Policy policy;
    for (const std::string_view branch : split_outside(body, ';')) {
        const std::size_t equals = branch.find('=');
        if (equals == std::string_view::npos) {
            refuse("'" + clipped(branch) +
                   "' is not CONDITION=SCHEME, as in hybrid(last=none:fp16;else=aps:e4m3)");
        }
        Scheme scheme = parse(branch.substr(equals + 1));
        if (scheme.is_policy())
            refuse("a hybrid cannot contain a hybrid; write its branches into one");
        policy.branches.push_back({Condition(branch.substr(0, equals)),
                                   std::make_shared<const Scheme>(std::move(scheme))});
    }
    if (const std::string& last = policy.branches.back().condition.text(); last != "else") {
        refuse("the last branch of a hybrid must be else=SCHEME, for the other tensors; '" +
               clipped(last) + "' is not");
    }
    return policy;
}

}  // namespace apscope::detail
