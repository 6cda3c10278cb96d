#include "emulation/schemes/recipes/recipe_scales.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "emulation/schemes/shared/float_scheme.h"

namespace apscope::detail {

std::vector<SchemeKey> saturating_keys(std::vector<SchemeKey> own, std::string_view accumulate) {
    std::vector<SchemeKey> keys = float_keys(std::move(own), "ties_to_even", "saturate");
    for (SchemeKey& key : keys) {
        if (key.name == "accumulate") key.default_value = accumulate;
    }
    return keys;
}

double fp32_ratio(double largest, double amax, double eps, bool pow2) {
    // A sum that a worker remembers can lie beyond fp32.
    const float size = static_cast<float>(std::min(std::max(amax, eps), static_cast<double>(FLT_MAX)));
    if (size == 0.0f) return 1.0;
    const float scale = std::clamp(static_cast<float>(largest) / size, FLT_TRUE_MIN, FLT_MAX);
    return pow2 ? std::ldexp(1.0, std::ilogb(scale)) : scale;
}

}  // namespace apscope::detail
