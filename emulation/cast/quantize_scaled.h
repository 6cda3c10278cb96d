// Quantization under a scale: numbers are multiplied by the scale, rounded to a format, and divided
// by the scale, as in a cast under a loss scale.
#pragma once

#include <span>

#include "emulation/cast/quantize.h"

namespace apscope::detail {

// Sets out[i] = c / scale, where c is the value of `format` that in[i] * scale projects to. Product
// and quotient are fp64 numbers, rounded to nearest, ties to even: the product is exact for fp32
// numbers and a scale of at most 29 significant bits, and for every power of two within fp64's
// range. A quotient for an fp32 result is rounded to fp32 once more. A NaN gives the result that
// quantize() gives. Random words, threads and lengths are as for quantize(). Throws
// std::invalid_argument unless `scale` is positive and finite.
void quantize_scaled(std::span<const float> in, std::span<float> out, double scale,
                     const FloatFormat& format, const Projection& projection,
                     const RandomSource& random = {}, int threads = 1);
void quantize_scaled(std::span<const double> in, std::span<double> out, double scale,
                     const FloatFormat& format, const Projection& projection,
                     const RandomSource& random = {}, int threads = 1);

}  // namespace apscope::detail
