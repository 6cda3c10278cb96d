// The reduction in two phases of a scheme whose blocks cross tensors. Like the messages, the sums
// of a bucket's tensors are one array, of which worker k owns the elements [k m, (k + 1) m), m =
// ceil(length / W). The exchange of one tensor computes only those parts of the shards on which the
// tensor's elements depend. For these parts, the exchange also encodes the elements of the
// neighbouring tensors, with random words of this tensor.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// The functions of both phases.
struct BucketPhases {
    // Phase 1: makes the message of a worker. The scheme chooses its parameters from `seen` and
    // encodes x.
    std::function<void(const TrainingStep& step, const RowReader& seen, std::span<const double> x,
                       std::size_t worker, Message& m)>
        phase1;
    // Adds the messages of phase 1.
    std::function<void(const SentPieces& sent, Row& sum)> add_up;
    // Phase 2: encodes a shard of the sum, or blocks of it, in place.
    std::function<void(const TrainingStep& step, std::size_t owner, std::span<double> sum)> phase2;
};

// Computes the tensor's part of the sums. block: SchemeParts::block of the scheme of phase 2; if
// not 0, only the blocks with elements of the tensor are encoded.
void reduce_bucket(const SentPieces& sent, const BucketPhases& phases, std::size_t block, Row& sum);

// The number of elements of all shards that a tensor of `elements` elements overlaps.
std::size_t elements_of_shards(const Bucket& bucket, std::size_t elements, std::size_t workers);

}  // namespace apscope::detail
