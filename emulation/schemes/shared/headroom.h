// The headroom H is the factor that a scale leaves for the sum of the workers' values. The
// exponents that follow from H amax are computed by integer arithmetic on the bits of an fp32 amax,
// without a logarithm.
#pragma once

#include <array>
#include <string_view>

#include "emulation/schemes/definition.h"

namespace apscope::detail {

enum class Headroom { workers, sqrt_workers, one };  // H = W, sqrt(W) or 1

// The key `headroom`, and its value.
SchemeKey headroom_key(
    std::string_view default_value = "workers",
    std::string_view meaning = "room left for the sum: workers, sqrt_workers or one");
Headroom headroom_of(const SchemeArguments& arguments);

// ceil(log2(H amax)); amax is a positive fp32 number.
int exponent_with_headroom(double amax, int workers, Headroom headroom);

// The largest s with H amax 2^s <= limit; limit is a positive fp32 number.
int largest_shift_within(double amax, int workers, Headroom headroom, double limit);

}  // namespace apscope::detail
