// quantize() of numbers times a scale, divided by it again: what a cast under a loss scale gives.
#pragma once

#include <span>

#include "emulation/cast/quantize.h"

namespace apscope::detail {

// out[i] = c / scale, c the value of `format` that in[i] * scale projects to. Product and quotient
// are fp64 numbers, to nearest, ties to even: the product is exact for fp32 numbers and a scale of
// at most 29 significant bits, and for every power of two within fp64's range. A quotient for an
// fp32 result is rounded to fp32 once more. A NaN is converted as without a scale. Random words,
// threads and lengths are as for quantize(); `scale` must be positive and finite
// (std::invalid_argument).
void quantize_scaled(std::span<const float> in, std::span<float> out, double scale,
                     const FloatFormat& format, const Projection& projection,
                     const RandomSource& random = {}, int threads = 1);
void quantize_scaled(std::span<const double> in, std::span<double> out, double scale,
                     const FloatFormat& format, const Projection& projection,
                     const RandomSource& random = {}, int threads = 1);

}  // namespace apscope::detail
