// The scale of recipes with a real scale per tensor or block: largest value over amax, in fp32.
#pragma once

namespace apscope::detail {

// fl32(largest / max(amax, eps)), at most FLT_MAX, never 0; 1 if the maximum is 0. pow2: rounded
// down to a power of two.
double fp32_ratio(double largest, double amax, double eps, bool pow2);

}  // namespace apscope::detail
