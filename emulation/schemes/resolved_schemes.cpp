#include "emulation/schemes/resolved_schemes.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "emulation/schemes/levels.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

std::vector<ResolvedScheme> resolve_policies(std::span<const Scheme> schemes,
                                             std::span<const PolicyTensor> tensors,
                                             std::span<const std::int64_t> steps) {
    std::vector<ResolvedScheme> resolved;
    for (std::size_t s = 0; s < schemes.size(); ++s) {
        const Policy& policy = schemes[s].policy;
        const std::size_t first = resolved.size();
        if (!schemes[s].is_policy())
            resolved.push_back({kept_by_caller(schemes[s]), s, schemes[s].spec, {}});
        for (const PolicyBranch& branch : policy.branches)
            resolved.push_back({branch.scheme, s, schemes[s].spec + "/" + branch.scheme->spec,
                                std::vector<char>(steps.size() * tensors.size())});
        for (std::size_t k = 0; schemes[s].is_policy() && k < tensors.size(); ++k) {
            const std::vector<std::size_t> branches = policy.branches_for(tensors[k], steps);
            for (std::size_t t = 0; t < steps.size(); ++t)
                resolved[first + branches[t]].assigned[t * tensors.size() + k] = 1;
        }
    }
    return resolved;
}

std::vector<ResolvedScheme> reduced_by(const Topology& topology,
                                       std::vector<ResolvedScheme> schemes) {
    for (ResolvedScheme& one : schemes) {
        const std::shared_ptr<const Scheme> reduced = reduced_by(topology, one.scheme);
        if (reduced == one.scheme) continue;
        one.scheme = reduced;
        one.name += "|" + topology.name();
        one.composed = true;
    }
    return schemes;
}

namespace {

// True if the scheme and the topology are composed (levels.h, two_phase.h).
bool is_composed(const Topology& topology, const Scheme& scheme) {
    if (topology.is_order()) return false;
    if (topology.kind == Topology::Kind::levels) return refusal_of_levels(topology, scheme).empty();
    return has_two_phases(scheme.parts);
}

// Throws std::invalid_argument if a topology of two levels can reduce none of the schemes.
void check_levels(const Topology& topology, const std::vector<ResolvedScheme>& schemes) {
    if (topology.kind != Topology::Kind::levels || schemes.empty()) return;
    const bool reduces = std::ranges::any_of(
        schemes, [&](const ResolvedScheme& one) { return is_composed(topology, *one.scheme); });
    if (!reduces) throw std::invalid_argument(refusal_of_levels(topology, *schemes.front().scheme));
}

}  // namespace

bool reduces(const Topology& topology, const Scheme& scheme) {
    return is_composed(topology, scheme) || adds_codes(topology, scheme.parts);
}

std::vector<ResolvedScheme> with_compositions(std::span<const Topology> topologies,
                                              const std::vector<ResolvedScheme>& schemes) {
    std::vector<ResolvedScheme> all;
    for (const Topology& topology : topologies) check_levels(topology, schemes);
    for (const ResolvedScheme& scheme : schemes) {
        all.push_back(scheme);
        for (const Topology& topology : topologies) {
            if (!is_composed(topology, *scheme.scheme)) continue;
            // A branch of a policy is composed with the topology only if the topology reduces every
            // branch of the policy whose messages a topology can reduce.
            const bool covers = std::ranges::none_of(schemes, [&](const ResolvedScheme& other) {
                return other.requested == scheme.requested &&
                       other.parts().encoding.crosses_topologies() &&
                       !reduces(topology, *other.scheme);
            });
            if (!covers) continue;
            std::vector<ResolvedScheme> reduced = reduced_by(topology, {scheme});
            std::ranges::copy_if(reduced, std::back_inserter(all), &ResolvedScheme::composed);
        }
    }
    return all;
}

}  // namespace apscope::detail
