#include "analysis/summary/intervals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/fixed_log2.h"

namespace apscope::detail {

namespace {

constexpr double ln2 = 0.6931471805599453;
// The normal distribution's quantile at 0.975.
constexpr double normal = 1.959963984540054;
// The quantiles for 1 to 4 degrees, where the error of the expansion exceeds 1e-3.
constexpr std::array few{12.706204736174694, 4.302652729749462, 3.182446305283708,
                         2.776445105197793};

constexpr double power(double x, int n) { return n == 0 ? 1.0 : x * power(x, n - 1); }

double expansion(double freedom) {
    constexpr double z = normal;
    constexpr std::array terms{
        (power(z, 3) + z) / 4, (5 * power(z, 5) + 16 * power(z, 3) + 3 * z) / 96,
        (3 * power(z, 7) + 19 * power(z, 5) + 17 * power(z, 3) - 15 * z) / 384,
        (79 * power(z, 9) + 776 * power(z, 7) + 1482 * power(z, 5) - 1920 * power(z, 3) - 945 * z) /
            92160};
    double sum = 0.0, scale = 1.0;
    for (const double term : terms) {
        scale *= freedom;
        sum += term / scale;
    }
    return z + sum;
}

}  // namespace

Interval interval_of_ratio(std::span<const Ratio> observed) {
    double numerator = 0.0, denominator = 0.0, squares = 0.0;
    for (const Ratio& one : observed) {
        numerator += one.numerator;
        denominator += one.denominator;
    }
    const double quotient = numerator / denominator;
    if (observed.size() < least_observations || !std::isfinite(quotient)) return {};
    for (const Ratio& one : observed) {
        const double residual = one.numerator - quotient * one.denominator;
        squares += residual * residual;
    }
    const double count = static_cast<double>(observed.size());
    const double half =
        student_t(count - 1) * std::sqrt(squares * count / (count - 1)) / denominator;
    return {quotient - half, quotient + half, quotient};
}

double student_t(double freedom) {
    if (!(freedom >= 1)) return std::numeric_limits<double>::quiet_NaN();
    if (freedom >= 5) return std::isinf(freedom) ? normal : expansion(freedom);
    const int low = std::min(static_cast<int>(freedom), 4);
    const auto quantile = [](int integer) {
        return integer == 5 ? expansion(5.0) : few[static_cast<std::size_t>(integer - 1)];
    };
    const double share = (1.0 / low - 1 / freedom) / (1.0 / low - 1.0 / (low + 1));
    return quantile(low) + share * (quantile(low + 1) - quantile(low));
}

double log_bias(double freedom) {
    double x = freedom / 2, shifted = 0.0;
    while (x < 6) {
        shifted -= 1 / x;
        x += 1;
    }
    const double f = 1 / (x * x);
    // The asymptotic series of digamma (Abramowitz and Stegun, 6.3.18), minus log x.
    return shifted + ln2 * fixed_log2(x / (freedom / 2)) - 0.5 / x -
           f * (1.0 / 12 - f * (1.0 / 120 - f * (1.0 / 252 - f * (1.0 / 240 - f / 132))));
}

double bias_of_log_variance(double change, int workers) {
    if (!(change < 0)) return 0.0;
    double low = 1e-2, high = 1e9;
    for (int i = 0; i < 80; ++i) {  // bisection in log d
        const double middle = std::sqrt(low * high);
        const double value = log_bias((workers - 2) * middle) - log_bias((workers - 1) * middle);
        (value < change ? low : high) = middle;
    }
    return log_bias((workers - 1) * low);
}

}  // namespace apscope::detail
