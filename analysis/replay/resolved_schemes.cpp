#include "analysis/replay/resolved_schemes.h"

namespace apscope::detail {

std::vector<ResolvedScheme> resolve_policies(std::span<const Scheme> schemes,
                                             const Manifest& manifest,
                                             std::span<const std::size_t> steps,
                                             std::span<const std::size_t> tensors) {
    std::vector<std::string> names, roles;
    for (const TensorInfo& t : manifest.tensors) {
        names.push_back(t.name);
        roles.push_back(t.role);
    }
    const std::vector<PolicyTensor> known = policy_tensors(names, roles);
    std::vector<std::int64_t> numbers;
    for (const std::size_t t : steps) numbers.push_back(manifest.steps[t].number);
    std::vector<ResolvedScheme> resolved;
    for (std::size_t s = 0; s < schemes.size(); ++s) {
        const Policy& policy = schemes[s].policy;
        if (!schemes[s].is_policy()) {
            resolved.push_back({&schemes[s], s, schemes[s].spec, {}});
            continue;
        }
        const std::size_t first = resolved.size();
        for (const PolicyBranch& branch : policy.branches)
            resolved.push_back({branch.scheme.get(), s, schemes[s].spec + "/" + branch.scheme->spec,
                                std::vector<char>(steps.size() * tensors.size())});
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            const std::vector<std::size_t> branches =
                policy.branches_for(known[tensors[k]], numbers);
            for (std::size_t t = 0; t < steps.size(); ++t)
                resolved[first + branches[t]].serves[t * tensors.size() + k] = 1;
        }
    }
    return resolved;
}

std::string missing_at(const SchemeParts& scheme, const Trace& trace, std::size_t step) {
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
