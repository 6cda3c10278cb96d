// Computes GridUse of rows, in vector code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulation/schemes/codecs/grid_use.h"

namespace apscope::detail {

// Adds to `use` the elements x, which were rounded to `codes`, each under its scale, and decode to
// `values`; elements that are not finite do not count. `marks`: the saturated elements of a row of
// `size` elements in which x[0] is element `first`; empty until one saturates.
void add_row(GridUse& use, std::span<const double> x, const double* codes, const double* values,
             const double* scales, const GridLimits& grid, std::vector<std::uint8_t>& marks,
             std::size_t first, std::size_t size);

}  // namespace apscope::detail
