// The second phase of a scheme whose blocks cross tensors: as the messages, the sums are one array
// of the bucket, and worker k owns elements [k m, (k + 1) m) of it, m = ceil(length / W). An
// exchange of one tensor adds and encodes again the whole shards that have some of it. What the
// workers send of neighbours is encoded for it with words of this tensor.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

struct BucketPhases {
    // The message of a worker for a tensor of which `seen` is what the scheme chooses from and x
    // what it encodes.
    std::function<void(const TrainingStep& step, const RowReader& seen, std::span<const double> x,
                       std::size_t worker, Message& m)>
        encode;
    std::function<void(const SentPieces& sent, Row& sum)> add_up;
    // A shard of the sum, in place.
    std::function<void(const TrainingStep& step, std::size_t owner, std::span<double> sum)> finish;
};

// The tensor's part of the result.
void reduce_bucket(const SentPieces& sent, const BucketPhases& phases, Row& sum);

}  // namespace apscope::detail
