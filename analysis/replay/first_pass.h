// Pass 1 of a replay: for (step, tensor) pairs, the statistics that the workers agree on before
// rounding, and histograms of exponents.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/replay/work_list.h"

namespace apscope::detail {

struct FirstPass {
    std::vector<AgreedStatistics> agreed;       // one per pair, in the order of `pairs`
    std::vector<ExponentHistogram> histograms;  // one per pair, over the values of all workers
};

// pairs: numbers step * tensors + tensor, ascending. Any thread calls `visited` with the number of
// values of a finished pair; the calling thread calls `report` now and then, which may throw.
FirstPass first_pass(const Trace& trace, const ReplayOptions& options, const WorkList& work,
                     const NeededStatistics& needed, const std::vector<std::size_t>& pairs,
                     const std::function<void(std::size_t)>& visited,
                     const std::function<void()>& report);

}  // namespace apscope::detail
