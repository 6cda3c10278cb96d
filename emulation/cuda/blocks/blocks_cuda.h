// Block formats for fp32 arrays in a GPU's memory. The results have the same bits as those of
// emulation/blocks/blocks.h on the host. Pointers are device pointers of the current device; calls
// throw as quantize_on_device() does.
#pragma once

#include "emulation/blocks/blocks.h"

struct CUstream_st;

namespace apscope::detail {

// `out` is `in` or does not overlap it. Returns without waiting for `stream`.
void quantize_blocks_on_device(const float* in, float* out, const BlockShape& shape,
                               const BlockFormat& format, const Projection& projection,
                               std::uint64_t seed, CUstream_st* stream);

// Returns the tensor scale, or 1 for formats without one. With a tensor scale, the function waits
// for the stream.
float encode_blocks_on_device(const float* in, std::uint8_t* codes, std::uint8_t* scales,
                              const BlockShape& shape, const BlockFormat& format,
                              const Projection& projection, std::uint64_t seed,
                              CUstream_st* stream);

// Waits for the stream. Throws std::invalid_argument, which names the first code that is wider than
// its format.
void decode_blocks_on_device(const std::uint8_t* codes, const std::uint8_t* scales,
                             float tensor_scale, float* out, const BlockShape& shape,
                             const BlockFormat& format, CUstream_st* stream);

}  // namespace apscope::detail
