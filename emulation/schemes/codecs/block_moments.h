// The moments of stochastic rounding of a row to a block format, given the scale of each block.
#pragma once

#include <span>

#include "emulation/schemes/codecs/block_row.h"

namespace apscope::detail {

// Computes m.bias and m.variance of every element, from the values to which decode_blocks() decodes
// the two neighbours of the element in the format.
void state_moments(Message& m, const BlockRow& row, std::span<const double> x,
                   const BlockFormat& format, const Projection& projection);

}  // namespace apscope::detail
