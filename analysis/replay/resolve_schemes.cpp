#include "analysis/replay/resolve_schemes.h"

#include "analysis/replay/requested_topologies.h"

namespace apscope::detail {

std::vector<ResolvedScheme> resolve_schemes(const Manifest& manifest,
                                            const ReplayOptions& options) {
    std::vector<std::string> names, roles;
    for (const TensorInfo& t : manifest.tensors) {
        names.push_back(t.name);
        roles.push_back(t.role);
    }
    const std::vector<PolicyTensor> all = policy_tensors(names, roles);
    std::vector<PolicyTensor> tensors;
    for (const std::size_t k : options.tensors) tensors.push_back(all[k]);
    std::vector<std::int64_t> numbers;
    for (const std::size_t t : options.steps) numbers.push_back(manifest.steps[t].number);
    std::vector<ResolvedScheme> resolved = resolve_policies(options.schemes, tensors, numbers);
    if (manifest.stage != "local") return resolved;
    return with_compositions(options.topologies, resolved);
}

}  // namespace apscope::detail
