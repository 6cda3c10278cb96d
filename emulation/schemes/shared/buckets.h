// Blocks that cross tensors: those of a bucket of gradients that is encoded as one array. A scheme
// with the key `bucket` counts its blocks from the start of the tensor's bucket, over the tensors
// of the step flattened one behind the other in the order of the exchange (tensor_units.h). An
// exchange is still one of a tensor, which reads of its neighbours what shares blocks with it.
// Their elements that are not finite count as they do anywhere in a block.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "emulation/schemes/definition.h"
#include "emulation/schemes/shared/tensor_units.h"

namespace apscope::detail {

// The key, and SchemeParts::bucket from it. Throws std::invalid_argument for a value that is not a
// size, and for any size if there is a reason against it.
SchemeKey bucket_key();
std::size_t bucket_of(const SchemeArguments& arguments, std::string_view reason_against = {});

// What the buckets of a step have in common, by their first tensor.
using TotalsOf = std::function<std::shared_ptr<ArrayTotals>(std::size_t first_tensor)>;

// The bucket of a tensor among these, which must be served. Gradients are read when the rows are.
using GradientOf = std::function<std::span<const float>(std::size_t tensor, std::size_t worker)>;
Bucket bucket_around(const SchemeParts& scheme, std::size_t tensor, std::size_t tensors,
                     const ServedElements& elements, std::size_t workers,
                     const GradientOf& gradient, const TotalsOf& totals);

// A row of a tensor of `size` elements, or a piece of it, with what lies around it in its blocks.
struct BlocksAround {
    RowReader row;                    // begins with a block
    std::size_t lead = 0;             // where the tensor's own elements begin in it
    std::size_t begun = 0;            // blocks that begin in the tensor: it sends their scales
    bool starts = true, ends = true;  // whether the array begins in the tensor, and ends in it
};
BlocksAround blocks_around(const TrainingStep& step, const RowReader& x, std::size_t size,
                           std::size_t worker, std::size_t block);

// The same once, of all workers: elements of the first block that lie before the tensor.
std::size_t lead_of(const TrainingStep& step, std::size_t size, std::size_t block);

// Of a message of all of these elements: what is the tensor's own.
void crop(Message& m, std::size_t lead, std::size_t count);

}  // namespace apscope::detail
