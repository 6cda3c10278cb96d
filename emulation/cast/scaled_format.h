// A power-of-two scale as a shift of a format's exponents: 2^k x rounded to F is 2^k times x
// rounded to the format whose values are 2^-k times those of F. So a cast under the scale 2^k is a
// cast to the latter format without a scale, whose results need not be divided by the scale.
#pragma once

#include <optional>

#include "core/float_format.h"
#include "emulation/cast/quantize_job.h"

namespace apscope::detail {

// The format whose values are 2^-k times those of `format`; nothing if any of them is not an fp32
// number.
std::optional<FloatFormat> scaled_format(const FloatFormat& format, int k);

// The same format if a message of `format` under the scale 2^k is rounded to it, in fp32;
// stochastic_exact rounds the code.
std::optional<FloatFormat> narrow_format(const FloatFormat& format, const Projection& projection,
                                         int k);

// A cast of fp32 numbers, prepared for round_row().
QuantizeJob<float> make_row_job(const FloatFormat& format, const Projection& projection);
// Sets out[i] to the rounded in[i]; stochastic rounding uses word first + i of the stream. `in` may
// be `out`.
void round_row(QuantizeJob<float>& job, const float* in, float* out, std::size_t count,
               const RandomStream& stream, std::uint64_t first);

}  // namespace apscope::detail
