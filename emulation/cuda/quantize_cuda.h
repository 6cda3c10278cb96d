// quantize() for arrays in a GPU's memory: the same bits as emulation/quantize.h gives on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/float_format.h"
#include "core/projection.h"

struct CUstream_st;  // cudaStream_t is CUstream_st*: callers need no CUDA header

namespace apscope {

// out[i] = the value of `format` that in[i] projects to. `in` and `out` are device pointers to n
// floats each, the same array or apart. The work is put on `stream` (null: the default one) of the
// current device, and the call returns without waiting for it. Stochastic rounding draws the word
// of element first_element + i of the stream keyed by `seed`. Throws std::invalid_argument for a
// projection the format cannot follow, std::runtime_error where CUDA refuses.
void quantize_on_device(const float* in, float* out, std::size_t n, const FloatFormat& format, const Projection& projection,
                        std::uint64_t seed, CUstream_st* stream, std::uint64_t first_element = 0);

}  // namespace apscope
