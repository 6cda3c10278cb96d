// Headroom: the factor by which a scale leaves room for the sum of the workers' values, and the
// integer exponents that follow from it. All by integer arithmetic on the bits of an fp32 amax;
// no logarithm is taken.
#pragma once

#include <array>
#include <string_view>

namespace apscope::detail {

inline constexpr std::array<std::string_view, 3> headroom_choices = {"workers", "sqrt_workers", "one"};

// ceil(log2(H amax)), H = workers, sqrt(workers) or 1; amax is a positive fp32 number.
int exponent_with_headroom(double amax, int workers, std::string_view headroom);

// The largest s with H amax 2^s <= limit; limit is a positive fp32 number.
int largest_shift_within(double amax, int workers, std::string_view headroom, double limit);

}  // namespace apscope::detail
