// The scale of recipes that divide the largest number of the format by the amax of a tensor or
// block, in fp32.
#pragma once

namespace apscope::detail {

// fl32(largest / max(amax, eps)), at most FLT_MAX and never 0; 1 if amax and eps are 0. pow2: the
// scale is rounded down to a power of two.
double fp32_ratio(double largest, double amax, double eps, bool pow2);

}  // namespace apscope::detail
