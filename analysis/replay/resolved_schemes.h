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
    const FloatScheme* streaming() const {
        return std::get_if<FloatScheme>(&scheme->kind);
    }  // block by block; else null
    const TensorScheme* whole() const {
        return std::get_if<TensorScheme>(&scheme->kind);
    }  // on whole tensors; else null
    bool needs_order() const { return whole() != nullptr && whole()->keeps_state; }
};

// The schemes must outlive the result. Items count step by step over the chosen steps and
// tensors.
std::vector<ResolvedScheme> resolve_policies(std::span<const Scheme> schemes,
                                             const Manifest& manifest,
                                             std::span<const std::size_t> steps,
                                             std::span<const std::size_t> tensors);

// The input of the select() of one of them: items that it does not process count as zero tensors.
SelectionInput seen_by(const ResolvedScheme& resolved, const SelectionInput& input);

// The part of scheme.needs that the trace lacks at a step; empty if nothing.
std::string missing_at(const TensorScheme& scheme, const Trace& trace, std::size_t step);

}  // namespace apscope::detail
