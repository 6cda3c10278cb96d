// The reduction in two phases of a scheme whose blocks cross tensors. Like the messages, the sums
// of a bucket's tensors are one array, of which worker k owns the elements [k m, (k + 1) m), m =
// ceil(length / W). The exchange of one tensor computes only those parts of the shards on which the
// tensor's elements depend. For these parts, the exchange also encodes the elements of the
// neighbouring tensors, with random words of this tensor.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// A part of a shard: elements first .. end - 1 of the array that is divided among the owners.
struct ShardPart {
    std::size_t owner, first, end;

    std::size_t count() const { return end - first; }
};
// The consecutive parts of the shards of an array of `size` elements that contain elements first ..
// last - 1: complete shards or, if block != 0, complete blocks of shards.
std::vector<ShardPart> shard_parts(std::size_t size, std::size_t workers, std::size_t block,
                                   std::size_t first, std::size_t last);

// Makes the message of a worker in phase 1. The scheme chooses its parameters from `seen` and
// encodes x.
using EncodeNeighbours =
    std::function<void(const TrainingStep& step, const RowReader& seen, std::span<const double> x,
                       std::size_t worker, Message& m)>;
// Makes the message of a worker for these parts of the shards of step.bucket. own: the values that
// the worker sends for the tensor itself.
void encode_parts(const TrainingStep& step, std::span<const ShardPart> parts,
                  const EncodeNeighbours& encode, std::size_t worker, std::span<const double> own,
                  Message& m);

// The functions of both phases.
struct BucketPhases {
    EncodeNeighbours phase1;
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
