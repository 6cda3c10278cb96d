// The scale of recipes with a real scale per tensor or block: largest value over amax, in fp32.
#pragma once

namespace apscope::detail {

// fl32(largest / amax), at most FLT_MAX, never 0; pow2: its significand's fraction set to 0. amax
// counts as at least eps; 0 gives 1.
double fp32_ratio(double largest, double amax, double eps, bool pow2);

}  // namespace apscope::detail
