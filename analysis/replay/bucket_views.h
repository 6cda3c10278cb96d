// The bucket of a tensor at a step, as a replay reads it, for a scheme whose blocks cross tensors.
// The bucket has only selected tensors that the scheme encodes at this step.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "analysis/replay/replay.h"
#include "emulation/schemes/resolved_schemes.h"

namespace apscope::detail {

// The totals that all items of a bucket share in a running replay.
class BucketTotals {
public:
    std::shared_ptr<ArrayTotals> of(const ResolvedScheme& resolved, std::size_t t,
                                    std::size_t first_tensor);

private:
    std::mutex mutex_;
    std::map<std::tuple<const ResolvedScheme*, std::size_t, std::size_t>,
             std::shared_ptr<ArrayTotals>>
        totals_;
};

class BucketViews {
public:
    // t, tensor: indices into ReplayOptions::steps and ReplayOptions::tensors. The arguments must
    // outlive the views. The file of another tensor is mapped when its elements are read.
    BucketViews(const Trace& trace, const ReplayOptions& options, const ResolvedScheme& resolved,
                std::size_t t, std::size_t tensor, BucketTotals& totals);
    BucketViews(const BucketViews&) = delete;
    BucketViews& operator=(const BucketViews&) = delete;

    // Null if the scheme's blocks do not cross tensors.
    const Bucket* bucket() const { return bucket_ ? &*bucket_ : nullptr; }

private:
    std::map<std::pair<std::size_t, std::size_t>, TensorView> views_;  // by tensor and worker
    std::optional<Bucket> bucket_;
};

}  // namespace apscope::detail
