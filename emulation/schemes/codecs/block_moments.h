// The moments of stochastic rounding of a row in a block format, from the scale of each block.
#pragma once

#include <span>

#include "emulation/schemes/codecs/block_row.h"

namespace apscope::detail {

// Fills m.bias and m.variance of every element, from the two values that the element's neighbours
// in the format have after decode_blocks().
void state_moments(Message& m, const BlockRow& row, std::span<const double> x,
                   const BlockFormat& format, const Projection& projection);

}  // namespace apscope::detail
