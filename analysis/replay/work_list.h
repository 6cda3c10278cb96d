// The work of pass 2 of a replay: items that threads and machines do in any order, with their
// memory and cost.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/replay/scheme_cost.h"

namespace apscope::detail {

struct WorkItem {
    std::size_t tensor = 0;  // index into ReplayOptions::tensors
    // An index into ReplayOptions::steps if the item is one step, for all schemes without memory of
    // elements. None if the item is the scheme `requested` through all steps in order. With
    // ReplayOptions::persistence every scheme has an item of all steps, and the items of single
    // steps compute only the noise.
    std::optional<std::size_t> step;
    std::size_t requested = 0;  // index into ReplayOptions::schemes, if `step` is empty
};

class WorkList {
public:
    // The arguments must outlive the list.
    WorkList(const Manifest& manifest, const ReplayOptions& options,
             std::span<const ResolvedScheme> schemes);

    // The items of the shard in the order in which they should begin: longest first. The order is
    // the same on every machine.
    const std::vector<WorkItem>& items() const { return items_; }
    // The items of single steps are ordered in groups of this many consecutive steps.
    std::size_t group() const { return group_; }
    // All pairs step * tensors + tensor, in the order of pass 1.
    const std::vector<std::size_t>& order() const { return order_; }

    // True if the item computes the scheme's rows at this step.
    bool includes(const WorkItem& item, const ResolvedScheme& scheme, std::size_t step) const;
    // The number of values that all schemes together visit in the item.
    std::size_t visits(const WorkItem& item) const;

    // The following functions first run every scheme on small tensors (scheme_cost.h).
    struct Needs {
        // The peak memory of each item, in bytes; all 0 if no item can come near the budget.
        std::vector<std::size_t> items;
        std::size_t state = 0;  // bytes of the schemes' memory that the replay returns
    };
    // The memory that items need. Throws std::invalid_argument if the budget is too small for one
    // of them.
    Needs needs(std::span<const WorkItem> items, std::size_t budget);
    // Seconds of each item on one thread of this machine.
    std::vector<double> seconds();

private:
    bool in_order(const ResolvedScheme& scheme) const {
        return options_.persistence || scheme.needs_order();
    }
    std::size_t window_bytes(const WorkItem& item) const;
    void find_costs();
    std::size_t steps() const { return options_.steps.size(); }
    std::size_t tensors() const { return options_.tensors.size(); }
    std::size_t elements(std::size_t k) const {
        return manifest_.tensors[options_.tensors[k]].size();
    }
    // The number of elements that scheme s needs at once for tensor k at step t. If the scheme's
    // blocks cross tensors and the scheme encodes sums of complete buckets, these are the elements
    // of the tensor's bucket.
    std::size_t at_once(std::size_t s, std::size_t t, std::size_t k) const;
    std::size_t most_at_once() const;  // an upper bound of at_once()
    template <class Visit>
    void for_visits(const WorkItem& item, Visit&& visit) const;

    const Manifest& manifest_;
    const ReplayOptions& options_;
    std::span<const ResolvedScheme> schemes_;
    std::vector<std::size_t> order_;
    std::size_t group_ = 1;
    std::vector<WorkItem> items_;
    std::vector<SchemeCost> costs_;  // one per scheme; empty before find_costs()
};

// A number of bytes in the form that the command line takes, such as 3.2G.
std::string memory_text(std::size_t bytes);

}  // namespace apscope::detail
