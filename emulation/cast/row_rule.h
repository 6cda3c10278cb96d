// Applies the rounding rule (core/rounding.h) to a row of fp64 numbers, as vector code, for casts
// that have no faster path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding.h"

namespace apscope::detail {

// Sets out[i] = round_to_format(in[i]), with the random integer words[i], left-aligned, if the mode
// is stochastic; other modes do not read `words`. `out` may be `in`.
void round_by_rule(const double* in, double* out, std::size_t count, const Cast<double>& cast,
                   const std::uint64_t* words = nullptr);

}  // namespace apscope::detail
