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
    std::size_t requested = 0;             // index of the scheme it belongs to
    std::string name;  // of its state, which differs for a policy's branch and the scheme alone
    std::vector<char> serves;  // per item; empty: every item
    bool composed = false;     // a composition with a topology, beside the scheme itself

    bool serves_item(std::size_t item) const { return serves.empty() || serves[item] != 0; }
    const SchemeParts& parts() const { return scheme->parts; }
    bool streams() const { return parts().streams(); }
    // A scheme that streams chooses for all steps in advance.
    bool needs_order() const { return parts().keeps_state() && !streams(); }
    // The decisions of a scheme that streams; items of other schemes count as zero tensors.
    std::vector<Decision> choose(const SelectionInput& input, State& state) const {
        return parts().choice.choose(serves.empty() ? input : input.serving(serves), state);
    }
};

// The schemes must outlive the result. Items count step by step over steps of these numbers and
// the tensors.
std::vector<ResolvedScheme> resolve_policies(std::span<const Scheme> schemes,
                                             std::span<const PolicyTensor> tensors,
                                             std::span<const std::int64_t> steps);
// True if the scheme, which is not a policy, has rows of a topology: the topology adds its codes,
// or is composed with it.
bool reduces(const Topology& topology, const Scheme& scheme);
// The schemes as this topology reduces them; if it is composed with a scheme, the composition
// replaces the scheme.
std::vector<ResolvedScheme> reduced_by(const Topology& topology,
                                       std::vector<ResolvedScheme> schemes);
// The schemes, each followed by its compositions with those topologies that have one.
std::vector<ResolvedScheme> with_compositions(std::span<const Topology> topologies,
                                              const std::vector<ResolvedScheme>& schemes);

}  // namespace apscope::detail
