// The inverse error function by a fixed sequence of IEEE operations: a bisection with erf's Taylor
// series that ends at neighbouring numbers. For abs(z) <= 1 - 1e-6, the series gives at least ten
// correct digits of 1 - abs(z).
#pragma once

#include <cmath>

namespace apscope::detail {

// erf(x), 0 <= x <= 4.
inline double erf_series(double x) {
    double power = x, sum = x;  // (-1)^n x^(2n+1) / n!
    for (int n = 1; n < 100; ++n) {
        power *= -x * x / n;
        sum += power / (2 * n + 1);
    }
    return 1.1283791670955126 * sum;  // 2 / sqrt(pi)
}

inline double inverse_erf(double z) {
    double low = 0.0, high = 4.0, middle = 2.0;
    while (middle > low && middle < high) {
        (erf_series(middle) < std::abs(z) ? low : high) = middle;
        middle = 0.5 * (low + high);
    }
    return z < 0.0 ? -low : low;
}

}  // namespace apscope::detail
