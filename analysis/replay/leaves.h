// Leaves: the schemes of a replay with policies taken apart. A leaf serves the items (step, tensor)
// that its policy gives it; a scheme that is no policy is one leaf that serves all.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/trace/trace.h"
#include "emulation/schemes/scheme.h"

namespace apscope::detail {

struct Leaf {
    const Scheme* scheme = nullptr;
    std::size_t requested = 0;         // index of the scheme it belongs to
    std::vector<char> serves;          // per item; empty: every item

    bool serves_item(std::size_t item) const { return serves.empty() || serves[item] != 0; }
    bool is_streaming() const { return !scheme->tensor; }
    bool needs_order() const { return scheme->tensor && scheme->tensor->keeps_state; }
};

// The schemes must outlive the leaves. Items count step by step over the chosen steps and tensors.
std::vector<Leaf> leaves_of(std::span<const Scheme> schemes, const Manifest& manifest, std::span<const std::size_t> steps,
                            std::span<const std::size_t> tensors);

// What a leaf's select() sees: items it does not serve count as zero tensors.
SelectionInput seen_by(const Leaf& leaf, const SelectionInput& input);

// What of scheme.tensor->needs the trace lacks at a step; empty if nothing.
std::string missing_at(const TensorScheme& scheme, const Trace& trace, std::size_t step);

}  // namespace apscope::detail
