// A cast of an array together with the statistics of its errors, in one pass over the numbers:
// the wire row of a replay with one worker and scale 1.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/statistics/result_row.h"
#include "core/projection.h"

namespace apscope::detail {

// out[i] = in[i] rounded, as quantize() does; an empty `out` discards the results. Throws
// std::invalid_argument if the format's values are not fp32 numbers. The row's columns about bits
// and scales stay empty. `threads` is as in quantize(); the number of threads changes no bit.
ResultRow cast_statistics(std::span<const float> in, std::span<float> out,
                          const FloatFormat& format, const Projection& projection,
                          std::uint64_t seed = 0, int threads = 1);

}  // namespace apscope::detail
