// The second phase of a scheme whose blocks cross tensors: as the messages, the sums are one array
// of the bucket, and worker k owns elements [k m, (k + 1) m) of it, m = ceil(length / W). An
// exchange of one tensor adds and encodes again what of the shards its own elements depend on. What
// the workers send of neighbours is encoded for it with words of this tensor.
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
    // A shard of the sum, or blocks of it, in place.
    std::function<void(const TrainingStep& step, std::size_t owner, std::span<double> sum)> finish;
};

// The tensor's part of the result. block: SchemeParts::block of what encodes a shard; of such a one
// only the blocks are encoded that have some of the tensor.
void reduce_bucket(const SentPieces& sent, const BucketPhases& phases, std::size_t block, Row& sum);

// Elements of the whole shards that a tensor of so many elements lies in.
std::size_t elements_of_shards(const Bucket& bucket, std::size_t elements, std::size_t workers);

}  // namespace apscope::detail
