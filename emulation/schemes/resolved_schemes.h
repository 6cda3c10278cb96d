// Schemes with policies taken apart: a resolved scheme processes the items (step, tensor) that its
// policy gives it; a scheme that is not a policy processes all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// A scheme of the caller, who keeps it.
inline std::shared_ptr<const Scheme> kept_by_caller(const Scheme& scheme) {
    return {&scheme, [](const Scheme*) {}};
}

struct ResolvedScheme {
    std::shared_ptr<const Scheme> scheme;  // no policy
    std::size_t requested = 0;             // index of the scheme it belongs to
    std::string name;  // of its state: a policy's branches are not the same schemes by themselves
    std::vector<char> serves;  // per item; empty: every item
    bool composed = false;     // with a topology, beside the scheme as it is

    bool serves_item(std::size_t item) const { return serves.empty() || serves[item] != 0; }
    const SchemeParts& parts() const { return scheme->parts; }
    bool streams() const { return parts().streams(); }
    // A scheme that streams chooses for all steps before.
    bool needs_order() const { return parts().keeps_state() && !streams(); }
    // The decisions of one that streams: items of other schemes count as zero tensors.
    std::vector<Decision> choose(const SelectionInput& input, State& state) const {
        return parts().choice.choose(serves.empty() ? input : input.serving(serves), state);
    }
};

// The schemes must outlive the result. Items count step by step over steps of these numbers and
// the tensors.
std::vector<ResolvedScheme> resolve_policies(std::span<const Scheme> schemes,
                                             std::span<const PolicyTensor> tensors,
                                             std::span<const std::int64_t> steps);
// Whether the scheme, no policy, has rows of a topology: that adds its codes, or is composed with
// it.
bool reduces(const Topology& topology, const Scheme& scheme);
// As this topology reduces them: those that it is composed with become schemes of that.
std::vector<ResolvedScheme> reduced_by(const Topology& topology,
                                       std::vector<ResolvedScheme> schemes);
// The schemes as they are, each followed by its compositions with the topologies that have one.
std::vector<ResolvedScheme> with_compositions(std::span<const Topology> topologies,
                                              const std::vector<ResolvedScheme>& schemes);

}  // namespace apscope::detail
