// The rows of a tensor are its slices along the first axis. The rows of a shard are as long as
// those of the tensor.
#pragma once

#include <algorithm>
#include <cstddef>

#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// The number of elements of a row, at least 1; a tensor with fewer than two axes is one row.
inline std::size_t row_length(const TrainingStep& step, std::size_t elements) {
    if (step.row != 0) return step.row;
    const bool has_rows = step.shape.size() > 1 && elements > 0;
    return std::max<std::size_t>(1, has_rows ? elements / static_cast<std::size_t>(step.shape[0])
                                             : elements);
}

}  // namespace apscope::detail
