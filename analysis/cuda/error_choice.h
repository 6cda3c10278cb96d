// Which step serves the statistics of a cast, and what becomes of its totals: host only.
#pragma once

#include <cmath>

#include "analysis/cuda/error_step.h"
#include "emulation/cuda/step_choice.h"

namespace apscope {

inline FloatScale make_float_scale(const FloatFormat& format, const Projection& projection, double scale) {
    return {make_cast<double>(format, projection), scale, 1.0, format.smallest_normal(), format.largest()};
}

// Calls f(step). Element i draws word i of `stream`; without one, of the stream that quantize() takes.
template <class F>
void with_error_step(const float* in, float* out, std::size_t n, const FloatFormat& format, const Projection& projection, double scale,
                     std::uint64_t seed, const RandomStream* stream, const ErrorPartials& partials, F&& f) {
    validate(projection, format);
    require_fp32(format, "an array of fp32 numbers");
    const FloatScale float_scale = make_float_scale(format, projection, scale);
    int exponent = 0;
    const double inverse = std::frexp(scale, &exponent) == 0.5 ? 1.0 / scale : 0.0;
    if (scale == 1.0 && stream == nullptr) {
        return with_rounding<float>(format, projection, seed, [&]<int Size, class Rounding>(const Rounding& rounding) {
            f(ErrorLaneStep<Rounding>{in, out, n, rounding, float_scale, inverse, partials});
        });
    }
    const RuleRounding<double> rounding{float_scale.cast, projection.rounding,
                                        stream != nullptr ? *stream : array_stream(seed, projection.drawn_bits())};
    f(ErrorLaneStep<RuleRounding<double>>{in, out, n, rounding, float_scale, inverse, partials});
}

inline ErrorStatistics error_statistics_of(std::size_t n, const double* sums, const std::uint64_t* counts, double max_ulp) {
    using C = ErrorCounts;
    ErrorStatistics s;
    s.count = n;
    s.counted = counts[C::counted];
    s.nonzero = counts[C::nonzero];
    s.underflow = counts[C::underflow];
    s.subnormal = counts[C::subnormal];
    s.saturated = counts[C::saturated];
    s.overflow = counts[C::overflow];
    s.nan = counts[C::nan];
    s.infinite = counts[C::infinite];
    for (int k = 0; k < error_sums; ++k) s.sums[static_cast<std::size_t>(k)] = sums[k];
    s.max_ulp = max_ulp;
    return s;
}

}  // namespace apscope
