// ordered_matmul() for fp32 arrays in a GPU's memory. The results have the same bits as those of
// emulation/arithmetic/ordered_sum.h on the host.
#pragma once

#include <cstddef>

#include "emulation/arithmetic/ordered_sum.h"

struct CUstream_st;

namespace apscope::detail {

// Sets out[h][i][j] to the sum over k of a[h][i][k] b[h][k][j], and c[h][i][j] unless c is null;
// the pointers are device pointers of the current device. `options.threads` is ignored. Returns
// without waiting for `stream`, except for the order of a matrix unit that names its inputs'
// formats, whose operands are read first. Throws as ordered_matmul() and quantize_on_device() do,
// and std::invalid_argument for order exact.
void matmul_on_device(const float* a, const float* b, const float* c, float* out,
                      std::size_t batches, std::size_t rows, std::size_t terms, std::size_t columns,
                      const SumOptions& options, CUstream_st* stream);

// Sets `out` to the sums in the accumulator's format and returns true if matmul_tile.h serves the
// options, which have been validated; else returns false.
bool matmul_tiles_on_device(const float* a, const float* b, float* out, std::size_t batches,
                            std::size_t rows, std::size_t terms, std::size_t columns,
                            const SumOptions& options, CUstream_st* stream);

}  // namespace apscope::detail
