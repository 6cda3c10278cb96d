// Schemes with policies resolved into their branches: a resolved scheme processes the items (step,
// tensor) that its policy gives it; a scheme that is not a policy processes all.
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
    std::size_t requested = 0;             // index of the requested scheme or policy
    std::string name;  // the state's name: SPEC, POLICY/SPEC for a branch; + |TOPOLOGY if composed
    std::vector<char> assigned;  // 1 for each item of this scheme; empty: all items
    bool composed = false;       // true: scheme is the composition of a requested scheme with a
                                 // topology, not the requested scheme

    bool has_item(std::size_t item) const { return assigned.empty() || assigned[item] != 0; }
    const SchemeParts& parts() const { return scheme->parts; }
    bool streams() const { return parts().streams(); }
    // True if steps must be processed in order. A scheme that streams has chosen for all steps in
    // advance.
    bool needs_order() const { return parts().keeps_state() && !streams(); }
    // The decisions of a scheme that streams; items of other schemes count as zero tensors.
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
// True if the topology can reduce the scheme, which is not a policy: it adds the scheme's codes, or
// is composed with the scheme.
bool reduces(const Topology& topology, const Scheme& scheme);
// The schemes as this topology reduces them; if it is composed with a scheme, the composition
// replaces the scheme.
std::vector<ResolvedScheme> reduced_by(const Topology& topology,
                                       std::vector<ResolvedScheme> schemes);
// The schemes, each followed by its compositions with those topologies that have one.
std::vector<ResolvedScheme> with_compositions(std::span<const Topology> topologies,
                                              const std::vector<ResolvedScheme>& schemes);

}  // namespace apscope::detail
