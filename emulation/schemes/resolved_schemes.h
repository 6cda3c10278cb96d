// Policies are resolved into the schemes of their branches. A resolved scheme processes those items
// (a tensor at a step) that the policy assigns to the branch; a scheme outside a policy processes
// all items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// A pointer to a scheme that the caller keeps alive.
inline std::shared_ptr<const Scheme> kept_by_caller(const Scheme& scheme) {
    return {&scheme, [](const Scheme*) {}};
}

struct ResolvedScheme {
    std::shared_ptr<const Scheme> scheme;  // not a policy
    std::size_t requested = 0;             // index of the scheme or policy in the caller's list
    std::string name;  // name of the state: SPEC, for a branch POLICY/SPEC; |TOPOLOGY is appended
                       // if composed
    std::vector<char> assigned;  // 1 for each item of this scheme; empty: all items
    bool composed = false;       // true: `scheme` is a composition with a topology

    bool has_item(std::size_t item) const { return assigned.empty() || assigned[item] != 0; }
    const SchemeParts& parts() const { return scheme->parts; }
    bool streams() const { return parts().streams(); }
    // True if steps must be processed in order. This is not so for a scheme that streams, because
    // choose() decides for all steps in advance.
    bool needs_order() const { return parts().keeps_state() && !streams(); }
    // The decisions of a scheme that streams. Items of other schemes count as tensors of zeros.
    std::vector<Decision> choose(const SelectionInput& input, State& state) const {
        return parts().choice.choose(assigned.empty() ? input : input.with_assigned(assigned),
                                     state);
    }
};

// The schemes must outlive the result. The item of a tensor at a step has the index (index of the
// step) * (number of tensors) + (index of the tensor). steps: step numbers.
std::vector<ResolvedScheme> resolve_policies(std::span<const Scheme> schemes,
                                             std::span<const PolicyTensor> tensors,
                                             std::span<const std::int64_t> steps);
// True if the topology can reduce the messages of the scheme, which is not a policy: the topology
// adds the scheme's codes or is composed with the scheme.
bool reduces(const Topology& topology, const Scheme& scheme);
// The schemes for a run with this topology: where the topology is composed with a scheme, the
// composition replaces the scheme.
std::vector<ResolvedScheme> reduced_by(const Topology& topology,
                                       std::vector<ResolvedScheme> schemes);
// The schemes, each followed by its compositions with those of the topologies that are composed
// with it.
std::vector<ResolvedScheme> with_compositions(std::span<const Topology> topologies,
                                              const std::vector<ResolvedScheme>& schemes);

}  // namespace apscope::detail
