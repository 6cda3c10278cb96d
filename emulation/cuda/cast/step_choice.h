// Which rounding and which group size serve a format and a projection: host only. Calls
// f.template operator()<Size>(rounding) with one of group_rounding.h.
#pragma once

#include "core/float_format.h"
#include "emulation/cuda/cast/group_rounding.h"

namespace apscope::detail {

// Eight elements share a Philox block of up to 16 bits each; else 16 bytes of fp32 make a group.
template <class Rounding, class F>
void with_group_size(const Rounding& rounding, const Projection& projection, F&& f) {
    const bool eight = is_stochastic(projection.rounding) && projection.drawn_bits() <= 16;
    eight ? f.template operator()<8>(rounding) : f.template operator()<4>(rounding);
}

template <class Real, class F>
void with_rounding(const FloatFormat& format, const Projection& projection, std::uint64_t seed, F&& f) {
    const Cast<Real> cast = make_cast<Real>(format, projection);
    const RandomStream stream = array_stream(seed, projection.drawn_bits());
    if constexpr (std::is_same_v<Real, float>) {
        if (addition_serves<float>(format, projection, cast)) {
            return f.template operator()<4>(AdditionRounding{make_addition_cast(cast)});
        }
        if (split_serves(format, projection, cast)) {
            return with_group_size(SplitRounding{make_split_cast(format, cast), projection.rounding, stream}, projection, f);
        }
    }
    with_group_size(RuleRounding<Real>{cast, projection.rounding, stream}, projection, f);
}

}  // namespace apscope::detail
