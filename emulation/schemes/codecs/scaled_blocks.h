// Runs of elements, each under a real scale of its own, on a float grid.
#pragma once

#include <functional>
#include <span>

#include "emulation/schemes/scheme.h"
#include "emulation/schemes/tensor_scheme.h"

namespace apscope::detail {

// encode_float_row of every run of `block` elements with scale_of(the run's amax); element i of the row draws
// word i. Side information: scale_bits a run.
Message encode_scaled_blocks(std::span<const double> x, std::size_t block, const std::function<double(double)>& scale_of, int scale_bits,
                             const FloatGrid& grid, const RandomStream& stream, bool packs);

}  // namespace apscope::detail
