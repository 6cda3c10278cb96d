// The local gradients of a tensor at a step, as a replay reads them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/trace/trace.h"

namespace apscope::detail {

// The views keep the files mapped.
struct ItemViews {
    std::vector<TensorView> views;
    std::vector<std::span<const float>> rows;

    ItemViews(const Trace& trace, std::size_t step, std::size_t tensor, int workers) {
        for (int w = 0; w < workers; ++w) views.push_back(trace.gradient(step, tensor, w));
        for (const TensorView& view : views) rows.push_back(view.values);
    }
};

}  // namespace apscope::detail
