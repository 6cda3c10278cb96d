// Applies the rounding rule (core/rounding.h) to a row of fp64 numbers, as vector code: the path of
// every loop that has no shorter one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/rounding.h"

namespace apscope::detail {

// Sets out[i] = round_to_format(in[i]), with the random integer words[i], left-aligned, if the mode
// draws; else `words` is not read. `out` may be `in`.
void round_by_rule(const double* in, double* out, std::size_t count, const Cast<double>& cast,
                   const std::uint64_t* words = nullptr);

}  // namespace apscope::detail
