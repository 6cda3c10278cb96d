// Computes GridUse of rows, in vector code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulation/schemes/codecs/grid_use.h"

namespace apscope::detail {

// Counts in `use` the elements x, each of which was multiplied by its scale, rounded to its code
// and decodes to its value; elements that are not finite do not count. `marks` receives a 1 for
// each saturated element of a row of `size` elements, in which x[0] is element `first`; it is empty
// until an element saturates.
void add_row(GridUse& use, std::span<const double> x, const double* codes, const double* values,
             const double* scales, const GridLimits& grid, std::vector<std::uint8_t>& marks,
             std::size_t first, std::size_t size);

}  // namespace apscope::detail
