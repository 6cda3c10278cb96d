// What recipes with one real scale a tensor or block share: the largest value over amax, in fp32.
#pragma once

#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// float_keys, but overflow saturates and partial sums are rounded to `accumulate`, by default.
std::vector<SchemeKey> saturating_keys(std::vector<SchemeKey> own, std::string_view accumulate);

// fl32(largest / amax), at most FLT_MAX, never 0; pow2: its significand's fraction set to 0. amax counts as at
// least eps; 0 gives 1.
double fp32_ratio(double largest, double amax, double eps, bool pow2);

}  // namespace apscope::detail
