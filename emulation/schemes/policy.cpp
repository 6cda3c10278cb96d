#include "emulation/schemes/policy.h"

#include <charconv>
#include <limits>
#include <regex>
#include <stdexcept>

#include "emulation/schemes/spec_text.h"

namespace apscope::detail {

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

// A bound of steps:A:B, or what a missing one stands for.
std::int64_t bound(std::string_view text, std::int64_t missing, std::string_view condition) {
    if (text.empty()) return missing;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < 0) {
        refuse("condition '" + std::string(condition) + "' is not steps:A:B with step numbers, such as steps:0:500 or steps:500:");
    }
    return number;
}

bool holds(std::string_view condition, const PolicyTensor& tensor, std::int64_t step) {
    for (const std::string_view part : split_outside(condition, '&')) {
        bool ok = false;
        if (part == "else") ok = true;
        else if (part == "first") ok = tensor.first;
        else if (part == "last") ok = tensor.last;
        else if (part.starts_with("role:")) ok = tensor.role == part.substr(5);
        else if (part.starts_with("name:")) ok = std::regex_search(tensor.name, std::regex(std::string(part.substr(5))));
        else if (part.starts_with("steps:")) {
            const std::string_view range = part.substr(6);
            const std::size_t colon = range.find(':');
            if (colon == std::string_view::npos) bound("?", 0, part);
            ok = step >= bound(range.substr(0, colon), 0, part) &&
                 step < bound(range.substr(colon + 1), std::numeric_limits<std::int64_t>::max(), part);
        } else {
            refuse("unknown condition '" + std::string(part) + "'; use first, last, role:R, name:REGEX, steps:A:B or else");
        }
        if (!ok) return false;
    }
    return true;
}

std::string layer_of(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(0, dot);
}

}  // namespace

std::vector<PolicyTensor> policy_tensors(std::span<const std::string> names, std::span<const std::string> roles) {
    std::vector<PolicyTensor> tensors;
    std::string last;
    bool head = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
        tensors.push_back({names[i], roles[i], layer_of(names[i]) == layer_of(names[0]), false});
        if (roles[i] == "head" || (!head && roles[i] != "norm" && roles[i] != "bias")) last = layer_of(names[i]);
        head = head || roles[i] == "head";
    }
    for (PolicyTensor& t : tensors) t.last = layer_of(t.name) == last;
    return tensors;
}

std::vector<PolicyBranch> parse_policy(std::string_view body) {
    std::vector<PolicyBranch> policy;
    for (const std::string_view branch : split_outside(body, ';')) {
        const std::size_t equals = branch.find('=');
        if (equals == std::string_view::npos) {
            refuse("'" + std::string(branch) + "' is not CONDITION=SCHEME, as in hybrid(last=none:fp16;else=aps:e4m3)");
        }
        const std::string condition(branch.substr(0, equals));
        Scheme scheme = parse_scheme(branch.substr(equals + 1));
        if (!scheme.policy.empty()) refuse("a hybrid holds no other hybrid; write its branches into one");
        try {
            holds(condition, {}, 0);
            for (const std::string_view part : split_outside(condition, '&')) holds(part, {}, 0);
        } catch (const std::regex_error&) {
            refuse("condition '" + condition + "' holds no regular expression that could be read");
        }
        policy.push_back({condition, std::make_shared<const Scheme>(std::move(scheme))});
    }
    if (policy.back().condition != "else") {
        refuse("the last branch of a hybrid is else=SCHEME, so that every tensor has one; '" + policy.back().condition + "' is not");
    }
    return policy;
}

std::size_t branch_for(const std::vector<PolicyBranch>& policy, const PolicyTensor& tensor, std::int64_t step) {
    for (std::size_t i = 0; i < policy.size(); ++i) {
        if (holds(policy[i].condition, tensor, step)) return i;
    }
    throw std::logic_error("no branch of the policy holds");
}

}  // namespace apscope::detail
