// Chooses the step for the statistics of a cast, and converts its totals: host only.
#pragma once

#include <cmath>

#include "analysis/cuda/error_step.h"
#include "emulation/cuda/cast/step_choice.h"

namespace apscope::detail {

inline FloatScale make_float_scale(const FloatFormat& format, const Projection& projection,
                                   double scale) {
    return {make_cast<double>(format, projection), scale, 1.0, format.smallest_normal(),
            format.largest()};
}

// True if the moments of this rounding's draws are added up, so partial sums need space for them.
inline bool has_moments(const Projection& projection) {
    return is_stochastic(projection.rounding) &&
           projection.rounding != RoundingMode::stochastic_exact;
}

// Calls f(step). Element i draws word i of `stream`; if `stream` is null, of the stream that
// quantize() uses.
template <class F>
void with_error_step(const float* in, float* out, std::size_t n, const FloatFormat& format,
                     const Projection& projection, double scale, std::uint64_t seed,
                     const RandomStream* stream, const ErrorPartials& partials, F&& f) {
    validate(projection, format);
    require_fp32(format, "an array of fp32 numbers");
    const FloatScale float_scale = make_float_scale(format, projection, scale);
    int exponent = 0;
    const double inverse = std::frexp(scale, &exponent) == 0.5 ? 1.0 / scale : 0.0;
    const bool draws = has_moments(projection);
    const auto call = [&]<class Rounding>(const Rounding& rounding) {
        if constexpr (!std::is_same_v<Rounding, AdditionRounding>) {
            if (draws)
                return f(ErrorLaneStep<Rounding, true>{in, out, n, rounding, float_scale, inverse,
                                                       partials});
        }
        f(ErrorLaneStep<Rounding, false>{in, out, n, rounding, float_scale, inverse, partials});
    };
    if (scale == 1.0 && stream == nullptr) {
        return with_rounding<float>(
            format, projection, seed,
            [&]<int Size, class Rounding>(const Rounding& rounding) { call(rounding); });
    }
    call(RuleRounding<double>{float_scale.cast, stream != nullptr
                                                    ? *stream
                                                    : array_stream(seed, projection.drawn_bits())});
}

inline ErrorStatistics error_statistics_of(std::size_t n, const double* sums,
                                           const std::uint64_t* counts, double max_ulp,
                                           const double* moments) {
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
    if (moments != nullptr) {
        s.sums[ErrorStatistics::expected_error] = moments[0];
        s.sums[ErrorStatistics::expected_variance] = moments[1];
        s.moments_defined = moments[2] == 0.0;
    }
    return s;
}

}  // namespace apscope::detail
