// Functions for 95 % intervals: a quantile, and the bias of a logarithm. They do not use libm, so
// every machine gives the same bits.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace apscope::detail {

// The ends of an interval, and the unbiased estimate inside it.
struct Interval {
    static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    double low = unknown, high = unknown, middle = unknown;
};

// The least number of steps, or windows of steps, for an interval. For fewer, Student's t is at
// least 4.3, so the interval would be too wide to be useful.
constexpr std::size_t least_observations = 4;

// The 95 % interval of a quotient of sums, from independent observations (numerator, denominator)
// by the residuals n - quotient d and Student's t; its middle is the quotient. NaN for fewer than
// `least_observations`, and if the quotient is not finite.
struct Ratio {
    double numerator, denominator;
};
Interval interval_of_ratio(std::span<const Ratio> observed);

// The 0.975 quantile of Student's t; NaN below one degree of freedom. From 5 degrees on it is
// computed by Cornish and Fisher's expansion in 1 / freedom to the fourth order (Abramowitz and
// Stegun, 26.7.5), within 0.0005; for fewer by a table of integer degrees, linear in 1 / freedom
// between them.
double student_t(double freedom);

// E[log(v / sigma^2)] of a variance v that is estimated from normal draws: digamma(f / 2) - log(f /
// 2) < 0.
double log_bias(double freedom);

// The bias of the mean log of estimated variances, computed from the change of this mean when a
// worker is left out. It is at most 0, and 0 if the change is not below 0.
//
// Let d be the effective number of independent directions of a variance, estimated from W workers
// (at least 3) with (W - 1) d degrees of freedom. Then `change`, the mean over the variances and
// the workers of the natural log of the variance without a worker divided by that with all, is
// log_bias((W - 2) d) - log_bias((W - 1) d), which is solved for d; the bias is
// log_bias((W - 1) d).
double bias_of_log_variance(double change, int workers);

}  // namespace apscope::detail
