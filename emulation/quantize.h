// Formats applied to arrays: quantize (fp32 to the nearest value of a format, kept as fp32),
// encode (fp32 to codes) and decode (codes to fp32).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/philox.h"
#include "core/projection.h"
#include "core/rounding.h"

namespace apscope {

// out[i] = the value of `format` that in[i] projects to. `in` and `out` have the same length and
// are the same array or do not overlap. Stochastic rounding draws the word of element
// first_element + i of the stream keyed by `seed`; the other modes ignore the seed. `threads` = 0
// takes all of the machine's; their number never changes a bit.
void quantize(std::span<const float> in, std::span<float> out, const FloatFormat& format, const Projection& projection,
              std::uint64_t seed = 0, int threads = 1, std::uint64_t first_element = 0);

// fp64 values, rounded once to the format (never through fp32); the results are fp32 values.
void quantize(std::span<const double> in, std::span<double> out, const FloatFormat& format, const Projection& projection,
              std::uint64_t seed = 0, int threads = 1, std::uint64_t first_element = 0);

// fp64 values that are fp32 numbers, as fp32: what an array library's conversion gives, but for a
// caller whose processor flushes subnormals too.
void narrow(std::span<const double> in, std::span<float> out);

// The fp32 loop over the one rule, element by element, for checking the line above.
void quantize_by_rule(std::span<const float> in, std::span<float> out, const FloatFormat& format,
                      const Projection& projection, std::uint64_t seed = 0, std::uint64_t first_element = 0);

// Codes of the projected values, in 8, 16 or 32 bits each. A NaN result in a format without NaN
// takes `nan_code`, or is refused (std::invalid_argument) if none is given.
void encode(std::span<const float> in, std::span<std::uint8_t> out, const FloatFormat& format, const Projection& projection,
            std::optional<std::uint32_t> nan_code, std::uint64_t seed, int threads);
void encode(std::span<const float> in, std::span<std::uint16_t> out, const FloatFormat& format, const Projection& projection,
            std::optional<std::uint32_t> nan_code, std::uint64_t seed, int threads);
void encode(std::span<const float> in, std::span<std::uint32_t> out, const FloatFormat& format, const Projection& projection,
            std::optional<std::uint32_t> nan_code, std::uint64_t seed, int threads);

// Values of codes. A code wider than the format is refused (std::invalid_argument).
void decode(std::span<const std::uint8_t> in, std::span<float> out, const FloatFormat& format, int threads);
void decode(std::span<const std::uint16_t> in, std::span<float> out, const FloatFormat& format, int threads);
void decode(std::span<const std::uint32_t> in, std::span<float> out, const FloatFormat& format, int threads);

}  // namespace apscope
