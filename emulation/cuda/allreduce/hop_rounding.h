// The additions of an all-reduce on a GPU.
#pragma once

#include <cstdint>

#include "core/exact_sum.h"
#include "emulation/cuda/cast/group_rounding.h"

namespace apscope::detail {

// Returns round(a + b); `random` is the random integer, left-aligned. Not inlined, as
// round_by_mode().
APSCOPE_HD_CALL double add_by_mode(double a, double b, const Cast<double>& cast,
                                   std::uint64_t random) {
    double result = 0;
    dispatch(cast.rounding, [&]<RoundingMode M>() {
        if constexpr (M != RoundingMode::stochastic_exact)
            result = add_rounded<M>(a, b, cast, random);
    });
    return result;
}

}  // namespace apscope::detail
