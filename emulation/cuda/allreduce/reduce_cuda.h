// all_reduce() for arrays in a GPU's memory: the same bits as emulation/allreduce/reduce.h gives on
// the host, but for the sign and payload of a NaN of the exact topology's unrounded sums.
#pragma once

#include <cstddef>

#include "emulation/allreduce/reduce.h"

struct CUstream_st;

namespace apscope::detail {

// How values are scaled before they are rounded, and the sum is scaled back.
struct ReduceScale {
    double scale = 1.0;    // an fp32 number or a power of two: the products are exact in fp64
    double divisor = 1.0;  // of the sum, once it is scaled back
};

// in: `workers` rows of n values, out: n values; device pointers of the current device.
// `options.threads` is ignored. Returns without waiting for `stream`. Throws as
// quantize_on_device() does.
void all_reduce_on_device(const float* in, std::size_t workers, double* out, std::size_t n,
                          const FloatFormat& format, const AllReduceOptions& options,
                          const ReduceScale& scale, CUstream_st* stream);

}  // namespace apscope::detail
