// all_reduce() for arrays in a GPU's memory. The results have the same bits as those of
// emulation/allreduce/reduce.h on the host, except for the sign and payload of a NaN in the
// unrounded sums of the topology `exact`.
#pragma once

#include <cstddef>

#include "emulation/allreduce/reduce.h"

struct CUstream_st;

namespace apscope::detail {

// The scale of the values, and the divisor of the sum.
struct ReduceScale {
    double scale = 1.0;    // factor of the values before they are rounded; an fp32 number or a
                           // power of two, so that the products are exact in fp64
    double divisor = 1.0;  // divisor of the sum, after the sum is divided by the scale
};

// Sets `out`, n values, to the sums of `in`, which has `workers` rows of n values; both are device
// pointers of the current device. `options.threads` is ignored. Returns without waiting for
// `stream`. Throws as quantize_on_device() does.
void all_reduce_on_device(const float* in, std::size_t workers, double* out, std::size_t n,
                          const FloatFormat& format, const AllReduceOptions& options,
                          const ReduceScale& scale, CUstream_st* stream);

}  // namespace apscope::detail
