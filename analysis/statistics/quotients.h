// Numbers of tables that may be missing or infinite: quotients of sums, and errors whose sums omit
// values that are not finite.
#pragma once

#include <limits>

namespace apscope::detail {

inline constexpr double missing = std::numeric_limits<double>::quiet_NaN(),
                        infinity = std::numeric_limits<double>::infinity();

// The quotient; NaN if the denominator is 0.
inline double quotient(double numerator, double denominator) {
    return denominator == 0.0 ? missing : numerator / denominator;
}
// An error, infinite with overflow, because its sums omit values that are not finite.
inline double infinite_with(double overflow, double value) {
    return overflow > 0 ? infinity : value;
}
// The NMSE of one row or of many, from the sums of squares.
inline double nmse_of_sums(double error, double reference, double overflow) {
    return infinite_with(overflow, quotient(error, reference));
}

}  // namespace apscope::detail
