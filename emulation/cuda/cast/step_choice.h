// Chooses the rounding and the group size for a cast's plan (emulation/cast/cast_plan.h): calls
// f.template operator()<Size>(rounding) with a rounding of group_rounding.h. Host only.
#pragma once

#include "core/float_format.h"
#include "emulation/cast/cast_plan.h"
#include "emulation/cuda/cast/group_rounding.h"

namespace apscope::detail {

// A group has eight elements if these share a Philox block (at most 16 random bits per element),
// else four elements (16 bytes of fp32).
template <class Rounding, class F>
void with_group_size(const Rounding& rounding, const Projection& projection, F&& f) {
    const bool eight = is_stochastic(projection.rounding) && projection.drawn_bits() <= 16;
    eight ? f.template operator()<8>(rounding) : f.template operator()<4>(rounding);
}

template <class Real, class F>
void with_rounding(const FloatFormat& format, const Projection& projection, std::uint64_t seed,
                   F&& f) {
    const CastPlan<Real> plan = make_plan<Real>(format, projection);
    const RandomStream stream = array_stream(seed, projection.drawn_bits());
    if constexpr (std::is_same_v<Real, float>) {
        if (plan.path == CastPath::addition)
            return f.template operator()<4>(AdditionRounding{plan.addition});
        if (plan.path == CastPath::split || plan.path == CastPath::scaled) {
            return with_group_size(SplitRounding{plan.split, stream}, projection, f);
        }
    }
    with_group_size(RuleRounding<Real>{plan.cast, stream}, projection, f);
}

}  // namespace apscope::detail
