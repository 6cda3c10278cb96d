// The additions of an all-reduce on a GPU, and the moments of stochastic rounding. These functions
// are not inlined, so a kernel has one copy of each, as of round_by_mode() (group_rounding.h).
#pragma once

#include <cstdint>

#include "core/exact_sum.h"
#include "core/stochastic_moments.h"
#include "emulation/cuda/cast/group_rounding.h"

namespace apscope::detail {

// Returns round(a + b); `random` is the random integer, left-aligned.
APSCOPE_HD_CALL double add_by_mode(double a, double b, const Cast<double>& cast,
                                   std::uint64_t random) {
    double result = 0;
    dispatch(cast.rounding, [&]<RoundingMode M>() {
        if constexpr (M != RoundingMode::stochastic_exact)
            result = add_rounded<M>(a, b, cast, random);
    });
    return result;
}

APSCOPE_HD_CALL RoundingMoments moments_by_mode(double v, const Cast<double>& cast) {
    return stochastic_moments(v, cast);
}

}  // namespace apscope::detail
