// Rounds rows of fp64 values to a float grid, for schemes that first compensate or transform a
// tensor, so that the values are not always fp32 numbers.
#pragma once

#include <span>

#include "emulation/schemes/float_encoder.h"

namespace apscope::detail {

// codes = round(scale x), values = codes / scale. The product is exact if the x are fp32 numbers or
// the scale is a power of two; otherwise the product is first rounded to fp64. An element uses the
// random word of its index in the row. If the grid divides before the sum, codes = round(codes /
// divisor) and values = divisor codes / scale.
void encode_float_row(const RowPiece& p, double scale, const FloatGrid& grid, Message& m);
// Encodes in this way with one scale for every `run` consecutive elements: the scale of element i
// of the row is scales[(lead + i) / run].
void encode_float_row(const RowPiece& p, std::span<const double> scales, std::size_t run,
                      const FloatGrid& grid, Message& m, std::size_t lead = 0);

// The packed codes of numbers that the format represents.
std::vector<std::uint8_t> pack_float_codes(std::span<const double> codes,
                                           const FloatFormat& format);

}  // namespace apscope::detail
