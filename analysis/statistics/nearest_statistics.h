// Casts to nearest, ties to even, and what they lose, in one pass over the numbers of a block.
#pragma once

#include <cstddef>
#include <optional>

#include "analysis/statistics/nearest_kernels.h"
#include "core/projection.h"

namespace apscope::detail {

// The cast, if this way serves it: the projection and format those of round_row(), in fp32.
std::optional<NearestCast> make_nearest_cast(const FloatFormat& format, const Projection& projection);

// out[i] = in[i] rounded (`out` is not looked at where the result is unused), and what add_block() and count_limits() make of
// the two, in one block of at most 4096 numbers that do not overlap. False, and nothing added, where a number is not finite or beyond
// the format's largest: then out holds nothing of use.
bool add_nearest(ErrorStatistics& statistics, const float* in, float* out, std::size_t count, const NearestCast& cast, Casted how);

}  // namespace apscope::detail
