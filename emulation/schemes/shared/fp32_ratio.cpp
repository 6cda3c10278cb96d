#include "emulation/schemes/shared/fp32_ratio.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace apscope::detail {

double fp32_ratio(double largest, double amax, double eps, bool pow2) {
    // The sum of a gradient and an error of earlier steps can exceed FLT_MAX.
    const float size =
        static_cast<float>(std::min(std::max(amax, eps), static_cast<double>(FLT_MAX)));
    if (size == 0.0f) return 1.0;
    const float scale = std::clamp(static_cast<float>(largest) / size, FLT_TRUE_MIN, FLT_MAX);
    return pow2 ? std::ldexp(1.0, std::ilogb(scale)) : scale;
}

}  // namespace apscope::detail
