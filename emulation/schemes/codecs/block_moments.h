// The moments of stochastic rounding of a row in a block format, from the scale of each block.
#pragma once

#include <span>

#include "emulation/schemes/codecs/block_row.h"

namespace apscope::detail {

// m.bias and m.variance of every element: of the decoded values of its two neighbours, as
// decode_blocks gives them.
void state_moments(Message& m, const BlockRow& row, std::span<const double> x,
                   const BlockFormat& format, const Projection& projection);

}  // namespace apscope::detail
