// Quantization fused with its error statistics on a GPU, with the same bits as quantize() and
// ErrorStatistics.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analysis/statistics/error_statistics.h"
#include "analysis/statistics/result_row.h"
#include "core/float_format.h"
#include "core/projection.h"

struct CUstream_st;

namespace apscope::detail {

// The statistics of y against x = in[0 .. n-1], where y is x rounded as quantize_on_device() does;
// out, if it is not null, receives y. Pointers are the device's; the call waits for `stream`.
// Throws as quantize_on_device() does. The moments of stochastic draws are among the sums.
ErrorStatistics quantize_statistics_on_device(const float* in, float* out, std::size_t n,
                                              const FloatFormat& format,
                                              const Projection& projection, std::uint64_t seed,
                                              CUstream_st* stream);
// The row that cast_statistics() (analysis/statistics/cast_statistics.h) gives for the same
// numbers.
ResultRow cast_statistics_on_device(const float* in, float* out, std::size_t n,
                                    const FloatFormat& format, const Projection& projection,
                                    std::uint64_t seed, CUstream_st* stream);

}  // namespace apscope::detail
