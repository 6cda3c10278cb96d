// GridUse of rows, in vector code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulation/schemes/codecs/grid_use.h"

namespace apscope::detail {

// To `use`, elements x that were rounded to `codes`, each under a scale of its own, and are read as
// `values`; those that are not finite say nothing. `marks`: those that saturated, of a row of
// `size` elements in which x[0] is element `first`; they stay empty as long as there is none.
void add_row(GridUse& use, std::span<const double> x, const double* codes, const double* values,
             const double* scales, const GridLimits& grid, std::vector<std::uint8_t>& marks,
             std::size_t first, std::size_t size);

}  // namespace apscope::detail
