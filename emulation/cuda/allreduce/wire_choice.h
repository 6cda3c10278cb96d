// Chooses the rounding of messages (wire_scale.h). Host only.
#pragma once

#include <optional>
#include <utility>

#include "emulation/cuda/allreduce/wire_scale.h"
#include "emulation/cuda/cast/step_choice.h"

namespace apscope::detail {

// Calls f.template operator()<Size>(rounding). narrow: the format of decoded values if they are
// stored; cast: that of codes.
template <class F>
void with_wire_rounding(const std::optional<FloatFormat>& narrow, const Projection& projection,
                        const Cast<double>& cast, F&& f) {
    if (narrow) with_rounding<float>(*narrow, projection, 0, std::forward<F>(f));
    else if (rounds_by_quanta(cast)) f.template operator()<1>(QuantaRounding{cast, {}});
    else f.template operator()<1>(RuleRounding<double>{cast, {}});
}

}  // namespace apscope::detail
