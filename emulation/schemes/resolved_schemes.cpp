#include "emulation/schemes/resolved_schemes.h"

namespace apscope::detail {

std::vector<ResolvedScheme> resolve_policies(std::span<const Scheme> schemes,
                                             std::span<const PolicyTensor> tensors,
                                             std::span<const std::int64_t> steps) {
    std::vector<ResolvedScheme> resolved;
    for (std::size_t s = 0; s < schemes.size(); ++s) {
        const Policy& policy = schemes[s].policy;
        const std::size_t first = resolved.size();
        if (!schemes[s].is_policy()) resolved.push_back({&schemes[s], s, schemes[s].spec, {}});
        for (const PolicyBranch& branch : policy.branches)
            resolved.push_back({branch.scheme.get(), s, schemes[s].spec + "/" + branch.scheme->spec,
                                std::vector<char>(steps.size() * tensors.size())});
        for (std::size_t k = 0; schemes[s].is_policy() && k < tensors.size(); ++k) {
            const std::vector<std::size_t> branches = policy.branches_for(tensors[k], steps);
            for (std::size_t t = 0; t < steps.size(); ++t)
                resolved[first + branches[t]].serves[t * tensors.size() + k] = 1;
        }
    }
    return resolved;
}

}  // namespace apscope::detail
