#include "analysis/replay/bucket_views.h"

#include "emulation/schemes/shared/buckets.h"

namespace apscope::detail {

std::shared_ptr<ArrayTotals> BucketTotals::of(const ResolvedScheme& resolved, std::size_t t,
                                              std::size_t first_tensor) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<ArrayTotals>& totals = totals_[{&resolved, t, first_tensor}];
    if (!totals) totals = std::make_shared<ArrayTotals>();
    return totals;
}

BucketViews::BucketViews(const Trace& trace, const ReplayOptions& options,
                         const ResolvedScheme& resolved, std::size_t t, std::size_t tensor,
                         BucketTotals& totals) {
    if (resolved.parts().bucket == 0) return;
    const std::size_t tensors = options.tensors.size();
    const auto elements = [&](std::size_t k) -> std::optional<std::size_t> {
        if (!resolved.has_item(t * tensors + k)) return std::nullopt;
        const TensorInfo& one = trace.manifest().tensors[options.tensors[k]];
        if (one.sampled_from)
            throw std::invalid_argument(
                "scheme '" + resolved.scheme->spec + "' has blocks that cross tensors, but '" +
                one.name + "' is a sample of a tensor in this trace; leave bucket out");
        return one.size();
    };
    const auto gradient = [this, &trace, &options, t](std::size_t k, std::size_t worker) {
        const auto match = views_.find({k, worker});
        if (match != views_.end()) return match->second.values;
        return views_
            .emplace(std::pair(k, worker),
                     trace.gradient(options.steps[t], options.tensors[k], static_cast<int>(worker)))
            .first->second.values;
    };
    bucket_ = bucket_around(resolved.parts(), tensor, tensors, elements,
                            static_cast<std::size_t>(options.workers), gradient,
                            [&](std::size_t first) { return totals.of(resolved, t, first); });
}

}  // namespace apscope::detail
