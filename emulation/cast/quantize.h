// Formats applied to arrays: quantize (numbers to the values of a format that they project to),
// encode (numbers to codes) and decode (codes to numbers).
//
// Arrays hold fp32 or fp64 numbers. fp64 numbers are rounded once, never through fp32. fp32 arrays
// need a format whose values are fp32 numbers (FloatFormat::fits_fp32()); others are refused
// (std::invalid_argument).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/philox.h"
#include "core/projection.h"
#include "core/rounding.h"
#include "emulation/cast/cast_plan.h"

namespace apscope::detail {

// Where stochastic rounding takes its random integers from: the stream keyed by a seed, element i
// of an array drawing word first_element + i, or integers of the caller, one per element.
struct RandomSource {
    std::uint64_t seed = 0;
    std::uint64_t first_element = 0;
    std::optional<std::span<const std::uint64_t>> words = {};
};

// quantize() with a plan that is made once, for many calls.
template <class Real>
class ArrayQuantizer {
public:
    // Throws std::invalid_argument for formats and projections that quantize() refuses.
    ArrayQuantizer(const FloatFormat& format, const Projection& projection);

    void operator()(std::span<const Real> in, std::span<Real> out, const RandomSource& random = {},
                    int threads = 1) const;
    const Cast<Real>& cast() const { return plan_.cast; }

private:
    Projection projection_;
    CastPlan<Real> plan_;
};

// out[i] = the value of `format` that in[i] projects to. `in` and `out` have the same length and
// are the same array or do not overlap. Deterministic modes ignore `random`. `threads` = 0 uses all
// of the machine's; their number never changes a bit.
void quantize(std::span<const float> in, std::span<float> out, const FloatFormat& format,
              const Projection& projection, const RandomSource& random = {}, int threads = 1);
void quantize(std::span<const double> in, std::span<double> out, const FloatFormat& format,
              const Projection& projection, const RandomSource& random = {}, int threads = 1);

// The loop over the one rule, element by element, for checking the functions above.
void quantize_by_rule(std::span<const float> in, std::span<float> out, const FloatFormat& format,
                      const Projection& projection, const RandomSource& random = {});
void quantize_by_rule(std::span<const double> in, std::span<double> out, const FloatFormat& format,
                      const Projection& projection, const RandomSource& random = {});

// fp64 numbers that are fp32 numbers as fp32, and back: what an array library's conversion gives,
// but for a caller whose processor flushes subnormals too.
void narrow(std::span<const double> in, std::span<float> out);
void widen(std::span<const float> in, std::span<double> out);

// Codes of the projected values, in 8, 16, 32 or 64 bits each, of fp32 or fp64 numbers. A NaN
// result in a format without NaN takes `nan_code`, or is refused (std::invalid_argument) if none is
// given.
template <class Real, class Code>
void encode(std::span<const Real> in, std::span<Code> out, const FloatFormat& format,
            const Projection& projection, std::optional<std::uint64_t> nan_code,
            const RandomSource& random = {}, int threads = 1);

// Values of codes. A code wider than the format is refused (std::invalid_argument). NaN codes give
// the canonical quiet NaN, or one with their sign and payload.
template <class Code, class Real>
void decode(std::span<const Code> in, std::span<Real> out, const FloatFormat& format,
            bool keep_payload = false, int threads = 1);

}  // namespace apscope::detail
