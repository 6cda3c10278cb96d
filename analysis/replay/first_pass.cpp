#include "analysis/replay/first_pass.h"

#include <algorithm>
#include <utility>

#include "analysis/replay/item_queue.h"
#include "analysis/replay/item_views.h"
#include "emulation/machine/parallel.h"

namespace apscope::detail {

namespace {

AgreedStatistics read_item(const ItemViews& item, ExponentHistogram& histogram,
                           const NeededStatistics& needed) {
    AgreedStatistics agreed;
    agreed.elements = item.rows[0].size();
    for (const std::span<const float> row : item.rows) histogram.add(row);
    add_needed(agreed, item.rows, needed);
    agreed.nonfinite = histogram.nan + histogram.infinite;
    agreed.amax = histogram.amax;
    return agreed;
}

}  // namespace

FirstPass first_pass(const Trace& trace, const ReplayOptions& options, const WorkList& work,
                     const NeededStatistics& needed, const std::vector<std::size_t>& pairs,
                     const std::function<void(std::size_t)>& visited,
                     const std::function<void()>& report) {
    const std::size_t tensors = options.tensors.size();
    const auto values_of = [&](std::size_t pair) {
        return trace.manifest().tensors[options.tensors[pair % tensors]].size() *
               static_cast<std::size_t>(options.workers);
    };
    // Positions in `pairs`, in the order of the work list, and the bytes that each needs.
    std::vector<std::size_t> order, needs;
    for (const std::size_t pair : work.order()) {
        const auto match = std::lower_bound(pairs.begin(), pairs.end(), pair);
        if (match == pairs.end() || *match != pair) continue;
        order.push_back(static_cast<std::size_t>(match - pairs.begin()));
        needs.push_back(values_of(pair) * sizeof(float));
    }
    FirstPass pass{std::vector<AgreedStatistics>(pairs.size()),
                   std::vector<ExponentHistogram>(pairs.size())};
    ItemQueue queue(std::move(needs), options.memory);
    const auto read_one = [&](std::size_t j, Workspace&) {
        const std::size_t place = order[j], pair = pairs[place];
        const ItemViews item(trace, options.steps[pair / tensors], options.tensors[pair % tensors],
                             options.workers);
        pass.agreed[place] = read_item(item, pass.histograms[place], needed);
        visited(values_of(pair));
    };
    parallel_for(
        order.size(), options.threads, [&](std::size_t) { queue.do_one(read_one); },
        [&](std::size_t) { report(); });
    return pass;
}

}  // namespace apscope::detail
