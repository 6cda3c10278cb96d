// The schemes of a replay with policies taken apart: a resolved scheme processes the items (step,
// tensor) that its policy gives it; a scheme that is not a policy processes all.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "analysis/trace/trace.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

struct ResolvedScheme {
    const Scheme* scheme = nullptr;    // no policy
    std::size_t requested = 0;         // index of the scheme it belongs to
    std::string name;  // of its state: a policy's branches are not the same schemes by themselves
    std::vector<char> serves;  // per item; empty: every item

    bool serves_item(std::size_t item) const { return serves.empty() || serves[item] != 0; }
    const SchemeParts& parts() const { return scheme->parts; }
    bool streams() const { return parts().streams(); }
    // A scheme that streams chooses for all steps before.
    bool needs_order() const { return parts().keeps_state && !streams(); }
};

// The schemes must outlive the result. Items count step by step over the chosen steps and
// tensors.
std::vector<ResolvedScheme> resolve_policies(std::span<const Scheme> schemes,
                                             const Manifest& manifest,
                                             std::span<const std::size_t> steps,
                                             std::span<const std::size_t> tensors);

// The part of scheme.needs that the trace lacks at a step; empty if nothing.
std::string missing_at(const SchemeParts& scheme, const Trace& trace, std::size_t step);

}  // namespace apscope::detail
