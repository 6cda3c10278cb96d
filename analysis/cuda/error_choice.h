// Chooses the step for the statistics of a cast, and converts its totals: host only.
#pragma once

#include "analysis/cuda/error_step.h"
#include "emulation/cuda/cast/step_choice.h"

namespace apscope::detail {

inline FloatScale make_float_scale(const FloatFormat& format, const Projection& projection) {
    return {make_cast<double>(format, projection), 1.0, 1.0, format.smallest_normal(),
            format.largest()};
}

// True if the moments of this rounding's draws are added up.
inline bool has_moments(const Projection& projection) {
    return is_stochastic(projection.rounding) &&
           projection.rounding != RoundingMode::stochastic_exact;
}

// Calls f(step), which draws the words of quantize().
template <class F>
void with_error_step(const float* in, float* out, std::size_t n, const FloatFormat& format,
                     const Projection& projection, std::uint64_t seed, ErrorBlock* blocks, F&& f) {
    validate(projection, format);
    require_fp32(format, "an array of fp32 numbers");
    const FloatScale float_scale = make_float_scale(format, projection);
    const bool draws = has_moments(projection);
    const NarrowLimits limits = NarrowLimits::of(float_scale);
    const auto call = [&]<class Rounding>(const Rounding& rounding) {
        const auto with = [&]<bool Draws>() {
            f(ErrorBlockStep<Rounding, Draws>{in, out, n, rounding, float_scale, limits, blocks});
        };
        if constexpr (!std::is_same_v<Rounding, AdditionRounding>) {
            if (draws) return with.template operator()<true>();
        }
        with.template operator()<false>();
    };
    // A rounding to fp32 draws for neighbouring elements; a lane of the step has neighbours only if
    // it takes one element at a time.
    const bool one_by_one = draws || !is_stochastic(projection.rounding);
    if (one_by_one) {
        return with_rounding<float>(
            format, projection, seed,
            [&]<int Size, class Rounding>(const Rounding& rounding) { call(rounding); });
    }
    call(RuleRounding<float>{make_cast<float>(format, projection),
                             array_stream(seed, projection.drawn_bits())});
}

inline ErrorStatistics error_statistics_of(std::size_t n, const ErrorTotalStep::Totals& total) {
    ErrorStatistics s;
    s.count = n;
    add_totals(s, total);
    return s;
}

}  // namespace apscope::detail
