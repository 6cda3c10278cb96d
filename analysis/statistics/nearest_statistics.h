// Casts to nearest, ties to even, and their errors, in one pass over the numbers of a block.
#pragma once

#include <cstddef>
#include <optional>

#include "analysis/statistics/nearest_kernels.h"
#include "core/projection.h"

namespace apscope::detail {

// The constants of the cast; none if add_nearest() does not support the format or the projection.
std::optional<NearestCast> make_nearest_cast(const FloatFormat& format,
                                             const Projection& projection);

// Rounds out[i] = in[i] (`out` is ignored with StoreMode::unused) and adds the statistics of the
// pairs, as add_block() and count_limits() do, for one block of at most 4096 numbers; the arrays do
// not overlap. Returns false, and adds nothing, if a number is not finite or exceeds the format's
// largest; the content of `out` is then undefined.
bool add_nearest(ErrorStatistics& statistics, const float* in, float* out, std::size_t count,
                 const NearestCast& cast, StoreMode how);

}  // namespace apscope::detail
