// Pass 1 of a replay: of (step, tensor) pairs what their workers agree on before anything is
// rounded, and histograms of exponents.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/replay/work_list.h"

namespace apscope::detail {

struct FirstPass {
    std::vector<AgreedStatistics> agreed;       // of each pair, in their order
    std::vector<ExponentHistogram> histograms;  // over its workers
};

// Pairs are step * tensors + tensor, ascending. `visited` is told the values of a pair once it is
// done, by any thread; `report` is called by this one between them, and may throw.
FirstPass first_pass(const Trace& trace, const ReplayOptions& options, const WorkList& work,
                     bool with_sums, const std::vector<std::size_t>& pairs,
                     const std::function<void(std::size_t)>& visited,
                     const std::function<void()>& report);

}  // namespace apscope::detail
