// Casts of arrays: quantize() rounds numbers to values of a format, encode() converts numbers to
// codes, and decode() converts codes to values.
//
// Arrays hold fp32 or fp64 numbers. fp64 numbers are rounded once, never through fp32. fp32 arrays
// need a format whose values are fp32 numbers (FloatFormat::fits_fp32()); for other formats,
// functions throw std::invalid_argument.
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

// The source of the random integers of stochastic rounding: the stream of a seed, from which
// element i of an array draws word first_element + i, or integers of the caller, one per element.
struct RandomSource {
    std::uint64_t seed = 0;
    std::uint64_t first_element = 0;
    std::optional<std::span<const std::uint64_t>> words = {};
};

// A function object that does the same as quantize() and makes its plan once, for many calls.
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

// Sets out[i] to the value of `format` that in[i] projects to. `in` and `out` have the same length
// and are the same array or do not overlap. Deterministic modes ignore `random`. `threads` = 0 uses
// all hardware threads; the number of threads never changes a bit.
void quantize(std::span<const float> in, std::span<float> out, const FloatFormat& format,
              const Projection& projection, const RandomSource& random = {}, int threads = 1);
void quantize(std::span<const double> in, std::span<double> out, const FloatFormat& format,
              const Projection& projection, const RandomSource& random = {}, int threads = 1);

// Applies the rounding rule element by element, to check the functions above.
void quantize_by_rule(std::span<const float> in, std::span<float> out, const FloatFormat& format,
                      const Projection& projection, const RandomSource& random = {});
void quantize_by_rule(std::span<const double> in, std::span<double> out, const FloatFormat& format,
                      const Projection& projection, const RandomSource& random = {});

// Convert fp64 numbers that are fp32 numbers to fp32, and back. The conversion is exact even if the
// caller's environment flushes subnormals.
void narrow(std::span<const double> in, std::span<float> out);
void widen(std::span<const float> in, std::span<double> out);

// Writes the codes of the projected values, in 8, 16, 32 or 64 bits each. In a format without NaN,
// a NaN result becomes `nan_code`; if `nan_code` is absent, the function throws
// std::invalid_argument.
template <class Real, class Code>
void encode(std::span<const Real> in, std::span<Code> out, const FloatFormat& format,
            const Projection& projection, std::optional<std::uint64_t> nan_code,
            const RandomSource& random = {}, int threads = 1);

// Writes the values of codes. Throws std::invalid_argument for a code that is wider than the
// format. NaN codes give the canonical quiet NaN, or, with keep_payload, a NaN with the sign and
// the payload of the code.
template <class Code, class Real>
void decode(std::span<const Code> in, std::span<Real> out, const FloatFormat& format,
            bool keep_payload = false, int threads = 1);

}  // namespace apscope::detail
