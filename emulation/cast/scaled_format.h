// A power-of-two scale as a shift of a format's exponents: round(2^k x) to F is 2^k times x rounded
// to the format whose values are 2^-k times those of F. So a scaled cast is a cast, and a sent
// value decodes to itself.
#pragma once

#include <optional>

#include "core/float_format.h"
#include "emulation/cast/quantize_job.h"

namespace apscope::detail {

// The format of the values 2^-k v, v of `format`; nothing if not all are fp32 numbers.
std::optional<FloatFormat> scaled_format(const FloatFormat& format, int k);

// Casts of fp32 numbers, made ready for round_row().
QuantizeJob<float> make_row_job(const FloatFormat& format, const Projection& projection);
// out[i] = in[i] rounded; the draw of in[i] is element first + i of the stream. `in` may be `out`.
void round_row(QuantizeJob<float>& job, const float* in, float* out, std::size_t count,
               const RandomStream& stream, std::uint64_t first);

}  // namespace apscope::detail
