// quantize(), encode() and decode() for arrays in a GPU's memory. The results have the same bits as
// those of emulation/cast/quantize.h on the host.
//
// Arrays are device pointers to n elements of the current device. The work is put on `stream`
// (null: the legacy default stream), and functions return without waiting for it unless their
// comment says so. All functions throw std::invalid_argument for a projection that the format does
// not support, DeviceOutOfMemory if the GPU's memory is too small, std::runtime_error if CUDA
// fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/float_format.h"
#include "core/projection.h"

struct CUstream_st;  // cudaStream_t is CUstream_st*, so callers need no CUDA header

namespace apscope::detail {

// Sets out[i] to the value of `format` that in[i] projects to; `in` and `out` are the same array or
// do not overlap. Stochastic rounding draws the word of element first_element + i of the stream
// keyed by `seed`.
void quantize_on_device(const float* in, float* out, std::size_t n, const FloatFormat& format,
                        const Projection& projection, std::uint64_t seed, CUstream_st* stream,
                        std::uint64_t first_element = 0);
void quantize_on_device(const double* in, double* out, std::size_t n, const FloatFormat& format,
                        const Projection& projection, std::uint64_t seed, CUstream_st* stream,
                        std::uint64_t first_element = 0);

// Writes the codes of the projected values. If the format has no NaN and there is no `nan_code`,
// the function waits for the stream and throws std::invalid_argument for the first NaN, after `out`
// has been written.
template <class Real, class Code>
void encode_on_device(const Real* in, Code* out, std::size_t n, const FloatFormat& format,
                      const Projection& projection, std::optional<std::uint64_t> nan_code,
                      std::uint64_t seed, CUstream_st* stream);

// Writes the values of codes. If Code has more bits than the format, the function waits for the
// stream and throws std::invalid_argument for the first code that is wider than the format.
template <class Code, class Real>
void decode_on_device(const Code* in, Real* out, std::size_t n, const FloatFormat& format,
                      bool keep_payload, CUstream_st* stream);

}  // namespace apscope::detail
