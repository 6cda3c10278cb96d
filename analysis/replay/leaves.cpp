#include "analysis/replay/leaves.h"

#include "emulation/schemes/policy.h"

namespace apscope::detail {

std::vector<Leaf> leaves_of(std::span<const Scheme> schemes, const Manifest& manifest, std::span<const std::size_t> steps,
                            std::span<const std::size_t> tensors) {
    std::vector<std::string> names, roles;
    for (const TensorInfo& t : manifest.tensors) {
        names.push_back(t.name);
        roles.push_back(t.role);
    }
    const std::vector<PolicyTensor> known = policy_tensors(names, roles);
    std::vector<Leaf> leaves;
    for (std::size_t s = 0; s < schemes.size(); ++s) {
        const std::vector<PolicyBranch>& policy = schemes[s].policy;
        if (policy.empty()) {
            leaves.push_back({&schemes[s], s, {}});
            continue;
        }
        const std::size_t first = leaves.size();
        for (const PolicyBranch& branch : policy) leaves.push_back({branch.scheme.get(), s, std::vector<char>(steps.size() * tensors.size())});
        for (std::size_t t = 0; t < steps.size(); ++t) {
            for (std::size_t k = 0; k < tensors.size(); ++k) {
                const std::size_t branch = branch_for(policy, known[tensors[k]], manifest.steps[steps[t]].number);
                leaves[first + branch].serves[t * tensors.size() + k] = 1;
            }
        }
    }
    return leaves;
}

SelectionInput seen_by(const Leaf& leaf, const SelectionInput& input) {
    SelectionInput seen = input;
    for (std::size_t item = 0; item < seen.statistics.size(); ++item) {
        if (!leaf.serves_item(item)) seen.statistics[item] = {0.0, 0, input.statistics[item].elements};
    }
    return seen;
}

std::string missing_at(const TensorScheme& scheme, const Trace& trace, std::size_t step) {
    std::string missing;
    const StepInfo& info = trace.manifest().steps[step];
    for (const std::string& what : scheme.needs) {
        const bool there = what == "loss"            ? info.loss.has_value()
                           : what == "learning_rate" ? info.learning_rate.has_value()
                                                     : trace.has(step, parse_kind(what));
        if (!there) missing += (missing.empty() ? "" : " and ") + what;
    }
    return missing;
}

}  // namespace apscope::detail
