// Casts to nearest, ties to even, and their errors, in one pass over the numbers of a block.
#pragma once

#include <cstddef>
#include <optional>

#include "analysis/statistics/nearest_kernels.h"
#include "core/projection.h"

namespace apscope::detail {

// The cast, if this path supports it: the projection and format those of round_row(), in fp32.
std::optional<NearestCast> make_nearest_cast(const FloatFormat& format,
                                             const Projection& projection);

// out[i] = in[i] rounded (`out` is not read if the result is unused), and add_block() and
// count_limits() of the two, in one block of at most 4096 numbers that do not overlap. False, and
// nothing added, if a number is not finite or beyond the format's largest: then the content of out
// is undefined.
bool add_nearest(ErrorStatistics& statistics, const float* in, float* out, std::size_t count,
                 const NearestCast& cast, StoreMode how);

}  // namespace apscope::detail
