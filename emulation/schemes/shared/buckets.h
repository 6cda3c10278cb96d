// Blocks that cross tensors. With the key `bucket`, a scheme encodes a bucket of gradients as one
// array: tensors of the step, flattened, one after another in the order of the exchange
// (tensor_units.h). Blocks are counted from the start of that array. An exchange still has one
// tensor, but also reads the elements of neighbouring tensors in the same blocks. Elements of
// neighbouring tensors that are not finite are treated like those of the tensor itself.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/tensor_units.h"

namespace apscope::detail {

// The key `bucket`, and its value in bytes (0 for `none`). bucket_of() throws std::invalid_argument
// for a value that is not a size. `reason_against` is not empty if the scheme cannot have a bucket;
// then every size is refused with this reason.
SchemeKey bucket_key();
std::size_t bucket_of(const SchemeArguments& arguments, std::string_view reason_against = {});

// Returns the totals that the exchanges of a bucket share; the bucket is identified by its first
// tensor.
using TotalsOf = std::function<std::shared_ptr<ArrayTotals>(std::size_t first_tensor)>;

// The bucket of the tensor with index `tensor`, of `tensors` tensors; this tensor must belong to
// the scheme. The gradients are read when a row of the bucket is read.
using GradientOf = std::function<std::span<const float>(std::size_t tensor, std::size_t worker)>;
Bucket bucket_around(const SchemeParts& scheme, std::size_t tensor, std::size_t tensors,
                     const ServedElements& elements, std::size_t workers,
                     const GradientOf& gradient, const TotalsOf& totals);

// A row x of a tensor of `size` elements, or a piece of such a row, with the elements of
// neighbouring tensors that lie in the same blocks.
struct BlocksAround {
    RowReader row;          // begins with a block
    std::size_t lead = 0;   // how many elements of the first block precede the tensor
    std::size_t begun = 0;  // number of scales in the message: the blocks that begin in the tensor
    bool starts = true,     // true: the array starts in the tensor
        ends = true;        // true: the array ends in the tensor
};
BlocksAround blocks_around(const TrainingStep& step, const RowReader& x, std::size_t size,
                           std::size_t worker, std::size_t block);

// BlocksAround::lead, which is equal for all workers.
std::size_t lead_of(const TrainingStep& step, std::size_t size, std::size_t block);

// Shortens the rows of a message that was made for BlocksAround::row to the tensor's `count`
// elements, which begin at element `lead`.
void crop(Message& m, std::size_t lead, std::size_t count);

}  // namespace apscope::detail
